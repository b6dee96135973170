//! The calibrated model against reads that were not used for calibration.
//!
//! Each round calibrates a device and then reads from it, so that what changes over minutes (a shared machine's
//! load, what was just written) is the same for both.

use anyhow::{Context, Result};
use foretell_device::DeviceParameters;

use super::super::{Bench, Case};
use super::job::{Job, KERNEL, Order, Path};
use super::stage::{Kind, Stage, predicted_ms};

use crate::outcome::{Measured, Outcome, Reference, Series, Verdict};

/// What the disk is throttled to: well below what any disk of today does.
const THROTTLED_BYTES_PER_S: u64 = 50_000_000;

use Order::{Hinted, Random, Sequential, Strided};
use Path::{Direct, Kernel};

/// On a disk that positions for 8 ms and then reads 100 MB/s: about a second each.
const SEEKING: &[Job] = &[
    Job::new(Sequential, KERNEL, 64 << 10, 8),
    Job::new(Sequential, KERNEL, 64 << 10, 64),
    Job::new(Sequential, Kernel { read_ahead_kb: 512 }, 64 << 10, 32),
    Job::new(Sequential, Kernel { read_ahead_kb: 2048 }, 64 << 10, 8),
    Job::new(Sequential, Direct, 64 << 10, 128),
    Job::new(Sequential, Direct, 32 << 10, 8),
    Job::new(Sequential, KERNEL, 64 << 10, 8).thinking(50),
    Job::new(Sequential, KERNEL, 64 << 10, 64).thinking(1500),
    Job::new(Sequential, KERNEL, 16 << 10, 8).streams(2),
    Job::new(Random, KERNEL, 1200, 8),
    Job::new(Random, Direct, 100 * 48, 48),
    Job::new(Random, Direct, 400, 8).streams(4),
    Job::new(Strided { stride_kb: 256 }, KERNEL, 1200, 8),
    Job::new(Strided { stride_kb: 1024 }, Direct, 100 * 128, 128),
    Job::new(Hinted { horizon: 16 }, KERNEL, 1200, 8),
    Job::new(Hinted { horizon: 8 }, KERNEL, 800, 8).thinking(12_000),
    Job::new(Hinted { horizon: 16 }, Direct, 1200, 8),
];

/// On a volume that takes 1 ms a request, eight at a time, and 250 MB/s.
const PARALLEL: &[Job] = &[
    Job::new(Sequential, KERNEL, 64 << 10, 8),
    Job::new(Sequential, KERNEL, 64 << 10, 64),
    Job::new(Sequential, Kernel { read_ahead_kb: 512 }, 96 << 10, 32),
    Job::new(Sequential, Kernel { read_ahead_kb: 2048 }, 96 << 10, 8),
    Job::new(Sequential, Direct, 64 << 10, 128),
    Job::new(Sequential, Direct, 8 << 10, 8),
    Job::new(Sequential, KERNEL, 64 << 10, 8).thinking(50),
    Job::new(Sequential, KERNEL, 64 << 10, 64).thinking(1500),
    Job::new(Sequential, KERNEL, 64 << 10, 8).streams(2),
    Job::new(Sequential, KERNEL, 48 << 10, 8).streams(4),
    Job::new(Random, KERNEL, 8 << 10, 8),
    Job::new(Random, Direct, 800 * 48, 48),
    Job::new(Random, Direct, 8 << 10, 8).streams(4),
    Job::new(Strided { stride_kb: 64 }, KERNEL, 8 << 10, 8),
    Job::new(Strided { stride_kb: 256 }, Direct, 500 * 128, 128),
    Job::new(Hinted { horizon: 4 }, KERNEL, 16 << 10, 8),
    Job::new(Hinted { horizon: 32 }, KERNEL, 48 << 10, 8),
    Job::new(Hinted { horizon: 16 }, KERNEL, 16 << 10, 8).thinking(400),
    Job::new(Hinted { horizon: 4 }, Direct, 16 << 10, 8),
    Job::new(Hinted { horizon: 32 }, Direct, 48 << 10, 8),
];

/// On the machine's own disk, which is fast: 128 MiB, or thousands of reads.
const OWN: &[Job] = &[
    Job::new(Sequential, KERNEL, 128 << 10, 8),
    Job::new(Sequential, KERNEL, 128 << 10, 64),
    Job::new(Sequential, Kernel { read_ahead_kb: 1024 }, 128 << 10, 32),
    Job::new(Sequential, Direct, 128 << 10, 128),
    Job::new(Sequential, Direct, 64 << 10, 8),
    Job::new(Sequential, KERNEL, 64 << 10, 64).thinking(200),
    Job::new(Sequential, Kernel { read_ahead_kb: 512 }, 64 << 10, 8).thinking(50),
    Job::new(Random, KERNEL, 40 << 10, 8),
    Job::new(Random, Direct, 64 << 10, 8),
    Job::new(Random, Direct, 120 << 10, 48),
    Job::new(Strided { stride_kb: 64 }, KERNEL, 15 << 10, 8),
    Job::new(Strided { stride_kb: 256 }, Direct, 60 << 10, 128),
    Job::new(Hinted { horizon: 16 }, KERNEL, 40 << 10, 8),
    Job::new(Hinted { horizon: 8 }, KERNEL, 40 << 10, 8).thinking(100),
];

/// On the same disk held back to 50 MB/s.
const THROTTLED: &[Job] = &[
    Job::new(Sequential, KERNEL, 100 << 10, 8),
    Job::new(Sequential, Kernel { read_ahead_kb: 1024 }, 100 << 10, 64),
    Job::new(Sequential, Direct, 100 << 10, 128),
    Job::new(Random, KERNEL, 60 << 10, 8),
    Job::new(Random, Direct, 60 << 10, 64),
    Job::new(Random, Direct, 60 << 10, 16),
    Job::new(Hinted { horizon: 16 }, KERNEL, 60 << 10, 16),
    Job::new(Sequential, KERNEL, 60 << 10, 64).thinking(2500),
];

/// The benchmark.
pub(crate) struct Reality<'b> {
    arms: Vec<Arm>,
    stages: Vec<Stage<'b>>,
    /// The stage that was calibrated last, and what was found.
    calibrated: Option<(usize, DeviceParameters)>,
}

struct Arm {
    stage: usize,
    job: Job,
    label: String,
}

impl<'b> Reality<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let kinds = [
            (Kind::Seeking, SEEKING),
            (Kind::Parallel, PARALLEL),
            (Kind::Own, OWN),
            (Kind::Throttled { bytes_per_s: THROTTLED_BYTES_PER_S }, THROTTLED),
        ];
        let mut stages = Vec::new();
        let mut arms = Vec::new();
        for (kind, jobs) in kinds {
            let stage = Stage::prepare(bench, kind).with_context(|| kind.label())?;
            for &job in jobs {
                let label = format!("{}: {}", kind.label(), job.label());
                arms.push(Arm { stage: stages.len(), job, label });
            }
            stages.push(stage);
        }
        Ok(Self { arms, stages, calibrated: None })
    }

    /// The model of a stage's device.
    fn device(&mut self, at: usize) -> Result<&DeviceParameters> {
        let known = self.calibrated.take().filter(|(stage, _)| *stage == at);
        let known = match known {
            Some(known) => known,
            None => {
                let stage = &self.stages[at];
                let label = stage.kind.label();
                (at, stage.calibrate().with_context(|| format!("{label}: calibrating"))?.0)
            }
        };
        Ok(&self.calibrated.insert(known).1)
    }
}

/// |model - measured| / measured of each arm, by the median of its rounds.
fn errors(outcome: &Outcome) -> Vec<(String, f64)> {
    let of = |series: &[Series], metric: &str| series.iter().find(|s| s.metric == metric).map(Series::median);
    let arms = outcome.arms.iter().filter_map(|(label, series)| {
        let (measured_ms, model_ms) = (of(series, "measured_ms")?, of(series, "model_ms")?);
        Some((label.clone(), (model_ms - measured_ms) / measured_ms))
    });
    arms.collect()
}

/// The value below which a share of the sorted values lies (nearest rank).
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

impl Case for Reality<'_> {
    fn title(&self) -> String {
        format!("{} workloads that were not used for calibration, predicted and measured", self.arms.len())
    }

    fn arms(&self) -> Vec<String> {
        self.arms.iter().map(|arm| arm.label.clone()).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let Arm { stage, job, .. } = self.arms[arm];
        let predicted_ms = predicted_ms(self.device(stage)?, &job)?;
        let measured_ms = self.stages[stage].run(&job)?;
        let error = 100.0 * (predicted_ms - measured_ms) / measured_ms;
        Ok(vec![("measured_ms", measured_ms), ("model_ms", predicted_ms), ("error_percent", error)])
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let errors = errors(outcome);
        let of = |prefix: &str| {
            let mut sizes: Vec<f64> =
                errors.iter().filter(|(label, _)| label.starts_with(prefix)).map(|(_, e)| e.abs()).collect();
            sizes.sort_by(f64::total_cmp);
            sizes
        };
        let all = of("");
        let mut verdicts = vec![
            Verdict::at_most("median error of the model", quantile(&all, 0.5), 0.05),
            Verdict::at_most("90th percentile of its errors", quantile(&all, 0.9), 0.15),
        ];
        for stage in &self.stages {
            let label = stage.kind.label();
            let sizes = of(&format!("{label}:"));
            verdicts.push(Verdict::at_most(format!("median error, {label}"), quantile(&sizes, 0.5), 0.05));
            verdicts.push(Verdict::at_most(format!("90th percentile, {label}"), quantile(&sizes, 0.9), 0.15));
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(
            (quantile(&values, 0.5), quantile(&values, 0.9), quantile(&values, 1.0)),
            (5.0, 9.0, 10.0)
        );
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn there_are_workloads_of_every_kind() {
        let all: Vec<&Job> = [SEEKING, PARALLEL, OWN, THROTTLED].into_iter().flatten().collect();
        assert!(all.len() >= 30);
        assert!(all.iter().any(|j| j.streams > 1) && all.iter().any(|j| j.think_us > 0));
        assert!(all.iter().all(|j| j.kb % j.request_kb == 0), "{all:?}");
    }
}
