//! What a strategy should fetch: the policy itself, given the program's references and directives, with
//! fetches that take no time.

use anyhow::{Context, Result};
use foretell_policy::{
    Action, Block, Config, Engine, FileId, Input, Layout, ManagerId, Nanos, PoolPolicy, Prefetch, ProcessId,
    Residency,
};

/// Something that the program does, in terms of its files (numbered from 0) and their blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It reads a block.
    Read(usize, u32),
    /// It writes a block anew, which is in the cache without a fetch, and referenced.
    Write(usize, u32),
    Priority(usize, i32),
    Policy(i32, PoolPolicy),
    TemporaryPriority(usize, u32, i32),
    Disclose(Vec<(usize, u32)>),
}

/// Blocks fetched when one program does this with `cache_blocks` blocks to itself. `files` are the lengths of
/// the files in blocks; `ahead` tells whether what is disclosed is fetched ahead.
pub(crate) fn fetches(cache_blocks: u32, ahead: bool, files: &[u32], deeds: &[Deed]) -> Result<u64> {
    let prefetch = if ahead { Prefetch::ControlledAggressive } else { Prefetch::None };
    // Advisory, as live: blocks that are written are there without having been asked for.
    let config = Config { residency: Residency::Advisory, prefetch, ..Config::new(cache_blocks) };
    let mut world = World::new(config, files)?;
    for deed in deeds {
        world.perform(deed);
    }
    Ok(world.fetches)
}

struct World {
    engine: Engine,
    manager: ManagerId,
    process: ProcessId,
    files: Vec<FileId>,
    now: Nanos,
    fetches: u64,
}

impl World {
    fn new(config: Config, lengths: &[u32]) -> Result<Self> {
        let mut engine = Engine::new(config);
        let manager = engine.add_manager(true).context("no room for a manager")?;
        let process = engine.add_process(manager);
        let mut files = Vec::new();
        for length in lengths {
            let file = engine.add_file(Layout::Unknown).context("no room for a file")?;
            engine.set_file_length(file, *length);
            files.push(file);
        }
        Ok(Self { engine, manager, process, files, now: Nanos(0), fetches: 0 })
    }

    fn perform(&mut self, deed: &Deed) {
        self.now = Nanos(self.now.0 + 1);
        let block = |file: usize, index: u32| Block::new(self.files[file], index);
        let manager = self.manager;
        // Limits, which directives may meet, are not met by these strategies.
        match deed {
            Deed::Read(file, index) => {
                let (block, process) = (block(*file, *index), self.process);
                if !self.engine.is_cached(block) {
                    self.fetches += 1;
                    self.tell(Input::Loaded { block, by: Some(process) });
                }
                self.tell(Input::Accessed { process, block, stalled: false });
            }
            Deed::Write(file, index) => {
                let (block, process) = (block(*file, *index), self.process);
                self.tell(Input::Loaded { block, by: Some(process) });
                self.tell(Input::Accessed { process, block, stalled: false });
            }
            Deed::Priority(file, priority) => {
                let _ = self.engine.set_priority(manager, self.files[*file], *priority);
            }
            Deed::Policy(priority, policy) => {
                let _ = self.engine.set_policy(manager, *priority, *policy);
            }
            Deed::TemporaryPriority(file, index, priority) => {
                let file = self.files[*file];
                let _ = self.engine.set_temporary_priority(manager, file, *index, *index, *priority);
            }
            Deed::Disclose(list) => {
                let blocks: Vec<Block> = list.iter().map(|(file, index)| block(*file, *index)).collect();
                self.engine.disclose(self.now, manager, &blocks);
            }
        }
        self.act();
    }

    fn tell(&mut self, input: Input<'_>) {
        self.engine.tell(self.now, input);
        self.act();
    }

    /// Does at once what the engine asks for.
    fn act(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            let answer = match action {
                Action::Fetch { block, .. } => {
                    self.fetches += 1;
                    Input::Loaded { block, by: None }
                }
                Action::Evict { block } => Input::Gone { block },
                Action::CancelPrefetches { .. } => continue,
            };
            self.engine.tell(self.now, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(blocks: u32, count: usize) -> Vec<Deed> {
        (0..count).flat_map(|_| (0..blocks).map(|index| Deed::Read(0, index))).collect()
    }

    #[test]
    fn a_cycle_under_lru_fetches_all_and_under_mru_what_does_not_fit() {
        assert_eq!(fetches(50, false, &[100], &passes(100, 3)).unwrap(), 300);
        let mut deeds = vec![Deed::Policy(0, PoolPolicy::Mru)];
        deeds.extend(passes(100, 3));
        let mru = fetches(50, false, &[100], &deeds).unwrap();
        assert!((200..=202).contains(&mru), "100 + 50 + 50, but for the block being read: {mru}");
    }

    #[test]
    fn what_is_disclosed_is_fetched_once_while_it_fits() {
        let mut deeds = vec![Deed::Disclose((0..40).map(|index| (0, index)).collect())];
        deeds.extend(passes(40, 1));
        assert_eq!(fetches(50, true, &[40], &deeds).unwrap(), 40);
    }

    #[test]
    fn what_was_written_is_there() {
        let deeds = [Deed::Write(0, 3), Deed::Read(0, 3), Deed::Read(0, 4)];
        assert_eq!(fetches(10, false, &[10], &deeds).unwrap(), 1);
    }
}
