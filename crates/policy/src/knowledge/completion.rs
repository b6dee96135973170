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

/// Runs that are followed at a time: a reader of several files in turn has several, and so have wrong entries.
const HEADS: usize = 4;

/// Completed positions of which the fate must be known before they count.
const ENOUGH: u32 = 16;

/// Completed positions that are remembered, about.
const REMEMBERED: u32 = 128;

/// How a block continues a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The position of the run's block before.
    pub(super) from: u32,
    /// Blocks of the file in between that complete the run.
    pub(super) missing: std::ops::Range<u32>,
    /// Are the two part of one sequential run?
    pub(super) continues: bool,
}

/// What one list shows of its gaps.
#[derive(Debug, Default)]
pub(super) struct Completion {
    /// Where runs have come to, the latest first: the block and its position.
    heads: [Option<(Block, u32)>; HEADS],
    steps: u32,
    unit_steps: u32,
    used: u32,
    unused: u32,
    counts: bool,
}

impl Completion {
    /// The list goes on with `block`. The step by which it continues a run, if it does.
    pub(super) fn step(&mut self, block: Block) -> Option<Step> {
        let continues = |head: &Option<(Block, u32)>| {
            head.is_some_and(|(last, _)| {
                last.file == block.file && (1..=LARGEST_GAP).contains(&block.index.wrapping_sub(last.index))
            })
        };
        let at = self.heads.iter().position(continues);
        self.heads[..=at.unwrap_or(HEADS - 1)].rotate_right(1);
        let (last, position) = self.heads[0].take().filter(|_| at.is_some())?;
        let step = block.index - last.index;
        self.steps += 1;
        self.unit_steps += u32::from(step == 1);
        if self.steps >= STEPS {
            (self.steps, self.unit_steps) = (self.steps / 2, self.unit_steps / 2);
        }
        let in_order = self.unit_steps * UNIT_SHARE >= self.steps;
        let missing = if step > 1 && in_order { last.index + 1..block.index } else { 0..0 };
        Some(Step { from: position, missing, continues: step == 1 || in_order })
    }

    /// The block of the last step is at this position.
    pub(super) fn note(&mut self, block: Block, position: u32) {
        self.heads[0] = Some((block, position));
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

    fn missing(completion: &mut Completion, block: Block) -> Vec<u32> {
        let step = completion.step(block);
        completion.note(block, 0);
        step.map_or(Vec::new(), |s| s.missing.collect())
    }

    #[test]
    fn gaps_of_runs_are_completed_and_strides_are_not() {
        let block = |index| Block::new(FileId(0), index);
        let mut run = Completion::default();
        for index in [0, 1, 2] {
            assert!(missing(&mut run, block(index)).is_empty());
        }
        assert_eq!(missing(&mut run, block(6)), [3, 4, 5]);
        assert!(missing(&mut run, block(40)).is_empty(), "too far");
        assert!(missing(&mut run, Block::new(FileId(1), 42)).is_empty(), "another file");
        assert_eq!(missing(&mut run, block(8)), [7], "what is in between does not end the run");
        let mut stride = Completion::default();
        assert!((0..100).all(|i| missing(&mut stride, block(i * 2)).is_empty()));
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
