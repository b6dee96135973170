//! How long each piece of the loop's work takes.
//!
//! Everybody waits for one loop ([`crate::Plane::step`]), so the longest of its pieces is what a client may have to
//! wait for. Whoever drives the loop says after each piece what it was ([`Timing::lap`]); what the pieces of one kind
//! have taken is kept as a histogram. A piece is charged as by [`Meter`]: without the time in which the loop was ready
//! and others had the processor, so that a busy machine does not look like a slow service.
//!
//! To read the clock takes 30 ns. How long the loop was kept off the processor, a system call, is asked when a round
//! begins and after each piece that has taken [`LONG`] by the clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::meter::Meter;

/// Of a piece that takes so long by the clock it is looked up what it has taken of the processor.
const LONG: Duration = Duration::from_millis(1);

/// Upper ends of the histogram's classes, in microseconds; what takes longer than the last one is in none. A turn of a
/// user's is 500, a round of turns 2,000; 20,000 is what nobody is to wait for.
pub const CLASSES_US: [u64; 9] = [100, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 200_000];

/// What all pieces of one kind have taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Work {
    /// What is done.
    pub name: String,
    /// Pieces.
    pub pieces: u64,
    /// All of them together, in seconds.
    pub total_s: f64,
    /// The longest, in seconds.
    pub longest_s: f64,
    /// Pieces that took no longer than each of [`CLASSES_US`] and longer than the one before.
    pub classes: [u64; CLASSES_US.len()],
}

/// The pieces of one round together: what a message that comes when a round has begun waits for at most.
pub const ROUNDS: &str = "whole rounds";

/// Pieces of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    pieces: u64,
    total: Duration,
    longest: Duration,
    classes: [u64; CLASSES_US.len()],
}

impl Taken {
    fn add(&mut self, took: Duration) {
        self.pieces += 1;
        self.total += took;
        self.longest = self.longest.max(took);
        let class = CLASSES_US.iter().position(|most| took.as_micros() <= u128::from(*most));
        if let Some(pieces) = class.and_then(|class| self.classes.get_mut(class)) {
            *pieces += 1;
        }
    }
}

/// A stopwatch for one thread. There are as many kinds of work as names in the source.
#[derive(Debug)]
pub struct Timing {
    meter: Meter,
    at: Instant,
    /// What the round under way has taken so far.
    round: Duration,
    kinds: BTreeMap<&'static str, Taken>,
}

impl Timing {
    pub(crate) fn new() -> Timing {
        let meter = Meter::start();
        Timing { at: meter.now(), meter, round: Duration::ZERO, kinds: BTreeMap::new() }
    }

    /// A round begins: what was before, a wait for something to do, is no work.
    pub(crate) fn begin(&mut self) {
        let round = std::mem::take(&mut self.round);
        if !round.is_zero() {
            self.kinds.entry(ROUNDS).or_default().add(round);
        }
        self.meter = Meter::start();
        self.at = self.meter.now();
    }

    /// A piece of work of this kind is done, and the next piece begins.
    pub fn lap(&mut self, work: &'static str) {
        let now = Instant::now();
        let mut took = now - self.at;
        self.at = now;
        if took >= LONG {
            // Since the round began, or the last long piece, there were but short ones beside this.
            took = took.min(self.meter.lap());
        }
        self.round += took;
        self.kinds.entry(work).or_default().add(took);
    }

    /// What each kind of work has taken since the plane was opened, by name, and [`ROUNDS`].
    #[must_use]
    pub fn works(&self) -> Vec<Work> {
        let work = |(name, taken): (&&str, &Taken)| Work {
            name: (*name).to_owned(),
            pieces: taken.pieces,
            total_s: taken.total.as_secs_f64(),
            longest_s: taken.longest.as_secs_f64(),
            classes: taken.classes,
        };
        self.kinds.iter().map(work).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_in_the_class_of_its_kind() {
        let mut taken = Taken::default();
        [100, 101, 20_000, 20_001, 200_001].into_iter().for_each(|us| taken.add(Duration::from_micros(us)));
        assert_eq!((taken.pieces, taken.longest), (5, Duration::from_micros(200_001)));
        assert_eq!(taken.classes, [1, 1, 0, 0, 0, 0, 1, 1, 0], "the last one is beyond all classes");
        assert_eq!(taken.total, Duration::from_micros(240_203));
    }

    #[test]
    fn a_wait_before_a_round_is_no_work_and_one_within_it_is() {
        let mut timing = Timing::new();
        std::thread::sleep(Duration::from_millis(3));
        timing.begin();
        timing.lap("nothing");
        std::thread::sleep(Duration::from_millis(3));
        timing.lap("waiting");
        let works = timing.works();
        let names: Vec<&str> = works.iter().map(|work| work.name.as_str()).collect();
        assert_eq!(names, ["nothing", "waiting"]);
        assert!(works[0].longest_s < works[1].longest_s && works[1].longest_s >= 0.003);
        timing.begin();
        let rounds = timing.works().into_iter().find(|work| work.name == ROUNDS).unwrap();
        assert_eq!(rounds.pieces, 1);
        assert!((rounds.total_s - works[0].total_s - works[1].total_s).abs() < 1e-9);
    }
}
