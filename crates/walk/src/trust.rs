//! Whether guesses may go on: not if they have been wrong lately.

/// Guesses after which it is seen whether they were used.
const JUDGED: u64 = 128;
/// Guesses of which half are forgotten.
const FORGOTTEN: u64 = 1 << 10;
/// A pause after guesses that were wrong, in visits; each one is twice as long as the one before, up to the longest.
const PAUSE: u64 = 512;
const LONGEST_PAUSE: u64 = 1 << 20;

/// Guesses that were wrong more than once in four end in a pause.
#[derive(Debug)]
pub(crate) struct Trust {
    /// Guesses of which it has been judged whether they were good.
    used: u64,
    wrong: u64,
    pause: u64,
    paused_until: u64,
}

impl Default for Trust {
    fn default() -> Trust {
        Trust { used: 0, wrong: 0, pause: PAUSE, paused_until: 0 }
    }
}

impl Trust {
    /// Whether nothing is to be guessed at present, after so many that were used and wrong in all, and as many visits as the
    /// clock says.
    pub(crate) fn is_paused(&mut self, used_in_all: u64, wrong_in_all: u64, clock: u64) -> bool {
        let used = used_in_all.saturating_sub(self.used);
        let wrong = wrong_in_all.saturating_sub(self.wrong);
        if used + wrong >= JUDGED && wrong * 3 > used {
            self.paused_until = clock + self.pause;
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
            (self.used, self.wrong) = (used_in_all, wrong_in_all);
        } else if used + wrong >= FORGOTTEN {
            // Half of them, so that what was long ago counts less.
            self.used += used / 2;
            self.wrong += wrong / 2;
        }
        clock < self.paused_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_follow_wrong_guesses_and_grow() {
        let mut trust = Trust::default();
        assert!(!trust.is_paused(JUDGED, JUDGED / 4, 0));
        assert!(trust.is_paused(JUDGED, JUDGED, 0));
        assert!(trust.is_paused(JUDGED, JUDGED, PAUSE - 1) && !trust.is_paused(JUDGED, JUDGED, PAUSE));
        assert!(trust.is_paused(JUDGED, 2 * JUDGED, PAUSE));
        assert!(!trust.is_paused(JUDGED, 2 * JUDGED, 3 * PAUSE), "twice as long");
    }
}
