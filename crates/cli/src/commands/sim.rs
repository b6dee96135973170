//! `foretell sim`: what would each policy do to a trace?

use std::io::IsTerminal;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use foretell_device::Discipline;
use foretell_nearest::suggestion;
use foretell_output::Output;
use foretell_policy::{Beside, PoolPolicy, Prefetch, Tap};
use foretell_sim::{
    Advisory, Batch, Cell, Control, DRIVER_NS, Hints, NO_DEVICE, Outcome, PolicyName, SimError, configure,
    in_parallel, replace_only, replace_only_streamed, reproduce, simulate_streamed, simulate_tapped,
};
use foretell_trace::Blocks;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::config::Flags;
use crate::input_log::InputLog;
use crate::size::Size;
use crate::sweep::cache::CacheSize;
use crate::sweep::deployed::Deployed;
use crate::sweep::flags::{batch, device, disks, policies, reverse, share};
use crate::sweep::sources::{self, Reading, References, Source};
use crate::sweep::{baseline, page, table};
use crate::terminal::{command_line, say, warn};

/// The most processors.
const MAX_PROCESSORS: u16 = 1024;

/// What all others are compared with.
const LINUX: PolicyName = PolicyName::Planner(Prefetch::Linux);

/// The paper's cache: 10 MB (section 3.1).
const PAPER_CACHE_BLOCKS: u32 = 1280;

/// The paper's drive (section 3.2).
const PAPER_DEVICE: &str = "hp97560";

/// The device unless another one is named: what most programs run on today.
const DEFAULT_DEVICE: &str = "cloud";

/// The cache unless another one is given: half of what the trace reads, where replacement matters most.
const DEFAULT_CACHE: CacheSize = CacheSize::Percent(50.0);

/// The most runs of one sweep.
const MAX_CELLS: usize = 100_000;

/// The paper whose figures are known.
const KIMBREL96: &str = "kimbrel96";

/// Say what each policy would do to a trace: elapsed time divided into compute, driver and stall time,
/// fetches, disk utilization, and the distance from the best possible.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    foretell sim --workload cscope2 --disks 1,2,4 --html report.html\n  \
    foretell sim --trace job.parquet --cache 25%,50% --policy linux,informed")]
pub struct Args {
    /// A workload by name (synth, cscope1, zipf:alpha=0.8, ...); several run as processes at once
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// A trace in any format that 'foretell trace' reads; several run as processes at once
    #[arg(long, value_name = "FILE", num_args = 1..)]
    trace: Vec<PathBuf>,
    /// Format of the traces [default: told from the file]
    #[arg(long)]
    format: Option<String>,
    /// Policies, separated by commas, or 'all' [default: all; what the configuration would run, with --config]
    #[arg(long)]
    policy: Option<String>,
    /// Numbers of disks: 1,2,4 or 1..16
    #[arg(long, default_value = "1")]
    disks: String,
    /// The setting of Kimbrel et al. (1996): HP 97560, their cache, 0.5 ms a fetch, one class of requests
    #[arg(long)]
    paper: bool,
    /// A device by name, a device file (.toml), or 'none' to count replacement only [default: cloud]
    #[arg(long)]
    device: Option<String>,
    /// Sizes of the cache: blocks (1280), bytes (256M) or a share of the distinct blocks (25%); several are
    /// separated by commas [default: 50%]
    #[arg(long, value_name = "SIZES")]
    cache: Option<String>,
    /// Bytes of a block [default: 8192]
    #[arg(long, value_name = "BYTES")]
    block_bytes: Option<NonZeroU32>,
    /// A configuration file as 'foretell run' takes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Which files are kept how, as GLOB=POLICY[,priority=N]: matched against the trace's names; repeatable
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<String>,
    #[arg(long, value_name = "NAME", help = super::help::allocation())]
    allocation: Option<String>,
    /// Disclose this list, as 'foretell run' takes it, in place of the trace's own order
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hints_drop", "hints_insert", "hints_perturb", "hints_shuffle"])]
    hints: Option<PathBuf>,
    /// Prefetches a batch: 'paper' (Table 6), 'fitted' (to the figures on synth), or a number [default: paper]
    #[arg(long)]
    batch: Option<String>,
    /// Prefetch horizon in references [default: 62 for fixed-horizon and forestall]
    #[arg(long, value_name = "N")]
    horizon: Option<NonZeroU32>,
    /// F in references and batch of reverse-aggressive's schedule, as 4.9/40 [default: the best found]
    #[arg(long, value_name = "F/BATCH")]
    reverse: Option<String>,
    /// Order of a disk's queue: fcfs, scan, cscan, clook, sstf or sptf
    #[arg(long, default_value = "cscan")]
    schedule: String,
    /// A demand fetch overtakes queued prefetches (the default); with '=promote', so does a prefetch that a
    /// process has come to wait for
    #[arg(
        long,
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "overtake",
        conflicts_with = "no_demand_first"
    )]
    demand_first: Option<String>,
    /// One class of requests, as in the paper
    #[arg(long)]
    no_demand_first: bool,
    /// Blocks of a stripe unit
    #[arg(long, value_name = "BLOCKS", default_value = "1")]
    stripe: NonZeroU32,
    /// Processors that the processes share
    #[arg(long, value_name = "N", default_value = "1")]
    processors: NonZeroU16,
    /// Let informed steer on where it loses against the plain kernel; with --paper, --config or rules it does anyway
    #[arg(long)]
    no_guard: bool,
    /// The kernel holds the blocks and reads ahead by itself, as beside 'foretell run'; there is no guard
    #[arg(long, conflicts_with = "paper")]
    advisory: bool,
    /// Seed of the kernel's faults: blocks that vanish, evictions refused, observations late and lost
    #[arg(long, value_name = "SEED", requires = "advisory")]
    faults: Option<u64>,
    /// How many times as fast the processor is
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    cpu_speed: f64,
    /// Share of the disclosed references that is left out
    #[arg(long, value_name = "P%", default_value = "0%")]
    hints_drop: String,
    /// Share of the references before which one is disclosed that does not happen
    #[arg(long, value_name = "P%", default_value = "0%")]
    hints_insert: String,
    /// Share of the disclosed references that name another block of the file
    #[arg(long, value_name = "P%", default_value = "0%")]
    hints_perturb: String,
    /// Share of the visits to files that are disclosed in each other's places
    #[arg(long, value_name = "P%", default_value = "0%")]
    hints_shuffle: String,
    /// Disclosed references ahead of the process at most [default: all]
    #[arg(long, value_name = "N")]
    lookahead: Option<NonZeroU32>,
    /// Seed of workloads, layouts and wrong hints
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroU32>,
    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write a page with charts to this file as well
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Log what the policy of the one run is told to a file, which 'foretell replay' runs again
    #[arg(long, value_name = "FILE")]
    log_inputs: Option<PathBuf>,
    /// Run the published numbers of a paper (kimbrel96) and compare
    #[arg(long, value_name = "PAPER", conflicts_with_all = ["workload", "trace", "html", "log_inputs"])]
    reproduce: Option<String>,
}

/// Does what the arguments say.
///
/// # Errors
/// Something in the arguments or in a trace is wrong, or the page cannot be written.
pub fn execute(args: &Args) -> Result<u8> {
    let jobs = match args.jobs {
        Some(jobs) => jobs.get() as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    match &args.reproduce {
        Some(paper) => reproduce_paper(paper, jobs, args.json)?,
        None => sweep(args, jobs)?,
    }
    Ok(0)
}

fn reproduce_paper(paper: &str, jobs: usize, json: bool) -> Result<()> {
    ensure!(paper == KIMBREL96, "--reproduce: unknown paper '{paper}'{}", suggestion(paper, [KIMBREL96]));
    let bar = progress(0);
    let findings = reproduce::kimbrel96(jobs, |runs| bar.set_length(runs as u64), || bar.inc(1))?;
    bar.finish_and_clear();
    if json {
        say(&(serde_json::to_string_pretty(&findings)? + "\n"));
    } else {
        say(&table::findings(&findings));
    }
    Ok(())
}

fn sweep(args: &Args, jobs: usize) -> Result<()> {
    // Everything that can be wrong with the arguments is found before anything is read.
    let sources = Source::all(&args.workload, &args.trace)?;
    ensure!(!sources.is_empty(), "nothing to simulate: give --workload NAME or --trace FILE");
    let html = args.html.as_deref().map(Output::open).transpose().map_err(|e| anyhow!("--html {e}"))?;
    let flags = Flags {
        rules: args.rules.clone(),
        hints: args.hints.clone(),
        allocation: args.allocation.clone(),
        ..Flags::default()
    };
    let deployed = Deployed::read(args.config.as_deref(), &flags)?;
    let plan = Plan::new(args, &sources, &deployed)?;
    args.log_inputs.as_deref().map(|path| plan.check_log(args, path)).transpose()?;
    let reading = Reading {
        block_bytes: plan.block_bytes,
        format: sources::format(args.format.as_deref())?,
        seed: args.seed,
        count_distinct: plan.caches.iter().any(|c| c.needs_distinct()),
    };
    let online = plan.policies.iter().all(|policy| !policy.discloses());
    let references = sources::read(&sources, reading, online)?;
    let mut noted = Vec::new();
    let survey = references.survey();
    let control = deployed.control(survey, plan.block_bytes.get(), &mut noted)?;
    let cells = plan.cells(args, references.distinct_blocks(), control)?;
    // What everything is compared with is beside the run that was asked for.
    let logged = cells.last().zip(args.log_inputs.as_deref());
    let log =
        logged.map(|(cell, path)| InputLog::create(path, &configure(cell)).map(|log| (cell.policy, log)));
    let log: Option<(PolicyName, InputLog)> = log.transpose()?;
    let tap =
        |cell: &Cell| log.as_ref().filter(|(policy, _)| *policy == cell.policy).map(|(_, log)| log.tap());
    let bar = progress(cells.len());
    let outcomes = in_parallel(
        &cells,
        jobs,
        |cell| run(cell, &references, &sources, reading, tap(cell)),
        |_| bar.inc(1),
    );
    bar.finish_and_clear();
    if let Some((_, log)) = &log {
        log.finish();
    }
    let mut results = Vec::new();
    for (cell, outcome) in cells.iter().zip(outcomes) {
        results.push(outcome.with_context(|| format!("{} on {} disk(s)", cell.policy, cell.disks))?);
    }
    baseline::compare(&mut results);
    notes(&results, &references, noted);
    if let Some(html) = html {
        let page = page::page(&results, &command_line());
        html.write(page.as_bytes()).map_err(|e| anyhow!("--html {e}"))?;
    }
    if args.json {
        say(&(serde_json::to_string_pretty(&results)? + "\n"));
    } else {
        say(&table::outcomes(&results));
    }
    Ok(())
}

fn run(
    cell: &Cell,
    references: &References,
    sources: &[Source],
    reading: Reading,
    tap: Option<Box<dyn Tap>>,
) -> Result<Outcome, anyhow::Error> {
    let counted = cell.device_name == NO_DEVICE;
    Ok(match (references, sources) {
        (References::Kept(input), _) if counted => replace_only(cell, input)?,
        (References::Kept(input), _) => simulate_tapped(cell, input, tap)?,
        (References::Streamed(survey), [source, ..]) if counted => {
            let blocks = Blocks::new(source.open(reading)?, reading.block_bytes);
            let reads = blocks.filter(|b| !matches!(b, Ok(r) if r.write));
            replace_only_streamed(cell, survey, reads.map(|b| b.map(|r| (r.file, r.block, r.compute_ns))))?
        }
        (References::Streamed(survey), [source, ..]) => {
            simulate_streamed(cell, survey, source.open(reading)?, reading.block_bytes, tap)?
        }
        (References::Streamed(_), []) => return Err(SimError::Stuck.into()),
    })
}

/// What the arguments ask for, as far as it does not depend on the trace.
struct Plan {
    template: Cell,
    policies: Vec<PolicyName>,
    disks: Vec<u16>,
    caches: Vec<CacheSize>,
    block_bytes: NonZeroU32,
}

impl Plan {
    fn new(args: &Args, sources: &[Source], deployed: &Deployed) -> Result<Plan> {
        let default_device = if args.paper { PAPER_DEVICE } else { DEFAULT_DEVICE };
        let (device_name, device) = device(args.device.as_deref().unwrap_or(default_device))?;
        let counted = device_name == NO_DEVICE;
        let effective = &deployed.effective;
        let mut policies = match (&args.policy, &args.config) {
            (None, Some(_)) if !counted => vec![deployed.policy()],
            (names, _) => policies(names.as_deref().unwrap_or("all"), counted)?,
        };
        if deployed.controls() {
            let named = args.policy.as_deref().is_some_and(|names| names != "all");
            ensure!(
                !named || !policies.contains(&PolicyName::Demand(PoolPolicy::Mru)),
                "--policy demand-mru: rules say which files are replaced how; use demand-lru for 'as the rules say'"
            );
            policies.retain(|&policy| policy != PolicyName::Demand(PoolPolicy::Mru));
        }
        if !args.paper && !counted && !policies.contains(&LINUX) {
            policies.insert(0, LINUX);
        }
        ensure!(
            !args.advisory || !counted,
            "--advisory: without a device nothing is on its way; give a --device"
        );
        let offline = [PolicyName::Planner(Prefetch::ReverseAggressive), PolicyName::Optimal];
        if args.advisory {
            let named = args.policy.as_deref().is_some_and(|names| names != "all");
            ensure!(
                !named || !policies.iter().any(|policy| offline.contains(policy)),
                "--advisory: demand-opt and reverse-aggressive decide what is fetched when; the kernel does that here"
            );
            policies.retain(|policy| !offline.contains(policy));
        }
        let discipline: Discipline = args.schedule.parse().map_err(|_| {
            let names = Discipline::ALL.map(Discipline::name);
            anyhow!("--schedule: unknown order '{}'{}", args.schedule, suggestion(&args.schedule, names))
        })?;
        ensure!(
            args.processors.get() <= MAX_PROCESSORS,
            "--processors {}: no more than {MAX_PROCESSORS}",
            args.processors
        );
        ensure!(
            args.cpu_speed.is_finite() && (0.001..=1000.0).contains(&args.cpu_speed),
            "--cpu-speed {}: give a factor from 0.001 to 1000",
            args.cpu_speed
        );
        let block_bytes = match (args.block_bytes, NonZeroU32::new(effective.block_bytes)) {
            (Some(bytes), _) | (None, Some(bytes)) => bytes,
            (None, None) => foretell_trace::DEFAULT_BLOCK_BYTES,
        };
        // The policy of the first cell does not matter: each cell has its own.
        let mut template = Cell::new(PolicyName::Demand(PoolPolicy::Lru), 1, &device_name, device, 1);
        if args.paper {
            template.driver_ns = DRIVER_NS;
        }
        (template.demand_first, template.promote) = match args.demand_first.as_deref() {
            None => (!args.paper && !args.no_demand_first, false),
            Some("overtake") => (true, false),
            Some("promote") => (true, true),
            Some(how) => bail!("--demand-first={how}: give 'overtake' or 'promote', or nothing"),
        };
        template.discipline = discipline;
        template.block_bytes = block_bytes.get();
        template.batch = match (&args.batch, deployed.file.batch) {
            (Some(text), _) => batch(text)?,
            (None, Some(_)) => Batch::Fixed(effective.batch),
            (None, None) => Batch::Paper,
        };
        template.horizon = args.horizon.map(NonZeroU32::get).or(effective.horizon);
        template.stripe_blocks = args.stripe.get();
        template.cpu_speed = args.cpu_speed;
        template.processors = args.processors.get();
        template.advisory = args.advisory.then_some(Advisory { faults: args.faults });
        template.hints = Hints {
            drop_share: share("--hints-drop", &args.hints_drop)?,
            insert_share: share("--hints-insert", &args.hints_insert)?,
            perturb_share: share("--hints-perturb", &args.hints_perturb)?,
            shuffle_share: share("--hints-shuffle", &args.hints_shuffle)?,
            lookahead: args.lookahead.map(NonZeroU32::get),
        };
        template.reverse = args.reverse.as_deref().map(reverse).transpose()?;
        template.seed = args.seed;
        template.allocation = effective.allocation;
        template.revocation = effective.revocation;
        Ok(Plan {
            template,
            policies,
            disks: disks(&args.disks)?,
            caches: caches(args, sources, deployed)?,
            block_bytes,
        })
    }

    /// Was the plain kernel asked for by name, and not only as what is compared with?
    fn names_linux(args: &Args) -> bool {
        let names = args.policy.as_deref().unwrap_or_default();
        names.split(',').any(|name| name.trim() == Prefetch::Linux.name())
    }

    /// A log is of one run, and of one engine.
    fn check_log(&self, args: &Args, path: &Path) -> Result<()> {
        let named = Plan::names_linux(args);
        let policies = self.policies.iter().filter(|&&policy| named || policy != LINUX).count();
        let runs = policies * self.disks.len() * self.caches.len();
        ensure!(
            runs == 1,
            "--log-inputs: logs one run, and these are {runs}; give one --policy, one --disks and one --cache"
        );
        ensure!(
            self.template.device_name != NO_DEVICE,
            "--log-inputs: without a device there is no run to log; give a --device"
        );
        ensure!(
            self.policies.last() != Some(&PolicyName::Planner(Prefetch::ReverseAggressive))
                || self.template.reverse.is_some(),
            "--log-inputs: the best of many runs is searched for reverse-aggressive; give --reverse F/BATCH"
        );
        InputLog::check(path)
    }

    /// All combinations: arrays in the outer loop, then caches, then policies.
    fn cells(&self, args: &Args, distinct_blocks: u64, control: Option<Control>) -> Result<Vec<Cell>> {
        let runs = self.disks.len() * self.caches.len() * self.policies.len();
        ensure!(
            runs <= MAX_CELLS,
            "{runs} runs: no more than {MAX_CELLS} a sweep; give fewer disks, caches or policies"
        );
        let control = control.map(Arc::new);
        let names_linux = Plan::names_linux(args);
        // As on a live plane, which has no guard.
        let is_deployed = args.config.is_some() || control.is_some();
        let mut cells = Vec::with_capacity(runs);
        for &disks in &self.disks {
            for cache in &self.caches {
                let cache_blocks = cache.blocks(self.block_bytes.get(), distinct_blocks)?;
                for &policy in &self.policies {
                    // What is compared with knows nothing of rules, unless it was asked for by name.
                    let bare = policy == LINUX && !names_linux;
                    // The plain kernel needs no engine beside it, and so no advice.
                    let advisory = self.template.advisory.filter(|_| policy != LINUX);
                    let control = control.clone().filter(|_| !bare);
                    // Where it costs next to nothing: beside what asks for times anyway.
                    let estimates = !args.paper && !args.advisory && policy.wants_times();
                    let guarded =
                        policy == PolicyName::Planner(Prefetch::Informed) && !args.no_guard && !is_deployed;
                    let beside = match (estimates, guarded) {
                        (true, true) => Beside::Guard,
                        (true, false) => Beside::Counterfactual,
                        (false, _) => Beside::Nothing,
                    };
                    cells.push(Cell {
                        policy,
                        disks,
                        cache_blocks,
                        control,
                        advisory,
                        beside,
                        ..self.template.clone()
                    });
                }
            }
        }
        Ok(cells)
    }
}

/// The sizes of the cache: those that were given, else the configuration's budget, else the default.
fn caches(args: &Args, sources: &[Source], deployed: &Deployed) -> Result<Vec<CacheSize>> {
    if let Some(text) = &args.cache {
        return CacheSize::all(text);
    }
    if deployed.file.budget.is_some() {
        return Ok(vec![match deployed.effective.budget {
            Size::Bytes(bytes) => CacheSize::Bytes(bytes),
            Size::Percent(percent) => CacheSize::Percent(percent),
        }]);
    }
    if args.paper {
        let published = sources.iter().filter_map(Source::published_cache_blocks).max();
        return Ok(vec![CacheSize::Blocks(published.unwrap_or(PAPER_CACHE_BLOCKS))]);
    }
    Ok(vec![DEFAULT_CACHE])
}

/// What is worth knowing about the results, on standard error.
fn notes(results: &[Outcome], references: &References, noted: Vec<String>) {
    let note = |text: String| warn(&format!("note: {text}"));
    noted.into_iter().for_each(note);
    let holds_all = |o: &&Outcome| o.distinct_blocks.is_some_and(|d| d <= o.cache_blocks.into());
    if let Some(o) = results.iter().find(holds_all) {
        note(format!(
            "a cache of {} blocks holds all {} blocks of the trace; nothing is ever replaced",
            o.cache_blocks,
            o.distinct_blocks.unwrap_or_default()
        ));
    }
    let writes = references.survey().writes;
    if writes > 0 {
        note(format!("{writes} written blocks are left out, only reads are simulated"));
    }
    if matches!(references, References::Streamed(_)) {
        note(
            "the trace is read anew for each run; the optimum needs all of it and is not computed".to_owned(),
        );
    }
}

/// A bar on a terminal, nothing in a pipe.
fn progress(cells: usize) -> ProgressBar {
    let visible = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(cells as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left") {
        bar.set_style(style);
    }
    bar
}
