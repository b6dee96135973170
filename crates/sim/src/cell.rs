//! One cell of a sweep: a policy, a cache, an array of disks, and the input to run on them.

use foretell_device::{Device, DeviceParameters, Discipline, Options, SubmitError};
use foretell_policy::{Config, Engine, Layout, LimitReached, Order, belady_fetches};
use thiserror::Error;

use crate::hints::{Hints, SplitMix};
use crate::input::Input;
use crate::machine::{Feed, Hardware, Machine, Totals};
use crate::outcome::Outcome;
use crate::policy::PolicyName;

/// Processor time of one fetch (Kimbrel et al. 1996, section 3.1: typical of their machine).
pub const DRIVER_NS: u64 = 500_000;

/// Blocks of a group of cylinders in which a file starts at random (section 3.2: 100 cylinders of the
/// HP 97560).
const GROUP_BLOCKS: u32 = 8550;

/// References up to which the fetches of optimal replacement are computed beside an online policy.
const OPTIMUM_REFERENCES: u64 = 1 << 27;

/// Requests that the queue of a simulated disk may hold.
const QUEUE_LIMIT: usize = 1 << 22;

/// How many prefetches make a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// Table 6 of the paper: 80, 40, 40, 16, 16, 8, 8, 4 for 1 to 8 disks and 4 beyond.
    Paper,
    /// What fits the figures of section 4.2 on synth: 40, 8, 8, 4 for 1 to 4 disks and 4 beyond.
    Fitted,
    /// This many.
    Fixed(u32),
}

impl Batch {
    /// The size for an array of `disks` disks.
    #[must_use]
    pub fn size(self, disks: u16) -> u32 {
        match self {
            Batch::Fixed(size) => size.max(1),
            Batch::Paper => match disks {
                0 | 1 => 80,
                2 | 3 => 40,
                4 | 5 => 16,
                6 | 7 => 8,
                _ => 4,
            },
            Batch::Fitted => match disks {
                0 | 1 => 40,
                2 | 3 => 8,
                _ => 4,
            },
        }
    }
}

/// What to simulate.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The policy.
    pub policy: PolicyName,
    /// Number of disks, at least 1.
    pub disks: u16,
    /// Each of them.
    pub device: DeviceParameters,
    /// Its name.
    pub device_name: String,
    /// Discipline of their queues.
    pub discipline: Discipline,
    /// Blocks of the cache.
    pub cache_blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Batch size.
    pub batch: Batch,
    /// Horizon; the policy's own if `None`.
    pub horizon: Option<u32>,
    /// Blocks of a stripe unit.
    pub stripe_blocks: u32,
    /// How many times as fast the processor is.
    pub cpu_speed: f64,
    /// Processor time of a fetch in ns.
    pub driver_ns: u64,
    /// What is wrong with the hints.
    pub hints: Hints,
    /// F of reverse aggressive in references, and its batch on the reversed list; tried out if `None`.
    pub reverse: Option<(f64, u32)>,
    /// Seed of the layout and of wrong hints.
    pub seed: u64,
}

impl Cell {
    /// A cell with the paper's settings: 8 KiB blocks, one-block stripes, CSCAN, Table 6, 0.5 ms.
    #[must_use]
    pub fn new(
        policy: PolicyName,
        disks: u16,
        device_name: &str,
        device: DeviceParameters,
        cache_blocks: u32,
    ) -> Cell {
        Cell {
            policy,
            disks: disks.max(1),
            device,
            device_name: device_name.to_owned(),
            discipline: Discipline::Cscan,
            cache_blocks,
            block_bytes: 8192,
            batch: Batch::Paper,
            horizon: None,
            stripe_blocks: 1,
            cpu_speed: 1.0,
            driver_ns: DRIVER_NS,
            hints: Hints::default(),
            reverse: None,
            seed: 1,
        }
    }
}

/// Why a cell cannot be simulated.
#[derive(Debug, Error)]
pub enum SimError {
    /// The input has more files than the policy's tables.
    #[error("too many files: {0}")]
    Files(#[from] LimitReached),
    /// The blocks do not fit the disks.
    #[error(
        "{blocks} blocks of {block_bytes} bytes do not fit {disks} disk(s) of {capacity_blocks} blocks each; \
         use more disks or a larger device"
    )]
    DoesNotFit {
        /// Blocks of all files.
        blocks: u64,
        /// Bytes of a block.
        block_bytes: u32,
        /// Disks.
        disks: u16,
        /// Blocks of one disk.
        capacity_blocks: u64,
    },
    /// A block is not a whole number of sectors.
    #[error("a block of {block_bytes} bytes is not a whole number of sectors of {sector_bytes} bytes")]
    Sectors {
        /// Bytes of a block.
        block_bytes: u32,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// A cache of no blocks holds nothing to reference.
    #[error("a cache of 0 blocks cannot hold the block being referenced; use at least 1")]
    NoCache,
    /// A device refused a request.
    #[error(transparent)]
    Device(SubmitError),
    /// A process waits for a block that nobody fetches: a defect of the policy.
    #[error("internal: a process waits for a block that nothing fetches")]
    Stuck,
}

/// Runs one cell.
///
/// # Errors
/// When the input does not fit the machine; see [`SimError`].
pub fn simulate(cell: &Cell, input: &Input) -> Result<Outcome, SimError> {
    let (totals, engine, fetch_references) = match (cell.policy, cell.reverse) {
        (PolicyName::ReverseAggressive, None) => best_reverse(cell, input)?,
        _ => run(cell, input, cell.reverse)?,
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let counters = engine.counters();
    let dense = (input.references() <= OPTIMUM_REFERENCES).then(|| input.dense());
    let demand_opt = dense.as_ref().map(|d| belady_fetches(d, cell.cache_blocks));
    let horizon = match cell.policy {
        PolicyName::FixedHorizon | PolicyName::Forestall => Some(engine.config().fixed_horizon()),
        _ => cell.horizon,
    };
    Ok(Outcome {
        workload: input.source.clone(),
        policy: cell.policy,
        disks: cell.disks,
        device: cell.device_name.clone(),
        cache_blocks: cell.cache_blocks,
        batch: cell.batch.size(cell.disks),
        horizon,
        schedule: cell.discipline.name().to_owned(),
        seed: cell.seed,
        references: counters.references,
        distinct_blocks: dense.as_ref().and_then(|d| d.iter().max()).map_or(0, |&b| u64::from(b) + 1),
        fetches: totals.fetches,
        wasted_fetches: counters.prefetches_wasted,
        late_fetches: counters.prefetches_late,
        elapsed_s: seconds(totals.elapsed_ns),
        compute_s: seconds(totals.compute_ns),
        driver_s: seconds(totals.driver_ns),
        stall_s: seconds(totals.stall_ns),
        mean_fetch_ms: totals.fetch_ns as f64 / 1e6 / totals.fetches.max(1) as f64,
        utilization: totals.busy_ns as f64 / totals.elapsed_ns.max(1) as f64 / f64::from(cell.disks),
        demand_opt_fetches: demand_opt,
        lower_bound_s: demand_opt.map(|f| seconds(totals.compute_ns + f * cell.driver_ns)),
        model: false,
        fetch_references: fetch_references.map(|(f, _)| f),
    })
}

/// Reverse aggressive with the F and the batch that make it fastest: the paper uses it as a yardstick and
/// looks for its best configuration for every trace and array (section 4.4).
fn best_reverse(cell: &Cell, input: &Input) -> Result<Run, SimError> {
    const F_REFERENCES: [f64; 6] = [2.7, 4.9, 8.0, 12.0, 24.0, 48.0];
    const BATCHES: [u32; 3] = [4, 16, 40];
    let mut best: Option<Run> = None;
    for f in F_REFERENCES {
        for batch in BATCHES {
            let run = run(cell, input, Some((f, batch)))?;
            if best.as_ref().is_none_or(|b| run.0.elapsed_ns < b.0.elapsed_ns) {
                best = Some(run);
            }
        }
    }
    best.ok_or(SimError::Stuck)
}

type Run = (Totals, Engine, Option<(f64, u32)>);

fn run(cell: &Cell, input: &Input, reverse: Option<(f64, u32)>) -> Result<Run, SimError> {
    if cell.cache_blocks == 0 {
        return Err(SimError::NoCache);
    }
    let sector_bytes = cell.device.sector_bytes();
    let block_sectors = cell.block_bytes / sector_bytes;
    if block_sectors == 0 || cell.block_bytes % sector_bytes != 0 {
        return Err(SimError::Sectors { block_bytes: cell.block_bytes, sector_bytes });
    }
    let layouts = lay_out(cell, input, u64::from(block_sectors))?;
    let mut engine = Engine::new(configure(cell, input));
    for (layout, &blocks) in layouts.iter().zip(&input.file_blocks) {
        let file = engine.add_file(layout.clone())?;
        engine.set_file_length(file, blocks);
    }
    let options = Options { discipline: cell.discipline, queue_limit: QUEUE_LIMIT, seed: cell.seed };
    let hardware = Hardware {
        disks: (0..u64::from(cell.disks))
            .map(|d| Device::with_options(&cell.device, Options { seed: cell.seed ^ d, ..options }))
            .collect(),
        block_sectors,
        layouts,
        driver_ns: cell.driver_ns,
        cpu_speed: cell.cpu_speed,
        reports_times: cell.policy == PolicyName::Forestall,
    };
    let mut processes = Vec::new();
    let mut feeds = Vec::new();
    for references in &input.processes {
        let manager = engine.add_manager(false)?;
        let process = engine.add_process(manager);
        if let Some(policy) = cell.policy.pool_policy() {
            engine.set_policy(manager, 0, policy)?;
        }
        if cell.policy.discloses() {
            let list = cell.hints.disclosed(input, references, cell.seed);
            let lookahead = cell.hints.lookahead.map_or(usize::MAX, |n| n as usize);
            let mut feed = Feed { manager, list, fed: 0, lookahead };
            if let Some((f, batch)) = reverse.filter(|_| cell.policy == PolicyName::ReverseAggressive) {
                feed.fed = engine.disclose(foretell_policy::Nanos(0), manager, &feed.list);
                engine.set_schedule(manager, f, batch);
            }
            feeds.push(feed);
        }
        processes.push((process, references.as_slice()));
    }
    feeds.retain(|f: &Feed| f.fed < f.list.len());
    let (totals, engine) = Machine::new(engine, hardware, processes.into_iter(), feeds).run()?;
    debug_assert_eq!(totals.elapsed_ns, totals.compute_ns + totals.driver_ns + totals.stall_ns);
    Ok((totals, engine, reverse))
}

fn configure(cell: &Cell, input: &Input) -> Config {
    let mut config = Config::new(cell.cache_blocks);
    config.prefetch = cell.policy.prefetch();
    config.batch = cell.batch.size(cell.disks);
    config.horizon = cell.horizon;
    config.disks = cell.disks;
    // The driver's queue orders requests; the policy hands them over as they will be referenced.
    config.order = Order::Fcfs;
    config.limits.disclosed_blocks = u32::MAX;
    config.limits.files = u32::MAX;
    let longest = input.processes.iter().map(Vec::len).max().unwrap_or(0);
    if cell.policy == PolicyName::DemandOpt || longest == 0 {
        config.distrust = None;
    }
    config
}

/// Files that are the only one start at the beginning of the array, others at a random block of the first
/// group, as in section 3.2, or behind each other where they do not fit that way.
fn lay_out(cell: &Cell, input: &Input, block_sectors: u64) -> Result<Vec<Layout>, SimError> {
    let capacity_blocks = cell.device.capacity_sectors() / block_sectors;
    let blocks: u64 = input.file_blocks.iter().map(|&b| u64::from(b)).sum();
    let longest = input.file_blocks.iter().copied().max().unwrap_or(0);
    let array_blocks = capacity_blocks * u64::from(cell.disks);
    let in_groups = u64::from(longest) + u64::from(GROUP_BLOCKS) <= array_blocks;
    if !in_groups && blocks > array_blocks {
        let (disks, block_bytes) = (cell.disks, cell.block_bytes);
        return Err(SimError::DoesNotFit { blocks, block_bytes, disks, capacity_blocks });
    }
    let mut random = SplitMix(cell.seed ^ 0x6c61_796f_7574);
    let mut next = 0u64;
    let one = input.file_blocks.len() <= 1;
    Ok(input
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
