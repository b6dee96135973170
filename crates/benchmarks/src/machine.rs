//! The machine: what it is, the block device of a file, and its readahead.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::janitor::{Janitor, Undo};

/// Processor, memory, kernel: what a result depends on.
pub(crate) fn describe() -> Value {
    let first = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).map(str::to_owned);
        line.and_then(|line| line.split_once(':').map(|(_, value)| value.trim().to_owned()))
    };
    json!({
        "processor": first("/proc/cpuinfo", "model name"),
        "processors": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "memory": first("/proc/meminfo", "MemTotal"),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}

/// How many programs ran or waited for a disk, in the mean of the last minute: those that are measured, and others.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(f64::NAN)
}

/// How often all of the kernel's page cache was dropped (`drop_caches`), by whomever.
pub(crate) fn cache_drops() -> u64 {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("drop_pagecache "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The commit of the working directory, with a mark if files differ from it.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        Some(commit) => {
            let differs =
                git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
            if differs { commit + " with changes" } else { commit }
        }
        None => "unknown".to_owned(),
    }
}

/// A block device, by its directory in sysfs.
#[derive(Debug, Clone)]
pub(crate) struct BlockDevice {
    directory: PathBuf,
}

impl BlockDevice {
    /// The device that holds the file system of `path`.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let dev = fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?.dev();
        let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let directory = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        match directory.canonicalize() {
            Ok(directory) => Ok(Self { directory }),
            Err(_) => bail!(
                "{} is not on a block device (device {major}:{minor}); choose another with --directory",
                path.display()
            ),
        }
    }

    /// The special file that stands for it.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/dev").join(self.directory.file_name().unwrap_or_default())
    }

    /// Bytes read since the machine was started, by whomever.
    pub(crate) fn read_bytes(&self) -> Result<u64> {
        let path = self.directory.join("stat");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        // Third field: sectors of 512 bytes (Documentation/block/stat.rst).
        let sectors = text.split_ascii_whitespace().nth(2).and_then(|field| field.parse::<u64>().ok());
        sectors.map(|sectors| sectors * 512).with_context(|| format!("{} is not understood", path.display()))
    }

    /// `MAJOR:MINOR` of the whole disk, which limits are set for.
    pub(crate) fn numbers(&self) -> Result<String> {
        let disk = if self.directory.join("partition").exists() { "../dev" } else { "dev" };
        let path = self.directory.join(disk);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.trim().to_owned())
    }

    /// Sets the kernel's readahead, in KiB; it is restored when the benchmark ends.
    pub(crate) fn set_read_ahead_kb(&self, janitor: &Janitor, read_ahead_kb: u32) -> Result<()> {
        // A partition has its queue in the directory of the whole disk.
        let own = self.directory.join("queue/read_ahead_kb");
        let path = if own.exists() { own } else { self.directory.join("../queue/read_ahead_kb") };
        let before = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        janitor.remember_once(Undo::Write { path: path.clone(), value: before.trim().to_owned() })?;
        fs::write(&path, read_ahead_kb.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
        let now = fs::read_to_string(&path)?;
        ensure!(now.trim() == read_ahead_kb.to_string(), "{} did not change", path.display());
        Ok(())
    }
}
