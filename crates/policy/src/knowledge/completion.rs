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
const UNIT_SHARE: f64 = 4.0;

/// Share of the steps of a run that may be larger than what is taken for one.
const BY_CHANCE: f64 = 0.01;

/// Blocks of a run after which a gap in it is believed.
const ESTABLISHED: u32 = 1;

/// Runs that are followed at a time: a reader of several files in turn has several, and so have wrong entries.
const HEADS: usize = 8;

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
}

/// Where a run has come to.
#[derive(Debug, Clone, Copy)]
struct Head {
    block: Block,
    position: u32,
    /// Its blocks so far.
    length: u32,
}

/// What one list shows of its gaps.
#[derive(Debug, Default)]
pub(super) struct Completion {
    /// Where runs have come to, the latest first.
    heads: [Option<Head>; HEADS],
    /// Length of the run that the block at hand is in.
    length: u32,
    steps: u32,
    unit_steps: u32,
    used: u32,
    unused: u32,
    counts: bool,
}

impl Completion {
    /// The list goes on with `block`. The step by which it continues a run, if it does.
    pub(super) fn step(&mut self, block: Block) -> Option<Step> {
        let reach = self.reach();
        let continues = |head: &Option<Head>| {
            head.is_some_and(|head| {
                let step = block.index.saturating_sub(head.block.index);
                head.block.file == block.file
                    && (step == 1 || (step <= reach && step > 0 && head.length >= ESTABLISHED))
            })
        };
        let at = self.heads.iter().position(continues);
        let Some(head) = at.and_then(|at| self.heads[at]) else {
            self.begin(HEADS - 1, 1);
            return None;
        };
        let step = block.index - head.block.index;
        self.steps += 1;
        self.unit_steps += u32::from(step == 1);
        if self.steps >= STEPS {
            (self.steps, self.unit_steps) = (self.steps / 2, self.unit_steps / 2);
        }
        // After a gap the run may go on where it was as well: a wrong entry can lie shortly before it.
        self.begin(if step == 1 { at.unwrap_or(0) } else { HEADS - 1 }, head.length.saturating_add(1));
        Some(Step { from: head.position, missing: head.block.index + 1..block.index })
    }

    /// The largest step that still is one of a run: of so few are larger by chance. With a share q of the steps to the
    /// next block, one of more than g blocks has the chance (1 - q)^g.
    fn reach(&self) -> u32 {
        let next = f64::from(self.unit_steps) / f64::from(self.steps.max(1));
        if next * UNIT_SHARE < 1.0 {
            return 1;
        }
        ((BY_CHANCE.ln() / (1.0 - next).max(1e-9).ln()).ceil() as u32 + 1).min(LARGEST_GAP)
    }

    /// The block at hand is the head of a run, in place of the head at `at`.
    fn begin(&mut self, at: usize, length: u32) {
        self.heads[..=at].rotate_right(1);
        self.heads[0] = None;
        self.length = length;
    }

    /// The block of the last step is at this position.
    pub(super) fn note(&mut self, block: Block, position: u32) {
        self.heads[0] = Some(Head { block, position, length: self.length });
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
        assert_eq!(missing(&mut run, block(4)), [3]);
        assert!(missing(&mut run, block(40)).is_empty(), "too far");
        assert!(missing(&mut run, Block::new(FileId(1), 42)).is_empty(), "another file");
        assert_eq!(missing(&mut run, block(6)), [5], "what is in between does not end the run");
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
