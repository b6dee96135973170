//! What goes along with a block that is fetched from a disk with an arm.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use foretell_policy::{
    Action, Block, Config, DiskId, Engine, Extent, FileId, Input, Layout, ManagerId, Nanos, Prefetch,
    ProcessId,
};

const STRIDE: u64 = 8192;

struct Job {
    engine: Engine,
    manager: ManagerId,
    process: ProcessId,
    now: Nanos,
}

impl Job {
    fn new(cache_blocks: u32, batch: u32, reach_blocks: u32) -> Job {
        let config = Config { prefetch: Prefetch::Informed, batch, ..Config::new(cache_blocks) };
        let mut engine = Engine::new(config);
        let manager = engine.add_manager(true).unwrap();
        let process = engine.add_process(manager);
        engine.tell(Nanos(0), Input::DiskArm { disk: DiskId(0), reach_blocks });
        for _ in 0..100 {
            engine.tell(Nanos(0), Input::Served { disk: DiskId(0), access: Nanos(8_000_000) });
            engine.tell(Nanos(0), Input::Computed { process, compute: Nanos(10_000) });
        }
        Job { engine, manager, process, now: Nanos(0) }
    }

    /// A file of so many blocks at a place, in blocks.
    fn file(&mut self, at: u64, blocks: u32) -> FileId {
        let address = at * STRIDE;
        let extent = Extent { first_block: 0, blocks, address, stride: STRIDE, disk: DiskId(0) };
        self.engine.add_file(Layout::Extents(vec![extent])).unwrap()
    }

    fn disclose(&mut self, blocks: &[Block]) -> Vec<Block> {
        self.engine.tell(self.now, Input::Disclosed { manager: self.manager, list: 0, blocks });
        self.fetched()
    }

    fn fetched(&mut self) -> Vec<Block> {
        let actions = std::iter::from_fn(|| self.engine.poll_action());
        let fetch = |action| if let Action::Fetch { block, .. } = action { Some(block) } else { None };
        actions.filter_map(fetch).collect()
    }
}

#[test]
fn the_example_of_the_header() {
    for (reach_blocks, along) in [(8, 4), (2, 3), (0, 1)] {
        let mut job = Job::new(64, 1, reach_blocks);
        let [a, b, x, d, e] = [(10, 1), (11, 2), (14, 2), (16, 1), (90, 1)].map(|(at, n)| job.file(at, n));
        let c = job.file(13, 1);
        let list = [(a, 0), (e, 0), (c, 0), (b, 0), (b, 1), (d, 0)].map(|(file, at)| Block::new(file, at));
        let fetched: BTreeSet<Block> = job.disclose(&list).into_iter().collect();
        let blocks =
            |all: &[(FileId, u32)]| all.iter().map(|&(f, at)| Block::new(f, at)).collect::<BTreeSet<_>>();
        let expected = [(a, 0), (b, 0), (b, 1), (c, 0)];
        // What is within the horizon is fetched as well, each with its neighbours.
        assert!(fetched.is_superset(&blocks(&expected[..along])), "{reach_blocks}: {fetched:?}");
        assert!(!fetched.contains(&Block::new(x, 0)), "nobody named it");
    }
}

/// Files of one block each, which lie one behind the other and are read in no order. Told a few at a time; `are_open`: that more
/// comes is said.
fn scattered(files: u64, reach_blocks: u32, are_open: bool) -> (u64, u64) {
    let mut job = Job::new(2 * files as u32, 64, reach_blocks);
    let ids: Vec<FileId> = (0..files).map(|at| job.file(at, 1)).collect();
    let order: Vec<u64> = (0..files).map(|at| at * 7919 % files).collect();
    let list: Vec<Block> = order.iter().map(|&at| Block::new(ids[at as usize], 0)).collect();
    job.engine.tell(job.now, Input::ListsOpen { manager: job.manager, open: are_open });
    let mut fetched: Vec<Block> = list.chunks(64).flat_map(|some| job.disclose(some)).collect();
    assert!(!are_open || fetched.is_empty(), "what goes along is not known yet: {fetched:?}");
    job.engine.tell(job.now, Input::ListsOpen { manager: job.manager, open: false });
    fetched.extend(job.fetched());
    let (mut movements, mut all, mut head) = (0, 0, u64::MAX);
    for &block in &list {
        // A sweep takes what has been asked for in the order of the places.
        let mut places: Vec<u64> = fetched.iter().map(|block| u64::from(block.file.0)).collect();
        places.sort_unstable();
        for place in places {
            movements += u64::from(place != head.wrapping_add(1));
            head = place;
            all += 1;
        }
        for block in std::mem::take(&mut fetched) {
            job.engine.tell(job.now, Input::Loaded { block, by: None });
            fetched.extend(job.fetched());
        }
        job.now.0 += 10_000;
        job.engine.access(job.now, job.process, block);
        fetched.extend(job.fetched());
    }
    (movements, all)
}

#[test]
fn small_files_in_no_order_take_a_movement_for_many() {
    let files = 4000;
    let (alone, _) = scattered(files, 0, false);
    let (along, all) = scattered(files, 64, false);
    assert!(alone > files / 2, "{alone}");
    assert!(along < alone / 8, "{along} movements, and {alone} without");
    assert!(all <= files, "each at most once: {all}");
    // Files side by side within reach, and what is left between such runs, which is less.
    let (told, all) = scattered(files, 64, true);
    assert!(
        told <= 2 * files / 64 && told < along,
        "{told} movements, and {along} where nobody says that more comes"
    );
    assert_eq!(all, files);
}

#[test]
fn lists_that_stay_open_hold_nothing_up_where_there_is_no_arm() {
    let mut job = Job::new(64, 4, 0);
    let file = job.file(0, 16);
    job.engine.tell(job.now, Input::ListsOpen { manager: job.manager, open: true });
    assert!(!job.disclose(&[Block::new(file, 0), Block::new(file, 9)]).is_empty());
    // Nor does a manager that does not exist.
    let gone = ManagerId(job.manager.0 + 1);
    for open in [true, false] {
        job.engine.tell(job.now, Input::ListsOpen { manager: gone, open });
    }
}

#[test]
fn nothing_goes_along_where_it_would_take_the_place_of_what_is_needed_sooner() {
    // Room for four, and the list goes on in another place first.
    let mut job = Job::new(4, 4, 64);
    let (near, far) = (job.file(0, 64), job.file(1000, 64));
    let mut list = vec![Block::new(near, 0)];
    list.extend((0..20).map(|at| Block::new(far, at)));
    list.extend((1..64).map(|at| Block::new(near, at)));
    let fetched = job.disclose(&list);
    assert!(fetched.len() <= 4, "{fetched:?}");
    for block in fetched {
        job.engine.tell(job.now, Input::Loaded { block, by: None });
    }
    // Each that is needed next comes before its use, so that what went along was not at its expense for long.
    let mut misses = 0;
    for &block in &list[..21] {
        job.now.0 += 10_000;
        misses += u32::from(job.engine.access(job.now, job.process, block) == foretell_policy::Access::Miss);
        for block in job.fetched() {
            job.engine.tell(job.now, Input::Loaded { block, by: None });
        }
    }
    assert!(misses <= 1, "{misses}");
}

#[test]
fn what_was_there_before_is_not_taken_for_what_is_there_now() {
    let mut job = Job::new(400, 8, 64);
    for round in 0..20 {
        // Each time other files in the same place, of which a few are listed.
        let files: Vec<FileId> = (0..100).map(|at| job.file(at, 1)).collect();
        let list: Vec<Block> =
            (0..100).filter(|at| at * 7 % 10 <= round % 10).map(|at| Block::new(files[at], 0)).collect();
        let mut fetched = job.disclose(&list);
        assert!(
            !fetched.is_empty() && fetched.iter().all(|block| list.contains(block)),
            "{round}: {fetched:?}"
        );
        for &block in &list {
            for block in std::mem::take(&mut fetched) {
                job.engine.tell(job.now, Input::Loaded { block, by: None });
            }
            job.now.0 += 10_000;
            job.engine.access(job.now, job.process, block);
            fetched = job.fetched();
            assert!(fetched.iter().all(|block| list.contains(block)), "{round}: {fetched:?}");
        }
        files.iter().for_each(|&file| _ = job.engine.tell(job.now, Input::FileRemoved { file }));
        job.engine.tell(job.now, Input::MemoryReleased);
        job.fetched();
    }
}
