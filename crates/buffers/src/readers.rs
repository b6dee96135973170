//! Who reads, and how long readers compute between two reads: what the planner compares with the time of a fetch.
//!
//! A thread computes from the end of one read of its own to the beginning of the next. Where several threads read in turn,
//! the pool sees references so many times as often.

use std::cell::Cell;

use foretell_policy::Nanos;
use rustix::time::ClockId;

/// Threads that are remembered; the one that has not read for longest is forgotten for a new one.
const MOST_THREADS: usize = 256;
/// A thread counts as a reader until the others have read so many times each.
const PATIENCE: u64 = 8;

/// The pool that a thread read from last, and when that read ended. In two, as a pair is read at once, for which a
/// processor waits until what was written apart is in its cache.
struct Ended {
    pool: Cell<u64>,
    at_ns: Cell<u64>,
}

thread_local! {
    static ENDED: Ended = const { Ended { pool: Cell::new(0), at_ns: Cell::new(0) } };
}

/// The system's clock.
pub(crate) fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// The same as of the kernel's last tick, a tenth of the price. Of many reads the mean is the same.
#[inline]
pub(crate) fn tick_ns() -> u64 {
    clock_ns(ClockId::MonotonicCoarse)
}

#[inline]
fn clock_ns(clock: ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// A thread that begins to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The thread: its number among all that read.
    pub(crate) reader: u64,
    /// What it computed since its last read from the same pool ended; `None` at the first one.
    pub(crate) compute_ns: Option<u64>,
}

impl Reading {
    /// This thread begins to read.
    #[inline]
    pub(crate) fn begin(pool: u64, now_ns: u64) -> Reading {
        ENDED.with(|ended| {
            // The address is the thread's own as long as it lives.
            let reader = std::ptr::from_ref(ended).addr() as u64;
            let compute_ns = (ended.pool.get() == pool).then(|| now_ns.saturating_sub(ended.at_ns.get()));
            Reading { reader, compute_ns }
        })
    }

    /// This thread's read has ended.
    #[inline]
    pub(crate) fn end(pool: u64, now_ns: u64) {
        ENDED.with(|ended| {
            let same = ended.pool.replace(pool) == pool;
            // A tick may lie before what the clock has said.
            ended.at_ns.set(if same { now_ns.max(ended.at_ns.get()) } else { now_ns });
        });
    }
}

/// The mean of some times.
#[derive(Debug, Default)]
pub(crate) struct Mean {
    sum_ns: u64,
    count: u64,
}

impl Mean {
    pub(crate) fn add(&mut self, time: Option<Nanos>) {
        if let Some(time) = time {
            self.sum_ns = self.sum_ns.saturating_add(time.0);
            self.count += 1;
        }
    }

    /// `None` of none.
    pub(crate) fn get(&self) -> Option<Nanos> {
        self.sum_ns.checked_div(self.count).map(Nanos)
    }
}

#[derive(Debug, Clone, Copy)]
struct Reader {
    number: u64,
    /// Reads of all threads by its last one.
    last: u64,
}

/// The threads that read from one pool.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    readers: Vec<Reader>,
    reads: u64,
}

impl Readers {
    /// A thread begins to read. Gives the time between two references of the pool that this stands for; `None` at its
    /// first one.
    pub(crate) fn begin(&mut self, reading: Reading) -> Option<u64> {
        self.reads += 1;
        let last = self.reads;
        match self.readers.iter_mut().find(|reader| reader.number == reading.reader) {
            Some(reader) => reader.last = last,
            None => {
                if self.readers.len() >= MOST_THREADS
                    && let Some(oldest) = (0..self.readers.len()).min_by_key(|&at| self.readers[at].last)
                {
                    self.readers.swap_remove(oldest);
                }
                self.readers.push(Reader { number: reading.reader, last });
            }
        }
        let patience = PATIENCE * self.readers.len() as u64;
        self.readers.retain(|reader| last - reader.last <= patience);
        let active = self.readers.len().max(1) as u64;
        Some(reading.compute_ns? / active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_computes_between_its_reads() {
        let mut readers = Readers::default();
        let mut begin = |pool, now_ns| readers.begin(Reading::begin(pool, now_ns));
        assert_eq!(begin(1, 100), None);
        Reading::end(1, 150);
        assert_eq!(begin(1, 250), Some(100));
        Reading::end(1, 140);
        assert_eq!(begin(1, 250), Some(100), "a tick from before the last read's end");
        assert_eq!(begin(2, 250), None, "another pool");
    }

    #[test]
    fn of_several_threads_references_come_as_many_times_as_often() {
        let mut readers = Readers::default();
        readers.begin(Reading::begin(7, 0));
        Reading::end(7, 0);
        std::thread::scope(|scope| scope.spawn(|| readers.begin(Reading::begin(7, 0))).join().unwrap());
        assert_eq!(readers.begin(Reading::begin(7, 100)), Some(50));
    }

    #[test]
    fn threads_that_are_gone_are_forgotten_and_no_more_are_kept_than_the_limit() {
        let mut readers = Readers::default();
        for reader in 0..2 * MOST_THREADS as u64 {
            readers.begin(Reading { reader, compute_ns: None });
        }
        assert!(readers.readers.len() <= MOST_THREADS);
        for _ in 0..=PATIENCE * MOST_THREADS as u64 {
            readers.begin(Reading { reader: 5, compute_ns: None });
        }
        assert_eq!(readers.readers.len(), 1);
    }
}
