//! `foretell learn`: a job that runs again and again, faster each time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use foretell_learn::{How, Night, Store, by_itself, memory, tonight};
use foretell_output::Output;
use serde::Serialize;

use crate::kept::{self, Line, Role};
use crate::learning::{self, Wanted, job_name, words};
use crate::program;
use crate::size::{Size, human_bytes};
use crate::terminal::{note, say, warn, with_causes};

/// Flags of `foretell learn`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "foretell learn [OPTIONS] -- JOB [ARGS]...\n       foretell learn --list | --show NAME | --forget NAME",
    after_help = "The first night the job is watched, and what comes next is guessed if it goes through \
        directories or files, or looks things up in them; from the second on what it will read is \
        fetched ahead, if that pays. The job's output and its exit code are its own.\n\
        When anything of ours fails, the job runs on the kernel alone, and one line says why.\n\n\
        Examples:\n  \
        foretell learn -- ./nightly.sh\n  \
        foretell learn --show nightly.sh-1f2e3d4c"
)]
pub struct Args {
    /// What the job is called [default: by its program, arguments and directory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Where what is learnt is kept [default: $XDG_STATE_HOME/foretell or ~/.local/state/foretell]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Use this much page cache at most, as 64M, 1.5G or 50% [default: what is free]
    #[arg(long, value_name = "SIZE")]
    budget: Option<String>,

    /// Do this tonight, and nothing else, whatever is known [default: what pays]
    #[arg(long = "as", value_name = "alone|watch|steer")]
    how: Option<Way>,

    /// Write what was done to a file, as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,

    /// Say nothing at the end
    #[arg(long, short)]
    quiet: bool,

    /// List the jobs that are known
    #[arg(long, conflicts_with_all = ["show", "forget", "job"])]
    list: bool,

    /// Show the nights of a job
    #[arg(long, value_name = "NAME", conflicts_with_all = ["forget", "job"])]
    show: Option<String>,

    /// Forget what is known of a job
    #[arg(long, value_name = "NAME", conflicts_with = "job")]
    forget: Option<String>,

    /// With --list or --show: as JSON
    #[arg(long)]
    json: bool,

    /// The job and its arguments
    #[arg(
        value_name = "JOB",
        required_unless_present_any = ["list", "show", "forget"],
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    job: Vec<OsString>,
}

/// What to do tonight, as it is asked for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Way {
    Alone,
    Watch,
    Steer,
}

impl From<Way> for How {
    fn from(way: Way) -> How {
        match way {
            Way::Alone => How::Alone,
            Way::Watch => How::Watched,
            Way::Steer => How::Steered,
        }
    }
}

/// Runs the job, or shows what is known.
///
/// # Errors
/// When what was asked for is wrong, or the job cannot be started.
pub fn execute(args: &Args) -> Result<u8> {
    if args.list {
        return list(&store_to_look_at(args)?, args.json);
    }
    if let Some(name) = &args.show {
        return show(&store_to_look_at(args)?, name, args.json);
    }
    if let Some(name) = &args.forget {
        store_to_look_at(args)?.forget(name)?;
        return Ok(0);
    }
    let Some((job, arguments)) = args.job.split_first() else {
        bail!("no job is given; name one after '--'");
    };
    if args.json {
        bail!("--json goes with --list and --show; --stats FILE writes what was done as JSON");
    }
    program::find(job)?;
    let name = match &args.name {
        Some(name) if foretell_learn::is_name(name) => name.clone(),
        Some(name) => {
            bail!("--name '{name}' is no name of a job; use letters, digits, '.', '_' and '-', not '.' first")
        }
        None => job_name(job, arguments, &std::env::current_dir().unwrap_or_default()),
    };
    let most_bytes = budget(args)?;
    if let Some(why) = program::too_few_tasks() {
        warn(&format!("{why}; the job runs alone"));
        return Err(program::become_program(job, arguments).into());
    }
    let store = state(args).map(|state| Store::new(&state));
    if let Some(store) = store.as_ref().filter(|_| args.how.is_none() && args.stats.is_none())
        && let Some(why) = learning::is_to_be_left_alone(store, &name)
    {
        if !args.quiet {
            note(&format!("foretell: '{name}' runs alone: {why}\n"));
        }
        return Err(program::become_program(job, arguments).into());
    }
    let began = Instant::now();
    let wanted = |line: Line| Wanted {
        program: job.clone(),
        arguments: arguments.to_vec(),
        name: name.clone(),
        store: store.clone(),
        how: args.how.map(How::from),
        most_bytes,
        line,
    };
    // Whatever happens to us, the job runs.
    let line = match kept::split() {
        Role::Work(line) => line,
        Role::Ran(code) => return Ok(code),
        Role::Alone(alone) => return alone.run(job, arguments),
        Role::Left(left) => {
            let done = learning::run_to_the_end(&wanted(Line::default()), left, began)?;
            return Ok(report(args, &done));
        }
    };
    // The job comes first: what cannot be written is said now, and the job runs.
    let statistics = args.stats.as_deref().and_then(|path| {
        Output::open(path).map_err(|e| warn(&format!("--stats {e}; the job runs all the same"))).ok()
    });
    if statistics.is_some() {
        line.stay();
    }
    let wanted = wanted(line);
    let done = match learning::run(&wanted) {
        Err(error) if kept::lacks_means(&error) && wanted.line.cannot() => return Ok(1),
        done => done?,
    };
    if let Some(output) = statistics
        && let Err(error) = write(output, &words::Told::new(&done))
    {
        warn(&with_causes(&error));
    }
    Ok(report(args, &done))
}

/// Says how it was; gives the job's exit code.
fn report(args: &Args, done: &learning::Done) -> u8 {
    if !args.quiet {
        note(&words::report(done));
    }
    done.code
}

fn write(output: Output, told: &words::Told<'_>) -> Result<()> {
    let text = serde_json::to_string_pretty(told).context("--stats")?;
    Ok(output.write((text + "\n").as_bytes())?)
}

fn budget(args: &Args) -> Result<Option<u64>> {
    let Some(text) = &args.budget else { return Ok(None) };
    let size = Size::parse(text).map_err(|e| anyhow!("--budget: {e}"))?;
    Ok(Some(size.bytes(memory::usable_bytes().unwrap_or(u64::MAX))))
}

fn state(args: &Args) -> Option<PathBuf> {
    args.state.clone().or_else(|| Store::usual_place(|name| std::env::var_os(name)))
}

fn store_to_look_at(args: &Args) -> Result<Store> {
    let state = state(args)
        .context("neither HOME nor XDG_STATE_HOME is an absolute path; name the directory with --state")?;
    Ok(Store::new(&state))
}

/// One job in the list.
#[derive(Serialize)]
struct Listed {
    job: String,
    nights: usize,
    last: Option<Night>,
    by_itself_s: Option<f64>,
}

fn list(store: &Store, json: bool) -> Result<u8> {
    let mut listed = Vec::new();
    for job in store.names()? {
        let nights = match store.look(&job).and_then(|known| known.nights()) {
            Ok(nights) => nights,
            Err(error) => {
                warn(&error.to_string());
                continue;
            }
        };
        let by_itself_s = by_itself(nights.iter(), 0);
        listed.push(Listed { job, nights: nights.len(), last: nights.last().cloned(), by_itself_s });
    }
    if json {
        say(&(serde_json::to_string_pretty(&listed)? + "\n"));
        return Ok(0);
    }
    let mut table = table(&["job", "nights", "last", "took", "by itself"]);
    for Listed { job, nights, last, by_itself_s } in &listed {
        table.add_row([
            job.clone(),
            nights.to_string(),
            last.as_ref().map(|night| night.how.to_string()).unwrap_or_default(),
            last.as_ref().map(|night| format!("{:.2} s", night.elapsed_s)).unwrap_or_default(),
            by_itself_s.map(|s| format!("{s:.2} s")).unwrap_or_default(),
        ]);
    }
    say(&format!("{table}\n"));
    Ok(0)
}

fn show(store: &Store, name: &str, json: bool) -> Result<u8> {
    let job = store.look(name)?;
    let nights = job.nights()?;
    if json {
        say(&(serde_json::to_string_pretty(&nights)? + "\n"));
        return Ok(0);
    }
    let mut table =
        table(&["night", "how", "took", "waited", "read", "fetched ahead", "predicted", "exit code"]);
    for (at, night) in nights.iter().enumerate() {
        table.add_row([
            (at + 1).to_string(),
            night.how.to_string(),
            format!("{:.2} s", night.elapsed_s),
            night.wait_s.map(|s| format!("{s:.2} s")).unwrap_or_default(),
            human_bytes(night.read_bytes),
            night.prefetched.map(|blocks| blocks.to_string()).unwrap_or_default(),
            night.predicted.map(|share| format!("{:.0}%", 100.0 * share)).unwrap_or_default(),
            night.exit_code.to_string(),
        ]);
    }
    let usable_bytes = memory::usable_bytes().unwrap_or(u64::MAX);
    let next = match tonight(&nights, job.recording().exists(), usable_bytes) {
        foretell_learn::Tonight::Alone(why) => format!("alone: {why}"),
        foretell_learn::Tonight::Watch(why) => format!("watched: {why}"),
        foretell_learn::Tonight::Steer(why) => format!("steered: {why}"),
    };
    say(&format!("{table}\nnext night: {next}\n"));
    Ok(0)
}

/// A table without lines; all columns but the first two are numbers.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
