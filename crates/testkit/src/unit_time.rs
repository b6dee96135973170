//! An engine in the unit-time model of [`crate::best_time`]: a reference takes one unit, a fetch F.
//!
//! The engine hears of a reference when its unit is over, because the block is in use until then and may
//! not be given up for a fetch that starts meanwhile. A reference to a missing block is told at once: its
//! demand fetch starts there and then, and if the block is given up again at the moment of its arrival, the
//! fetch that takes its frame starts a unit later. Fetches wait for their disk in the order in which they were
//! asked for.

use std::collections::VecDeque;

use foretell_policy::{Action, Block, Config, DiskId, Engine, Extent, Input, Layout, Nanos, Prefetch};

use crate::UnitTime;

/// Nanoseconds of one unit, on the engine's clock.
const UNIT_NANOS: u64 = 1_000;

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed {
    /// Units from the first reference to the end of the last.
    pub units: u32,
    /// Fetches that were asked for.
    pub fetches: u32,
}

/// Runs the references of `instance` through an engine that knows them all in advance. The cache size and
/// the number of disks of `config` are replaced by those of the instance.
///
/// # Panics
///
/// If the engine asks for what cannot be, or never fetches a block that is waited for.
#[must_use]
pub fn run(instance: &UnitTime, config: Config) -> Elapsed {
    let algorithm = config.prefetch;
    let mut engine =
        Engine::new(Config { cache_blocks: instance.cache_blocks, disks: instance.disks as u16, ..config });
    let file = engine.add_file(layout(instance.disks)).expect("the first file");
    let manager = engine.add_manager(true).expect("the first manager");
    let process = engine.add_process(manager);
    let block = |number: u32| Block::new(file, number);

    for &number in &instance.cached {
        engine.access(Nanos(0), process, block(number));
        while let Some(action) = engine.poll_action() {
            if let Action::Fetch { block, .. } = action {
                engine.tell(Nanos(0), Input::Loaded { block, by: None });
            }
        }
    }
    let list: Vec<Block> = instance.references.iter().map(|&number| block(number)).collect();
    assert_eq!(engine.disclose(Nanos(0), manager, &list), list.len());

    if algorithm == Prefetch::ReverseAggressive {
        engine.set_schedule(manager, f64::from(instance.fetch_units), 1);
    }

    // The first of each queue is being fetched; the number is the units that it still needs.
    let mut queues: Vec<VecDeque<(Block, u32)>> = vec![VecDeque::new(); instance.disks as usize];
    let mut elapsed = Elapsed { units: 0, fetches: 0 };
    let mut done = 0;
    let mut told = false;
    let mut arrived = false;
    let patience = (list.len() as u32 + 1) * (instance.fetch_units + 1) * 4;
    while done < list.len() {
        let now = |units: u32| Nanos(u64::from(units) * UNIT_NANOS);
        let wanted = list[done];
        start(&mut engine, instance, wanted, &mut queues, &mut elapsed);
        let disk_is_idle = queues[(wanted.index % instance.disks) as usize].is_empty();
        if !engine.is_cached(wanted) && disk_is_idle && !told {
            engine.access(now(elapsed.units), process, wanted);
            told = true;
            start(&mut engine, instance, wanted, &mut queues, &mut elapsed);
        }
        let in_use = engine.is_cached(wanted) || arrived;

        elapsed.units += 1;
        if in_use {
            if !told {
                engine.access(now(elapsed.units), process, wanted);
            }
            (told, arrived) = (false, false);
            done += 1;
        }
        for queue in &mut queues {
            if let Some((block, left)) = queue.front_mut() {
                *left -= 1;
                if *left == 0 {
                    let block = *block;
                    queue.pop_front();
                    arrived |= told && block == wanted;
                    engine.tell(now(elapsed.units), Input::Loaded { block, by: None });
                }
            }
        }
        assert!(elapsed.units < patience, "{wanted:?} is waited for and never comes");
    }
    elapsed
}

/// Takes the engine's actions: evictions take effect at once, fetches queue at their disk, one unit later
/// if they take the frame of the block that is in use.
fn start(
    engine: &mut Engine,
    instance: &UnitTime,
    in_use: Block,
    queues: &mut [VecDeque<(Block, u32)>],
    elapsed: &mut Elapsed,
) {
    let mut delay = 0;
    while let Some(action) = engine.poll_action() {
        match action {
            Action::Evict { block } => delay = u32::from(block == in_use),
            Action::Fetch { block, .. } => {
                elapsed.fetches += 1;
                let units = instance.fetch_units + std::mem::take(&mut delay);
                queues[(block.index % instance.disks) as usize].push_back((block, units));
            }
            Action::CancelPrefetches { .. } => {}
        }
    }
}

/// Block b on disk b modulo `disks`.
fn layout(disks: u32) -> Layout {
    let one = |b: u32| Extent {
        first_block: b,
        blocks: 1,
        address: u64::from(b / disks),
        stride: 1,
        disk: DiskId((b % disks) as u16),
    };
    Layout::Extents((0..32).map(one).collect())
}
