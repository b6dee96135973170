//! The budget follows the memory that there is.
//!
//! A budget is a promise about memory that others may need: the job itself, its neighbours. When the kernel is short
//! it drops pages of the managed files, and the policy, which believes that it has room, fetches them again. So when
//! much of what is fetched goes without our asking, the budget becomes what is cached still, less a margin; and after a
//! while without such losses it grows back, slowly (additive increase, multiplicative decrease, as TCP shares a line:
//! Jacobson 1988).
//!
//! A few pages always go: in a memory cgroup that is full, each page that comes makes the kernel look for some to drop.
//! That is no reason to give up memory, so losses count by what was fetched meanwhile.

use std::time::{Duration, Instant};

/// Losses in one interval that are never taken for pressure: a share of the budget, one part in so many.
const SLACK_SHARE: u32 = 256;
/// Of what was fetched in an interval so much may be lost: one part in so many.
const LOST_SHARE: u64 = 32;
/// The margin that is left when the budget shrinks: one part of what was given in so many.
const MARGIN_SHARE: u32 = 64;
/// How long nothing must have been lost before the budget grows.
const CALM: Duration = Duration::from_secs(1);
/// What it grows by at a time: one part of what was given in so many.
const GROWTH_SHARE: u32 = 32;
/// The budget never falls below this share of what was given: one part in so many.
const LEAST_SHARE: u32 = 4;

/// How many blocks may be cached at present.
#[derive(Debug)]
pub(crate) struct Pressure {
    given: u32,
    now: u32,
    lost: u32,
    /// All fetches up to the last interval.
    fetched: u64,
    last_loss: Instant,
}

impl Pressure {
    pub(crate) fn new(budget_blocks: u32, now: Instant) -> Pressure {
        Pressure { given: budget_blocks, now: budget_blocks, lost: 0, fetched: 0, last_loss: now }
    }

    /// Blocks left the cache, and nobody of ours has asked for it.
    pub(crate) fn lost(&mut self, blocks: u32) {
        self.lost = self.lost.saturating_add(blocks);
    }

    /// The end of an interval, with `cached` blocks in the cache and `fetched` blocks fetched since the beginning: the
    /// new budget, if it changes.
    pub(crate) fn tend(&mut self, cached: u32, fetched: u64, now: Instant) -> Option<u32> {
        let lost = std::mem::take(&mut self.lost);
        let came = fetched.saturating_sub(std::mem::replace(&mut self.fetched, fetched));
        let before = self.now;
        if lost > self.given / SLACK_SHARE && u64::from(lost) > came / LOST_SHARE {
            self.last_loss = now;
            let room = self.now.min(cached).saturating_sub(self.given / MARGIN_SHARE);
            self.now = room.max(self.given / LEAST_SHARE).max(1).min(self.now);
        } else if self.now < self.given && now.duration_since(self.last_loss) >= CALM {
            self.last_loss = now;
            self.now = self.given.min(self.now.saturating_add((self.given / GROWTH_SHARE).max(1)));
        }
        (self.now != before).then_some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_make_the_budget_smaller_and_calm_makes_it_grow() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pressure = Pressure::new(6_400, start);
        pressure.lost(25);
        assert_eq!(pressure.tend(6_000, 0, at(100)), None, "a few pages are no pressure");
        pressure.lost(1_000);
        assert_eq!(pressure.tend(5_000, 100, at(200)), Some(4_900), "what is left, less a margin of 100");
        assert_eq!(pressure.tend(4_900, 200, at(300)), None);
        assert_eq!(pressure.tend(4_900, 300, at(1_300)), Some(5_100));
        for step in 0..20 {
            pressure.tend(4_900, 300, at(5_000 + 1_000 * step));
        }
        assert_eq!(pressure.now, 6_400, "never more than was given");
    }

    #[test]
    fn what_is_lost_of_much_that_comes_is_no_pressure() {
        let start = Instant::now();
        let mut pressure = Pressure::new(6_400, start);
        pressure.lost(100);
        assert_eq!(pressure.tend(6_300, 3_200, start), None);
        pressure.lost(100);
        assert_eq!(pressure.tend(6_300, 3_300, start), Some(6_200));
    }

    #[test]
    fn a_part_stays_whatever_is_lost() {
        let start = Instant::now();
        let mut pressure = Pressure::new(1_600, start);
        pressure.lost(u32::MAX);
        assert_eq!(pressure.tend(0, 0, start), Some(400));
    }
}
