//! A rate limit with a burst, in exact integer arithmetic.
//!
//! Tokens flow in at a rate up to a burst; a request takes as many as it needs and goes on when they are
//! there. Instead of a level the bucket keeps the instant at which it would be full again: taking tokens
//! moves that instant on, and the request must wait while it is further ahead than the burst lasts (the
//! generic cell rate algorithm, ITU-T I.371). Instants are counted in 1/rate ns, so nothing is rounded
//! and a bucket never drifts.

/// A bucket of tokens: operations or bytes.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate_per_s: u64,
    burst: u64,
    /// When the bucket would be full again, in 1/rate ns.
    full_at: u128,
}

/// One second in ns: a token costs this many units of 1/rate ns.
const SECOND_NS: u128 = 1_000_000_000;

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains `rate_per_s` tokens a second (at least 1). With a burst
    /// of 0 it spaces requests evenly: each one is ready when its own tokens have flowed in.
    #[must_use]
    pub fn new(rate_per_s: u64, burst: u64) -> TokenBucket {
        TokenBucket { rate_per_s: rate_per_s.max(1), burst, full_at: 0 }
    }

    /// Takes `tokens` at `now_ns` and says when they are there. Tokens are granted in the order asked for;
    /// more than the burst can be asked for.
    pub fn take(&mut self, now_ns: u64, tokens: u64) -> u64 {
        let rate = u128::from(self.rate_per_s);
        let now = u128::from(now_ns) * rate;
        self.full_at = self.full_at.max(now) + u128::from(tokens) * SECOND_NS;
        let ready = self.full_at.saturating_sub(u128::from(self.burst) * SECOND_NS);
        u64::try_from(ready.max(now).div_ceil(rate)).unwrap_or(u64::MAX)
    }

    /// Tokens in the bucket at `now_ns`, whole ones; 0 while requests wait.
    #[must_use]
    pub fn level(&self, now_ns: u64) -> u64 {
        let missing = self.full_at.saturating_sub(u128::from(now_ns) * u128::from(self.rate_per_s));
        let level = (u128::from(self.burst) * SECOND_NS).saturating_sub(missing) / SECOND_NS;
        u64::try_from(level).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut bucket = TokenBucket::new(10, 3);
        let ready: Vec<u64> = (0..6).map(|_| bucket.take(0, 1)).collect();
        assert_eq!(ready, [0, 0, 0, 100_000_000, 200_000_000, 300_000_000]);
    }

    #[test]
    fn an_idle_bucket_fills_up_to_the_burst() {
        let mut bucket = TokenBucket::new(10, 3);
        assert_eq!(bucket.take(0, 3), 0);
        assert_eq!((bucket.level(0), bucket.level(250_000_000), bucket.level(9_000_000_000)), (0, 2, 3));
        assert_eq!(bucket.take(250_000_000, 2), 250_000_000);
        assert_eq!(bucket.take(250_000_000, 1), 300_000_000);
    }

    #[test]
    fn more_than_the_burst_waits_for_the_difference() {
        let mut bucket = TokenBucket::new(1000, 4000);
        assert_eq!(bucket.take(0, 5000), 1_000_000_000);
    }

    #[test]
    fn without_a_burst_requests_are_spaced() {
        let mut bucket = TokenBucket::new(4, 0);
        assert_eq!((bucket.take(0, 1), bucket.take(0, 1)), (250_000_000, 500_000_000));
    }

    #[test]
    fn thirds_of_a_second_do_not_drift() {
        let mut bucket = TokenBucket::new(3, 0);
        let last = (0..3_000_000).map(|_| bucket.take(0, 1)).last();
        assert_eq!(last, Some(1_000_000 * 1_000_000_000));
    }
}
