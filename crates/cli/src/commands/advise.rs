//! `foretell advise`: what would help a job that was learnt, and by how much.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use foretell_learn::{Store, is_name, memory};
use foretell_recording::Recording;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::advising::{Known, advise, simulations, words};
use crate::devices::find_device;
use crate::size::Size;
use crate::terminal::{say, warn, with_causes};

/// Say what would help a job that was learnt, and by how much; of all of them without a name.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Times are predicted by a simulator that was made to fit the recorded night. 'foretell compare' measures.\n\n\
        Examples:\n  \
        foretell advise\n  \
        foretell advise nightly.sh-1f2e3d4c\n  \
        foretell advise ./recording --memory 2G --json"
)]
pub struct Args {
    /// A job that was learnt, or the file of a recording [default: all jobs]
    #[arg(value_name = "NAME|RECORDING")]
    job: Option<PathBuf>,

    /// Where what is learnt is kept [default: as foretell learn has it]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Advise for this much memory, as 64M, 1.5G or 50% [default: what is free]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,

    /// Reckon with this device: a device file or a built-in one [default: one that fits the recorded night]
    #[arg(long, value_name = "NAME|FILE")]
    device: Option<PathBuf>,

    /// Write JSON instead of words
    #[arg(long)]
    json: bool,
}

/// Advises.
///
/// # Errors
/// What was asked for is wrong, or there is nothing to go by.
pub fn execute(args: &Args) -> Result<u8> {
    let device = args.device.as_deref().map(|name| find_device(&name.to_string_lossy())).transpose()?;
    let free_bytes = match &args.memory {
        Some(text) => {
            let size = Size::parse(text).map_err(|e| anyhow::anyhow!("--memory: {e}"))?;
            Some(size.bytes(memory::usable_bytes().unwrap_or(u64::MAX)))
        }
        None => memory::free_bytes(),
    };
    let one = |known: &Known, bar: &ProgressBar| advise(known, device.as_ref(), free_bytes, &|| bar.inc(1));
    if let Some(job) = &args.job {
        let known = known(args, job)?;
        let bar = progress(simulations());
        let advice = one(&known, &bar)?;
        bar.finish_and_clear();
        say(&if args.json { serde_json::to_string_pretty(&advice)? + "\n" } else { words::report(&advice) });
        return Ok(0);
    }
    let store = store(args)?;
    let names = store.names()?;
    let bar = progress(names.len() as u64 * simulations());
    let mut all = Vec::new();
    for name in &names {
        let advice = learnt(&store, name).and_then(|known| one(&known, &bar));
        match advice {
            Ok(advice) => all.push(advice),
            Err(error) => bar.suspend(|| warn(&with_causes(&error))),
        }
    }
    bar.finish_and_clear();
    if args.json {
        say(&(serde_json::to_string_pretty(&all)? + "\n"));
    } else if names.is_empty() {
        say("No job is known yet: 'foretell learn -- JOB' watches one, or name a recording.\n");
    } else {
        say(&words::list(&all));
    }
    Ok(0)
}

/// A file if it is written like one or there is none of the name among the jobs.
fn known(args: &Args, job: &Path) -> Result<Known> {
    let name = job.to_string_lossy().into_owned();
    if is_name(&name)
        && let Ok(store) = store(args)
    {
        match learnt(&store, &name) {
            Err(error) if !job.is_file() => return Err(error),
            Err(_) => {}
            known => return known,
        }
    }
    if !job.exists() {
        bail!(
            "{name}: there is neither a job nor a file of this name; 'foretell learn --list' lists the jobs"
        );
    }
    Ok(Known { recording: Recording::read(job)?, name, nights: Vec::new() })
}

fn store(args: &Args) -> Result<Store> {
    let state = args.state.clone().or_else(|| Store::usual_place(|name| std::env::var_os(name)));
    let state = state
        .context("neither HOME nor XDG_STATE_HOME is an absolute path; name the directory with --state")?;
    Ok(Store::new(&state))
}

fn learnt(store: &Store, name: &str) -> Result<Known> {
    let job = store.look(name)?;
    if !job.recording().is_file() {
        let asked = format!("'foretell learn --name {name} --as watch -- JOB'");
        bail!("nothing is recorded of job '{name}', which has not been watched yet; {asked} does that");
    }
    Ok(Known { name: name.to_owned(), recording: Recording::read(job.recording())?, nights: job.nights()? })
}

/// A bar on a terminal, nothing in a pipe.
fn progress(simulations: u64) -> ProgressBar {
    let visible = std::io::stderr().is_terminal();
    let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(simulations), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} simulations") {
        bar.set_style(style);
    }
    bar
}
