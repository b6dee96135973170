//! What it costs to be watched: `foretell run` with neither a rule nor a list, and with `--record`.
//!
//! Jobs that wait for a slow device, twice through a large file and three times through thousands of small ones with memory
//! for half of them; and reads of data in memory, where an observer weighs most. Besides the time, no more may be read from
//! the device than without it, and nothing be lost.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use foretell_slowdisk::Timing;

use super::{Bench, Case, MIB, Place, common_metrics, files};
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering};
use crate::reader::BLOCK_BYTES;

/// Memory beside what the files are given: the programs, foretell, the kernel's own, MiB.
const BESIDE_MIB: u64 = 40;
/// The kernel's readahead, KiB: its default.
const READ_AHEAD_KB: u32 = 128;
/// Blocks of the file whose cached data is read, 64 MiB.
const CACHED_BLOCKS: u64 = 8192;
/// About two seconds.
const READS: u64 = 1_280_000;
const WAYS: [&str; 3] = ["kernel", "watched", "recorded"];

/// Files that a job goes through.
#[derive(Debug, Clone, Copy)]
struct Set {
    name: &'static str,
    files: u64,
    blocks: u64,
    passes: u64,
}

const SETS: [Set; 2] = [
    Set { name: "large", files: 4, blocks: 16_384, passes: 2 },
    Set { name: "small", files: 3000, blocks: 4, passes: 3 },
];
const CACHED: &str = "cached";

pub(crate) struct Watch<'b> {
    bench: &'b Bench,
    place: Place,
    paths: Vec<Vec<PathBuf>>,
    cached: PathBuf,
    _own: Place,
}

impl<'b> Watch<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let size = |set: &Set| (set.files / bench.shrink).max(1) * set.blocks * BLOCK_BYTES;
        let place = bench.slow_device("watch", Timing::cloud_1ms(), SETS.iter().map(size).sum())?;
        let mut paths = Vec::new();
        for set in SETS {
            let directory = place.directory.join(set.name);
            std::fs::create_dir(&directory)?;
            let made = (0..(set.files / bench.shrink).max(1)).map(|at| {
                let path = directory.join(format!("{at:05}"));
                files::make(&path, set.blocks)?;
                Ok(path)
            });
            paths.push(made.collect::<Result<Vec<PathBuf>>>()?);
        }
        let own = bench.own_disk()?;
        let cached = own.directory.join("cached");
        files::make(&cached, CACHED_BLOCKS)?;
        Ok(Watch { bench, place, paths, cached, _own: own })
    }

    fn steering(&self, way: usize) -> Steering {
        let recording = self.bench.launcher.scratch().join("recording");
        match way {
            0 => Steering::Kernel,
            1 => Steering::Foretell(Vec::new()),
            _ => Steering::Foretell(vec!["--record".into(), recording.into()]),
        }
    }

    fn waiting(&self, at: usize, steering: Steering) -> Result<Measured> {
        let directory = self.paths[at][0].parent().unwrap_or(&self.place.directory).display().to_string();
        let passes = (0..SETS[at].passes).map(|pass| pass.to_string()).collect::<Vec<_>>().join(" ");
        let script = format!("for i in {passes}; do ls -d '{directory}'/* | xargs -n8 cat; done > /dev/null");
        let bytes = self.paths[at].len() as u64 * SETS[at].blocks * BLOCK_BYTES;
        let job = Job {
            name: "job".to_owned(),
            command: vec!["sh".into(), "-c".into(), script.into()],
            steering,
            limit_bytes: bytes / 2 + BESIDE_MIB * MIB,
            report: None,
        };
        self.place.run_cold(self.bench, &self.paths[at], READ_AHEAD_KB, job)
    }

    fn hits(&self, steering: Steering) -> Result<Measured> {
        let reads: OsString = (READS / self.bench.shrink).to_string().into();
        let arguments = ["hits".into(), self.cached.clone().into(), "--reads".into(), reads];
        let (command, report) = self.bench.launcher.reader("hits", arguments);
        let job = Job {
            name: "hits".to_owned(),
            command,
            steering,
            limit_bytes: 2 * CACHED_BLOCKS * BLOCK_BYTES + BESIDE_MIB * MIB,
            report: Some(report),
        };
        let finished = self.bench.launcher.run(&self.bench.janitor, job)?;
        let report = finished.report.as_ref().context("the reader did not report")?;
        let mut measured = vec![("mean_ns", report.elapsed_s * 1e9 / report.reads as f64)];
        measured.extend(common_metrics(&finished));
        Ok(measured)
    }

    fn ways(&self) -> &'static [&'static str] {
        if self.bench.kernel_only { &WAYS[..1] } else { &WAYS }
    }
}

impl Case for Watch<'_> {
    fn title(&self) -> String {
        let sets = SETS.iter().zip(&self.paths).map(|(set, paths)| {
            format!("{} x {} KiB {} times", paths.len(), set.blocks * BLOCK_BYTES / 1024, set.passes)
        });
        let sets: Vec<String> = sets.collect();
        let reads = READS / self.bench.shrink;
        format!(
            "being watched: cat of {} with memory for half, 1 ms x 8 channels; {reads} reads of 8 KiB in memory",
            sets.join(", ")
        )
    }

    fn arms(&self) -> Vec<String> {
        let jobs = SETS.iter().map(|set| set.name).chain([CACHED]);
        jobs.flat_map(|job| self.ways().iter().map(move |way| format!("{job}: {way}"))).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (job, way) = (arm / self.ways().len(), arm % self.ways().len());
        let steering = self.steering(way);
        if job < SETS.len() { self.waiting(job, steering) } else { self.hits(steering) }
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (job, metric, limit) in
            [("large", "wall_s", 1.01), ("small", "wall_s", 1.01), (CACHED, "mean_ns", 1.10)]
        {
            let median = |way: &str, metric: &str| outcome.median(&format!("{job}: {way}"), metric);
            for way in &WAYS[1..] {
                if let (Some(ours), Some(kernels)) = (median(way, metric), median("kernel", metric)) {
                    let what = format!("{job}: {way}, {metric}, of the kernel's");
                    verdicts.push(Verdict::at_most(what, ours / kernels, limit));
                }
                if let (Some(ours), Some(kernels)) =
                    (median(way, "device_blocks"), median("kernel", "device_blocks"))
                {
                    let what = format!("{job}: {way}, device blocks");
                    verdicts.push(Verdict::within(what, ours, kernels, 0.01));
                }
                if let Some(count) = median(way, "lost_events") {
                    verdicts.push(Verdict::at_most(format!("{job}: {way}, lost_events"), count, 0.0));
                }
            }
        }
        verdicts
    }
}
