//! What it takes to wait for what was not foreseen.

use std::collections::VecDeque;

use crate::costs::ARM_NS;

/// Waits that are kept.
const KEPT: usize = 64;
/// Of these the longest ones that do not count: one in so many. One that is much longer than all others tells little.
const LONGEST: usize = 8;
/// One in so many is shorter than what is waited at least.
const SHORTER: usize = 4;

/// Who waits so seldom for an arm, one in so many times, reads in the order of the disk.
const SELDOM: usize = 8;

/// The last waits.
#[derive(Debug, Default)]
pub(crate) struct Waits(VecDeque<u64>);

impl Waits {
    /// One more, nanoseconds.
    pub(crate) fn add(&mut self, waited_ns: u64) {
        self.0.push_back(waited_ns);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    fn sorted(&self) -> Vec<u64> {
        let mut sorted: Vec<u64> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        sorted
    }

    /// The mean of the last ones less the longest eighth, nanoseconds.
    pub(crate) fn mean_ns(&self) -> u64 {
        let mut sorted = self.sorted();
        sorted.truncate((sorted.len() - sorted.len().div_ceil(LONGEST)).max(1));
        let sum = sorted.iter().fold(0_u64, |sum, wait_ns| sum.saturating_add(*wait_ns));
        sum / sorted.len().max(1) as u64
    }

    /// What a quarter of the last ones does not exceed, nanoseconds. A program waits longer than it would by itself behind what is
    /// read ahead, and for the first file of a directory as long as it takes to list that: these are among the others.
    pub(crate) fn least_ns(&self) -> u64 {
        self.sorted().get(self.count().saturating_sub(1) / SHORTER).copied().unwrap_or(0)
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// Waits while nothing was under way that tell what a program would wait by itself.
const ENOUGH_ALONE: usize = 3;

/// What the arm of a disk takes for a movement, from the waits of who reads small pieces, the shortest first; nanoseconds. No device
/// says whether it has one: many that have none are said to rotate. With an arm most pieces wait for a movement, which takes
/// milliseconds; the others are the next in order, and take none. A wait is longer where others were served before, so that of the
/// long ones a short one counts. 0 if no more than one in eight is long.
#[must_use]
pub fn movement_ns(waits_ns: &[u64]) -> u64 {
    let long = &waits_ns[waits_ns.partition_point(|&wait_ns| wait_ns < ARM_NS)..];
    if long.len() * SELDOM < waits_ns.len().max(SELDOM) {
        return 0;
    }
    long[(long.len() - 1) / SHORTER]
}

/// What a program waits for a file by itself, from what it waited for those that nobody had read ahead.
#[derive(Debug, Default)]
pub(crate) struct ByItself {
    all: Waits,
    /// Those while nothing was under way for anybody.
    alone: Waits,
    typical_ns: u64,
    mean_ns: u64,
    movement_ns: u64,
}

/// A wait, nanoseconds, and whether nothing was under way.
pub(crate) type Wait = (u64, bool);

impl ByItself {
    pub(crate) fn add(&mut self, (waited_ns, is_alone): Wait) {
        self.all.add(waited_ns);
        if is_alone {
            self.alone.add(waited_ns);
        }
        let is_known = self.alone.count() >= ENOUGH_ALONE;
        let alone_ns = if is_known { self.alone.least_ns() } else { u64::MAX };
        self.typical_ns = self.all.least_ns().min(alone_ns);
        self.mean_ns = self.all.mean_ns();
        self.movement_ns = movement_ns(&self.all.sorted());
    }

    /// What it waits for an arm to move, nanoseconds: who goes through small files half in the order in which they lie waits for less as
    /// a rule. 0 if it waits for none, as all waits but one in eight are shorter.
    pub(crate) fn movement_ns(&self) -> u64 {
        self.movement_ns
    }

    /// What a file costs it in the mean, nanoseconds.
    pub(crate) fn mean_ns(&self) -> u64 {
        self.mean_ns
    }

    /// So long, nanoseconds. Behind what is read ahead a program waits longer than it would by itself, on a disk with an arm several
    /// times as long.
    pub(crate) fn typical_ns(&self) -> u64 {
        self.typical_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waits_ns: impl IntoIterator<Item = u64>) -> Waits {
        let mut waits = Waits::default();
        waits_ns.into_iter().for_each(|wait_ns| waits.add(wait_ns));
        waits
    }

    #[test]
    fn the_longest_do_not_count() {
        assert_eq!([of([]), of([7]), of([7, u64::MAX])].map(|waits| waits.mean_ns()), [0, 7, 7]);
        let waits = of([u64::MAX; KEPT].into_iter().chain([3; KEPT]));
        assert_eq!((waits.mean_ns(), waits.count()), (3, KEPT));
    }

    #[test]
    fn who_waits_for_an_arm_now_and_then_has_one() {
        const MS: u64 = 1_000_000;
        let long = |waits_ms: &[u64]| {
            let mut waits: Vec<u64> = waits_ms.iter().map(|ms| ms * MS).collect();
            waits.sort_unstable();
            movement_ns(&waits) / MS
        };
        assert_eq!([&[][..], &[1; 9], &[12], &[1, 1, 1, 1, 1, 1, 14]].map(long), [0, 0, 12, 14]);
        assert_eq!([&[1, 1, 1, 1, 1, 1, 1, 1, 14][..], &[1, 1, 11, 17, 10, 30]].map(long), [0, 10]);
    }

    #[test]
    fn three_of_four_may_be_longer() {
        let least = |waits: &[u64]| of(waits.iter().copied()).least_ns();
        assert_eq!([&[][..], &[7], &[9, 7, 8, 9], &[9, 7, 8, 9, 9]].map(least), [0, 7, 7, 8]);
    }
}
