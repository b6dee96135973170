//! Every table of the policy is bounded: what happens at each bound. (Placeholders: `worked_examples.rs`.)

#![allow(clippy::unwrap_used)]

use foretell_policy::{
    Access, Block, Config, Engine, Input, Layout, LimitReached, Limits, Nanos, PoolPolicy, Prefetch,
};
use foretell_testkit::InstantPlane;

fn engine_with(limits: Limits) -> Engine {
    Engine::new(Config { limits, ..Config::new(8) })
}

#[test]
fn a_file_too_many_is_refused_until_one_is_removed() {
    let mut engine = engine_with(Limits { files: 2, ..Limits::default() });
    let first = engine.add_file(Layout::Unknown).unwrap();
    engine.add_file(Layout::Unknown).unwrap();
    let refused = engine.add_file(Layout::Unknown).unwrap_err();
    assert_eq!(refused, LimitReached { what: "files", limit: 2 });
    assert_eq!(refused.to_string(), "no more than 2 files");
    engine.remove_file(first);
    engine.add_file(Layout::Unknown).unwrap();
}

#[test]
fn after_memory_was_given_back_everything_begins_anew() {
    let mut engine = Engine::new(Config::new(8));
    let manager = engine.add_manager(true).unwrap();
    let process = engine.add_process(manager);
    for _ in 0..2 {
        let file = engine.add_file(Layout::Unknown).unwrap();
        let block = Block::new(file, 5);
        engine.disclose(Nanos(0), manager, &[block, Block::new(file, 6)]);
        assert_eq!(engine.access(Nanos(1), process, block), Access::Miss);
        engine.tell(Nanos(2), Input::Loaded { block, by: None });
        // In use: nothing changes.
        engine.release_memory();
        assert!(engine.is_cached(block));
        assert_eq!(engine.disclosed_ahead(manager), 1);
        engine.remove_file(file);
        engine.tell(Nanos(3), Input::Cancelled { manager });
        while engine.poll_action().is_some() {}
        engine.release_memory();
        assert_eq!((engine.used_blocks(), engine.disclosed_ahead(manager)), (0, 0));
    }
}

#[test]
fn a_manager_too_many_is_refused_until_one_has_ended() {
    let mut engine = engine_with(Limits { managers: 2, ..Limits::default() });
    let first = engine.add_manager(false).unwrap();
    engine.add_manager(false).unwrap();
    assert_eq!(engine.add_manager(false).unwrap_err().limit, 2);
    engine.remove_manager(first);
    engine.add_manager(false).unwrap();
}

#[test]
fn the_record_of_a_manager_that_has_ended_is_used_again_while_its_blocks_are_still_cached() {
    let mut engine = engine_with(Limits { managers: 2, ..Limits::default() });
    let file = engine.add_file(Layout::Unknown).unwrap();
    // Each leaves a block behind that it has kept against a replacement, and so a placeholder.
    for round in 0..20 {
        let manager = engine.add_manager(true).unwrap();
        engine.set_policy(manager, 0, PoolPolicy::Mru).unwrap();
        let process = engine.add_process(manager);
        for index in 0..9 {
            let block = Block::new(file, round * 9 + index);
            engine.access(Nanos(0), process, block);
            engine.tell(Nanos(0), Input::Loaded { block, by: None });
            while engine.poll_action().is_some() {}
        }
        assert_eq!(engine.owned_blocks(manager), 8, "round {round}");
        assert_eq!(engine.manager_counters(manager).placeholders_used, 0, "another's mistake");
        engine.tell(Nanos(0), Input::ProcessExited { process });
        engine.remove_manager(manager);
        assert_eq!(engine.used_blocks(), 8);
    }
}

#[test]
fn directives_beyond_the_records_are_refused_and_change_nothing() {
    let mut engine =
        engine_with(Limits { levels_per_manager: 2, file_records_per_manager: 1, ..Limits::default() });
    let manager = engine.add_manager(true).unwrap();
    let files = [(); 2].map(|()| engine.add_file(Layout::Unknown).unwrap());

    engine.set_priority(manager, files[0], -1).unwrap();
    assert_eq!(engine.set_priority(manager, files[1], -1).unwrap_err().limit, 1);
    assert_eq!(engine.priority(manager, files[1]), 0);
    // The default needs no record, and giving one back makes room.
    engine.set_priority(manager, files[1], 0).unwrap();
    engine.set_priority(manager, files[0], 0).unwrap();
    engine.set_priority(manager, files[1], -1).unwrap();

    // Levels 0 and -1 exist.
    assert_eq!(engine.set_policy(manager, 1, PoolPolicy::Mru).unwrap_err().limit, 2);
    assert_eq!(engine.policy(manager, 1), PoolPolicy::Lru);
    assert_eq!(engine.set_temporary_priority(manager, files[0], 0, 9, 7).unwrap_err().limit, 2);
    engine.set_policy(manager, -1, PoolPolicy::Mru).unwrap();
}

#[test]
fn processes_beyond_the_records_share_the_last_one() {
    let mut engine = engine_with(Limits { processes: 2, ..Limits::default() });
    let manager = engine.add_manager(false).unwrap();
    let file = engine.add_file(Layout::Unknown).unwrap();
    let processes: Vec<_> = (0..4).map(|_| engine.add_process(manager)).collect();
    assert_eq!(processes[1], processes[2]);
    assert_eq!(processes[1], processes[3]);

    let mut plane = InstantPlane::new(engine, 8);
    for (index, &process) in processes.iter().enumerate() {
        plane.access(process, Block::new(file, index as u32));
    }
    assert_eq!(plane.engine.process_counters(processes[0]).references, 1);
    assert_eq!(plane.engine.process_counters(processes[1]).references, 3);
    // One of those that share a record ends; the others still own their blocks.
    plane.tell(Input::ProcessExited { process: processes[0] });
    plane.tell(Input::ProcessExited { process: processes[3] });
    assert_eq!(plane.engine.owned_blocks(manager), 4);
}

#[test]
fn a_record_takes_no_more_processes_than_it_has_numbers_for() {
    let mut engine = engine_with(Limits { processes: u32::MAX, ..Limits::default() });
    let manager = engine.add_manager(false).unwrap();
    let processes: Vec<_> = (0..65_535).map(|_| engine.add_process(manager)).collect();
    let last = *processes.last().unwrap();
    assert_eq!(engine.add_process(manager), last, "shared from here on");
    let file = engine.add_file(Layout::Unknown).unwrap();
    let mut plane = InstantPlane::new(engine, 8);
    plane.access(last, Block::new(file, 0));
    plane.tell(Input::Gone { block: Block::new(file, 0) });
    assert_eq!(plane.engine.process_counters(last).foreign_evictions, 1);
}

#[test]
fn a_list_takes_the_rest_when_the_cursor_has_moved_on() {
    let mut engine = engine_with(Limits { disclosed_blocks: 3, ..Limits::default() });
    let manager = engine.add_manager(true).unwrap();
    let process = engine.add_process(manager);
    let file = engine.add_file(Layout::Unknown).unwrap();
    let list: Vec<Block> = (0..5).map(|index| Block::new(file, index)).collect();

    assert_eq!(engine.disclose(Nanos(0), manager, &list), 3);
    assert_eq!(engine.disclose(Nanos(0), manager, &list[3..]), 0);
    let mut plane = InstantPlane::new(engine, 8);
    plane.access(process, list[0]);
    assert_eq!(plane.engine.disclosed_ahead(manager), 2);
    assert_eq!(plane.engine.disclose(Nanos(1), manager, &list[3..]), 1);
    for &block in &list[1..] {
        plane.access(process, block);
    }
    let counters = plane.engine.manager_counters(manager);
    assert_eq!(
        (counters.predicted, counters.unpredicted),
        (4, 0),
        "the fifth came after the end of the list"
    );
}

#[test]
fn a_cache_of_one_block_works() {
    for prefetch in [Prefetch::None, Prefetch::OneBlock, Prefetch::ControlledAggressive] {
        let mut engine = Engine::new(Config { prefetch, free_margin: 0, ..Config::new(1) });
        let manager = engine.add_manager(true).unwrap();
        let process = engine.add_process(manager);
        let file = engine.add_file(Layout::Unknown).unwrap();
        let list: Vec<Block> = [0, 1, 0, 2, 2].iter().map(|&index| Block::new(file, index)).collect();
        engine.disclose(Nanos(0), manager, &list);
        let mut plane = InstantPlane::new(engine, 1);
        plane.perform();
        for &block in &list {
            plane.access(process, block);
        }
        assert_eq!(plane.engine.used_blocks(), 1);
    }
}

#[test]
fn a_cache_of_no_blocks_becomes_one_of_one() {
    assert_eq!(Config::new(0).cache_blocks, 1);
}

/// Every frame is on its way to a prefetched block when another one is missed: it is fetched as soon as one
/// of them has arrived and can be replaced.
#[test]
fn a_demand_fetch_waits_for_a_frame() {
    let mut engine =
        Engine::new(Config { prefetch: Prefetch::ControlledAggressive, free_margin: 0, ..Config::new(2) });
    let manager = engine.add_manager(true).unwrap();
    let process = engine.add_process(manager);
    let file = engine.add_file(Layout::Unknown).unwrap();
    let block = |index| Block::new(file, index);
    engine.disclose(Nanos(0), manager, &[block(0), block(1)]);
    assert_eq!(std::iter::from_fn(|| engine.poll_action()).count(), 2);

    assert_eq!(engine.access(Nanos(1), process, block(9)), Access::Miss);
    assert_eq!(engine.poll_action(), None, "no frame is free");
    engine.tell(Nanos(2), Input::Loaded { block: block(0), by: None });
    let actions: Vec<_> = std::iter::from_fn(|| engine.poll_action()).collect();
    assert_eq!(actions.len(), 2, "evict one, fetch the other: {actions:?}");
    engine.tell(Nanos(3), Input::Loaded { block: block(9), by: None });
    assert!(engine.is_cached(block(9)));
    assert_eq!(engine.used_blocks(), 2);
}

/// A list may be disclosed before there is any process.
#[test]
fn a_list_without_a_process_is_prefetched_for_its_own_manager() {
    let mut engine = Engine::new(Config { prefetch: Prefetch::ControlledAggressive, ..Config::new(32) });
    let file = engine.add_file(Layout::Unknown).unwrap();
    let other = engine.add_manager(true).unwrap();
    let manager = engine.add_manager(true).unwrap();
    let process_of_other = engine.add_process(other);
    engine.disclose(Nanos(0), manager, &[Block::new(file, 0)]);
    let mut plane = InstantPlane::new(engine, 32);
    plane.perform();
    assert_eq!(plane.engine.owned_blocks(other), 0);
    assert_eq!(plane.engine.process_counters(process_of_other).prefetches, 0);
}

#[test]
fn a_removed_file_goes_when_no_list_names_it_any_more() {
    let mut engine = engine_with(Limits { files: 1, ..Limits::default() });
    let manager = engine.add_manager(true).unwrap();
    let process = engine.add_process(manager);
    let file = engine.add_file(Layout::Unknown).unwrap();
    assert_eq!(engine.disclose(Nanos(0), manager, &[Block::new(file, 0), Block::new(file, 1)]), 2);
    engine.access(Nanos(0), process, Block::new(file, 0));
    engine.remove_file(file);
    assert_eq!(engine.used_blocks(), 0);
    assert!(engine.add_file(Layout::Unknown).is_err(), "the list still names it");
    assert_eq!(engine.disclose(Nanos(0), manager, &[Block::new(file, 2)]), 0, "nothing new of it");
    engine.tell(Nanos(0), Input::Cancelled { manager });
    assert_eq!(engine.add_file(Layout::Unknown), Ok(file));
}
