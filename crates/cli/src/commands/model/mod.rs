//! `foretell model`: the closed-form model of reads, and how it compares with what was published.
//!
//! One file an action.

mod advise;
mod against_sim;
mod calibrate;
mod calibrate_object;
mod pictures;
mod predict;
mod reproduce;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use foretell_analytic::workload::Workload;
use foretell_device::{DeviceParameters, catalogue};

use self::pictures::Pictures;
use crate::workload;
use foretell_learn::memory::usable_bytes;

/// The largest device file: a disk of a thousand zones is far below it.
const MAX_DEVICE_FILE_BYTES: u64 = 4 << 20;

/// Say how long reads take and why, without a trace: a closed-form model of file system and device.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    foretell model predict --device nvme --workload sequential,bytes=1G,request=64K\n  \
    foretell model advise --device nvme --workload random,bytes=64M,request=4K\n  \
    foretell model calibrate --help"
)]
pub struct Args {
    /// Compute a paper's tables and claims and compare: shriver99
    #[arg(long, value_name = "PAPER", group = "comparison")]
    reproduce: Option<String>,
    /// Compare the model with the simulator, point by point
    #[arg(long, group = "comparison")]
    against_sim: bool,
    /// Write JSON instead of a table
    #[arg(long, requires = "comparison")]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Say how long a workload takes at a device, and what prefetching has to do with it
    Predict(WorkloadArgs),
    /// Say what to set for a workload at a device, why, and what it gains
    Advise(advise::Args),
    /// Time reads of a file, a block device or an object, and write the device file of what they show
    Calibrate(calibrate::Args),
}

#[derive(Debug, clap::Args)]
struct WorkloadArgs {
    /// A built-in device, or the path of a device file
    #[arg(long, value_name = "NAME|FILE")]
    device: String,
    /// sequential, strided, random or hinted, then KEY=VALUE: bytes (of each stream), request, streams,
    /// layout (unknown, adjacent), think_us, cpus, driver_us, stride, span, horizon, fs (linux, ffs, direct),
    /// read_ahead, split, memory
    #[arg(long, value_name = "PATTERN,KEY=VALUE,..")]
    workload: String,
    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Draw it: the causes, and the time over block size, readahead, streams or horizon
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    plot: Option<PathBuf>,
    /// Write a page with the pictures and the figures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Does what the arguments say.
pub fn execute(args: &Args) -> Result<u8> {
    match &args.action {
        Some(Action::Predict(args)) => predict::execute(args)?,
        Some(Action::Advise(args)) => advise::execute(args)?,
        Some(Action::Calibrate(args)) => calibrate::execute(args)?,
        None => {}
    }
    if args.against_sim {
        against_sim::execute(args.json)?;
    }
    if let Some(paper) = &args.reproduce {
        reproduce::execute(paper, args.json)?;
    }
    Ok(0)
}

/// A built-in device by its name, else a file.
pub(crate) fn find_device(name: &str) -> Result<DeviceParameters> {
    let unknown = match catalogue::find(name) {
        Ok(device) => return Ok(device),
        Err(unknown) => unknown,
    };
    let is_other = |m: fs::Metadata| !m.is_file() || m.len() > MAX_DEVICE_FILE_BYTES;
    if fs::metadata(name).is_ok_and(is_other) {
        return Err(anyhow!("--device {name}: no device file; give a TOML file or a built-in device"));
    }
    match fs::read_to_string(name) {
        Ok(text) => DeviceParameters::parse(&text).with_context(|| format!("--device {name}")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(anyhow!("--device: {unknown}")),
        Err(e) => Err(anyhow!("--device {name}: {e}; give a device file or a built-in device")),
    }
}

fn parse_workload(text: &str) -> Result<Workload> {
    workload::parse(text, usable_bytes().unwrap_or(u64::MAX)).map_err(|e| anyhow!("--workload: {e}"))
}
