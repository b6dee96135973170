//! Completing runs: a list that leaves out some blocks of a sequential run says that they are needed, too.
//!
//! Where a list steps from one block of a file to a later one nearby, and a good part of its steps in that file are to
//! the very next block, the blocks in between are appended as *completed* positions. Whether they are right is
//! measured as references come: a list of a program that reads with holes has wrong ones, a list from which references
//! were lost has right ones. Completed positions count, for replacement and for prefetching, as long as most of them
//! are used.

use crate::ids::Block;

/// The largest gap that is completed, in blocks. At half of the references lost, one gap in 65,536 is larger.
const LARGEST_GAP: u32 = 16;

/// Steps that are remembered, about.
const STEPS: u32 = 64;

/// At least one step in so many must be to the next block: with three quarters of the references lost it is one in four.
const UNIT_SHARE: u32 = 4;

/// Completed positions of which the fate must be known before they count.
const ENOUGH: u32 = 16;

/// Completed positions that are remembered, about.
const REMEMBERED: u32 = 128;

/// What one list shows of its gaps.
#[derive(Debug, Default)]
pub(super) struct Completion {
    last: Option<Block>,
    steps: u32,
    unit_steps: u32,
    used: u32,
    unused: u32,
    counts: bool,
}

impl Completion {
    /// The blocks before `block` that complete its run, given the list's last one: from the first one on.
    pub(super) fn gap(&mut self, block: Block) -> std::ops::Range<u32> {
        let last = self.last.replace(block);
        let Some(last) = last.filter(|l| l.file == block.file && l.index < block.index) else { return 0..0 };
        let step = block.index - last.index;
        if step > LARGEST_GAP {
            return 0..0;
        }
        self.steps += 1;
        self.unit_steps += u32::from(step == 1);
        if self.steps >= STEPS {
            (self.steps, self.unit_steps) = (self.steps / 2, self.unit_steps / 2);
        }
        let in_order = self.unit_steps * UNIT_SHARE >= self.steps;
        if step > 1 && in_order { last.index + 1..block.index } else { 0..0 }
    }

    /// A completed position was used, or passed over. Says whether they count from now on, or no longer.
    pub(super) fn judge(&mut self, used: bool) -> bool {
        if used {
            self.used += 1;
        } else {
            self.unused += 1;
        }
        let all = self.used + self.unused;
        if all >= REMEMBERED {
            (self.used, self.unused) = (self.used / 2, self.unused / 2);
        }
        // Four in five to begin with, more than a half to go on.
        let counts =
            if self.counts { self.used * 2 > all } else { all >= ENOUGH && self.used * 5 >= all * 4 };
        std::mem::replace(&mut self.counts, counts) != counts
    }

    /// Do completed positions count at present?
    pub(super) fn counts(&self) -> bool {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    #[test]
    fn gaps_of_runs_are_completed_and_strides_are_not() {
        let block = |index| Block::new(FileId(0), index);
        let mut run = Completion::default();
        for index in [0, 1, 2] {
            assert!(run.gap(block(index)).is_empty());
        }
        assert_eq!(run.gap(block(6)), 3..6);
        assert!(run.gap(block(40)).is_empty(), "too far");
        assert!(run.gap(Block::new(FileId(1), 42)).is_empty(), "another file");
        let mut stride = Completion::default();
        assert!((0..100).all(|i| stride.gap(block(i * 2)).is_empty()));
    }

    #[test]
    fn they_count_when_most_are_used() {
        let mut completion = Completion::default();
        assert_eq!((0..100).position(|_| completion.judge(true)), Some(15));
        assert!(completion.counts());
        assert!((0..200).any(|_| completion.judge(false)));
        assert!(!completion.counts());
    }
}
