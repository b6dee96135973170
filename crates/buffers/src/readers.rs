//! Who reads, and how long readers compute between two reads: what the planner compares with the time of a fetch.
//!
//! A thread computes from the end of one read of its own to the beginning of the next. Where several threads read in turn,
//! the pool sees references so many times as often.

use std::cell::Cell;

/// Threads that are remembered; the one that has not read for longest is forgotten for a new one.
const MOST_THREADS: usize = 256;
/// A thread counts as a reader until the others have read so many times each.
const PATIENCE: u64 = 8;

thread_local! {
    /// The pool that this thread read from last, and when that read ended.
    static ENDED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

#[derive(Debug, Clone, Copy)]
struct Reader {
    thread: usize,
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
    /// This thread begins to read. Gives the time between two references of the pool that this stands for; `None` at the
    /// first one.
    pub(crate) fn begin(&mut self, pool: u64, now_ns: u64) -> Option<u64> {
        // The cell's address is the thread's own as long as it lives.
        let (thread, ended) = ENDED.with(|ended| (std::ptr::from_ref(ended).addr(), ended.get()));
        self.reads += 1;
        let last = self.reads;
        match self.readers.iter_mut().find(|reader| reader.thread == thread) {
            Some(reader) => reader.last = last,
            None => {
                if self.readers.len() >= MOST_THREADS
                    && let Some(oldest) = (0..self.readers.len()).min_by_key(|&at| self.readers[at].last)
                {
                    self.readers.swap_remove(oldest);
                }
                self.readers.push(Reader { thread, last });
            }
        }
        let patience = PATIENCE * self.readers.len() as u64;
        self.readers.retain(|reader| last - reader.last <= patience);
        let active = self.readers.len().max(1) as u64;
        (ended.0 == pool).then(|| now_ns.saturating_sub(ended.1) / active)
    }

    /// This thread's read has ended.
    pub(crate) fn end(pool: u64, now_ns: u64) {
        ENDED.with(|ended| ended.set((pool, now_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_computes_between_its_reads() {
        let mut readers = Readers::default();
        assert_eq!(readers.begin(1, 100), None);
        Readers::end(1, 150);
        assert_eq!(readers.begin(1, 250), Some(100));
        assert_eq!(readers.begin(2, 250), None, "another pool");
    }

    #[test]
    fn of_several_threads_references_come_as_many_times_as_often() {
        let mut readers = Readers::default();
        readers.begin(7, 0);
        Readers::end(7, 0);
        std::thread::scope(|scope| scope.spawn(|| readers.begin(7, 0)).join().unwrap());
        assert_eq!(readers.begin(7, 100), Some(50));
    }

    #[test]
    fn threads_that_are_gone_are_forgotten_and_no_more_are_kept_than_the_limit() {
        let mut readers = Readers::default();
        for _ in 0..2 * MOST_THREADS {
            std::thread::scope(|scope| scope.spawn(|| readers.begin(7, 0)).join().unwrap());
        }
        assert!(readers.readers.len() <= MOST_THREADS);
        for _ in 0..=PATIENCE * MOST_THREADS as u64 {
            readers.begin(7, 0);
        }
        assert_eq!(readers.readers.len(), 1);
    }
}
