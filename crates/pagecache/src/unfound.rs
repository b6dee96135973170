//! Files that were seen to be used and could not be found.
//!
//! Most of them have been closed again before we came: those are gone. Some are only on their way. While an overlay
//! copies a file up, at the request of a program that opens it for writing, the program is seen to read and write an
//! inode that it does not have open yet. So what was not found is looked for again, after a while that doubles each
//! time: what comes to be after some time is found before as much time has passed again, and what never comes costs
//! next to nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::observe::FileKey;

/// Files that are looked for again; of a further one the next use is that after new rules have come.
pub(crate) const UNFOUND: usize = 1024;
/// The first pause, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
    /// It has been over: the next use of the file shows whether it is found.
    over: bool,
}

/// Files that could not be found.
#[derive(Debug, Default)]
pub(crate) struct Unfound {
    pauses: HashMap<FileKey, Pause>,
    /// No pause is over before.
    next: Option<Instant>,
}

impl Unfound {
    /// A file was not found; it is not looked for until it is due.
    pub(crate) fn missed(&mut self, key: FileKey, now: Instant) {
        if self.pauses.len() >= UNFOUND && !self.pauses.contains_key(&key) {
            // Those that nobody has used since make room.
            self.pauses.retain(|_, pause| !pause.over);
            if self.pauses.len() >= UNFOUND {
                return;
            }
        }
        let before = self.pauses.get(&key).map(|pause| pause.length);
        let length = before.map_or(FIRST_PAUSE, |length| LONGEST_PAUSE.min(2 * length));
        let until = now + length;
        self.pauses.insert(key, Pause { until, length, over: false });
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
    }

    /// It was found, or nobody wants it.
    pub(crate) fn found(&mut self, key: FileKey) {
        self.pauses.remove(&key);
    }

    /// Those that are to be looked for at their next use, each once.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<FileKey> {
        if self.next.is_none_or(|next| next > now) {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (key, pause) in &mut self.pauses {
            if !pause.over && pause.until <= now {
                pause.over = true;
                due.push(*key);
            }
        }
        self.next = self.pauses.values().filter(|pause| !pause.over).map(|pause| pause.until).min();
        due.sort_unstable();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileKey = FileKey { dev: 1, ino: 1 };

    #[test]
    fn a_file_is_looked_for_after_pauses_that_double() {
        let start = Instant::now();
        let mut unfound = Unfound::default();
        let mut now = start;
        for length in [5, 10, 20, 40] {
            unfound.missed(A, now);
            now += Duration::from_millis(length);
            assert_eq!(unfound.due(now - Duration::from_millis(1)), []);
            assert_eq!(unfound.due(now), [A]);
            assert_eq!(unfound.due(now + LONGEST_PAUSE), [], "once");
        }
        (0..20).for_each(|_| unfound.missed(A, now));
        assert_eq!(unfound.due(now + LONGEST_PAUSE), [A], "no longer than this");
        unfound.found(A);
        unfound.missed(A, now);
        assert_eq!(unfound.due(now + FIRST_PAUSE), [A], "from the beginning");
    }

    #[test]
    fn beyond_the_limit_those_that_nobody_uses_make_room() {
        let now = Instant::now();
        let mut unfound = Unfound::default();
        (0..=UNFOUND as u64).for_each(|ino| unfound.missed(FileKey { dev: 1, ino }, now));
        assert_eq!(unfound.due(now + FIRST_PAUSE).len(), UNFOUND, "one more is not taken");
        let further = FileKey { dev: 2, ino: 1 };
        unfound.missed(further, now);
        assert_eq!(unfound.due(now + FIRST_PAUSE), [further]);
        assert_eq!(unfound.pauses.len(), 1);
    }
}
