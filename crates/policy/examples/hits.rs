//! What hits cost in processor time: `cargo run --release -p foretell-policy --example hits [ROUNDS [ROW]]`.
//!
//! Where other programs run beside, the time that passes says little. Each row is the processor time of one reference to one of a
//! million cached blocks, in nanoseconds: the least and the median of so many rounds (10). Two builds are compared by running
//! them in turn. Under `valgrind --tool=callgrind`, a row with two numbers of rounds gives the instructions of one.

use std::io::Write;

use foretell_policy::{
    Action, Block, Config, Engine, FileId, Input, Layout, ManagerId, Nanos, PoolPolicy, ProcessId,
};

/// Blocks that are cached.
const CACHE_BLOCKS: u32 = 1 << 20;

/// References that are disclosed at a time, just before they are made; of a list of another file, all.
const DISCLOSED: u32 = 4096;

/// What lists know of what is referenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    None,
    OfAnotherFile,
    OfAll,
}

const ROWS: [(&str, Lists, bool); 6] = [
    ("in-order", Lists::None, true),
    ("in-order-beside-a-list", Lists::OfAnotherFile, true),
    ("in-order-listed", Lists::OfAll, true),
    ("in-no-order", Lists::None, false),
    ("in-no-order-beside-a-list", Lists::OfAnotherFile, false),
    ("in-no-order-listed", Lists::OfAll, false),
];

struct Scene {
    engine: Engine,
    manager: ManagerId,
    process: ProcessId,
    file: FileId,
}

/// One reference, its fetch completed at once.
fn reference(scene: &mut Scene, index: u32) {
    scene.engine.access(Nanos(0), scene.process, Block::new(scene.file, index));
    while let Some(action) = scene.engine.poll_action() {
        if let Action::Fetch { block, .. } = action {
            scene.engine.tell(Nanos(0), Input::Loaded { block, by: None });
        }
    }
}

/// A manager under LRU, all of whose blocks are cached.
fn scene(lists: Lists) -> Result<Scene, Box<dyn std::error::Error>> {
    let mut engine = Engine::new(Config::new(CACHE_BLOCKS));
    let manager = engine.add_manager(true)?;
    let process = engine.add_process(manager);
    let file = engine.add_file(Layout::Unknown)?;
    engine.set_policy(manager, 0, PoolPolicy::Lru)?;
    let mut scene = Scene { engine, manager, process, file };
    (0..CACHE_BLOCKS).for_each(|index| reference(&mut scene, index));
    if lists == Lists::OfAnotherFile {
        let other = scene.engine.add_file(Layout::Unknown)?;
        let list: Vec<Block> = (0..DISCLOSED).map(|index| Block::new(other, index)).collect();
        scene.engine.disclose(Nanos(0), manager, &list);
    }
    Ok(scene)
}

/// All blocks once, in an order that looks random if not in order (Marsaglia's xorshift, Fisher and Yates' shuffle).
fn order(is_in_order: bool) -> Vec<u32> {
    let mut order: Vec<u32> = (0..CACHE_BLOCKS).collect();
    let mut state = 1_u32;
    for at in (1..order.len()).rev().filter(|_| !is_in_order) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        order.swap(at, state as usize % (at + 1));
    }
    order
}

/// Processor time of this thread so far, in nanoseconds (Linux, `Documentation/scheduler/sched-stats.rst`).
fn processor_ns() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().unwrap_or_default().parse()?)
}

fn round(scene: &mut Scene, lists: Lists, order: &[u32]) -> Result<f64, Box<dyn std::error::Error>> {
    let before = processor_ns()?;
    for piece in order.chunks(DISCLOSED as usize) {
        if lists == Lists::OfAll {
            let list: Vec<Block> = piece.iter().map(|&index| Block::new(scene.file, index)).collect();
            scene.engine.disclose(Nanos(0), scene.manager, &list);
        }
        piece.iter().for_each(|&index| reference(scene, index));
    }
    Ok((processor_ns()? - before) as f64 / order.len() as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rounds: usize = arguments.next().map_or(Ok(10), |rounds| rounds.parse())?;
    let wanted = arguments.next();
    for (name, lists, is_in_order) in ROWS {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let (mut scene, order) = (scene(lists)?, order(is_in_order));
        let mut all = Vec::new();
        for _ in 0..rounds.max(1) {
            all.push(round(&mut scene, lists, &order)?);
        }
        all.sort_by(f64::total_cmp);
        writeln!(std::io::stdout(), "{name:26} {:6.1} {:6.1}", all[0], all[all.len() / 2])?;
    }
    Ok(())
}
