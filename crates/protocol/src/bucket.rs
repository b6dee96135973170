//! A rate with a burst: how many messages may be sent, on both sides of the socket.
//!
//! Instead of a level a bucket keeps the instant at which it would be full again, in units of 1/rate ns: taking moves that
//! instant on (the generic cell rate algorithm, ITU-T I.371). So nothing is rounded, however often it is asked.

use std::time::Duration;

/// One second: what a token costs, in 1/rate ns.
const SECOND_NS: u128 = 1_000_000_000;

/// A bucket of tokens that fills with time.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    rate_per_s: u128,
    burst: u128,
    full_at: u128,
}

impl Bucket {
    /// A full bucket of `burst` tokens that gains `rate_per_s` a second (at least one).
    #[must_use]
    pub fn new(rate_per_s: u32, burst: u32) -> Bucket {
        Bucket { rate_per_s: u128::from(rate_per_s.max(1)), burst: burst.into(), full_at: 0 }
    }

    /// Are so many in it? `now` is the time since some instant that is always the same.
    #[must_use]
    pub fn holds(&self, tokens: u32, now: Duration) -> bool {
        let missing = self.full_at.saturating_sub(now.as_nanos() * self.rate_per_s);
        missing + u128::from(tokens) * SECOND_NS <= self.burst * SECOND_NS
    }

    /// Takes so many; `false`, and nothing is taken, when they are not in it.
    pub fn take(&mut self, tokens: u32, now: Duration) -> bool {
        let holds = self.holds(tokens, now);
        if holds {
            self.full_at =
                self.full_at.max(now.as_nanos() * self.rate_per_s) + u128::from(tokens) * SECOND_NS;
        }
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bucket: &mut Bucket, now: Duration) -> usize {
        std::iter::from_fn(|| bucket.take(1, now).then_some(())).count()
    }

    #[test]
    fn it_fills_again_and_no_more_than_the_burst() {
        let start = Duration::from_secs(1_000_000);
        let mut bucket = Bucket::new(10, 3);
        assert_eq!(taken(&mut bucket, start), 3);
        assert_eq!(taken(&mut bucket, start + Duration::from_millis(250)), 2);
        assert_eq!(taken(&mut bucket, start + Duration::from_millis(300)), 1, "with the half that was left");
        assert_eq!(taken(&mut bucket, start + Duration::from_secs(60)), 3);
        assert!(!bucket.take(4, start + Duration::from_secs(90)));
        assert!(bucket.take(3, start + Duration::from_secs(90)), "what was not there was not taken");
        assert!(!bucket.take(1, start), "a clock that goes back gives nothing");
    }

    /// Whatever the steps, as many as the rate says.
    #[test]
    fn many_small_steps_are_worth_a_large_one() {
        let mut bucket = Bucket::new(3072, 8192);
        assert!(bucket.take(8192, Duration::ZERO));
        let sent: usize = (1..=10_000).map(|ms| taken(&mut bucket, Duration::from_millis(ms))).sum();
        assert_eq!(sent, 30_720);
    }
}
