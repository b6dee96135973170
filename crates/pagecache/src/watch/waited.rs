//! What a thread has waited for before a reference: for the file that it reads, or for something else before that.

/// Waits for a reference at most: for the directory, the inode, where the pages lie, and pages;
const FOR_ONE_REFERENCE: u64 = 4;
/// and one more for each so many pages, in which the kernel reads at the least.
const PAGES_A_WAIT: u64 = 8;

/// What a thread has waited since its last reference.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waited {
    /// In all, nanoseconds.
    pub(super) all_ns: u64,
    last_ns: u64,
    times: u32,
}

impl Waited {
    /// It has waited once more.
    pub(super) fn add(&mut self, wait_ns: u64) {
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
    fn of_many_waits_before_a_reference_the_last_was_for_it() {
        let mut waited = Waited::default();
        (1..=4).for_each(|wait_ns| waited.add(wait_ns));
        assert_eq!((waited.for_pages_ns(1), waited.all_ns), (10, 10));
        waited.add(5);
        assert_eq!((waited.for_pages_ns(1), waited.all_ns), (5, 15));
        assert_eq!(waited.for_pages_ns(8), 15, "more pages may take more waits");
    }
}
