//! The policies of pools: the engine finds and misses the same blocks as the naive model of each, and an
//! adaptive level follows the right one.

#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Access, Action, Block, Config, Engine, FileId, Input, Layout, ManagerId, Nanos, PoolPolicy, Prefetch,
    ProcessId, Residency,
};
use foretell_testkit::policies::{Linux, Lirs, Policy, Recency, S3Fifo, Sieve, hits};
use foretell_testkit::workload::{cyclic, read_n, references};
use foretell_testkit::{InstantPlane, seeded};
use proptest::prelude::*;

struct Scene {
    plane: InstantPlane,
    manager: ManagerId,
    process: ProcessId,
    file: FileId,
}

impl Scene {
    fn new(policy: PoolPolicy, cache_blocks: u32) -> Scene {
        let mut engine = Engine::new(Config::new(cache_blocks));
        let manager = engine.add_manager(true).unwrap();
        let process = engine.add_process(manager);
        let file = engine.add_file(Layout::Unknown).unwrap();
        engine.set_policy(manager, 0, policy).unwrap();
        Scene { plane: InstantPlane::new(engine, cache_blocks as usize), manager, process, file }
    }

    fn hit(&mut self, index: u32) -> bool {
        self.plane.access(self.process, Block::new(self.file, index)) == Access::Hit
    }

    fn misses(&mut self, references: &[u32]) -> u64 {
        references.iter().map(|&index| u64::from(!self.hit(index))).sum()
    }

    fn following(&self) -> PoolPolicy {
        self.plane.engine.shadow_report(self.manager, 0).unwrap().following
    }
}

fn naive(policy: PoolPolicy, capacity: usize) -> Option<Box<dyn Policy>> {
    Some(match policy {
        PoolPolicy::Lru => Box::new(Recency::lru(capacity)),
        PoolPolicy::Mru => Box::new(Recency::mru(capacity)),
        PoolPolicy::S3Fifo => Box::new(S3Fifo::new(capacity)),
        PoolPolicy::Sieve => Box::new(Sieve::new(capacity)),
        PoolPolicy::Linux => Box::new(Linux::new(capacity)),
        PoolPolicy::Lirs => Box::new(Lirs::new(capacity)),
        PoolPolicy::Adaptive => return None,
    })
}

/// Every policy but the one that follows others.
fn plain() -> Vec<PoolPolicy> {
    PoolPolicy::all().iter().copied().filter(|policy| naive(*policy, 1).is_some()).collect()
}

proptest! {
    #![proptest_config(seeded(3000))]

    #[test]
    fn find_what_the_naive_models_find(
        policy in prop::sample::select(plain()),
        cache_blocks in 1..30u32,
        references in references(60, 600),
    ) {
        let mut scene = Scene::new(policy, cache_blocks);
        let wide: Vec<u64> = references.iter().map(|&index| index.into()).collect();
        let expected = hits(naive(policy, cache_blocks as usize).unwrap().as_mut(), &wide);
        let found: Vec<bool> = references.iter().map(|&index| scene.hit(index)).collect();
        prop_assert_eq!(found, expected, "{}", policy);
    }

    /// Whatever else happens to the blocks of a level, the books stay right: `InstantPlane` checks every
    /// action. In the end all blocks can still be replaced.
    #[test]
    fn directives_and_losses_do_no_harm(
        policies in prop::collection::vec(prop::sample::select(PoolPolicy::all()), 2),
        cache_blocks in 1..30u32,
        operations in prop::collection::vec((0..100u32, 0..12u32, prop::sample::select(PoolPolicy::all())), 1..400),
    ) {
        let mut scene = Scene::new(policies[0], cache_blocks);
        let (manager, file) = (scene.manager, scene.file);
        scene.plane.engine.set_policy(manager, 1, policies[1]).unwrap();
        for (index, what, policy) in operations {
            let block = Block::new(file, index);
            match what {
                0 => scene.plane.engine.set_policy(manager, (index % 2) as i32, policy).unwrap(),
                1 => scene.plane.engine.set_priority(manager, file, (index % 2) as i32).unwrap(),
                2 => scene
                    .plane
                    .engine
                    .set_temporary_priority(manager, file, index / 2, index, (index % 2) as i32)
                    .unwrap(),
                3 => scene.plane.tell(Input::Gone { block }),
                4 => {
                    scene.plane.engine.flush(manager, file, index, index + 5);
                    scene.plane.perform();
                }
                _ => drop(scene.hit(index)),
            }
        }
        scene.misses(&cyclic(200, 1));
        prop_assert_eq!(scene.plane.engine.used_blocks(), cache_blocks);
    }
}

/// A cyclic scan is found in its second pass: LRU would find nothing ever.
#[test]
fn a_cyclic_scan_is_found_in_its_second_pass() {
    for (cache_blocks, blocks) in [(64, 100), (1000, 1500), (20_000, 60_000)] {
        let mut scene = Scene::new(PoolPolicy::Adaptive, cache_blocks);
        assert_eq!(scene.misses(&cyclic(blocks, 1)), u64::from(blocks));
        let second = scene.misses(&cyclic(blocks, 1));
        assert_ne!(scene.following(), PoolPolicy::Lru);
        // What is lost against MRU is what passed before it was found.
        let most = u64::from(blocks - cache_blocks) + u64::from(cache_blocks) / 16 + 64;
        assert!(second <= most, "{second} of {most}, {cache_blocks} blocks of cache");
    }
}

/// A program whose reads change is followed, and it is not asked to pay for each change of its mind.
#[test]
fn it_follows_a_program_that_changes() {
    let phases = [cyclic(300, 10), read_n(150, 3000), cyclic(300, 10)];
    let misses = |policy| {
        let mut scene = Scene::new(policy, 200);
        let misses: u64 = phases.iter().map(|phase| scene.misses(phase)).sum();
        (misses, scene.plane.engine.shadow_report(scene.manager, 0))
    };
    let ((adaptive, report), (lru, none), (mru, _)) =
        (misses(PoolPolicy::Adaptive), misses(PoolPolicy::Lru), misses(PoolPolicy::Mru));
    assert!(adaptive < lru && adaptive < mru, "{adaptive}, lru {lru}, mru {mru}");
    assert_eq!(none, None, "a level that is not adaptive has no shadows");
    assert!(report.unwrap().switches <= 4);
}

#[test]
fn shadows_see_only_their_own_level() {
    let mut scene = Scene::new(PoolPolicy::Adaptive, 50);
    let other = scene.plane.engine.add_file(Layout::Unknown).unwrap();
    let manager = scene.manager;
    scene.plane.engine.set_priority(manager, other, 1).unwrap();
    for index in 0..200 {
        scene.hit(index);
        scene.plane.access(scene.process, Block::new(other, index));
        // A list says when these are needed: they are nothing to policies.
        let listed = Block::new(scene.file, 1000 + index);
        let now = scene.plane.now();
        scene.plane.engine.disclose(now, manager, &[listed]);
        scene.plane.access(scene.process, listed);
    }
    let report = scene.plane.engine.shadow_report(manager, 0).unwrap();
    // The last use of a listed block is made when the list no longer names it.
    assert!((200..=400).contains(&report.references), "{}", report.references);
    assert_eq!(scene.plane.engine.shadow_report(manager, 1), None);
}

#[test]
fn a_ninth_adaptive_level_is_refused() {
    let mut engine = Engine::new(Config::new(8));
    let manager = engine.add_manager(true).unwrap();
    for priority in 0..8 {
        engine.set_policy(manager, priority, PoolPolicy::Adaptive).unwrap();
    }
    let refused = engine.set_policy(manager, 8, PoolPolicy::Adaptive).unwrap_err();
    assert_eq!(refused.to_string(), "no more than 8 adaptive priority levels");
    assert_eq!(engine.policy(manager, 8), PoolPolicy::Lru);
    engine.set_policy(manager, 3, PoolPolicy::Adaptive).unwrap();
    engine.set_policy(manager, 3, PoolPolicy::Lru).unwrap();
    engine.set_policy(manager, 8, PoolPolicy::Adaptive).unwrap();
}

/// Three processes go round a file of 400 blocks on a real cache, each some blocks behind the one before, with room for 200.
/// One of them alone would fetch 400 blocks the first time and 200 each further time, and together they fetch hardly more: at
/// the turn the first one is at the beginning already when the others are at the end still.
#[test]
fn readers_that_follow_each_other_fetch_a_block_once() {
    let (blocks, cache_blocks, passes, behind) = (400_u32, 200, 4, 5);
    let config =
        Config { residency: Residency::Advisory, prefetch: Prefetch::None, ..Config::new(cache_blocks) };
    let mut engine = Engine::new(config);
    let manager = engine.add_manager(true).unwrap();
    let processes = [(); 3].map(|()| engine.add_process(manager));
    let file = engine.add_file(Layout::Unknown).unwrap();
    engine.set_policy(manager, 0, PoolPolicy::Mru).unwrap();
    let (mut fetches, mut now) = (0, Nanos(0));
    for step in 0..passes * blocks + 2 * behind {
        for (process, place) in processes.iter().zip(0..) {
            let at = step.checked_sub(place * behind).filter(|&at| at < passes * blocks);
            let Some(index) = at.map(|at| at % blocks) else { continue };
            now.0 += 1;
            fetches += u32::from(engine.access(now, *process, Block::new(file, index)) == Access::Miss);
            while let Some(action) = engine.poll_action() {
                let Action::Evict { block } = action else { panic!("{action:?}") };
                engine.tell(now, Input::Gone { block });
            }
        }
    }
    let alone = blocks + (passes - 1) * (blocks - cache_blocks);
    assert!((alone..=alone + alone / 20).contains(&fetches), "{fetches} instead of {alone}");
}
