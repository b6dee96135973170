//! Replacement alone, without devices and without time: how many fetches a demand-fetching policy makes.
//!
//! The fast path for long traces. Blocks are dense numbers; the recency list is a doubly linked one in an
//! array indexed by them, 8 bytes a block, so memory grows with blocks and not with references. Optimal
//! replacement needs all references ([`foretell_policy::belady_fetches`]). Counts are those of the engine.

use foretell_policy::{
    Action, Block, Config, Engine, Event, FileId, Layout, Nanos, PoolPolicy, ProcessId, belady_fetches,
};
use foretell_trace::TraceError;

use crate::cell::Cell;
use crate::input::{Input, Numbers, Survey};
use crate::outcome::Outcome;
use crate::policy::PolicyName;
use crate::run::SimError;

/// What `--device none` calls itself in results.
pub const NO_DEVICE: &str = "none";

/// Not in the list.
const ABSENT: u32 = u32::MAX;
/// The end of the list.
const END: u32 = u32::MAX - 1;

#[derive(Debug, Clone, Copy)]
struct Links {
    older: u32,
    newer: u32,
}

/// LRU or MRU on dense block numbers.
struct RecencyCache {
    links: Vec<Links>,
    oldest: u32,
    newest: u32,
    used: u32,
    cache_blocks: u32,
    /// The most recently used block goes first.
    mru: bool,
    fetches: u64,
}

impl RecencyCache {
    fn new(cache_blocks: u32, mru: bool) -> RecencyCache {
        RecencyCache { links: Vec::new(), oldest: END, newest: END, used: 0, cache_blocks, mru, fetches: 0 }
    }

    #[inline]
    fn reference(&mut self, block: u32) {
        if block == self.newest {
            return;
        }
        if block as usize >= self.links.len() {
            self.links.resize(block as usize + 1, Links { older: ABSENT, newer: ABSENT });
        }
        if self.links[block as usize].older == ABSENT {
            self.fetches += 1;
            if self.used == self.cache_blocks {
                let victim = if self.mru { self.newest } else { self.oldest };
                self.unlink(victim);
                self.links[victim as usize].older = ABSENT;
            } else {
                self.used += 1;
            }
        } else {
            self.unlink(block);
        }
        self.links[block as usize] = Links { older: self.newest, newer: END };
        match self.newest {
            END => self.oldest = block,
            newest => self.links[newest as usize].newer = block,
        }
        self.newest = block;
    }

    #[inline]
    fn unlink(&mut self, block: u32) {
        let Links { older, newer } = self.links[block as usize];
        match older {
            END => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            END => self.newest = older,
            newer => self.links[newer as usize].older = older,
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

/// A cache that counts its fetches: with links of its own for the two simplest policies, which are many
/// times as fast so, else the engine's.
enum Counted {
    Recency(RecencyCache),
    Engine(Box<EngineCache>),
}

impl Counted {
    fn new(cell: &Cell) -> Result<Counted, SimError> {
        let recency = |mru| Ok(Counted::Recency(RecencyCache::new(cell.cache_blocks, mru)));
        match cell.policy.replacement() {
            None | Some(PoolPolicy::Lru) => recency(false),
            Some(PoolPolicy::Mru) => recency(true),
            Some(policy) => Ok(Counted::Engine(Box::new(EngineCache::new(cell.cache_blocks, policy)?))),
        }
    }

    #[inline]
    fn reference(&mut self, block: u32) {
        match self {
            Counted::Recency(cache) => cache.reference(block),
            Counted::Engine(cache) => cache.reference(block),
        }
    }

    fn fetches(&self) -> u64 {
        match self {
            Counted::Recency(cache) => cache.fetches,
            Counted::Engine(cache) => cache.engine.counters().demand_fetches,
        }
    }
}

/// The engine with one process, whose fetches take no time.
struct EngineCache {
    engine: Engine,
    process: ProcessId,
    file: FileId,
}

impl EngineCache {
    fn new(cache_blocks: u32, policy: PoolPolicy) -> Result<EngineCache, SimError> {
        let mut engine = Engine::new(Config::new(cache_blocks));
        let manager = engine.add_manager(true)?;
        let process = engine.add_process(manager);
        let file = engine.add_file(Layout::Unknown)?;
        engine.set_policy(manager, 0, policy)?;
        Ok(EngineCache { engine, process, file })
    }

    fn reference(&mut self, block: u32) {
        self.engine.access(Nanos(0), self.process, Block::new(self.file, block));
        while let Some(action) = self.engine.poll_action() {
            if let Action::Fetch { block, .. } = action {
                self.engine.handle(Nanos(0), Event::Loaded { block, by: None });
            }
        }
    }
}

/// Counts the fetches of a demand-fetching policy on references in memory.
///
/// # Errors
/// A policy that prefetches, a cache of no blocks.
pub fn replace_only(cell: &Cell, input: &Input) -> Result<Outcome, SimError> {
    checked(cell)?;
    let dense = input.dense();
    let fetches = match cell.policy {
        PolicyName::DemandOpt => belady_fetches(&dense, cell.cache_blocks),
        _ => {
            let mut cache = Counted::new(cell)?;
            for block in dense {
                cache.reference(block);
            }
            cache.fetches()
        }
    };
    Ok(Outcome::of_replacement(cell, &input.survey, fetches, input.compute_ns()))
}

/// The same on a stream of references (file, block, compute time in ns), for all but optimal replacement.
///
/// # Errors
/// As [`replace_only`], and optimal replacement; what the stream meets.
pub fn replace_only_streamed(
    cell: &Cell,
    survey: &Survey,
    references: impl Iterator<Item = Result<(u32, u32, u64), TraceError>>,
) -> Result<Outcome, SimError> {
    checked(cell)?;
    if cell.policy == PolicyName::DemandOpt {
        return Err(SimError::NotOnline { policy: cell.policy });
    }
    let mut cache = Counted::new(cell)?;
    let mut numbers = Numbers::new(&survey.file_blocks);
    let mut all_compute_ns = 0u64;
    for reference in references {
        let (file, block, compute_ns) = reference?;
        all_compute_ns = all_compute_ns.saturating_add(compute_ns);
        cache.reference(numbers.of(file, block));
    }
    Ok(Outcome::of_replacement(cell, survey, cache.fetches(), all_compute_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetches(references: &[u32], cache_blocks: u32, mru: bool) -> u64 {
        let mut cache = RecencyCache::new(cache_blocks, mru);
        for &block in references {
            cache.reference(block);
        }
        cache.fetches
    }

    #[test]
    fn two_passes_over_four_blocks_with_room_for_three() {
        let references = [0, 1, 2, 3, 0, 1, 2, 3];
        assert_eq!(fetches(&references, 3, false), 8);
        // MRU gives up 2 for 3, finds 0 and 1, gives up 1 for 2, and finds 3.
        assert_eq!(fetches(&references, 3, true), 5);
        assert_eq!(fetches(&references, 1, false), 8);
        assert_eq!(fetches(&references, 4, true), 4);
    }
}
