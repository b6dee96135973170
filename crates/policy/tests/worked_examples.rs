//! Examples small enough to follow by hand: those of the papers, and one for each rule of LRU-SP.

#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Allocation, Block, Config, Engine, FileId, Layout, Limits, ManagerId, Order, Prefetch, ProcessId,
};
use foretell_testkit::{InstantPlane, UnitTime, best_time, unit_time};

// ---- when to prefetch (Cao et al. 1996, figure 1) ----

const A: u32 = 0;
const B: u32 = 1;
const C: u32 = 2;

/// The theoretical model: one fetch at a time, no margin.
fn one_at_a_time(prefetch: Prefetch) -> Config {
    Config { prefetch, batch: 1, free_margin: 0, order: Order::Fcfs, ..Config::new(1) }
}

/// A cache of two blocks that holds A and B; a fetch takes four units.
fn figure_1(references: [u32; 4]) -> UnitTime {
    UnitTime::new(&references, 2, 4).with_cached(&[A, B])
}

#[test]
fn abca_takes_8_units_without_prefetching() {
    let elapsed = unit_time::run(&figure_1([A, B, C, A]), one_at_a_time(Prefetch::None));
    assert_eq!((elapsed.units, elapsed.fetches), (8, 1));
}

#[test]
fn abca_takes_10_units_when_prefetching_whenever_the_rules_allow_it() {
    // C is fetched at time 2 in place of A, because B is in use and A is needed after C: the four rules
    // allow it, and it costs a second fetch.
    let elapsed = unit_time::run(&figure_1([A, B, C, A]), one_at_a_time(Prefetch::ControlledAggressive));
    assert_eq!((elapsed.units, elapsed.fetches), (10, 2));
    assert_eq!(best_time(&figure_1([A, B, C, A])), 8);
}

#[test]
fn a_margin_of_free_blocks_avoids_that() {
    // One free block is not more than a margin of one.
    let config = Config { free_margin: 1, ..one_at_a_time(Prefetch::ControlledAggressive) };
    assert_eq!(unit_time::run(&figure_1([A, B, C, A]), config).units, 8);
}

#[test]
fn abcb_takes_7_units_when_prefetching() {
    let instance = figure_1([A, B, C, B]);
    assert_eq!(unit_time::run(&instance, one_at_a_time(Prefetch::ControlledAggressive)).units, 7);
    assert_eq!(unit_time::run(&instance, one_at_a_time(Prefetch::None)).units, 8);
    assert_eq!(best_time(&instance), 7);
}

#[test]
fn nothing_is_prefetched_in_place_of_what_is_needed_before() {
    // The hole C comes after both A and B: nothing is free until A has been referenced for the last time.
    let instance = UnitTime::new(&[A, B, A, B, C], 2, 1).with_cached(&[A, B]);
    let elapsed = unit_time::run(&instance, one_at_a_time(Prefetch::ControlledAggressive));
    assert_eq!((elapsed.units, elapsed.fetches), (5, 1));
}

/// Kimbrel et al. 1996, figure 1: A, C, E, F on one disk, b and d on the other; a fetch takes two units. The
/// best schedule gives up d instead of F, because its disk is idle later.
#[test]
fn balancing_two_disks_saves_a_unit_that_aggressive_loses() {
    let [a, small_b, c, small_d, e, f] = [0, 1, 2, 3, 4, 6];
    let instance = UnitTime::new(&[a, small_b, c, small_d, e, f], 4, 2)
        .with_cached(&[a, small_b, small_d, f])
        .with_disks(2);
    assert_eq!(unit_time::run(&instance, one_at_a_time(Prefetch::Aggressive)).units, 7);
    assert_eq!(best_time(&instance), 6);
    let config = Config { horizon: Some(2 + 1), ..one_at_a_time(Prefetch::FixedHorizon) };
    assert_eq!(unit_time::run(&instance, config).units, 7);
}

// ---- the rules of LRU-SP (Cao et al. 1996, section 3.2) ----

/// A manager Q that gives up the blocks of `files[0]` first, then those of `files[1]`, and so on; and an
/// oblivious process P, which only wants room.
struct Scene {
    plane: InstantPlane,
    q: ManagerId,
    q_process: ProcessId,
    p_process: ProcessId,
    files: [FileId; 3],
    p_file: FileId,
}

impl Scene {
    fn new(allocation: Allocation, cache_blocks: u32) -> Scene {
        Scene::with_limits(allocation, cache_blocks, Limits::default())
    }

    fn with_limits(allocation: Allocation, cache_blocks: u32, limits: Limits) -> Scene {
        let mut engine = Engine::new(Config { allocation, limits, ..Config::new(cache_blocks) });
        let q = engine.add_manager(true).unwrap();
        let p = engine.add_manager(true).unwrap();
        let (q_process, p_process) = (engine.add_process(q), engine.add_process(p));
        let files = [(); 3].map(|()| engine.add_file(Layout::Unknown).unwrap());
        let p_file = engine.add_file(Layout::Unknown).unwrap();
        for (file, priority) in files.iter().zip([-3, -2, -1]) {
            engine.set_priority(q, *file, priority).unwrap();
        }
        Scene {
            plane: InstantPlane::new(engine, cache_blocks as usize),
            q,
            q_process,
            p_process,
            files,
            p_file,
        }
    }

    /// Q's block that goes first (0), second (1) or last (2).
    fn q(&self, place: usize) -> Block {
        Block::new(self.files[place], 0)
    }

    fn p(&self, index: u32) -> Block {
        Block::new(self.p_file, index)
    }

    /// References the blocks in order; gives what the last reference replaced.
    fn access(&mut self, blocks: &[Block]) -> Option<Block> {
        for &block in blocks {
            let process = if block.file == self.p_file { self.p_process } else { self.q_process };
            self.plane.access(process, block);
        }
        self.plane.evicted().first().copied()
    }

    fn placeholders_used(&self) -> u64 {
        self.plane.engine.manager_counters(self.q).placeholders_used
    }
}

/// The list is A, p1, B, p2 (least recently used first) when p3 is missed: Q keeps A and gives up B.
fn after_q_gave_up_b(allocation: Allocation) -> (Scene, Block, Block) {
    let mut scene = Scene::new(allocation, 4);
    let (a, b) = (scene.q(2), scene.q(0));
    let replaced = scene.access(&[a, scene.p(1), b, scene.p(2), scene.p(3)]);
    assert_eq!(replaced, Some(b));
    (scene, a, b)
}

#[test]
fn the_kept_block_takes_the_place_of_the_one_that_went() {
    // Cao, Felten, Li 1994, figure 2: the list is now p1, A, p2, p3.
    let (mut scene, a, _) = after_q_gave_up_b(Allocation::LruSp);
    assert_eq!(scene.access(&[scene.p(4)]), Some(scene.p(1)));
    assert_eq!(scene.access(&[scene.p(5)]), Some(a));
}

#[test]
fn without_swapping_the_same_manager_is_asked_again() {
    let (mut scene, a, _) = after_q_gave_up_b(Allocation::AllocLru);
    assert_eq!(scene.access(&[scene.p(4)]), Some(a));
    assert_eq!(scene.access(&[scene.p(5)]), Some(scene.p(1)));
}

#[test]
fn a_wrong_choice_is_paid_for_with_the_block_that_was_kept() {
    let (mut scene, a, b) = after_q_gave_up_b(Allocation::LruSp);
    assert_eq!(scene.access(&[b]), Some(a));
    assert_eq!(scene.placeholders_used(), 1);
}

#[test]
fn without_placeholders_somebody_else_pays() {
    let (mut scene, _, b) = after_q_gave_up_b(Allocation::LruS);
    assert_eq!(scene.access(&[b]), Some(scene.p(1)));
    assert_eq!(scene.placeholders_used(), 0);
}

#[test]
fn a_hit_on_the_kept_block_proves_the_choice_right() {
    let (mut scene, a, b) = after_q_gave_up_b(Allocation::LruSp);
    assert_eq!(scene.access(&[a, b]), Some(scene.p(1)));
    assert_eq!(scene.placeholders_used(), 0);
}

#[test]
fn a_placeholder_ends_with_the_block_that_it_points_to() {
    let (mut scene, a, b) = after_q_gave_up_b(Allocation::LruSp);
    assert_eq!(scene.access(&[scene.p(4), scene.p(5)]), Some(a));
    assert_eq!(scene.plane.engine.placeholders(), 0);
    assert_eq!(scene.access(&[b]), Some(scene.p(2)));
    assert_eq!(scene.placeholders_used(), 0);
}

#[test]
fn placeholders_follow_to_the_next_kept_block() {
    // List C, A, p1, B, p2; p3 is missed: C is the candidate, Q gives up B, and B's placeholder points to C.
    // List A, p1, C, p2, p3; p4 is missed: A is the candidate, Q gives up C, and both now point to A.
    let mut scene = Scene::new(Allocation::LruSp, 5);
    let (a, b, c) = (scene.q(2), scene.q(0), scene.q(1));
    assert_eq!(scene.access(&[c, a, scene.p(1), b, scene.p(2), scene.p(3)]), Some(b));
    assert_eq!(scene.access(&[scene.p(4)]), Some(c));
    assert_eq!(scene.plane.engine.placeholders(), 2);
    // List p1, A, p2, p3, p4: without the rule, p1 would go.
    assert_eq!(scene.access(&[b]), Some(a));
}

#[test]
fn beyond_the_limit_the_oldest_choice_goes_unpunished() {
    let limits = Limits { placeholders: 1, ..Limits::default() };
    let mut scene = Scene::with_limits(Allocation::LruSp, 5, limits);
    let (a, b, c) = (scene.q(2), scene.q(0), scene.q(1));
    scene.access(&[c, a, scene.p(1), b, scene.p(2), scene.p(3), scene.p(4)]);
    assert_eq!(scene.plane.engine.placeholders(), 1);
    assert_eq!(scene.access(&[b]), Some(scene.p(1)), "the choice against B is forgotten");
    assert_eq!(scene.access(&[c]), Some(b), "that against C is not: Q pays, with what it values least");
    assert_eq!(scene.placeholders_used(), 1);
    assert!(scene.plane.cached().contains(&a));
}

#[test]
fn blocks_of_an_ended_manager_go_in_global_order() {
    let mut scene = Scene::new(Allocation::LruSp, 3);
    let (a, b) = (scene.q(2), scene.q(0));
    scene.access(&[a, b, scene.p(1)]);
    scene.plane.engine.remove_manager(scene.q);
    // Q would have given up B.
    assert_eq!(scene.access(&[scene.p(2)]), Some(a));
    assert_eq!(scene.access(&[scene.p(3)]), Some(b));
}

#[test]
fn blocks_of_two_managers_belong_to_nobody() {
    let mut scene = Scene::new(Allocation::LruSp, 3);
    let (a, b) = (scene.q(2), scene.q(0));
    scene.access(&[a, b, scene.p(1)]);
    let p = scene.p_process;
    scene.plane.access(p, a);
    // A is the most recently used one, and nobody is asked when its turn comes: list B, p1, A.
    assert_eq!(scene.access(&[scene.p(2)]), Some(b));
    assert_eq!(scene.access(&[scene.p(3)]), Some(scene.p(1)));
    assert_eq!(scene.access(&[b]), Some(a));
    assert_eq!(scene.plane.engine.owned_blocks(scene.q), 1);
}
