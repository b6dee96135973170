//! Threads take a lane for a read.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::board::LOCAL_LANES;

/// Lanes that a thread tries before it takes the way under the lock.
const TRIES: u32 = 4;

thread_local! {
    /// The lane that this thread tries first.
    static FIRST: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// The lanes of one process, each of which one thread has at a time.
#[derive(Debug)]
pub(super) struct Local {
    first: u32,
    taken: Box<[AtomicBool]>,
    /// One more than the highest lane that was ever taken.
    used: AtomicU32,
}

impl Local {
    /// The lanes of the pool's own process.
    pub(super) fn new() -> Local {
        Local::of(0, LOCAL_LANES)
    }

    pub(super) fn of(first: u32, lanes: u32) -> Local {
        let taken = (0..lanes).map(|_| AtomicBool::new(false)).collect();
        Local { first, taken, used: AtomicU32::new(first) }
    }

    /// One more than the highest lane that was ever taken.
    pub(super) fn used(&self) -> u32 {
        self.used.load(Acquire)
    }

    /// A lane for one read; `None` when the likely ones are all taken.
    #[inline]
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        static THREADS: AtomicU32 = AtomicU32::new(0);
        if FIRST.get() == u32::MAX {
            FIRST.set(THREADS.fetch_add(1, Relaxed) % LOCAL_LANES);
        }
        let lanes = self.taken.len() as u32;
        (0..TRIES.min(lanes)).find_map(|step| {
            let at = (FIRST.get() + step) % lanes;
            let taken = &self.taken[at as usize];
            if taken.load(Relaxed) || taken.swap(true, Acquire) {
                return None;
            }
            let lane = self.first + at;
            if self.used.load(Relaxed) <= lane {
                self.used.fetch_max(lane + 1, Release);
            }
            Some(Taken { lane, taken })
        })
    }
}

/// A lane, until it is dropped.
pub(super) struct Taken<'a> {
    pub(super) lane: u32,
    taken: &'a AtomicBool,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.taken.store(false, Release);
    }
}
