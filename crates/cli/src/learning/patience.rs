//! How long steering may go on without a gain.
//!
//! What a job takes by itself is known. When a steered night has taken longer than that, and the job has not made as
//! many of its references as it should have by then, steering does more harm than good tonight, whatever the reason:
//! the device, another job, a list that is wrong. It ends, and the job goes on by itself. A job that has more to do
//! than on other nights has made its references by then.

use std::time::Duration;

/// Times what the job takes by itself.
const SHARE: f64 = 1.1;
/// And so much more: a short job ends before it is worth to judge it.
const LEAST: Duration = Duration::from_secs(1);

/// When to ask how far the job has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Patience {
    /// By then all references should have been made; `None` when it is not known what the job takes.
    all: Option<Duration>,
    references: u64,
    next: Duration,
}

impl Patience {
    /// For a job that takes so many seconds by itself and makes so many references.
    pub(super) fn new(by_itself_s: Option<f64>, references: u64) -> Patience {
        let all = by_itself_s.and_then(|s| Duration::try_from_secs_f64(s * SHARE).ok()).map(|s| s + LEAST);
        Patience { all, references, next: all.unwrap_or(Duration::MAX) }
    }

    /// Is steering to end after `elapsed`, when `made` says how many references the job has made? It is asked seldom.
    pub(super) fn is_over(&mut self, elapsed: Duration, made: impl FnOnce() -> u64) -> bool {
        let Some(all) = self.all.filter(|_| elapsed >= self.next) else { return false };
        self.next = elapsed + all / 10;
        let should = self.references as f64 * elapsed.as_secs_f64() / all.as_secs_f64();
        (made() as f64) < should
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn steering_ends_when_the_job_has_not_come_as_far_as_by_itself() {
        let mut patience = Patience::new(Some(10.0), 1000);
        assert!(!patience.is_over(11 * SECOND, || unreachable!("too early to ask")));
        let mut slow = patience;
        assert!(slow.is_over(12 * SECOND, || 999));
        // It has more to do tonight, and is quick: a thousand references in less than the usual time.
        assert!(!patience.is_over(12 * SECOND, || 3000));
        assert!(!patience.is_over(13 * SECOND, || unreachable!("asked a moment ago")));
        assert!(!patience.is_over(24 * SECOND, || 3000));
        assert!(patience.is_over(48 * SECOND, || 3100));
    }

    #[test]
    fn of_a_job_that_was_never_by_itself_nothing_is_said() {
        assert!(!Patience::new(None, 1000).is_over(3600 * SECOND, || 0));
    }
}
