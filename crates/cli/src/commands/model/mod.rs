//! `foretell model`: the closed-form model of reads, and how it compares with what was published.
//!
//! One file an action.

mod advise;
mod against_sim;
mod bounds;
mod calibrate;
mod calibrate_object;
mod pictures;
mod predict;
mod reproduce;
mod workload;

use anyhow::Result;

use self::workload::WorkloadArgs;

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
