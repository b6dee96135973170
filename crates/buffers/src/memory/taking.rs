//! Threads take a lane for a read.
//!
//! A thread that reads often from one pool gets a lane of its own there, which it keeps until it ends or reads often from
//! another one: to look whether it has one costs a quarter of taking one. All others share some lanes, and take one for each read.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use super::board::LOCAL_LANES;

/// Lanes that a thread tries before it takes the way under the lock.
const TRIES: u32 = 4;
/// Of the lanes of the pool's own process those that no thread keeps.
const SHARED_LANES: u32 = 16;
/// Reads one after another, all from one pool, for which a thread gets a lane of its own.
const OFTEN: u32 = 16;
/// Reads after which one tries again that found all lanes kept by others.
const AGAIN: u32 = 4096;

thread_local! {
    /// The lane that this thread tries first.
    static FIRST: Cell<u32> = const { Cell::new(u32::MAX) };
    static OWN: Own = const { Own { number: Cell::new(0), lane: Cell::new(0) } };
    /// From where this thread has read last without a lane of its own, and how many times more until it gets one.
    static OTHER: Cell<(u64, u32)> = const { Cell::new((0, OFTEN)) };
    /// Gives back what this thread keeps.
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// Whose lane a thread keeps, by its number, and which.
struct Own {
    number: Cell<u64>,
    lane: Cell<u32>,
}

impl Own {
    fn set(number: u64, lane: u32) {
        OWN.with(|own| {
            own.number.set(number);
            own.lane.set(lane);
        });
    }
}

/// The lanes of one process, each of which one thread has at a time.
#[derive(Debug)]
pub(super) struct Local {
    first: u32,
    taken: Arc<[AtomicBool]>,
    /// Those from here on are kept.
    shared: u32,
    /// Tells them from those of other pools; not 0.
    number: u64,
    /// One more than the highest lane that was ever taken.
    used: AtomicU32,
}

impl Local {
    /// The lanes of the pool's own process.
    pub(super) fn new() -> Local {
        Local::with(0, LOCAL_LANES, SHARED_LANES)
    }

    /// Those of a guest, of which there are too few to be kept.
    pub(super) fn of(first: u32, lanes: u32) -> Local {
        Local::with(first, lanes, lanes)
    }

    fn with(first: u32, lanes: u32, shared: u32) -> Local {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let taken = (0..lanes).map(|_| AtomicBool::new(false)).collect();
        let number = NUMBERS.fetch_add(1, Relaxed);
        Local { first, taken, shared, number, used: AtomicU32::new(first) }
    }

    /// One more than the highest lane that was ever taken.
    pub(super) fn used(&self) -> u32 {
        self.used.load(Acquire)
    }

    /// A lane for one read; `None` when the likely ones are all taken.
    #[inline]
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let own = OWN.with(|own| (own.number.get() == self.number).then(|| own.lane.get()));
        Some(Taken { local: self, lane: own.or_else(|| self.take_other())? })
    }

    fn take_other(&self) -> Option<u32> {
        static THREADS: AtomicU32 = AtomicU32::new(0);
        if self.shared < self.taken.len() as u32
            && let Some(lane) = self.keep()
        {
            return Some(lane);
        }
        if FIRST.get() == u32::MAX {
            FIRST.set(THREADS.fetch_add(1, Relaxed) % LOCAL_LANES);
        }
        (0..TRIES.min(self.shared)).find_map(|step| self.try_take((FIRST.get() + step) % self.shared))
    }

    fn try_take(&self, at: u32) -> Option<u32> {
        let taken = &self.taken[at as usize];
        if taken.load(Relaxed) || taken.swap(true, Acquire) {
            return None;
        }
        let lane = self.first + at;
        if self.used.load(Relaxed) <= lane {
            self.used.fetch_max(lane + 1, Release);
        }
        Some(lane)
    }

    /// A lane of this thread's own, once it has read often enough.
    fn keep(&self) -> Option<u32> {
        let left = match OTHER.get() {
            (number, left) if number == self.number => left.saturating_sub(1),
            _ => OFTEN,
        };
        OTHER.set((self.number, left));
        if left > 0 {
            return None;
        }
        let at = (self.shared..self.taken.len() as u32).find(|&at| self.try_take(at).is_some());
        let Some(at) = at else {
            OTHER.set((self.number, AGAIN));
            return None;
        };
        let kept = Kept { taken: self.taken.clone(), at };
        // A thread that is ending keeps nothing any more.
        if KEPT.try_with(|own| own.replace(Some(kept))).is_err() {
            return None;
        }
        let lane = self.first + at;
        Own::set(self.number, lane);
        OTHER.set((0, OFTEN));
        Some(lane)
    }
}

/// A lane that a thread keeps from read to read, until this is dropped.
struct Kept {
    taken: Arc<[AtomicBool]>,
    at: u32,
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Before anybody else has it.
        Own::set(0, 0);
        self.taken[self.at as usize].store(false, Release);
    }
}

/// A lane, until it is dropped.
pub(super) struct Taken<'a> {
    pub(super) lane: u32,
    local: &'a Local,
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        let at = self.lane - self.local.first;
        // Others the thread keeps.
        if at < self.local.shared {
            self.local.taken[at as usize].store(false, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn often(local: &Local) -> u32 {
        for _ in 0..=OFTEN {
            assert!(local.take().is_some());
        }
        local.take().map(|taken| taken.lane).unwrap()
    }

    #[test]
    fn who_reads_often_keeps_a_lane_until_it_ends_or_reads_elsewhere() {
        let (one, other) = (Local::new(), Local::new());
        let mine = often(&one);
        assert!(mine >= SHARED_LANES);
        std::thread::scope(|scope| {
            let its = scope.spawn(|| often(&one)).join().unwrap();
            assert_ne!(its, mine);
            assert_eq!(scope.spawn(|| often(&one)).join().unwrap(), its, "given back");
        });
        // Now and then from elsewhere changes nothing.
        assert!(other.take().is_some_and(|taken| taken.lane < SHARED_LANES));
        assert_eq!(often(&one), mine);
        often(&other);
        assert!(one.take().is_some_and(|taken| taken.lane < SHARED_LANES));
        assert_eq!(one.taken.iter().filter(|taken| taken.load(Relaxed)).count(), 0);
    }

    #[test]
    fn threads_beyond_the_lanes_take_turns_and_nobody_has_another_ones() {
        const THREADS: u32 = LOCAL_LANES + 8;
        let local = Local::new();
        let has: Vec<AtomicU32> = (0..LOCAL_LANES).map(|_| AtomicU32::new(0)).collect();
        let barrier = std::sync::Barrier::new(THREADS as usize);
        let kept = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=THREADS)
                .map(|thread| {
                    let (local, has, barrier) = (&local, &has, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let mut taken = 0;
                        for _ in 0..200 {
                            if let Some(one) = local.take() {
                                let has = &has[one.lane as usize];
                                assert_eq!(has.swap(thread, Relaxed), 0);
                                has.store(0, Relaxed);
                                taken += 1;
                            }
                        }
                        barrier.wait();
                        assert!(taken > 0);
                        OWN.with(|own| own.number.get()) == local.number
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).filter(|&kept| kept).count()
        });
        assert_eq!(kept as u32, LOCAL_LANES - SHARED_LANES);
        assert!(local.taken.iter().all(|taken| !taken.load(Relaxed)));
        assert!(local.used() <= LOCAL_LANES);
    }
}
