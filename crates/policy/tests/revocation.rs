//! Revocation: a manager whose decisions placeholders keep proving wrong loses the right to overrule, and
//! gets it back (Cao, Felten, Li 1994, section 6.2).

#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Access, Block, Config, Engine, FileId, Input, Layout, ManagerId, PoolPolicy, ProcessId, Revocation,
};
use foretell_testkit::InstantPlane;
use foretell_testkit::workload::{cyclic, read_n};

/// A cache of 100 blocks: one manager under MRU, and an oblivious process that scans 1,000 blocks beside it
/// and so takes away what nobody defends.
struct Scene {
    plane: InstantPlane,
    manager: ManagerId,
    process: ProcessId,
    file: FileId,
    scanner: ProcessId,
    scanned: FileId,
    next: u32,
}

impl Scene {
    fn new(revocation: Option<Revocation>) -> Scene {
        let mut engine = Engine::new(Config { revocation, ..Config::new(100) });
        let manager = engine.add_manager(true).unwrap();
        engine.set_policy(manager, 0, PoolPolicy::Mru).unwrap();
        let process = engine.add_process(manager);
        let oblivious = engine.add_manager(true).unwrap();
        let scanner = engine.add_process(oblivious);
        let [file, scanned] = [(); 2].map(|()| engine.add_file(Layout::Unknown).unwrap());
        Scene { plane: InstantPlane::new(engine, 100), manager, process, file, scanner, scanned, next: 0 }
    }

    /// Makes the manager's references with `scans` scanned blocks after each; gives its misses.
    fn run(&mut self, references: &[u32], scans: u32) -> u64 {
        let mut misses = 0;
        for &index in references {
            misses +=
                u64::from(self.plane.access(self.process, Block::new(self.file, index)) == Access::Miss);
            for _ in 0..scans {
                self.next = (self.next + 1) % 1000;
                self.plane.access(self.scanner, Block::new(self.scanned, self.next));
            }
        }
        misses
    }

    fn revoked(&self) -> bool {
        self.plane.engine.is_revoked(self.manager)
    }

    fn times_revoked(&self) -> u64 {
        self.plane.engine.manager_counters(self.manager).revocations
    }
}

/// MRU is foolish for ReadN: the parts that it goes on to are what it replaces.
fn foolish_references() -> Vec<u32> {
    read_n(40, 2000)
}

/// Cycling over more than fits is what MRU is for.
fn smart_references() -> Vec<u32> {
    cyclic(150, 40)
}

#[test]
fn a_foolish_manager_is_revoked_and_does_better_for_it() {
    let mut unjudged = Scene::new(None);
    let mut judged = Scene::new(Some(Revocation::default()));
    let (without, with) = (unjudged.run(&foolish_references(), 1), judged.run(&foolish_references(), 1));
    assert_eq!(unjudged.times_revoked(), 0);
    assert!(judged.times_revoked() >= 1);
    assert!(with < without, "{with} misses revoked, {without} in control");
}

#[test]
fn a_smart_manager_is_left_alone() {
    let mut scene = Scene::new(Some(Revocation::default()));
    scene.run(&smart_references(), 0);
    let counters = scene.plane.engine.manager_counters(scene.manager);
    assert!(counters.overruled > 1000, "{counters:?}");
    assert_eq!(counters.revocations, 0);
}

/// While revoked it makes no decisions that could be wrong, so its share decays and it gets another chance.
#[test]
fn a_revoked_manager_gets_another_chance_when_its_share_has_decayed() {
    let mut scene = Scene::new(Some(Revocation::default()));
    let foolish = foolish_references();
    let mut references = foolish.iter();
    while !scene.revoked() {
        scene.run(&[*references.next().expect("revoked before the end")], 1);
    }
    scene.run(&smart_references(), 0);
    assert!(!scene.revoked());
    let counters = scene.plane.engine.manager_counters(scene.manager);
    assert_eq!((counters.revocations, counters.reinstatements), (1, 1));
}

/// With the two thresholds far apart it changes far less often than with both at the same place.
#[test]
fn two_thresholds_keep_it_from_flapping() {
    let changes = |reinstate_below| {
        let mut scene = Scene::new(Some(Revocation { window: 64, revoke_above: 0.3, reinstate_below }));
        scene.run(&foolish_references(), 1);
        scene.times_revoked()
    };
    let (wide, none) = (changes(0.01), changes(0.3));
    assert!(wide >= 1);
    assert!(2 * wide <= none, "revoked {wide} times with hysteresis, {none} times without");
}

/// The verdict is about a manager, so it ends with it.
#[test]
fn a_new_manager_starts_with_a_clean_record() {
    let mut scene = Scene::new(Some(Revocation::default()));
    scene.run(&foolish_references(), 1);
    scene.plane.tell(Input::ProcessExited { process: scene.process });
    scene.plane.engine.remove_manager(scene.manager);
    let fresh = scene.plane.engine.add_manager(true).unwrap();
    assert!(!scene.plane.engine.is_revoked(fresh));
}
