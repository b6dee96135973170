//! A workload at a device, as it is asked for.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use foretell_analytic::workload::Workload;
use foretell_learn::memory::usable_bytes;

use crate::workload;

#[derive(Debug, clap::Args)]
pub(super) struct WorkloadArgs {
    /// A built-in device, or the path of a device file
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) device: String,
    /// sequential, strided, random or hinted, then KEY=VALUE: bytes (of each stream), request, streams,
    /// layout (unknown, adjacent), think_us, cpus, driver_us, stride, span, horizon, fs (linux, ffs, direct),
    /// read_ahead, split, memory
    #[arg(long, value_name = "PATTERN,KEY=VALUE,..")]
    pub(super) workload: String,
    /// Write JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    /// Draw it: the causes, and the time over block size, readahead, streams or horizon
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub(super) plot: Option<PathBuf>,
    /// Write a page with the pictures and the figures
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

pub(super) fn parse_workload(text: &str) -> Result<Workload> {
    workload::parse(text, usable_bytes().unwrap_or(u64::MAX)).map_err(|e| anyhow!("--workload: {e}"))
}
