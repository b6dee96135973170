//! The budget follows the memory that there is.
//!
//! A budget is a promise about memory that others may need: the job itself, its neighbours. When the kernel is short
//! it drops pages of the managed files, and each of them is fetched again by the policy, which believes that it has
//! room: the budget is too large. So what leaves the cache without our asking makes the budget smaller by as much, and
//! after a while without such losses it grows back, slowly (additive increase, multiplicative decrease, as TCP shares a
//! line: Jacobson 1988).

use std::time::{Duration, Instant};

/// Losses in one interval that are not taken for pressure: a share of the budget, one part in so many.
const SLACK_SHARE: u32 = 256;
/// How long nothing must have been lost before the budget grows.
const CALM: Duration = Duration::from_secs(2);
/// What it grows by at a time: one part of the budget in so many. Forty steps lead from nothing to all.
const GROWTH_SHARE: u32 = 40;
/// The budget never falls below this share of what was given: one part in so many.
const LEAST_SHARE: u32 = 16;

/// How many blocks may be cached at present.
#[derive(Debug)]
pub(crate) struct Pressure {
    given: u32,
    now: u32,
    lost: u32,
    last_loss: Instant,
}

impl Pressure {
    pub(crate) fn new(budget_blocks: u32, now: Instant) -> Pressure {
        Pressure { given: budget_blocks, now: budget_blocks, lost: 0, last_loss: now }
    }

    /// Blocks left the cache, and nobody of ours has asked for it.
    pub(crate) fn lost(&mut self, blocks: u32) {
        self.lost = self.lost.saturating_add(blocks);
    }

    /// The end of an interval, with `cached` blocks in the cache: the new budget, if it changes.
    pub(crate) fn tend(&mut self, cached: u32, now: Instant) -> Option<u32> {
        let lost = std::mem::take(&mut self.lost);
        let before = self.now;
        if lost > self.given / SLACK_SHARE {
            self.last_loss = now;
            // What is cached now is what there is room for, with a margin as large as the last loss.
            let room = cached.saturating_sub(lost / 2).min(self.now.saturating_sub(lost));
            self.now = room.max(self.given / LEAST_SHARE).max(1);
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
        let mut pressure = Pressure::new(10_000, start);
        pressure.lost(39);
        assert_eq!(pressure.tend(9_000, at(100)), None, "a few pages are no pressure");
        pressure.lost(1_000);
        assert_eq!(pressure.tend(8_500, at(200)), Some(8_000));
        assert_eq!(pressure.tend(8_000, at(300)), None);
        assert_eq!(pressure.tend(8_000, at(2_300)), Some(8_250));
        for step in 0..20 {
            pressure.tend(8_000, at(5_000 + 2_000 * step));
        }
        assert_eq!(pressure.now, 10_000, "never more than was given");
    }

    #[test]
    fn a_part_stays_whatever_is_lost() {
        let start = Instant::now();
        let mut pressure = Pressure::new(1_600, start);
        pressure.lost(u32::MAX);
        assert_eq!(pressure.tend(0, start), Some(100));
    }
}
