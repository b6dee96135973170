//! From timed requests to a device: which requests to time, and what they say.
//!
//! Pure: somebody else makes the requests of a [`plan`] and hands back when each began and ended, and
//! [`fit`] turns that into a device with uncertainties. The same plan runs on a real file, on a block device
//! and on the device models, so that what comes out can be compared with what went in.
//!
//! # What is timed
//!
//! | requests | give |
//! | --- | --- |
//! | one at a time, in order, 4 KiB to 1 MiB | `alone(b)` |
//! | one at a time, at random | positioning: what they take longer |
//! | 32 at a time, at random, from an idle device | `busy(b)`; caps; what was saved up for a burst |
//! | one at a time, at random within a hundredth | near positioning |
//! | 32 KiB in order, and 4 and 2 at a time | nothing: they are predicted, and say whether the model fits |
//! | through the page cache, missing and present | the processor's part ([`HostSample`]) |
//! | the same in order, by the clock | what bounds the device's part of a readahead window |
//!
//! Of single requests the mean of the middle half is used, of many in flight the median of ten batches, so that
//! what is disturbed costs nothing; the spread between batches gives the uncertainty.

mod file;
mod fit;
mod object;

pub use file::device_file;
pub use fit::{Calibration, Estimate, FitError, Kind, Misfit, fit};
pub use object::{
    CONNECTIONS, LARGE_BYTES, LARGE_REQUESTS, ObjectCalibration, ObjectFitError, ObjectSamples, ObjectTiming,
    SMALL_BYTES, SMALL_REQUESTS, TOGETHER_REQUESTS, fit_object,
};

/// The order of a probe's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each begins where the one before ends.
    Sequential,
    /// Uniformly over everything.
    Random,
    /// Uniformly over a hundredth.
    Near,
}

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Its times become parameters.
    Parameters,
    /// It is predicted from the parameters.
    Check,
}

/// Requests to time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Where they go.
    pub order: Order,
    /// Bytes of each.
    pub bytes: u64,
    /// How many are in flight.
    pub depth: u32,
    /// Stop after this many requests,
    pub most_requests: u64,
    /// or after this time, in ms.
    pub most_ms: f64,
    /// What for.
    pub purpose: Purpose,
    /// Makes the offsets of one probe differ from those of the others.
    pub seed: u64,
}

/// One request, in ms after the probe's start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// When it was made.
    pub start_ms: f64,
    /// When it was done.
    pub done_ms: f64,
}

/// A probe that was run: its requests by the time when they were done.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What was asked for.
    pub probe: Probe,
    /// What came.
    pub timings: Vec<Timing>,
}

/// How data were read that the processor's time was taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPath {
    /// Direct reads.
    Direct,
    /// Through the page cache, data present.
    Present,
    /// Through the page cache at random, data missing.
    Missing,
    /// Asked for ahead at random (`posix_fadvise` with `POSIX_FADV_WILLNEED`), not waited for.
    Asked,
    /// Through the page cache in order with the kernel's readahead, data missing.
    ReadAhead,
    /// The same with the longest readahead that a program gets by asking (`POSIX_FADV_SEQUENTIAL`), by the clock.
    Elapsed,
}

/// The processor's part of reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostSample {
    /// How they were read.
    pub path: HostPath,
    /// Bytes of each read.
    pub bytes: u64,
    /// Processor time of one read, in us, the median of batches; of [`HostPath::Elapsed`] time by the clock.
    pub time_us: f64,
}

/// What is known of the machine without measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFacts {
    /// The largest request of the block layer, in bytes.
    pub max_request_bytes: u64,
    /// Processors.
    pub processors: u32,
}

/// Sizes of requests: a page to what most devices take as one request.
pub const SIZES_BYTES: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Requests in flight that keep any device busy that a calibration can tell: more than the channels of
/// a cloud volume or an SSD that the two processors of a small machine can fill.
pub const BUSY_DEPTH: u32 = 32;
/// The least that can be calibrated: sequential and random reads of 1 MiB must differ.
pub const LEAST_BYTES: u64 = 16 << 20;

/// Requests and bytes of a probe with one request in flight; enough for ten batches.
const ALONE_REQUESTS: u64 = 400;
const ALONE_BYTES: u64 = 64 << 20;
/// A probe of one at a time ends after this: ten batches of five requests of 10 ms, or of the 100 ms in which
/// the kernel's throttling gives its tokens (`DFL_THROTL_SLICE`, block/blk-throttle.c).
const ALONE_MS: f64 = 1_000.0;
/// The same with many in flight: caps show when what was saved up is gone.
const BUSY_REQUESTS: u64 = 20_000;
const BUSY_BYTES: u64 = 192 << 20;
const BUSY_MS: f64 = 3_000.0;
/// Fewer requests than this say too little, whatever their bytes.
const LEAST_REQUESTS: u64 = 40;

/// The probes for something of `span_bytes`. Less than 2 GiB and 60 s together, whatever the device.
#[must_use]
pub fn plan(span_bytes: u64) -> Vec<Probe> {
    let mut probes: Vec<Probe> = Vec::new();
    let mut add = |order, bytes, depth: u32, purpose| {
        let (requests, most_bytes, most_ms) = if depth >= BUSY_DEPTH {
            (BUSY_REQUESTS, BUSY_BYTES, BUSY_MS)
        } else {
            (ALONE_REQUESTS * u64::from(depth) * 4, ALONE_BYTES, ALONE_MS)
        };
        let most_requests = requests.min(most_bytes / bytes).max(LEAST_REQUESTS);
        let seed = probes.len() as u64 + 1;
        probes.push(Probe { order, bytes, depth, most_requests, most_ms, purpose, seed });
    };
    let sizes = SIZES_BYTES.into_iter().filter(|size| size * 8 <= span_bytes);
    for bytes in sizes.clone() {
        // Directly one after the other, so that what disturbs one disturbs the other.
        add(Order::Sequential, bytes, 1, Purpose::Parameters);
        add(Order::Random, bytes, 1, Purpose::Parameters);
    }
    add(Order::Near, SIZES_BYTES[0], 1, Purpose::Parameters);
    add(Order::Sequential, 32 << 10, 1, Purpose::Check);
    add(Order::Random, SIZES_BYTES[0], 4, Purpose::Check);
    add(Order::Random, SIZES_BYTES[2], 2, Purpose::Check);
    for bytes in sizes {
        add(Order::Random, bytes, BUSY_DEPTH, Purpose::Parameters);
    }
    probes
}

impl Probe {
    /// Where request `index` begins, within `span_bytes`: a multiple of the request's size.
    #[must_use]
    pub fn offset(&self, index: u64, span_bytes: u64) -> u64 {
        let places = (span_bytes / self.bytes).max(1);
        // Probes begin at different places, so that none finds what another one has just read.
        let base = mix(self.seed) % places;
        let place = match self.order {
            Order::Sequential => (base + index) % places,
            // Every other place, so that no two requests that wait together continue each other.
            Order::Random => {
                mix(self.seed ^ (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) % places.div_ceil(2) * 2
            }
            Order::Near => {
                let near = (places / 100).max(4).min(places);
                (base + mix(self.seed ^ (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) % near) % places
            }
        };
        place * self.bytes
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): well mixed, without state.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_bounded_in_bytes_and_time() {
        let probes = plan(1 << 40);
        let bytes: u64 = probes.iter().map(|p| p.bytes * p.most_requests).sum();
        let ms: f64 = probes.iter().map(|p| p.most_ms).sum();
        assert!(bytes < 2 << 30, "{bytes}");
        assert!(ms < 50_000.0, "{ms}");
    }

    #[test]
    fn offsets_stay_inside_and_follow_their_order() {
        for span_bytes in [LEAST_BYTES, (1 << 30) + 4095] {
            for probe in plan(span_bytes) {
                let offsets: Vec<u64> = (0..100).map(|i| probe.offset(i, span_bytes)).collect();
                assert!(offsets.iter().all(|o| o + probe.bytes <= span_bytes && o % probe.bytes == 0));
                let continued = offsets.windows(2).filter(|o| o[0] + probe.bytes == o[1]).count();
                match probe.order {
                    Order::Sequential => assert!(continued >= 90, "{probe:?}"),
                    _ => assert!(continued < 60, "{probe:?}"),
                }
            }
        }
    }
}
