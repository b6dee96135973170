//! What all benchmarks are, and share.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use foretell_slowdisk::{Helper, Options, Slowdisk, Timing, up};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::suite::SuiteArguments;
use crate::arguments::RunArguments;
use crate::cold;
use crate::janitor::{Janitor, Undo};
use crate::machine::BlockDevice;
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Finished, Job, Launcher};
use crate::reader::BLOCK_BYTES;

pub(crate) const MIB: u64 = 1 << 20;

/// The two settings of the kernel's readahead: its default, and what helps most where anything does.
pub(crate) const READ_AHEAD_KB: [u32; 2] = [128, 4096];

/// A benchmark: arms that are run in turn.
pub(crate) trait Case {
    /// What it is, in one line.
    fn title(&self) -> String;
    /// Its ways to run the program.
    fn arms(&self) -> Vec<String>;
    /// Runs one of them once, from a cold start.
    fn run(&mut self, arm: usize) -> Result<Measured>;
    /// Numbers to compare with.
    fn references(&self) -> Vec<Reference>;
    /// Whether it shows what it must.
    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict>;
    /// A table of its own, in place of the one of all medians.
    fn table(&self, _outcome: &Outcome) -> Option<String> {
        None
    }
    /// What else is to be said, in lines.
    fn notes(&self, _outcome: &Outcome) -> Vec<String> {
        Vec::new()
    }
}

/// What all benchmarks share.
pub(crate) struct Bench {
    pub(crate) janitor: Janitor,
    pub(crate) launcher: Launcher,
    pub(crate) kernel_only: bool,
    pub(crate) headroom_bytes: u64,
    pub(crate) shrink: u64,
    pub(crate) rounds: u64,
    pub(crate) kills: u64,
    pub(crate) seed: u64,
    pub(crate) suite: SuiteArguments,
    directory: Option<PathBuf>,
}

impl Bench {
    pub(crate) fn new(arguments: &RunArguments) -> Result<Self> {
        let janitor = Janitor::start()?;
        let scratch = std::env::temp_dir().join(format!("foretell-bench-{}", std::process::id()));
        janitor.remember_once(Undo::Directory { path: scratch.clone() })?;
        std::fs::create_dir(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
        let foretell = match (&arguments.foretell, arguments.kernel_only) {
            (_, true) => None,
            (Some(path), false) => Some(path.clone()),
            (None, false) => Some(beside_this_program("foretell")?),
        };
        let launcher = Launcher::new(foretell, arguments.foretell_arguments.clone(), scratch)?;
        Ok(Self {
            janitor,
            launcher,
            kernel_only: arguments.kernel_only,
            headroom_bytes: arguments.headroom_mib * MIB,
            shrink: arguments.shrink,
            rounds: arguments.rounds as u64,
            kills: arguments.kills,
            seed: arguments.seed,
            suite: arguments.suite.clone(),
            directory: arguments.directory.clone(),
        })
    }

    /// Starts a slow device large enough for `data_bytes` of files.
    pub(super) fn slow_device(&self, name: &str, timing: Timing, data_bytes: u64) -> Result<Place> {
        // Inode tables and bitmaps take less than a tenth.
        let size_bytes = (data_bytes + data_bytes / 8 + 32 * MIB).next_multiple_of(MIB);
        let mount_point = self.launcher.scratch().join(name);
        let options =
            Options::new(format!("bench-{}-{name}", std::process::id()), mount_point, size_bytes, timing);
        let disk = up(&options, &Helper::current_exe(["slowdisk-helper"])?)?;
        let device = BlockDevice::of(disk.mount_point())?;
        Ok(Place { directory: disk.mount_point().to_owned(), device, disk: Some(disk) })
    }

    /// A directory on the machine's own disk.
    pub(super) fn own_disk(&self) -> Result<Place> {
        let parent = match &self.directory {
            Some(directory) => directory.clone(),
            None => beside_this_program("")?,
        };
        let directory = parent.join(format!("foretell-bench-{}", std::process::id()));
        self.janitor.remember_once(Undo::Directory { path: directory.clone() })?;
        // One benchmark may have several places there.
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let directory = directory.canonicalize()?;
        let device = BlockDevice::of(&directory)?;
        Ok(Place { directory, device, disk: None })
    }
}

fn beside_this_program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the running program")?;
    Ok(program.parent().unwrap_or(Path::new("/")).join(name))
}

/// Where the files of a benchmark are.
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) device: BlockDevice,
    disk: Option<Slowdisk>,
}

impl Place {
    /// Blocks read from the device so far: a slow device counts its own, the machine's disk has all that
    /// runs on it counted.
    pub(crate) fn read_blocks(&self) -> Result<f64> {
        let bytes = match &self.disk {
            Some(disk) => disk.counters()?.read_bytes,
            None => self.device.read_bytes()?,
        };
        Ok(bytes as f64 / BLOCK_BYTES as f64)
    }

    /// Has the kernel forget all names, inodes and pages of a slow device, and nothing else: it is mounted anew.
    pub(super) fn forget(&self) -> Result<()> {
        let path = self.device.path();
        let what = || format!("cannot mount {} anew", path.display());
        // The loop device is gone when nobody has it open.
        let held = File::open(&path).with_context(what)?;
        unmount(&self.directory, UnmountFlags::NOFOLLOW).with_context(what)?;
        mount(&path, &self.directory, "ext4", MountFlags::NOATIME, None).with_context(what)?;
        drop(held);
        Ok(())
    }

    /// Runs a job with none of these files cached and this readahead, KiB; measures what the device had to read besides.
    pub(crate) fn run_cold(
        &self,
        bench: &Bench,
        paths: &[PathBuf],
        read_ahead_kb: u32,
        job: Job,
    ) -> Result<Measured> {
        let (finished, device_blocks) = self.finish_cold(bench, paths, read_ahead_kb, job)?;
        let mut measured = vec![("device_blocks", device_blocks)];
        measured.extend(common_metrics(&finished));
        Ok(measured)
    }

    /// The same; gives all of the run, and the blocks that the device had to read.
    pub(crate) fn finish_cold(
        &self,
        bench: &Bench,
        paths: &[PathBuf],
        read_ahead_kb: u32,
        job: Job,
    ) -> Result<(Finished, f64)> {
        for path in paths {
            cold::evict(path)?;
        }
        self.device.set_read_ahead_kb(&bench.janitor, read_ahead_kb)?;
        let before = self.read_blocks()?;
        let finished = bench.launcher.run(&bench.janitor, job)?;
        Ok((finished, self.read_blocks()? - before))
    }
}

/// The metrics that every run of a program has.
pub(crate) fn common_metrics(finished: &Finished) -> Measured {
    let mut measured = vec![("wall_s", finished.wall_s)];
    if let Some(report) = &finished.report {
        measured.push(("program_s", report.elapsed_s));
    }
    if let Some(peak_bytes) = finished.peak_bytes {
        measured.push(("peak_mib", peak_bytes as f64 / MIB as f64));
    }
    // `foretell learn` tells what it did of a steered night only.
    if let Some(stats) = finished.stats.as_ref().map(|stats| stats.get("steering").unwrap_or(stats)) {
        for (metric, key) in [
            ("demand_fetches", "demand_fetches"),
            ("prefetches", "prefetches"),
            ("prefetches_late", "prefetches_late"),
            ("prefetches_wasted", "prefetches_wasted"),
            ("evictions", "evictions"),
            ("evictions_refused", "evictions_refused"),
            ("foreign_evictions", "foreign_evictions"),
            ("lost_events", "lost_events"),
            ("daemon_cpu_s", "daemon_cpu_s"),
        ] {
            if let Some(value) = stats.get(key).and_then(serde_json::Value::as_f64) {
                measured.push((metric, value));
            }
        }
    }
    measured
}

/// `PATH=POLICY` for `--rule`.
pub(crate) fn rule(path: &Path, policy: &str) -> OsString {
    let mut rule = path.as_os_str().to_owned();
    rule.push("=");
    rule.push(policy);
    rule
}

/// `--budget` in KiB.
pub(crate) fn budget(bytes: u64) -> OsString {
    format!("{}K", bytes / 1024).into()
}
