//! What a hit costs: 8 KiB reads of data in memory, alone and beside what foretell observes.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Bench, Case, MIB, Place, budget, files, rule};
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering};
use crate::reader::BLOCK_BYTES;

const FILE_MIB: u64 = 64;
/// About a second.
const READS: u64 = 640_000;
const ARMS: [&str; 3] = ["alone", "file not managed", "file managed"];

pub(crate) struct Hits<'b> {
    bench: &'b Bench,
    /// Kept for its directory.
    _place: Place,
    file: PathBuf,
    other: PathBuf,
    reads: u64,
}

impl<'b> Hits<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let place = bench.own_disk()?;
        let (file, other) = (place.directory.join("data"), place.directory.join("other"));
        files::make(&file, FILE_MIB * MIB / BLOCK_BYTES)?;
        files::make(&other, 1)?;
        Ok(Self { bench, _place: place, file, other, reads: READS / bench.shrink })
    }
}

impl Case for Hits<'_> {
    fn title(&self) -> String {
        format!("{} random 8 KiB reads of a file of {FILE_MIB} MiB in memory", self.reads)
    }

    fn arms(&self) -> Vec<String> {
        let count = if self.bench.kernel_only { 1 } else { ARMS.len() };
        ARMS[..count].iter().map(|arm| (*arm).to_owned()).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let budget_bytes = 2 * FILE_MIB * MIB;
        let managing = |path| {
            Steering::Foretell(vec![
                "--budget".into(),
                budget(budget_bytes),
                "--rule".into(),
                rule(path, "lru"),
            ])
        };
        let steering = match arm {
            0 => Steering::Kernel,
            1 => managing(&self.other),
            _ => managing(&self.file),
        };
        let reads: OsString = self.reads.to_string().into();
        let arguments = ["hits".into(), self.file.clone().into(), "--reads".into(), reads];
        let (command, report) = self.bench.launcher.reader("hits", arguments);
        let job = Job {
            name: "hits".to_owned(),
            command,
            steering,
            limit_bytes: budget_bytes + self.bench.headroom_bytes,
            report: Some(report),
        };
        let finished = self.bench.launcher.run(&self.bench.janitor, job)?;
        let report = finished.report.context("the reader did not report")?;
        let mut measured =
            vec![("mean_ns", report.elapsed_s * 1e9 / report.reads as f64), ("p50_ns", report.p50_us * 1e3)];
        if let Some(lost) = finished.stats.as_ref().and_then(|stats| stats["lost_events"].as_f64()) {
            measured.push(("lost_events", lost));
        }
        Ok(measured)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let Some(alone_ns) = outcome.median(ARMS[0], "mean_ns") else { return Vec::new() };
        [(ARMS[1], 1.10), (ARMS[2], 1.30)]
            .iter()
            .filter_map(|(arm, limit)| {
                let ratio = outcome.median(arm, "mean_ns")? / alone_ns;
                Some(Verdict::at_most(format!("{arm}, of alone"), ratio, *limit))
            })
            .collect()
    }
}
