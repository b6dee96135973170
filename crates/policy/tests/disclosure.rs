//! Disclosed lists: how references are matched against them, and what is fetched and replaced because of
//! them (Cao et al. 1996, sections 2.1.3, 2.2 and 4.3).

#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Action, Block, Config, DiskId, Engine, Extent, FileId, Input, Layout, ManagerCounters, ManagerId, Nanos,
    Order, PoolPolicy, Prefetch, ProcessId, Reason,
};
use foretell_testkit::InstantPlane;

/// One manager with one process and one file.
struct Scene {
    plane: InstantPlane,
    manager: ManagerId,
    process: ProcessId,
    file: FileId,
}

impl Scene {
    fn new(config: Config) -> Scene {
        Scene::with_layout(config, Layout::Unknown)
    }

    fn with_layout(config: Config, layout: Layout) -> Scene {
        let cache_blocks = config.cache_blocks as usize;
        let mut engine = Engine::new(config);
        let manager = engine.add_manager(true).unwrap();
        let process = engine.add_process(manager);
        let file = engine.add_file(layout).unwrap();
        Scene { plane: InstantPlane::new(engine, cache_blocks), manager, process, file }
    }

    fn blocks(&self, indices: &[u32]) -> Vec<Block> {
        indices.iter().map(|&index| Block::new(self.file, index)).collect()
    }

    /// Discloses; gives what is fetched on that account.
    fn disclose(&mut self, indices: &[u32]) -> Vec<u32> {
        let list = self.blocks(indices);
        assert_eq!(self.plane.engine.disclose(self.plane.now(), self.manager, &list), list.len());
        self.fetches()
    }

    /// Discloses; what is fetched on that account arrives at once.
    fn disclose_and_fetch(&mut self, indices: &[u32]) {
        let list = self.blocks(indices);
        self.plane.engine.disclose(self.plane.now(), self.manager, &list);
        self.plane.perform();
    }

    /// References blocks; everything that is asked for happens at once.
    fn access(&mut self, indices: &[u32]) {
        for block in self.blocks(indices) {
            self.plane.access(self.process, block);
        }
    }

    /// The prefetches asked for and not done yet.
    fn fetches(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.plane.engine.poll_action())
            .filter_map(|action| match action {
                Action::Fetch { block, reason: Reason::Prefetch, .. } => Some(block.index),
                _ => None,
            })
            .collect()
    }

    fn loaded(&mut self, index: u32) -> Vec<u32> {
        let block = Block::new(self.file, index);
        self.plane.engine.tell(Nanos(1), Input::Loaded { block, by: None });
        self.fetches()
    }

    fn is_cached(&self, index: u32) -> bool {
        self.plane.engine.is_cached(Block::new(self.file, index))
    }

    fn counters(&self) -> ManagerCounters {
        self.plane.engine.manager_counters(self.manager)
    }
}

fn prefetching(cache_blocks: u32) -> Config {
    Config { prefetch: Prefetch::ControlledAggressive, ..Config::new(cache_blocks) }
}

// ---- the cursor ----

#[test]
fn a_skipped_prediction_counts_as_having_happened() {
    let mut scene = Scene::new(Config::new(8));
    scene.disclose(&[0, 1, 2, 3]);
    scene.access(&[0, 3]);
    let counters = scene.counters();
    assert_eq!((counters.predicted, counters.skipped, counters.unpredicted), (2, 2, 0));
    assert_eq!(scene.plane.engine.disclosed_ahead(scene.manager), 0);
}

#[test]
fn one_reference_far_off_does_not_move_the_cursor() {
    let mut scene = Scene::new(Config::new(8));
    scene.disclose(&(0..1000).map(|i| i * 7 % 1000).collect::<Vec<_>>());
    scene.access(&[500 * 7 % 1000]);
    assert_eq!(scene.plane.engine.disclosed_ahead(scene.manager), 1000);
    scene.access(&[0, 7, 14]);
    assert_eq!(scene.plane.engine.disclosed_ahead(scene.manager), 997);
}

#[test]
fn a_reader_that_comes_late_is_waited_for_from_then_on() {
    let mut scene = Scene::new(Config { free_margin: 0, ..prefetching(8) });
    scene.disclose_and_fetch(&[0, 10, 1, 11, 2, 12, 3, 13]);
    // Two threads: the second one is a little behind.
    scene.access(&[0, 1, 10, 2, 11, 3]);
    let counters = scene.counters();
    assert_eq!((counters.predicted, counters.unpredicted), (6, 0));
    scene.access(&[99]);
    assert!(scene.is_cached(12) && scene.is_cached(13), "they are to come still");
}

#[test]
fn an_unpredicted_reference_is_an_ordinary_one() {
    let mut scene = Scene::new(Config::new(8));
    scene.disclose(&[0, 1, 2]);
    scene.access(&[0, 7, 1, 2]);
    let counters = scene.counters();
    assert_eq!((counters.predicted, counters.unpredicted, counters.skipped), (3, 1, 0));
    assert!(scene.is_cached(7));
}

/// Block 1 is prefetched and its reference skipped: it goes before anything else, also before blocks that
/// the manager's own policy would give up.
#[test]
fn a_block_that_was_predicted_in_vain_is_flushed_first() {
    let mut scene = Scene::new(Config { free_margin: 0, ..prefetching(4) });
    scene.disclose_and_fetch(&[0, 1, 2, 3]);
    scene.access(&[0, 2, 3]);
    assert!(scene.is_cached(1));
    scene.access(&[9]);
    assert!(!scene.is_cached(1));
    assert_eq!(scene.plane.engine.counters().prefetches_wasted, 1);
}

#[test]
fn a_block_that_is_predicted_again_is_kept() {
    let mut scene = Scene::new(Config { free_margin: 0, ..prefetching(4) });
    scene.disclose_and_fetch(&[0, 1, 2, 1]);
    scene.access(&[0, 2]);
    scene.access(&[8, 9]);
    assert!(scene.is_cached(1), "0 and 2 are not predicted any more, 1 is");
}

// ---- lists that are wrong ----

#[test]
fn a_list_that_explains_nothing_is_dormant_until_it_does() {
    let mut scene = Scene::new(prefetching(8));
    let list: Vec<u32> = (1000..1400).collect();
    scene.disclose_and_fetch(&list);
    assert!(scene.is_cached(1000));
    scene.access(&(0..600).collect::<Vec<_>>());
    assert!(!scene.is_cached(1000), "its blocks are nothing special any more");
    assert_eq!(scene.counters().lists_discarded, 1);
    let before = scene.plane.engine.counters().prefetches;
    scene.access(&list);
    assert!(scene.plane.engine.counters().prefetches > before, "nothing is discarded");
    assert!(scene.counters().predicted > 20, "{:?}", scene.counters());
}

#[test]
fn a_withdrawn_list_leaves_its_blocks_to_the_pools() {
    let mut scene = Scene::new(Config::new(3));
    scene.plane.engine.set_policy(scene.manager, 0, PoolPolicy::Mru).unwrap();
    scene.disclose(&[0, 1, 2, 0, 1, 2]);
    scene.access(&[0, 1, 2]);
    scene.plane.tell(Input::Cancelled { manager: scene.manager });
    scene.access(&[9]);
    assert!(scene.is_cached(0) && scene.is_cached(1) && !scene.is_cached(2), "MRU gives up the last one");
}

// ---- replacement ----

#[test]
fn blocks_beyond_the_list_go_first_and_by_their_pools() {
    let mut scene = Scene::new(Config::new(4));
    scene.plane.engine.set_policy(scene.manager, 0, PoolPolicy::Mru).unwrap();
    scene.access(&[10, 11, 12, 13]);
    scene.disclose(&[10, 20, 21, 10]);
    scene.access(&[10, 20]);
    assert!(!scene.is_cached(13), "the most recently used one of those that are not listed");
    scene.access(&[21]);
    assert!(scene.is_cached(10), "listed");
}

#[test]
fn the_furthest_next_use_goes_when_all_are_listed() {
    let mut scene = Scene::new(Config::new(3));
    scene.disclose(&[0, 1, 2, 3, 1, 0, 3, 2]);
    scene.access(&[0, 1, 2, 3]);
    let cached: Vec<bool> = (0..4).map(|index| scene.is_cached(index)).collect();
    assert_eq!(cached, [true, true, false, true], "2 is needed last");
}

// ---- prefetching ----

#[test]
fn a_batch_is_issued_together_and_the_next_waits_for_all_of_it() {
    let mut scene = Scene::new(Config { batch: 2, ..prefetching(16) });
    assert_eq!(scene.disclose(&[0, 1, 2, 3, 4]), [0, 1]);
    assert_eq!(scene.loaded(0), []);
    assert_eq!(scene.loaded(1), [2, 3]);
    assert_eq!(scene.loaded(3), []);
    assert_eq!(scene.loaded(2), [4]);
}

#[test]
fn a_batch_is_in_the_order_of_physical_addresses() {
    let extent =
        |first_block, address| Extent { first_block, blocks: 1, address, stride: 1, disk: DiskId(0) };
    let layout = Layout::Extents(vec![extent(0, 70), extent(1, 30), extent(2, 50)]);
    for (order, expected) in [(Order::Ascending, [1, 2, 0]), (Order::Fcfs, [0, 1, 2])] {
        let mut scene = Scene::with_layout(Config { order, ..prefetching(16) }, layout.clone());
        assert_eq!(scene.disclose(&[0, 1, 2]), expected);
    }
}

#[test]
fn the_margin_of_free_blocks_is_left_alone() {
    // Ten frames are free, four must be left.
    let mut scene = Scene::new(prefetching(10));
    assert_eq!(scene.disclose(&(0..20).collect::<Vec<_>>()), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn nothing_is_prefetched_beyond_the_horizon() {
    let mut scene = Scene::new(Config { horizon: Some(3), ..prefetching(100) });
    assert_eq!(scene.disclose(&(0..20).collect::<Vec<_>>()), [0, 1, 2]);
}

#[test]
fn a_prefetch_that_does_not_come_is_given_up() {
    let config = Config { fetch_timeout: Some(Nanos(50)), ..prefetching(16) };
    let mut scene = Scene::new(config);
    assert_eq!(scene.disclose(&[0]), [0]);
    let engine = &mut scene.plane.engine;
    assert_eq!(engine.poll_timeout(), Some(Nanos(50)));
    engine.handle_timeout(Nanos(49));
    assert_eq!(engine.used_blocks(), 1);
    engine.handle_timeout(Nanos(50));
    assert_eq!((engine.used_blocks(), engine.poll_timeout()), (0, None));
}

#[test]
fn late_useful_and_wasted_prefetches_are_told_apart() {
    let mut scene = Scene::new(Config { free_margin: 0, ..prefetching(4) });
    scene.disclose(&[0, 1, 2]);
    let engine = &mut scene.plane.engine;
    let block = |index| Block::new(scene.file, index);
    engine.access(Nanos(1), scene.process, block(0));
    for index in 0..3 {
        engine.tell(Nanos(2), Input::Loaded { block: block(index), by: None });
    }
    engine.access(Nanos(3), scene.process, block(1));
    engine.tell(Nanos(4), Input::Gone { block: block(2) });
    let counters = engine.counters();
    assert_eq!(
        (counters.prefetches, counters.prefetches_late),
        (4, 1),
        "2 is missing again, and fetched again"
    );
    assert_eq!((counters.prefetches_useful, counters.prefetches_wasted), (1, 1));
}

/// 0 to 599 were not seen: what follows is explained by no nearer place.
#[test]
fn a_cursor_that_lost_its_place_finds_it_again() {
    let mut scene = Scene::new(Config::new(8));
    // Runs of 10 blocks, scattered.
    let list: Vec<u32> = (0..100).flat_map(|run| (0..10).map(move |i| run * 37 % 100 * 100 + i)).collect();
    scene.disclose(&list);
    scene.access(&list[600..]);
    assert_eq!(scene.plane.engine.disclosed_ahead(scene.manager), 0);
    assert!(scene.counters().unpredicted < 100, "{:?}", scene.counters());
}

/// What would go in their place is a listed block, which is the next hole at once.
#[test]
fn blocks_that_wait_for_their_first_use_are_no_room_for_a_prefetch() {
    for prefetch in [Prefetch::Informed, Prefetch::Forestall, Prefetch::Aggressive] {
        let residency = foretell_policy::Residency::Advisory;
        let mut scene = Scene::new(Config { prefetch, residency, ..prefetching(16) });
        let (now, process) = (scene.plane.now(), scene.process);
        // Seven of the sixteen frames: read ahead by the kernel, and named by no list.
        for block in scene.blocks(&(100..107).collect::<Vec<u32>>()) {
            scene.plane.engine.tell(now, Input::Loaded { block, by: Some(process) });
        }
        let list = scene.blocks(&(0..20).collect::<Vec<u32>>());
        scene.plane.engine.disclose(now, scene.manager, &list);
        let mut fetched = Vec::new();
        while let Some(action) = scene.plane.engine.poll_action() {
            match action {
                Action::Fetch { block, .. } => {
                    fetched.push(block.index);
                    scene.plane.engine.tell(now, Input::Loaded { block, by: None });
                }
                Action::Evict { block } => {
                    scene.plane.engine.tell(now, Input::Gone { block });
                }
                Action::CancelPrefetches { .. } => {}
            }
            assert!(fetched.len() < 100, "{prefetch}: {fetched:?}");
        }
        assert!(fetched.len() <= 9 && fetched.is_sorted(), "{prefetch}: {fetched:?}");
    }
}

#[test]
fn what_is_fetched_ahead_and_never_used_is_limited_by_credit() {
    // Blocks that nothing ever references, of another file than the one that is read.
    let config = Config { prefetch: Prefetch::Informed, batch: 8, ..Config::new(8192) };
    let mut scene = Scene::new(config);
    let other = scene.plane.engine.add_file(Layout::Unknown).unwrap();
    for _ in 0..200 {
        let now = scene.plane.now();
        scene.plane.engine.tell(now, Input::Served { disk: DiskId(0), access: Nanos(10_000_000) });
        scene.plane.engine.tell(now, Input::Computed { process: scene.process, compute: Nanos(100_000) });
    }
    let list: Vec<Block> = (0..4096).map(|index| Block::new(other, index)).collect();
    scene.plane.engine.disclose(scene.plane.now(), scene.manager, &list);
    scene.plane.perform();
    assert_eq!(scene.plane.engine.counters().prefetches, 1024, "the credit of a list that has shown nothing");
    // What is read instead earns nothing; the list itself does.
    scene.access(&[0, 1, 2]);
    assert!(scene.plane.engine.counters().prefetches <= 1024 + 8, "readahead only");
    let before = scene.plane.engine.counters().prefetches;
    for block in &list[..100] {
        scene.plane.access(scene.process, *block);
    }
    let fetched = scene.plane.engine.counters().prefetches - before;
    assert!((300..=316).contains(&fetched), "each one makes room for itself and two more: {fetched}");
}

/// A reader that leaves out every second run of ten, and has passed it by before it is there.
#[test]
fn what_is_passed_by_on_its_way_gives_its_credit_back() {
    for passes in [1, 2] {
        let residency = foretell_policy::Residency::Advisory;
        let config = Config { prefetch: Prefetch::Informed, residency, batch: 64, ..Config::new(1024) };
        let mut scene = Scene::new(config);
        let (now, process) = (scene.plane.now(), scene.process);
        for _ in 0..200 {
            scene.plane.engine.tell(now, Input::Served { disk: DiskId(0), access: Nanos(1_000_000) });
            scene.plane.engine.tell(now, Input::Computed { process, compute: Nanos(1_000) });
        }
        let list: Vec<u32> = (0..passes).flat_map(|_| 0..8000).collect();
        let list = scene.blocks(&list);
        assert_eq!(scene.plane.engine.disclose(now, scene.manager, &list), list.len());
        let is_left_out = |index: u32| index / 10 % 2 == 1;
        let (mut waited, mut on_their_way) = (0, Vec::new());
        for (step, index) in (0..8000).filter(|&index| !is_left_out(index)).enumerate() {
            let block = Block::new(scene.file, index);
            waited +=
                u64::from(scene.plane.engine.access(now, process, block) != foretell_policy::Access::Hit);
            for index in scene.fetches() {
                on_their_way.push((step + if is_left_out(index) { 60 } else { 5 }, index));
            }
            on_their_way.retain(|&(at, index)| {
                if at <= step {
                    let block = Block::new(scene.file, index);
                    scene.plane.engine.tell(now, Input::Loaded { block, by: None });
                }
                at > step
            });
        }
        assert!(waited < 1000, "named {passes} times: {waited} of 4000 references waited");
    }
}

#[test]
fn credit_comes_back_with_a_cancelled_list() {
    let config = Config { prefetch: Prefetch::Informed, ..Config::new(8192) };
    let mut scene = Scene::new(config);
    for _ in 0..200 {
        let now = scene.plane.now();
        scene.plane.engine.tell(now, Input::Served { disk: DiskId(0), access: Nanos(10_000_000) });
        scene.plane.engine.tell(now, Input::Computed { process: scene.process, compute: Nanos(100_000) });
    }
    for round in 1..=3u32 {
        let first = round * 10_000;
        scene.disclose_and_fetch(&(first..first + 4000).collect::<Vec<_>>());
        assert_eq!(scene.plane.engine.counters().prefetches, u64::from(round) * 1024, "round {round}");
        scene.plane.engine.tell(scene.plane.now(), Input::Cancelled { manager: scene.manager });
        scene.plane.perform();
    }
}

#[test]
fn of_a_disk_without_a_batch_only_what_is_within_the_horizon_is_prefetched() {
    let config = Config { prefetch: Prefetch::Informed, horizon: Some(10), ..Config::new(8192) };
    let mut scene = Scene::new(config);
    let now = scene.plane.now();
    for _ in 0..200 {
        scene.plane.engine.tell(now, Input::Served { disk: DiskId(0), access: Nanos(1_000_000) });
        scene.plane.engine.tell(now, Input::Computed { process: scene.process, compute: Nanos(1_000) });
    }
    scene.plane.engine.tell(now, Input::DiskBatch { disk: DiskId(0), batch: 0 });
    let list = scene.blocks(&(0..4096).collect::<Vec<u32>>());
    scene.plane.engine.disclose(now, scene.manager, &list);
    assert_eq!(std::iter::from_fn(|| scene.plane.engine.poll_action()).count(), 10);
}

#[test]
fn a_disk_with_a_batch_of_its_own_is_filled_up_again_when_a_quarter_is_there() {
    for (said, at_once) in [(None, 8..=70), (Some(500), 500..=500)] {
        let config = Config { prefetch: Prefetch::Informed, batch: 8, ..Config::new(8192) };
        let mut scene = Scene::new(config);
        let now = scene.plane.now();
        for _ in 0..200 {
            // Quick accesses, and a process that computes hardly at all: all of it is due.
            scene.plane.engine.tell(now, Input::Served { disk: DiskId(0), access: Nanos(1_000_000) });
            scene.plane.engine.tell(now, Input::Computed { process: scene.process, compute: Nanos(1_000) });
        }
        if let Some(batch) = said {
            scene.plane.engine.tell(now, Input::DiskBatch { disk: DiskId(0), batch });
            // Of a disk that there is not.
            scene.plane.engine.tell(now, Input::DiskBatch { disk: DiskId(9), batch: 1 });
        }
        let list = scene.blocks(&(0..4096).collect::<Vec<u32>>());
        scene.plane.engine.disclose(now, scene.manager, &list);
        let fetches = |scene: &mut Scene| {
            let actions = std::iter::from_fn(|| scene.plane.engine.poll_action());
            let fetch = |action| if let Action::Fetch { block, .. } = action { Some(block) } else { None };
            actions.filter_map(fetch).collect::<Vec<Block>>()
        };
        let first = fetches(&mut scene);
        assert!(at_once.contains(&first.len()), "{said:?}: {}", first.len());
        let Some(batch) = said else { continue };
        let quarter = batch as usize / 4;
        for &block in &first[..quarter - 5] {
            scene.plane.engine.tell(now, Input::Loaded { block, by: None });
        }
        assert_eq!(fetches(&mut scene).len(), 0, "most of it is under way");
        for &block in &first[quarter - 5..quarter + 5] {
            scene.plane.engine.tell(now, Input::Loaded { block, by: None });
        }
        let again = fetches(&mut scene).len();
        assert!((quarter..=quarter + 5).contains(&again), "{again}");
    }
}
