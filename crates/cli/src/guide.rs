//! Lists of what will be read, handed to a plane while the program runs.
//!
//! A list for each reader, as far ahead as is worth it: the policy needs to know what comes within a few times the cache,
//! and a list of millions of positions would take memory that the program can use better. The session's casting says
//! which process follows which list. Where a file is now a [`Finder`] has found out, or a list waits for it.

use std::time::{Duration, Instant};

use foretell_learn::{Chunk, Finder, Lists, Names, Place};
use foretell_pagecache::{HintChunk, Options, Plane, SessionId};
use foretell_recording::PAGE_BYTES;

/// Chunks handed over at a time: a file name is looked up for each, two microseconds, and a new file is opened.
const CHUNKS_A_TIME: usize = 64;
/// What is handed over in one go while the job runs: what it reads meanwhile waits in the ring.
const FEED_TIME: Duration = Duration::from_millis(10);
/// The longest wait for something else while a list waits for a file to be found, which takes a disk some milliseconds.
const SOUGHT: Duration = Duration::from_millis(2);
/// So long a disk with an arm waits for the lists, at least, if it takes so long to tell them: 4,000 files of one directory are found
/// and told in 0.3 to 0.5 s, and each that is read by itself meanwhile is a hole in what is read in one go later.
pub(crate) const OPEN: Duration = Duration::from_secs(1);
/// Lists reach this many times the cache ahead of their readers.
const CACHES_AHEAD: u64 = 8;
/// And this many blocks at least.
const LEAST_AHEAD: u64 = 1 << 16;
/// And no more than half of what a list of the policy may hold.
const MOST_AHEAD: u64 = 1 << 21;

/// How far the lists are told.
#[derive(Debug, Clone, Copy)]
enum Telling {
    /// Not at all; it may take so long.
    For(Duration),
    /// Said to go on, until then at most.
    Until(Instant),
    /// All of them, as far as they are handed over before the job comes to them.
    Over,
}

/// Hands lists to a manager of a session.
#[derive(Debug)]
pub(crate) struct Guide<'a> {
    lists: &'a Lists,
    finder: Finder,
    session: SessionId,
    manager: usize,
    /// The next chunk of each list.
    next: Vec<usize>,
    /// Positions that a list has ahead of its reader, as far as it goes.
    window: usize,
    /// Files that are gone, or that the plane has refused.
    failed: Vec<bool>,
    /// A list waits for a file that is being looked for.
    is_waiting: bool,
    /// How far the lists are told.
    telling: Telling,
}

impl<'a> Guide<'a> {
    /// Nothing is handed over yet. Where the files are now the finder says, which has begun to look for them. A disk with an arm
    /// waits for the lists so `long`, at most.
    pub(crate) fn new(
        lists: &'a Lists,
        finder: Finder,
        session: SessionId,
        manager: usize,
        options: &Options,
        long: Duration,
    ) -> Guide<'a> {
        let cache_blocks = options.budget_bytes / u64::from(options.block_bytes);
        let window = (CACHES_AHEAD * cache_blocks).clamp(LEAST_AHEAD, MOST_AHEAD);
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let (next, failed) = (vec![0; lists.lists.len()], vec![false; lists.files.len()]);
        Guide {
            lists,
            finder,
            session,
            manager,
            next,
            window,
            failed,
            is_waiting: false,
            telling: Telling::For(long),
        }
    }

    /// Hands over what the lists have room for, for no longer than [`FEED_TIME`].
    pub(crate) fn feed(&mut self, plane: &mut Plane) {
        let now = Instant::now();
        if let Telling::For(long) = self.telling {
            self.telling = Telling::Until(now + long);
            plane.open_lists(self.session, self.manager, true);
        }
        let is_told = self.hand_over(plane, now + FEED_TIME);
        if matches!(self.telling, Telling::Until(until) if is_told || now >= until) {
            self.telling = Telling::Over;
            plane.open_lists(self.session, self.manager, false);
        }
    }

    /// Hands over what the lists have room for, until then; says whether that is all.
    fn hand_over(&mut self, plane: &mut Plane, until: Instant) -> bool {
        self.is_waiting = false;
        let mut is_told = true;
        for (list, chunks) in self.lists.lists.iter().enumerate() {
            let Ok(number) = u32::try_from(list) else { return true };
            // Also of a list for which there is no time yet: those after it have their numbers.
            if self.next[list] == 0 && plane.disclose_list(self.session, self.manager, number, &[]).is_err() {
                return false;
            }
            while plane.list_ahead(self.session, self.manager, number) < self.window {
                if Instant::now() >= until {
                    is_told = false;
                    break;
                }
                let (hints, end) = self.hints(chunks, self.next[list]);
                if hints.is_empty() {
                    self.next[list] = end;
                    break;
                }
                let (at, hints): (Vec<usize>, Vec<HintChunk>) = hints.into_iter().unzip();
                self.next[list] = match plane.disclose_list(self.session, self.manager, number, &hints) {
                    // The one before is still on its way.
                    Ok(taken) if taken.chunks == 0 => return false,
                    Ok(taken) => at.get(taken.chunks).copied().unwrap_or(end),
                    Err(error) => {
                        // That file cannot be followed (it has shrunk, is on no disk); the next one may.
                        let refused = at.get(error.chunk).copied().unwrap_or(end);
                        if let Some(chunk) = chunks.get(refused) {
                            self.failed[chunk.file as usize] = true;
                        }
                        refused
                    }
                };
            }
        }
        is_told && !self.is_waiting
    }

    /// The next few chunks that can be handed over, each with its place in the list, and where the list goes on behind
    /// them. Left out is what is gone, and what lies beyond the end of a file that has shrunk.
    fn hints(&mut self, chunks: &[Chunk], from: usize) -> (Vec<(usize, HintChunk)>, usize) {
        let mut hints = Vec::with_capacity(CHUNKS_A_TIME);
        for (at, chunk) in chunks.iter().enumerate().skip(from) {
            if hints.len() >= CHUNKS_A_TIME {
                return (hints, at);
            }
            if self.failed[chunk.file as usize] {
                continue;
            }
            match self.finder.place(chunk.file) {
                Place::Sought => {
                    self.is_waiting = true;
                    return (hints, at);
                }
                Place::Gone => self.failed[chunk.file as usize] = true,
                Place::There(path, bytes) => {
                    let offset = u64::from(chunk.first_page) * PAGE_BYTES;
                    let length = (u64::from(chunk.pages) * PAGE_BYTES).min(bytes.saturating_sub(offset));
                    if length > 0 {
                        hints.push((at, HintChunk { path, offset, length: Some(length) }));
                    }
                }
            }
        }
        (hints, chunks.len())
    }

    /// Are the lists told?
    pub(crate) fn is_told(&self) -> bool {
        matches!(self.telling, Telling::Over)
    }

    /// Whose lists they are.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// What of the lists has been handed over.
    pub(crate) fn handed(&self) -> impl Iterator<Item = &'a Chunk> {
        self.lists.lists.iter().zip(&self.next).flat_map(|(chunks, next)| chunks.iter().take(*next))
    }

    /// Files that could not be followed, so far.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.iter().filter(|failed| **failed).count() as u64
    }

    /// How the files were found, so far.
    pub(crate) fn names(&self) -> Names {
        self.finder.names()
    }

    /// How long to wait for something else, `idle` at most.
    pub(crate) fn patience(&self, idle: Duration) -> Duration {
        if self.is_waiting { idle.min(SOUGHT) } else { idle }
    }
}
