//! Programs that go through a directory: `cp -r`, `grep -r`, `tar` open its files in the order in which it lists them.
//!
//! Who has opened three files that follow each other in a listing is taken to go on so, and the next ones are fetched ahead: as many as
//! were opened in a row, and of each as much as was read of those, so that never more is fetched in vain than was read. Files
//! that are passed over do not end a row, as long as they are few: others read them, or their names say that they are of no use.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Directories that are gone through at a time; of more the one that was looked at longest ago is forgotten.
const MOST_WALKS: usize = 64;
/// Files in a row from which on the next ones are fetched ahead.
const ROW: usize = 3;
/// Files that may be passed over between two of a row.
const PASSED: usize = 3;
/// Files ahead at most: more than a pool fetches ahead of small ones.
const MOST_AHEAD: usize = 1024;

/// The directories that are gone through.
#[derive(Default)]
pub(crate) struct Walks {
    by_directory: HashMap<Arc<str>, Walk>,
    looked_at: u64,
}

/// One of them. Places are those in its listing.
struct Walk {
    /// The place after the last one that was opened.
    next: usize,
    /// Files that were opened in a row.
    row: usize,
    /// Up to here they are told.
    told: usize,
    /// How far the last one was read, and how long it is.
    last: (u64, u64),
    /// How far any of the row was read, but for the last one; all of them, if each was.
    reach: u64,
    looked_at: u64,
}

/// What follows from a file that was opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    Nothing,
    /// These come next, so many bytes of each.
    Next(Range<usize>, u64),
    /// What was told does not come.
    Withdraw,
}

impl Walks {
    /// A file of a directory was opened, at this place of so many in its listing, which is so long.
    pub(crate) fn opened(&mut self, directory: &Arc<str>, at: usize, of: usize, length: u64) -> Guess {
        self.looked_at += 1;
        let looked_at = self.looked_at;
        if self.by_directory.len() >= MOST_WALKS && !self.by_directory.contains_key(directory) {
            let oldest = self.by_directory.iter().min_by_key(|(_, walk)| walk.looked_at);
            if let Some(oldest) = oldest.map(|(directory, _)| directory.clone()) {
                self.by_directory.remove(&oldest);
            }
        }
        let new = || Walk { next: at, row: 0, told: 0, last: (0, length), reach: 0, looked_at };
        let walk = self.by_directory.entry(directory.clone()).or_insert_with(new);
        walk.looked_at = looked_at;
        if at + 1 == walk.next {
            // Once more.
            return Guess::Nothing;
        }
        let goes_on = (walk.next..=walk.next + PASSED).contains(&at);
        let is_told = walk.told > walk.next;
        walk.next = at + 1;
        let (read, its) = std::mem::replace(&mut walk.last, (0, length));
        if !goes_on {
            (walk.row, walk.told, walk.reach) = (1, 0, 0);
            return if is_told { Guess::Withdraw } else { Guess::Nothing };
        }
        // As long as each is read whole, the next ones are, however long they are.
        walk.reach = match walk.reach {
            reach if read < its => {
                if reach == u64::MAX {
                    read
                } else {
                    reach.max(read)
                }
            }
            0 if walk.row == 1 => u64::MAX,
            reach => reach.max(read),
        };
        walk.row += 1;
        let ahead = walk.row.min(MOST_AHEAD);
        let from = walk.told.max(walk.next);
        let to = (walk.next + ahead).min(of);
        // A list is told once half of the last one has been read.
        if walk.row < ROW || (from - walk.next) * 2 > ahead || from >= to {
            return Guess::Nothing;
        }
        walk.told = to;
        Guess::Next(from..to, walk.reach)
    }

    /// The last file of a directory that was opened is read up to there.
    pub(crate) fn read(&mut self, directory: &str, to: u64) {
        if let Some(walk) = self.by_directory.get_mut(directory) {
            walk.last.0 = walk.last.0.max(to);
        }
    }

    /// What was told was withdrawn, all of it.
    pub(crate) fn forget_told(&mut self) {
        self.by_directory.values_mut().for_each(|walk| walk.told = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(
        walks: &mut Walks,
        directory: &str,
        order: impl IntoIterator<Item = usize>,
    ) -> (Vec<usize>, usize) {
        let (mut told, mut withdrawn) = (Vec::new(), 0);
        for at in order {
            match walks.opened(&directory.into(), at, 1000, 100) {
                Guess::Nothing => {}
                Guess::Next(next, bytes) => {
                    assert_eq!(bytes, u64::MAX);
                    told.extend(next);
                }
                Guess::Withdraw => {
                    walks.forget_told();
                    withdrawn += 1;
                }
            }
            walks.read(directory, 100);
        }
        (told, withdrawn)
    }

    #[test]
    fn a_row_is_told_once_and_never_further_than_it_is_long() {
        let mut walks = Walks::default();
        let mut all = Vec::new();
        for at in 0..1000 {
            let (some, withdrawn) = told(&mut walks, "d", [at]);
            all.extend(some);
            assert_eq!(withdrawn, 0);
            // Ahead no more than were opened, and all of them in order from the fourth on.
            let ahead = all.last().map_or(0, |last| last - at);
            assert!(ahead <= at + 1, "{ahead} ahead at {at}");
            assert!(at < ROW || all.contains(&at), "{at}");
        }
        assert_eq!(all, (ROW..1000).collect::<Vec<_>>());
    }

    #[test]
    fn of_the_next_files_as_much_is_told_as_was_read_of_the_last() {
        let mut walks = Walks::default();
        let mut bytes = Vec::new();
        // Whole ones, then the beginnings of some.
        for at in 0..20 {
            if let Guess::Next(_, of_each) = walks.opened(&"d".into(), at, 1000, 1000 + at as u64) {
                bytes.push(of_each);
            }
            walks.read("d", if at < 10 { 1000 + at as u64 } else { 64 });
        }
        assert_eq!(bytes[0], u64::MAX);
        assert!(bytes.last().is_some_and(|&last| last <= 64), "{bytes:?}");
        let (mut walks, mut heads) = (Walks::default(), Vec::new());
        for at in 0..20 {
            if let Guess::Next(_, of_each) = walks.opened(&"d".into(), at, 1000, 1 << 30) {
                heads.push(of_each);
            }
            walks.read("d", 4096);
        }
        assert!(!heads.is_empty() && heads.iter().all(|&of_each| of_each == 4096), "{heads:?}");
    }

    #[test]
    fn any_other_order_is_not_guessed_and_a_row_that_breaks_is_withdrawn() {
        let mut walks = Walks::default();
        let shuffled = (0..1000).map(|at| at * 619 % 1000);
        assert_eq!(told(&mut walks, "d", shuffled), (Vec::new(), 0));
        let backwards = (0..1000).rev();
        assert_eq!(told(&mut walks, "e", backwards), (Vec::new(), 0));
        let (next, withdrawn) = told(&mut walks, "f", [0, 1, 2, 2, 3, 500, 600, 4]);
        assert!(!next.is_empty() && withdrawn == 1, "{next:?}");
    }

    #[test]
    fn few_that_are_passed_over_do_not_end_a_row() {
        let mut walks = Walks::default();
        let (next, withdrawn) = told(&mut walks, "d", (0..100).map(|at| at * 3));
        assert_eq!(withdrawn, 0);
        assert!((30..100).all(|at| next.contains(&(at * 3))));
    }

    #[test]
    fn no_more_directories_are_known_than_may_be() {
        let mut walks = Walks::default();
        for at in 0..3 * MOST_WALKS {
            told(&mut walks, &at.to_string(), 0..5);
        }
        assert_eq!(walks.by_directory.len(), MOST_WALKS);
    }
}
