//! Where a stream has come: a robust statistic of its last matches.
//!
//! A match is sampled once for each run. The *middle* is the median of the last samples, so that no minority of wrong
//! matches moves it; the frontier is the furthest sample or match that lies near the middle, so that it does not lag.

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
}

impl Frontier {
    pub(crate) fn at(&self) -> u32 {
        self.at
    }

    /// Starts afresh at a position.
    pub(crate) fn jump(&mut self, at: u32) {
        *self = Frontier { samples: [at; SAMPLES], count: SAMPLES, next: 0, middle: at, at };
    }

    /// A match; moves the frontier if it is a little further.
    pub(crate) fn note(&mut self, after: u32) {
        if after > self.at && after - self.middle.min(after) <= NEAR {
            self.at = after;
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
        let end = self.middle.saturating_add(NEAR);
        let furthest = sorted.iter().rev().find(|&&s| s <= end).copied().unwrap_or(self.middle);
        // Within reach of the middle it never goes back: what was seen there was seen.
        self.at = if self.at >= self.middle && self.at <= end { self.at.max(furthest) } else { furthest };
    }
}
