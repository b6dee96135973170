//! Lists beside each other take frames from each other, and let go: also if a fetch takes no time, as one does of what the
//! kernel has kept.
#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Action, Block, Config, Engine, FileId, Input, Layout, Nanos, Prefetch, ProcessId, Residency,
};
use foretell_testkit::{seeded, workload};
use proptest::prelude::*;

/// Fetches and evictions that one input may lead to, in a cache of at most [`CACHE`] blocks: each list may fill the cache
/// once, and a cycle has no end.
const ACTIONS: usize = 1000;
const CACHE: u32 = 8;

struct Scene {
    engine: Engine,
    file: FileId,
    /// By list.
    readers: Vec<ProcessId>,
}

impl Scene {
    /// Each list is that of a process of its own: of one manager, or each of another one.
    fn new(config: Config, lists: &[Vec<u32>], one_manager: bool) -> Scene {
        let mut engine = Engine::new(config);
        let file = engine.add_file(Layout::Unknown).unwrap();
        let mut scene = Scene { engine, file, readers: Vec::new() };
        let first = scene.engine.add_manager(true).unwrap();
        for (i, list) in lists.iter().enumerate() {
            let manager = if one_manager || i == 0 { first } else { scene.engine.add_manager(true).unwrap() };
            let number = if one_manager { i as u32 } else { 0 };
            let process = scene.engine.add_process(manager);
            let blocks: Vec<Block> = list.iter().map(|&index| Block::new(file, index)).collect();
            scene.tell(Input::Disclosed { manager, list: number, blocks: &blocks });
            scene.tell(Input::ReaderAssigned { process, list: number });
            scene.readers.push(process);
        }
        scene
    }

    fn tell(&mut self, input: Input<'_>) {
        self.engine.tell(Nanos(0), input);
        self.perform();
    }

    fn access(&mut self, reader: usize, index: u32) {
        self.engine.access(Nanos(0), self.readers[reader], Block::new(self.file, index));
        self.perform();
    }

    fn perform(&mut self) {
        let mut actions = 0;
        while let Some(action) = self.engine.poll_action() {
            actions += 1;
            assert!(actions < ACTIONS, "lists take the same frames from each other for ever: {action:?}");
            let input = match action {
                Action::Fetch { block, .. } => Input::Loaded { block, by: None },
                Action::Evict { block } => Input::Gone { block },
                Action::CancelPrefetches { .. } => continue,
            };
            self.engine.tell(Nanos(0), input);
        }
    }
}

fn planners() -> impl Strategy<Value = Prefetch> {
    prop::sample::select(vec![
        Prefetch::Informed,
        Prefetch::Forestall,
        Prefetch::FixedHorizon,
        Prefetch::Aggressive,
        Prefetch::ControlledAggressive,
    ])
}

proptest! {
    #![proptest_config(seeded(2000))]

    #[test]
    fn each_input_comes_to_an_end(
        prefetch in planners(),
        cache_blocks in 1..=CACHE,
        residency in prop::sample::select(vec![Residency::Exact, Residency::Advisory]),
        lists in prop::collection::vec(workload::references(12, 30), 2..5),
        one_manager: bool,
        turns in prop::collection::vec(0..4_usize, 60),
    ) {
        let mut scene = Scene::new(
            Config { prefetch, residency, ..Config::new(cache_blocks) }, &lists, one_manager);
        let mut read = vec![0; lists.len()];
        for turn in turns {
            let reader = turn % lists.len();
            if let Some(&index) = lists[reader].get(read[reader]) {
                read[reader] += 1;
                scene.access(reader, index);
            }
        }
    }
}

/// Each list names next what the other one names last: found with four readers of the same files in other orders.
#[test]
fn a_block_that_another_list_needs_now_makes_no_room() {
    let lists = [vec![0, 2, 3, 4, 1], vec![1, 5, 6, 7, 0]];
    for prefetch in [Prefetch::Informed, Prefetch::Forestall, Prefetch::Aggressive, Prefetch::FixedHorizon] {
        let mut scene = Scene::new(Config { prefetch, ..Config::new(1) }, &lists, true);
        scene.access(0, 0);
        scene.access(1, 1);
    }
}
