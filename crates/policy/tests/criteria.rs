//! The criteria of a fair allocation (Cao, Felten, Li 1994, section 2; Cao et al. 1996, section 3.2):
//!
//! - an oblivious process does not suffer more misses than under global LRU;
//! - a foolish process never causes another one to;
//! - a smart process never causes anyone to, itself included.
//!
//! LRU-SP keeps all three on every interleaving; LRU-S breaks the second and ALLOC-LRU the third, each on an
//! example below that is small enough to follow by hand.

#![allow(clippy::unwrap_used)]

use foretell_policy::{Access, Allocation, Block, Config, Engine, Layout, PoolPolicy};
use foretell_testkit::workload::{Reference, interleaved};
use foretell_testkit::{InstantPlane, seeded};
use proptest::prelude::*;

/// What a process's manager does.
#[derive(Debug, Clone)]
enum Manager {
    /// Nothing.
    Oblivious,
    /// Discloses all its references, so that its furthest next use is replaced.
    Smart,
    /// Uses the other policy than the one that would be good.
    Mru,
    /// Gives directives at random: before its n-th reference, this priority to its file's blocks in this
    /// range, for the time being.
    Erratic(Vec<(usize, u32, u32, i32)>),
}

fn manager() -> impl Strategy<Value = Manager> {
    let directive = (0..12usize, 0..5u32, 0..5u32, -2..3i32);
    prop_oneof![
        2 => Just(Manager::Oblivious),
        2 => Just(Manager::Smart),
        1 => Just(Manager::Mru),
        1 => prop::collection::vec(directive, 1..12).prop_map(Manager::Erratic),
    ]
}

/// Misses of each process when the references are made in this order.
fn misses(allocation: Allocation, cache_blocks: u32, managers: &[Manager], order: &[Reference]) -> Vec<u64> {
    let mut engine = Engine::new(Config { allocation, ..Config::new(cache_blocks) });
    let mut processes = Vec::new();
    for (p, kind) in managers.iter().enumerate() {
        let manager = engine.add_manager(true).unwrap();
        let process = engine.add_process(manager);
        let file = engine.add_file(Layout::Unknown).unwrap();
        let own: Vec<Block> =
            order.iter().filter(|r| r.0 == p).map(|&(_, index)| Block::new(file, index)).collect();
        match kind {
            Manager::Oblivious | Manager::Erratic(_) => {}
            Manager::Smart => assert_eq!(engine.disclose(Default::default(), manager, &own), own.len()),
            Manager::Mru => engine.set_policy(manager, 0, PoolPolicy::Mru).unwrap(),
        }
        processes.push((manager, process, file));
    }
    let mut plane = InstantPlane::new(engine, cache_blocks as usize);
    let mut misses = vec![0; managers.len()];
    let mut references = vec![0; managers.len()];
    for &(p, index) in order {
        let (manager, process, file) = processes[p];
        if let Manager::Erratic(directives) = &managers[p] {
            for &(_, first, last, priority) in directives.iter().filter(|d| d.0 == references[p]) {
                plane.engine.set_temporary_priority(manager, file, first, last, priority).unwrap();
            }
        }
        references[p] += 1;
        misses[p] += u64::from(plane.access(process, Block::new(file, index)) == Access::Miss);
    }
    misses
}

proptest! {
    #![proptest_config(seeded(4000))]

    #[test]
    fn lru_sp_lets_nobody_suffer_but_the_foolish(
        managers in prop::collection::vec(manager(), 3),
        order in interleaved(3, 5, 16),
        cache_blocks in 1..14u32,
    ) {
        let before = misses(Allocation::GlobalLru, cache_blocks, &managers, &order);
        let after = misses(Allocation::LruSp, cache_blocks, &managers, &order);
        for (p, manager) in managers.iter().enumerate() {
            if matches!(manager, Manager::Oblivious | Manager::Smart) {
                prop_assert!(after[p] <= before[p], "process {p}: {} misses instead of {}", after[p], before[p]);
            }
        }
    }

    #[test]
    fn whoever_never_overrules_sees_lru(order in interleaved(3, 6, 20), cache_blocks in 1..14u32) {
        let oblivious = vec![Manager::Oblivious; 3];
        let expected = misses(Allocation::GlobalLru, cache_blocks, &oblivious, &order);
        for allocation in [Allocation::LruSp, Allocation::LruS, Allocation::AllocLru] {
            prop_assert_eq!(misses(allocation, cache_blocks, &oblivious, &order), expected.clone());
        }
    }
}

/// Process 0 is oblivious, process 1 uses MRU and should not; three blocks fit.
///
/// The blocks q1, p0, q0 are cached when p1 is missed. LRU gives up q1, which is never needed again. Under
/// MRU, Q gives up q0 instead and misses it at once. Without a placeholder the list is now p0, q1, p1: p0
/// goes, and P misses it for the second time.
#[test]
fn without_placeholders_a_foolish_process_hurts_another() {
    let managers = [Manager::Oblivious, Manager::Mru];
    let order = [(1, 1), (0, 0), (1, 0), (0, 1), (1, 0), (0, 0)];
    assert_eq!(misses(Allocation::GlobalLru, 3, &managers, &order), [2, 2]);
    assert_eq!(misses(Allocation::LruS, 3, &managers, &order), [3, 3]);
    // With one, Q pays for its mistake with q1.
    assert_eq!(misses(Allocation::LruSp, 3, &managers, &order), [2, 3]);
}

/// Process 0 is oblivious, process 1 knows its future; four blocks fit.
///
/// The blocks s0, p0, p1, s1 are cached when p2 is missed. S is asked for s0 and gives up s1, which it needs
/// later than s0. Without swapping s0 stays the least recently used block: for p3, S is asked again and has
/// nothing else to give, so that it misses both. LRU would have kept s1.
#[test]
fn without_swapping_a_smart_process_is_worse_off_than_an_oblivious_one() {
    let managers = [Manager::Oblivious, Manager::Smart];
    let order = [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2), (0, 3), (1, 0), (1, 1)];
    assert_eq!(misses(Allocation::GlobalLru, 4, &managers, &order), [4, 3]);
    assert_eq!(misses(Allocation::AllocLru, 4, &managers, &order), [4, 4]);
    assert_eq!(misses(Allocation::LruSp, 4, &managers, &order), [4, 3]);
}
