//! Small files on a disk with an arm, read in no order, and memory for a part of them: what a sweep of the disk brings.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use foretell_policy::{
    Access, Action, Block, Config, DiskId, Engine, Extent, FileId, Input, Layout, ManagerId, Nanos, Prefetch,
    ProcessId, Reason, Residency,
};

const STRIDE: u64 = 8192;
/// A movement of the arm, and the time to read a block.
const MOVEMENT_NS: u64 = 8_000_000;
const BLOCK_NS: u64 = 80_000;
/// What the arm reads in the time of a movement.
const REACH_BLOCKS: u32 = 64;
/// Blocks of a request at most.
const REQUEST_BLOCKS: u64 = 512;
/// Of a reference.
const COMPUTE_NS: u64 = 100_000;

/// A disk that serves requests in sweeps.
struct Disk {
    /// What waits, by place.
    waiting: BTreeMap<u64, Block>,
    /// What is being read, and when that will be there.
    under_way: Option<(u64, Vec<Block>)>,
    head: u64,
    /// Blocks between two that are read along with them.
    gap_blocks: u64,
    movements: u64,
    read: u64,
}

impl Disk {
    fn new(gap_blocks: u64) -> Disk {
        Disk { waiting: BTreeMap::new(), under_way: None, head: 0, gap_blocks, movements: 0, read: 0 }
    }

    /// Begins what comes next along the disk.
    fn begin(&mut self, now: u64) {
        if self.under_way.is_some() || self.waiting.is_empty() {
            return;
        }
        let first = self.waiting.range(self.head..).next().or(self.waiting.first_key_value());
        let first = *first.unwrap().0;
        let moves = first != self.head;
        let (mut blocks, mut end) = (vec![self.waiting.remove(&first).unwrap()], first + 1);
        while let Some((&place, _)) = self.waiting.range(end..).next()
            && place - end <= self.gap_blocks
            && place + 1 - first <= REQUEST_BLOCKS
        {
            blocks.push(self.waiting.remove(&place).unwrap());
            end = place + 1;
        }
        self.movements += u64::from(moves);
        self.read += end - first;
        self.head = end;
        self.under_way = Some((now + u64::from(moves) * MOVEMENT_NS + (end - first) * BLOCK_NS, blocks));
    }

    /// Somebody waits for a block: it is read by itself, after what is under way.
    fn demand(&mut self, place: u64) -> u64 {
        self.waiting.remove(&place);
        self.movements += 1;
        self.read += 1;
        self.head = place + 1;
        MOVEMENT_NS + BLOCK_NS
    }
}

struct Job {
    engine: Engine,
    process: ProcessId,
    places: Vec<u64>,
    now: u64,
    disk: Disk,
}

impl Job {
    fn drain(&mut self) -> Option<Block> {
        let mut demanded = None;
        while let Some(action) = self.engine.poll_action() {
            match action {
                Action::Fetch { block, reason: Reason::Prefetch, .. } => {
                    self.disk.waiting.insert(self.places[block.file.0 as usize], block);
                }
                Action::Fetch { block, reason: Reason::Demand, .. } => demanded = Some(block),
                Action::Evict { block } => _ = self.engine.tell(Nanos(self.now), Input::Gone { block }),
                Action::CancelPrefetches { .. } => {}
            }
        }
        self.disk.begin(self.now);
        demanded
    }

    /// What the disk has done by now.
    fn serve(&mut self, until: u64) {
        while let Some((at, _)) = self.disk.under_way
            && at <= until
        {
            let (at, blocks) = self.disk.under_way.take().unwrap();
            self.now = self.now.max(at);
            for block in blocks {
                self.engine.tell(Nanos(at), Input::Loaded { block, by: None });
            }
            self.drain();
        }
        self.now = self.now.max(until);
    }
}

/// What a run took.
#[derive(Debug, Clone, Copy)]
struct Took {
    elapsed_ns: u64,
    movements: u64,
    /// Blocks read, those of gaps as well.
    read: u64,
}

/// Reads files of a block each in an order that is known, and `cache` of them fit into memory.
fn run(order: &[u64], cache: u32, gap_blocks: u64, batch: u32) -> Took {
    let files = order.iter().max().unwrap() + 1;
    let config =
        Config { prefetch: Prefetch::Informed, batch, residency: Residency::Advisory, ..Config::new(cache) };
    let mut engine = Engine::new(config);
    let manager: ManagerId = engine.add_manager(true).unwrap();
    let process = engine.add_process(manager);
    engine.tell(Nanos(0), Input::DiskArm { disk: DiskId(0), reach_blocks: REACH_BLOCKS });
    engine.tell(Nanos(0), Input::DiskBatch { disk: DiskId(0), batch });
    for _ in 0..100 {
        engine.tell(Nanos(0), Input::Served { disk: DiskId(0), access: Nanos(800_000) });
        engine.tell(Nanos(0), Input::Computed { process, compute: Nanos(COMPUTE_NS) });
    }
    let mut places = Vec::new();
    let ids: Vec<FileId> = (0..files)
        .map(|at| {
            places.push(at);
            let extent =
                Extent { first_block: 0, blocks: 1, address: at * STRIDE, stride: STRIDE, disk: DiskId(0) };
            engine.add_file(Layout::Extents(vec![extent])).unwrap()
        })
        .collect();
    let list: Vec<Block> = order.iter().map(|&at| Block::new(ids[at as usize], 0)).collect();
    engine.tell(Nanos(0), Input::ListsOpen { manager, open: true });
    engine.tell(Nanos(0), Input::Disclosed { manager, list: 0, blocks: &list });
    engine.tell(Nanos(0), Input::ListsOpen { manager, open: false });
    let mut job = Job { engine, process, places, now: 0, disk: Disk::new(gap_blocks) };
    job.drain();
    for &block in &list {
        job.serve(job.now + COMPUTE_NS);
        let found = job.engine.access(Nanos(job.now), job.process, block);
        job.drain();
        let place = job.places[block.file.0 as usize];
        match found {
            Access::Hit => {}
            Access::InFlight if job.disk.under_way.as_ref().is_some_and(|(_, b)| b.contains(&block)) => {
                let at = job.disk.under_way.as_ref().unwrap().0;
                job.serve(at);
            }
            Access::InFlight | Access::Miss => {
                let at = job.disk.under_way.as_ref().map_or(job.now, |(at, _)| *at);
                job.serve_without_next(at);
                let at = job.now + job.disk.demand(place);
                job.now = at;
                job.engine.tell(Nanos(at), Input::Loaded { block, by: Some(job.process) });
                job.drain();
            }
        }
        job.engine.tell(Nanos(job.now), Input::Computed { process, compute: Nanos(COMPUTE_NS) });
    }
    Took { elapsed_ns: job.now, movements: job.disk.movements, read: job.disk.read }
}

impl Job {
    /// As serve, but somebody's demand comes before what waits.
    fn serve_without_next(&mut self, at: u64) {
        if let Some((_, blocks)) = self.disk.under_way.take() {
            self.now = self.now.max(at);
            for block in blocks {
                self.engine.tell(Nanos(at), Input::Loaded { block, by: None });
            }
        }
    }
}

#[test]
fn a_sweep_for_all_that_is_needed_next_brings_it_in_little_more_time_than_one_for_a_part() {
    let files = 6000;
    let scattered: Vec<u64> = (0..files).map(|at| at * 7919 % files).collect();
    let gap_blocks = u64::from(REACH_BLOCKS) * 3 / 4;
    for cache in [4200, 2000] {
        let [alone, a_quarter, all] = [(0, cache / 4), (gap_blocks, cache / 4), (gap_blocks, cache)]
            .map(|(gap_blocks, batch)| run(&scattered, cache, gap_blocks, batch));
        // What lies between is read along: much more is read, and the arm moves much less.
        assert!(a_quarter.movements < alone.movements / 3, "{cache}: {a_quarter:?}, {alone:?}");
        assert!(a_quarter.elapsed_ns < alone.elapsed_ns / 2, "{cache}: {a_quarter:?}, {alone:?}");
        // The less memory there is, the more a larger part of it gains.
        assert!(all.movements < a_quarter.movements, "{cache}: {all:?}, {a_quarter:?}");
        let most_ns = if cache < 3000 { a_quarter.elapsed_ns * 3 / 4 } else { a_quarter.elapsed_ns };
        assert!(all.elapsed_ns < most_ns, "{cache}: {all:?}, {a_quarter:?}");
    }
}

#[test]
fn what_lies_in_sequence_is_read_again_more_often_by_a_large_batch() {
    let blocks = 3000;
    let sequential: Vec<u64> = (0..3 * blocks).map(|at| at % blocks).collect();
    let [a_quarter, all] = [500, 2000].map(|batch| run(&sequential, 2000, 48, batch));
    assert!(a_quarter.movements < 10 && all.movements < 10, "{a_quarter:?}, {all:?}");
    assert!(a_quarter.read < all.read, "{a_quarter:?}, {all:?}");
}
