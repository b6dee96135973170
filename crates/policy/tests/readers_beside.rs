//! Several processes that read beside each other, each by a list of its own, and now one is quicker and now another: no frame goes
//! to and fro between their lists.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use foretell_policy::{
    Access, Action, Block, Config, DiskId, Engine, FileId, Input, Layout, Nanos, Prefetch, ProcessId, Reason,
    Residency,
};

/// Blocks of each file.
const FILE: u32 = 600;
/// What a process reads at a time.
const PIECE: u32 = 16;

/// A device that serves one block for each that is referenced, in the order in which they were asked for.
struct Plane {
    engine: Engine,
    under_way: VecDeque<Block>,
    fetched: usize,
    now: Nanos,
}

impl Plane {
    /// Takes the policy's actions.
    fn perform(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Fetch { block, reason: Reason::Prefetch, .. } => self.under_way.push_back(block),
                Action::Fetch { block, reason: Reason::Demand, .. } => self.load(block),
                Action::Evict { block } => _ = self.engine.tell(self.now, Input::Gone { block }),
                Action::CancelPrefetches { .. } => {}
            }
        }
    }

    fn load(&mut self, block: Block) {
        self.fetched += 1;
        self.engine.tell(self.now, Input::Loaded { block, by: None });
        self.engine.tell(self.now, Input::Served { disk: DiskId(0), access: Nanos(100_000) });
    }

    /// A block is read.
    fn access(&mut self, process: ProcessId, block: Block) {
        self.now.0 += 100_000;
        let found = self.engine.access(self.now, process, block);
        self.perform();
        if found != Access::Hit {
            // The process reads it itself, and what was asked for is there already when it comes.
            self.under_way.retain(|&other| other != block);
            self.fetched += 1;
            self.engine.tell(self.now, Input::Loaded { block, by: Some(process) });
            self.perform();
        } else if let Some(block) = self.under_way.pop_front() {
            self.load(block);
            self.perform();
        }
        self.engine.tell(self.now, Input::Computed { process, compute: Nanos(50_000) });
    }
}

/// Each of the readers reads files of its own, and then those of the next one; `cache_blocks` fit. How often a block is fetched,
/// how often in vain, and the fewest fetches.
fn fetched(readers: u32, cache_blocks: u32, seed: u64) -> (usize, u64, usize) {
    let config =
        Config { prefetch: Prefetch::Informed, residency: Residency::Advisory, ..Config::new(cache_blocks) };
    let mut engine = Engine::new(config);
    let manager = engine.add_manager(true).unwrap();
    let files: Vec<FileId> = (0..readers).map(|_| engine.add_file(Layout::Unknown).unwrap()).collect();
    let list_of = |reader: u32| -> Vec<Block> {
        let passes = [reader, (reader + 1) % readers].into_iter();
        passes
            .flat_map(|file| (0..FILE).map(move |index| (file, index)))
            .map(|(file, index)| Block::new(files[file as usize], index))
            .collect()
    };
    let lists: Vec<Vec<Block>> = (0..readers).map(list_of).collect();
    let mut plane = Plane { engine, under_way: VecDeque::new(), fetched: 0, now: Nanos(0) };
    let mut processes = Vec::new();
    for (list, blocks) in (0..).zip(&lists) {
        let process = plane.engine.add_process(manager);
        plane.engine.tell(plane.now, Input::Disclosed { manager, list, blocks });
        plane.engine.tell(plane.now, Input::ReaderAssigned { process, list });
        processes.push(process);
        plane.perform();
    }
    let (mut read, mut order, mut random) = (vec![0; lists.len()], Vec::new(), seed);
    while read.iter().any(|&read| read < lists[0].len()) {
        // Knuth's MMIX generator.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let reader = (random >> 33) as usize % lists.len();
        for _ in 0..PIECE {
            let Some(&block) = lists[reader].get(read[reader]) else { break };
            plane.access(processes[reader], block);
            order.push(block);
            read[reader] += 1;
        }
    }
    let trace: Vec<u64> =
        order.iter().map(|block| u64::from(block.file.0) << 32 | u64::from(block.index)).collect();
    let wasted = plane.engine.counters().prefetches_wasted;
    (plane.fetched, wasted, fewest(&trace, cache_blocks as usize))
}

/// Misses of optimal replacement (Belady 1966).
fn fewest(trace: &[u64], cache: usize) -> usize {
    let mut next = vec![usize::MAX; trace.len()];
    let mut last = std::collections::HashMap::new();
    for (at, block) in trace.iter().enumerate().rev() {
        next[at] = last.insert(block, at).unwrap_or(usize::MAX);
    }
    let (mut cached, mut misses) = (std::collections::BTreeMap::new(), 0);
    let mut by_use = std::collections::BTreeSet::new();
    for (at, block) in trace.iter().enumerate() {
        match cached.remove(block) {
            Some(used) => _ = by_use.remove(&(used, *block)),
            None => {
                misses += 1;
                if cached.len() == cache {
                    let (_, far) = by_use.pop_last().unwrap();
                    cached.remove(&far);
                }
            }
        }
        cached.insert(*block, next[at]);
        by_use.insert((next[at], *block));
    }
    misses
}

#[test]
fn no_frame_goes_to_and_fro() {
    for (readers, cache_blocks) in [(1, 300), (2, 600), (4, 1000), (4, 1600), (8, 2000)] {
        for seed in 1..=3 {
            let (fetched, wasted, fewest) = fetched(readers, cache_blocks, seed);
            let what =
                format!("{readers} readers, memory for {cache_blocks}, seed {seed}: {fetched} of {fewest}");
            assert!(fetched * 100 <= fewest * 115, "{what}");
            assert!(wasted * 25 <= fetched as u64, "{what}, {wasted} in vain");
        }
    }
}
