//! `foretell run`: a program under a policy; with neither rule nor list it is only watched.
//!
//! ```text
//!  flags, file ──► configuration ──► checks (nothing has started yet; exit code 2)
//!                                      │
//!    a host of our own, the service or another run, or a watcher ──► program held ──► under control ──► released
//!                                      │                                                              │
//!                           steered or watched: until the program has ended ◄─────────────────────────┘
//!                                      │
//!                                  report, statistics, the program's own exit code
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use foretell_learn::memory::{self, Whose};
use foretell_learn::{Lists, Names, STEERING_BYTES};
use foretell_nearest::nearest;
use foretell_output::Output;
use foretell_pagecache::watch::Gather;
use foretell_pagecache::{Casting, Counters, FileReport, OpenError, Opening, Plane};
use foretell_recording::Recording;
use foretelld::{RunManager, Service};

use super::help;
use crate::anyway;
use crate::attached::{Attached, Job, Wanted};
use crate::config::{self, Controlled, Effective, File, Flags, Number, Surroundings};
use crate::hints::check::{self, Kind};
use crate::host::{Host, socket_path};
use crate::input_log::InputLog;
use crate::kept::Line;
use crate::partner::Partner;
use crate::program::{self, NoRoom, NotRun, Program};
use crate::rule::Rule;
use crate::scan::Allowance;
use crate::size::human_bytes;
use crate::stats::{Outcome, Stats};
use crate::steered::{HintSource, Steered};
use crate::terminal::{note, say, warn, with_causes};
use crate::uncontrolled::{Refused, room_for};
use crate::watched::Held;
use crate::{hosts, matched, report};

/// Flags of `foretell run`, as they were typed; [`config::resolve`] gives them their meaning.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "foretell run [OPTIONS] -- PROGRAM [ARGS]...\n       foretell run [OPTIONS] --pid PID\n       foretell run [OPTIONS] --cgroup PATH",
    after_help = "The exit code is the program's own; a signal that ended it ends foretell as well, which is 128 + N to a shell.\n\
        When the program did not run: 127 when there is no such program, 126 when it cannot be executed, 125 when foretell \
        itself fails, 2 when what was asked for is wrong.\n\n\
        Examples:\n  \
        foretell run -- ./job                                              only watched: what it reads and waits for\n  \
        foretell run --budget 64M --rule '/data/big/**=mru' -- ./scan /data/big\n  \
        foretell run --record reads -- ./job                               once\n  \
        foretell run --budget 1G --hints reads -- ./job                    from then on\n  \
        foretell run --record reads --pid 4711                             a job that runs already"
)]
pub struct Args {
    /// Page cache that the files under control may occupy, as 64M, 1.5G or 50% [default: 50%]
    #[arg(long, value_name = "SIZE")]
    budget: Option<String>,

    // The names stand in the help as the tables have them.
    #[arg(long = "rule", value_name = "RULE", help = help::rule())]
    rules: Vec<String>,

    /// Read the configuration from a TOML file; flags beat it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// What the program will read: a recording, or a list of paths or of 'path offset length', plain, gzip or
    /// zstd; a FIFO or '-' is read while the program runs
    #[arg(long, value_name = "FILE|-")]
    hints: Option<PathBuf>,

    #[arg(long, value_name = "NAME", help = help::prefetch())]
    prefetch: Option<String>,

    /// Prefetches issued together; auto: as the model of the device says [default: 8 MiB, or a
    /// sixteenth of the budget if that is less; 16 to 4096 blocks]
    #[arg(long, value_name = "N|auto")]
    batch: Option<Number>,

    /// Prefetch at most this many references ahead; auto: as the model of the device says [default: no limit]
    #[arg(long, value_name = "N|auto")]
    horizon: Option<Number>,

    /// For auto: the device file of the volume, or a built-in device [default: the volume's own, if saved]
    #[arg(long, value_name = "NAME|FILE")]
    device: Option<PathBuf>,

    #[arg(long, value_name = "NAME", help = help::order())]
    order: Option<String>,

    #[arg(long, value_name = "NAME", help = help::allocation())]
    allocation: Option<String>,

    /// Record what the program reads in a file, for --hints, 'foretell advise', 'foretell sim' and 'foretell trace'
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Log what the policy is told to a file, which 'foretell replay' runs again
    #[arg(long, value_name = "FILE")]
    log_inputs: Option<PathBuf>,

    /// Write what was done to a file, as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,

    /// Say nothing at the end
    #[arg(long, short)]
    quiet: bool,

    /// Fail when control is not possible here, the rules conflict with another run's, or a list is partly out of date,
    /// instead of going without
    #[arg(long)]
    strict: bool,

    // What is done anyway: taken, so that jobs whose scripts still say it start.
    #[arg(long, hide = true, conflicts_with = "strict")]
    best_effort: bool,

    /// Attach to a process that runs already, and what it starts, until it ends or Ctrl-C is typed; it goes on by itself
    #[arg(long, value_name = "PID", conflicts_with_all = ["cgroup", "program", "join"])]
    pid: Option<u32>,

    /// The same for all processes of a control group, named as a directory or as systemd has it
    #[arg(long, value_name = "PATH", conflicts_with_all = ["program", "join"])]
    cgroup: Option<PathBuf>,

    /// Share the budget of another run, given by the process number of its foretell
    #[arg(long, value_name = "PID",
          conflicts_with_all = ["budget", "prefetch", "batch", "horizon", "device", "order", "allocation", "record", "log_inputs"])]
    join: Option<u32>,

    /// Control the program from here though a service runs, with a budget of its own
    #[arg(long)]
    no_service: bool,

    /// Print the effective configuration as TOML and end
    #[arg(long)]
    print_config: bool,

    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required_unless_present_any = ["print_config", "pid", "cgroup"],
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

/// Does what the arguments say. Errors mean that the program has not begun.
pub fn execute(args: &Args) -> Result<u8> {
    let Some((name, arguments)) = args.program.split_first().filter(|_| !args.print_config) else {
        // Nothing of ours is as important as a job.
        foretell_pagecache::go_first();
        return obey(args, &Line::default());
    };
    refuse_flag(name)?;
    anyway::run(name, arguments, args.strict, |line| obey(args, line))
}

fn obey(args: &Args, line: &Line) -> Result<u8> {
    let working_directory = anyway::working_directory();
    let (effective, asked) = configuration(args, &working_directory)?;
    if args.print_config {
        say(&effective.to_toml());
        return Ok(0);
    }
    let wanted = wanted(args)?;
    let sources = check_hints(&effective.controlled, &working_directory, args.strict)?;
    let statistics = statistics_file(args)?;
    // These are written when the program has ended.
    if args.stats.is_some() || args.record.is_some() || args.log_inputs.is_some() {
        line.stay();
    }
    // Held to the end: a pipe that is closed meanwhile has no reader any more when the recording begins.
    let _record = args
        .record
        .as_deref()
        .map(Output::open)
        .transpose()
        .map_err(|e| anyway::cannot_write("--record", e))?;
    args.log_inputs.as_deref().map(InputLog::check).transpose()?;
    if effective.controlled.is_empty() {
        return watch(args, wanted, asked, statistics, line);
    }
    control(args, wanted, (effective, &asked), &sources, statistics, line)
}

fn wanted(args: &Args) -> Result<Wanted<'_>> {
    match (args.pid, &args.cgroup, args.program.split_first()) {
        (Some(pid), ..) => Ok(Wanted::Attached(Attached::process(pid, args.quiet)?)),
        (_, Some(group), _) => Ok(Wanted::Attached(Attached::group(group, args.quiet)?)),
        (.., Some((name, arguments))) => {
            program::find(name)?;
            Ok(Wanted::Program(name, arguments))
        }
        (.., None) => bail!("no program; give one after '--'"),
    }
}

/// Files that are under another policy elsewhere are left alone.
fn say_conflict(args: &Args, conflict: &str) -> Result<()> {
    if args.strict {
        bail!("{conflict}");
    }
    warn(&format!("{conflict}; this run leaves such files alone (--strict makes this an error)"));
    Ok(())
}

/// Runs the program and only watches: nothing says what to do with its files.
fn watch(
    args: &Args,
    wanted: Wanted<'_>,
    asked: Vec<String>,
    statistics: Option<Output>,
    line: &Line,
) -> Result<u8> {
    if args.log_inputs.is_some() {
        bail!(
            "--log-inputs: with neither a rule nor a list there is no policy that could be told anything; give one"
        );
    }
    let asked: Vec<String> = asked.into_iter().chain(args.join.map(|_| "--join".to_owned())).collect();
    warn_without_effect(&asked, "neither a rule nor a list is given, and the program is only watched");
    let started = Instant::now();
    let record = args.record.as_deref();
    let held = match wanted {
        Wanted::Program(name, arguments) => Held::start(name, arguments, record, line),
        Wanted::Attached(attached) => Held::attach(Job::Attached(attached), record),
    };
    let outcome = match held {
        Ok(held) => anyway::ran(held.run(line), args.strict, &args.program, line)?,
        Err(refused) => refused.or_uncontrolled(args.strict, &args.program, line)?,
    };
    finish(args, outcome, statistics, started)
}

/// Nothing that was asked for is left undone in silence.
fn warn_without_effect(asked: &[String], why: &str) {
    if let Some((last, others)) = asked.split_last() {
        let (what, verb) = match others {
            [] => (last.clone(), "does"),
            others => (format!("{} and {last}", others.join(", ")), "do"),
        };
        warn(&format!("{what} {verb} not apply: {why}"));
    }
}

/// Runs the program under control.
fn control(
    args: &Args,
    wanted: Wanted<'_>,
    (mut effective, asked): (Effective, &[String]),
    sources: &[HintSource],
    statistics: Option<Output>,
    line: &Line,
) -> Result<u8> {
    let begun = begin(args, (&effective, asked), sole(sources), wanted, line);
    let started = Instant::now();
    let mut outcome = match begun {
        Ok(steered) => anyway::ran(steered.run(sources, line), args.strict, &args.program, line)?,
        Err(refused) => refused.or_uncontrolled(args.strict, &args.program, line)?,
    };
    outcome.stats.chosen = effective.chosen.take();
    finish(args, outcome, statistics, started)
}

/// Everything from the first word on that is no flag of ours is the program and its arguments, so a mistyped
/// flag looks like a program.
fn refuse_flag(name: &OsString) -> Result<()> {
    let name = name.to_string_lossy();
    if !name.starts_with('-') {
        return Ok(());
    }
    let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
    let flags: Vec<_> =
        command.get_arguments().filter_map(clap::Arg::get_long).map(|long| format!("--{long}")).collect();
    match nearest(name.split('=').next().unwrap_or_default(), flags.iter().map(String::as_str)) {
        Some(flag) => bail!("unknown flag '{name}'; did you mean '{flag}'?"),
        None => bail!("unknown flag '{name}'; 'foretell run --help' lists the known ones"),
    }
}

/// The service, when one runs and can do what is asked for.
fn running_service(args: &Args, asked: &[String]) -> Option<Host> {
    // Rules are patterns of paths that the service would follow with all of its rights, so it takes them from
    // root alone; and it keeps no record of references or inputs.
    let attached = args.pid.is_some() || args.cgroup.is_some();
    let own = args.record.is_some() || args.log_inputs.is_some() || attached;
    if args.no_service || own || !rustix::process::geteuid().is_root() {
        return None;
    }
    let service = Host::find_service(&socket_path(None)).unwrap_or_else(|e| {
        warn(&format!("{e}; this run controls its program itself"));
        None
    })?;
    warn_without_effect(asked, "the service has its own (--no-service does without it)");
    Some(service)
}

/// In whose memory the job reads: a program that we start is where we are.
fn whose_memory(args: &Args) -> Whose<'_> {
    match (args.pid, &args.cgroup) {
        (Some(pid), _) => Whose::Process(pid),
        (_, Some(group)) => Whose::Group(group),
        (None, None) => Whose::Ours,
    }
}

fn configuration(args: &Args, working_directory: &Path) -> Result<(Effective, Vec<String>)> {
    let (file, file_directory) = match &args.config {
        None => (File::default(), working_directory.to_owned()),
        Some(path) => {
            let absolute = working_directory.join(path);
            let directory = absolute.parent().unwrap_or(working_directory).to_owned();
            (File::read(path)?, directory)
        }
    };
    let flags = Flags {
        budget: args.budget.clone(),
        rules: args.rules.clone(),
        hints: args.hints.clone(),
        prefetch: args.prefetch.clone(),
        batch: args.batch,
        horizon: args.horizon,
        device: args.device.clone(),
        order: args.order.clone(),
        allocation: args.allocation.clone(),
    };
    let around = Surroundings {
        working_directory,
        file_directory: &file_directory,
        memory_bytes: memory::usable_bytes_of(whose_memory(args)).unwrap_or(u64::MAX),
    };
    let effective = config::resolve(&flags, &file, around).map_err(|e| match &args.config {
        Some(path) => anyhow!("{} (flags and {})", with_causes(&e), path.display()),
        None => e,
    })?;
    Ok((effective, config::asked_for(&flags, &file)))
}

fn check_hints(controlled: &[Controlled], working_directory: &Path, strict: bool) -> Result<Vec<HintSource>> {
    let mut sources = Vec::new();
    for (manager, controlled) in controlled.iter().enumerate() {
        let Some(file) = &controlled.hints else { continue };
        let kind = check::kind(file)?;
        if kind == Kind::Regular {
            let summary = check::check(file, working_directory)?;
            if let (true, Some((why, line))) = (strict, &summary.first_bad) {
                bail!("{}:{line}: {why}", file.display());
            }
            if let Some(trouble) = summary.trouble(file) {
                warn(&trouble);
            }
        }
        let lists = if kind == Kind::Recording { Some(recorded(file, strict)?) } else { None };
        let base = working_directory.to_owned();
        sources.push(HintSource { manager, file: file.clone(), kind, base, lists });
    }
    Ok(sources)
}

/// What a recording names. What is not there any more is said.
fn recorded(file: &Path, strict: bool) -> Result<Lists> {
    let lists = Lists::by_reader(&Recording::read(file)?);
    let (located, Names { missing, .. }) = lists.located();
    let there = located.files.len();
    let trouble = match (there, missing) {
        (_, 0) if there > 0 => return Ok(lists),
        (0, _) => format!("{}: it names no file that could be read ahead and is still there", file.display()),
        _ => format!(
            "{}: {missing} of the {} files that it names are gone",
            file.display(),
            there as u64 + missing
        ),
    };
    if strict {
        bail!("{trouble}");
    }
    warn(&trouble);
    Ok(lists)
}

/// Found out before the program runs for hours: can the statistics be written?
fn statistics_file(args: &Args) -> Result<Option<Output>> {
    args.stats.as_deref().map(Output::open).transpose().map_err(|e| anyway::cannot_write("--stats", e))
}

/// The lists of a recording when nothing else says what will be read: then each reader follows its own.
fn sole(sources: &[HintSource]) -> Option<&Lists> {
    match sources {
        [source] => source.lists.as_ref(),
        _ => None,
    }
}

/// Finds or makes a host, starts the program held back and has it put under control.
fn begin(
    args: &Args,
    (effective, asked): (&Effective, &[String]),
    lists: Option<&Lists>,
    wanted: Wanted<'_>,
    line: &Line,
) -> Result<Steered, Refused> {
    let wrong = |e: anyhow::Error| Refused::Wrong(e);
    if let Some(why) = program::too_few_tasks() {
        return Err(Refused::Unable(anyhow!(NoRoom(why)).context("cannot take control")));
    }
    let mut allowance = Allowance::default();
    let expected = matched::files(effective, args.quiet, whose_memory(args), &mut allowance);
    let name = wanted.name();
    let (mut attached, program) = match wanted {
        Wanted::Attached(attached) => (Some(attached), None),
        Wanted::Program(name, arguments) => (None, Some((name, arguments))),
    };
    let is_attached = attached.is_some();
    let mut hold = || {
        if let Some(attached) = attached.take() {
            return Ok(Job::Attached(attached));
        }
        let (name, arguments) = program.ok_or_else(|| wrong(anyhow!("internal: there is no program")))?;
        line.about_to_begin();
        let held = Program::start_held(name, arguments).map_err(Refused::not_held)?;
        Ok(Job::Program(held))
    };
    let managers = || effective.controlled.iter().map(|c| manager(c, &name)).collect::<Vec<_>>();
    let (mut input_log, mut place, mut begun) = (None, None, None);
    if let Some(pid) = args.join {
        warn_without_effect(asked, &format!("run {pid} has its own"));
        let host = hosts::join(pid).map_err(|e| wrong(e.context("--join")))?;
        begun = Some(Steered::begin(Partner::other(host), hold()?, managers(), None)?);
    } else if let Some(service) = running_service(args, asked) {
        match Steered::begin(Partner::other(service), hold()?, managers(), None) {
            Ok(served) => (begun, place) = (Some(served), Some(socket_path(None))),
            // Ended by somebody else while it was held.
            Err(Refused::Wrong(e)) if e.is::<NotRun>() => return Err(wrong(e)),
            Err(Refused::Unable(e) | Refused::Wrong(e) | Refused::Ended(e)) => {
                warn(&format!("{}; this run controls its program itself", with_causes(&e)));
            }
        }
    }
    let (mut steered, started) = match begun {
        Some(begun) => begun,
        None => {
            let opening = open(effective)?;
            // What the program would wait for is done beside what the kernel has to check.
            let job = hold()?;
            let host = own_host(args, opening, &mut input_log)?;
            // Of a job that runs already nobody knows which child of whom a process was: its lists are found out.
            let lists = lists.filter(|_| !is_attached);
            let casting = lists.map(|lists| Casting::new(&lists.roles, lists.list_of.clone()));
            Steered::begin(Partner::own(host), job, managers(), casting)?
        }
    };
    let rules: Vec<Rule> = effective.controlled.iter().flat_map(|c| c.rules.iter().cloned()).collect();
    match steered.yield_to_older(&rules, &started, &mut allowance) {
        Ok(None) => {}
        Ok(Some(conflict)) => say_conflict(args, &conflict).map_err(wrong)?,
        Err(e) if args.strict => return Err(wrong(e)),
        // Whatever else follows from that shows itself when the program runs.
        Err(e) => warn(&format!("which older rules there are is not known ({})", with_causes(&e))),
    }
    if let Some(place) = place {
        let (place, budget) = (place.display(), human_bytes(started.budget_bytes));
        warn(&format!("under the service at {place}, which shares its budget of {budget} among all"));
    }
    let pid = steered.pid();
    if let Some(host) = steered.own() {
        host.plane_mut().expect(&expected);
        let gather = args.record.as_deref().map(|path| Gather::create(path, pid)).transpose();
        let mut gather = gather.map_err(|e| wrong(anyhow!(e).context("--record")))?;
        let know = |gather: &mut Gather| if is_attached { gather.attach_tree(pid) } else { gather.hold(pid) };
        gather.iter_mut().for_each(know);
        (steered.gather, steered.input_log) = (gather, input_log);
    }
    Ok(steered)
}

/// Begins to open a plane of this run's own.
fn open(effective: &Effective) -> Result<Opening, Refused> {
    room_for(STEERING_BYTES, "take control")?;
    foretell_pagecache::let_go_at_once();
    Opening::begin(effective.plane_options()).map_err(not_opened)
}

fn not_opened(error: OpenError) -> Refused {
    match error {
        OpenError::Observe(_) | OpenError::System { .. } => {
            Refused::Unable(anyhow!(error).context("cannot take control"))
        }
        error => Refused::Wrong(error.into()),
    }
}

/// A host on it.
fn own_host(args: &Args, opening: Opening, input_log: &mut Option<InputLog>) -> Result<Service, Refused> {
    let mut plane = opening.wait().map_err(not_opened)?;
    let log = args.log_inputs.as_deref().map(|path| InputLog::create(path, plane.policy_config()));
    *input_log = log.transpose().map_err(Refused::Wrong)?;
    if let Some(log) = input_log {
        plane.set_tap(log.tap());
    }
    private_host(plane).map_err(Refused::Unable)
}

/// A private host on a plane; says so when others cannot find it.
pub(crate) fn private_host(plane: Plane) -> Result<Service> {
    let (host, unlisted) = Service::private(plane)?;
    if let Some(why) = unlisted {
        warn(&format!("{why}; other runs, 'status' and 'top' do not find this one"));
    }
    Ok(host)
}

fn manager(controlled: &Controlled, program: &OsString) -> RunManager {
    RunManager {
        name: manager_name(controlled, program),
        rules: controlled.rules.iter().map(Into::into).collect(),
        process: controlled.process.clone(),
    }
}

/// The name of a manager in reports: of its processes, or of the program that was started.
fn manager_name(controlled: &Controlled, program: &OsString) -> String {
    let program = || Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    controlled.process.clone().unwrap_or_else(program)
}

fn finish(args: &Args, outcome: Outcome, statistics: Option<Output>, started: Instant) -> Result<u8> {
    let Outcome { code, mut stats } = outcome;
    if stats.elapsed_s == 0.0 {
        stats.elapsed_s = started.elapsed().as_secs_f64();
    }
    // The program has run: whatever fails now is said, and its exit code stays.
    if let Some(output) = statistics
        && let Err(e) = stats.write(output)
    {
        warn(&with_causes(&e));
    }
    if !args.quiet {
        say_what_was_not_steered(&stats);
    }
    // Of what did not begin it was said why, and there is no more to tell.
    let began = stats.uncontrolled_because.is_none() || stats.watched || stats.budget_bytes > 0;
    if !args.quiet && began {
        note(&report::render(&stats));
    }
    Ok(code)
}

/// No rule does nothing in silence.
fn say_what_was_not_steered(stats: &Stats) {
    stats.left_out.iter().for_each(|left_out| warn(&left_out.to_string()));
    let has_rules = !stats.watched && stats.left_out.is_empty();
    // That somebody else has dropped a file from the cache says nothing of how the job reads it.
    let is_steered = |file: &&FileReport| {
        let foreign_evictions = file.counts.foreign_evictions;
        file.counts != Counters { foreign_evictions, ..Counters::default() }
    };
    let expected = stats.files.iter().find(is_steered).filter(|_| has_rules && stats.counts.references == 0);
    if let Some(file) = expected {
        warn(&format!(
            "none of the files that the rules match, such as {}, was read through the page cache (direct I/O goes past it)",
            file.path.display()
        ));
    }
}
