//! From page ranges that threads read to references to blocks.
//!
//! **A reference is a maximal run of accesses by one thread to one block of a file.** Two reads of 4 KiB
//! that share a block of 8 KiB are one reference, as are byte by byte reads; so is the block in which one
//! large read ends and the next begins.
//!
//! The kernel reports a read in pieces (`mm/filemap.c`, `filemap_get_pages`): one record for each batch of
//! folios it hands out, from where it is to the end of the read. Three things follow:
//!
//! * a record whose end is that of the record before it, and whose start lies beyond that one's, is the
//!   same read going on: only what has not been counted yet is new;
//! * of the range of a record, only the pages that are cached have been handed out: the others will be
//!   loaded first, and have records of their own;
//! * the record of a batch that ends in a folio still being read is skipped, so a read may appear to begin
//!   late. A gap is filled in (`read_starts.rs`) when the pages of the gap have been loaded and not been
//!   referenced since.
//!
//! A read that repeats the tail of the one before it, by the same thread, cannot be told from its
//! continuation and is not counted.

use std::ops::{Range, RangeInclusive};

use crate::folios::FolioMap;
use crate::read_starts::LastRead;

/// Threads and files followed at a time. Where two share a slot, the older is forgotten: at worst its next
/// read counts a block twice or leaves a gap.
const STREAMS: usize = 4096;

/// What one thread last read of one file. Page numbers.
#[derive(Debug, Clone, Copy)]
struct Stream {
    tid: u32,
    file: u32,
    /// Start of the last record.
    first: u64,
    /// Last page counted.
    done: u64,
    read: LastRead,
}

/// The pages that a record adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Pages referenced now.
    pub(crate) pages: Range<u64>,
    /// The first of them continues a run in the block of the page before: count that block no more.
    pub(crate) last_done: Option<u64>,
}

impl Run {
    /// The blocks to count, of 2^`block_order` pages.
    pub(crate) fn blocks(&self, block_order: u32) -> Range<u64> {
        let first = self.pages.start >> block_order;
        let end = ((self.pages.end - 1) >> block_order) + 1;
        match self.last_done {
            Some(done) if done >> block_order == first => first + 1..end,
            _ => first..end,
        }
    }
}

/// The threads that read.
#[derive(Debug)]
pub(crate) struct Streams {
    slots: Vec<Option<Stream>>,
}

impl Streams {
    pub(crate) fn new() -> Streams {
        Streams { slots: vec![None; STREAMS] }
    }

    /// Thread `tid` was handed pages of `file`, from the first of `record` on, in a read that ends with its
    /// last; `waited`: the thread slept for a page since its record before.
    pub(crate) fn read(
        &mut self,
        tid: u32,
        file: u32,
        record: RangeInclusive<u64>,
        waited: bool,
        folios: &FolioMap,
    ) -> Option<Run> {
        let (first, last) = (*record.start(), *record.end().max(record.start()));
        let slot = &mut self.slots[slot(tid, file)];
        let known = slot.filter(|s| s.tid == tid && s.file == file);
        let (start, request) = match known {
            Some(s) if s.read.last == last && s.first < first && first <= last => {
                (s.done + 1, Stream { first, ..s })
            }
            before => {
                let may_fill = |gap: Range<u64>| folios.all_unread(gap);
                let (start, read) = LastRead::next(before.map(|s| s.read), (first, last), waited, may_fill);
                let done = before.map_or(start, |s| s.done);
                (start, Stream { tid, file, first, done, read })
            }
        };
        let end = folios.first_absent(first..last + 1).max(first + 1);
        if start >= end {
            *slot = Some(request);
            return None;
        }
        let last_done = known.map(|s| s.done);
        *slot = Some(Stream { done: end - 1, ..request });
        Some(Run { pages: start..end, last_done })
    }
}

fn slot(tid: u32, file: u32) -> usize {
    // Fibonacci hashing: thread and file numbers are small and consecutive.
    let mixed = ((u64::from(tid) << 32) | u64::from(file)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 52) as usize % STREAMS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of two pages counted for records `(first, last)` of one thread, everything cached.
    fn blocks(records: &[(u64, u64)]) -> Vec<u64> {
        references(records, false)
    }

    fn references(records: &[(u64, u64)], waited: bool) -> Vec<u64> {
        let mut folios = FolioMap::default();
        (0..64).for_each(|page| folios.add(page, 0));
        let mut streams = Streams::new();
        let mut blocks = Vec::new();
        for &(first, last) in records {
            if let Some(run) = streams.read(7, 0, first..=last, waited, &folios) {
                folios.mark_read(run.pages.clone());
                blocks.extend(run.blocks(1));
            }
        }
        blocks
    }

    #[test]
    fn one_read_in_three_pieces_counts_each_block_once() {
        assert_eq!(blocks(&[(0, 7), (3, 7), (6, 7)]), [0, 1, 2, 3]);
    }

    #[test]
    fn two_halves_of_a_block_are_one_reference() {
        assert_eq!(blocks(&[(0, 0), (1, 1), (2, 2), (3, 3)]), [0, 1]);
    }

    #[test]
    fn reads_by_the_byte_are_one_reference_a_block() {
        assert_eq!(blocks(&[(0, 0), (0, 0), (0, 4), (4, 8)]), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_same_block_read_again_after_another_counts_again() {
        assert_eq!(blocks(&[(0, 1), (6, 7), (0, 1)]), [0, 3, 0]);
    }

    #[test]
    fn only_what_has_been_loaded_is_counted() {
        let mut folios = FolioMap::default();
        (0..4).for_each(|page| folios.add(page, 0));
        let mut streams = Streams::new();
        let run = streams.read(7, 0, 0..=7, false, &folios).map(|run| run.pages);
        assert_eq!(run, Some(0..4));
        (4..8).for_each(|page| folios.add(page, 0));
        // The record of pages 4 and 5 was skipped by the kernel.
        let run = streams.read(7, 0, 6..=7, false, &folios).map(|run| run.pages);
        assert_eq!(run, Some(4..8));
    }

    #[test]
    fn a_gap_in_a_sequential_read_is_filled_in() {
        assert_eq!(references(&[(0, 7), (12, 15)], true), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(references(&[(0, 7), (12, 15)], false), [0, 1, 2, 3, 6, 7]);
        assert_eq!(references(&[(30, 31)], true), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn strided_reads_are_not_filled_in() {
        assert_eq!(references(&[(0, 1), (12, 13), (16, 17)], true), [0, 6, 8]);
    }

    #[test]
    fn threads_have_runs_of_their_own() {
        let mut folios = FolioMap::default();
        (0..8).for_each(|page| folios.add(page, 0));
        let mut streams = Streams::new();
        assert!(streams.read(1, 0, 0..=0, false, &folios).is_some());
        let other = streams.read(2, 0, 1..=1, false, &folios).map(|run| run.blocks(1));
        assert_eq!(other, Some(0..1));
    }
}
