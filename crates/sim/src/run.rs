//! Running one cell: the engine configured, the files laid out on the disks, the machine run.

use std::cell::RefCell;
use std::num::NonZeroU32;

use foretell_device::{DemandFirst, Device, Options};
use foretell_policy::{Beside, Config, Engine, Layout, Nanos, Order, Prefetch, Residency, Tap};
use foretell_trace::{Blocks, TraceError, TraceReader};

use crate::cell::{Cell, Reverse};
use crate::control::enrol;
use crate::error::SimError;
use crate::hints::SplitMix;
use crate::input::{Input, InputReference, Survey};
use crate::kernel::{Advised, Kernel};
use crate::machine::{Actor, Feed, Finished, Hardware, Machine, Totals};
use crate::outcome::Outcome;
use crate::policy::PolicyName;
use crate::reverse;

/// Blocks of a group of cylinders in which a file starts at random (section 3.2: 100 cylinders of the
/// HP 97560).
const GROUP_BLOCKS: u32 = 8550;

/// References up to which the fetches of optimal replacement are computed beside an online policy.
const OPTIMUM_REFERENCES: u64 = 1 << 27;

/// Requests that the queue of a simulated disk may hold.
const QUEUE_LIMIT: usize = 1 << 22;

/// When an advisory engine gives a prefetch up.
const FETCH_TIMEOUT: Nanos = Nanos(10_000_000_000);

/// Runs one cell on references in memory.
///
/// # Errors
/// When the input does not fit the machine; see [`SimError`].
pub fn simulate(cell: &Cell, input: &Input) -> Result<Outcome, SimError> {
    simulate_tapped(cell, input, None)
}

/// The same, with everything that the engine is told shown to `tap`. Where the best configuration of reverse
/// aggressive is searched there are many engines, and nothing is shown.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_tapped(cell: &Cell, input: &Input, tap: Option<Box<dyn Tap>>) -> Result<Outcome, SimError> {
    let run = match (cell.policy, cell.reverse) {
        (PolicyName::Planner(Prefetch::ReverseAggressive), None) => reverse::best(cell, input)?,
        (_, reverse) => run(cell, input, reverse, tap)?,
    };
    let mut outcome = outcome(cell, &input.survey, &run);
    if input.references() <= OPTIMUM_REFERENCES {
        let optimum = input.optimum(cell.cache_blocks);
        outcome.distinct_blocks = Some(optimum.distinct_blocks);
        outcome.demand_opt_fetches = Some(optimum.fetches);
        let least_driver_ns = optimum.fetches * cell.driver_ns;
        let least_ns = (run.totals.compute_ns + least_driver_ns) / u64::from(cell.processors.max(1));
        outcome.lower_bound_s = Some(least_ns as f64 / 1e9);
    }
    Ok(outcome)
}

/// Runs one cell of an online policy on a trace with one process, reading it as it goes: memory does not
/// grow with the number of references. What needs the future (the optimum, the lower bound) is left out. Everything
/// that the engine is told is shown to `tap`.
///
/// # Errors
/// As [`simulate`]; what the reader meets; a policy that is not online.
pub fn simulate_streamed(
    cell: &Cell,
    survey: &Survey,
    reader: impl TraceReader,
    block_bytes: NonZeroU32,
    tap: Option<Box<dyn Tap>>,
) -> Result<Outcome, SimError> {
    if cell.policy.discloses() {
        return Err(SimError::NotOnline { policy: cell.policy });
    }
    let failed: RefCell<Option<TraceError>> = RefCell::new(None);
    let mut blocks = Blocks::new(reader, block_bytes);
    let references = std::iter::from_fn(|| {
        loop {
            match blocks.next()? {
                Ok(r) if r.write => {}
                Ok(r) => {
                    return Some(InputReference { file: r.file, block: r.block, compute_ns: r.compute_ns });
                }
                Err(e) => {
                    failed.replace(Some(e));
                    return None;
                }
            }
        }
    });
    let (mut engine, hardware) = equip(cell, survey, tap)?;
    let actors = enrol(cell, &mut engine, 1)?.into_iter().zip([references]);
    let actors = actors.map(|(enrolled, references)| Actor { enrolled, references }).collect();
    let Finished { totals, ends_ns, engine, advised } =
        Machine::new(engine, hardware, actors, Vec::new()).run()?;
    match failed.take() {
        Some(e) => Err(e.into()),
        None => Ok(outcome(cell, survey, &Run { totals, ends_ns, engine, advised, reverse: None })),
    }
}

/// What a machine leaves.
pub(crate) struct Run {
    pub(crate) totals: Totals,
    /// When each process ended.
    ends_ns: Vec<u64>,
    engine: Engine,
    advised: Option<Advised>,
    pub(crate) reverse: Option<Reverse>,
}

/// The engine and the disks of a cell, with the files known to both.
fn equip(cell: &Cell, survey: &Survey, tap: Option<Box<dyn Tap>>) -> Result<(Engine, Hardware), SimError> {
    if cell.cache_blocks == 0 {
        return Err(SimError::NoCache);
    }
    let sector_bytes = cell.device.sector_bytes();
    let block_sectors = cell.block_bytes / sector_bytes;
    if block_sectors == 0 || !cell.block_bytes.is_multiple_of(sector_bytes) {
        return Err(SimError::Sectors { block_bytes: cell.block_bytes, sector_bytes });
    }
    let layouts = lay_out(cell, survey, u64::from(block_sectors))?;
    let mut engine = Engine::new(configure(cell));
    engine.set_tap(tap);
    for (layout, &blocks) in layouts.iter().zip(&survey.file_blocks) {
        let file = engine.add_file(layout.clone())?;
        engine.set_file_length(file, blocks);
    }
    let demand_first = match (cell.demand_first, cell.promote) {
        (false, _) => DemandFirst::Never,
        (true, false) => DemandFirst::Overtake,
        (true, true) => DemandFirst::Promote,
    };
    let options =
        Options { discipline: cell.discipline, demand_first, queue_limit: QUEUE_LIMIT, seed: cell.seed };
    let hardware = Hardware {
        disks: (0..u64::from(cell.disks))
            .map(|d| Device::with_options(&cell.device, Options { seed: cell.seed ^ d, ..options }))
            .collect(),
        block_sectors,
        layouts,
        driver_ns: cell.driver_ns,
        processors: cell.processors,
        cpu_speed: cell.cpu_speed,
        control: cell.control.clone(),
        kernel: cell.advisory.map(|advisory| {
            Kernel::new(cell.cache_blocks, engine.config().readahead_blocks, advisory.faults)
        }),
        file_blocks: survey.file_blocks.clone(),
        promotes: demand_first == DemandFirst::Promote,
        reports_times: engine.config().wants_times(),
    };
    Ok((engine, hardware))
}

pub(crate) fn run(
    cell: &Cell,
    input: &Input,
    reverse: Option<Reverse>,
    tap: Option<Box<dyn Tap>>,
) -> Result<Run, SimError> {
    let (mut engine, hardware) = equip(cell, &input.survey, tap)?;
    let reverse = reverse.filter(|_| cell.policy == PolicyName::Planner(Prefetch::ReverseAggressive));
    let enrolled = enrol(cell, &mut engine, input.processes.len())?;
    let control = cell.control.as_deref();
    let given = control.and_then(|control| control.list.as_ref());
    let mut feeds: Vec<Feed> = Vec::new();
    for (process, (references, enrolled)) in input.processes.iter().zip(&enrolled).enumerate() {
        let manager = enrolled.manager;
        let hints = cell.hints_by_process.get(process).unwrap_or(&cell.hints);
        if !cell.policy.discloses() || feeds.iter().any(|f| f.manager == manager) {
            continue;
        }
        let mut list = match given {
            Some(list) => list.clone(),
            None => hints.disclosed(&input.survey, references, cell.seed ^ ((process as u64) << 32)),
        };
        if let Some(control) = control {
            list.retain(|block| control.manages(block.file.0));
        }
        let lookahead = hints.lookahead.map_or(usize::MAX, |n| n as usize);
        let mut feed = Feed { manager, list, fed: 0, lookahead };
        if let Some(reverse) = reverse {
            feed.fed = engine.disclose(Nanos(0), manager, &feed.list);
            engine.set_schedule(manager, reverse.fetch_references, reverse.batch);
        }
        feeds.push(feed);
    }
    feeds.retain(|f| f.fed < f.list.len());
    let actors = enrolled.into_iter().zip(&input.processes);
    let actors =
        actors.map(|(enrolled, process)| Actor { enrolled, references: process.iter().copied() }).collect();
    let Finished { totals, ends_ns, engine, advised } =
        Machine::new(engine, hardware, actors, feeds).run()?;
    let processor_ns = totals.elapsed_ns * u64::from(cell.processors.max(1));
    debug_assert_eq!(processor_ns, totals.compute_ns + totals.driver_ns + totals.stall_ns);
    Ok(Run { totals, ends_ns, engine, advised, reverse })
}

fn outcome(cell: &Cell, survey: &Survey, run: &Run) -> Outcome {
    let Run { totals, ends_ns, engine, advised, reverse } = run;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let counters = engine.counters();
    let estimated = engine.counterfactual();
    let horizon = match cell.policy {
        PolicyName::Planner(Prefetch::FixedHorizon)
        | PolicyName::Planner(Prefetch::Forestall)
        | PolicyName::Planner(Prefetch::Informed) => Some(engine.config().fixed_horizon()),
        _ => cell.horizon,
    };
    Outcome {
        workload: survey.source.clone(),
        policy: cell.policy,
        disks: cell.disks,
        device: cell.device_name.clone(),
        processors: cell.processors.max(1),
        cache_blocks: cell.cache_blocks,
        batch: engine.config().batch,
        horizon,
        schedule: cell.discipline.name().to_owned(),
        seed: cell.seed,
        references: survey.references,
        distinct_blocks: None,
        fetches: totals.fetches,
        wasted_fetches: counters.prefetches_wasted,
        late_fetches: counters.prefetches_late,
        elapsed_s: seconds(totals.elapsed_ns),
        compute_s: seconds(totals.compute_ns),
        driver_s: seconds(totals.driver_ns),
        stall_s: seconds(totals.stall_ns),
        mean_fetch_ms: totals.fetch_ns as f64 / 1e6 / totals.fetches.max(1) as f64,
        utilization: totals.busy_ns as f64 / totals.elapsed_ns.max(1) as f64 / f64::from(cell.disks),
        demand_opt_fetches: None,
        lower_bound_s: None,
        vs_linux: None,
        estimated_linux_s: estimated.map(|c| seconds(c.elapsed.0)),
        estimated_linux_stall_s: estimated.map(|c| seconds(c.stall.0)),
        advised: *advised,
        model: survey.model,
        elapsed_ns: totals.elapsed_ns,
        compute_ns: totals.compute_ns,
        driver_ns: totals.driver_ns,
        stall_ns: totals.stall_ns,
        ends_ns: ends_ns.clone(),
        reverse: *reverse,
    }
}

/// The configuration of a cell's engine.
#[must_use]
pub fn configure(cell: &Cell) -> Config {
    let mut config = Config::new(cell.cache_blocks);
    config.prefetch = cell.policy.prefetch();
    config.batch = cell.batch.size(cell.disks);
    config.horizon = cell.horizon;
    config.disks = cell.disks;
    config.driver = Nanos(cell.driver_ns);
    config.processors = cell.processors.max(1);
    config.readahead_blocks = (cell.readahead_bytes / cell.block_bytes.max(1)).max(1);
    config.allocation = cell.allocation;
    config.beside = cell.beside;
    if cell.advisory.is_some() {
        config.residency = Residency::Advisory;
        // A fetch whose end was not seen is given up, as in the live plane.
        config.fetch_timeout = Some(FETCH_TIMEOUT);
        // The live plane does not ask for the machine beside.
        config.beside = Beside::Nothing;
    }
    config.revocation = cell.revocation;
    // The driver's queue orders requests; the policy hands them over as they will be referenced.
    config.order = Order::Fcfs;
    config.limits.disclosed_blocks = u32::MAX;
    // What is published is told all of its future.
    config.limits.held_ahead = u32::MAX;
    config.limits.files = u32::MAX;
    config.limits.file_records_per_manager = u32::MAX;
    config
}

/// Files that are the only one start at the beginning of the array, others at a random block of the first
/// group, as in section 3.2, or behind each other where they do not fit that way.
fn lay_out(cell: &Cell, survey: &Survey, block_sectors: u64) -> Result<Vec<Layout>, SimError> {
    let capacity_blocks = cell.device.capacity_sectors() / block_sectors;
    let blocks: u64 = survey.file_blocks.iter().map(|&b| u64::from(b)).sum();
    let longest = survey.file_blocks.iter().copied().max().unwrap_or(0);
    let array_blocks = capacity_blocks * u64::from(cell.disks);
    let one = survey.file_blocks.len() <= 1;
    let in_groups = u64::from(longest) + u64::from(GROUP_BLOCKS) <= array_blocks;
    if (one || !in_groups) && blocks > array_blocks {
        let (disks, block_bytes) = (cell.disks, cell.block_bytes);
        return Err(SimError::DoesNotFit { blocks, block_bytes, disks, capacity_blocks });
    }
    let mut random = SplitMix(cell.seed ^ 0x6c61_796f_7574);
    let mut next = 0u64;
    Ok(survey
        .file_blocks
        .iter()
        .map(|&length| {
            let base = match (one, in_groups) {
                (true, _) => 0,
                (false, true) => u64::from(random.below(GROUP_BLOCKS)),
                (false, false) => next,
            };
            next += u64::from(length);
            Layout::Striped { disks: cell.disks, unit: cell.stripe_blocks, base }
        })
        .collect())
}
