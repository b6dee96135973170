//! How long the runs are in which lists name a file's blocks.
//!
//! Where a list names single blocks the kernel's readahead reads what nobody wants, and is turned off
//! ([`crate::advice`]). Where it names long runs the kernel's guess is right, and a read that our prefetch comes too
//! late for is better served in large pieces: there readahead stays on.

/// Blocks of a run, on average, from which on the kernel's readahead is right: 256 KiB of 8 KiB blocks, twice the
/// kernel's usual window.
const LONG_RUN_BLOCKS: u64 = 32;

/// The runs of a file's blocks in lists so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ListedRuns {
    blocks: u64,
    runs: u64,
    /// The block after the last one listed.
    end: u32,
}

impl ListedRuns {
    /// Blocks `next..end` were listed.
    pub(crate) fn add(&mut self, next: u32, end: u32) {
        if next >= end {
            return;
        }
        // A block that is read in parts is listed several times.
        let goes_on = next == self.end || next.checked_add(1) == Some(self.end);
        if self.runs == 0 || !goes_on {
            self.runs += 1;
            self.end = next;
        }
        self.blocks += u64::from(end.saturating_sub(self.end));
        self.end = self.end.max(end);
    }

    /// Is the kernel's readahead right about this file? For a short file that is listed from beginning to end as well:
    /// it cannot read too much of it.
    pub(crate) fn are_long(&self, file_blocks: u64) -> bool {
        self.runs > 0 && self.blocks / self.runs >= LONG_RUN_BLOCKS.min(file_blocks.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_run() {
        let mut runs = ListedRuns::default();
        assert!(!runs.are_long(100));
        (0..10).for_each(|at| runs.add(at * 4, at * 4 + 4));
        assert!(runs.are_long(100), "40 blocks in one run");
        (0..10).for_each(|at| runs.add(at * 7 + 100, at * 7 + 101));
        assert!(!runs.are_long(1000), "50 blocks in eleven");
    }

    #[test]
    fn blocks_that_are_read_in_parts_are_one_run() {
        let mut runs = ListedRuns::default();
        (0..64).for_each(|part| runs.add(part / 2, part / 2 + 1));
        assert!(runs.are_long(1000));
        assert_eq!((runs.blocks, runs.runs), (32, 1));
        runs.add(31, 40);
        assert_eq!((runs.blocks, runs.runs), (40, 1));
    }

    #[test]
    fn a_short_file_read_whole_is_one_long_run() {
        let mut runs = ListedRuns::default();
        runs.add(0, 3);
        assert!(runs.are_long(3));
        assert!(!runs.are_long(40));
    }
}
