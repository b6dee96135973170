//! What to set so that prefetching pays, with the reason, the gain and the conditions.
//!
//! With lambda = o + pi, the time before the first byte, c the rate at which a stream consumes, W the rate of
//! a request (or of the device if that is lower) and e = [`EFFICIENCY`]:
//!
//! 1. `read_ahead_kb` A: a stream that consumes slower than the device delivers never waits if the next
//!    window arrives while one is consumed, `A >= c lambda / (1 - c/W)`; a faster one gets a share e of the
//!    rate with `A = e/(1-e) lambda W`. What is advised is the smallest power of two whose predicted time is
//!    close (1.5%) to the best that memory allows: it has the small first windows in it too.
//! 2. Block or part size: `e/(1-e) lambda W`, and at least bytes/s over operations/s of a capped device, so
//!    that its bytes are the limit.
//! 3. Queue depth: `ceil(rate x D(b) / b)`; more adds only latency.
//! 4. Horizon: the fewest references ahead of which three quarters are predicted to be as close to the best that
//!    memory allows. About L / tau: the time of a late request over the computation a reference.
//! 5. Gaps up to W lambda are read through instead of skipped; a batch is sorted as far as that still saves
//!    positioning.
//! 6. Streams: on disks as few as possible; otherwise as many as fill the device.
//!
//! Every setting is judged by [`crate::predict`] and left out if it does not shorten the predicted time.

use foretell_device::DeviceParameters;

use crate::costs::{Costs, LimitKind};
use crate::predict::{Prediction, predict};
use crate::workload::{Pattern, Prefetching, Workload, WorkloadError};

/// The share of the device's rate that a block is chosen for.
pub const EFFICIENCY: f64 = 0.97;
/// How much a setting must gain to be worth a word: less is within the error of the model.
pub const TOLERANCE: f64 = 0.03;
/// How much longer than the best the predicted time may be where a smaller setting then does. Half of the above, so that
/// a model that is a little off still is within 5% of the best (`docs/results/model.md`).
const CLOSE: f64 = 0.015;
/// The largest `read_ahead_kb` and block advised: 64 MiB. Larger ones gain nothing measurable at any of the
/// built-in devices and delay whoever else uses the device.
const MAX_WINDOW_BYTES: u64 = 64 << 20;
/// Windows of each of several streams at least.
const LEAST_WINDOWS: u64 = 4;
/// The longest horizon and queue that are tried.
const MAX_HORIZON: u32 = 65_536;

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// `read_ahead_kb` of the device, in KB.
    ReadAheadKb,
    /// References ahead that are fetched.
    Horizon,
    /// Requests in flight.
    QueueDepth,
    /// Requests that are sorted together.
    Batch,
    /// Bytes of a read, block or part.
    BlockBytes,
    /// Gaps of up to this many bytes are read instead of skipped.
    MergeGapBytes,
    /// Streams at the same time.
    Streams,
}

impl Setting {
    /// Its name for machines and people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Setting::ReadAheadKb => "read_ahead_kb",
            Setting::Horizon => "horizon",
            Setting::QueueDepth => "queue_depth",
            Setting::Batch => "batch",
            Setting::BlockBytes => "block_bytes",
            Setting::MergeGapBytes => "merge_gap_bytes",
            Setting::Streams => "streams",
        }
    }
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// What to set.
    pub setting: Setting,
    /// To what.
    pub value: u64,
    /// The workload with it.
    pub workload: Workload,
    /// The predicted time of the whole workload with it, in ms.
    pub time_ms: f64,
    /// Why.
    pub because: String,
    /// When it holds.
    pub holds_if: String,
}

/// What to set for `workload` at `device`, the largest gain first, and the prediction without any of it.
///
/// # Errors
///
/// [`WorkloadError`] for a workload that cannot be, or not at this device.
pub fn advise(
    device: &DeviceParameters,
    workload: &Workload,
) -> Result<(Prediction, Vec<Advice>), WorkloadError> {
    let now = predict(device, workload)?;
    let costs = Costs::of(device);
    let adviser = Adviser { device, costs: &costs, workload };
    let all = [
        adviser.read_ahead(),
        adviser.horizon(),
        adviser.queue_depth(),
        adviser.batch(),
        adviser.block(),
        adviser.merge_gap(),
        adviser.streams(),
    ];
    let mut advice: Vec<Advice> = all.into_iter().flatten().collect();
    advice.retain(|a| a.time_ms < now.time_ms * (1.0 - TOLERANCE));
    // Stable: equals stay in the order above.
    advice.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
    Ok((now, advice))
}

/// How far ahead and in what batches a disclosed order should be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForHints {
    /// H, in references.
    pub horizon: u32,
    /// Requests issued together: as many as are worth sorting on a disk, as many as keep another device busy.
    pub batch: u32,
}

/// Horizon and batch for reads of `block_bytes` anywhere on `device` in a disclosed order, if `memory_bytes`
/// may hold what was fetched and not yet read. How long the program computes is not known: what keeps the
/// device busy when it does not compute is enough when it does.
///
/// # Errors
///
/// [`WorkloadError`] if not even one block fits.
pub fn for_hints(
    device: &DeviceParameters,
    block_bytes: u64,
    memory_bytes: u64,
) -> Result<ForHints, WorkloadError> {
    let costs = Costs::of(device);
    let workload = Workload {
        pattern: Pattern::Hinted { horizon: 1 },
        bytes: block_bytes.saturating_mul(u64::from(MAX_HORIZON)).min(costs.capacity_bytes),
        span_bytes: costs.capacity_bytes,
        request_bytes: block_bytes,
        prefetching: Prefetching::Off,
        memory_bytes,
        ..Workload::sequential(block_bytes)
    };
    predict(device, &workload)?;
    let adviser = Adviser { device, costs: &costs, workload: &workload };
    let horizon = adviser.best_horizon().map_or(1, |(horizon, _)| horizon);
    let batch = adviser.batch().or_else(|| adviser.queue_depth()).map_or(1, |a| a.value as u32);
    Ok(ForHints { horizon, batch: batch.min(horizon) })
}

/// As many streams (connections, requests in flight) as a device without moving parts needs to deliver
/// `bytes_per_s` in reads of the workload's size: Little's law, n = r (E\[L\]/b + 1/w). `None` for a disk, which
/// more streams only slow down, and for a rate beyond what the device can.
#[must_use]
pub fn streams_for_rate(device: &DeviceParameters, workload: &Workload, bytes_per_s: f64) -> Option<Advice> {
    let costs = Costs::of(device);
    if costs.arm.is_some() {
        return None;
    }
    let (bytes, per_ms) = (workload.request_bytes as f64, bytes_per_s / 1e3);
    let enough = costs.limits.iter().all(|limit| match limit.kind {
        LimitKind::Operations => per_ms / bytes <= limit.per_ms,
        LimitKind::Bytes => per_ms <= limit.per_ms,
    });
    let each_ms = costs.overhead_ms + bytes / costs.bytes_per_ms;
    let streams = (per_ms / bytes * each_ms).ceil().max(1.0);
    if !enough || streams > costs.slots {
        return None;
    }
    let total = workload.bytes.saturating_mul(workload.streams.into());
    let share = (total / streams as u64).max(workload.request_bytes);
    let shared = Workload {
        pattern: Pattern::Random,
        prefetching: Prefetching::Off,
        streams: streams as u32,
        bytes: share,
        span_bytes: share,
        think_us: 0.0,
        ..*workload
    };
    Some(Advice {
        setting: Setting::Streams,
        value: streams as u64,
        workload: shared,
        time_ms: predict(device, &shared).ok()?.time_ms,
        because: format!(
            "a read of {bytes:.0} bytes takes {each_ms:.2} ms, so that as many in flight deliver {:.1} MB/s",
            per_ms / 1e3
        ),
        holds_if: "each stream asks for the next as soon as it has one".to_owned(),
    })
}

/// The first of ascending settings whose time is [`CLOSE`] to the best.
fn least_close<T>(times_ms: Vec<(T, f64)>) -> Option<(T, f64)> {
    let best_ms = times_ms.iter().map(|(_, ms)| *ms).min_by(f64::total_cmp)?;
    times_ms.into_iter().find(|(_, ms)| *ms <= best_ms * (1.0 + CLOSE))
}

struct Adviser<'a> {
    device: &'a DeviceParameters,
    costs: &'a Costs,
    workload: &'a Workload,
}

impl Adviser<'_> {
    /// The predicted time of another workload, if it can be.
    fn time_ms(&self, workload: &Workload) -> Option<f64> {
        predict(self.device, workload).ok().map(|prediction| prediction.time_ms)
    }

    /// W, or the whole device's bytes if they are fewer, in bytes/ms; `None` without any limit.
    fn rate(&self) -> Option<f64> {
        let limits = self.costs.limits.iter().filter(|limit| limit.kind == LimitKind::Bytes);
        let rate = limits.map(|limit| limit.per_ms).fold(self.costs.bytes_per_ms, f64::min);
        rate.is_finite().then_some(rate)
    }

    /// lambda, in ms.
    fn before_first_byte_ms(&self) -> f64 {
        let Workload { streams, span_bytes, pattern, .. } = *self.workload;
        let streams = f64::from(streams);
        let positioning_ms = match (&self.costs.arm, pattern) {
            (Some(arm), Pattern::Sequential) if streams == 1.0 && arm.segments > 0 => 0.0,
            (_, Pattern::Sequential) if streams == 1.0 => self.costs.skip_ms(0.0, 0.0),
            (_, Pattern::Sequential) => self.costs.between_files_ms(span_bytes as f64, streams),
            _ => self.costs.positioning_ms(span_bytes as f64 * streams, streams),
        };
        self.costs.overhead_ms + positioning_ms
    }

    /// Bytes with which a share e of the rate is reached, and operations do not limit before bytes do.
    fn efficient_bytes(&self) -> Option<f64> {
        let rate = self.rate()?;
        let efficient = EFFICIENCY / (1.0 - EFFICIENCY) * self.before_first_byte_ms() * rate;
        let operations = self.costs.limits.iter().filter(|limit| limit.kind == LimitKind::Operations);
        Some(operations.map(|limit| rate / limit.per_ms).fold(efficient, f64::max))
    }

    /// Decision 1.
    fn read_ahead(&self) -> Option<Advice> {
        let (Pattern::Sequential, Prefetching::Linux { .. }) =
            (self.workload.pattern, self.workload.prefetching)
        else {
            return None;
        };
        let lambda_ms = self.before_first_byte_ms();
        let consumed = self.workload.request_bytes as f64 / self.workload.think_ms();
        // Streams share the rate of the device.
        let streams = f64::from(self.workload.streams);
        let hidden = self.rate().is_none_or(|rate| consumed < rate / streams) && consumed.is_finite();
        // Streams that wait for each other are bounded at a measured device, and many windows come close to that; a
        // stream's last window keeps the others waiting with nothing of its own to do.
        let bounded = streams > 1.0 && self.costs.measured.is_some() && self.costs.slots < 2.0;
        let most_bytes = if bounded { self.workload.bytes / LEAST_WINDOWS } else { MAX_WINDOW_BYTES };
        let most_bytes = most_bytes.clamp(4096, MAX_WINDOW_BYTES);
        let sizes = (12..).map(|k| 1u64 << k).take_while(|&bytes| bytes <= most_bytes);
        let times = sizes.filter_map(|read_ahead_bytes| {
            let prefetching = Prefetching::Linux { read_ahead_bytes };
            Some((read_ahead_bytes, self.time_ms(&Workload { prefetching, ..*self.workload })?))
        });
        let (read_ahead_bytes, time_ms) = least_close(times.collect())?;
        let because = if hidden {
            format!("the next window arrives in {lambda_ms:.2} ms and its transfer, while one is consumed")
        } else {
            format!("{lambda_ms:.2} ms before the first byte of each window are spread over it")
        };
        let ahead_bytes = 2 * read_ahead_bytes * u64::from(self.workload.streams);
        Some(Advice {
            setting: Setting::ReadAheadKb,
            value: read_ahead_bytes >> 10,
            workload: Workload { prefetching: Prefetching::Linux { read_ahead_bytes }, ..*self.workload },
            time_ms,
            because,
            holds_if: format!(
                "files are read in order, and {ahead_bytes} bytes are free for what is read ahead"
            ),
        })
    }

    /// The workload hinted with `horizon`, if memory allows.
    fn hinted(&self, horizon: u32) -> Option<Workload> {
        let hinted = matches!(self.workload.pattern, Pattern::Random | Pattern::Hinted { .. });
        let workload = Workload { pattern: Pattern::Hinted { horizon }, ..*self.workload };
        (hinted && workload.ahead_bytes() <= workload.memory_bytes).then_some(workload)
    }

    /// The shortest horizon of which three quarters are [`CLOSE`] to the best, and its predicted time.
    /// Requests do not come as regularly as the model has them: where a device is just full on average, it idles
    /// now and then.
    fn best_horizon(&self) -> Option<(u32, f64)> {
        let at = |horizon: u32| self.time_ms(&self.hinted(horizon)?);
        let horizons = (0..).map(|k| 1u32 << k).take_while(|&h| h <= MAX_HORIZON);
        let times: Vec<(u32, f64)> = horizons.filter_map(|h| Some((h, at(h)?))).collect();
        let best_ms = times.iter().map(|(_, ms)| *ms).min_by(f64::total_cmp)?;
        let enough = |h: u32| at(h - h / 4).is_some_and(|ms| ms <= best_ms * (1.0 + CLOSE));
        // If memory allows no more than it just takes, that.
        times.iter().copied().find(|(h, _)| enough(*h)).or_else(|| least_close(times))
    }

    /// Decision 4.
    fn horizon(&self) -> Option<Advice> {
        let (horizon, time_ms) = self.best_horizon()?;
        let late_ms = self.costs.latest_overhead_ms(f64::from(horizon));
        let tau_ms = self.workload.think_ms();
        let because = if time_ms <= 1.02 * self.workload.reads() as f64 * tau_ms {
            format!("a late request takes {late_ms:.2} ms and a reference {tau_ms:.2} ms: no stall is left")
        } else {
            "the device is as busy as it can be; no horizon hides all of the stall".to_owned()
        };
        let workload = self.hinted(horizon)?;
        let bytes = workload.ahead_bytes();
        let holds_if = format!("the order is disclosed, and {bytes} bytes are free for what is fetched");
        Some(Advice {
            setting: Setting::Horizon,
            value: horizon.into(),
            workload,
            time_ms,
            because,
            holds_if,
        })
    }

    /// Decision 3.
    fn queue_depth(&self) -> Option<Advice> {
        let bytes = self.workload.request_bytes as f64;
        let serve_ms = self.costs.overhead_ms + bytes / self.costs.bytes_per_ms;
        let limits = self.costs.limits.iter().map(|limit| match limit.kind {
            LimitKind::Operations => limit.per_ms,
            LimitKind::Bytes => limit.per_ms / bytes,
        });
        let per_ms = limits.fold(self.costs.slots / serve_ms, f64::min);
        let depth = (per_ms * serve_ms).ceil().clamp(1.0, f64::from(MAX_HORIZON)) as u32;
        let because =
            format!("{:.0} requests a second of {serve_ms:.2} ms each are in flight then", per_ms * 1e3);
        let workload = self.hinted(depth)?;
        let time_ms = self.time_ms(&workload)?;
        let holds_if = "the reads do not depend on each other's data; more only wait longer".to_owned();
        (self.costs.slots > 1.0).then_some(Advice {
            setting: Setting::QueueDepth,
            value: depth.into(),
            workload,
            time_ms,
            because,
            holds_if,
        })
    }

    /// Decision 5, sorting.
    fn batch(&self) -> Option<Advice> {
        self.costs.arm.as_ref()?;
        let (horizon, best_ms) = self.best_horizon()?;
        let times = (0..).map(|k| 1u32 << k).take_while(|&k| k <= horizon);
        let mut times = times.filter_map(|k| Some((k, self.time_ms(&self.hinted(k)?)?)));
        let (batch, time_ms) = times.find(|(_, ms)| *ms <= best_ms * (1.0 + 2.0 * TOLERANCE))?;
        let span_bytes = self.workload.span_bytes as f64 * f64::from(self.workload.streams);
        let positioning_ms = |k: u32| self.costs.positioning_ms(span_bytes, f64::from(k));
        let saved_ms = positioning_ms(1) - positioning_ms(batch);
        let because = format!("sorting {batch} requests saves {saved_ms:.2} ms of positioning each");
        let holds_if = "the order within a batch is free, as within a disclosure".to_owned();
        let workload = self.hinted(batch)?;
        Some(Advice { setting: Setting::Batch, value: batch.into(), workload, time_ms, because, holds_if })
    }

    /// Decision 2; for direct reads, whose size the program chooses.
    fn block(&self) -> Option<Advice> {
        let (Pattern::Sequential, Prefetching::Off) = (self.workload.pattern, self.workload.prefetching)
        else {
            return None;
        };
        let bytes =
            self.efficient_bytes()?.min(MAX_WINDOW_BYTES as f64).min(self.workload.bytes as f64) as u64;
        let request_bytes = (bytes / 4096 * 4096).max(self.workload.request_bytes);
        // As much computation on each byte as before.
        let think_us = self.workload.think_us * request_bytes as f64 / self.workload.request_bytes as f64;
        let lambda_ms = self.before_first_byte_ms();
        let workload = Workload { request_bytes, think_us, ..*self.workload };
        Some(Advice {
            setting: Setting::BlockBytes,
            value: request_bytes,
            workload,
            time_ms: self.time_ms(&workload)?,
            because: format!("{lambda_ms:.2} ms before each first byte are spread over it"),
            holds_if: "all of its bytes are used".to_owned(),
        })
    }

    /// Decision 5, gaps.
    fn merge_gap(&self) -> Option<Advice> {
        let Pattern::Strided { stride_bytes } = self.workload.pattern else { return None };
        let gap_bytes = stride_bytes - self.workload.request_bytes;
        let least = self.rate()? * self.before_first_byte_ms();
        let think_us = self.workload.think_us * self.workload.request_bytes as f64 / stride_bytes as f64;
        let through = Workload {
            pattern: Pattern::Sequential,
            bytes: self.workload.span_bytes,
            think_us,
            prefetching: Prefetching::Linux { read_ahead_bytes: 1 << 20 },
            ..*self.workload
        };
        let time_ms = self.time_ms(&through)?;
        let because =
            format!("{gap_bytes} bytes pass sooner than the device begins anew, as up to {least:.0} do");
        let holds_if = "what lies between is not wanted, but may be read, 1 MiB ahead".to_owned();
        let workload = through;
        Some(Advice {
            setting: Setting::MergeGapBytes,
            value: gap_bytes,
            workload,
            time_ms,
            because,
            holds_if,
        })
    }

    /// Decision 6, disks: one stream after the other. Elsewhere streams are the queue depth.
    fn streams(&self) -> Option<Advice> {
        self.costs.arm.as_ref()?;
        let streams = self.workload.streams;
        if streams == 1 || self.workload.pattern != Pattern::Sequential {
            return None;
        }
        let workload = Workload { streams: 1, ..*self.workload };
        let one = self.time_ms(&workload)?;
        Some(Advice {
            setting: Setting::Streams,
            value: 1,
            workload,
            time_ms: one * f64::from(streams),
            because: "the arm stays in one file".to_owned(),
            holds_if: "one stream may wait for the other to end".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::catalogue::{BUILT_IN, find};

    fn value(advice: &[Advice], setting: Setting) -> Option<u64> {
        advice.iter().find(|a| a.setting == setting).map(|a| a.value)
    }

    #[test]
    fn a_window_covers_the_latency_of_the_next() {
        // 8 KB a ms are consumed and a request takes 100 ms: 800 KB, and the next power of two.
        let device = DeviceParameters::uniform(100.0, 1 << 40);
        let workload = Workload { think_us: 1000.0, ..Workload::sequential(256 << 20) };
        let (now, advice) = advise(&device, &workload).unwrap();
        assert_eq!(value(&advice, Setting::ReadAheadKb), Some(1024));
        assert!(advice[0].time_ms < now.time_ms / 5.0);
        // Half a MiB of memory holds two windows of 256 KB.
        let poor = Workload { memory_bytes: 512 << 10, ..workload };
        assert_eq!(value(&advise(&device, &poor).unwrap().1, Setting::ReadAheadKb), Some(256));
    }

    #[test]
    fn the_queue_fills_the_device_and_no_more() {
        // 600 thousand operations a second of 80.12 us are 48.07 in flight.
        let workload =
            Workload { pattern: Pattern::Random, request_bytes: 4096, ..Workload::sequential(256 << 20) };
        let (_, advice) = advise(&find("nvme").unwrap(), &workload).unwrap();
        assert_eq!(value(&advice, Setting::QueueDepth), Some(49));
        assert_eq!(value(&advice, Setting::Horizon), Some(64));
        assert_eq!(value(&advice, Setting::Batch), None);
    }

    #[test]
    fn hints_are_fetched_as_far_ahead_as_the_device_needs() {
        // 49 in flight, as above; a disk sorts what the memory holds.
        let nvme = for_hints(&find("nvme").unwrap(), 4096, 1 << 30).unwrap();
        assert_eq!(nvme, ForHints { horizon: 64, batch: 49 });
        let disk = for_hints(&find("disk7200").unwrap(), 8192, 1 << 30).unwrap();
        assert!(disk.horizon > 64 && disk.batch > 16, "{disk:?}");
        let poor = for_hints(&find("disk7200").unwrap(), 8192, 32 << 10).unwrap();
        assert!(poor.horizon <= 4 && poor.batch <= poor.horizon, "{poor:?}");
        assert!(for_hints(&find("nvme").unwrap(), 8192, 4096).is_err());
        // One at a time is all that the theoretical device does.
        assert_eq!(for_hints(&find("uniform").unwrap(), 8192, 1 << 30).unwrap().batch, 1);
    }

    #[test]
    fn streams_for_a_rate_follow_littles_law() {
        let store = find("object-store").unwrap();
        let parts = Workload { request_bytes: 8 << 20, ..Workload::sequential(1 << 30) };
        // 8 MB take 34 ms and 105 ms: 60 MB/s a connection.
        let one = 8.0 * (1 << 20) as f64 / (34.0 + 104.9) * 1e3;
        let streams =
            |device: &DeviceParameters, rate| streams_for_rate(device, &parts, rate).map(|a| a.value);
        assert_eq!(streams(&store, 3.9 * one), Some(4));
        assert_eq!(streams(&store, 2e9), None);
        assert_eq!(streams(&find("disk7200").unwrap(), 1e6), None);
        // The rate is reached.
        let advice = streams_for_rate(&store, &parts, 3.9 * one).unwrap();
        assert!((1u64 << 30) as f64 / advice.time_ms * 1e3 >= 3.9 * one, "{advice:?}");
    }

    #[test]
    fn a_disk_is_advised_to_read_one_file_after_the_other() {
        let disk = find("disk7200").unwrap();
        // With computation in between; without it, the elevator stays with the file whose next window waits already.
        let workload = Workload { streams: 4, think_us: 500.0, ..Workload::sequential(64 << 20) };
        let (_, advice) = advise(&disk, &workload).unwrap();
        assert!(value(&advice, Setting::ReadAheadKb).unwrap() >= 512, "{advice:?}");
        let (_, advice) = advise(&disk, &Workload { prefetching: Prefetching::Off, ..workload }).unwrap();
        assert_eq!(value(&advice, Setting::Streams), Some(1));
    }

    /// Against every multiple of 32 KB to 1 MB and powers of two to 64 MB.
    #[test]
    fn the_advised_readahead_is_close_to_the_best_of_a_sweep() {
        for built_in in BUILT_IN {
            let device = find(built_in.name).unwrap();
            for (streams, think_us) in [(1, 0.0), (1, 50.0), (1, 2000.0), (4, 0.0), (4, 2000.0)] {
                let base = Workload { streams, think_us, ..Workload::sequential(16 << 20) };
                let Ok((now, advice)) = advise(&device, &base) else { continue };
                let at = |kb: u64| {
                    let prefetching = Prefetching::Linux { read_ahead_bytes: kb << 10 };
                    predict(&device, &Workload { prefetching, ..base }).unwrap().time_ms
                };
                let sizes = (1..32).map(|k| 32 * k).chain([4, 8, 16]).chain((10..=16).map(|k| 1 << k));
                let best_ms = sizes.map(at).fold(f64::INFINITY, f64::min);
                let advised_ms = value(&advice, Setting::ReadAheadKb).map_or(now.time_ms, at);
                let (name, ratio) = (built_in.name, advised_ms / best_ms);
                println!(
                    "{name} x{streams} {think_us} us: {ratio:.3} of the best, default {:.3}",
                    now.time_ms / best_ms
                );
                assert!(advised_ms <= now.time_ms && ratio <= 1.04, "{name} x{streams} {think_us}: {ratio}");
            }
        }
    }
}
