//! What a thread has waited for before a reference: for the file that it reads, or for something else before that.

use foldhash::HashMap;

use super::overlap::Overlap;

/// Waits for a reference at most: for the directory, the inode, where the pages lie, and pages;
const FOR_ONE_REFERENCE: u64 = 4;
/// and one more for each so many pages, in which the kernel reads at the least.
const PAGES_A_WAIT: u64 = 8;

/// Threads whose wait is remembered; for one more, all is forgotten.
const THREADS: usize = 4096;

/// The waits of a job's threads.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// What each has waited since its last reference.
    by_thread: HashMap<u32, Waited>,
    overlap: Overlap,
}

impl Waits {
    /// It has waited once more.
    pub(super) fn add(&mut self, tid: u32, wait_ns: u64) {
        if self.by_thread.len() >= THREADS && !self.by_thread.contains_key(&tid) {
            self.by_thread.clear();
        }
        self.by_thread.entry(tid).or_default().add(wait_ns);
        self.overlap.waited(tid, wait_ns);
    }

    /// All that has been told of until now is taken in.
    pub(super) fn looked(&mut self, now_ns: u64) {
        self.overlap.looked(now_ns);
    }

    /// Threads that have waited at a time, in the mean; `None` where none has.
    pub(super) fn threads(&self) -> Option<f64> {
        self.overlap.threads()
    }

    /// Has it waited?
    pub(super) fn has(&self, tid: u32) -> bool {
        self.by_thread.contains_key(&tid)
    }

    /// What it has waited, now that it comes to a reference.
    pub(super) fn take(&mut self, tid: u32) -> Waited {
        self.by_thread.remove(&tid).unwrap_or_default()
    }
}

/// What a thread has waited since its last reference.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waited {
    /// In all, nanoseconds.
    pub(super) all_ns: u64,
    last_ns: u64,
    times: u32,
}

impl Waited {
    fn add(&mut self, wait_ns: u64) {
        let all_ns = self.all_ns.saturating_add(wait_ns);
        *self = Waited { all_ns, last_ns: wait_ns, times: self.times.saturating_add(1) };
    }

    /// What of it may have been for so many pages that are referenced: of too many waits the last.
    pub(super) fn for_pages_ns(self, pages: u64) -> u64 {
        let most = FOR_ONE_REFERENCE + pages / PAGES_A_WAIT;
        if u64::from(self.times) <= most { self.all_ns } else { self.last_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_threads_than_may_be_all_is_forgotten() {
        let mut waits = Waits::default();
        (0..=THREADS as u32).for_each(|tid| waits.add(tid, 5));
        assert_eq!(waits.by_thread.len(), 1);
        assert!(waits.has(THREADS as u32) && !waits.has(0));
        assert_eq!((waits.take(THREADS as u32).all_ns, waits.take(0).all_ns), (5, 0));
    }

    #[test]
    fn of_many_waits_before_a_reference_the_last_was_for_it() {
        let mut waited = Waited::default();
        (1..=4).for_each(|wait_ns| waited.add(wait_ns));
        assert_eq!((waited.for_pages_ns(1), waited.all_ns), (10, 10));
        waited.add(5);
        assert_eq!((waited.for_pages_ns(1), waited.all_ns), (5, 15));
        assert_eq!(waited.for_pages_ns(8), 15, "more pages may take more waits");
    }
}
