//! An uncontrolled program in a cgroup of its own, beside nothing, a scan, and a controlled scan.
//!
//! Each has a device of its own: what the scan saves on its device must not count for the neighbour. What is
//! left is what foretell could do to others: observe their reads, take processor time, evict their pages.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use foretell_slowdisk::Timing;

use super::{Bench, Case, MIB, Place, READ_AHEAD_KB, budget, files, rule};
use crate::cold;
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Running, Steering};
use crate::reader::BLOCK_BYTES;

const ARMS: [&str; 3] = ["alone", "beside a scan", "beside a controlled scan"];
/// The neighbour's file, twice its memory.
const NEIGHBOUR_MIB: u64 = 128;
const NEIGHBOUR_LIMIT_MIB: u64 = 64;
/// About four seconds.
const NEIGHBOUR_READS: u64 = 6000;
/// The scan is that of the `cyclic` benchmark, long enough to outlast the neighbour.
const SCAN_MIB: u64 = 128;
const SCAN_BUDGET_MIB: u64 = 60;
const SCAN_PASSES: u64 = 10;
/// By then the scan is reading and its cache full of its first pass.
const HEAD_START: Duration = Duration::from_millis(1500);

pub(crate) struct Neighbour<'b> {
    bench: &'b Bench,
    place: Place,
    scan_place: Place,
    file: PathBuf,
    scan_file: PathBuf,
}

impl<'b> Neighbour<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let place = bench.slow_device("neighbour", Timing::cloud_1ms(), NEIGHBOUR_MIB * MIB)?;
        let scan_place = bench.slow_device("scan", Timing::disk_8ms(), SCAN_MIB * MIB)?;
        let (file, scan_file) = (place.directory.join("data"), scan_place.directory.join("data"));
        files::make(&file, NEIGHBOUR_MIB * MIB / BLOCK_BYTES)?;
        files::make(&scan_file, SCAN_MIB * MIB / BLOCK_BYTES)?;
        Ok(Self { bench, place, scan_place, file, scan_file })
    }

    fn start_scan(&self, steering: Steering) -> Result<Running> {
        let passes = SCAN_PASSES.to_string();
        let arguments = ["passes".into(), self.scan_file.clone().into(), "--passes".into(), passes.into()];
        let (command, report) = self.bench.launcher.reader::<std::ffi::OsString>("scan", arguments);
        let job = Job {
            name: "scan".to_owned(),
            command,
            steering,
            limit_bytes: SCAN_BUDGET_MIB * MIB + self.bench.headroom_bytes,
            report: Some(report),
        };
        self.bench.launcher.start(&self.bench.janitor, job)
    }
}

impl Case for Neighbour<'_> {
    fn title(&self) -> String {
        format!(
            "an uncontrolled neighbour ({NEIGHBOUR_READS} random 8 KiB reads of {NEIGHBOUR_MIB} MiB in \
             {NEIGHBOUR_LIMIT_MIB} MiB, own device) beside a scan of {SCAN_MIB} MiB"
        )
    }

    fn arms(&self) -> Vec<String> {
        let count = if self.bench.kernel_only { 2 } else { ARMS.len() };
        ARMS[..count].iter().map(|arm| (*arm).to_owned()).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (bench, launcher) = (self.bench, &self.bench.launcher);
        for place in [&self.place, &self.scan_place] {
            place.device.set_read_ahead_kb(&bench.janitor, READ_AHEAD_KB[0])?;
        }
        cold::evict(&self.file)?;
        cold::evict(&self.scan_file)?;
        let steering = match arm {
            0 => None,
            1 => Some(Steering::Kernel),
            _ => Some(Steering::Foretell(vec![
                "--budget".into(),
                budget(SCAN_BUDGET_MIB * MIB),
                "--rule".into(),
                rule(&self.scan_file, "mru"),
            ])),
        };
        let scan = steering.map(|steering| self.start_scan(steering)).transpose()?;
        if scan.is_some() {
            std::thread::sleep(HEAD_START);
        }
        let reads = (NEIGHBOUR_READS / bench.shrink).to_string();
        let arguments = ["scattered".into(), self.file.clone().into(), "--reads".into(), reads.into()];
        let (command, report) = launcher.reader::<std::ffi::OsString>("neighbour", arguments);
        let job = Job {
            name: "neighbour".to_owned(),
            command,
            steering: Steering::Kernel,
            limit_bytes: NEIGHBOUR_LIMIT_MIB * MIB,
            report: Some(report),
        };
        let before = self.place.read_blocks()?;
        let finished = launcher.run(&bench.janitor, job)?;
        let device_blocks = self.place.read_blocks()? - before;
        if let Some(scan) = scan {
            scan.finish()?;
        }
        let report = finished.report.context("the neighbour did not report")?;
        Ok(vec![
            ("device_blocks", device_blocks),
            ("p50_us", report.p50_us),
            ("p99_us", report.p99_us),
            ("program_s", report.elapsed_s),
        ])
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        [("device_blocks", "the neighbour's device blocks"), ("p99_us", "its p99, us")]
            .iter()
            .filter_map(|(metric, what)| {
                let (plain, controlled) =
                    (outcome.median(ARMS[1], metric)?, outcome.median(ARMS[2], metric)?);
                // Less is no harm: the controlled scan leaves the machine more time.
                Some(Verdict::at_most(
                    format!("{what}, of those beside the plain scan"),
                    controlled / plain,
                    1.02,
                ))
            })
            .collect()
    }
}
