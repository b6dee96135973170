//! What to do with a job.

use foretell_learn::is_worth_steering;
use serde::Serialize;

use super::forecast::{At, Forecast};
use super::profile::Profile;

/// Fewer bytes than one part in so many from devices: the rest was in memory.
const FROM_MEMORY: u64 = 10;
/// To be worth it, foretell must be so many times as fast as the kernel, and than the best setting of it.
const WORTH: f64 = 1.1;
const WORTH_TUNED: f64 = 1.05;

/// What would help.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "advice")]
pub(crate) enum Verdict {
    /// Nothing: what it reads is in memory already.
    Fits,
    /// Nothing: it waits too little.
    Computes,
    /// Nothing: it is as fast as it can be.
    NoGain,
    /// A setting of the kernel does as well.
    Tune {
        /// `read_ahead_kb`.
        read_ahead_kb: u32,
        /// How many times as fast.
        times: f64,
    },
    /// `foretell learn`.
    Learn {
        /// How many times as fast.
        times: f64,
    },
}

impl Verdict {
    /// What can be said without a forecast.
    pub(super) fn without_forecast(profile: &Profile, elapsed_s: f64, wait_s: f64) -> Option<Verdict> {
        if is_worth_steering(elapsed_s, wait_s) {
            return None;
        }
        let from_memory = profile.device_bytes < profile.distinct_bytes / FROM_MEMORY;
        Some(if from_memory && profile.read_bytes > 0 { Verdict::Fits } else { Verdict::Computes })
    }

    /// What the forecast says for the memory that there is.
    pub(super) fn of(forecast: &Forecast, free_bytes: Option<u64>) -> Verdict {
        let Some(at) = with(&forecast.by_memory, free_bytes) else { return Verdict::NoGain };
        let times = at.kernel_s / at.foretell_s;
        let (read_ahead_kb, tuned_s) = at.best_tuned();
        let tuned = at.kernel_s / tuned_s;
        if tuned >= WORTH && tuned_s <= at.foretell_s * WORTH_TUNED {
            Verdict::Tune { read_ahead_kb, times: tuned }
        } else if times >= WORTH {
            Verdict::Learn { times }
        } else {
            Verdict::NoGain
        }
    }
}

/// The step of the forecast that so much memory is enough for; the largest when it is not known.
pub(super) fn with(by_memory: &[At], free_bytes: Option<u64>) -> Option<&At> {
    let fits = |at: &&At| free_bytes.is_none_or(|free| at.memory_bytes <= free);
    by_memory.iter().rev().find(fits).or(by_memory.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(memory_bytes: u64, kernel_s: f64, tuned_s: f64, foretell_s: f64) -> At {
        At { memory_bytes, kernel_s, tuned_s: [kernel_s, tuned_s], foretell_s, best_s: 1.0 }
    }

    #[test]
    fn the_simplest_thing_that_helps_is_advised() {
        let verdict = |by_memory: &[At], free| Verdict::of(&Forecast { by_memory: by_memory.to_vec() }, free);
        let steps = [at(10, 9.0, 9.0, 3.0), at(20, 8.0, 3.1, 3.0), at(30, 3.0, 3.0, 3.0)];
        assert_eq!(verdict(&steps, Some(15)), Verdict::Learn { times: 3.0 });
        assert_eq!(verdict(&steps, Some(25)), Verdict::Tune { read_ahead_kb: 4096, times: 8.0 / 3.1 });
        assert_eq!(verdict(&steps, None), Verdict::NoGain);
        assert_eq!(verdict(&steps, Some(1)), Verdict::Learn { times: 3.0 }, "the least is what can be told");
        assert_eq!(verdict(&[], None), Verdict::NoGain);
    }

    #[test]
    fn what_does_not_wait_needs_no_forecast() {
        let profile =
            Profile { read_bytes: 100, distinct_bytes: 100, device_bytes: 100, ..Profile::default() };
        assert_eq!(Verdict::without_forecast(&profile, 10.0, 9.0), None);
        assert_eq!(Verdict::without_forecast(&profile, 10.0, 0.5), Some(Verdict::Computes));
        assert_eq!(Verdict::without_forecast(&profile, 100.0, 4.0), Some(Verdict::Computes));
        let cached = Profile { device_bytes: 5, ..profile };
        assert_eq!(Verdict::without_forecast(&cached, 10.0, 0.5), Some(Verdict::Fits));
    }
}
