//! What a run did, as `--stats` writes it and as runs tell each other.

use anyhow::{Context, Result};
use foretell_output::Output;
pub use foretell_pagecache::Counters;
use foretell_pagecache::{FileReport, LeftOut, ProcessReport, Report};
use serde::{Deserialize, Serialize};

/// How a program ended and what is known about it.
pub(crate) struct Outcome {
    /// The program's exit code.
    pub(crate) code: u8,
    /// What was done.
    pub(crate) stats: Stats,
}

/// A run. Counts are in blocks.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Was the program under control, from beginning to end?
    pub controlled: bool,
    /// Was it only watched, because neither a rule nor a list says anything about its files?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watched: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncontrolled_because: Option<String>,
    /// Horizon and batch that the model has chosen, and by which device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Time from the program's start to its end.
    pub elapsed_s: f64,
    /// Time that the processes waited for reads, summed over their threads.
    pub wait_s: f64,
    /// Processor time of foretell itself.
    pub daemon_cpu_s: f64,
    /// Page cache that the files under control may occupy.
    pub budget_bytes: u64,
    /// Size of a block.
    pub block_bytes: u32,
    /// The counts in all.
    #[serde(flatten)]
    pub counts: Counters,
    /// Observations that were lost.
    pub lost_events: u64,
    /// Bytes that devices read for the processes and for our prefetches.
    pub device_read_bytes: u64,
    /// Those of them that lie between files, read so that the arm of a disk need not move.
    #[serde(default)]
    pub passed_bytes: u64,
    /// Fetches that optimal replacement would have made with the same budget.
    pub belady_fetches: Option<u64>,
    /// Why `belady_fetches` is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belady_missing: Option<String>,
    /// Hints that could not be followed (bad lines, absent files, past the end of a file).
    #[serde(default)]
    pub hints_skipped: u64,
    /// The same by process.
    pub processes: Vec<ProcessReport>,
    /// The same by file.
    pub files: Vec<FileReport>,
    /// Files that rules match and that cannot be steered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

impl From<Report> for Stats {
    fn from(report: Report) -> Stats {
        Stats {
            controlled: true,
            watched: false,
            uncontrolled_because: None,
            chosen: None,
            elapsed_s: report.elapsed_s,
            wait_s: report.wait_s,
            daemon_cpu_s: report.daemon_cpu_s,
            budget_bytes: report.budget_bytes,
            block_bytes: report.block_bytes,
            counts: report.counts,
            lost_events: report.lost_events,
            device_read_bytes: report.device_read_bytes,
            passed_bytes: report.passed_bytes,
            belady_fetches: report.belady_fetches,
            belady_missing: report.belady_missing,
            hints_skipped: 0,
            processes: report.processes,
            files: report.files,
            left_out: report.left_out,
        }
    }
}

impl Stats {
    /// A run that was not controlled, or not to its end.
    #[must_use]
    pub fn uncontrolled(because: &str) -> Stats {
        Stats { uncontrolled_because: Some(because.to_owned()), ..Stats::default() }
    }

    /// Writes the statistics as JSON.
    pub fn write(&self, output: Output) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        output.write(text.as_bytes()).context("the statistics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(manager: &str, references: u64) -> ProcessReport {
        let counts = Counters { references, hits: 1, ..Counters::default() };
        ProcessReport {
            pid: Some(1),
            name: "x".into(),
            manager: manager.into(),
            wait_s: 0.5,
            device_read_bytes: 10,
            counts,
        }
    }

    #[test]
    fn statistics_are_written_whole_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stats.json");
        let stats = Stats { processes: vec![process("a", 5)], ..Stats::uncontrolled("why") };
        stats.write(Output::open(&path).unwrap()).unwrap();
        let back: Stats = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(back, stats);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
