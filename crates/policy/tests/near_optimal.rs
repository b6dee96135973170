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

/// With several disks there are far more schedules to try.
fn small_instance() -> impl Strategy<Value = UnitTime> {
    (workload::references(5, 9), 2..5u32, 1..4u32).prop_map(|(references, cache_blocks, fetch_units)| {
        UnitTime::new(&references, cache_blocks, fetch_units)
    })
}

/// As in the theorem: one fetch at a time, no margin, the order of the list.
fn theoretical(prefetch: Prefetch) -> Config {
    Config { prefetch, batch: 1, free_margin: 0, order: Order::Fcfs, ..Config::new(1) }
}

proptest! {
    #![proptest_config(seeded(1000))]

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

proptest! {
    #![proptest_config(seeded(400))]

    /// Kimbrel et al. 1996, theorem 1: aggressive takes at most d (1 + F/K) times the optimal time on d disks.
    #[test]
    fn aggressive_is_within_d_times_1_plus_f_over_k_of_the_best(instance in small_instance(), disks in 1..4u32) {
        let instance = instance.with_disks(disks);
        let best = f64::from(best_time(&instance));
        let elapsed = f64::from(unit_time::run(&instance, theoretical(Prefetch::Aggressive)).units);
        let bound = f64::from(disks) * (1.0 + f64::from(instance.fetch_units) / f64::from(instance.cache_blocks));
        prop_assert!(best <= elapsed, "{elapsed} units, better than the best: {best}");
        prop_assert!(elapsed <= bound * best, "{elapsed} units, more than {bound} times {best}");
    }

    /// Theorem 2: reverse aggressive takes at most 1 + F d/K times the optimal time.
    #[test]
    fn reverse_aggressive_is_within_1_plus_fd_over_k_of_the_best(instance in small_instance(), disks in 1..4u32) {
        let instance = instance.with_disks(disks);
        let best = f64::from(best_time(&instance));
        let elapsed = f64::from(unit_time::run(&instance, theoretical(Prefetch::ReverseAggressive)).units);
        let bound = 1.0 + f64::from(instance.fetch_units * disks) / f64::from(instance.cache_blocks);
        prop_assert!(best <= elapsed, "{elapsed} units, better than the best: {best}");
        prop_assert!(elapsed <= bound * best, "{elapsed} units, more than {bound} times {best}");
    }

    /// Section 2.3: fixed horizon with H = F takes at most twice the optimal time on one disk, and when every
    /// fetch finds an idle disk it is optimal.
    #[test]
    fn fixed_horizon_is_within_twice_the_best(instance in small_instance()) {
        // H < K, as the paper assumes.
        let fetch_units = instance.fetch_units.min(instance.cache_blocks - 1);
        let instance = UnitTime { fetch_units, ..instance };
        // A reference is told when its unit is over: what is F references after it is F + 1 after the last told.
        let config = Config { horizon: Some(instance.fetch_units + 1), ..theoretical(Prefetch::FixedHorizon) };
        for disks in [1, 5] {
            let instance = instance.clone().with_disks(disks);
            let best = best_time(&instance);
            let elapsed = unit_time::run(&instance, config.clone()).units;
            let bound = if disks == 1 { 2 * best } else { best };
            prop_assert!((best..=bound).contains(&elapsed), "{elapsed} units on {disks} disks, best {best}");
        }
    }

    /// Forestall prefetches no earlier than aggressive and is allowed no more.
    #[test]
    fn forestall_never_beats_the_best(instance in small_instance(), disks in 1..4u32) {
        let instance = instance.with_disks(disks);
        let elapsed = unit_time::run(&instance, theoretical(Prefetch::Forestall)).units;
        prop_assert!(best_time(&instance) <= elapsed);
    }
}
