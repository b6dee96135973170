//! Where a stream has come: a robust statistic of its last matches.
//!
//! A match is sampled once for each run. The *middle* is the median of the last samples, so that no minority of wrong
//! matches moves it. Near the middle, the frontier follows matches that follow each other: one that is a step further is
//! believed at once, one further off when two more continue it. Elsewhere it is the middle.

/// Samples kept. Five pieces of evidence move the middle.
const SAMPLES: usize = 9;

/// How far before the middle matches count for the frontier: more than in-order streams lag behind themselves
/// (five samples of [`super::stream`]'s `PIECE`), and little against any cache.
const NEAR: u32 = 256;

/// The statistic.
#[derive(Debug, Default)]
pub(crate) struct Frontier {
    samples: [u32; SAMPLES],
    count: usize,
    next: usize,
    middle: u32,
    /// The position expected next.
    at: u32,
    /// Where it may be instead, and how many matches said so.
    other: (u32, u32),
}

/// Positions that a match may leave out and still be the next step.
const STEP: u32 = 8;

/// Matches that must continue each other elsewhere.
const VOTES: u32 = 3;

impl Frontier {
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// Starts afresh at a position.
    pub(crate) fn jump(&mut self, at: u32) {
        *self = Frontier { samples: [at; SAMPLES], count: SAMPLES, next: 0, middle: at, at, other: (at, 0) };
    }

    /// A match; moves the frontier if it continues those before.
    pub(crate) fn note(&mut self, after: u32) {
        let is_step = |from: u32| after > from && after - from <= STEP;
        if is_step(self.at) {
            self.at = after;
            return;
        }
        let (other, votes) = self.other;
        self.other = if is_step(other) { (after, votes + 1) } else { (after, 1) };
        if self.other.1 >= VOTES && after.abs_diff(self.middle) <= NEAR {
            (self.other, self.at) = ((self.at, 0), after);
        }
    }

    /// A match that stands for a run or a piece of one.
    pub(crate) fn sample(&mut self, after: u32) {
        self.samples[self.next] = after;
        self.next = (self.next + 1) % SAMPLES;
        self.count = (self.count + 1).min(SAMPLES);
        let mut sorted = self.samples;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        self.middle = sorted[self.count / 2];
        if self.at.abs_diff(self.middle) > NEAR {
            self.at = self.middle;
        }
    }
}
