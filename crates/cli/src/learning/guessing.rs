//! A night on which nothing is known: what comes next is guessed from the directories that the job goes through, and from
//! how it goes through files.

use std::ops::Range;
use std::path::{Path, PathBuf};

use foretell_learn::{at_a_time, has_an_arm, memory};
use foretell_pagecache::watch::{self, Watcher};
use foretell_pagecache::{beginning_on_disk, blocks_read, fetch_part};
use foretell_walk::{AllGuesses, Extent, Found, Means, OnDisk, Piece, Place, Visit, Walker};
use serde::Serialize;

/// One part of the memory that is free in so many may be read ahead of its use,
const MEMORY_SHARE: u64 = 16;
/// and no more than this: 128 files of 128 KiB.
const MOST_BYTES: u64 = 16 << 20;
/// Of the memory that is free so much may be filled with files that are read here and there: what is read beside them keeps
/// its place, and so does what others have cached.
const WHOLE_SHARE: u64 = 4;

/// And so much, at most, with small files that lie beside others on a disk with an arm: it is read in 3 s.
const MOST_ALONG_BYTES: u64 = 256 << 20;

/// Guesses for a job that is watched.
#[derive(Debug)]
pub(super) struct Guessing(Option<Walker>);

impl Guessing {
    /// Begins; without a thread nothing is guessed.
    pub(super) fn start(watcher: &mut Watcher) -> Guessing {
        let free_bytes = memory::free_bytes().unwrap_or(0);
        let budget_bytes = (free_bytes / MEMORY_SHARE).min(MOST_BYTES);
        let whole_bytes = free_bytes / WHOLE_SHARE;
        let means = Means {
            fetch,
            blocks_read,
            readers: at_a_time,
            has_arm: has_an_arm,
            beginning,
            fetch_together,
            beside: foretell_pagecache::beside,
            along_bytes: whole_bytes.min(MOST_ALONG_BYTES),
            budget_bytes,
            whole_bytes,
        };
        let walker = Walker::start(means).ok();
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
            let watch::Visit { path, waited_ns, has_fetched, .. } = visit;
            walker.visited(Visit { path, waited_ns, has_fetched, left });
        }
        for seen in watcher.take_pieces() {
            let watch::Piece { process, file, path, pages, of, waited_ns } = seen;
            walker.read(Piece { process, file, path, pages, of, waited_ns });
        }
        for seen in watcher.take_places() {
            let watch::Place { process, directory, mount, waited_ns } = seen;
            walker.seen(Place { process, directory, waited_ns }, mount);
        }
    }

    /// How good the guesses were, if there were any.
    pub(super) fn guesses(&self) -> Option<Guessed> {
        let guesses = self.0.as_ref()?.guesses();
        let AllGuesses { files, streams, directories, trees } = guesses;
        let is_any = streams.asked_pages > 0 || files.asked + directories.asked + trees.asked > 0;
        is_any.then_some(Guessed(guesses))
    }
}

/// How good the guesses of a night were.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Guessed(AllGuesses);

impl Guessed {
    /// What the job would have waited besides, seconds.
    pub(super) fn saved_s(self) -> f64 {
        let AllGuesses { files, streams, directories, trees } = self.0;
        let saved_ns = [files.saved_ns(), streams.saved_ns, directories.saved_ns, trees.saved_ns];
        saved_ns.into_iter().fold(0_u64, u64::saturating_add) as f64 / 1e9
    }

    /// What it waited for a device that gives no more, seconds.
    pub(super) fn at_full_rate_s(self) -> f64 {
        self.0.streams.at_full_rate_ns as f64 / 1e9
    }
}

fn fetch(path: &Path, bytes: Range<u64>) -> Found {
    found(fetch_part(path, bytes))
}

fn fetch_together(files: &[(PathBuf, u64)]) -> Vec<Found> {
    foretell_pagecache::fetch_together(files).into_iter().map(found).collect()
}

fn beginning(path: &Path, bytes: u64) -> Option<OnDisk> {
    beginning_on_disk(path, bytes).map(|(device, bytes)| OnDisk { device, bytes })
}

fn found(had_to_be_read: Option<bool>) -> Found {
    match had_to_be_read {
        Some(true) => Found::Absent,
        Some(false) => Found::Cached,
        None => Found::Nothing,
    }
}
