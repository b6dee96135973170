//! What the pictures show, as numbers: the causes, and the predicted time over each setting.

use foretell_analytic::advise::{Advice, Setting};
use foretell_analytic::predict::{Prediction, predict};
use foretell_analytic::workload::{Pattern, Prefetching, Workload};
use foretell_device::DeviceParameters;

/// Points of a curve.
const POINTS: usize = 49;
/// The range of block sizes and windows shown, in bytes.
const SIZES: (u64, u64) = (4 << 10, 64 << 20);
/// The most streams and references ahead shown.
const MOST_STREAMS: u64 = 64;
const MOST_AHEAD: u64 = 4096;

/// One picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Its heading.
    pub title: String,
    /// What it says in words, for those who do not see it.
    pub said: String,
    /// What is drawn.
    pub shown: Shown,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    /// From one time to another in steps, each bar from where the last one ended.
    Steps(Vec<Step>),
    /// Bars beside each other: a name and a time.
    Bars(Vec<Bar>),
    /// Time over a setting.
    Curve(Curve),
}

/// A bar of [`Shown::Steps`].
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// From and to, in ms; a saving goes down.
    pub from_ms: f64,
    /// See `from_ms`.
    pub to_ms: f64,
    /// Of a whole time: how much of it is computation.
    pub computation_ms: Option<f64>,
}

/// A bar of [`Shown::Bars`].
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// How long it is.
    pub ms: f64,
    /// Of that, computation.
    pub computation_ms: f64,
}

/// Time over a setting, both on logarithmic scales.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// What is set.
    pub axis: &'static str,
    /// Whether it is bytes.
    pub bytes: bool,
    /// Setting, the time with it, and of that the computation, in ms.
    pub points: Vec<(f64, f64, f64)>,
    /// Each read by itself, in ms.
    pub unprefetched_ms: f64,
    /// What is set now, if it is.
    pub now: Option<(f64, f64)>,
    /// What is advised, if it is.
    pub advised: Option<(f64, f64)>,
}

/// Settings to mark in the curves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<'a>(&'a [Advice]);

impl Marks<'_> {
    fn of(&self, setting: Setting) -> Option<(f64, f64)> {
        self.0.iter().find(|a| a.setting == setting).map(|a| (a.value as f64, a.time_ms))
    }
}

/// The causes of a prediction, then the curves.
#[must_use]
pub fn of_prediction(device: &DeviceParameters, workload: &Workload, prediction: &Prediction) -> Vec<Panel> {
    let mut panels = vec![causes(prediction)];
    panels.extend(curves(device, workload, prediction, Marks(&[])));
    panels
}

/// The times that each piece of advice gives, the causes with the best one, then the curves.
#[must_use]
pub fn of_advice(
    device: &DeviceParameters,
    workload: &Workload,
    now: &Prediction,
    advice: &[Advice],
) -> Vec<Panel> {
    let mut bars =
        vec![Bar { name: "as it is".to_owned(), ms: now.time_ms, computation_ms: now.computation_ms }];
    bars.extend(advice.iter().map(|a| Bar {
        name: format!("{} {}", a.setting.name(), value(a)),
        ms: a.time_ms,
        computation_ms: now.computation_ms.min(a.time_ms),
    }));
    let best_prediction = advice.first().and_then(|a| predict(device, &a.workload).ok());
    let best = bars.iter().map(|b| b.ms).fold(f64::INFINITY, f64::min);
    let mut panels = vec![
        Panel {
            title: "What each setting gives".to_owned(),
            said: format!("{} as it is, {} with the best setting", ms(now.time_ms), ms(best)),
            shown: Shown::Bars(bars),
        },
        causes(best_prediction.as_ref().unwrap_or(now)),
    ];
    panels.extend(curves(device, workload, now, Marks(advice)));
    panels
}

fn causes(p: &Prediction) -> Panel {
    let mut at_ms = p.unprefetched_ms;
    let mut steps = vec![Step {
        name: "each read alone".to_owned(),
        from_ms: 0.0,
        to_ms: at_ms,
        computation_ms: Some(p.computation_ms.min(at_ms)),
    }];
    for (name, saved_ms) in [
        ("device readahead", p.saved.device_readahead_ms),
        ("overhead amortised", p.saved.overhead_ms),
        ("positioning saved", p.saved.positioning_ms),
        ("requests in flight", p.saved.parallel_ms),
        ("overlap", p.saved.overlap_ms),
    ] {
        // Less than this cannot be seen, and rounding leaves some of it.
        if saved_ms.abs() > 5e-3 * p.unprefetched_ms {
            let to_ms = at_ms - saved_ms;
            steps.push(Step { name: name.to_owned(), from_ms: at_ms, to_ms, computation_ms: None });
            at_ms = to_ms;
        }
    }
    steps.push(Step {
        name: "with prefetching".to_owned(),
        from_ms: 0.0,
        to_ms: p.time_ms,
        computation_ms: Some(p.computation_ms.min(p.time_ms)),
    });
    Panel {
        title: "Why it takes less".to_owned(),
        said: format!("{} with each read alone, {} with prefetching", ms(p.unprefetched_ms), ms(p.time_ms)),
        shown: Shown::Steps(steps),
    }
}

/// Whole numbers from `low` to `high`, evenly spaced on a logarithmic scale, each once, in `steps` of a unit.
fn spaced(low: u64, high: u64, unit: u64) -> Vec<u64> {
    let ratio = (high as f64 / low as f64).ln() / (POINTS - 1) as f64;
    let at = |i: usize| ((low as f64 * (ratio * i as f64).exp()) / unit as f64).round() as u64 * unit;
    let mut all: Vec<u64> = (0..POINTS).map(at).filter(|&v| v >= low && v <= high).collect();
    all.dedup();
    all
}

/// A setting that is varied, all else being equal.
struct Varied<'a> {
    title: &'static str,
    axis: &'static str,
    /// Whether the setting is bytes.
    bytes: bool,
    settings: Vec<u64>,
    /// What is set now, if it is.
    current: Option<u64>,
    advised: Option<(f64, f64)>,
    /// The workload with a setting.
    with: &'a dyn Fn(u64) -> Workload,
}

fn curves(device: &DeviceParameters, workload: &Workload, now: &Prediction, marks: Marks) -> Vec<Panel> {
    let draw = |varied: Varied| curve(device, now, varied);
    [
        over_read_ahead(workload, marks, &draw),
        over_horizon(workload, marks, &draw),
        over_request_size(workload, marks, &draw),
        over_streams(workload, marks, &draw),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The curve, if there is more than a point of it.
fn curve(device: &DeviceParameters, now: &Prediction, varied: Varied) -> Option<Panel> {
    let Varied { title, axis, bytes, mut settings, current, advised, with } = varied;
    settings.extend(current);
    settings.sort_unstable();
    settings.dedup();
    let point = |&setting: &u64| {
        let p = predict(device, &with(setting)).ok()?;
        Some((setting as f64, p.time_ms, p.computation_ms.min(p.time_ms)))
    };
    let points: Vec<_> = settings.iter().filter_map(point).collect();
    if points.len() < 2 {
        return None;
    }
    let (least, most) = points
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(least, most), (_, ms, _)| (least.min(*ms), most.max(*ms)));
    Some(Panel {
        title: title.to_owned(),
        said: format!("from {} to {}", ms(least), ms(most)),
        shown: Shown::Curve(Curve {
            axis,
            bytes,
            points,
            unprefetched_ms: now.unprefetched_ms,
            now: current.map(|setting| (setting as f64, now.time_ms)),
            advised,
        }),
    })
}

type Draw<'a> = &'a dyn Fn(Varied) -> Option<Panel>;

fn over_read_ahead(w: &Workload, marks: Marks, draw: Draw) -> Option<Panel> {
    let (Pattern::Sequential, Prefetching::Linux { read_ahead_bytes }) = (w.pattern, w.prefetching) else {
        return None;
    };
    draw(Varied {
        title: "Time over read_ahead_kb",
        axis: "read_ahead_kb",
        bytes: true,
        settings: spaced(SIZES.0, SIZES.1, 4096),
        current: (read_ahead_bytes > 0).then_some(read_ahead_bytes),
        advised: marks.of(Setting::ReadAheadKb).map(|(kb, ms)| (kb * 1024.0, ms)),
        with: &|bytes| Workload { prefetching: Prefetching::Linux { read_ahead_bytes: bytes }, ..*w },
    })
}

fn over_horizon(w: &Workload, marks: Marks, draw: Draw) -> Option<Panel> {
    let current = match w.pattern {
        Pattern::Random => None,
        Pattern::Hinted { horizon } => Some(u64::from(horizon)),
        Pattern::Sequential | Pattern::Strided { .. } => return None,
    };
    draw(Varied {
        title: "Time over the horizon",
        axis: "references ahead",
        bytes: false,
        settings: spaced(1, MOST_AHEAD.min(w.reads().max(2)), 1),
        current,
        advised: marks.of(Setting::Horizon),
        with: &|horizon| Workload { pattern: Pattern::Hinted { horizon: horizon as u32 }, ..*w },
    })
}

/// As much computation on each byte whatever the size of the reads.
fn over_request_size(w: &Workload, marks: Marks, draw: Draw) -> Option<Panel> {
    if matches!(w.pattern, Pattern::Strided { .. }) {
        return None;
    }
    draw(Varied {
        title: "Time over the size of reads",
        axis: "bytes of a read",
        bytes: true,
        settings: spaced(SIZES.0, SIZES.1.min(w.bytes).max(SIZES.0 * 2), 4096),
        current: Some(w.request_bytes),
        advised: marks.of(Setting::BlockBytes),
        with: &|request_bytes| {
            let think_us = w.think_us * request_bytes as f64 / w.request_bytes as f64;
            let most = w.bytes.div_ceil(request_bytes) * request_bytes;
            Workload { request_bytes, think_us, span_bytes: w.span_bytes.max(most), ..*w }
        },
    })
}

/// The same bytes, shared out.
fn over_streams(w: &Workload, marks: Marks, draw: Draw) -> Option<Panel> {
    let total = w.bytes.saturating_mul(w.streams.into());
    let most = MOST_STREAMS.min(total / w.request_bytes).max(2);
    draw(Varied {
        title: "Time over the streams that share the bytes",
        axis: "streams",
        bytes: false,
        settings: (1..=most).filter(|s| *s <= 8 || s % 4 == 0).collect(),
        current: Some(u64::from(w.streams)),
        advised: marks.of(Setting::Streams),
        with: &|streams| {
            let bytes = (total / streams).max(w.request_bytes);
            let span_bytes = match w.pattern {
                Pattern::Sequential => bytes,
                _ => (w.span_bytes.saturating_mul(w.streams.into()) / streams).max(w.request_bytes),
            };
            Workload { streams: streams as u32, bytes, span_bytes, ..*w }
        },
    })
}

/// What is advised, as people read it.
#[must_use]
pub fn value(advice: &Advice) -> String {
    match advice.setting {
        Setting::BlockBytes | Setting::MergeGapBytes => bytes(advice.value as f64),
        _ => advice.value.to_string(),
    }
}

/// A time as people read it.
#[must_use]
pub fn ms(ms: f64) -> String {
    match ms {
        ms if ms >= 100_000.0 => format!("{:.0} s", ms / 1e3),
        ms if ms >= 10_000.0 => format!("{:.1} s", ms / 1e3),
        ms if ms >= 1_000.0 => format!("{:.2} s", ms / 1e3),
        ms if ms >= 100.0 => format!("{ms:.0} ms"),
        ms if ms >= 10.0 => format!("{ms:.1} ms"),
        ms if ms >= 1.0 => format!("{ms:.2} ms"),
        ms if ms > 0.0 => format!("{:.0} us", ms * 1e3),
        _ => "0".to_owned(),
    }
}

/// A number of bytes as people read it.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value.fract() > 0.05 && value < 10.0);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_analytic::advise::advise;
    use foretell_device::catalogue::find;

    #[test]
    fn times_and_sizes_are_short() {
        let times = [0.0, 0.005, 1.5, 15.0, 150.0, 1500.0, 15e3, 150e3].map(ms);
        assert_eq!(times, ["0", "5 us", "1.50 ms", "15.0 ms", "150 ms", "1.50 s", "15.0 s", "150 s"]);
        assert_eq!([512.0, 4096.0, 1536.0 * 1024.0].map(bytes), ["512 B", "4 KB", "1.5 MB"]);
    }

    #[test]
    fn the_steps_lead_from_one_time_to_the_other() {
        let workload = Workload { think_us: 100.0, ..Workload::sequential(16 << 20) };
        let prediction = predict(&find("disk7200").unwrap(), &workload).unwrap();
        let Shown::Steps(steps) = causes(&prediction).shown else { unreachable!() };
        for pair in steps[..steps.len() - 1].windows(2) {
            assert_eq!(pair[0].to_ms, pair[1].from_ms);
        }
        let [.., before, last] = &steps[..] else { unreachable!() };
        assert!((before.to_ms - last.to_ms).abs() <= 5e-3 * prediction.unprefetched_ms * 5.0);
    }

    #[test]
    fn every_pattern_has_its_curves() {
        let nvme = find("nvme").unwrap();
        let titles = |workload: &Workload| {
            let (now, advice) = advise(&nvme, workload).unwrap();
            of_advice(&nvme, workload, &now, &advice)
                .into_iter()
                .map(|p| p.title)
                .collect::<Vec<_>>()
                .join("; ")
        };
        let sequential = Workload::sequential(64 << 20);
        assert!(titles(&sequential).contains("read_ahead_kb"));
        assert!(titles(&Workload { pattern: Pattern::Random, ..sequential }).contains("horizon"));
        let strided = Pattern::Strided { stride_bytes: 1 << 20 };
        assert!(
            titles(&Workload { pattern: strided, span_bytes: 8 << 30, ..sequential }).contains("streams")
        );
    }
}
