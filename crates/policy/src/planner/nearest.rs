//! What is left of a set, and what of it comes next.
//!
//! *Runs* are blocks that follow each other in a file. To a job that reads at random each run is as good as another: they come in
//! the order of the disks, which an arm goes through best. A job that reads half of the set, or all of it against its order, stays
//! in one region for a while: then the next one is the nearest on its disk to where the job is, above it or below. A file that is
//! come to from above is begun at its first run, as it is most likely read from its beginning.
//!
//! ```text
//!  place       0        100       200       310
//!  runs        a0 a1    b0 b1     (c0) c1   d0        c0 was referenced: c1, then b0, d0, a0
//! ```

use std::collections::BTreeMap;

use crate::ids::{Block, DiskId};

/// Blocks of a run at most, 2 MiB at 8 KiB: where the job goes is looked at again after each.
const RUN_BLOCKS: usize = 256;

/// Where something is: a disk, and a number that grows along it.
pub(super) type Spot = (DiskId, u64);

/// The runs that are left.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    /// Where each begins, and its blocks, the last one first.
    runs: BTreeMap<(Spot, Block), Vec<Block>>,
    /// What is left of the one that was begun.
    begun: Vec<Block>,
    /// Its disk.
    disk: Option<DiskId>,
}

impl Nearest {
    /// Those of these blocks, in any order.
    pub(super) fn of(mut blocks: Vec<(DiskId, u64, Block)>) -> Nearest {
        blocks.sort_unstable();
        blocks.dedup();
        let mut nearest = Nearest::default();
        let mut run: Vec<(DiskId, u64, Block)> = Vec::new();
        let mut end = |run: &mut Vec<(DiskId, u64, Block)>| {
            if let Some(&(disk, address, first)) = run.first() {
                let blocks = run.drain(..).rev().map(|(_, _, block)| block).collect();
                nearest.runs.insert(((disk, address), first), blocks);
            }
        };
        for next in blocks {
            if run.last().is_some_and(|last| !follows(last.2, next.2)) || run.len() >= RUN_BLOCKS {
                end(&mut run);
            }
            run.push(next);
        }
        end(&mut run);
        nearest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty() && self.runs.is_empty()
    }

    /// The next block and its disk: the nearest to a place, or else in the order of the disks.
    pub(super) fn next(&mut self, from: Option<Spot>) -> Option<(DiskId, Block)> {
        if self.begun.is_empty() {
            let first = match from {
                Some(from) => self.nearest(from)?,
                None => self.runs.first_key_value().map(|(&first, _)| first)?,
            };
            self.begun = self.runs.remove(&first)?;
            self.disk = Some(first.0.0);
        }
        self.disk.zip(self.begun.last().copied())
    }

    /// That one is done with.
    pub(super) fn pop(&mut self) {
        self.begun.pop();
    }

    fn nearest(&self, from: Spot) -> Option<(Spot, Block)> {
        let at = (from, Block::new(crate::ids::FileId(0), 0));
        let above = self.runs.range(at..).next().map(|(&begin, _)| begin);
        let below = self.runs.range(..at).next_back().map(|(&begin, _)| begin);
        let apart = |of: &(Spot, Block)| (of.0.0 != from.0, of.0.1.abs_diff(from.1));
        match (above, below) {
            (Some(above), Some(below)) if apart(&below) < apart(&above) => Some(self.beginning(below)),
            (Some(above), _) => Some(above),
            (None, below) => below.map(|below| self.beginning(below)),
        }
    }

    /// The first of the runs that lead to this one without a gap.
    fn beginning(&self, mut begin: (Spot, Block)) -> (Spot, Block) {
        while let Some((&before, blocks)) = self.runs.range(..begin).next_back()
            && blocks.first().is_some_and(|&last| follows(last, begin.1))
        {
            begin = before;
        }
        begin
    }
}

fn follows(one: Block, next: Block) -> bool {
    one.file == next.file && one.index.checked_add(1) == Some(next.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    const DISK: DiskId = DiskId(0);

    /// All that comes, each block seen from the one before.
    fn all(blocks: &[(u64, u32, u32)], from: u64) -> Vec<(u32, u32)> {
        let place =
            |&(address, file, index): &(u64, u32, u32)| (DISK, address, Block::new(FileId(file), index));
        let mut nearest = Nearest::of(blocks.iter().map(place).collect());
        let (mut came, mut at) = (Vec::new(), from);
        while let Some((_, block)) = nearest.next(Some((DISK, at))) {
            let here = |of: &&(u64, u32, u32)| (of.1, of.2) == (block.file.0, block.index);
            at = blocks.iter().find(here).unwrap().0;
            came.push((block.file.0, block.index));
            nearest.pop();
        }
        assert!(nearest.is_empty());
        came
    }

    #[test]
    fn the_example_of_the_header() {
        let blocks = [(0, 0, 0), (1, 0, 1), (100, 1, 0), (101, 1, 1), (201, 2, 1), (310, 3, 0)];
        let mut nearest =
            Nearest::of(blocks.map(|(at, file, index)| (DISK, at, Block::new(FileId(file), index))).into());
        let mut came = Vec::new();
        while let Some((_, block)) = nearest.next(Some((DISK, 200))) {
            came.push((block.file.0, block.index));
            nearest.pop();
        }
        assert_eq!(came, [(2, 1), (1, 0), (1, 1), (3, 0), (0, 0), (0, 1)]);
    }

    #[test]
    fn a_file_below_is_begun_at_its_beginning() {
        let blocks: Vec<_> = (0..600).map(|at| (u64::from(at), 0, at)).collect();
        assert_eq!(all(&blocks, 1000), (0..600).map(|at| (0, at)).collect::<Vec<_>>());
        assert_eq!(all(&blocks, 300)[0], (0, 0), "its runs follow each other");
    }

    #[test]
    fn without_a_place_they_come_in_the_order_of_the_disks() {
        let spots = [(1, 5, 0), (0, 9, 1), (0, 3, 2)];
        let block = |file| Block::new(FileId(file), 0);
        let mut nearest = Nearest::of(spots.map(|(disk, at, file)| (DiskId(disk), at, block(file))).into());
        for (disk, file) in [(0, 2), (0, 1), (1, 0)] {
            assert_eq!(nearest.next(None), Some((DiskId(disk), block(file))));
            nearest.pop();
        }
    }

    #[test]
    fn what_is_named_twice_comes_once() {
        assert_eq!(all(&[(5, 0, 0), (5, 0, 0), (8, 1, 3)], 6), [(0, 0), (1, 3)]);
    }
}
