//! What the model advises, against a sweep of the same setting on the same device.

use anyhow::{Context, Result, anyhow};
use foretell_analytic::advise::{Setting, advise};
use foretell_device::DeviceParameters;

use super::super::{Bench, Case};
use super::job::{Job, KERNEL, Order, Path};
use super::stage::{FILE_BYTES, Kind, Stage};
use crate::outcome::{Measured, Outcome, Reference, Verdict};

/// How far the advised setting may be from the best of the sweep.
const OF_BEST: f64 = 1.05;
/// "Never worse than the default", but for what two runs of the same differ.
const OF_DEFAULT: f64 = 1.02;

/// A setting to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knob {
    ReadAheadKb,
    /// References in flight through the page cache.
    Horizon,
    /// Direct reads in flight.
    QueueDepth,
}

impl Knob {
    /// The values of the sweep, and the value without advice.
    fn sweep(self) -> (&'static [u32], u32) {
        match self {
            Knob::ReadAheadKb => (&[16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], 128),
            Knob::Horizon | Knob::QueueDepth => (&[1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 128], 1),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Knob::ReadAheadKb => "read_ahead_kb",
            Knob::Horizon => "horizon",
            Knob::QueueDepth => "queue depth",
        }
    }

    fn apply(self, value: u32, job: Job) -> Job {
        match self {
            Knob::ReadAheadKb => Job { path: Path::Kernel { read_ahead_kb: value }, ..job },
            Knob::Horizon | Knob::QueueDepth => Job { order: Order::Hinted { horizon: value }, ..job },
        }
    }
}

/// On the 8 ms disk.
const SEEKING: &[(Knob, Job)] = &[
    (Knob::ReadAheadKb, Job::new(Order::Sequential, KERNEL, 48 << 10, 8)),
    (Knob::ReadAheadKb, Job::new(Order::Sequential, KERNEL, 16 << 10, 64).streams(2)),
    (Knob::Horizon, Job::new(Order::Random, KERNEL, 800, 8).thinking(9_000)),
    (Knob::QueueDepth, Job::new(Order::Random, Path::Direct, 800, 8)),
];

/// On the volume of 1 ms x 8.
const PARALLEL: &[(Knob, Job)] = &[
    (Knob::ReadAheadKb, Job::new(Order::Sequential, KERNEL, 96 << 10, 8)),
    (Knob::ReadAheadKb, Job::new(Order::Sequential, KERNEL, 64 << 10, 64).thinking(400)),
    (Knob::ReadAheadKb, Job::new(Order::Sequential, KERNEL, 48 << 10, 32).streams(2)),
    (Knob::Horizon, Job::new(Order::Random, KERNEL, 24 << 10, 8)),
    (Knob::Horizon, Job::new(Order::Random, KERNEL, 16 << 10, 8).thinking(300)),
    (Knob::QueueDepth, Job::new(Order::Random, Path::Direct, 24 << 10, 8)),
];

/// The benchmark.
pub(crate) struct Sweep<'b> {
    stages: Vec<Stage<'b>>,
    rows: Vec<Row>,
    arms: Vec<(usize, u32)>,
}

struct Row {
    stage: usize,
    knob: Knob,
    job: Job,
    label: String,
    advised: u32,
}

impl<'b> Sweep<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let (mut stages, mut rows, mut arms) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, cases) in [(Kind::Seeking, SEEKING), (Kind::Parallel, PARALLEL)] {
            let stage = Stage::prepare(bench, kind).with_context(|| kind.label())?;
            let (device, _) = stage.calibrate().with_context(|| format!("{}: calibrating", kind.label()))?;
            for &(knob, job) in cases {
                let label = format!("{}: {}, {}", kind.label(), knob.name(), job.label());
                let advised = advised(&device, knob, &job)?;
                let (values, default) = knob.sweep();
                let mut values: Vec<u32> = values.iter().copied().chain([default, advised]).collect();
                values.sort_unstable();
                values.dedup();
                arms.extend(values.into_iter().map(|value| (rows.len(), value)));
                rows.push(Row { stage: stages.len(), knob, job, label, advised });
            }
            stages.push(stage);
        }
        Ok(Self { stages, rows, arms })
    }
}

/// What the model advises; the default where it advises nothing.
fn advised(device: &DeviceParameters, knob: Knob, job: &Job) -> Result<u32> {
    let setting = match knob {
        Knob::ReadAheadKb => Setting::ReadAheadKb,
        Knob::Horizon => Setting::Horizon,
        Knob::QueueDepth => Setting::QueueDepth,
    };
    let (_, advice) =
        advise(device, &job.workload(FILE_BYTES)).map_err(|e| anyhow!("{}: {e}", job.label()))?;
    let found = advice.iter().find(|a| a.setting == setting).map(|a| u32::try_from(a.value));
    // The reader has a thread for each direct read in flight.
    Ok(found.transpose()?.map_or(knob.sweep().1, |value| {
        value.clamp(1, 16 << 10).min(match knob {
            Knob::ReadAheadKb => 16 << 10,
            _ => 256,
        })
    }))
}

impl Case for Sweep<'_> {
    fn title(&self) -> String {
        format!("{} settings advised by the model, against a sweep of each", self.rows.len())
    }

    fn arms(&self) -> Vec<String> {
        self.arms.iter().map(|(row, value)| format!("{} = {value}", self.rows[*row].label)).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (row, value) = self.arms[arm];
        let Row { stage, knob, job, .. } = &self.rows[row];
        Ok(vec![("measured_ms", self.stages[*stage].run(&knob.apply(value, *job))?)])
    }

    fn references(&self) -> Vec<Reference> {
        self.rows
            .iter()
            .map(|row| Reference { what: format!("{}: advised", row.label), value: f64::from(row.advised) })
            .collect()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for row in &self.rows {
            let at = |value: u32| outcome.median(&format!("{} = {value}", row.label), "measured_ms");
            let best = outcome.best(&format!("{} = ", row.label), "measured_ms");
            let (Some(advised_ms), Some(best_ms), Some(default_ms)) =
                (at(row.advised), best, at(row.knob.sweep().1))
            else {
                continue;
            };
            let of = |what: &str| format!("{} = {}, of {what}", row.label, row.advised);
            verdicts.push(Verdict::at_most(of("the best"), advised_ms / best_ms, OF_BEST));
            verdicts.push(Verdict::at_most(of("the default"), advised_ms / default_ms, OF_DEFAULT));
        }
        verdicts
    }
}
