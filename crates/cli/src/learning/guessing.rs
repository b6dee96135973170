//! A night on which nothing is known: what comes next is guessed from the directories that the job goes through.

use std::path::Path;

use foretell_learn::{at_a_time, memory};
use foretell_pagecache::fetch_beginning;
use foretell_pagecache::watch::Watcher;
use foretell_walk::{Extent, Found, Guesses, Means, Visit, Walker};

/// One part of the memory that is free in so many may be read ahead of its use,
const MEMORY_SHARE: u64 = 16;
/// and no more than this: 128 files of 128 KiB.
const MOST_BYTES: u64 = 16 << 20;

/// Guesses for a job that is watched.
#[derive(Debug)]
pub(super) struct Guessing(Option<Walker>);

impl Guessing {
    /// Begins; without a thread nothing is guessed.
    pub(super) fn start(watcher: &mut Watcher) -> Guessing {
        let free_bytes = memory::free_bytes().unwrap_or(0);
        let budget_bytes = (free_bytes / MEMORY_SHARE).min(MOST_BYTES);
        let walker = Walker::start(Means { fetch, readers: at_a_time, budget_bytes }).ok();
        if walker.is_some() {
            watcher.tell_visits();
        }
        Guessing(walker)
    }

    /// Nothing is guessed.
    pub(super) fn none() -> Guessing {
        Guessing(None)
    }

    /// Takes in what was seen.
    pub(super) fn look(&self, watcher: &mut Watcher) {
        let Some(walker) = &self.0 else { return };
        for visit in watcher.take_visits() {
            let before = visit.before.map(|(read, of)| Extent { read, of });
            walker.visited(Visit { path: visit.path, waited_ns: visit.waited_ns, before });
        }
    }

    /// How good the guesses were, if there were any.
    pub(super) fn guesses(&self) -> Option<Guesses> {
        self.0.as_ref().map(Walker::guesses).filter(|guesses| guesses.asked > 0)
    }
}

fn fetch(path: &Path, bytes: u64) -> Found {
    match fetch_beginning(path, bytes) {
        Some(true) => Found::Absent,
        Some(false) => Found::Cached,
        None => Found::Nothing,
    }
}
