//! A device known by its behaviour alone: what a calibration measures, whatever is inside.
//!
//! A request of b bytes takes `alone(b)` when nothing else is in flight, and keeps the narrowest part of the
//! device (an arm, a bus, a network, a limit) busy for `busy(b)` of that; the rest passes beside other
//! requests. With q requests in flight the rate is therefore `min(q / alone, 1 / busy)`. Both are tables over
//! b, linear between the points and beyond the last. A request that does not begin where an earlier one
//! ended pays positioning, on top of both:
//!
//! ```text
//! done = max(start + alone(b) + p, free + busy(b) + p'),   free = max(start, free) + busy(b) + p'
//! ```
//!
//! A disk has p' = p and busy = alone; a volume with q channels has busy = alone / q. Beside that stand
//! limits of operations and bytes a second with what can be saved up, as token buckets.
//!
//! [`Host`] is what the machine adds that the device sits in: the processor's part of a read through the page
//! cache. The simulator has its own notion of that and ignores it.

use serde::Deserialize;

use crate::token_bucket::TokenBucket;

/// Time of one request by its size, at one size.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePoint {
    /// Bytes of the request.
    pub bytes: u64,
    /// Its time with nothing else in flight, without positioning, in ms.
    pub alone_ms: f64,
    /// Time for which it keeps others from the device, in ms; at most `alone_ms` unless a limit is hidden in it.
    pub busy_ms: f64,
}

/// A limit of the whole device.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// Operations or bytes a second.
    pub per_s: u64,
    /// Operations or bytes that can be saved up.
    pub burst: u64,
}

/// A measured device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredParameters {
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Requests at a time with which `busy_ms` was measured.
    pub outstanding: u32,
    /// p of a request anywhere on the device, in ms.
    pub positioning_ms: f64,
    /// p of a request within a hundredth of the device; the same if it was not measured.
    #[serde(default)]
    pub near_positioning_ms: Option<f64>,
    /// p', in ms.
    pub busy_positioning_ms: f64,
    /// The tables, by ascending size.
    pub service: Vec<ServicePoint>,
    /// Operations a second, if they are limited.
    #[serde(default)]
    pub operations: Option<Cap>,
    /// Bytes a second, if they are limited.
    #[serde(default)]
    pub bytes: Option<Cap>,
}

/// What the processor does for a read through the page cache of the machine where a device was measured.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// A read of cached data, whatever its size, in us.
    pub read_us: f64,
    /// Copying cached data to the program, in 10^6 bytes a second.
    pub copy_mb_per_s: f64,
    /// Making room in the page cache for what is read and entering it, in 10^6 bytes a second.
    pub fill_mb_per_s: f64,
    /// Asking the device for a request of the page cache, in us.
    pub submit_us: f64,
    /// Falling asleep until it is there and waking up, in us.
    pub wait_us: f64,
    /// Both for a direct read, in us: they are part of the times measured at the device.
    pub direct_us: f64,
    /// What a file was read at through the page cache, in order and with the longest readahead that a program gets by
    /// asking, in 10^6 bytes a second. A device behind which there is memory fills the page cache sooner than a
    /// program's own memory.
    #[serde(default)]
    pub ahead_mb_per_s: Option<f64>,
    /// The largest request that the kernel makes of the device, in bytes; it splits larger ones.
    pub max_request_bytes: u64,
    /// Processors.
    pub processors: u32,
}

/// The share of a device within which requests are near each other.
pub const NEAR_SHARE: f64 = 0.01;

impl MeasuredParameters {
    /// alone(b) in ms, without positioning.
    #[must_use]
    pub fn alone_ms(&self, bytes: f64) -> f64 {
        self.at(bytes, |point| point.alone_ms)
    }

    /// busy(b) in ms, without positioning.
    #[must_use]
    pub fn busy_ms(&self, bytes: f64) -> f64 {
        self.at(bytes, |point| point.busy_ms)
    }

    /// p of requests that spread over `span_bytes`, in ms. Between a hundredth and the whole it grows with
    /// the root of the distance, as an arm that speeds up does.
    #[must_use]
    pub fn positioning_ms(&self, span_bytes: f64) -> f64 {
        let Some(near_ms) = self.near_positioning_ms else { return self.positioning_ms };
        let share = (span_bytes / self.capacity_bytes as f64).clamp(NEAR_SHARE, 1.0);
        let part = (share.sqrt() - NEAR_SHARE.sqrt()) / (1.0 - NEAR_SHARE.sqrt());
        near_ms + part * (self.positioning_ms - near_ms)
    }

    fn at(&self, bytes: f64, time_ms: impl Fn(&ServicePoint) -> f64) -> f64 {
        let [first, .., last] = &self.service[..] else {
            return self.service.first().map_or(0.0, time_ms);
        };
        let above = self.service.iter().find(|point| point.bytes as f64 >= bytes).unwrap_or(last);
        let below = self.service.iter().rev().find(|point| point.bytes < above.bytes).unwrap_or(first);
        if below.bytes >= above.bytes {
            // Below the first point: nothing smaller was measured, and the overhead dominates there.
            return time_ms(above);
        }
        let slope = (time_ms(above) - time_ms(below)) / (above.bytes - below.bytes) as f64;
        // A table that falls at its end must not go below 0 beyond it.
        (time_ms(below) + slope * (bytes - below.bytes as f64)).max(0.0)
    }
}

/// The state of a measured device.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    parameters: MeasuredParameters,
    free_ns: u64,
    /// Where the last requests ended, the latest first; as many as can be in flight.
    ends: Vec<u64>,
    operations: Option<TokenBucket>,
    bytes: Option<TokenBucket>,
}

impl Measured {
    pub(crate) fn new(parameters: &MeasuredParameters) -> Measured {
        let bucket = |cap: Option<Cap>| cap.map(|cap| TokenBucket::new(cap.per_s, cap.burst));
        Measured {
            parameters: parameters.clone(),
            free_ns: 0,
            ends: Vec::new(),
            operations: bucket(parameters.operations),
            bytes: bucket(parameters.bytes),
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.parameters.outstanding as usize
    }

    /// A request of `bytes` bytes at `offset` bytes that the device takes at `start_ns`.
    pub(crate) fn finish_ns(&mut self, start_ns: u64, offset: u64, bytes: u64) -> u64 {
        let ns = |ms: f64| (ms * 1e6).round() as u64;
        let continued = self.ends.iter().position(|end| *end == offset);
        let (alone_ms, busy_ms) = match (continued, self.ends.first()) {
            (Some(_), _) => (0.0, 0.0),
            (None, Some(last)) => {
                // On average a distance is a third of the span.
                let span_bytes = 3.0 * last.abs_diff(offset) as f64;
                (self.parameters.positioning_ms(span_bytes), self.parameters.busy_positioning_ms)
            }
            (None, None) => (self.parameters.positioning_ms, self.parameters.busy_positioning_ms),
        };
        if let Some(found) = continued {
            self.ends.remove(found);
        }
        // A single server has one head.
        let kept = if self.parameters.busy_positioning_ms > 0.0 { 1 } else { self.slots() };
        self.ends.insert(0, offset + bytes);
        self.ends.truncate(kept);
        let size = bytes as f64;
        self.free_ns = self.free_ns.max(start_ns) + ns(self.parameters.busy_ms(size) + busy_ms);
        let own_ns = (start_ns + ns(self.parameters.alone_ms(size) + alone_ms)).max(self.free_ns);
        let tokens = |bucket: &mut Option<TokenBucket>, amount| {
            bucket.as_mut().map_or(start_ns, |bucket| bucket.take(start_ns, amount))
        };
        own_ns.max(tokens(&mut self.operations, 1)).max(tokens(&mut self.bytes, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> MeasuredParameters {
        MeasuredParameters {
            capacity_bytes: 1 << 30,
            outstanding: 32,
            positioning_ms: 8.0,
            near_positioning_ms: None,
            busy_positioning_ms: 8.0,
            service: [(4096, 0.1), (1_004_096, 10.1)]
                .map(|(bytes, ms)| ServicePoint { bytes, alone_ms: ms, busy_ms: ms })
                .to_vec(),
            operations: None,
            bytes: None,
        }
    }

    #[test]
    fn times_lie_on_a_line_between_the_points_and_beyond() {
        let disk = disk();
        assert_eq!((disk.alone_ms(512.0), disk.alone_ms(4096.0)), (0.1, 0.1));
        assert!((disk.alone_ms(504_096.0) - 5.1).abs() < 1e-9);
        assert!((disk.busy_ms(2_004_096.0) - 20.1).abs() < 1e-9);
    }

    #[test]
    fn positioning_grows_with_the_root_of_the_span() {
        let disk = MeasuredParameters { near_positioning_ms: Some(5.0), ..disk() };
        assert_eq!(disk.positioning_ms(0.0), 5.0);
        assert_eq!(disk.positioning_ms((1u64 << 30) as f64), 8.0);
        // The root of 0.3025 is 0.55, half way between 0.1 and 1.
        assert!((disk.positioning_ms(0.3025 * (1u64 << 30) as f64) - 6.5).abs() < 1e-9);
    }

    #[test]
    fn a_single_server_positions_unless_a_request_continues_the_last() {
        let mut disk = Measured::new(&disk());
        assert_eq!(disk.finish_ns(0, 0, 4096), 8_100_000);
        assert_eq!(disk.finish_ns(8_100_000, 4096, 4096), 8_200_000);
        // Two at once wait for each other.
        assert_eq!(disk.finish_ns(9_000_000, 1 << 20, 4096), 17_100_000);
        assert_eq!(disk.finish_ns(9_000_000, 1 << 21, 4096), 25_200_000);
    }

    #[test]
    fn requests_pass_each_other_but_for_the_narrowest_part() {
        let service = vec![ServicePoint { bytes: 4096, alone_ms: 1.0, busy_ms: 0.25 }];
        let mut volume = Measured::new(&MeasuredParameters {
            positioning_ms: 0.0,
            busy_positioning_ms: 0.0,
            service,
            ..disk()
        });
        let done: Vec<u64> = (0..6).map(|i| volume.finish_ns(0, i << 20, 4096)).collect();
        assert_eq!(done, [1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_250_000, 1_500_000]);
    }

    #[test]
    fn caps_let_a_burst_through() {
        let mut volume = Measured::new(&MeasuredParameters {
            positioning_ms: 0.0,
            busy_positioning_ms: 0.0,
            operations: Some(Cap { per_s: 10, burst: 2 }),
            ..disk()
        });
        let done: Vec<u64> = (0..3).map(|i| volume.finish_ns(i * 1_000_000, i << 20, 4096)).collect();
        assert_eq!(done, [100_000, 1_100_000, 100_000_000]);
    }
}
