//! A night on which nothing is known: what comes next is guessed from the directories that the job goes through, and from
//! how it goes through files.

use std::ops::Range;
use std::path::Path;

use foretell_learn::{at_a_time, memory};
use foretell_pagecache::fetch_part;
use foretell_pagecache::watch::{self, Watcher};
use foretell_walk::{Extent, Found, Guesses, Means, Piece, StreamGuesses, Visit, Walker};
use serde::Serialize;

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
            let extent = |left: watch::Left| (left.path, Extent { read: left.read, of: left.of });
            let left = visit.left.into_iter().map(extent).collect();
            walker.visited(Visit { path: visit.path, waited_ns: visit.waited_ns, left });
        }
        for seen in watcher.take_pieces() {
            let watch::Piece { process, file, path, pages, of, waited_ns } = seen;
            walker.read(Piece { process, file, path, pages, of, waited_ns });
        }
    }

    /// How good the guesses were, if there were any.
    pub(super) fn guesses(&self) -> Option<Guessed> {
        let (files, streams) = self.0.as_ref()?.guesses();
        (files.asked > 0 || streams.asked_pages > 0).then_some(Guessed { files, streams })
    }
}

/// How good the guesses of a night were.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Guessed {
    /// Which files come.
    #[serde(flatten)]
    files: Guesses,
    /// Which parts of them.
    streams: StreamGuesses,
}

impl Guessed {
    /// What the job would have waited besides, seconds.
    pub(super) fn saved_s(self) -> f64 {
        self.files.saved_ns().saturating_add(self.streams.saved_ns) as f64 / 1e9
    }
}

fn fetch(path: &Path, bytes: Range<u64>) -> Found {
    match fetch_part(path, bytes) {
        Some(true) => Found::Absent,
        Some(false) => Found::Cached,
        None => Found::Nothing,
    }
}
