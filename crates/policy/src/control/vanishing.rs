//! What goes before it is used, and nobody here gave up.
//!
//! Some programs have the kernel drop a file before they read it (`POSIX_FADV_DONTNEED`, posix_fadvise(2)), others delete
//! what a list names, and where memory is shorter than it was said to be the kernel takes what nobody has used first.
//! Whatever is fetched ahead then is read twice. So of what was fetched ahead and has been used, or has gone, it is
//! counted how much went. Where three of four go, nothing is fetched ahead for a while; each such pause is twice as long as
//! the one before, until most of what is fetched is used again. What happens during a pause does not count: it is about what was
//! fetched before, and somebody may have dropped all of that at once.

use crate::ids::Nanos;

/// Blocks from which on it is judged: half a MiB of 8 KiB.
const JUDGED: u16 = 64;

/// Blocks of which half are forgotten.
const FORGOTTEN: u16 = 512;

/// So many go for each that is used, or more, where nothing is fetched ahead.
const GONE_FOR_USED: u16 = 3;

/// The first pause, and the longest: who reads ahead for two seconds of an hour in vain wastes nothing.
const FIRST_PAUSE: Nanos = Nanos(1_000_000_000);
const LONGEST_PAUSE: Nanos = Nanos(64_000_000_000);

/// One manager's blocks that were fetched ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vanishing {
    used: u16,
    gone: u16,
    pause: Nanos,
    paused_until: Nanos,
}

impl Default for Vanishing {
    fn default() -> Vanishing {
        Vanishing { used: 0, gone: 0, pause: FIRST_PAUSE, paused_until: Nanos(0) }
    }
}

impl Vanishing {
    /// A block is used.
    #[inline]
    pub(super) fn used(&mut self) {
        self.used += 1;
        if self.used >= JUDGED && self.used / GONE_FOR_USED > self.gone {
            self.pause = FIRST_PAUSE;
        }
        self.forget();
    }

    /// A block has gone without.
    pub(super) fn gone(&mut self) {
        self.gone += 1;
        self.forget();
    }

    fn forget(&mut self) {
        if self.used + self.gone >= FORGOTTEN {
            self.used /= 2;
            self.gone /= 2;
        }
    }

    /// Is nothing to be fetched ahead at present?
    pub(super) fn is_paused(&mut self, now: Nanos) -> bool {
        if now < self.paused_until {
            (self.used, self.gone) = (0, 0);
            return true;
        }
        if self.gone >= JUDGED && self.gone / GONE_FOR_USED >= self.used {
            self.paused_until = Nanos(now.0.saturating_add(self.pause.0));
            self.pause = Nanos(self.pause.0 * 2).min(LONGEST_PAUSE);
            (self.used, self.gone) = (0, 0);
        }
        now < self.paused_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(vanishing: &mut Vanishing, times: u16, what: fn(&mut Vanishing)) {
        (0..times).for_each(|_| what(vanishing));
    }

    #[test]
    fn pauses_follow_what_has_gone_and_grow() {
        let mut vanishing = Vanishing::default();
        times(&mut vanishing, JUDGED - 1, Vanishing::gone);
        assert!(!vanishing.is_paused(Nanos(0)), "too few");
        vanishing.gone();
        assert!(vanishing.is_paused(Nanos(0)) && vanishing.is_paused(Nanos(999_999_999)));
        assert!(!vanishing.is_paused(Nanos(1_000_000_000)));
        times(&mut vanishing, JUDGED, Vanishing::gone);
        assert!(vanishing.is_paused(Nanos(1_000_000_000)) && vanishing.is_paused(Nanos(2_999_999_999)));
        assert!(!vanishing.is_paused(Nanos(3_000_000_000)), "twice as long");
        times(&mut vanishing, JUDGED, Vanishing::used);
        times(&mut vanishing, 2 * JUDGED, Vanishing::gone);
        assert!(!vanishing.is_paused(Nanos(3_000_000_000)), "one of three was used");
        times(&mut vanishing, JUDGED, Vanishing::gone);
        assert!(
            vanishing.is_paused(Nanos(3_000_000_000)) && !vanishing.is_paused(Nanos(4_000_000_000)),
            "as at first"
        );
    }

    #[test]
    fn what_goes_during_a_pause_is_no_reason_for_a_longer_one() {
        let mut vanishing = Vanishing::default();
        for _ in 0..100 {
            times(&mut vanishing, JUDGED, Vanishing::gone);
            assert!(vanishing.is_paused(Nanos(0)));
        }
        assert!(!vanishing.is_paused(FIRST_PAUSE));
    }

    #[test]
    fn pauses_and_counts_have_their_limits() {
        let mut vanishing = Vanishing::default();
        times(&mut vanishing, u16::MAX, Vanishing::used);
        times(&mut vanishing, u16::MAX, Vanishing::gone);
        let mut now = Nanos(0);
        for _ in 0..20 {
            times(&mut vanishing, JUDGED, Vanishing::gone);
            assert!(vanishing.is_paused(now));
            now = vanishing.paused_until;
        }
        assert_eq!(vanishing.pause, LONGEST_PAUSE);
        assert!(!vanishing.is_paused(Nanos(u64::MAX)));
        times(&mut vanishing, JUDGED, Vanishing::gone);
        assert!(!vanishing.is_paused(Nanos(u64::MAX)), "the end of time");
    }
}
