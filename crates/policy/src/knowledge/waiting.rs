//! What a list names so far ahead of its reader that nothing is done about it yet.
//!
//! A position that is held costs 17 bytes and its block a record of its own, 70 bytes where each block is named once.
//! What lies further ahead waits here as runs of neighbouring blocks, 16 bytes each and 4 a file, and becomes positions in
//! the same order as the reader comes nearer.
//!
//! A file that is removed takes its runs along. They are linked, so that no others are looked at; they stay in the queue
//! as empty ones until they come to its front, or are more than the others.

use std::collections::VecDeque;

use crate::alignment::{NONE, Paged};
use crate::ids::{Block, FileId};

/// Neighbouring blocks of a file, the lowest first.
#[derive(Debug, Clone, Copy)]
struct Run {
    file: FileId,
    first: u32,
    /// None: its file was removed.
    blocks: u32,
    /// The number of the file's run before, or [`NONE`]; one that has left may be meant.
    before: u32,
}

const _: () = assert!(size_of::<Run>() == 16);

/// References that are still to become positions, the first that was disclosed first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The first one is not empty.
    runs: VecDeque<Run>,
    /// The number of the first run: they count from 0 on.
    first: u32,
    /// The number of each file's last run; one that has left may be meant.
    last_of: Paged,
    /// Empty runs.
    empty: usize,
    references: u32,
    /// Runs looked at to remove files.
    #[cfg(test)]
    looked_at: usize,
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
            && last.blocks > 0
            && last.first.checked_add(last.blocks) == Some(block.index)
        {
            last.blocks += 1;
            return;
        }
        if self.first as usize + self.runs.len() >= NONE as usize {
            self.number_anew();
        }
        self.push_run(block.file, block.index, 1);
    }

    fn push_run(&mut self, file: FileId, first: u32, blocks: u32) {
        // By an eighth at a time, not by doubling: a list is disclosed once.
        if self.runs.len() == self.runs.capacity() {
            self.runs.reserve_exact((self.runs.len() / 8).max(LEAST_RUNS));
        }
        let before = self.last_of.get(file.0);
        self.last_of.set(file.0, self.first + self.runs.len() as u32);
        self.runs.push_back(Run { file, first, blocks, before });
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
            self.empty += 1;
            self.drop_empty();
        }
        Some(block)
    }

    /// Forgets what names a file; gives how many references that were.
    pub(super) fn forget_file(&mut self, file: FileId) -> u32 {
        let before = self.references;
        let mut number = self.last_of.get(file.0);
        if number == NONE {
            return 0;
        }
        self.last_of.set(file.0, NONE);
        while let Some(at) = number.checked_sub(self.first)
            && let Some(run) = self.runs.get_mut(at as usize)
        {
            self.references -= std::mem::take(&mut run.blocks);
            self.empty += 1;
            number = run.before;
            #[cfg(test)]
            (self.looked_at += 1);
        }
        self.drop_empty();
        if self.empty > self.runs.len() / 2 + LEAST_RUNS {
            self.number_anew();
        }
        before - self.references
    }

    /// The queue begins with a run that is not empty.
    fn drop_empty(&mut self) {
        while self.runs.front().is_some_and(|run| run.blocks == 0) {
            self.runs.pop_front();
            self.first += 1;
            self.empty -= 1;
            #[cfg(test)]
            (self.looked_at += 1);
        }
        if self.runs.is_empty() {
            self.number_anew();
        }
    }

    /// Leaves empty runs out.
    fn number_anew(&mut self) {
        let mut new = Waiting { references: self.references, ..Waiting::default() };
        for run in self.runs.iter().filter(|run| run.blocks > 0) {
            new.push_run(run.file, run.first, run.blocks);
        }
        #[cfg(test)]
        (new.looked_at = self.looked_at + self.runs.len());
        *self = new;
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

    /// Files that leave in any order: so many runs are looked at as there were, a few times each.
    #[test]
    fn a_file_that_is_removed_takes_as_long_as_it_has_runs() {
        const FILES: u32 = 100_000;
        for step in [1, 7919, FILES - 1] {
            let mut waiting = Waiting::default();
            for block in 0..2 {
                for file in 0..FILES {
                    waiting.push(Block::new(FileId(file), block));
                }
            }
            for nth in 0..FILES {
                let file = (u64::from(nth) * u64::from(step) % u64::from(FILES)) as u32;
                assert_eq!(waiting.forget_file(FileId(file)), 2);
                assert_eq!(waiting.forget_file(FileId(file)), 0, "there is nothing left of it");
                let most = 2 * (waiting.len() as usize + LEAST_RUNS);
                assert!(waiting.runs.len() <= most, "{} runs for {}", waiting.runs.len(), waiting.len());
            }
            assert_eq!((waiting.len(), waiting.runs.capacity()), (0, 0));
            let runs = 2 * FILES as usize;
            assert!(waiting.looked_at <= 6 * runs, "{} for {runs}", waiting.looked_at);
        }
    }

    #[test]
    fn a_file_that_got_the_number_of_a_removed_one_is_another_one() {
        let mut waiting = Waiting::default();
        let block = |file, index| Block::new(FileId(file), index);
        for index in 0..3 {
            waiting.push(block(0, index));
            waiting.push(block(1, index));
        }
        assert_eq!(waiting.forget_file(FileId(1)), 3);
        waiting.push(block(1, 3));
        assert_eq!((waiting.len(), waiting.forget_file(FileId(1))), (4, 1));
        let left: Vec<Block> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(left, [block(0, 0), block(0, 1), block(0, 2)]);
    }
}
