//! Logs of live runs that once went wrong (`logs/record.py` says how, and records them anew): they replay bit for bit, and
//! what went wrong does not any more.

#![allow(clippy::unwrap_used)] // a test's own helpers

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use foretell_policy::{Access, Answer, Block, Input, belady_fetches};
use foretell_replay::{End, Event, Outcome, Reader, Record, recorded, replay_with};

/// A log that was replayed.
struct Replayed {
    outcome: Outcome,
    /// The blocks that were referenced, in order, by number.
    references: Vec<u32>,
    /// Blocks that the cache holds.
    cache_blocks: u32,
    /// The longest row of references that all had to wait.
    longest_row_of_misses: u32,
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logs").join(name)
}

/// Writes what the engine asks for today in place of what it asked for, the inputs stay: where it was changed on purpose.
fn renew(name: &str) {
    let mut reader = Reader::new(File::open(path(name)).unwrap()).unwrap();
    let header = reader.header().clone();
    let mut inputs = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        if let Record::Input { now, input } = record {
            inputs.push((now, input));
        }
    }
    let (bytes, _) = recorded(Vec::new(), &header.config, &header.program_version, &inputs).unwrap();
    std::fs::write(path(name), bytes).unwrap();
}

fn replayed(name: &str) -> Replayed {
    if std::env::var_os("FORETELL_RENEW_LOGS").is_some() {
        renew(name);
    }
    let mut numbers = HashMap::<Block, u32>::new();
    let (mut references, mut row, mut longest) = (Vec::new(), 0, 0);
    let mut reader = Reader::new(File::open(path(name)).unwrap()).unwrap();
    let cache_blocks = reader.header().config.cache_blocks;
    let outcome = replay_with(&mut reader, None, |event| {
        if let Event::Input { input: Input::Accessed { block, .. }, answer, .. } = event {
            let next = numbers.len() as u32;
            references.push(*numbers.entry(block).or_insert(next));
            row = if answer == Answer::Access(Access::Hit) { 0 } else { row + 1 };
            longest = longest.max(row);
        }
    })
    .unwrap();
    assert!(
        outcome.checksum_matches && outcome.end == End::Complete,
        "{name}: the policy asks for something else; if it was changed on purpose, FORETELL_RENEW_LOGS=1: {outcome:?}"
    );
    assert_eq!(outcome.counters.references, references.len() as u64);
    Replayed { outcome, references, cache_blocks, longest_row_of_misses: longest }
}

impl Replayed {
    /// Blocks fetched, ahead or on demand.
    fn fetched(&self) -> u64 {
        self.outcome.counters.prefetches + self.outcome.counters.demand_fetches
    }

    /// The fewest with which this could have been read.
    fn optimum(&self) -> u64 {
        belady_fetches(&self.references, self.cache_blocks)
    }
}

/// After a slip the reader was looked for where four neighbours of a sample follow each other, found in another epoch, and
/// lost: a fifth of the list was fetched, and the rest left to the kernel.
#[test]
fn a_list_with_a_few_wrong_entries_is_followed_to_its_end() {
    let log = replayed("slip.inputs");
    let (counters, managers) = (log.outcome.counters, log.outcome.managers);
    assert!(managers.lists_discarded == 0, "{managers:?}");
    assert!(managers.unpredicted * 100 <= counters.references, "{managers:?} of {counters:?}");
    // A sample that the list does not have is 16 blocks long at most; two of them may follow each other.
    assert!(log.longest_row_of_misses <= 32, "{} references waited in a row", log.longest_row_of_misses);
    assert!(
        log.fetched() * 100 <= log.optimum() * 102,
        "{} of {}: {counters:?}",
        log.fetched(),
        log.optimum()
    );
    assert!(counters.prefetches_useful * 100 >= counters.prefetches * 98, "{counters:?}");
}

/// The list of a run before was one for all processes: each of the eight moved its reader, and 66 blocks in 100,000 were
/// fetched ahead.
#[test]
fn a_program_that_a_shell_starts_eight_times_has_its_list_each_time() {
    let log = replayed("eight-times.inputs");
    let counters = log.outcome.counters;
    assert!(log.outcome.managers.lists_discarded == 0, "{:?}", log.outcome.managers);
    assert!(counters.demand_fetches * 100 <= counters.references, "{counters:?}");
    assert!(
        log.fetched() * 100 <= log.optimum() * 105,
        "{} of {}: {counters:?}",
        log.fetched(),
        log.optimum()
    );
}

/// Under the recording of a run before, whose temporary files had other names, and a rule: it read two fifths more than
/// under the kernel.
#[test]
fn a_sort_reads_its_files_again_no_more_often_than_under_lru() {
    let log = replayed("sort.inputs");
    let counters = log.outcome.counters;
    let lru = foretell_testkit::fetches::lru(&log.references, log.cache_blocks as usize);
    assert!(log.fetched() <= lru, "{} of {lru}: {counters:?}", log.fetched());
    assert!(counters.prefetches > 300, "the file that it sorts is fetched ahead: {counters:?}");
    assert!(counters.prefetches_useful * 100 >= counters.prefetches * 98, "{counters:?}");
}
