//! `foretell replay`: what a policy was told, told again.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail, ensure};
use foretell_output::Output;
use foretell_replay::{
    Criterion, End, LogError, Outcome, Reader, SHRINK_RUNS, recorded, replay_with, shrink_log,
};

use crate::replayed;
use crate::report::thousands;
use crate::terminal::{is_said, say, warn};

/// Exit code when the replay is not what was logged.
const DIFFERENT: u8 = 1;
/// Exit code when the log is not whole.
const CUT_SHORT: u8 = 2;

/// Run again what '--log-inputs' logged, without a kernel: are all actions the same?
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit code is 0 when all actions are the same, 1 when they differ or the policy panics, and 2 when the log \
        cannot be read to its end.\n\n\
        Examples:\n  \
        foretell replay job.log\n  \
        foretell replay job.log --until 1000 --print\n  \
        foretell replay job.log --shrink small.log --while 'prefetches_wasted>100'"
)]
pub struct Args {
    /// The log: of 'foretell run --log-inputs' or 'foretell sim --log-inputs'
    file: PathBuf,
    /// Only the first inputs
    #[arg(long, value_name = "N")]
    until: Option<u64>,
    /// Show every input and every action, a line each
    #[arg(long, conflicts_with = "json")]
    print: bool,
    /// Write JSON instead of lines, with all counters
    #[arg(long)]
    json: bool,
    /// Write the log of as few inputs as still do what --while says
    #[arg(long, value_name = "FILE", requires = "keeping", conflicts_with_all = ["until", "print", "json"])]
    shrink: Option<PathBuf>,
    /// What a smaller log must still do: 'panics', or COUNTER>N as in 'prefetches_wasted>100'
    #[arg(long = "while", value_name = "CONDITION", requires = "shrink")]
    keeping: Option<Criterion>,
}

/// Does what the arguments say.
///
/// # Errors
/// The log cannot be read, or the smaller one not be written.
pub fn execute(args: &Args) -> Result<u8> {
    // A panic of the policy is a finding, told in a line of the report.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = match (&args.shrink, args.keeping) {
        (Some(to), Some(criterion)) => shrunk(args, to, criterion).map(|()| 0),
        _ => replayed(args),
    };
    std::panic::set_hook(hook);
    done
}

fn open(path: &Path) -> Result<Reader<File>> {
    let said = |e: LogError| anyhow!("{}: {e}", path.display());
    let file = File::open(path).map_err(|e| said(LogError::Io(e)))?;
    Reader::new(file).map_err(|e| match e {
        LogError::NotALog => anyhow!(
            "{}: {e}; give one that 'foretell run --log-inputs' or 'foretell sim --log-inputs' wrote",
            path.display()
        ),
        e => said(e),
    })
}

fn replayed(args: &Args) -> Result<u8> {
    let mut reader = open(&args.file)?;
    let mut out = BufWriter::new(io::stdout());
    // Whoever reads us may have gone (`| head`).
    let mut is_read = args.print;
    let outcome = replay_with(&mut reader, args.until, |event| {
        is_read = is_read && is_said(out.write_all(replayed::line(&event).as_bytes()));
    });
    is_said(out.flush());
    let outcome: Outcome = outcome.map_err(|e| anyhow!("{}: {e}", args.file.display()))?;
    if args.json {
        say(&(serde_json::to_string_pretty(&replayed::json(reader.header(), &outcome))? + "\n"));
    } else {
        say(&format!("{}: {}", args.file.display(), replayed::report(reader.header(), &outcome)));
    }
    if outcome.end == End::CutShort {
        warn(&format!("{}: {}", args.file.display(), LogError::CutShort { inputs: outcome.inputs }));
        return Ok(CUT_SHORT);
    }
    Ok(if outcome.checksum_matches { 0 } else { DIFFERENT })
}

fn shrunk(args: &Args, to: &Path, criterion: Criterion) -> Result<()> {
    let mut reader = open(&args.file)?;
    let output = Output::open(to).map_err(|e| anyhow!("--shrink {e}"))?;
    let said = |e: LogError| anyhow!("{}: {e}", args.file.display());
    let Some(shrunk) = shrink_log(&mut reader, criterion, SHRINK_RUNS).map_err(said)? else {
        bail!(
            "{}: '{criterion}' is not so for all of it; --json shows what the counters come to",
            args.file.display()
        );
    };
    ensure!(!shrunk.inputs.is_empty(), "{}: '{criterion}' is so without any input", args.file.display());
    let writing = output.begin().map_err(|e| anyhow!("--shrink {e}"))?;
    let (writing, written) = recorded(writing, &shrunk.config, env!("CARGO_PKG_VERSION"), &shrunk.inputs)
        .map_err(|e| anyhow!("--shrink {}: {e}", to.display()))?;
    writing.finish().map_err(|e| anyhow!("--shrink {e}"))?;
    let rest = if shrunk.is_minimal { "none of which can be left out" } else { "as far as the runs went" };
    say(&format!(
        "{}: {} of {} inputs, {rest}; {} runs\n",
        to.display(),
        thousands(written.inputs),
        thousands(shrunk.of_inputs as u64),
        thousands(shrunk.runs.into())
    ));
    Ok(())
}
