//! How long the process computes before each reference.
//!
//! The papers publish the total. Draws from a distribution of the given shape are rescaled so that they
//! add up to it to the nanosecond: the generator runs through the draws once for their sum, then again
//! to hand them out, so nothing is stored however long the workload is.

use super::random::Random;

/// Compute time before a reference of the workloads that no paper fixes: the mean of synth.
pub(super) const DEFAULT_COMPUTE_NS: u64 = 1_000_000;

/// How compute times are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// All alike.
    Constant,
    /// Uniform from half the mean to one and a half: the work on one block of much the same contents.
    Even,
    /// Exponential (synth: "according to a Poisson distribution").
    Exponential,
    /// Runs of times near 1 ms between runs of times near 7 ms (cscope3, Kimbrel et al. section 4.3).
    /// The share of slow references is what the published mean of 2.45 ms demands: (2.45 - 1) / 6.
    Runs,
}

/// Mean length in references of a run of short and of a run of long compute times. Their ratio gives the
/// share of slow references (24.2%); their size is unpublished: about a hundred references, several
/// times the prefetch horizon, so that no single F fits both kinds (which is what the paper observed).
const RUN_OF_SHORT: f64 = 313.0;
const RUN_OF_LONG: f64 = 100.0;
const SHORT_MS: f64 = 1.0;
const LONG_MS: f64 = 7.0;

#[derive(Debug, Clone)]
struct Draws {
    shape: Shape,
    random: Random,
    long: bool,
    run_left: f64,
}

impl Draws {
    fn draw(&mut self) -> f64 {
        match self.shape {
            Shape::Constant => 1.0,
            Shape::Even => 0.5 + self.random.unit(),
            Shape::Exponential => self.random.exponential(),
            Shape::Runs => {
                if self.run_left <= 0.0 {
                    self.long = !self.long;
                    let mean = if self.long { RUN_OF_LONG } else { RUN_OF_SHORT };
                    self.run_left = mean * (0.5 + self.random.unit());
                }
                self.run_left -= 1.0;
                let near = if self.long { LONG_MS } else { SHORT_MS };
                near * (0.8 + 0.4 * self.random.unit())
            }
        }
    }
}

/// The compute times of a workload, in the order of its references.
#[derive(Debug, Clone)]
pub(super) struct ComputeTimes {
    draws: Draws,
    ns_per_unit: f64,
    drawn: f64,
    given_ns: u64,
}

impl ComputeTimes {
    /// Times for `references` references that add up to `total_ns`.
    pub(super) fn new(shape: Shape, references: u64, total_ns: u64, seed: u64) -> ComputeTimes {
        let draws = Draws { shape, random: Random::new(seed, 1), long: true, run_left: 0.0 };
        let sum = if shape == Shape::Constant {
            references as f64
        } else {
            let mut again = draws.clone();
            (0..references).map(|_| again.draw()).sum()
        };
        let ns_per_unit = if sum > 0.0 { total_ns as f64 / sum } else { 0.0 };
        ComputeTimes { draws, ns_per_unit, drawn: 0.0, given_ns: 0 }
    }

    /// The next time. Rounds the running sum, not each time, so that errors do not add up.
    pub(super) fn next_ns(&mut self) -> u64 {
        self.drawn += self.draws.draw();
        let due_ns = (self.drawn * self.ns_per_unit).round() as u64;
        let ns = due_ns.saturating_sub(self.given_ns);
        self.given_ns = due_ns.max(self.given_ns);
        ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_every_shape_add_up_to_the_total() {
        for shape in [Shape::Constant, Shape::Even, Shape::Exponential, Shape::Runs] {
            let mut times = ComputeTimes::new(shape, 8867, 103_500_000_000, 3);
            let sum: u64 = (0..8867).map(|_| times.next_ns()).sum();
            assert_eq!(sum, 103_500_000_000, "{shape:?}");
        }
    }

    #[test]
    fn runs_are_near_1_and_7_ms() {
        let mut times = ComputeTimes::new(Shape::Runs, 30_200, 74_100_000_000, 1);
        let all: Vec<f64> = (0..30_200).map(|_| times.next_ns() as f64 / 1e6).collect();
        let long = all.iter().filter(|ms| **ms > 4.0).count() as f64 / all.len() as f64;
        assert!((0.2..0.29).contains(&long), "{long}");
        assert!(all.iter().all(|ms| (0.6..1.5).contains(ms) || (5.0..9.0).contains(ms)));
        let changes = all.windows(2).filter(|w| (w[0] > 4.0) != (w[1] > 4.0)).count();
        assert!((80..250).contains(&changes), "{changes}");
    }
}
