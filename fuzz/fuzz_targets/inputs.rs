//! Any sequence of inputs: the engine survives it, and its books are right when it is at rest.
//!
//! The first bytes choose the configuration; what follows is taken for the records of a log.

#![no_main]

use foretell_policy::{Action, Allocation, Block, Config, Engine, Input, Limits, Nanos, Prefetch, Residency};
use foretell_replay::{Log, Reader, Record};
use libfuzzer_sys::fuzz_target;

/// Magic and version, which are not compressed.
const BEGINNING_BYTES: usize = 10;

/// The end of a log without inputs: its kind, two numbers of one byte, the sum.
const END_BYTES: usize = 11;

fn configured(choice: [u8; 4]) -> Config {
    let [prefetch, allocation, cache, residency] = choice.map(usize::from);
    let allocations = [Allocation::LruSp, Allocation::LruS, Allocation::AllocLru, Allocation::GlobalLru];
    Config {
        prefetch: Prefetch::ALL[prefetch % Prefetch::ALL.len()],
        allocation: allocations[allocation % allocations.len()],
        residency: if residency % 2 == 0 { Residency::Exact } else { Residency::Advisory },
        disks: 2,
        // Lists soon have something that waits.
        limits: Limits { held_ahead: 1, ..Limits::default() },
        ..Config::new(1 + cache as u32)
    }
}

/// Does what the engine asks for: evictions at once, fetches are noted.
fn obey(engine: &mut Engine, now: Nanos, asked: &mut Vec<Block>) {
    while let Some(action) = engine.poll_action() {
        match action {
            Action::Evict { block } => {
                engine.tell(now, Input::Gone { block });
            }
            Action::Fetch { block, .. } => asked.push(block),
            Action::CancelPrefetches { .. } => {}
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, records)) = bytes.split_first_chunk::<4>() else { return };
    let config = configured(choice);
    let (empty, _) = Log::new(Vec::new(), &config, "fuzz", u64::MAX).and_then(Log::finish).expect("memory");
    let mut contents = zstd::decode_all(&empty[BEGINNING_BYTES..]).expect("just written");
    contents.truncate(contents.len() - END_BYTES);
    contents.extend_from_slice(records);
    let mut log = empty[..BEGINNING_BYTES].to_vec();
    log.extend_from_slice(&zstd::encode_all(&contents[..], 1).expect("memory"));
    let mut reader = Reader::new(&log[..]).expect("just written");
    let mut engine = Engine::new(config);
    let mut asked = Vec::new();
    while let Ok(Some(record)) = reader.next_record() {
        if let Record::Input { now, input } = record {
            engine.tell(now, input.as_input());
            obey(&mut engine, now, &mut asked);
        }
    }
    while !asked.is_empty() {
        for block in std::mem::take(&mut asked) {
            engine.tell(Nanos(u64::MAX), Input::FetchFailed { block });
            obey(&mut engine, Nanos(u64::MAX), &mut asked);
        }
    }
    assert!(engine.used_blocks() <= engine.config().cache_blocks);
});
