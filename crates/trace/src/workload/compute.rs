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
    /// Runs of short times between runs of long ones: an application that skims some blocks and works on
    /// others. Runs of several times the prefetch horizon make a fixed horizon stall where the mean would
    /// not, and no single F fit both kinds (Kimbrel et al. 1996, section 4.3, observe it of cscope3).
    Runs {
        /// Mean length of a run of short times, in references.
        short: f64,
        /// Mean length of a run of long times, in references.
        long: f64,
        /// How many times as long the long times are.
        times: f64,
    },
}

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
            Shape::Runs { short, long, times } => {
                if self.run_left <= 0.0 {
                    self.long = !self.long;
                    let mean = if self.long { long } else { short };
                    self.run_left = mean * (0.5 + self.random.unit());
                }
                self.run_left -= 1.0;
                let near = if self.long { times } else { 1.0 };
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
        let runs = Shape::Runs { short: 300.0, long: 100.0, times: 10.0 };
        for shape in [Shape::Constant, Shape::Even, Shape::Exponential, runs] {
            let mut times = ComputeTimes::new(shape, 8867, 103_500_000_000, 3);
            let sum: u64 = (0..8867).map(|_| times.next_ns()).sum();
            assert_eq!(sum, 103_500_000_000, "{shape:?}");
        }
    }

    #[test]
    fn runs_are_near_1_and_7_ms() {
        let runs = Shape::Runs { short: 313.0, long: 100.0, times: 7.0 };
        let mut times = ComputeTimes::new(runs, 30_200, 74_100_000_000, 1);
        let all: Vec<f64> = (0..30_200).map(|_| times.next_ns() as f64 / 1e6).collect();
        let long = all.iter().filter(|ms| **ms > 4.0).count() as f64 / all.len() as f64;
        assert!((0.2..0.29).contains(&long), "{long}");
        assert!(all.iter().all(|ms| (0.6..1.5).contains(ms) || (5.0..9.0).contains(ms)));
        let changes = all.windows(2).filter(|w| (w[0] > 4.0) != (w[1] > 4.0)).count();
        assert!((80..250).contains(&changes), "{changes}");
    }
}
