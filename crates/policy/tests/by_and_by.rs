//! What is asked at once and leaves the tables by and by: long lists that are withdrawn, large files that are removed.
#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Block, Config, Engine, FileId, Input, Layout, ManagerId, Nanos, Prefetch, ProcessId, Residency,
};

const CACHED: u32 = 5000;
const LISTED: u32 = 20_000;

struct Scene {
    engine: Engine,
    manager: ManagerId,
    process: ProcessId,
    file: FileId,
}

/// A manager with a long list, of which some blocks are cached.
fn scene() -> Scene {
    let config =
        Config { residency: Residency::Advisory, prefetch: Prefetch::None, ..Config::new(2 * CACHED) };
    let mut engine = Engine::new(config);
    let manager = engine.add_manager(true).unwrap();
    let process = engine.add_process(manager);
    let file = engine.add_file(Layout::Unknown).unwrap();
    for index in 0..CACHED {
        engine.access(Nanos(1), process, Block::new(file, index));
    }
    let mut scene = Scene { engine, manager, process, file };
    scene.disclose();
    scene
}

impl Scene {
    fn disclose(&mut self) {
        let blocks: Vec<Block> = (0..LISTED).map(|index| Block::new(self.file, index)).collect();
        assert_eq!(self.engine.disclose(Nanos(1), self.manager, &blocks), LISTED as usize);
    }

    fn let_time_pass(&mut self) -> usize {
        let mut times = 0;
        while self.engine.poll_timeout().is_some() {
            self.engine.handle_timeout(Nanos(2));
            times += 1;
        }
        times
    }

    fn flush(&mut self) -> u32 {
        self.engine.flush(self.manager, self.file, 0, u32::MAX)
    }
}

#[test]
fn a_long_list_that_is_withdrawn_counts_no_more_and_leaves_by_and_by() {
    let mut scene = scene();
    assert_eq!(scene.flush(), 0, "the list names them");
    scene.engine.tell(Nanos(2), Input::Cancelled { manager: scene.manager });
    assert_eq!(scene.engine.disclosed_ahead(scene.manager), 0);
    assert!(scene.engine.withdrawn_positions() > LISTED as usize / 2);
    assert!(scene.let_time_pass() > 1);
    assert_eq!(scene.engine.withdrawn_positions(), 0);
    assert_eq!(scene.flush(), CACHED, "no list names them, and they are the manager's still");
}

#[test]
fn a_new_list_is_not_taken_for_the_one_that_is_being_withdrawn() {
    let mut scene = scene();
    for _ in 0..100 {
        scene.engine.tell(Nanos(2), Input::Cancelled { manager: scene.manager });
        scene.disclose();
        assert_eq!(scene.engine.disclosed_ahead(scene.manager), LISTED as usize);
    }
    assert!(scene.engine.withdrawn_positions() <= 64 * LISTED as usize, "no more than so many at a time");
    scene.let_time_pass();
    assert_eq!(scene.flush(), 0, "the new list names them");
    for index in 0..LISTED / 2 {
        scene.engine.access(Nanos(3), scene.process, Block::new(scene.file, index));
    }
    assert_eq!(scene.engine.disclosed_ahead(scene.manager), LISTED as usize / 2);
    let counters = scene.engine.manager_counters(scene.manager);
    assert_eq!((counters.predicted, counters.skipped), (u64::from(LISTED / 2), 0));
}

#[test]
fn a_manager_whose_list_is_being_withdrawn_does_not_lend_its_number() {
    let mut scene = scene();
    scene.engine.remove_manager(scene.manager);
    let others: Vec<ManagerId> = (0..3).map(|_| scene.engine.add_manager(true).unwrap()).collect();
    assert!(!others.contains(&scene.manager));
    scene.let_time_pass();
    assert_eq!((scene.engine.withdrawn_positions(), scene.engine.used_blocks()), (0, CACHED));
}

#[test]
fn a_large_file_that_is_removed_leaves_by_and_by_and_its_number_is_another_ones_afterwards() {
    let mut scene = scene();
    scene.engine.tell(Nanos(2), Input::Cancelled { manager: scene.manager });
    scene.engine.remove_file(scene.file);
    let used = scene.engine.used_blocks();
    assert!(0 < used && used < CACHED, "{used}");
    let other = scene.engine.add_file(Layout::Unknown).unwrap();
    assert_ne!(other, scene.file);
    scene.engine.access(Nanos(2), scene.process, Block::new(other, 7));
    assert!(scene.let_time_pass() > 1);
    assert_eq!(scene.engine.used_blocks(), 1);
    assert_eq!(scene.engine.add_file(Layout::Unknown).unwrap(), scene.file);
}

#[test]
fn a_list_that_comes_after_others_is_followed_as_a_first_one_is() {
    let outcomes = [0, 3].map(|before| {
        let mut scene = scene();
        for _ in 0..before {
            scene.engine.tell(Nanos(2), Input::Cancelled { manager: scene.manager });
            scene.let_time_pass();
            scene.disclose();
        }
        // Forth and back and forth: positions are passed over, and come back.
        for start in [0, 6000, 1000, 12_000, 3000] {
            for index in start..start + 900 {
                scene.engine.access(Nanos(3), scene.process, Block::new(scene.file, index));
            }
        }
        let counters = scene.engine.manager_counters(scene.manager);
        let ahead = scene.engine.disclosed_ahead(scene.manager);
        ((counters.predicted, counters.unpredicted, counters.skipped), ahead, scene.flush())
    });
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0].0.0 > 2000, "{outcomes:?}");
}
