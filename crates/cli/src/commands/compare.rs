//! `foretell compare`: the kernel and foretell in turn, on a job of one's own.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use foretell_learn::{STEERING_BYTES, Store, memory};
use foretell_trace::{PatternSurvey, ReadOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::comparing::{self, Agreement, Compared, Interrupted, Signals, Wanted, page, typed, words};
use crate::plot::{self, Picture};
use crate::program;
use crate::size::{Size, human_bytes};
use crate::terminal::command_line;
use crate::terminal::{say, warn, with_causes};

/// Rounds that are possible: what comes after is of no use to anybody.
const MOST_ROUNDS: usize = 1000;
/// Windows of readahead that the kernel may be asked for, KiB: beyond, it reads whole files.
const MOST_READ_AHEAD_KB: u32 = 1 << 20;
/// Files whose access pattern is drawn.
const DRAWN_FILES: usize = 4;
/// Exit code when the job writes or ends otherwise under foretell.
const DIFFERS: u8 = 1;

/// Flags of `foretell compare`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "foretell compare [OPTIONS] -- JOB [ARGS]...",
    after_help = "The job runs many times: once to be learnt, then N times on each side, in an order that alternates. Its standard \
        input is empty, its output is not shown but compared. What is learnt is forgotten at the end. The exit code is \
        0, or 1 when the job's output or exit code is another one under foretell, or 128 + N after signal N.\n\n\
        Examples:\n  \
        foretell compare --memory 2G -- ./nightly.sh\n  \
        foretell compare --memory 512M --read-ahead 1024,4096 --rounds 5 --html report.html -- ./nightly.sh"
)]
pub struct Args {
    /// Memory for the job and whatever steers its cache together, as 64M, 1.5G or 50% [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,

    /// How often each side runs
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// Compare the kernel with these settings of read_ahead_kb as well, as 1024,4096; they are set back at the end
    #[arg(long, value_name = "KB", value_delimiter = ',')]
    read_ahead: Vec<u32>,

    /// Use what is known of this job instead of a night of learning; it is not changed
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// With --name: where what is learnt is kept [default: as foretell learn has it]
    #[arg(long, value_name = "DIR", requires = "name")]
    state: Option<PathBuf>,

    /// Steer or watch in foretell's runs, whatever pays [default: what pays]
    #[arg(long = "as", value_name = "watch|steer")]
    how: Option<How>,

    /// Let foretell steer with this much page cache at most [default: what is free]
    #[arg(long, value_name = "SIZE")]
    budget: Option<String>,

    /// Leave in memory what is there, instead of dropping caches before each run
    #[arg(long)]
    warm: bool,

    /// Write everything as JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Write a page with pictures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// The job and its arguments
    #[arg(value_name = "JOB", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    job: Vec<OsString>,
}

/// What foretell does, as it is asked for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum How {
    Watch,
    Steer,
}

/// Compares and reports.
///
/// # Errors
/// What was asked for is wrong or not possible here.
pub fn execute(args: &Args) -> Result<u8> {
    let wanted = wanted(args)?;
    let html = args.html.as_deref().map(Picture::html).transpose()?;
    let signals = Signals::note()?;
    let nights = usize::from(wanted.learnt.is_none());
    let bar = progress(nights + wanted.rounds * (2 + wanted.read_ahead_kb.len()));
    let begun = std::cell::Cell::new(0);
    let compared = comparing::compare(&wanted, &signals, |what| {
        bar.set_position(begun.replace(begun.get() + 1));
        bar.set_message(what);
    });
    bar.finish_and_clear();
    let compared = match compared {
        Ok(compared) => compared,
        Err(error) => {
            let Some(interrupted) = error.downcast_ref::<Interrupted>() else { return Err(error) };
            warn(&interrupted.to_string());
            return Ok(interrupted.code());
        }
    };
    let comparison = &compared.comparison;
    comparing::say_notes(comparison);
    say(&if args.json {
        serde_json::to_string_pretty(comparison)? + "\n"
    } else {
        words::report(comparison)
    });
    if let Some(html) = &html {
        let pattern = pattern(&compared)
            .map_err(|error| warn(&format!("the access pattern is not drawn: {}", with_causes(&error))))
            .ok();
        plot::write(html, &page::page(comparison, pattern.as_deref(), &command_line()))?;
    }
    let differs = [comparison.output, comparison.exit_codes].contains(&Agreement::Differs);
    Ok(if differs { DIFFERS } else { 0 })
}

fn wanted(args: &Args) -> Result<Wanted> {
    let Some((job, arguments)) = args.job.split_first() else {
        bail!("no job is given; name one after '--'");
    };
    if !(1..=MOST_ROUNDS).contains(&args.rounds) {
        bail!("--rounds {}: give 1 to {MOST_ROUNDS}", args.rounds);
    }
    for (at, kb) in args.read_ahead.iter().enumerate() {
        if *kb > MOST_READ_AHEAD_KB {
            bail!("--read-ahead {kb}: give KiB, 0 to {MOST_READ_AHEAD_KB}");
        }
        if args.read_ahead[..at].contains(kb) {
            bail!("--read-ahead {kb} is given twice");
        }
    }
    let memory = |flag: &str, text: &str| -> Result<u64> {
        let size = Size::parse(text).map_err(|e| anyhow!("{flag}: {e}"))?;
        Ok(size.bytes(memory::usable_bytes().unwrap_or(u64::MAX)))
    };
    if let Some(budget) = &args.budget {
        memory("--budget", budget)?;
    }
    let memory_bytes = args.memory.as_deref().map(|text| memory("--memory", text)).transpose()?;
    if let (Some(text), Some(0..STEERING_BYTES)) = (&args.memory, memory_bytes) {
        bail!("--memory {text}: foretell itself needs {} of that; give more", human_bytes(STEERING_BYTES));
    }
    let state = args.state.clone().or_else(|| Store::usual_place(|name| std::env::var_os(name)));
    let learnt = match (&args.name, state) {
        (None, _) => None,
        (Some(name), Some(state)) => {
            let store = Store::new(&state);
            store.look(name)?;
            Some((store, name.clone()))
        }
        (Some(_), None) => {
            bail!("neither HOME nor XDG_STATE_HOME is an absolute path; name the directory with --state")
        }
    };
    Ok(Wanted {
        program: program::find(job)?,
        arguments: arguments.to_vec(),
        command: typed(args.job.iter().map(OsString::as_os_str)),
        rounds: args.rounds,
        memory_bytes,
        read_ahead_kb: args.read_ahead.clone(),
        warm: args.warm,
        learnt,
        how: args.how.map(|how| match how {
            How::Watch => "watch",
            How::Steer => "steer",
        }),
        budget: args.budget.clone(),
    })
}

/// What the job reads, drawn.
fn pattern(compared: &Compared) -> Result<String> {
    let recording = compared.recording();
    let block_bytes = foretell_trace::DEFAULT_BLOCK_BYTES;
    let open = |path: &Path| {
        foretell_trace::open(path, &ReadOptions { block_bytes, ..ReadOptions::default() })
            .map_err(|e| anyhow!("{e}"))
    };
    let said = |e: foretell_trace::TraceError| anyhow!("{e}");
    let survey = PatternSurvey::of(&mut open(&recording)?, block_bytes).map_err(said)?;
    let mut pattern = survey.count(&mut open(&recording)?, plot::picture_shape(DRAWN_FILES)).map_err(said)?;
    // Not the name of our own file.
    pattern.source = "access pattern".to_owned();
    plot::picture(&pattern).map_err(|e| anyhow!("internal: {e}"))
}

/// A bar on a terminal, nothing in a pipe.
fn progress(runs: usize) -> ProgressBar {
    let visible = std::io::stderr().is_terminal();
    let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed}, {msg}") {
        bar.set_style(style);
    }
    if visible {
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    bar
}
