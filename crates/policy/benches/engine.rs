//! Hits and misses a second of the engine, one core, one million blocks cached.
//!
//! `cargo bench -p foretell-policy`; the column to look at is the number of items (references) a second.

use divan::{Bencher, counter::ItemsCount};
use foretell_policy::{
    Action, Block, Config, Engine, FileId, Input, Layout, ManagerId, Nanos, PoolPolicy, ProcessId,
};

const CACHE_BLOCKS: u32 = 1 << 20;

/// References made in one sample.
const REFERENCES: u32 = 1 << 20;

fn main() {
    divan::main();
}

/// Who manages the file: nobody, or a manager with this policy.
#[derive(Debug, Clone, Copy)]
enum Control {
    Oblivious,
    Lru,
    Mru,
    Lirs,
    Adaptive,
}

const CONTROLS: [Control; 5] =
    [Control::Oblivious, Control::Lru, Control::Mru, Control::Lirs, Control::Adaptive];

struct Setup {
    engine: Engine,
    manager: ManagerId,
    process: ProcessId,
    file: FileId,
}

fn setup(control: Control) -> Setup {
    let mut engine = Engine::new(Config::new(CACHE_BLOCKS));
    let manager = engine.add_manager(true).expect("a first manager");
    let process = engine.add_process(manager);
    let file = engine.add_file(Layout::Unknown).expect("a first file");
    let policy = match control {
        Control::Oblivious => None,
        Control::Lru => Some(PoolPolicy::Lru),
        Control::Mru => Some(PoolPolicy::Mru),
        Control::Lirs => Some(PoolPolicy::Lirs),
        Control::Adaptive => Some(PoolPolicy::Adaptive),
    };
    if let Some(policy) = policy {
        engine.set_policy(manager, 0, policy).expect("a first level");
    }
    let mut setup = Setup { engine, manager, process, file };
    for index in 0..CACHE_BLOCKS {
        reference(&mut setup, index);
    }
    setup
}

/// One reference, its fetch completed at once.
fn reference(s: &mut Setup, index: u32) {
    s.engine.access(Nanos(0), s.process, Block::new(s.file, index));
    while let Some(action) = s.engine.poll_action() {
        if let Action::Fetch { block, .. } = action {
            s.engine.tell(Nanos(0), Input::Loaded { block, by: None });
        }
    }
}

/// A fixed sequence of numbers that looks random (Marsaglia's xorshift).
fn scattered(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

#[divan::bench(args = CONTROLS, sample_count = 20)]
fn hits_in_order(bencher: Bencher, control: Control) {
    let mut s = setup(control);
    bencher.counter(ItemsCount::new(REFERENCES)).bench_local(|| {
        for index in 0..REFERENCES {
            reference(&mut s, index % CACHE_BLOCKS);
        }
    });
}

#[divan::bench(args = CONTROLS, sample_count = 20)]
fn hits_scattered(bencher: Bencher, control: Control) {
    let mut s = setup(control);
    let mut state = 1;
    bencher.counter(ItemsCount::new(REFERENCES)).bench_local(|| {
        for _ in 0..REFERENCES {
            let index = scattered(&mut state) % CACHE_BLOCKS;
            reference(&mut s, index);
        }
    });
}

#[divan::bench(args = CONTROLS, sample_count = 20)]
fn misses(bencher: Bencher, control: Control) {
    let mut s = setup(control);
    let mut next = CACHE_BLOCKS;
    bencher.counter(ItemsCount::new(REFERENCES)).bench_local(|| {
        for _ in 0..REFERENCES {
            reference(&mut s, next);
            next += 1;
        }
    });
}

/// In which order a list names the cached blocks.
#[derive(Debug, Clone, Copy)]
enum Listed {
    InOrder,
    Scattered,
}

/// Each once.
fn list(file: FileId, listed: Listed) -> Vec<Block> {
    let mut indices: Vec<u32> = (0..CACHE_BLOCKS).collect();
    if let Listed::Scattered = listed {
        let mut state = 1;
        for at in (1..indices.len()).rev() {
            indices.swap(at, scattered(&mut state) as usize % (at + 1));
        }
    }
    indices.into_iter().map(|index| Block::new(file, index)).collect()
}

/// References that are disclosed at a time, just before they are made.
const DISCLOSED: usize = 4096;

/// Hits that a list names, with the time to disclose them.
#[divan::bench(args = [Listed::InOrder, Listed::Scattered], sample_count = 10)]
fn listed_hits(bencher: Bencher, listed: Listed) {
    let mut s = setup(Control::Lru);
    let list = list(s.file, listed);
    bencher.counter(ItemsCount::new(REFERENCES)).bench_local(|| {
        for piece in list.chunks(DISCLOSED) {
            s.engine.disclose(Nanos(0), s.manager, piece);
            for block in piece {
                reference(&mut s, block.index);
            }
        }
    });
}

/// The same hits, in the same order, that no list names.
#[divan::bench(args = [Listed::InOrder, Listed::Scattered], sample_count = 10)]
fn unlisted_hits(bencher: Bencher, listed: Listed) {
    let mut s = setup(Control::Lru);
    let list = list(s.file, listed);
    bencher.counter(ItemsCount::new(REFERENCES)).bench_local(|| {
        for block in &list {
            reference(&mut s, block.index);
        }
    });
}

/// The same by a manager that has a list, of another file.
#[divan::bench(args = [Listed::InOrder, Listed::Scattered], sample_count = 10)]
fn hits_beside_a_list(bencher: Bencher, listed: Listed) {
    let mut s = setup(Control::Lru);
    let other = s.engine.add_file(Layout::Unknown).expect("a second file");
    let future: Vec<Block> = (0..DISCLOSED as u32).map(|index| Block::new(other, index)).collect();
    s.engine.disclose(Nanos(0), s.manager, &future);
    let list = list(s.file, listed);
    bencher.counter(ItemsCount::new(REFERENCES)).bench_local(|| {
        for block in &list {
            reference(&mut s, block.index);
        }
    });
}
