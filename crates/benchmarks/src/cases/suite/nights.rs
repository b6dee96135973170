//! One program on one device: its data are made, and read night after night.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use foretell_slowdisk::Timing;

use super::data::{Maker, search_path};
use super::programs::{Change, Program};
use super::wanted::Device;
use crate::cases::{Bench, MIB, Place};
use crate::cold;
use crate::machine;
use crate::outcome::Measured;
use crate::program::{Job, Steering};
use crate::reader::BLOCK_BYTES;

/// The kernel's readahead, KiB: its default first, which counts as the plain kernel.
pub(super) const READ_AHEADS_KB: [u32; 3] = [128, 1024, 4096];
/// Room on a slow device; it takes the memory that is written only.
const DEVICE_BYTES: u64 = 1 << 30;
/// Memory beside what is read and the program's own, as in `nights`: foretell, the kernel's own, MiB.
const BESIDE_MIB: u64 = 40;
/// What a night reads is looked for so often while other programs empty the kernel's caches.
const TRIES: usize = 3;
/// Of so many files one is replaced.
const ONE_IN: usize = 20;

/// What is measured side by side.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) program: &'static Program,
    pub(super) device: Device,
    /// How much of what it reads fits into memory.
    pub(super) per_cent: u64,
}

impl Cell {
    pub(super) fn name(&self) -> String {
        format!("{}: {}, {}%", self.program.name, self.device.name(), self.per_cent)
    }
}

/// A run of a program: what it is called, and its metrics of time and of what the device read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) name: &'static str,
    pub(super) seconds: &'static str,
    pub(super) mib: &'static str,
}

/// The kernel's runs, one for each of [`READ_AHEADS_KB`].
pub(super) const KERNELS: [Run; 3] = [
    Run { name: "kernel, 128", seconds: "kernel_128_s", mib: "kernel_128_mib" },
    Run { name: "kernel, 1024", seconds: "kernel_1024_s", mib: "kernel_1024_mib" },
    Run { name: "kernel, 4096", seconds: "kernel_4096_s", mib: "kernel_4096_mib" },
];
pub(super) const KERNEL_CHANGED: Run =
    Run { name: "kernel, changed", seconds: "kernel_changed_s", mib: "kernel_changed_mib" };
/// The third one is the changed night.
pub(super) const NIGHTS: [Run; 3] = [
    Run { name: "night 1", seconds: "night_1_s", mib: "night_1_mib" },
    Run { name: "night 2", seconds: "night_2_s", mib: "night_2_mib" },
    Run { name: "night 3", seconds: "night_3_s", mib: "night_3_mib" },
];

/// What a run gave.
#[derive(Debug)]
struct Night {
    run: Run,
    wall_s: f64,
    device_mib: f64,
    output: String,
    words: String,
}

/// What all runs of a cell gave.
#[derive(Debug, Default)]
pub(super) struct Nights(Vec<Night>);

impl Nights {
    pub(super) fn measured(&self) -> Measured {
        let metrics = self
            .0
            .iter()
            .flat_map(|night| [(night.run.seconds, night.wall_s), (night.run.mib, night.device_mib)]);
        metrics.collect()
    }

    /// The nights whose output is not that of the kernel's run of the same job.
    pub(super) fn with_another_output(&self) -> Vec<&'static str> {
        let output =
            |run: Run| self.0.iter().find(|night| night.run == run).map(|night| night.output.as_str());
        let differs = |night: &&Night| {
            let changed = night.run == NIGHTS[2] || night.run == KERNEL_CHANGED;
            output(if changed { KERNEL_CHANGED } else { KERNELS[0] }) != Some(&night.output)
        };
        self.0.iter().filter(differs).map(|night| night.run.name).collect()
    }

    /// What foretell said of each night.
    pub(super) fn words(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0
            .iter()
            .filter(|night| NIGHTS.contains(&night.run))
            .map(|night| (night.run.name, night.words.as_str()))
    }
}

/// A program's data on a device; gone when it is dropped.
pub(super) struct Stage<'b> {
    bench: &'b Bench,
    place: Place,
    program: &'static Program,
    directory: PathBuf,
    /// The name of the files' directory, which may change.
    files: &'static str,
    /// Where foretell keeps what it learns.
    state: PathBuf,
}

impl<'b> Stage<'b> {
    pub(super) fn make(bench: &'b Bench, program: &'static Program, device: Device) -> Result<Self> {
        let (place, divisor) = match device {
            Device::Cloud => (bench.slow_device("suite", Timing::cloud_1ms(), DEVICE_BYTES)?, 1),
            Device::Disk => {
                (bench.slow_device("suite", Timing::disk_8ms(), DEVICE_BYTES)?, program.less_for_an_arm)
            }
            Device::Own => (bench.own_disk()?, 1),
        };
        let directory = place.directory.join("suite");
        std::fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let state = bench.launcher.scratch().join("learnt");
        let stage = Stage { bench, place, program, directory, files: "files", state };
        (program.make)(&Maker { directory: &stage.directory, divisor: divisor * bench.shrink })
            .context("cannot make its data")?;
        // Nothing is known of the job.
        let _ = std::fs::remove_dir_all(&stage.state);
        Ok(stage)
    }

    /// How much of its files a night reads: what is in memory after one with enough of it.
    pub(super) fn read_bytes(&self) -> Result<u64> {
        let enough = 16 << 30;
        let mut most_pages = 0;
        for _ in 0..TRIES {
            let drops = machine::cache_drops();
            self.run(KERNELS[0], self.program.night, READ_AHEADS_KB[0], false, enough)?;
            let mut pages = 0;
            for path in self.paths()? {
                pages += cold::cached_pages(&std::fs::File::open(path)?)?;
            }
            most_pages = pages.max(most_pages);
            if machine::cache_drops() == drops {
                break;
            }
        }
        Ok(most_pages * rustix::param::page_size() as u64)
    }

    /// Memory for a share of what is read, in per cent.
    pub(super) fn limit_bytes(&self, read_bytes: u64, per_cent: u64) -> u64 {
        read_bytes * per_cent / 100 + (self.program.own_mib + BESIDE_MIB) * MIB
    }

    /// All runs, the kernel's or the nights first.
    pub(super) fn nights(
        &mut self,
        limit_bytes: u64,
        change: Option<Change>,
        nights_first: bool,
    ) -> Result<Nights> {
        let mut nights = Vec::new();
        let script = self.program.night;
        let steered = if self.bench.kernel_only { 0 } else { 2 };
        for kernels in [!nights_first, nights_first] {
            if kernels {
                for (run, read_ahead_kb) in KERNELS.into_iter().zip(READ_AHEADS_KB) {
                    nights.push(self.run(run, script, read_ahead_kb, false, limit_bytes)?);
                }
            } else {
                for run in NIGHTS.into_iter().take(steered) {
                    nights.push(self.run(run, script, READ_AHEADS_KB[0], true, limit_bytes)?);
                }
            }
        }
        if let (Some(change), false) = (change, self.bench.kernel_only) {
            let script = self.change(change)?;
            for (run, steered) in [(KERNEL_CHANGED, false), (NIGHTS[2], true)] {
                nights.push(self.run(run, script, READ_AHEADS_KB[0], steered, limit_bytes)?);
            }
        }
        Ok(Nights(nights))
    }

    /// Runs a script with none of the files cached.
    fn run(
        &self,
        run: Run,
        script: &str,
        read_ahead_kb: u32,
        steered: bool,
        limit_bytes: u64,
    ) -> Result<Night> {
        let output = self.bench.launcher.scratch().join("output");
        let arguments: [OsString; 4] =
            ["--state".into(), self.state.clone().into(), "--name".into(), "job".into()];
        let job = Job {
            name: "suite".to_owned(),
            command: self.command(script, &output),
            steering: if steered { Steering::Learn(arguments.to_vec()) } else { Steering::Kernel },
            limit_bytes,
            report: None,
        };
        let (finished, device_blocks) =
            self.place.finish_cold(self.bench, &self.paths()?, read_ahead_kb, job).context(run.name)?;
        let output = std::fs::read_to_string(output).context("the job wrote nothing")?;
        ensure!(!output.trim().is_empty(), "{}: the job wrote nothing", run.name);
        let device_mib = device_blocks * BLOCK_BYTES as f64 / MIB as f64;
        Ok(Night { run, wall_s: finished.wall_s, device_mib, output, words: finished.words })
    }

    /// The script as a job, with its output in a file.
    fn command(&self, script: &str, output: &Path) -> Vec<OsString> {
        let (directory, output) = (self.directory.display(), output.display());
        let settings = format!("export LC_ALL=C FILES={} PATH='{}'", self.files, search_path());
        let script = format!("{settings}; cd '{directory}'; exec >'{output}'; {script}");
        ["bash", "-o", "pipefail", "-ec", &script].map(OsString::from).to_vec()
    }

    /// Makes the third night another one; gives its script.
    fn change(&mut self, change: Change) -> Result<&'static str> {
        match change {
            Change::Query(script) | Change::Order(script) => return Ok(script),
            Change::Names => {
                let other = "files-of-tonight";
                std::fs::rename(self.directory.join(self.files), self.directory.join(other))?;
                self.files = other;
            }
            Change::Files => {
                let mut paths = Vec::new();
                list(&self.directory.join(self.files), &mut paths)?;
                paths.sort();
                let new = self.directory.join("new");
                for pair in paths.windows(2).step_by(ONE_IN) {
                    std::fs::copy(&pair[1], &new)?;
                    std::fs::rename(&new, &pair[0])?;
                }
            }
        }
        Ok(self.program.night)
    }

    fn paths(&self) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        list(&self.directory, &mut paths)?;
        Ok(paths)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // The janitor has the place in its notes, too.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The files below a directory.
fn list(directory: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nights(outputs: &[(Run, &str)]) -> Nights {
        let night = |(run, output): &(Run, &str)| Night {
            run: *run,
            wall_s: 1.0,
            device_mib: 2.0,
            output: (*output).to_owned(),
            words: String::new(),
        };
        Nights(outputs.iter().map(night).collect())
    }

    #[test]
    fn outputs_are_compared_with_the_kernels_run_of_the_same_job() {
        let [first, second, third] = NIGHTS;
        let same =
            nights(&[(KERNELS[0], "a"), (first, "a"), (second, "a"), (KERNEL_CHANGED, "b"), (third, "b")]);
        assert!(same.with_another_output().is_empty());
        let other = nights(&[
            (first, "b"),
            (KERNELS[0], "a"),
            (KERNELS[2], "c"),
            (KERNEL_CHANGED, "b"),
            (third, "a"),
        ]);
        assert_eq!(other.with_another_output(), ["night 1", "kernel, 4096", "night 3"]);
    }

    #[test]
    fn metrics_are_those_of_the_runs() {
        let measured = nights(&[(KERNELS[1], "a")]).measured();
        assert_eq!(measured, [("kernel_1024_s", 1.0), ("kernel_1024_mib", 2.0)]);
    }
}
