//! What it takes to wait for what was not foreseen.

use std::collections::VecDeque;

/// Waits that are kept, and of these the longest ones that do not count: one in so many. One that is much longer than all
/// others tells little.
const KEPT: usize = 64;
const LONGEST: usize = 8;

/// The last waits.
#[derive(Debug, Default)]
pub(crate) struct Waits(VecDeque<u64>);

impl Waits {
    /// One more; returns the mean of the last ones less the longest eighth, nanoseconds.
    pub(crate) fn typical_ns(&mut self, waited_ns: u64) -> u64 {
        self.0.push_back(waited_ns);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
        let mut sorted: Vec<u64> = self.0.iter().copied().collect();
        sorted.sort_unstable();
        sorted.truncate((sorted.len() - sorted.len().div_ceil(LONGEST)).max(1));
        let sum = sorted.iter().fold(0_u64, |sum, wait_ns| sum.saturating_add(*wait_ns));
        sum / sorted.len() as u64
    }

    /// How many are kept.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_do_not_count() {
        let mut waits = Waits::default();
        assert_eq!(waits.typical_ns(7), 7);
        assert_eq!(waits.typical_ns(u64::MAX), 7);
        for _ in 0..2 * KEPT {
            waits.typical_ns(3);
        }
        assert_eq!((waits.typical_ns(3), waits.0.len()), (3, KEPT));
    }
}
