//! What the observer has lost, after which what is cached is looked up anew.
//!
//! On Linux 7.0 and later something may be lost every few milliseconds, and what always begins again does not come to its end.
//! So it begins once a second at most, and nothing that was lost is forgotten.
//!
//! What was lost is counted before the ring is read, and looked up when that has been read to its end. Counted after it, what was
//! lost could be later than something that has come into the ring meanwhile: a page that was removed, which is told, and added
//! again, which was lost. The look would find it, and then the removal would be believed for ever.

use std::time::{Duration, Instant};

/// Time between two beginnings.
const BETWEEN: Duration = Duration::from_secs(1);

/// Observations that were lost.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    all: u64,
    /// Something was lost since it was last begun.
    is_due: bool,
    /// When that was.
    begun: Option<Instant>,
}

impl Losses {
    /// So many have been lost by now, and the ring is read next.
    pub(crate) fn count(&mut self, all: u64) {
        self.is_due |= all != self.all;
        self.all = all;
    }

    /// The ring has been read to its end. Is it time to look up anew what is cached? It is taken to be begun then.
    pub(crate) fn call_for_a_look(&mut self) -> bool {
        if !self.is_due || self.begun.is_some_and(|begun| begun.elapsed() < BETWEEN) {
            return false;
        }
        self.is_due = false;
        self.begun = Some(Instant::now());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_begins_at_once_and_then_once_a_second() {
        let mut losses = Losses::default();
        let look = |losses: &mut Losses, all| {
            losses.count(all);
            losses.call_for_a_look()
        };
        assert!(!look(&mut losses, 0));
        assert!(look(&mut losses, 1));
        assert!(!look(&mut losses, 1) && !look(&mut losses, 2) && !look(&mut losses, 2));
        losses.begun = losses.begun.and_then(|begun| begun.checked_sub(BETWEEN));
        assert!(look(&mut losses, 2), "what was lost meanwhile is not forgotten");
        losses.begun = None;
        assert!(!look(&mut losses, 2));
    }
}
