//! What was done, as the command prints it and writes it as JSON.

use std::path::{Path, PathBuf};

use foretell_policy::Counters;
use serde::{Deserialize, Serialize, Serializer};

use crate::left_out::LeftOut;

/// Processes listed one by one in a report; the rest is summed up under `others`.
pub const REPORTED_PROCESSES: usize = 4096;
/// Files listed one by one in a report; the rest is summed up under `others`.
pub const REPORTED_FILES: usize = 10_000;

/// What a plane did since its first session began.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Time since the first session began.
    pub elapsed_s: f64,
    /// Time that the observed processes waited for pages to be read, summed over their threads.
    pub wait_s: f64,
    /// Processor time of our own process (user and system) in that time.
    pub daemon_cpu_s: f64,
    /// The budget.
    pub budget_bytes: u64,
    /// The size of a block.
    pub block_bytes: u32,
    /// The counts in all.
    #[serde(flatten)]
    pub counts: Counters,
    /// Observations that were lost because the ring was full or the kernel passed the observer over (Linux 7.0 and later); residency was corrected after each.
    pub lost_events: u64,
    /// Bytes that the block layer read for the observed processes and for our prefetches.
    pub device_read_bytes: u64,
    /// Those of them that lie between files, read so that the arm of a disk need not move, and given to nobody.
    #[serde(default)]
    pub passed_bytes: u64,
    /// The fetches that optimal replacement would have made for the recorded references with the same
    /// budget; `None` when the references were not all kept.
    pub belady_fetches: Option<u64>,
    /// Why `belady_fetches` is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub belady_missing: Option<String>,
    /// The same by process, in order of their appearance.
    pub processes: Vec<ProcessReport>,
    /// The same by file, in order of their appearance.
    pub files: Vec<FileReport>,
    /// Files that rules match and that cannot be steered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// One process of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Its number; `None` for the sum of those not listed.
    pub pid: Option<u32>,
    /// Its name (`/proc/PID/comm`), or `others`.
    pub name: String,
    /// Name of its manager.
    pub manager: String,
    /// Time that it waited for pages to be read.
    pub wait_s: f64,
    /// Bytes that the block layer read for it.
    pub device_read_bytes: u64,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counters,
}

/// One file of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileReport {
    /// Its path when it was last looked at; `others` for the sum of those not listed.
    #[serde(serialize_with = "readable_path")]
    pub path: PathBuf,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counters,
}

/// A path as text, which is all that JSON carries: bytes that are no UTF-8 are replaced.
///
/// # Errors
/// Those of the serializer.
pub fn readable_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
