//! `foretell trace`: look into traces, and store them in one format.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use foretell_trace::TraceReader;

use crate::sweep::sources::{self, Reading, Source, said};
use crate::terminal::say;

/// Look into traces, and store them in one format. Reads Parquet (our own), recordings of jobs, LIRS, libCacheSim (oracleGeneral
/// and CSV), MSR Cambridge, SPC, DiskSim, blkparse, fio and strace, compressed or not.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Summarise a trace
    Info {
        #[command(flatten)]
        from: From,
        /// Write JSON instead of lines
        #[arg(long)]
        json: bool,
    },
    /// Store a trace as Parquet
    Convert {
        #[command(flatten)]
        from: From,
        /// The file to write
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// List the first references of a trace
    Head {
        #[command(flatten)]
        from: From,
        /// How many
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        count: usize,
        /// Write JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

/// The trace to read.
#[derive(Debug, clap::Args)]
struct From {
    /// The trace
    #[arg(required_unless_present = "workload")]
    file: Option<PathBuf>,
    /// A workload by name instead of a file
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    workload: Option<String>,
    /// Format of the file [default: told from the file]
    #[arg(long)]
    format: Option<String>,
    /// Bytes of a block
    #[arg(long, value_name = "BYTES", default_value = "8192")]
    block_bytes: NonZeroU32,
    /// Seed of the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl From {
    fn open(&self) -> Result<Box<dyn TraceReader>> {
        let format = sources::format(self.format.as_deref())?;
        let reading =
            Reading { block_bytes: self.block_bytes, format, seed: self.seed, count_distinct: false };
        let (workloads, files): (Vec<_>, Vec<_>) =
            (self.workload.iter().cloned().collect(), self.file.iter().cloned().collect());
        let sources = Source::all(&workloads, &files)?;
        sources.first().ok_or_else(|| anyhow!("give a trace or --workload NAME"))?.open(reading)
    }
}

/// Does what the arguments say.
///
/// # Errors
/// The trace cannot be read, or the new one not be written.
pub fn execute(args: &Args) -> Result<u8> {
    match &args.action {
        Action::Info { from, json } => {
            let info = foretell_trace::info(&mut from.open()?, from.block_bytes).map_err(said)?;
            say(&if *json { serde_json::to_string_pretty(&info)? + "\n" } else { info.to_string() });
        }
        Action::Convert { from, to } => {
            let converted = foretell_trace::convert(&mut from.open()?, to).map_err(said)?;
            let (references, bytes) = (converted.references, converted.file_bytes);
            say(&format!("{}: {references} references in {bytes} bytes\n", to.display()));
        }
        Action::Head { from, count, json } => {
            let head = foretell_trace::head(&mut from.open()?, *count).map_err(said)?;
            say(&if *json { serde_json::to_string_pretty(&head)? + "\n" } else { head.to_string() });
        }
    }
    Ok(0)
}
