//! What a comparison is asked for.

use std::ffi::OsString;
use std::path::PathBuf;

use foretell_learn::Store;
use serde::Serialize;

/// What the job is called in the private state.
pub(super) const JOB: &str = "job";

/// Who looks after the page cache in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    /// The kernel as it is set.
    Kernel,
    /// The kernel with this `read_ahead_kb`.
    ReadAhead(u32),
    /// `foretell learn`.
    Foretell,
}

impl std::fmt::Display for Side {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Side::Kernel => f.pad("kernel"),
            Side::ReadAhead(kb) => f.pad(&format!("read_ahead_kb {kb}")),
            Side::Foretell => f.pad("foretell"),
        }
    }
}

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The program, where it was found.
    pub(crate) program: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// As it was typed.
    pub(crate) command: String,
    /// Compared runs of each side.
    pub(crate) rounds: usize,
    /// Memory of the job and of whatever steers its cache, together.
    pub(crate) memory_bytes: Option<u64>,
    /// Settings of the kernel to be compared as well.
    pub(crate) read_ahead_kb: Vec<u32>,
    /// Leave in memory what is there.
    pub(crate) warm: bool,
    /// A job that is known, and where.
    pub(crate) learnt: Option<(Store, String)>,
    /// Do this in foretell's runs, whatever would pay.
    pub(crate) how: Option<&'static str>,
    /// Memory that foretell may steer with, as it was typed.
    pub(crate) budget: Option<String>,
}
