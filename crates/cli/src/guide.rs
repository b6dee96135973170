//! Lists of what will be read, handed to a plane while the program runs.
//!
//! A list for each reader, as far ahead as is worth it: the policy needs to know what comes within a few times the cache,
//! and a list of millions of positions would take memory that the program can use better. The session's casting says
//! which process follows which list.

use std::time::{Duration, Instant};

use foretell_learn::{Chunk, Lists};
use foretell_pagecache::{HintChunk, Options, Plane, SessionId};

/// Chunks handed over at a time: a file name is looked up for each, two microseconds, and a new file is opened.
const CHUNKS_A_TIME: usize = 64;
/// What is handed over in one go before the job begins.
pub(crate) const FIRST_TIME: Duration = Duration::from_millis(200);
/// The same while it runs.
pub(crate) const FEED_TIME: Duration = Duration::from_millis(10);
/// Lists reach this many times the cache ahead of their readers.
const CACHES_AHEAD: u64 = 8;
/// And this many blocks at least.
const LEAST_AHEAD: u64 = 1 << 16;
/// And no more than half of what a list of the policy may hold.
const MOST_AHEAD: u64 = 1 << 21;

/// Hands lists to a manager of a session.
#[derive(Debug)]
pub(crate) struct Guide<'a> {
    lists: &'a Lists,
    session: SessionId,
    manager: usize,
    /// The next chunk of each list.
    next: Vec<usize>,
    /// Positions that a list has ahead of its reader, as far as it goes.
    window: usize,
    /// Files that the plane has refused.
    failed: Vec<bool>,
}

impl<'a> Guide<'a> {
    /// Nothing is handed over yet.
    pub(crate) fn new(lists: &'a Lists, session: SessionId, manager: usize, options: &Options) -> Guide<'a> {
        let cache_blocks = options.budget_bytes / u64::from(options.block_bytes);
        let window = (CACHES_AHEAD * cache_blocks).clamp(LEAST_AHEAD, MOST_AHEAD);
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        let (next, failed) = (vec![0; lists.lists.len()], vec![false; lists.files.len()]);
        Guide { lists, session, manager, next, window, failed }
    }

    /// Hands over what the lists have room for, for about as long as `time` says.
    pub(crate) fn feed(&mut self, plane: &mut Plane, time: Duration) {
        let until = Instant::now() + time;
        for (list, chunks) in self.lists.lists.iter().enumerate() {
            let Ok(number) = u32::try_from(list) else { return };
            // Also of a list for which there is no time yet: those after it have their numbers.
            if self.next[list] == 0 && plane.disclose_list(self.session, self.manager, number, &[]).is_err() {
                return;
            }
            while plane.list_ahead(self.session, self.manager, number) < self.window && Instant::now() < until
            {
                let failed = |chunk: &&Chunk| self.failed[chunk.file as usize];
                self.next[list] += chunks[self.next[list]..].iter().take_while(failed).count();
                let rest = chunks[self.next[list]..].iter().take_while(|chunk| !failed(chunk));
                let hints: Vec<HintChunk> = rest.take(CHUNKS_A_TIME).map(|c| self.hint(*c)).collect();
                if hints.is_empty() {
                    break;
                }
                match plane.disclose_list(self.session, self.manager, number, &hints) {
                    // The one before is still on its way.
                    Ok(taken) if taken.chunks == 0 => return,
                    Ok(taken) => self.next[list] += taken.chunks,
                    Err(error) => {
                        // That file cannot be followed (it has shrunk, is gone, is on no disk); the next one may.
                        self.next[list] += error.chunk;
                        if let Some(chunk) = chunks.get(self.next[list]) {
                            self.failed[chunk.file as usize] = true;
                        }
                    }
                }
            }
        }
    }

    fn hint(&self, chunk: Chunk) -> HintChunk {
        let (offset, length) = self.lists.bytes(chunk);
        HintChunk { path: self.lists.files[chunk.file as usize].path.clone(), offset, length: Some(length) }
    }

    /// Whose lists they are.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Files that could not be followed.
    pub(crate) fn failed(&self) -> u64 {
        self.lists.missing + self.failed.iter().filter(|failed| **failed).count() as u64
    }
}
