//! How long a workload takes at a device, and what prefetching has to do with it.
//!
//! # Time
//!
//! A stream makes R requests of the device. With `D(b) = o + p pi + b/W` ([`crate::costs`]) and c(b) the
//! computation on b bytes, it takes
//!
//! ```text
//! synchronous          sum D(b_k) + sum c(b_k)
//! Linux readahead      max(c, D), or (c + D)/2 where slots > 1, a window           one or two windows in flight
//! hinted, horizon H    D + max((R-1) D / min(H, slots), (R-1) p, sum c)               H requests in flight
//! ```
//!
//! Linux asks for the next window before it waits for the present one; the windows are followed one by one
//! (the module `pipeline`). p is the pace at which references can be consumed in order: (D + c) / H, and less
//! where overheads vary, as in object stores, because what is behind a late one waits with it
//! ([`Costs::pace_ms`]).
//!
//! n streams at once take no less than the device needs for all of them, `n sum D / min(slots, n in flight)`,
//! and no less than its limits of operations and bytes allow. The largest of the three is the prediction:
//! the asymptotic bounds of queueing networks, which are exact where one of them dominates and too low by at
//! most a queue's wait where two meet.
//!
//! # Causes
//!
//! The same formula is evaluated without any prefetching and then with one cause after another:
//! the disk's own readahead; fewer overheads (larger requests); fewer and shorter positionings (larger
//! requests, sorted requests); several requests in flight; computation meanwhile. What each takes off the
//! time is its share. The order matters, because the causes save the same ms: a later one gets what the
//! earlier ones left.
//!
//! # Device readahead
//!
//! One stream on a disk that reads ahead positions once; then the media pass goes on beside overhead, bus and
//! computation, and a request takes the longer of the two. Without readahead each request waits until its
//! first sector, which has just gone by, comes again.
//!
//! Several streams: the heads leave a stream as soon as a request of another one waits, so that segments help
//! only as far as the device idles between requests. Shriver et al. (1999) let up to as many streams as
//! segments position once a cluster ([`crate::response`]); the device models here do not behave so.

use foretell_device::DeviceParameters;

use crate::arm::{self, Streams};
use crate::costs::Costs;
pub use crate::evaluation::Bound;
use crate::evaluation::{Causes, Evaluation};
use crate::ffs::FileSystem;
use crate::limits::LimitKind;
use crate::pipeline;
use crate::readahead::{self, Windows};
use crate::workload::{Pattern, Prefetching, Workload, WorkloadError};

/// What the model says of a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// From the first read to the end of the last stream, in ms.
    pub time_ms: f64,
    /// Of that, what a stream computes, in ms.
    pub computation_ms: f64,
    /// The same workload with every read going to the device by itself, in ms.
    pub unprefetched_ms: f64,
    /// Requests that the device serves; 2^64 - 1 if there are more.
    pub device_reads: u64,
    /// What the time depends on.
    pub bound: Bound,
    /// What makes up the difference to `unprefetched_ms`.
    pub saved: Saved,
}

/// ms that each cause takes off the time; negative if it costs time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Saved {
    /// The disk's own readahead.
    pub device_readahead_ms: f64,
    /// Fewer overheads.
    pub overhead_ms: f64,
    /// Fewer and shorter positionings.
    pub positioning_ms: f64,
    /// Requests in flight together.
    pub parallel_ms: f64,
    /// Computation meanwhile.
    pub overlap_ms: f64,
}

/// Bytes of an FFS block, and of an indirect block.
const FFS_BLOCK_BYTES: u64 = 8 << 10;
/// Where the head of an FFS file ends: the direct blocks' 96 KB and 15 clusters, all of one size by then.
const FFS_HEAD_KB: u64 = 96 + 15 * 64;
/// Streams at an arm up to which they are followed; more are as good as random.
const FOLLOWED_STREAMS: u32 = 64;
/// Bytes that an indirect block of 8 KB addresses: 2048 blocks of 8 KB.
const FFS_INDIRECT_BYTES: u64 = 16 << 20;

/// Predicts `workload` at `device`, whose parameters must have been checked.
///
/// # Errors
///
/// [`WorkloadError`] for a workload that cannot be, or not at this device.
pub fn predict(device: &DeviceParameters, workload: &Workload) -> Result<Prediction, WorkloadError> {
    let costs = Costs::of(device);
    workload.check(costs.capacity_bytes)?;
    let mut causes = Causes::default();
    let unprefetched_ms = evaluate(&costs, workload, causes).time_ms;
    let mut before_ms = unprefetched_ms;
    let mut with = |switch: fn(&mut Causes)| {
        switch(&mut causes);
        let now_ms = evaluate(&costs, workload, causes).time_ms;
        std::mem::replace(&mut before_ms, now_ms) - now_ms
    };
    let saved = Saved {
        device_readahead_ms: with(|c| c.device_readahead = true),
        overhead_ms: with(|c| c.overhead = true),
        positioning_ms: with(|c| c.positioning = true),
        parallel_ms: with(|c| c.parallel = true),
        overlap_ms: with(|c| c.overlap = true),
    };
    let Evaluation { time_ms, device_reads, bound } = evaluate(&costs, workload, causes);
    let computation_ms = workload.reads() as f64 * workload.think_ms();
    Ok(Prediction { time_ms, computation_ms, unprefetched_ms, device_reads, bound, saved })
}

/// How the disk places a stream's requests.
struct Placing {
    /// pi of each request, on average.
    positioning_ms: f64,
    /// Whether the disk's readahead serves them.
    read_ahead: bool,
    /// Computation before each byte during which the disk reads ahead, in ms.
    think_ms_per_byte: f64,
}

fn evaluate(costs: &Costs, workload: &Workload, causes: Causes) -> Evaluation {
    if let Some(measured) = &costs.measured {
        return measured.evaluate(workload, windows(workload), causes);
    }
    if let Some(evaluation) = streams_at_the_arm(costs, workload, causes) {
        return evaluation;
    }
    let streams = f64::from(workload.streams);
    let each = Windows::uniform(workload.bytes, workload.request_bytes);
    let windows = if causes.overhead { windows(workload) } else { each };
    let requests = windows.count() as f64;
    let pieces = pieces_of(workload, &windows) as f64;
    let placing = placing(costs, workload, causes, requests);
    let serve_ms = |bytes: u64| service_ms(costs, &placing, bytes, workload.split_bytes);
    // While nobody else runs, the driver's time is beside the device's.
    let waited_ms = |bytes: u64| serve_ms(bytes).max(workload.driver_ms());

    let steady_ms = serve_ms(windows.steady_bytes);
    let indirect_ms = windows.indirect as f64 * indirect_ms(costs, workload);
    let total_ms = |one: &dyn Fn(u64) -> f64| {
        let last_ms = if windows.last_bytes > 0 { one(windows.last_bytes) } else { 0.0 };
        windows.head_bytes.iter().map(|&bytes| one(bytes)).sum::<f64>()
            + windows.steady as f64 * one(windows.steady_bytes)
            + last_ms
            + indirect_ms
    };
    let busy_ms = total_ms(&serve_ms);
    let computation_ms = workload.reads() as f64 * workload.think_ms();
    let processor_ms = computation_ms + pieces * workload.driver_ms();

    let mut in_flight = 1.0;
    let chain_ms = match (workload.pattern, workload.prefetching) {
        (Pattern::Hinted { horizon }, _) => {
            let horizon = f64::from(horizon).min(requests);
            let rest = requests - 1.0;
            let pace_ms = |think_ms: f64| {
                if costs.overhead_sigma > 0.0 {
                    // While the latest is waited for, what has been served leaves its connections idle, so that
                    // they are the less beside the computation the fewer references are in flight.
                    let served_ms = steady_ms * horizon.min(costs.slots) / (costs.slots * costs.slots);
                    let (most, least) = (think_ms.max(served_ms), think_ms.min(served_ms));
                    let beside = 0.5 * (costs.slots / horizon).min(1.0);
                    let base_ms = most + if most > 0.0 { beside * least * least / most } else { 0.0 };
                    costs.pace_ms(horizon, steady_ms - costs.overhead_ms, base_ms)
                } else {
                    (steady_ms + think_ms) / horizon
                }
            };
            if causes.parallel {
                in_flight = horizon.min(costs.slots);
            }
            if causes.overlap {
                let in_order_ms = rest * pace_ms(workload.think_ms());
                steady_ms + (rest * steady_ms / in_flight).max(in_order_ms).max(processor_ms)
            } else {
                let fetch_ms = if causes.parallel { rest * pace_ms(0.0) } else { rest * steady_ms };
                steady_ms + (rest * steady_ms / in_flight).max(fetch_ms) + computation_ms
            }
        }
        (Pattern::Sequential, Prefetching::Linux { .. }) if causes.overlap => {
            in_flight = 2.0;
            let use_ms_per_byte = workload.think_ms() / workload.request_bytes as f64;
            let mut free_ms = 0.0_f64;
            let ms = pipeline::follow(&windows, workload.request_bytes, use_ms_per_byte, |now_ms, bytes| {
                let begins_ms = if costs.slots > 1.0 { *now_ms } else { free_ms.max(*now_ms) };
                free_ms = begins_ms + waited_ms(bytes);
                vec![(bytes, free_ms)]
            });
            // A last read that is shorter than a request is followed by as much computation as the others.
            ms.max(processor_ms)
        }
        _ => total_ms(&waited_ms) + computation_ms,
    };
    let device_ms = streams * busy_ms / costs.slots.min(streams * in_flight);
    let device_reads = pieces_of(workload, &windows)
        .saturating_add(windows.indirect)
        .saturating_mul(workload.streams.into());
    let (limit_ms, kind) = costs.limited_ms(device_reads as f64, workload.bytes as f64 * streams);
    // One stream alone waits for its own driver and nobody else.
    let shared_ms = if workload.streams > 1 {
        processor_ms * streams / f64::from(workload.processors).min(streams)
    } else {
        0.0
    };
    let time_ms = chain_ms.max(device_ms).max(limit_ms).max(shared_ms);
    let bound = if limit_ms >= time_ms && kind == LimitKind::Operations {
        Bound::Operations
    } else if limit_ms >= time_ms {
        Bound::Bytes
    } else if computation_ms >= 0.95 * time_ms || shared_ms >= time_ms {
        Bound::Computation
    } else if device_ms >= 0.95 * time_ms && (streams * in_flight >= costs.slots) {
        // A single request at a time keeps a device busy too, but then it is latency that counts.
        Bound::Device
    } else if computation_ms > 0.5 * time_ms {
        Bound::Computation
    } else {
        Bound::Latency
    };
    Evaluation { time_ms, device_reads, bound }
}

/// An FFS indirect block, somewhere in the file, in ms.
fn indirect_ms(costs: &Costs, workload: &Workload) -> f64 {
    let span_bytes = workload.span_bytes as f64 * f64::from(workload.streams);
    costs.overhead_ms + costs.positioning_ms(span_bytes, 1.0) + FFS_BLOCK_BYTES as f64 / costs.bytes_per_ms
}

/// Requests of a stream once they are cut to what the device takes, without indirect blocks.
fn pieces_of(workload: &Workload, windows: &Windows) -> u64 {
    let cut = |bytes: u64| bytes.div_ceil(workload.split_bytes);
    let head: u64 = windows.head_bytes.iter().map(|&bytes| cut(bytes)).sum();
    head + windows.steady.saturating_mul(cut(windows.steady_bytes)) + cut(windows.last_bytes)
}

/// Several streams that share an arm, or one that skips: [`crate::arm`]; `None` for anything else.
fn streams_at_the_arm(costs: &Costs, workload: &Workload, causes: Causes) -> Option<Evaluation> {
    let arm = costs.arm.as_ref()?;
    let surface = arm.surface.as_ref()?;
    let stride_bytes = match workload.pattern {
        Pattern::Sequential if workload.streams > 1 => None,
        Pattern::Strided { stride_bytes } => Some(stride_bytes as f64),
        _ => return None,
    };
    if workload.streams > FOLLOWED_STREAMS {
        return None;
    }
    let streams = f64::from(workload.streams);
    let each = Windows::uniform(workload.bytes, workload.request_bytes);
    let whole = windows(workload);
    let indirect_ms = streams * whole.indirect as f64 * indirect_ms(costs, workload);
    let ahead = matches!(workload.prefetching, Prefetching::Linux { .. });
    let follow = |windows: &Windows, ahead: bool| {
        // The first windows are smaller; a file is read in as many requests of one size.
        let requests = match windows.steady {
            0 => windows.count(),
            _ => workload.bytes.div_ceil(windows.steady_bytes),
        };
        let bytes = workload.bytes as f64 / requests as f64;
        let reads = workload.reads() as f64 / requests as f64;
        let pieces = (bytes / workload.split_bytes as f64).ceil();
        let followed = arm::follow(
            costs,
            arm,
            surface,
            &Streams {
                streams: workload.streams,
                requests,
                bytes,
                piece_bytes: bytes.min(workload.split_bytes as f64),
                stride_bytes: stride_bytes.unwrap_or(bytes),
                span_bytes: workload.span_bytes as f64,
                layout: workload.layout,
                think_ms: workload.think_ms() * reads,
                driver_ms: workload.driver_ms() * pieces,
                processors: workload.processors.min(workload.streams),
                ahead,
                reads_ahead: causes.device_readahead,
            },
        );
        (followed.time_ms, followed.busy_ms, requests as f64)
    };
    let (time_ms, busy_ms, windows) = if causes.overhead {
        let (time_ms, busy_ms, requests) = follow(&whole, ahead && causes.overlap);
        let mut time_ms = time_ms + indirect_ms;
        if !causes.positioning {
            // The overheads that fewer requests save, as far as they save time at all; the rest is the arm's.
            let (each_ms, _, reads) = follow(&each, false);
            let overheads_ms = streams * (reads - requests) * costs.overhead_ms;
            time_ms = (each_ms - overheads_ms).clamp(time_ms.min(each_ms), time_ms.max(each_ms));
        }
        (time_ms, busy_ms + indirect_ms, &whole)
    } else {
        let (time_ms, busy_ms, _) = follow(&each, false);
        (time_ms, busy_ms, &each)
    };
    let device_reads =
        pieces_of(workload, windows).saturating_add(windows.indirect).saturating_mul(workload.streams.into());
    let computation_ms = workload.reads() as f64 * workload.think_ms();
    let shared_ms = computation_ms * streams / f64::from(workload.processors).min(streams);
    let bound = if shared_ms >= 0.95 * time_ms {
        Bound::Computation
    } else if busy_ms >= 0.95 * time_ms && streams > 1.0 {
        Bound::Device
    } else if shared_ms > 0.5 * time_ms {
        Bound::Computation
    } else {
        Bound::Latency
    };
    // A sum of many terms may end below one of them by its last digit.
    Some(Evaluation { time_ms: time_ms.max(computation_ms), device_reads, bound })
}

/// The requests that prefetching makes of the device.
fn windows(workload: &Workload) -> Windows {
    let Workload { bytes, request_bytes, .. } = *workload;
    match (workload.pattern, workload.prefetching) {
        (Pattern::Sequential, Prefetching::Linux { read_ahead_bytes }) => {
            readahead::windows(bytes, request_bytes, read_ahead_bytes)
        }
        (Pattern::Sequential, Prefetching::Ffs) => ffs_windows(bytes),
        _ => Windows::uniform(bytes, request_bytes),
    }
}

fn ffs_windows(bytes: u64) -> Windows {
    let ffs = FileSystem::BSD_OS_SLOW;
    let head_kb = bytes.div_ceil(1024).min(FFS_HEAD_KB);
    let head_bytes = ffs.disk_requests_kb(head_kb as u32).into_iter().map(|kb| u64::from(kb) << 10).collect();
    let direct_bytes = u64::from(ffs.direct_blocks) * FFS_BLOCK_BYTES;
    let indirect = bytes.saturating_sub(direct_bytes).div_ceil(FFS_INDIRECT_BYTES);
    let rest = Windows::uniform(bytes.saturating_sub(head_kb << 10), u64::from(ffs.cluster_kb) << 10);
    Windows { head_bytes, indirect, ..rest }
}

fn placing(costs: &Costs, workload: &Workload, causes: Causes, requests: f64) -> Placing {
    let placed = |positioning_ms| Placing { positioning_ms, read_ahead: false, think_ms_per_byte: 0.0 };
    let Some(arm) = &costs.arm else { return placed(0.0) };
    let streams = f64::from(workload.streams);
    let span_bytes = workload.span_bytes as f64 * streams;
    let reads_ahead = causes.device_readahead && workload.streams <= arm.segments;
    let reads = workload.reads() as f64;
    let request_bytes = workload.bytes as f64 / requests;
    let think_ms = workload.think_ms() * reads / requests;
    let scattered = |waiting: f64| placed(costs.positioning_ms(span_bytes, waiting));
    match workload.pattern {
        Pattern::Sequential if workload.streams == 1 && reads_ahead => {
            // With overlap the next request already waits while the program computes.
            let alone = !(causes.overlap && matches!(workload.prefetching, Prefetching::Linux { .. }));
            let think_ms_per_byte = if alone { think_ms / request_bytes } else { 0.0 };
            let positioning_ms = arm.revolution_ms / 2.0 / requests;
            Placing { positioning_ms, read_ahead: true, think_ms_per_byte }
        }
        Pattern::Sequential if workload.streams == 1 => {
            let positioned = if causes.positioning { requests } else { reads };
            placed(costs.skip_ms(0.0, workload.think_ms()) * positioned / requests)
        }
        Pattern::Sequential => {
            let each_ms = costs.between_files_ms(workload.span_bytes as f64, streams);
            let positioned = if causes.positioning { requests } else { reads };
            let mut missing = 1.0;
            if reads_ahead {
                let serve_ms = service_ms(costs, &placed(each_ms), request_bytes as u64, u64::MAX);
                let idle_ms = ((think_ms + serve_ms) / streams - serve_ms).max(0.0);
                let ahead_bytes = (idle_ms * costs.bytes_per_ms).min(arm.readahead_bytes);
                missing = request_bytes / (request_bytes + ahead_bytes);
            }
            placed(each_ms * missing * positioned / requests)
        }
        Pattern::Strided { stride_bytes } if workload.streams == 1 => {
            let gap_bytes = (stride_bytes - workload.request_bytes) as f64;
            let skip_ms = costs.skip_ms(gap_bytes, think_ms);
            if !reads_ahead || gap_bytes > arm.readahead_bytes {
                return placed(skip_ms);
            }
            // The heads go on through the gap; what they have passed when the request comes is cached.
            let left_ms = gap_bytes / costs.bytes_per_ms - costs.cached_overhead_ms - think_ms;
            placed(skip_ms.min(left_ms.max(0.0)))
        }
        Pattern::Hinted { horizon } if causes.positioning => {
            scattered(sweep(f64::from(horizon).min(reads), streams))
        }
        // An elevator goes from file to file.
        _ if workload.streams > 1 => placed(costs.between_files_ms(workload.span_bytes as f64, streams)),
        Pattern::Strided { .. } | Pattern::Random | Pattern::Hinted { .. } => scattered(1.0),
    }
}

/// Requests that an elevator serves in a sweep over `streams` lists of which `horizon` references each are in
/// flight.
///
/// A reference is in flight until it has been served and consumed, and consumed in order: the oldest one that
/// has not been served is always `horizon` references old. Requests come in everywhere, so that what waits
/// ahead of the arm at a share x of the sweep is up to (1 - x) S old, S being the requests of a sweep. Of a
/// list's S/n of them S/n z^2 / 2 are then older than (1 - z) S, and the oldest is so with z of
/// sqrt(pi / 2) / sqrt(S / n) on average: n horizon = S - sqrt(pi / 2) sqrt(n S).
fn sweep(horizon: f64, streams: f64) -> f64 {
    if horizon <= 1.0 {
        return streams;
    }
    let half = (std::f64::consts::FRAC_PI_2 * streams).sqrt() / 2.0;
    (half + (half * half + streams * horizon).sqrt()).powi(2)
}

/// D(b), in ms: of the pieces of `split_bytes` that the device gets b in, all asked for at once.
fn service_ms(costs: &Costs, placing: &Placing, bytes: u64, split_bytes: u64) -> f64 {
    let pieces = bytes.div_ceil(split_bytes).max(1) as f64;
    let bytes = bytes as f64;
    let media_ms = bytes / costs.bytes_per_ms;
    let Some(arm) = &costs.arm else {
        let waves = (pieces / costs.slots).ceil();
        return waves * costs.overhead_ms + media_ms / pieces.min(costs.slots);
    };
    let bus_ms = bytes / arm.bus_bytes_per_ms;
    if placing.read_ahead {
        let read_on_ms = media_ms - bytes * placing.think_ms_per_byte;
        return placing.positioning_ms + (pieces * costs.cached_overhead_ms + bus_ms).max(read_on_ms);
    }
    // The bus works beside arm and media. What follows the first piece has just gone by.
    let first_ms = costs.overhead_ms + (bus_ms / pieces).max(placing.positioning_ms + media_ms / pieces);
    let next_ms = || costs.overhead_ms + (bus_ms / pieces).max(costs.skip_ms(0.0, 0.0) + media_ms / pieces);
    if pieces > 1.0 { first_ms + (pieces - 1.0) * next_ms() } else { first_ms }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::catalogue::find;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    /// 2 ms a request whatever its size, one at a time.
    fn uniform() -> DeviceParameters {
        DeviceParameters::uniform(2.0, 1 << 40)
    }

    #[test]
    fn a_window_is_in_flight_while_the_last_is_consumed() {
        // Windows of 16, 32, 64 and 8 x 128 KB. 0.5 ms a read of 8 KB is 1, 2, 4 and 8 ms a window.
        let workload = Workload { think_us: 500.0, ..Workload::sequential((112 << 10) + MIB) };
        let p = predict(&uniform(), &workload).unwrap();
        assert_eq!((p.device_reads, p.computation_ms), (11, 71.0));
        // The first window is waited for. The second is asked for after the first read, at 2.5, and there at 4.5, the
        // third 2 ms later, when the second has been consumed; the rest is computation.
        assert_eq!(p.time_ms, 4.5 + 2.0 + 4.0 + 8.0 * 8.0);
        assert_eq!(p.bound, Bound::Computation);
        // Without prefetching each of the 142 reads takes 2 ms, and computation comes on top.
        assert_eq!(p.unprefetched_ms, 142.0 * 2.0 + 71.0);
        assert_eq!((p.saved.overhead_ms, p.saved.device_readahead_ms), (131.0 * 2.0, 0.0));
        assert_eq!(p.saved.overlap_ms, 22.0 + 71.0 - p.time_ms);
    }

    #[test]
    fn a_horizon_keeps_as_many_requests_in_flight() {
        let nvme = find("nvme").unwrap();
        let at = |horizon| Workload {
            pattern: Pattern::Hinted { horizon },
            request_bytes: 4096,
            ..Workload::sequential(64 * MIB)
        };
        let (one, eight) = (predict(&nvme, &at(1)).unwrap(), predict(&nvme, &at(8)).unwrap());
        assert!((one.time_ms / eight.time_ms - 8.0).abs() < 0.01, "{one:?} {eight:?}");
        // 64 requests of 80 us would be 798 thousand a second: the drive does 600 thousand.
        let many = predict(&nvme, &at(1000)).unwrap();
        assert_eq!(many.bound, Bound::Operations);
        assert!((many.time_ms - 16384.0 / 600.0).abs() < 1e-9);
    }

    #[test]
    fn a_cloud_volume_is_as_fast_as_its_operations() {
        let volume = find("cloud-volume").unwrap();
        let random = Workload { pattern: Pattern::Random, streams: 64, ..Workload::sequential(8 * MIB) };
        let p = predict(&volume, &random).unwrap();
        // 65536 reads, 300 of them saved up, at 3000 a second.
        assert_eq!(p.bound, Bound::Operations);
        assert!((p.time_ms - (65536.0 - 300.0) / 3.0).abs() < 1e-6);
    }

    #[test]
    fn half_the_time_in_computation_is_no_limit_if_the_device_is_always_busy() {
        // A bus of 9.3 MB/s takes 7.2 s for 64 MiB; the program computes for 4.1 s beside it.
        let disk = find("st34501w").unwrap();
        let prefetching = Prefetching::Linux { read_ahead_bytes: MIB };
        let workload = Workload { think_us: 500.0, prefetching, ..Workload::sequential(64 * MIB) };
        assert_eq!(predict(&disk, &workload).unwrap().bound, Bound::Device);
        let slow = Workload { think_us: 1000.0, ..workload };
        assert_eq!(predict(&disk, &slow).unwrap().bound, Bound::Computation);
    }

    #[test]
    fn processors_are_shared_and_the_driver_takes_its_part() {
        // Four streams of 1 MiB compute for 10 ms on each of 128 reads, on one processor, with 1 ms a request.
        let workload = Workload {
            streams: 4,
            think_us: 10e3,
            processors: 1,
            driver_us: 1e3,
            prefetching: Prefetching::Off,
            ..Workload::sequential(MIB)
        };
        assert_eq!(predict(&uniform(), &workload).unwrap().time_ms, 4.0 * 128.0 * 11.0);
        let alone = Workload { processors: 4, ..workload };
        assert!(predict(&uniform(), &alone).unwrap().time_ms < 128.0 * 15.0);
    }

    #[test]
    fn a_window_is_asked_for_in_pieces_side_by_side() {
        // 0.075 ms + 128 KB at 800 MB/s for each of 8 pieces of a window of 1 MiB, all at once, and two windows at a
        // time: as fast as the drive's 3.5 GB/s, where whole windows make 1.5 GB/s.
        let nvme = find("nvme").unwrap();
        let prefetching = Prefetching::Linux { read_ahead_bytes: MIB };
        let whole = Workload { prefetching, ..Workload::sequential(64 * MIB) };
        let cut = Workload { split_bytes: 128 << 10, ..whole };
        let (whole, cut) = (predict(&nvme, &whole).unwrap(), predict(&nvme, &cut).unwrap());
        assert!(
            cut.time_ms < whole.time_ms / 2.2 && cut.device_reads > 7 * (whole.device_reads - 8),
            "{cut:?}"
        );
    }

    #[test]
    fn segments_help_as_long_as_the_disk_idles() {
        let disk = find("st34501w").unwrap();
        let saved_ms = |streams, think_us| {
            let direct = Workload { prefetching: Prefetching::Off, ..Workload::sequential(8 * MIB) };
            predict(&disk, &Workload { streams, think_us, ..direct }).unwrap().saved.device_readahead_ms
        };
        // Three segments, and a drive that idles only if the programs compute.
        assert!(saved_ms(3, 20e3) > 0.0 && saved_ms(3, 0.0) == 0.0 && saved_ms(4, 20e3) == 0.0);
    }

    #[test]
    fn ffs_reads_an_indirect_block_every_16_mib() {
        let workload = Workload { prefetching: Prefetching::Ffs, ..Workload::sequential(32 * MIB) };
        // 96 KB in 6 requests, 32, and from 160 KB on clusters: see the windows of `ffs`; 2 indirect blocks.
        let expected = windows(&workload);
        assert_eq!(expected.indirect, 2);
        assert_eq!(
            expected.head_bytes.iter().sum::<u64>() + expected.steady * (64 << 10) + expected.last_bytes,
            32 * MIB
        );
        assert_eq!(predict(&uniform(), &workload).unwrap().device_reads, expected.count() + 2);
    }

    #[test]
    fn the_largest_workload_is_still_a_number() {
        let largest = Workload {
            pattern: Pattern::Random,
            request_bytes: 1,
            span_bytes: 1,
            streams: crate::workload::MAX_STREAMS,
            think_us: crate::workload::MAX_THINK_US,
            ..Workload::sequential(crate::workload::MAX_BYTES)
        };
        let p = predict(&find("object-store").unwrap(), &largest).unwrap();
        assert!(p.time_ms.is_finite() && p.device_reads == u64::MAX);
    }

    fn workloads() -> impl Strategy<Value = Workload> {
        let pattern = prop_oneof![
            Just(Pattern::Sequential),
            Just(Pattern::Random),
            (16u64..4096).prop_map(|kb| Pattern::Strided { stride_bytes: kb << 10 }),
            (1u32..200).prop_map(|horizon| Pattern::Hinted { horizon }),
        ];
        let prefetching = prop_oneof![
            Just(Prefetching::Off),
            Just(Prefetching::Ffs),
            (0u64..4096).prop_map(|kb| Prefetching::Linux { read_ahead_bytes: kb << 10 }),
        ];
        (pattern, 1u64..1 << 25, 1u64..16384, 1u32..32, 0.0f64..5000.0, prefetching).prop_map(
            |(pattern, bytes, request_bytes, streams, think_us, prefetching)| Workload {
                pattern,
                request_bytes: request_bytes.min(bytes),
                streams,
                think_us,
                prefetching,
                ..Workload::sequential(bytes)
            },
        )
    }

    proptest! {
        #[test]
        fn the_causes_add_up_and_nothing_beats_computation(
            workload in workloads(),
            device in prop::sample::select(vec!["hp97560", "st34501w", "disk7200", "nvme", "cloud-volume", "object-store"]),
        ) {
            let p = predict(&find(device).unwrap(), &workload).unwrap();
            let Saved { device_readahead_ms, overhead_ms, positioning_ms, parallel_ms, overlap_ms } = p.saved;
            let saved_ms = device_readahead_ms + overhead_ms + positioning_ms + parallel_ms + overlap_ms;
            prop_assert!(p.time_ms.is_finite() && p.time_ms >= p.computation_ms);
            prop_assert!((p.unprefetched_ms - saved_ms - p.time_ms).abs() <= 1e-9 * p.unprefetched_ms);
        }

        #[test]
        fn more_bytes_never_take_less_time(workload in workloads()) {
            let more = Workload { bytes: workload.bytes * 2, span_bytes: workload.span_bytes * 2, ..workload };
            // At an arm, files of another length lie at other angles to each other, and strides do.
            let alone = workload.streams == 1 && !matches!(workload.pattern, Pattern::Strided { .. });
            for device in if alone { &["nvme", "disk7200"][..] } else { &["nvme"] } {
                let device = find(device).unwrap();
                let (less, more) = (predict(&device, &workload).unwrap(), predict(&device, &more).unwrap());
                prop_assert!(less.time_ms <= more.time_ms * (1.0 + 1e-9), "{} {}", less.time_ms, more.time_ms);
            }
        }
    }
}
