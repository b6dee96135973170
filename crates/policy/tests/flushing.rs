//! Blocks that a manager has no further use for: flushed at once, and only its own.

#![allow(clippy::unwrap_used)]

use foretell_policy::{Block, Config, Engine, FileId, Layout, ManagerId, ProcessId};
use foretell_testkit::InstantPlane;

struct Scene {
    plane: InstantPlane,
    file: FileId,
}

impl Scene {
    fn new() -> Scene {
        let mut engine = Engine::new(Config::new(8));
        let file = engine.add_file(Layout::Unknown).unwrap();
        Scene { plane: InstantPlane::new(engine, 8), file }
    }

    fn process(&mut self) -> (ManagerId, ProcessId) {
        let manager = self.plane.engine.add_manager(true).unwrap();
        (manager, self.plane.engine.add_process(manager))
    }

    fn read(&mut self, process: ProcessId, indices: std::ops::Range<u32>) {
        for index in indices {
            self.plane.access(process, Block::new(self.file, index));
        }
    }

    fn flush(&mut self, manager: ManagerId, first: u32, last: u32) -> u32 {
        let flushed = self.plane.engine.flush(manager, self.file, first, last);
        self.plane.perform();
        flushed
    }

    fn cached(&self) -> Vec<u32> {
        (0..16).filter(|&index| self.plane.engine.is_cached(Block::new(self.file, index))).collect()
    }
}

#[test]
fn a_flushed_block_makes_room_for_the_next_one() {
    let mut scene = Scene::new();
    let (manager, process) = scene.process();
    scene.read(process, 0..8);
    assert_eq!(scene.flush(manager, 2, 3), 2);
    assert_eq!(scene.plane.engine.owned_blocks(manager), 6);
    scene.read(process, 8..10);
    assert_eq!(scene.cached(), [0, 1, 4, 5, 6, 7, 8, 9], "0 and 1 would have gone");
    assert_eq!(scene.flush(manager, 2, 3), 0, "gone already");
}

#[test]
fn what_belongs_to_another_manager_or_to_nobody_stays() {
    let mut scene = Scene::new();
    let (_, other) = scene.process();
    let (manager, process) = scene.process();
    scene.read(other, 0..4);
    scene.read(process, 2..6);
    assert_eq!(scene.flush(manager, 0, u32::MAX), 2);
    assert_eq!(scene.cached(), [0, 1, 2, 3], "0 and 1 are the other's, 2 and 3 both used");
}

#[test]
fn what_the_list_names_is_kept() {
    let mut scene = Scene::new();
    let (manager, process) = scene.process();
    scene.read(process, 0..4);
    let list = [Block::new(scene.file, 1), Block::new(scene.file, 3)];
    scene.plane.engine.disclose(scene.plane.now(), manager, &list);
    assert_eq!(scene.flush(manager, 0, 3), 2);
    assert_eq!(scene.cached(), [1, 3]);
}
