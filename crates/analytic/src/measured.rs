//! The time of a workload at a device that was calibrated: the same asymptotic bounds as in
//! [`crate::predict`], with tables for the device and the processor's part of each read.
//!
//! # Direct reads
//!
//! A read of b bytes takes `alone(b)`, and positioning if it does not continue the one before. n streams with
//! one read each in flight cannot be faster than the device's narrowest part, `n sum busy`, nor than its caps.
//!
//! # Reads through the page cache
//!
//! The processor adds its part: a call, the copy, and for what is missing room in the page cache and a
//! request. Linux reads sequential files in windows, two of which are in flight (the module `pipeline`). A window is
//! asked for in requests of at most `max_request_bytes`, each of which wakes the program by itself; they pass a
//! device with several channels side by side. A device with memory behind it can fill the page cache sooner than
//! direct reads, many at once, show it; so what was seen of readahead (`ahead_mb_per_s`) bounds its part of a window.
//!
//! Several streams whose device positions: each has two windows in flight, which stand one behind the other in
//! the device's queue, so that every other window needs no positioning.

use foretell_device::{Host, MeasuredParameters};

use crate::evaluation::{Bound, Causes, Evaluation};
use crate::limits::{Limit, LimitKind};
use crate::pipeline;
use crate::readahead::Windows;
use crate::workload::{Pattern, Prefetching, Workload};

/// What is seen of windows holds for requests that are no smaller than the smallest of them, in bytes.
const AHEAD_BYTES: u64 = 128 << 10;

/// A measured device, and the machine that it was measured in if that is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The tables.
    pub device: MeasuredParameters,
    /// The processor's part; none is no time.
    pub host: Option<Host>,
}

/// The processor's part of reads, in ms and ms a byte.
#[derive(Debug, Clone, Copy, Default)]
struct Processor {
    read_ms: f64,
    copy_ms_per_byte: f64,
    fill_ms_per_byte: f64,
    submit_ms: f64,
    /// What a wait through the page cache takes longer than one of a direct read, with the asking.
    wait_ms: f64,
    /// What the device needs for a byte at most when it fills the page cache in order.
    ahead_ms_per_byte: Option<f64>,
}

impl Processor {
    fn of(host: &Host) -> Processor {
        Processor {
            read_ms: host.read_us / 1e3,
            copy_ms_per_byte: 1e-3 / host.copy_mb_per_s,
            fill_ms_per_byte: 1e-3 / host.fill_mb_per_s,
            submit_ms: host.submit_us / 1e3,
            wait_ms: (host.wait_us - host.direct_us) / 1e3,
            ahead_ms_per_byte: host.ahead_mb_per_s.map(|rate| 1e-3 / rate),
        }
    }

    /// Asking for `bytes` in `requests`.
    fn ask_ms(&self, bytes: f64, requests: f64) -> f64 {
        self.submit_ms * requests + self.fill_ms_per_byte * bytes
    }
}

/// One stream's requests at the device.
#[derive(Debug, Clone, Copy)]
struct Requests<'a> {
    measured: &'a Measured,
    processor: Processor,
    /// What the kernel splits at, in bytes.
    most_bytes: u64,
    /// p and p' of each window or read.
    positioning_ms: f64,
    busy_positioning_ms: f64,
}

impl Requests<'_> {
    /// The pieces in which `bytes` are asked for: whole ones, and what is left.
    fn pieces(&self, bytes: u64) -> impl Iterator<Item = u64> {
        let most = self.most_bytes.max(1);
        let rest = bytes % most;
        (0..bytes / most).map(move |_| most).chain((rest > 0).then_some(rest))
    }

    /// The device's part of a piece with nothing else in flight.
    fn alone_ms(&self, bytes: u64) -> f64 {
        (self.measured.device.alone_ms(bytes as f64) + self.processor.wait_ms).max(0.0)
    }

    fn busy_ms(&self, bytes: u64) -> f64 {
        let busy_ms = self.measured.device.busy_ms(bytes as f64).min(self.alone_ms(bytes));
        match self.processor.ahead_ms_per_byte {
            Some(each_ms) if bytes >= AHEAD_BYTES => busy_ms.min(each_ms * bytes as f64),
            _ => busy_ms,
        }
    }

    /// The device's part of a window that nothing else is in flight with.
    fn window_ms(&self, bytes: u64) -> f64 {
        let mut free_ms = self.busy_positioning_ms;
        let mut done_ms: f64 = 0.0;
        for piece in self.pieces(bytes) {
            free_ms += self.busy_ms(piece);
            done_ms = done_ms.max(free_ms).max(self.alone_ms(piece) + self.positioning_ms);
        }
        done_ms
    }

    /// What a window keeps the narrowest part of the device busy for.
    fn window_busy_ms(&self, bytes: u64) -> f64 {
        self.busy_positioning_ms + self.pieces(bytes).map(|piece| self.busy_ms(piece)).sum::<f64>()
    }

    fn ask_ms(&self, bytes: u64) -> f64 {
        self.processor.ask_ms(bytes as f64, self.pieces(bytes).count() as f64)
    }
}

/// Sums over all windows of a stream.
fn over(windows: &Windows, mut of: impl FnMut(u64) -> f64) -> f64 {
    let head: f64 = windows.head_bytes.iter().map(|&bytes| of(bytes)).sum();
    let last = if windows.last_bytes > 0 { of(windows.last_bytes) } else { 0.0 };
    let steady = if windows.steady > 0 { windows.steady as f64 * of(windows.steady_bytes) } else { 0.0 };
    head + steady + last
}

/// The share of reads that are not in the page cache from an earlier read of the same place: of r random
/// reads of N places, `N (1 - exp(-r/N))` are of a new one, as long as memory holds them all.
fn missing_share(workload: &Workload) -> f64 {
    let again = matches!(workload.pattern, Pattern::Random | Pattern::Hinted { .. });
    if !again || workload.prefetching == Prefetching::Off {
        return 1.0;
    }
    let reads = workload.reads() as f64;
    let places = (workload.span_bytes as f64 / workload.request_bytes as f64).max(1.0);
    let streams = f64::from(workload.streams);
    let kept = (workload.memory_bytes as f64 / workload.request_bytes as f64 / streams).min(places);
    let new = places * -(-reads / places).exp_m1();
    if new <= kept {
        return new / reads;
    }
    // Memory is full after so many reads; from then on a read finds its place with probability kept / places.
    let filling = -places * (-kept / places).ln_1p();
    (kept + (reads - filling) * (1.0 - kept / places)) / reads
}

impl Measured {
    /// o: what a request takes before its bytes, in ms.
    pub(crate) fn overhead_ms(&self) -> f64 {
        self.device.service.first().map_or(0.0, |first| first.alone_ms)
    }

    /// W, in bytes/ms; infinite if large requests take no longer than small ones.
    pub(crate) fn bytes_per_ms(&self) -> f64 {
        let (Some(first), Some(last)) = (self.device.service.first(), self.device.service.last()) else {
            return f64::INFINITY;
        };
        let ms = last.alone_ms - first.alone_ms;
        if ms > 0.0 { (last.bytes - first.bytes) as f64 / ms } else { f64::INFINITY }
    }

    /// Small requests that are served at a time.
    pub(crate) fn slots(&self) -> f64 {
        let Some(first) = self.device.service.first() else { return 1.0 };
        let alone_ms = first.alone_ms + self.device.positioning_ms;
        let busy_ms = first.busy_ms + self.device.busy_positioning_ms;
        if busy_ms > 0.0 { (alone_ms / busy_ms).max(1.0) } else { f64::from(self.device.outstanding) }
    }

    /// What the whole device can do.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let cap = |cap: foretell_device::Cap, kind| Limit {
            kind,
            per_ms: cap.per_s as f64 / 1e3,
            burst: cap.burst as f64,
        };
        let mut limits = Vec::new();
        limits.extend(self.device.operations.map(|c| cap(c, LimitKind::Operations)));
        limits.extend(self.device.bytes.map(|c| cap(c, LimitKind::Bytes)));
        let widest = self.device.service.last().filter(|point| point.busy_ms > 0.0);
        limits.extend(widest.map(|point| Limit {
            kind: LimitKind::Bytes,
            per_ms: point.bytes as f64 / point.busy_ms,
            burst: 0.0,
        }));
        limits
    }

    /// The time of `workload`, whose windows with prefetching are `windows`, with these causes at work.
    pub(crate) fn evaluate(&self, workload: &Workload, windows: Windows, causes: Causes) -> Evaluation {
        let streams = f64::from(workload.streams);
        let reads = workload.reads() as f64;
        let missing = missing_share(workload);
        let each = Windows::uniform(workload.bytes, workload.request_bytes);
        let windows = if causes.overhead { windows } else { each };
        let direct = workload.prefetching == Prefetching::Off;
        let processor = match &self.host {
            Some(host) if !direct => Processor::of(host),
            _ => Processor::default(),
        };
        // The table's times of large direct reads have the kernel's splitting in them.
        let split = self.host.filter(|_| !direct).map_or(u64::MAX, |host| host.max_request_bytes);
        let scattered = workload.pattern != Pattern::Sequential || workload.streams > 1;
        let span_bytes = workload.span_bytes as f64 * streams;
        let (position_ms, busy_position_ms) =
            (self.device.positioning_ms(span_bytes), self.device.busy_positioning_ms);
        let pipelined = workload.pattern == Pattern::Sequential
            && matches!(workload.prefetching, Prefetching::Linux { .. })
            && causes.overlap;
        let positioned = match (scattered, causes.positioning) {
            (false, _) => 0.0,
            // Two windows of a stream are in flight, and the device takes them one after the other.
            (true, true) if pipelined => 0.5,
            (true, true) => 1.0,
            (true, false) => reads / windows.count().max(1) as f64,
        };
        let requests = Requests {
            measured: self,
            processor,
            most_bytes: split,
            positioning_ms: position_ms * positioned,
            busy_positioning_ms: busy_position_ms * positioned,
        };
        let think_ms = workload.think_ms();
        let computation_ms = reads * think_ms;
        // What the program does with each read once its data are there.
        let use_ms =
            computation_ms + reads * processor.read_ms + workload.bytes as f64 * processor.copy_ms_per_byte;
        let ask_ms = missing * over(&windows, |bytes| requests.ask_ms(bytes));
        let device_ms = missing * over(&windows, |bytes| requests.window_busy_ms(bytes));
        let first_ms = if scattered { 0.0 } else { position_ms };

        let chain_ms = first_ms
            + match (workload.pattern, workload.prefetching) {
                (Pattern::Hinted { horizon }, _) if causes.parallel => {
                    let horizon = f64::from(horizon).min(reads);
                    let own_ms = missing * requests.window_ms(workload.request_bytes);
                    let processor_ms = (use_ms + ask_ms) / reads;
                    let overlapped_ms = if causes.overlap { processor_ms } else { 0.0 };
                    let serial_ms = if causes.overlap { 0.0 } else { processor_ms };
                    let step_ms = ((own_ms + overlapped_ms) / horizon)
                        .max(missing * requests.window_busy_ms(workload.request_bytes))
                        .max(overlapped_ms);
                    own_ms + processor_ms + (reads - 1.0) * (step_ms + serial_ms)
                }
                _ if pipelined => self.pipelined_ms(&windows, &requests, workload),
                _ => missing * over(&windows, |bytes| requests.window_ms(bytes)) + ask_ms + use_ms,
            };
        let processors = self.host.map_or(streams, |host| f64::from(host.processors)).min(streams);
        let processor_ms = streams * (use_ms + ask_ms) / processors;
        let device_reads = missing * over(&windows, |bytes| requests.pieces(bytes).count() as f64) * streams;
        let (limit_ms, kind) = self.capped_ms(device_reads, missing * workload.bytes as f64 * streams);
        let shared_ms = streams * device_ms;
        let time_ms = chain_ms.max(shared_ms).max(processor_ms).max(limit_ms);
        let bound = if limit_ms >= time_ms && kind == LimitKind::Operations {
            Bound::Operations
        } else if limit_ms >= time_ms {
            Bound::Bytes
        } else if computation_ms > 0.5 * time_ms {
            Bound::Computation
        } else if shared_ms >= 0.95 * time_ms {
            Bound::Device
        } else {
            Bound::Latency
        };
        Evaluation { time_ms, device_reads: device_reads as u64, bound }
    }

    fn capped_ms(&self, operations: f64, bytes: f64) -> (f64, LimitKind) {
        let time = |cap: Option<foretell_device::Cap>, amount: f64| {
            cap.map_or(0.0, |cap| (amount - cap.burst as f64).max(0.0) / cap.per_s as f64 * 1e3)
        };
        let by_operations = time(self.device.operations, operations);
        let by_bytes = time(self.device.bytes, bytes);
        if by_operations > by_bytes {
            (by_operations, LimitKind::Operations)
        } else {
            (by_bytes, LimitKind::Bytes)
        }
    }

    /// A sequential stream under Linux's readahead.
    fn pipelined_ms(&self, windows: &Windows, requests: &Requests<'_>, workload: &Workload) -> f64 {
        let processor = requests.processor;
        let each_ms = workload.think_ms() + processor.read_ms;
        let use_ms_per_byte = each_ms / workload.request_bytes as f64 + processor.copy_ms_per_byte;
        let mut free_ms = 0.0;
        let ms = pipeline::follow(windows, workload.request_bytes, use_ms_per_byte, |now_ms, bytes| {
            *now_ms += requests.ask_ms(bytes);
            free_ms = f64::max(free_ms, *now_ms) + requests.busy_positioning_ms;
            let mut arrivals = Vec::new();
            for piece in requests.pieces(bytes) {
                free_ms += requests.busy_ms(piece);
                let own_ms = *now_ms + requests.alone_ms(piece) + requests.positioning_ms;
                arrivals.push((piece, own_ms.max(free_ms)));
            }
            arrivals
        });
        // A last read that is shorter than a request is followed by as much computation as the others.
        ms.max(workload.reads() as f64 * each_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::{Cap, DeviceParameters, Model, ServicePoint};

    use crate::predict::predict;

    const MIB: u64 = 1 << 20;

    /// 1 ms and 1 ms a MiB; with `channels` at a time.
    fn device(channels: f64) -> MeasuredParameters {
        let service = [4096, MIB]
            .map(|bytes| {
                let alone_ms = 1.0 + bytes as f64 / MIB as f64;
                ServicePoint { bytes, alone_ms, busy_ms: alone_ms / channels }
            })
            .to_vec();
        MeasuredParameters {
            capacity_bytes: 1 << 40,
            outstanding: 32,
            positioning_ms: 0.0,
            near_positioning_ms: None,
            busy_positioning_ms: 0.0,
            service,
            operations: None,
            bytes: None,
        }
    }

    fn time_ms(device: MeasuredParameters, host: Option<Host>, workload: &Workload) -> f64 {
        let parameters =
            DeviceParameters { host, model: Model::Measured(device), ..DeviceParameters::uniform(1.0, 4096) };
        parameters.check().unwrap();
        predict(&parameters, workload).unwrap().time_ms
    }

    /// A machine that costs nothing.
    fn free_processor() -> Host {
        Host {
            read_us: 0.0,
            copy_mb_per_s: 1e9,
            fill_mb_per_s: 1e9,
            submit_us: 0.0,
            wait_us: 0.0,
            direct_us: 0.0,
            ahead_mb_per_s: None,
            max_request_bytes: MIB,
            processors: 2,
        }
    }

    fn windows_of_a_mib(think_us: f64) -> Workload {
        Workload {
            request_bytes: MIB,
            think_us,
            prefetching: Prefetching::Linux { read_ahead_bytes: MIB },
            ..Workload::sequential(1024 * MIB)
        }
    }

    #[test]
    fn two_windows_are_in_flight_where_the_device_takes_them() {
        // D is 2 ms. One channel: a window every 2 ms. Eight: every (D + h) / 2 = 1 ms.
        let workload = windows_of_a_mib(0.0);
        assert!((time_ms(device(1.0), None, &workload) / 1024.0 - 2.0).abs() < 0.01);
        let ms = time_ms(device(8.0), None, &workload) / 1024.0;
        assert!((ms - 1.0).abs() < 0.01, "{ms}");
        // With h = 1 ms of computation (2 + 1) / 2, with 3 ms the computation.
        assert!((time_ms(device(8.0), None, &windows_of_a_mib(1000.0)) / 1024.0 - 1.5).abs() < 0.01);
        assert!((time_ms(device(8.0), None, &windows_of_a_mib(3000.0)) / 1024.0 - 3.0).abs() < 0.01);
    }

    #[test]
    fn large_windows_pass_several_channels_in_pieces() {
        let host = free_processor();
        let workload = Workload {
            prefetching: Prefetching::Linux { read_ahead_bytes: 8 * MIB },
            ..windows_of_a_mib(0.0)
        };
        // Eight pieces of 2 ms side by side, two windows in flight: 128 windows at 8 x 0.25 ms.
        let ms = time_ms(device(8.0), Some(host), &workload);
        assert!((ms / 128.0 - 2.0).abs() < 0.05, "{ms}");
    }

    #[test]
    fn the_processor_is_part_of_reads_through_the_page_cache_only() {
        let host = Host {
            read_us: 1.0,
            copy_mb_per_s: 1048.576,
            fill_mb_per_s: 1048.576,
            submit_us: 2.0,
            wait_us: 4.0,
            direct_us: 5.0,
            ahead_mb_per_s: None,
            max_request_bytes: MIB,
            processors: 2,
        };
        let direct = Workload {
            pattern: Pattern::Random,
            request_bytes: MIB,
            // So large that nothing is read twice.
            span_bytes: 1 << 39,
            prefetching: Prefetching::Off,
            ..Workload::sequential(10 * MIB)
        };
        let cached = Workload { prefetching: Prefetching::Linux { read_ahead_bytes: MIB }, ..direct };
        assert!((time_ms(device(1.0), Some(host), &direct) - 20.0).abs() < 1e-9);
        // 2 ms, call 0.001, copy 1, fill 1, asking 0.006 instead of 0.005.
        let ms = time_ms(device(1.0), Some(host), &cached);
        assert!((ms - 40.02).abs() < 1e-3, "{ms}");
    }

    #[test]
    fn what_was_seen_of_readahead_bounds_the_devices_part() {
        let host = Host { ahead_mb_per_s: Some(2.0 * 1048.576), ..free_processor() };
        // Direct reads take 2 ms one at a time and no less together; windows were seen to come each 0.5 ms, of which
        // two in flight make (0 + 2) / 2.
        let ms = time_ms(device(1.0), Some(host), &windows_of_a_mib(0.0)) / 1024.0;
        assert!((ms - 1.0).abs() < 0.01, "{ms}");
    }

    #[test]
    fn what_was_read_before_is_in_the_page_cache() {
        let workload = Workload {
            pattern: Pattern::Random,
            request_bytes: 4096,
            span_bytes: 4 * MIB,
            ..Workload::sequential(4 * MIB)
        };
        // As many reads as places: 1 - 1/e of them are new.
        assert!((missing_share(&workload) - 0.632).abs() < 0.001);
        assert_eq!(missing_share(&Workload { prefetching: Prefetching::Off, ..workload }), 1.0);
        // With memory for half of the places, the first 0.693 of the reads fill it and half of the rest miss.
        let half = missing_share(&Workload { memory_bytes: 2 * MIB, ..workload });
        assert!((half - (0.5 + 0.307 * 0.5)).abs() < 0.001, "{half}");
    }

    #[test]
    fn bursts_come_before_caps() {
        let capped =
            MeasuredParameters { bytes: Some(Cap { per_s: 100 * MIB, burst: 24 * MIB }), ..device(8.0) };
        let ms = time_ms(capped, None, &windows_of_a_mib(0.0));
        assert!((ms - 10_000.0).abs() < 1e-6, "{ms}");
    }
}
