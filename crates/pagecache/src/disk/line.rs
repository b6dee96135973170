//! What times say, whatever hiccups there are among them: a mean that forgets, and the line below those of requests that ran alone.

use std::collections::VecDeque;

/// What requests differ by at least whose times tell the rate of the device.
const APART_BYTES: f64 = 128e3;
/// Samples before an estimate is used.
pub(super) const ENOUGH: f64 = 2.5;
/// Requests alone that are remembered. Not more: one is made in a second, and what changes should be seen.
const SAMPLES: usize = 16;
/// The part of them that the line has below it.
const BELOW: f64 = 1.0 / 3.0;
/// What is left of an old sample when a new one comes: the last 32 count.
const KEEP: f64 = 31.0 / 32.0;
/// A time counts as so many times what was expected at most.
const CLIP: f64 = 4.0;
/// Time of a byte (200 MB/s) while requests of one size do not tell it apart from positioning; and its bounds.
pub(super) const START_NS_A_BYTE: f64 = 5.0;
const LEAST_NS_A_BYTE: f64 = 1.0 / 20.0;
const MOST_NS_A_BYTE: f64 = 1_000.0;

/// A weighted mean that forgets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean {
    weight: f64,
    sum: f64,
}

impl Mean {
    pub(super) fn push(&mut self, value: f64) {
        self.weight = self.weight * KEEP + 1.0;
        self.sum = self.sum * KEEP + value;
    }

    /// `None` before enough was seen.
    pub(super) fn get(self) -> Option<f64> {
        (self.weight >= ENOUGH).then(|| self.sum / self.weight)
    }

    /// The value, or a few times the mean if that is less.
    pub(super) fn clip(self, value: f64) -> f64 {
        self.get().map_or(value, |mean| value.min(CLIP * mean))
    }
}

/// A request that ran alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) bytes: f64,
    pub(super) time_ns: f64,
    /// The device was busy with something else when it began.
    pub(super) delayed: bool,
}

/// Times of requests that ran alone, as a + b times bytes. What others ask for in between only makes a request longer, so
/// the line is one that a third of the samples lie below: of all lines through two of them the one with the least
/// asymmetric loss (quantile regression, Koenker and Bassett 1978). Two thirds may be too long without moving it.
#[derive(Debug)]
pub(super) struct Line {
    samples: VecDeque<Sample>,
    pub(super) positioning_ns: f64,
    pub(super) ns_a_byte: f64,
}

impl Line {
    pub(super) fn new() -> Line {
        Line { samples: VecDeque::with_capacity(SAMPLES), positioning_ns: 0.0, ns_a_byte: START_NS_A_BYTE }
    }

    pub(super) fn is_known(&self) -> bool {
        self.samples.len() as f64 >= ENOUGH
    }

    /// What a request alone takes, 0 as long as that is not known.
    pub(super) fn of_known(&self, bytes: f64) -> f64 {
        if self.is_known() { self.positioning_ns + self.ns_a_byte * bytes } else { 0.0 }
    }

    /// What positioning takes an arm at most. Behind what somebody else had asked for it moved twice.
    pub(super) fn movement_ns(&self) -> f64 {
        let delayed = self.samples.iter().any(|sample| sample.delayed);
        if delayed { self.positioning_ns / 2.0 } else { self.positioning_ns }
    }

    pub(super) fn push(&mut self, sample: Sample) {
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        if self.samples.iter().filter(|sample| !sample.delayed).count() as f64 >= ENOUGH {
            self.samples.retain(|sample| !sample.delayed);
        }
        // Requests of nearly the same size do not tell the rate, nor does a single large one.
        let least = self.samples.iter().map(|sample| sample.bytes).fold(f64::INFINITY, f64::min);
        let large = self.samples.iter().filter(|sample| sample.bytes - least >= APART_BYTES).count();
        let apart = move |one: &Sample, other: &Sample| {
            large as f64 >= ENOUGH && (one.bytes - other.bytes).abs() >= APART_BYTES
        };
        let slope = |one: &Sample, other: &Sample| (one.time_ns - other.time_ns) / (one.bytes - other.bytes);
        let pairs = self.samples.iter().enumerate().flat_map(|(at, one)| {
            let others = self.samples.iter().skip(at + 1).filter(move |other| apart(one, other));
            others.map(move |other| (one, slope(one, other)))
        });
        // Where no pair tells the rate, what it was taken for stays.
        let lines =
            pairs.chain(self.samples.iter().map(|one| (one, self.ns_a_byte))).map(|(through, slope)| {
                let slope = slope.clamp(LEAST_NS_A_BYTE, MOST_NS_A_BYTE);
                ((through.time_ns - slope * through.bytes).max(0.0), slope)
            });
        let best = lines.min_by(|&one, &other| self.loss(one).total_cmp(&self.loss(other)));
        (self.positioning_ns, self.ns_a_byte) = best.unwrap_or((0.0, START_NS_A_BYTE));
    }

    /// What the samples that lie above a line count, and those below.
    fn loss(&self, (positioning_ns, ns_a_byte): (f64, f64)) -> f64 {
        let above =
            self.samples.iter().map(|sample| sample.time_ns - positioning_ns - ns_a_byte * sample.bytes);
        above.map(|ns| if ns > 0.0 { BELOW * ns } else { (BELOW - 1.0) * ns }).sum()
    }
}
