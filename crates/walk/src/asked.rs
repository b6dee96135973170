//! What was asked for, and what became of it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

/// Files that are given up and remembered; for one more, all are forgotten.
const LATE: usize = 4096;

/// Files that were asked for and have not come, by a hash of their paths: if two have the same, a guess is judged wrongly.
#[derive(Debug)]
pub(crate) struct Asked {
    hasher: RandomState,
    /// Visits within which a file that was asked for is used, or it was wrong to ask for it.
    visits: u64,
    /// When they were asked for, and whether they have been fetched since.
    pending: HashMap<u64, (u64, bool)>,
    /// The same, the oldest first, with those that have come since.
    order: VecDeque<(u64, u64)>,
    /// Files that did not come soon, and may come late: where several threads share a tree one leaves what the other
    /// comes to.
    late: HashSet<u64>,
}

/// What became of a file that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// It was not.
    Unasked,
    /// It came soon.
    Soon {
        /// It had been fetched from the device by then.
        was_fetched: bool,
    },
    /// It had been given up.
    Late,
}

impl Asked {
    /// Nothing was asked for. A guess that is not used within `visits` visits to files counts as wrong.
    pub(crate) fn within(visits: u64) -> Asked {
        Asked {
            hasher: RandomState::new(),
            visits,
            pending: HashMap::default(),
            order: VecDeque::default(),
            late: HashSet::default(),
        }
    }

    /// Asks for a file, if that was not done before.
    pub(crate) fn ask(&mut self, path: &Path, now: u64) -> bool {
        let hash = self.hasher.hash_one(path);
        if self.pending.contains_key(&hash) || self.late.contains(&hash) {
            return false;
        }
        self.pending.insert(hash, (now, false));
        self.order.push_back((now, hash));
        true
    }

    /// Whether a file has been asked for and has not come.
    pub(crate) fn knows(&self, path: &Path) -> bool {
        let hash = self.hasher.hash_one(path);
        self.pending.contains_key(&hash) || self.late.contains(&hash)
    }

    /// A file that was asked for has been read from the device.
    pub(crate) fn fetched(&mut self, path: &Path) {
        if let Some((_, was_fetched)) = self.pending.get_mut(&self.hasher.hash_one(path)) {
            *was_fetched = true;
        }
    }

    /// The program comes to a file.
    pub(crate) fn came(&mut self, path: &Path) -> Came {
        let hash = self.hasher.hash_one(path);
        if let Some((_, was_fetched)) = self.pending.remove(&hash) {
            return Came::Soon { was_fetched };
        }
        if self.late.remove(&hash) { Came::Late } else { Came::Unasked }
    }

    /// How many were asked for so long ago that they will not come. They are forgotten.
    pub(crate) fn given_up(&mut self, now: u64) -> u64 {
        let mut wrong = 0;
        while let Some(&(asked, hash)) = self.order.front().filter(|(asked, _)| asked + self.visits < now) {
            self.order.pop_front();
            if self.pending.get(&hash).is_some_and(|&(pending, _)| pending == asked) {
                self.pending.remove(&hash);
                if self.late.len() >= LATE {
                    self.late.clear();
                }
                self.late.insert(hash);
                wrong += 1;
            }
        }
        wrong
    }

    /// How many have been asked for and may come soon.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_in_time_was_wrong() {
        const VISITS: u64 = 256;
        let mut asked = Asked::within(VISITS);
        let [a, b] = ["/a", "/b"].map(Path::new);
        assert!(asked.ask(a, 1) && !asked.ask(a, 2) && asked.ask(b, 2));
        asked.fetched(a);
        assert_eq!([asked.came(a), asked.came(a)], [Came::Soon { was_fetched: true }, Came::Unasked]);
        assert_eq!(asked.given_up(2 + VISITS), 0);
        assert!(asked.ask(a, 2 + VISITS));
        assert_eq!((asked.given_up(3 + VISITS), asked.pending()), (1, 1));
        assert!(!asked.ask(b, 3 + VISITS), "it may be cached still");
        assert_eq!([asked.came(b), asked.came(b)], [Came::Late, Came::Unasked]);
        assert_eq!((asked.given_up(3 + 2 * VISITS), asked.pending()), (1, 0));
    }
}
