//! How far the engine is from the best that is possible.

#![allow(clippy::unwrap_used)]

use foretell_policy::{Access, Block, Config, Engine, Layout, Nanos, Order, Prefetch};
use foretell_testkit::{InstantPlane, UnitTime, best_time, fetches, seeded, unit_time, workload};
use proptest::prelude::*;

fn instance() -> impl Strategy<Value = UnitTime> {
    (workload::references(6, 12), 1..5u32, 1..6u32).prop_map(|(references, cache_blocks, fetch_units)| {
        UnitTime::new(&references, cache_blocks, fetch_units)
    })
}

/// As in the theorem: one fetch at a time, no margin, the order of the list.
fn theoretical(prefetch: Prefetch) -> Config {
    Config { prefetch, batch: 1, free_margin: 0, order: Order::Fcfs, ..Config::new(1) }
}

proptest! {
    #![proptest_config(seeded(1500))]

    /// Cao et al. 1996, section 2.1.2: never more than 1 + F/K times the optimal elapsed time. The optimum is
    /// found by trying every schedule, so being below it would mean that the engine broke the model's rules.
    #[test]
    fn controlled_aggressive_is_within_1_plus_f_over_k_of_the_best(instance in instance()) {
        let best = f64::from(best_time(&instance));
        let elapsed = f64::from(unit_time::run(&instance, theoretical(Prefetch::ControlledAggressive)).units);
        let bound = 1.0 + f64::from(instance.fetch_units) / f64::from(instance.cache_blocks);
        prop_assert!(best <= elapsed, "{elapsed} units, better than the best: {best}");
        prop_assert!(elapsed <= bound * best, "{elapsed} units, more than {bound} times {best}");
    }

    /// A disclosed list makes replacement optimal: as many fetches as Belady's rule, whatever the manager's
    /// pools would have given up.
    #[test]
    fn a_complete_list_replaces_like_belady(references in workload::references(12, 120), cache_blocks in 1..12u32) {
        let mut engine = Engine::new(Config::new(cache_blocks));
        let manager = engine.add_manager(true).unwrap();
        let process = engine.add_process(manager);
        let file = engine.add_file(Layout::Unknown).unwrap();
        let list: Vec<Block> = references.iter().map(|&index| Block::new(file, index)).collect();
        engine.disclose(Nanos(0), manager, &list);
        let mut plane = InstantPlane::new(engine, cache_blocks as usize);
        let mut misses = 0;
        for &block in &list {
            misses += u64::from(plane.access(process, block) == Access::Miss);
        }
        prop_assert_eq!(misses, fetches::belady(&references, cache_blocks as usize));
    }
}
