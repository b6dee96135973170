//! What a list names so far ahead of its reader that nothing is done about it yet.
//!
//! A position that is held costs 17 bytes and its block a record of its own, 70 bytes where each block is named once.
//! What lies further ahead waits here as runs of neighbouring blocks, 12 bytes each, and becomes positions in the same
//! order as the reader comes nearer.

use std::collections::VecDeque;

use crate::ids::{Block, FileId};

/// Neighbouring blocks of a file, the lowest first.
#[derive(Debug, Clone, Copy)]
struct Run {
    file: FileId,
    first: u32,
    blocks: u32,
}

const _: () = assert!(size_of::<Run>() == 12);

/// References that are still to become positions, the first that was disclosed first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    runs: VecDeque<Run>,
    references: u32,
}

impl Waiting {
    /// References that wait.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.references
    }

    pub(super) fn push(&mut self, block: Block) {
        self.references += 1;
        if let Some(last) = self.runs.back_mut()
            && last.file == block.file
            && last.first.checked_add(last.blocks) == Some(block.index)
        {
            last.blocks += 1;
            return;
        }
        // By an eighth at a time, not by doubling: a list is disclosed once.
        if self.runs.len() == self.runs.capacity() {
            self.runs.reserve_exact((self.runs.len() / 8).max(LEAST_RUNS));
        }
        self.runs.push_back(Run { file: block.file, first: block.index, blocks: 1 });
    }

    pub(super) fn first(&self) -> Option<Block> {
        self.runs.front().map(|run| Block::new(run.file, run.first))
    }

    pub(super) fn pop(&mut self) -> Option<Block> {
        let run = self.runs.front_mut()?;
        let block = Block::new(run.file, run.first);
        self.references -= 1;
        run.blocks -= 1;
        if run.blocks > 0 {
            run.first += 1;
        } else {
            self.runs.pop_front();
            if self.runs.is_empty() {
                self.runs = VecDeque::new();
            }
        }
        Some(block)
    }

    /// Forgets what names a file; gives how many references that were.
    pub(super) fn forget_file(&mut self, file: FileId) -> u32 {
        self.runs.retain(|run| run.file != file);
        let before = std::mem::replace(&mut self.references, self.runs.iter().map(|run| run.blocks).sum());
        before - self.references
    }
}

/// Room for so many runs is made at least.
const LEAST_RUNS: usize = 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u32, u32, u32),
        Pop(usize),
        Forget(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = prop_oneof![4 => 0..20u32, 1 => u32::MAX - 3..u32::MAX];
        prop_oneof![
            6 => (0..3u32, index, 1..6u32).prop_map(|(file, first, blocks)| Step::Push(file, first, blocks)),
            3 => (1..9usize).prop_map(Step::Pop),
            1 => (0..3u32).prop_map(Step::Forget),
        ]
    }

    proptest! {
        /// As a queue of blocks.
        #[test]
        fn gives_what_was_put_in(steps in prop::collection::vec(step(), 0..80)) {
            let (mut waiting, mut naive) = (Waiting::default(), VecDeque::new());
            for step in steps {
                match step {
                    Step::Push(file, first, blocks) => {
                        for index in first..=first.saturating_add(blocks) {
                            waiting.push(Block::new(FileId(file), index));
                            naive.push_back(Block::new(FileId(file), index));
                        }
                    }
                    Step::Pop(times) => {
                        for _ in 0..times {
                            prop_assert_eq!(waiting.pop(), naive.pop_front());
                        }
                    }
                    Step::Forget(file) => {
                        let before = naive.len();
                        naive.retain(|block| block.file != FileId(file));
                        prop_assert_eq!(waiting.forget_file(FileId(file)) as usize, before - naive.len());
                    }
                }
                prop_assert_eq!(waiting.len() as usize, naive.len());
                prop_assert_eq!(waiting.first(), naive.front().copied());
            }
            while let Some(block) = naive.pop_front() {
                prop_assert_eq!(waiting.pop(), Some(block));
            }
            prop_assert_eq!(waiting.pop(), None);
        }
    }

    #[test]
    fn a_sequence_is_one_run() {
        let mut waiting = Waiting::default();
        for index in 0..1000 {
            waiting.push(Block::new(FileId(7), index));
        }
        assert_eq!((waiting.runs.len(), waiting.len()), (1, 1000));
    }
}
