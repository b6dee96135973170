//! The runs that the claims ask for: each one made once, in parallel.

use std::collections::{BTreeMap, BTreeSet};

use foretell_device::{Discipline, catalogue};
use foretell_trace::{DEFAULT_BLOCK_BYTES, Workload};

use super::Finding;
use crate::cell::{Batch, Cell, Reverse};
use crate::error::SimError;
use crate::input::Input;
use crate::outcome::Outcome;
use crate::policy::PolicyName;
use crate::run::simulate;
use crate::sweep::in_parallel;

/// The seed of compute times, layouts and models.
pub(super) const SEED: u64 = 1;

/// The drive of the paper.
const DEVICE: &str = "hp97560";

/// The arrays of section 3.
pub(super) const ARRAYS: [u16; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16];

/// One run. Whole numbers only, so that runs can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) workload: Named,
    pub(super) policy: PolicyName,
    pub(super) disks: u16,
    pub(super) batch: Batch,
    pub(super) horizon: Option<u32>,
    /// The paper's for the workload if `None`.
    pub(super) cache_blocks: Option<u32>,
    pub(super) fcfs: bool,
    /// Speed of the processor in per cent of the paper's.
    pub(super) cpu_percent: u32,
    /// F in tenths of a reference, and the batch of the reversed schedule.
    pub(super) reverse: Option<(u32, u32)>,
}

/// A workload of the paper, by name.
pub(super) type Named = &'static str;

impl Run {
    /// With the settings of section 4.3.
    pub(super) fn new(workload: Named, policy: PolicyName, disks: u16) -> Run {
        Run {
            workload,
            policy,
            disks,
            batch: Batch::Paper,
            horizon: None,
            cache_blocks: None,
            fcfs: false,
            cpu_percent: 100,
            reverse: None,
        }
    }

    fn cell(self, workload: &Workload, device: &foretell_device::DeviceParameters) -> Cell {
        let cache_blocks = workload.published().map_or(1280, |p| p.cache_blocks);
        let cache_blocks = self.cache_blocks.unwrap_or(cache_blocks);
        let mut cell = Cell::new(self.policy, self.disks, DEVICE, device.clone(), cache_blocks);
        cell.batch = self.batch;
        cell.horizon = self.horizon;
        cell.discipline = if self.fcfs { Discipline::Fcfs } else { Discipline::Cscan };
        cell.cpu_speed = f64::from(self.cpu_percent) / 100.0;
        cell.reverse =
            self.reverse.map(|(tenths, batch)| Reverse { fetch_references: f64::from(tenths) / 10.0, batch });
        cell.seed = SEED;
        cell
    }
}

/// Something that the paper says: the runs that show it, and how they are judged.
pub(super) struct Claim {
    pub(super) runs: Vec<Run>,
    pub(super) judge: Box<dyn Fn(&Runs) -> Finding>,
}

/// What the runs gave.
pub(super) struct Runs(BTreeMap<Run, Outcome>);

impl Runs {
    /// Makes all runs of the claims.
    pub(super) fn of(
        claims: &[Claim],
        jobs: usize,
        begun: impl FnOnce(usize),
        done: impl Fn() + Sync,
    ) -> Result<Runs, SimError> {
        let runs: Vec<Run> =
            claims.iter().flat_map(|c| &c.runs).copied().collect::<BTreeSet<_>>().into_iter().collect();
        begun(runs.len());
        let device = catalogue::find(DEVICE).map_err(|_| SimError::Stuck)?;
        let mut inputs: BTreeMap<Named, (Workload, Input)> = BTreeMap::new();
        for run in &runs {
            if !inputs.contains_key(run.workload)
                && let Ok(workload) = run.workload.parse::<Workload>()
            {
                let mut input = Input::read(workload.open(SEED), DEFAULT_BLOCK_BYTES)?;
                input.survey.model = workload.is_model();
                inputs.insert(run.workload, (workload, input));
            }
        }
        let outcomes = in_parallel(
            &runs,
            jobs,
            |run| {
                let (workload, input) = inputs.get(run.workload).ok_or(SimError::Stuck)?;
                simulate(&run.cell(workload, &device), input)
            },
            |_| done(),
        );
        let outcomes: Result<Vec<Outcome>, SimError> = outcomes.into_iter().collect();
        Ok(Runs(runs.into_iter().zip(outcomes?).collect()))
    }

    /// What a run gave. Claims only ask for runs that they have named.
    pub(super) fn get(&self, run: Run) -> &Outcome {
        &self.0[&run]
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Outcome> {
        self.0.values()
    }
}
