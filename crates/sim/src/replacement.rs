//! Replacement alone, without devices and without time: how many fetches a demand-fetching policy makes.
//!
//! The engine of the live planes counts, with a plane whose fetches take no time, so that rules, allocation
//! and pools mean what they mean there. Memory grows with blocks and not with references. Optimal replacement
//! needs all references ([`foretell_policy::belady_fetches`]).

use foretell_policy::{Action, Block, Engine, FileId, Layout, Nanos, belady_fetches};
use foretell_trace::TraceError;

use crate::cell::Cell;
use crate::control::{Enrolled, enrol};
use crate::error::SimError;
use crate::input::{Input, Survey};
use crate::outcome::Outcome;
use crate::policy::PolicyName;
use crate::run::configure;

/// What `--device none` calls itself in results.
pub const NO_DEVICE: &str = "none";

/// An engine whose fetches take no time.
struct Counting<'a> {
    cell: &'a Cell,
    engine: Engine,
    processes: Vec<Enrolled>,
    fetches: u64,
}

impl Counting<'_> {
    fn new<'a>(cell: &'a Cell, survey: &Survey) -> Result<Counting<'a>, SimError> {
        let mut engine = Engine::new(configure(cell));
        for _ in &survey.file_blocks {
            engine.add_file(Layout::Unknown)?;
        }
        let processes = enrol(cell, &mut engine, survey.processes.max(1))?;
        Ok(Counting { cell, engine, processes, fetches: 0 })
    }

    #[inline]
    fn reference(&mut self, process: usize, file: u32, block: u32) {
        let Enrolled { process, kernel, .. } = self.processes[process];
        let process = match (kernel, &self.cell.control) {
            (Some(kernel), Some(control)) if !control.manages(file) => kernel,
            _ => process,
        };
        self.engine.access(Nanos(0), process, Block::new(FileId(file), block));
        while let Some(action) = self.engine.poll_action() {
            if let Action::Fetch { block, .. } = action {
                self.fetches += 1;
                self.engine.tell(Nanos(0), foretell_policy::Input::Loaded { block, by: None });
            }
        }
    }
}

fn checked(cell: &Cell) -> Result<(), SimError> {
    match cell.policy {
        _ if cell.cache_blocks == 0 => Err(SimError::NoCache),
        policy if policy.fetches_on_demand() => Ok(()),
        policy => Err(SimError::NeedsDevice { policy }),
    }
}

/// Counts the fetches of a demand-fetching policy on references in memory, the processes by turns.
///
/// # Errors
/// A policy that prefetches, a cache of no blocks, more files or levels than the policy's tables hold.
pub fn replace_only(cell: &Cell, input: &Input) -> Result<Outcome, SimError> {
    checked(cell)?;
    let fetches = match cell.policy {
        PolicyName::Optimal => belady_fetches(&input.dense(), cell.cache_blocks),
        _ => {
            let mut counting = Counting::new(cell, &input.survey)?;
            let longest = input.processes.iter().map(Vec::len).max().unwrap_or(0);
            for i in 0..longest {
                for (process, references) in input.processes.iter().enumerate() {
                    if let Some(r) = references.get(i) {
                        counting.reference(process, r.file, r.block);
                    }
                }
            }
            counting.fetches
        }
    };
    Ok(Outcome::of_replacement(cell, &input.survey, fetches, input.compute_ns()))
}

/// The same on a stream of the references of one process (file, block, compute time in ns), for all but optimal replacement.
///
/// # Errors
/// As [`replace_only`], and optimal replacement; what the stream meets.
pub fn replace_only_streamed(
    cell: &Cell,
    survey: &Survey,
    references: impl Iterator<Item = Result<(u32, u32, u64), TraceError>>,
) -> Result<Outcome, SimError> {
    checked(cell)?;
    if cell.policy == PolicyName::Optimal {
        return Err(SimError::NotOnline { policy: cell.policy });
    }
    let mut counting = Counting::new(cell, survey)?;
    let mut all_compute_ns = 0u64;
    for reference in references {
        let (file, block, compute_ns) = reference?;
        all_compute_ns = all_compute_ns.saturating_add(compute_ns);
        counting.reference(0, file, block);
    }
    Ok(Outcome::of_replacement(cell, survey, counting.fetches, all_compute_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::DeviceParameters;
    use foretell_policy::PoolPolicy;

    fn fetches(references: &[u32], cache_blocks: u32, policy: PolicyName) -> u64 {
        let device = DeviceParameters::uniform(0.0, u64::MAX);
        let cell = Cell::new(policy, 1, NO_DEVICE, device, cache_blocks);
        let survey = Survey { file_blocks: vec![8], ..Survey::default() };
        let stream = references.iter().map(|&block| Ok((0, block, 0)));
        replace_only_streamed(&cell, &survey, stream).unwrap().fetches
    }

    #[test]
    fn two_passes_over_four_blocks_with_room_for_three() {
        let references = [0, 1, 2, 3, 0, 1, 2, 3];
        assert_eq!(fetches(&references, 3, PolicyName::Demand(PoolPolicy::Lru)), 8);
        // MRU gives up 2 for 3, finds 0 and 1, gives up 1 for 2, and finds 3.
        assert_eq!(fetches(&references, 3, PolicyName::Demand(PoolPolicy::Mru)), 5);
        assert_eq!(fetches(&references, 1, PolicyName::Demand(PoolPolicy::Lru)), 8);
        assert_eq!(fetches(&references, 4, PolicyName::Demand(PoolPolicy::Mru)), 4);
    }
}
