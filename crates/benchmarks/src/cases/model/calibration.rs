//! Calibrations of the same slow devices, one after the other: how far their parameters differ.

use anyhow::{Context, Result};

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

/// The parameters by their names in the JSON of the command.
const POINTS: [(&str, &str, usize); 10] = [
    ("alone_4k_ms", "alone", 0),
    ("alone_16k_ms", "alone", 1),
    ("alone_64k_ms", "alone", 2),
    ("alone_256k_ms", "alone", 3),
    ("alone_1m_ms", "alone", 4),
    ("busy_4k_ms", "busy", 0),
    ("busy_16k_ms", "busy", 1),
    ("busy_64k_ms", "busy", 2),
    ("busy_256k_ms", "busy", 3),
    ("busy_1m_ms", "busy", 4),
];

impl Case for Repeated<'_> {
    fn title(&self) -> String {
        "calibrations of the same devices, one after the other".to_owned()
    }

    fn arms(&self) -> Vec<String> {
        self.stages.iter().map(|stage| stage.kind.label()).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (_, found) = self.stages[arm].calibrate()?;
        let number = |value: &serde_json::Value| value.as_f64().context("not the JSON that was expected");
        let mut measured = Vec::new();
        for (metric, table, index) in POINTS {
            measured.push((metric, number(&found[table][index]["ms"])?));
        }
        measured.push(("positioning_ms", number(&found["positioning"]["value"])?));
        measured.push(("channels", number(&found["channels"]["value"])?));
        measured.push(("rate_mb_s", number(&found["bytes_per_s"]["value"])? / 1e6));
        measured.push(("took_s", number(&found["seconds"])?));
        measured.push(("read_mib", number(&found["read_bytes"])? / f64::from(1 << 20)));
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
