//! One program, one file: read cyclically, in a known random order, or once.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use foretell_slowdisk::Timing;

use super::{Bench, Case, MIB, Place, READ_AHEAD_KB, budget, common_metrics, files, rule};
use crate::cold;
use crate::ideal;
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering};
use crate::random::Random;
use crate::reader::BLOCK_BYTES;

const FORETELL: &str = "foretell";
/// Passes of the cyclic program.
const PASSES: u64 = 5;
/// Passes over the random order.
const RANDOM_PASSES: u64 = 2;
/// Processor time a block of the random program.
const COMPUTE_US: u64 = 200;

/// How the file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Cyclic,
    Random,
    Sequential,
}

pub(crate) struct Scan<'b> {
    bench: &'b Bench,
    kind: Kind,
    place: Place,
    /// The slow device's timing; `None` for the machine's own disk.
    timing: Option<Timing>,
    file: PathBuf,
    /// The block list of the random program.
    list: PathBuf,
    blocks: u64,
    budget_bytes: u64,
    /// Fetches of optimal replacement.
    best_fetches: u64,
}

impl<'b> Scan<'b> {
    pub(crate) fn prepare(bench: &'b Bench, kind: Kind, slow: bool) -> Result<Self> {
        let (file_mib, budget_mib, timing) = match kind {
            Kind::Cyclic => (128, 60, Timing::disk_8ms()),
            Kind::Random => (256, 64, Timing::cloud_1ms()),
            Kind::Sequential => (1024, 64, Timing::disk_8ms()),
        };
        let blocks = file_mib * MIB / BLOCK_BYTES / bench.shrink;
        let budget_bytes = budget_mib * MIB / bench.shrink;
        let place =
            if slow { bench.slow_device("disk", timing, blocks * BLOCK_BYTES)? } else { bench.own_disk()? };
        let file = place.directory.join("data");
        files::make(&file, blocks)?;
        let list = bench.launcher.scratch().join("blocks.txt");
        let cache_blocks = budget_bytes / BLOCK_BYTES;
        let best_fetches = match kind {
            Kind::Cyclic => ideal::cyclic_fetches(blocks, cache_blocks, PASSES),
            Kind::Sequential => blocks,
            Kind::Random => {
                let order = Random::new(2).permutation(blocks);
                let references = order.repeat(RANDOM_PASSES as usize);
                files::make_list(&list, &file, &references)?;
                ideal::belady_fetches(&references, usize::try_from(cache_blocks)?)
            }
        };
        let timing = slow.then_some(timing);
        Ok(Self { bench, kind, place, timing, file, list, blocks, budget_bytes, best_fetches })
    }

    fn reader(&self) -> Vec<OsString> {
        let file = self.file.clone().into();
        match self.kind {
            Kind::Cyclic => vec!["passes".into(), file, "--passes".into(), PASSES.to_string().into()],
            Kind::Sequential => vec!["passes".into(), file],
            Kind::Random => {
                let list = self.list.clone().into();
                vec!["list".into(), list, "--compute-us".into(), COMPUTE_US.to_string().into()]
            }
        }
    }

    fn foretell_arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["--budget".into(), budget(self.budget_bytes)];
        match self.kind {
            Kind::Cyclic => arguments.extend(["--rule".into(), rule(&self.file, "mru")]),
            Kind::Random => arguments.extend(["--hints".into(), self.list.clone().into()]),
            Kind::Sequential => {}
        }
        arguments
    }

    /// With how many of the readahead settings foretell is run: it leaves the kernel's readahead on for
    /// files that are read sequentially, so that whoever tunes it tunes it for both. Files that are read in
    /// a listed order have it switched off, and one setting does.
    fn foretell_settings(&self) -> usize {
        match self.kind {
            Kind::Cyclic | Kind::Sequential => READ_AHEAD_KB.len(),
            Kind::Random => 1,
        }
    }

    /// Processor time of the program, in seconds, without its system calls.
    fn compute_s(&self) -> f64 {
        match self.kind {
            Kind::Random => (self.blocks * RANDOM_PASSES * COMPUTE_US) as f64 / 1e6,
            Kind::Cyclic | Kind::Sequential => 0.0,
        }
    }

    /// Least time of the device for the optimal fetches, in seconds.
    fn device_s(&self) -> Option<f64> {
        let runs = match self.kind {
            Kind::Cyclic => PASSES,
            Kind::Sequential => 1,
            Kind::Random => self.best_fetches,
        };
        Some(ideal::device_s(&self.timing?, self.best_fetches, runs, BLOCK_BYTES))
    }
}

impl Case for Scan<'_> {
    fn title(&self) -> String {
        let mib = self.blocks * BLOCK_BYTES / MIB;
        let what = match self.kind {
            Kind::Cyclic => format!("{mib} MiB read {PASSES} times in 8 KiB"),
            Kind::Random => {
                format!(
                    "{mib} MiB in a known random order, {RANDOM_PASSES} times, {COMPUTE_US} us of compute a block"
                )
            }
            Kind::Sequential => format!("{mib} MiB read once in 8 KiB, no rule"),
        };
        let device = match (&self.timing, self.kind) {
            (None, _) => "the machine's own disk",
            (Some(_), Kind::Random) => "1 ms x 8 channels",
            (Some(_), _) => "the 8 ms disk",
        };
        let budget_mib = self.budget_bytes as f64 / MIB as f64;
        let total_mib = (self.budget_bytes + self.bench.headroom_bytes) as f64 / MIB as f64;
        format!("{what}; budget {budget_mib} MiB, {total_mib} MiB of memory for all; {device}")
    }

    fn arms(&self) -> Vec<String> {
        let mut arms: Vec<String> =
            READ_AHEAD_KB.iter().map(|kb| format!("kernel, readahead {kb}")).collect();
        if !self.bench.kernel_only {
            let settings = READ_AHEAD_KB[..self.foretell_settings()].iter();
            arms.extend(settings.map(|kb| format!("{FORETELL}, readahead {kb}")));
        }
        arms
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let read_ahead_kb = READ_AHEAD_KB[arm % READ_AHEAD_KB.len()];
        let steering = if arm < READ_AHEAD_KB.len() {
            Steering::Kernel
        } else {
            Steering::Foretell(self.foretell_arguments())
        };
        let (bench, launcher) = (self.bench, &self.bench.launcher);
        self.place.device.set_read_ahead_kb(&bench.janitor, read_ahead_kb)?;
        cold::evict(&self.file)?;
        let (command, report) = launcher.reader("program", self.reader());
        let job = Job {
            name: "program".to_owned(),
            command,
            steering,
            limit_bytes: self.budget_bytes + bench.headroom_bytes,
            report: Some(report),
        };
        let before = self.place.read_blocks()?;
        let finished = launcher.run(&bench.janitor, job)?;
        let device_blocks = self.place.read_blocks()? - before;
        let mut measured = vec![("device_blocks", device_blocks)];
        measured.extend(common_metrics(&finished));
        Ok(measured)
    }

    fn references(&self) -> Vec<Reference> {
        let what = match self.kind {
            Kind::Cyclic => "blocks that MRU (optimal here) fetches",
            Kind::Random => "blocks that optimal replacement (Belady) fetches",
            Kind::Sequential => "blocks of the file",
        };
        let mut references = vec![Reference { what: what.to_owned(), value: self.best_fetches as f64 }];
        if let Some(device_s) = self.device_s() {
            let best_s = self.compute_s().max(device_s);
            for (what, value) in [
                ("compute, s", self.compute_s()),
                ("device time of these fetches, s", device_s),
                ("the longer of both, s", best_s),
            ] {
                references.push(Reference { what: what.to_owned(), value });
            }
        }
        references
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let (Some(kernel_s), Some(foretell_s), Some(blocks)) = (
            outcome.best("kernel", "wall_s"),
            outcome.best(FORETELL, "wall_s"),
            outcome.best(FORETELL, "device_blocks"),
        ) else {
            return Vec::new();
        };
        let ratio = |limit| Verdict::at_most("elapsed, of the kernel's better", foretell_s / kernel_s, limit);
        if self.timing.is_none() {
            // These runs are so short that foretell's own start and end show; both are said.
            let program = match (outcome.best("kernel", "program_s"), outcome.best(FORETELL, "program_s")) {
                (Some(kernel_s), Some(foretell_s)) => foretell_s / kernel_s,
                _ => f64::NAN,
            };
            let of_kernel = "the program's own time, of the kernel's better";
            return vec![Verdict::at_most(of_kernel, program, 1.02), ratio(1.02)];
        }
        let near_best = |share| Verdict::within("device blocks", blocks, self.best_fetches as f64, share);
        match self.kind {
            Kind::Cyclic => vec![near_best(0.01), ratio(0.75)],
            Kind::Random => {
                let best_s = self.compute_s().max(self.device_s().unwrap_or(f64::NAN));
                let of_best =
                    Verdict::at_most("elapsed, of the longer of compute and I/O", foretell_s / best_s, 1.25);
                vec![near_best(0.02), ratio(0.25), of_best]
            }
            Kind::Sequential => {
                let kernel_blocks = outcome.best("kernel", "device_blocks").unwrap_or(f64::NAN);
                let reads = Verdict::at_most("device blocks, of the kernel's", blocks / kernel_blocks, 1.0);
                vec![ratio(1.02), reads]
            }
        }
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        // On the machine's own disk the janitor removes it; a slow device goes as a whole.
        let _ = std::fs::remove_file(&self.file).context("the janitor tries again");
    }
}
