//! Messages that may be sent on the socket.
//!
//! A service ends the session of a client that sends too many (4,096 a second and 16,384 after a pause unless
//! it is set up otherwise, `docs/limits.md`). A program that goes through thousands of small files would: each
//! needs a message to be made known, and one to be forgotten again. So the client stays below; what finds no
//! allowance is not said.

use std::time::Duration;

/// Messages a second.
const EACH_SECOND: u32 = 3072;
/// Messages saved up in a pause at most.
const SAVED: u32 = 8192;

/// A bucket that fills with time.
#[derive(Debug)]
pub(crate) struct Allowance {
    left: u32,
    filled: Duration,
}

impl Allowance {
    pub(crate) fn new(now: Duration) -> Allowance {
        Allowance { left: SAVED, filled: now }
    }

    /// Adds what the time since the last filling is worth.
    pub(crate) fn fill(&mut self, now: Duration) {
        let since = now.saturating_sub(self.filled);
        let more = since.as_millis() * u128::from(EACH_SECOND) / 1000;
        if more > 0 {
            let room = SAVED - self.left;
            self.left += u32::try_from(more).unwrap_or(room).min(room);
            self.filled = now;
        }
    }

    /// May so many be sent?
    pub(crate) fn has(&self, messages: usize) -> bool {
        messages <= self.left as usize
    }

    /// So many were sent.
    pub(crate) fn spend(&mut self, messages: usize) {
        self.left -= u32::try_from(messages).unwrap_or(self.left).min(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_pause_is_worth_a_burst_and_no_more() {
        let mut allowance = Allowance::new(at(0));
        assert!(allowance.has(SAVED as usize) && !allowance.has(SAVED as usize + 1));
        allowance.spend(SAVED as usize);
        assert!(!allowance.has(1));
        allowance.fill(at(1000));
        assert!(allowance.has(EACH_SECOND as usize) && !allowance.has(EACH_SECOND as usize + 1));
        allowance.fill(at(1_000_000));
        assert!(allowance.has(SAVED as usize) && !allowance.has(SAVED as usize + 1));
    }

    /// Whatever the steps, no second sees more than the rate.
    #[test]
    fn many_small_steps_are_worth_no_more_than_a_large_one() {
        let mut allowance = Allowance::new(at(0));
        allowance.spend(SAVED as usize);
        let mut sent = 0;
        for ms in 1..=10_000 {
            allowance.fill(at(ms));
            while allowance.has(1) {
                allowance.spend(1);
                sent += 1;
            }
        }
        assert_eq!(sent, 10_000 * (EACH_SECOND / 1000), "whole messages a millisecond");
    }
}
