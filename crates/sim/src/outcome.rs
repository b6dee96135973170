//! What one cell of a sweep gives.

use serde::Serialize;

use crate::cell::{Cell, Reverse};
use crate::input::Survey;
use crate::kernel::Advised;
use crate::policy::PolicyName;

/// Result of one simulation. Times in seconds, blocks in blocks of the input.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// What was replayed.
    pub workload: String,
    /// The policy.
    pub policy: PolicyName,
    /// Number of disks.
    pub disks: u16,
    /// The device.
    pub device: String,
    /// Processors of the machine.
    pub processors: u16,
    /// Blocks of the cache.
    pub cache_blocks: u32,
    /// Prefetches a batch.
    pub batch: u32,
    /// Horizon in references, if there is one.
    pub horizon: Option<u32>,
    /// Discipline of the disks' queues.
    pub schedule: String,
    /// Seed of the workload and the layout.
    pub seed: u64,
    /// Block references.
    pub references: u64,
    /// Blocks referenced at least once; `None` if they were not counted.
    pub distinct_blocks: Option<u64>,
    /// Fetches, on demand and ahead.
    pub fetches: u64,
    /// Blocks prefetched and replaced before their use.
    pub wasted_fetches: u64,
    /// Prefetches whose reference had to wait.
    pub late_fetches: u64,
    /// Elapsed time. Times the processors it is the sum of the next three, which are those of all processors together.
    pub elapsed_s: f64,
    /// Compute time of the processes.
    pub compute_s: f64,
    /// Processor time of the fetches.
    pub driver_s: f64,
    /// Time in which processors had nothing to do: they waited for data, or there were fewer processes than processors.
    pub stall_s: f64,
    /// Mean time from the start of a fetch at its disk to its completion, in ms.
    pub mean_fetch_ms: f64,
    /// Share of the elapsed time in which a disk was busy, mean over the disks.
    pub utilization: f64,
    /// Fetches of optimal replacement without prefetching; `None` if it was not computed.
    pub demand_opt_fetches: Option<u64>,
    /// No schedule can be faster: compute time plus the processor time of the fewest possible fetches, shared out to the
    /// processors.
    pub lower_bound_s: Option<f64>,
    /// Elapsed time over that of Linux (LRU and its readahead) with the same cache and array; `None` if that was not
    /// run.
    pub vs_linux: Option<f64>,
    /// What Linux would take, as it was estimated beside this policy without running it; `None` unless asked for.
    pub estimated_linux_s: Option<f64>,
    /// The stall time in that.
    pub estimated_linux_stall_s: Option<f64>,
    /// What the kernel did by itself in an advisory plane; `None` in an exact one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advised: Option<Advised>,
    /// The order of the references is a guess from a description; only totals are the published ones.
    pub model: bool,
    /// Elapsed time in ns: times the processors, exactly the sum of the next three.
    #[serde(skip)]
    pub elapsed_ns: u64,
    /// Compute time in ns.
    #[serde(skip)]
    pub compute_ns: u64,
    /// Driver time in ns.
    #[serde(skip)]
    pub driver_ns: u64,
    /// Stall time in ns.
    #[serde(skip)]
    pub stall_ns: u64,
    /// When each process ended, in ns; empty where no machine was simulated.
    #[serde(skip)]
    pub ends_ns: Vec<u64>,
    /// With what reverse aggressive made its schedule.
    #[serde(skip)]
    pub reverse: Option<Reverse>,
}

impl Outcome {
    /// The outcome of counting fetches without a device: processes only compute.
    pub(crate) fn of_replacement(cell: &Cell, survey: &Survey, fetches: u64, compute_ns: u64) -> Outcome {
        let compute_s = compute_ns as f64 / 1e9;
        Outcome {
            workload: survey.source.clone(),
            policy: cell.policy,
            disks: cell.disks,
            device: cell.device_name.clone(),
            processors: 1,
            cache_blocks: cell.cache_blocks,
            batch: cell.batch.size(cell.disks),
            horizon: None,
            schedule: cell.discipline.name().to_owned(),
            seed: cell.seed,
            references: survey.references,
            distinct_blocks: None,
            fetches,
            wasted_fetches: 0,
            late_fetches: 0,
            elapsed_s: compute_s,
            compute_s,
            driver_s: 0.0,
            stall_s: 0.0,
            mean_fetch_ms: 0.0,
            utilization: 0.0,
            demand_opt_fetches: (cell.policy == PolicyName::Optimal).then_some(fetches),
            lower_bound_s: None,
            vs_linux: None,
            estimated_linux_s: None,
            estimated_linux_stall_s: None,
            advised: None,
            model: survey.model,
            elapsed_ns: compute_ns,
            compute_ns,
            driver_ns: 0,
            stall_ns: 0,
            ends_ns: Vec::new(),
            reverse: None,
        }
    }
}
