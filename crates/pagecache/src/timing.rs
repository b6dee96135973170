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

use crate::meter::{Meter, thread_cpu_time};

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
    /// How much of that the loop had a processor, of a piece of a millisecond and more; the rest it waited for something.
    #[serde(default)]
    pub longest_cpu_s: f64,
    /// Pieces that took no longer than each of [`CLASSES_US`] and longer than the one before.
    pub classes: [u64; CLASSES_US.len()],
}

/// The pieces of one round together: what a message that comes when a round has begun waits for at most.
pub const ROUNDS: &str = "whole rounds";

/// A piece of work in the round that took longest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Piece {
    /// What was done.
    pub name: String,
    /// How long all such pieces of the round took, in seconds.
    pub took_s: f64,
    /// How much of that the loop had a processor, as [`Work::longest_cpu_s`].
    pub cpu_s: f64,
}

/// Pieces of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    pieces: u64,
    total: Duration,
    longest: Duration,
    longest_cpu: Duration,
    classes: [u64; CLASSES_US.len()],
}

impl Taken {
    fn add(&mut self, took: Duration, cpu: Duration) {
        self.pieces += 1;
        self.total += took;
        if took > self.longest {
            (self.longest, self.longest_cpu) = (took, cpu);
        }
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
    /// Processor time of the thread when the round began, or the last long piece ended.
    cpu: Duration,
    /// What the round under way has taken so far: the time, and the processor.
    round: (Duration, Duration),
    /// Its pieces, those of one kind as one.
    pieces: Vec<(&'static str, Duration, Duration)>,
    /// The same of the round that took longest.
    longest: (Duration, Vec<(&'static str, Duration, Duration)>),
    kinds: BTreeMap<&'static str, Taken>,
}

impl Timing {
    pub(crate) fn new() -> Timing {
        let meter = Meter::start();
        Timing {
            at: meter.now(),
            meter,
            cpu: thread_cpu_time(),
            round: Default::default(),
            pieces: Vec::new(),
            longest: Default::default(),
            kinds: BTreeMap::new(),
        }
    }

    /// A round begins: what was before, a wait for something to do, is no work.
    pub(crate) fn begin(&mut self) {
        let (took, cpu) = std::mem::take(&mut self.round);
        if !took.is_zero() {
            self.kinds.entry(ROUNDS).or_default().add(took, cpu);
        }
        if took > self.longest.0 {
            self.longest.0 = took;
            std::mem::swap(&mut self.longest.1, &mut self.pieces);
        }
        self.pieces.clear();
        self.meter = Meter::start();
        self.at = self.meter.now();
        self.cpu = thread_cpu_time();
    }

    /// A piece of work of this kind is done, and the next piece begins.
    pub fn lap(&mut self, work: &'static str) {
        let now = Instant::now();
        let mut took = now - self.at;
        self.at = now;
        let mut cpu = took;
        if took >= LONG {
            // Since the round began, or the last long piece, there were but short ones beside this.
            took = took.min(self.meter.lap());
            let before = std::mem::replace(&mut self.cpu, thread_cpu_time());
            cpu = took.min(self.cpu.saturating_sub(before));
        }
        self.round.0 += took;
        self.round.1 += cpu;
        match self.pieces.iter_mut().find(|(name, ..)| *name == work) {
            Some((_, all, of_processor)) => (*all, *of_processor) = (*all + took, *of_processor + cpu),
            None => self.pieces.push((work, took, cpu)),
        }
        self.kinds.entry(work).or_default().add(took, cpu);
    }

    /// The round that took longest, its longest pieces first.
    #[must_use]
    pub fn longest_round(&self) -> Vec<Piece> {
        let piece = |&(name, took, cpu): &(&str, Duration, Duration)| Piece {
            name: name.to_owned(),
            took_s: took.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
        };
        let mut pieces: Vec<Piece> = self.longest.1.iter().map(piece).collect();
        pieces.sort_by(|a, b| b.took_s.total_cmp(&a.took_s));
        pieces
    }

    /// What each kind of work has taken since the plane was opened, by name, and [`ROUNDS`].
    #[must_use]
    pub fn works(&self) -> Vec<Work> {
        let work = |(name, taken): (&&str, &Taken)| Work {
            name: (*name).to_owned(),
            pieces: taken.pieces,
            total_s: taken.total.as_secs_f64(),
            longest_s: taken.longest.as_secs_f64(),
            longest_cpu_s: taken.longest_cpu.as_secs_f64(),
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
        [100, 101, 20_000, 20_001, 200_001].into_iter().for_each(|us| {
            taken.add(Duration::from_micros(us), Duration::from_micros(us / 2));
        });
        assert_eq!((taken.pieces, taken.longest), (5, Duration::from_micros(200_001)));
        assert_eq!(taken.longest_cpu, Duration::from_micros(100_000));
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
        assert!(works[1].longest_cpu_s < works[1].longest_s, "it has slept: {works:?}");
        timing.begin();
        let rounds = timing.works().into_iter().find(|work| work.name == ROUNDS).unwrap();
        assert_eq!(rounds.pieces, 1);
        assert!((rounds.total_s - works[0].total_s - works[1].total_s).abs() < 1e-9);
        let longest = timing.longest_round();
        assert_eq!(
            longest.iter().map(|piece| piece.name.as_str()).collect::<Vec<_>>(),
            ["waiting", "nothing"]
        );
        timing.lap("a short round");
        timing.begin();
        assert_eq!(timing.longest_round(), longest, "the longest one stays");
    }
}
