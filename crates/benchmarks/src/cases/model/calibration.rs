//! Calibrations of the same slow devices, one after the other: how far their parameters differ.

use anyhow::{Result, bail};
use foretell_device::Model;

use super::super::{Bench, Case};
use super::stage::{Kind, Stage};
use crate::outcome::{Measured, Outcome, Reference, Verdict};

/// How far parameters may differ: the largest over the least.
const SPREAD: f64 = 1.10;
/// What a calibration may take.
const MOST_SECONDS: f64 = 60.0;
const MOST_MIB: f64 = 2048.0;

/// The benchmark; each round calibrates each device once.
pub(crate) struct Repeated<'b> {
    stages: Vec<Stage<'b>>,
}

impl<'b> Repeated<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let stages = [Kind::Seeking, Kind::Parallel].map(|kind| Stage::prepare(bench, kind));
        Ok(Self { stages: stages.into_iter().collect::<Result<_>>()? })
    }
}

/// The names of the tables' points, by ascending size.
const ALONE: [&str; 5] = ["alone_4k_ms", "alone_16k_ms", "alone_64k_ms", "alone_256k_ms", "alone_1m_ms"];
const RANDOM: [&str; 5] =
    ["random_4k_ms", "random_16k_ms", "random_64k_ms", "random_256k_ms", "random_1m_ms"];

impl Case for Repeated<'_> {
    fn title(&self) -> String {
        "calibrations of the same devices, one after the other".to_owned()
    }

    fn arms(&self) -> Vec<String> {
        self.stages.iter().map(|stage| stage.kind.label()).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (device, effort) = self.stages[arm].calibrate()?;
        let Model::Measured(found) = &device.model else { bail!("this is no measured device") };
        let mut measured = vec![("positioning_ms", found.positioning_ms)];
        for (i, point) in found.service.iter().enumerate().take(ALONE.len()) {
            measured.push((ALONE[i], point.alone_ms));
            // Of many random requests in flight: what positioning leaves of a small one is little.
            measured.push((RANDOM[i], point.busy_ms + found.busy_positioning_ms));
        }
        measured.push(("took_s", effort.seconds));
        measured.push(("read_mib", effort.bytes as f64 / f64::from(1 << 20)));
        Ok(measured)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (label, series) in &outcome.arms {
            let parameters = series.iter().filter(|s| !["took_s", "read_mib"].contains(&s.metric));
            // A device without positioning is found to have none every time.
            let spreads = parameters.filter(|s| s.max() > 0.0).map(|s| s.max() / s.min());
            let worst = spreads.fold(1.0, f64::max);
            verdicts.push(Verdict::at_most(format!("{label}: largest spread of a parameter"), worst, SPREAD));
            for (metric, limit) in [("took_s", MOST_SECONDS), ("read_mib", MOST_MIB)] {
                if let Some(found) = series.iter().find(|s| s.metric == metric) {
                    verdicts.push(Verdict::at_most(format!("{label}: {metric}"), found.max(), limit));
                }
            }
        }
        verdicts
    }
}
