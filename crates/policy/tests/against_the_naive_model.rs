//! The engine and the naive model of two-level replacement do the same on random operations.

#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Access, Allocation, Block, Config, Engine, FileId, Input, Layout, Limits, ManagerId, PoolPolicy,
    ProcessId,
};
use foretell_testkit::{InstantPlane, NaiveCache, seeded};
use proptest::prelude::*;

const MANAGERS: usize = 3;
const FILES: usize = 3;
const BLOCKS: u32 = 6;

/// What processes, their managers and the machine do.
#[derive(Debug, Clone)]
enum Operation {
    Access { process: usize, file: usize, index: u32 },
    SetPriority { manager: usize, file: usize, priority: i32 },
    SetPolicy { manager: usize, priority: i32, policy: PoolPolicy },
    SetTemporaryPriority { manager: usize, file: usize, first: u32, last: u32, priority: i32 },
    Gone { file: usize, index: u32 },
    Exit { process: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    let manager = 0..MANAGERS;
    // Mostly a file of its own: blocks with an owner are the interesting ones.
    let reference =
        (manager.clone(), 0..FILES, 0..BLOCKS, 0..4u32).prop_map(|(process, file, index, own)| {
            Operation::Access { process, file: if own > 0 { process } else { file }, index }
        });
    let policy = prop_oneof![Just(PoolPolicy::Lru), Just(PoolPolicy::Mru)];
    prop_oneof![
        80 => reference,
        4 => (manager.clone(), 0..FILES, -2..3i32)
            .prop_map(|(manager, file, priority)| Operation::SetPriority { manager, file, priority }),
        6 => (manager.clone(), -2..3i32, policy)
            .prop_map(|(manager, priority, policy)| Operation::SetPolicy { manager, priority, policy }),
        5 => (manager.clone(), 0..FILES, 0..BLOCKS, 0..BLOCKS, -2..3i32).prop_map(|(manager, file, first, last, priority)| {
            Operation::SetTemporaryPriority { manager, file, first, last, priority }
        }),
        3 => (0..FILES, 0..BLOCKS).prop_map(|(file, index)| Operation::Gone { file, index }),
        1 => manager.prop_map(|process| Operation::Exit { process }),
    ]
}

fn allocation() -> impl Strategy<Value = Allocation> {
    prop_oneof![
        4 => Just(Allocation::LruSp),
        1 => Just(Allocation::LruS),
        1 => Just(Allocation::AllocLru),
        1 => Just(Allocation::GlobalLru),
    ]
}

/// The engine in its plane beside the model, with the names of one in terms of the other.
struct Both {
    plane: InstantPlane,
    model: NaiveCache,
    managers: Vec<ManagerId>,
    processes: Vec<ProcessId>,
    files: Vec<FileId>,
    ended: Vec<bool>,
}

impl Both {
    fn new(allocation: Allocation, cache_blocks: u32, placeholders: u32) -> Both {
        let limits = Limits { placeholders, ..Limits::default() };
        let mut engine = Engine::new(Config { allocation, limits, ..Config::new(cache_blocks) });
        let managers: Vec<_> = (0..MANAGERS).map(|_| engine.add_manager(false).unwrap()).collect();
        let processes = managers.iter().map(|&m| engine.add_process(m)).collect();
        let files = (0..FILES).map(|_| engine.add_file(Layout::Unknown).unwrap()).collect();
        Both {
            plane: InstantPlane::new(engine, cache_blocks as usize),
            model: NaiveCache::new(allocation, cache_blocks as usize)
                .with_placeholder_limit(placeholders as usize),
            managers,
            processes,
            files,
            ended: vec![false; MANAGERS],
        }
    }

    fn perform(&mut self, operation: &Operation) {
        let engine = &mut self.plane.engine;
        match *operation {
            Operation::Access { process, file, index } => {
                if !self.ended[process] {
                    let block = Block::new(self.files[file], index);
                    let found = self.plane.access(self.processes[process], block);
                    let expected = self.model.access(self.managers[process], block);
                    assert_eq!(found == Access::Hit, expected.hit);
                    assert_eq!(self.plane.evicted(), expected.replaced.as_slice());
                }
            }
            Operation::SetPriority { manager, file, priority } => {
                if !self.ended[manager] {
                    let (manager, file) = (self.managers[manager], self.files[file]);
                    engine.set_priority(manager, file, priority).unwrap();
                    self.model.set_priority(manager, file, priority);
                    assert_eq!(engine.priority(manager, file), priority);
                }
            }
            Operation::SetPolicy { manager, priority, policy } => {
                if !self.ended[manager] {
                    let manager = self.managers[manager];
                    engine.set_policy(manager, priority, policy).unwrap();
                    self.model.set_policy(manager, priority, policy);
                    assert_eq!(engine.policy(manager, priority), policy);
                }
            }
            Operation::SetTemporaryPriority { manager, file, first, last, priority } => {
                if !self.ended[manager] && first <= last {
                    let (manager, file) = (self.managers[manager], self.files[file]);
                    engine.set_temporary_priority(manager, file, first, last, priority).unwrap();
                    self.model.set_temporary_priority(manager, file, first, last, priority);
                }
            }
            Operation::Gone { file, index } => {
                let block = Block::new(self.files[file], index);
                self.plane.tell(Input::Gone { block });
                self.model.gone(block);
            }
            Operation::Exit { process } => {
                self.plane.tell(Input::ProcessExited { process: self.processes[process] });
                self.model.end_manager(self.managers[process]);
                self.ended[process] = true;
            }
        }
    }

    fn compare(&self) {
        let engine = &self.plane.engine;
        let mut expected = self.model.list().to_vec();
        expected.sort();
        assert_eq!(self.plane.cached().iter().copied().collect::<Vec<_>>(), expected);
        assert_eq!(engine.used_blocks() as usize, expected.len());
        for &file in &self.files {
            for index in 0..BLOCKS {
                let block = Block::new(file, index);
                assert_eq!(engine.is_cached(block), self.model.is_cached(block), "{block:?}");
            }
        }
        assert_eq!(engine.placeholders() as usize, self.model.placeholders());
        for &manager in &self.managers {
            let (counted, expected) =
                (engine.manager_counters(manager), self.model.manager_counters(manager));
            assert_eq!(counted.overruled, expected.overruled);
            assert_eq!(counted.placeholders_used, expected.placeholders_used);
        }
    }
}

proptest! {
    #![proptest_config(seeded(3000))]

    /// After each of up to 200 operations of three managers: the same block found or missed, the same one
    /// replaced, the same blocks cached, the same number of placeholders, the same decisions counted.
    #[test]
    fn agree_on_random_operations(
        allocation in allocation(),
        cache_blocks in 1..12u32,
        placeholders in prop_oneof![4 => Just(1000u32), 1 => 0..4u32],
        operations in prop::collection::vec(operation(), 1..200),
    ) {
        let mut both = Both::new(allocation, cache_blocks, placeholders);
        for operation in &operations {
            both.perform(operation);
            both.compare();
        }
    }
}

/// Blocks that keep the temporary priority of a manager that has ended would not follow their next owner's
/// directives.
#[test]
fn a_temporary_priority_ends_with_its_manager() {
    let mut both = Both::new(Allocation::LruSp, 3, 1000);
    let access = |process, file, index| Operation::Access { process, file, index };
    let all = [
        access(2, 2, 0),
        Operation::SetTemporaryPriority { manager: 2, file: 2, first: 0, last: 0, priority: 0 },
        Operation::Exit { process: 2 },
        access(1, 1, 0),
        access(1, 1, 1),
        // Adopts the block, and says that the file's blocks go first.
        access(1, 2, 0),
        Operation::SetPriority { manager: 1, file: 2, priority: -1 },
        access(1, 1, 2),
    ];
    for operation in &all {
        both.perform(operation);
        both.compare();
    }
}
