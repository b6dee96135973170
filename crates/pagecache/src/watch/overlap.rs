//! How many threads wait beside each other.
//!
//! A wait is told of when it is over. Between two looks at what was told, the thread that has waited longest was waiting for
//! at least that time, as far as there was so much since the look before. All waits over the sum of these are the threads that wait
//! at a time: exactly one where there is one thread, and never fewer than there are.

use foldhash::HashMap;

/// Threads that are told apart between two looks; the waits of more count as one thread's.
const THREADS: usize = 4096;

/// The waits of a job's threads, by the clock.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    /// What each thread has waited since the last look, nanoseconds.
    since: HashMap<u32, u64>,
    looked_ns: u64,
    all_ns: u64,
    by_clock_ns: u64,
}

impl Overlap {
    /// A thread has waited.
    pub(super) fn waited(&mut self, tid: u32, wait_ns: u64) {
        let tid = if self.since.len() < THREADS || self.since.contains_key(&tid) { tid } else { 0 };
        let waited = self.since.entry(tid).or_default();
        *waited = waited.saturating_add(wait_ns);
        self.all_ns = self.all_ns.saturating_add(wait_ns);
    }

    /// All that was told of until now has been taken in.
    pub(super) fn looked(&mut self, now_ns: u64) {
        let Some(longest_ns) = self.since.drain().map(|(_, waited_ns)| waited_ns).max() else { return };
        let passed_ns = now_ns.saturating_sub(self.looked_ns);
        self.by_clock_ns = self.by_clock_ns.saturating_add(longest_ns.min(passed_ns));
        self.looked_ns = now_ns;
    }

    /// Threads that wait at a time, in the mean; `None` while none has waited.
    pub(super) fn threads(&self) -> Option<f64> {
        (self.by_clock_ns > 0).then(|| (self.all_ns as f64 / self.by_clock_ns as f64).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_alone_is_one_and_who_wait_together_are_as_many() {
        let mut overlap = Overlap::default();
        overlap.looked(5);
        assert_eq!(overlap.threads(), None);
        overlap.waited(1, 60);
        overlap.waited(1, 20);
        overlap.looked(100);
        overlap.waited(2, 90);
        overlap.looked(200);
        assert_eq!(overlap.threads(), Some(1.0), "one after the other");
        (1..=4).for_each(|tid| overlap.waited(tid, 100));
        overlap.looked(300);
        assert_eq!(overlap.threads(), Some(570.0 / 270.0));
    }

    #[test]
    fn a_long_wait_behind_others_is_no_more_time_than_has_passed() {
        let mut overlap = Overlap::default();
        overlap.waited(1, 100);
        overlap.looked(100);
        overlap.waited(2, 110);
        overlap.looked(110);
        assert_eq!(overlap.threads(), Some(210.0 / 110.0));
    }

    #[test]
    fn of_more_threads_than_are_told_apart_the_rest_is_one() {
        let mut overlap = Overlap::default();
        let threads = 2 * THREADS as u32;
        (1..=threads).for_each(|tid| overlap.waited(tid, 1));
        overlap.looked(u64::MAX);
        assert_eq!(overlap.all_ns, u64::from(threads));
        assert_eq!(overlap.by_clock_ns, THREADS as u64);
    }
}
