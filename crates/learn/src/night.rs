//! What one run of a job was like.

use serde::{Deserialize, Serialize};

/// Nights that are kept of a job; the oldest is forgotten for a new one.
pub const NIGHTS: usize = 64;

/// What foretell did during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Nothing: the job ran by itself.
    Alone,
    /// It watched, and read ahead what it guessed.
    Watched,
    /// It fetched and evicted by what it knew.
    Steered,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            How::Alone => "alone",
            How::Watched => "watched",
            How::Steered => "steered",
        })
    }
}

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Night {
    /// When it began, seconds since 1970.
    pub began_s: u64,
    /// What was done.
    pub how: How,
    /// How long it took, seconds: from its first instruction to its end; of a steered night with what we took to begin
    /// and to end.
    pub elapsed_s: f64,
    /// What its threads slept for I/O in all, seconds; not known of a job that ran alone.
    pub wait_s: Option<f64>,
    /// Of that for what they read of files, seconds; the rest was for names, inodes and writes. Only known of watched nights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_wait_s: Option<f64>,
    /// What it would have waited besides, had nothing been guessed and read ahead, seconds; an estimate, of watched nights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_s: Option<f64>,
    /// Of the waits those for what it reads in sequence from a device that gives no more however much is read ahead, seconds; only
    /// known of watched nights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_full_rate_s: Option<f64>,
    /// Threads of it that waited at a time, in the mean; only known of watched nights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads_waiting: Option<f64>,
    /// Seconds of processor time that its processes took, shared by as many processors as there are for it: in less time it
    /// cannot be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_s: Option<f64>,
    /// Bytes read from devices for it.
    pub read_bytes: u64,
    /// Files that it read or wrote; not known of a job that ran alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// The largest resident memory of one of its processes, bytes, with what it had mapped of files.
    pub resident_bytes: u64,
    /// Memory that its processes had of their own at one time, bytes; not known of a job that ran alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The memory that could be used, bytes, where the job needed all of it and was left alone in the middle of the night.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_bytes: Option<u64>,
    /// Nights after that one on which no process of ours was beside it, so that no more is known of them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_alone: u32,
    /// How it ended: its exit code, or 128 + the signal.
    pub exit_code: u8,
    /// Memory that it was steered with, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_bytes: Option<u64>,
    /// Blocks fetched ahead for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetched: Option<u64>,
    /// References that were predicted, of all that came while a list had something to say; from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
}

/// As serde wants it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

impl Night {
    /// Whether its threads have computed for longer than it took: they run beside each other.
    pub(crate) fn computes_beside(&self) -> bool {
        self.busy_s.is_some_and(|busy_s| busy_s * processors() as f64 > self.elapsed_s)
    }
}

/// Processors that there are for a job.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
