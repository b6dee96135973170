//! Parameters from timed requests.

use foretell_device::{
    Cap, DeviceParameters, Host, MeasuredParameters, Model, ParameterError, ServicePoint, Unverified,
};
use thiserror::Error;

use super::{BUSY_DEPTH, HostFacts, HostPath, HostSample, Order, Probe, Purpose, Sample};

/// Batches of a probe.
const BATCHES: usize = 10;
/// Positioning below this share of a small sequential request is within what requests differ anyway.
const POSITIONING_SHARE: f64 = 0.05;
/// A device with moving parts positions for at least this long, in ms: half a revolution at 15,000 rpm is 2.
const DISK_POSITIONING_MS: f64 = 1.0;
/// Requests that take longer together than alone by this factor are held back by a limit.
const HELD_BACK: f64 = 2.0;
/// How far a cap may be from each of the sizes that it explains.
const CAP_TOLERANCE: f64 = 0.12;
/// Saved-up work below this share of a probe is not told from the queue's filling.
const BURST_SHARE: f64 = 0.03;
/// Batches that differ more than this are not disturbed but uneven.
const UNEVEN: f64 = 0.02;
/// How far a check may be from its prediction.
const MISFIT: f64 = 0.15;

/// A value and how far off it may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Half of the interval that holds it with 95% probability, if batches differ by chance alone.
    pub error: f64,
}

/// What a device behaves like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has to position.
    Disk,
    /// It has not.
    Ssd,
    /// It could do more than it may.
    CappedVolume,
}

/// A check that came out otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// The probe.
    pub probe: Probe,
    /// Time of a request as measured, in ms; of several in flight, time between two that are done.
    pub measured_ms: f64,
    /// The same as predicted.
    pub predicted_ms: f64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The device.
    pub device: DeviceParameters,
    /// What it behaves like.
    pub kind: Kind,
    /// alone(b), by ascending size.
    pub alone_ms: Vec<(u64, Estimate)>,
    /// Time between two of many random requests, by ascending size.
    pub busy_ms: Vec<(u64, Estimate)>,
    /// p.
    pub positioning_ms: Estimate,
    /// Small requests that it serves at a time.
    pub channels: Estimate,
    /// Bytes a second of the largest requests, many in flight.
    pub bytes_per_s: Estimate,
    /// One revolution, if the times of random requests spread like that, in ms.
    pub revolution_ms: Option<f64>,
    /// The checks that do not fit.
    pub misfits: Vec<Misfit>,
}

/// Why there is nothing to say.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum FitError {
    /// A probe is missing or has too few requests.
    #[error("only {found} {what} were timed; it is too small or too slow to calibrate, give a larger file")]
    TooFew {
        /// How many there are.
        found: usize,
        /// Which.
        what: String,
    },
    /// The times make no device.
    #[error("the times make no device: {0}")]
    Parameters(#[from] ParameterError),
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// The median of independent values and its error: 1.4826 MAD estimates the standard deviation, and the
/// median of n values of a normal distribution has 1.2533 times the error of their mean.
pub(super) fn estimate(mut values: Vec<f64>) -> Estimate {
    let value = median(&mut values);
    let mut deviations: Vec<f64> = values.iter().map(|v| (v - value).abs()).collect();
    let sigma = 1.4826 * median(&mut deviations);
    Estimate { value, error: 1.96 * 1.2533 * sigma / (values.len() as f64).sqrt() }
}

/// The mean time between two requests done, batch by batch.
fn periods_ms(done_ms: &[f64]) -> Vec<f64> {
    let steps = done_ms.len().saturating_sub(1);
    let batches = BATCHES.min(steps.max(1));
    let at = |batch: usize| steps * batch / batches;
    (0..batches).map(|k| (done_ms[at(k + 1)] - done_ms[at(k)]) / (at(k + 1) - at(k)).max(1) as f64).collect()
}

/// Time between two requests done: the median of batches, unless these differ.
///
/// Tokens that come in portions (the kernel's throttling gives them ten times a second) are cut apart by batches, and
/// most of these then have too many or too few. The mean over all stretches that are half as long has as many of
/// both.
fn period(done_ms: &[f64]) -> Estimate {
    let period = estimate(periods_ms(done_ms));
    let half = (done_ms.len() / 2).max(1);
    let stretches = done_ms.iter().zip(done_ms.iter().skip(half));
    let stretches: Vec<f64> = stretches.map(|(from, to)| (to - from) / half as f64).collect();
    let mean = stretches.iter().sum::<f64>() / stretches.len().max(1) as f64;
    if period.error.max((mean - period.value).abs()) > UNEVEN * period.value {
        Estimate { value: mean, error: estimate(stretches).error }
    } else {
        period
    }
}

struct Alone {
    bytes: u64,
    /// Of a request, without those that something else on the machine disturbed.
    request: Estimate,
    /// Of the fastest tenth: those that no limit holds back.
    unhindered_ms: f64,
    /// Time from one to the next, whatever holds them back.
    period_ms: f64,
}

fn alone(sample: &Sample) -> Alone {
    let mut done_ms = vec![sample.timings.first().map_or(0.0, |t| t.start_ms)];
    done_ms.extend(sample.timings.iter().map(|t| t.done_ms));
    let single: Vec<f64> = sample.timings.iter().map(|t| t.done_ms - t.start_ms).collect();
    let batches = single.chunks(single.len().div_ceil(BATCHES).max(4));
    let error = estimate(batches.map(|batch| midmean(batch.to_vec())).collect()).error;
    let unhindered_ms = tenth(single.clone());
    let request = Estimate { value: midmean(single), error };
    Alone { bytes: sample.probe.bytes, request, unhindered_ms, period_ms: period(&done_ms).value }
}

fn tenth(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 10).copied().unwrap_or(f64::NAN)
}

/// The mean of the middle half: half of the requests may be disturbed, and where they differ by nature, as
/// on a disk, it still is the mean of a symmetric distribution.
fn midmean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let middle = &values[quarter..values.len() - quarter];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

struct Busy {
    bytes: u64,
    /// Time between two requests in the second half, when nothing saved up is left.
    period: Estimate,
    /// Requests that were done beyond that rate.
    burst: f64,
}

fn busy(sample: &Sample) -> Busy {
    let depth = sample.probe.depth as usize;
    let count = sample.timings.len();
    // The queue fills at first and empties at last.
    let full = &sample.timings[..count - depth.min(count / 4)];
    let done_ms: Vec<f64> = full.iter().map(|t| t.done_ms).collect();
    let later = &done_ms[done_ms.len() / 2..];
    let period = period(later);
    let last_ms = done_ms.last().copied().unwrap_or(0.0);
    let burst = done_ms.len() as f64 - last_ms / period.value;
    let counts = burst > (2 * depth) as f64 && burst > BURST_SHARE * done_ms.len() as f64;
    Busy { bytes: sample.probe.bytes, period, burst: if counts { burst } else { 0.0 } }
}

/// The caps that explain the sizes that are held back.
fn caps(held_back: &[&Busy]) -> (Option<Cap>, Option<Cap>) {
    let (Some(small), Some(large)) = (held_back.first(), held_back.last()) else { return (None, None) };
    let near = |a: f64, b: f64| (a - b).abs() <= CAP_TOLERANCE * b;
    let operations_per_s = |b: &Busy| 1e3 / b.period.value;
    let bytes_per_s = |b: &Busy| b.bytes as f64 * 1e3 / b.period.value;
    // The rate that all sizes have.
    let same = |rate: &dyn Fn(&Busy) -> f64| {
        let mut rates: Vec<f64> = held_back.iter().map(|b| rate(b)).collect();
        let middle = median(&mut rates);
        rates.iter().all(|&rate| near(rate, middle)).then_some(middle)
    };
    // What is saved up is the same for all sizes; less of it shows where requests were too few to spend it.
    let cap = |per_s: f64, unit: fn(&Busy) -> f64| {
        let mut saved: Vec<f64> = held_back.iter().map(|b| b.burst * unit(b)).collect();
        Some(Cap { per_s: per_s.round().max(1.0) as u64, burst: median(&mut saved).round().max(0.0) as u64 })
    };
    let of_operations = |per_s| cap(per_s, |_| 1.0);
    let of_bytes = |per_s| cap(per_s, |b| b.bytes as f64);
    // A cap explains more sizes than it has numbers; anything else is a disturbed machine.
    if held_back.len() < 2 {
        return (None, None);
    }
    if let Some(per_s) = same(&bytes_per_s) {
        return (None, of_bytes(per_s));
    }
    if let Some(per_s) = same(&operations_per_s) {
        return (of_operations(per_s), None);
    }
    let (few, many) = (operations_per_s(small), bytes_per_s(large));
    let of_both = |b: &&Busy| near(b.period.value, (1e3 / few).max(b.bytes as f64 * 1e3 / many));
    if held_back.len() >= 3 && held_back.iter().all(of_both) {
        return (of_operations(few), of_bytes(many));
    }
    (None, None)
}

/// The period of random requests of no bytes, on the line through the smallest and the largest.
fn without_bytes_ms(together: &[Busy]) -> f64 {
    let (Some(small), Some(large)) = (together.first(), together.last()) else { return 0.0 };
    let (few, many) = (small.bytes as f64, large.bytes as f64);
    let slope = (large.period.value - small.period.value) / (many - few).max(1.0);
    (small.period.value - slope * few).max(0.0)
}

/// The revolution of a disk, from the spread of its random times: the sector is anywhere under way.
fn revolution_ms(sample: &Sample) -> Option<f64> {
    let mut times: Vec<f64> = sample.timings.iter().map(|t| t.done_ms - t.start_ms).collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    // Uniform over a revolution: four fifths lie between the tenths.
    let spread_ms = (at(0.9) - at(0.1)) / 0.8;
    // 15,000 to 3,600 rpm.
    (3.5..=17.0).contains(&spread_ms).then_some(spread_ms)
}

fn find(samples: &[Sample], order: Order, busy: bool) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(move |s| {
        s.probe.order == order
            && (s.probe.depth >= BUSY_DEPTH) == busy
            && (busy || s.probe.depth == 1)
            && s.probe.purpose == Purpose::Parameters
            && s.timings.len() >= 4
    })
}

/// The device that these times are from, of `capacity_bytes`.
///
/// # Errors
///
/// [`FitError`] if there are too few of them.
pub fn fit(
    samples: &[Sample],
    host_samples: &[HostSample],
    facts: Option<HostFacts>,
    capacity_bytes: u64,
) -> Result<Calibration, FitError> {
    let sequential: Vec<Alone> = find(samples, Order::Sequential, false).map(alone).collect();
    let random: Vec<Alone> = find(samples, Order::Random, false).map(alone).collect();
    let near: Vec<Alone> = find(samples, Order::Near, false).map(alone).collect();
    let together: Vec<Busy> = find(samples, Order::Random, true).map(busy).collect();
    for (what, found) in [
        ("sizes of sequential requests", sequential.len()),
        ("sizes of random requests", random.len()),
        ("sizes of requests in flight together", together.len()),
    ] {
        if found < 2 {
            return Err(FitError::TooFew { found, what: what.to_owned() });
        }
    }
    let alone_of = |bytes: u64| sequential.iter().find(|a| a.bytes == bytes);
    let held_back: Vec<&Busy> = together
        .iter()
        .filter(|b| {
            let alone_ms = random.iter().find(|a| a.bytes == b.bytes).map_or(f64::MAX, |a| a.request.value);
            b.period.value > HELD_BACK * alone_ms || b.burst > 0.0
        })
        .collect();
    let (operations, bytes) = caps(&held_back);
    let capped = operations.is_some() || bytes.is_some();
    let own = |a: &Alone| if capped { a.unhindered_ms } else { a.request.value };

    let differences: Vec<f64> =
        random.iter().filter_map(|r| Some(own(r) - own(alone_of(r.bytes)?))).take(3).collect();
    let smallest = &sequential[0];
    let mut positioning = estimate(differences);
    positioning.error = positioning.error.max(random[0].request.error + smallest.request.error);
    if positioning.value < POSITIONING_SHARE * own(smallest) {
        positioning.value = 0.0;
    }
    let near_ms = near.first().map(|n| (own(n) - own(smallest)).max(0.0));
    let near_ms = near_ms.filter(|_| positioning.value > DISK_POSITIONING_MS);

    let random_ms = own(&random[0]);
    let busy_ms = together[0].period.value.min(if capped { random_ms } else { f64::MAX });
    let share = (busy_ms / random_ms).min(1.0);
    // A single server waits for itself; what is left of the difference is the way to it and back.
    let difference_ms = positioning.value * if share > 0.9 { 1.0 } else { share };
    // What a request of no bytes keeps it busy for bounds it, and is the sharper of the two: with a full
    // queue nothing depends on when a program wakes up.
    let busy_positioning_ms = difference_ms.min(without_bytes_ms(&together));
    let mut service = Vec::new();
    for at in &sequential {
        let alone_ms = own(at);
        let found = together.iter().find(|b| b.bytes == at.bytes);
        let busy_ms = found.map_or(alone_ms * share, |b| b.period.value - busy_positioning_ms);
        service.push(ServicePoint { bytes: at.bytes, alone_ms, busy_ms: busy_ms.clamp(0.0, alone_ms) });
    }
    let measured = MeasuredParameters {
        capacity_bytes,
        outstanding: BUSY_DEPTH,
        positioning_ms: positioning.value,
        near_positioning_ms: near_ms.map(|ms| ms.min(positioning.value)),
        busy_positioning_ms,
        service,
        operations,
        bytes,
    };
    let kind = if capped {
        Kind::CappedVolume
    } else if positioning.value >= DISK_POSITIONING_MS {
        Kind::Disk
    } else {
        Kind::Ssd
    };
    let revolution_ms =
        find(samples, Order::Random, false).next().filter(|_| kind == Kind::Disk).and_then(revolution_ms);
    let misfits = misfits(samples, &measured);
    let relative = |e: &Estimate| if e.value > 0.0 { e.error / e.value } else { 0.0 };
    let channels = random_ms / busy_ms.max(f64::MIN_POSITIVE);
    let channels = Estimate {
        value: channels.clamp(1.0, f64::from(BUSY_DEPTH)),
        error: channels * (relative(&together[0].period) + relative(&random[0].request)),
    };
    let widest = &together[together.len() - 1];
    let rate = widest.bytes as f64 * 1e3 / widest.period.value;
    let device = DeviceParameters {
        name: String::new(),
        description: String::new(),
        source: String::new(),
        unverified: misfits
            .first()
            .map(|m| Unverified { field: "measured".to_owned(), reason: m.to_string() })
            .into_iter()
            .collect(),
        seek_variants: Default::default(),
        host: facts.and_then(|facts| host(host_samples, facts)),
        driver_ns: None,
        model: Model::Measured(measured),
    };
    device.check()?;
    Ok(Calibration {
        device,
        kind,
        alone_ms: sequential.iter().map(|a| (a.bytes, a.request)).collect(),
        busy_ms: together.iter().map(|b| (b.bytes, b.period)).collect(),
        positioning_ms: positioning,
        channels,
        bytes_per_s: Estimate { value: rate, error: rate * relative(&widest.period) },
        revolution_ms,
        misfits,
    })
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Misfit { probe, measured_ms, predicted_ms } = self;
        let order = if probe.order == Order::Sequential { "sequential" } else { "random" };
        write!(
            f,
            "{order} requests of {} KiB, {} in flight, took {measured_ms:.3} ms each and the model says {predicted_ms:.3}",
            probe.bytes >> 10,
            probe.depth
        )
    }
}

/// The checks whose prediction is off.
fn misfits(samples: &[Sample], measured: &MeasuredParameters) -> Vec<Misfit> {
    let checks = samples.iter().filter(|s| s.probe.purpose == Purpose::Check && s.timings.len() >= 4);
    let compared = checks.map(|sample| {
        let probe = sample.probe;
        let bytes = probe.bytes as f64;
        let (own_ms, busy_ms) = match probe.order {
            Order::Sequential => (measured.alone_ms(bytes), measured.busy_ms(bytes)),
            _ => (
                measured.alone_ms(bytes) + measured.positioning_ms,
                measured.busy_ms(bytes) + measured.busy_positioning_ms,
            ),
        };
        let cap_ms = |cap: Option<Cap>, amount: f64| cap.map_or(0.0, |cap| amount * 1e3 / cap.per_s as f64);
        let held_ms = cap_ms(measured.operations, 1.0).max(cap_ms(measured.bytes, bytes));
        let predicted_ms = (own_ms / f64::from(probe.depth)).max(busy_ms).max(held_ms);
        let measured_ms = alone(sample).period_ms;
        Misfit { probe, measured_ms, predicted_ms }
    });
    let burst =
        measured.operations.is_some_and(|c| c.burst > 0) || measured.bytes.is_some_and(|c| c.burst > 0);
    // Part of a check may have been a burst: then it says nothing.
    compared.filter(|m| !burst && (m.measured_ms - m.predicted_ms).abs() > MISFIT * m.predicted_ms).collect()
}

/// The processor's part. `None` if a path is missing.
fn host(samples: &[HostSample], facts: HostFacts) -> Option<Host> {
    let all = |path: HostPath| {
        let mut found: Vec<&HostSample> = samples.iter().filter(|s| s.path == path).collect();
        found.sort_by_key(|s| s.bytes);
        found
    };
    let present = all(HostPath::Present);
    let (small, large) = (*present.first()?, *present.last()?);
    let missing = *all(HostPath::Missing).first()?;
    let ahead = *all(HostPath::ReadAhead).first()?;
    let direct = *all(HostPath::Direct).first()?;
    // Slower than memory and faster than a tape, whatever the noise.
    let rate = |bytes: f64, us: f64| if us > 0.0 { (bytes / us).clamp(50.0, 100_000.0) } else { 100_000.0 };
    let copy_mb_per_s = rate((large.bytes - small.bytes) as f64, large.time_us - small.time_us);
    let copy_us = |bytes: u64| bytes as f64 / copy_mb_per_s;
    let read_us = (small.time_us - copy_us(small.bytes)).max(0.0);
    let fill_us = ahead.time_us - read_us - copy_us(ahead.bytes);
    let fill_mb_per_s = rate(ahead.bytes as f64, fill_us);
    let asked = *all(HostPath::Asked).first()?;
    let submit_us = (asked.time_us - asked.bytes as f64 / fill_mb_per_s).max(0.0);
    let missing_us = missing.time_us - read_us - copy_us(missing.bytes);
    let wait_us = missing_us - missing.bytes as f64 / fill_mb_per_s - submit_us;
    Some(Host {
        read_us,
        copy_mb_per_s,
        fill_mb_per_s,
        submit_us,
        wait_us: wait_us.max(0.0),
        direct_us: direct.time_us,
        ahead_mb_per_s: all(HostPath::Elapsed).first().map(|s| rate(s.bytes as f64, s.time_us)),
        max_request_bytes: facts.max_request_bytes,
        processors: facts.processors,
    })
}
