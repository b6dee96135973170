//! Where a read begins, of which the kernel tells in pieces.
//!
//! One record comes for each batch of folios that a read is given, from where it is to the end of the whole read. Two
//! things follow for somebody who wants to know what was read, and not when which of it was there:
//!
//! * a record with the end of the one before it, and a later start, is the same read going on: nothing new;
//! * of a batch that ends in a folio which is still being fetched the kernel does not tell (`mm/filemap.c`, the error
//!   path of `filemap_get_pages`), so that a read may seem to begin late. This happens wherever somebody fetches ahead,
//!   and a recording of such a night would have holes, more of them every night. A gap is filled in when the thread has
//!   just waited, has read the file in sequence so far, and the gap is shorter than its last read; or when it is the
//!   first read of a file and seems to begin close to its start.
//!
//! The plane does the same with more knowledge, for it knows what is cached (`streams.rs`).

use std::collections::HashMap;

use crate::observe::FileKey;
use crate::streams::FIRST_GAP_PAGES;

/// Threads and files that are followed; for one more all are forgotten: a piece may be told twice, a gap may stay.
const FOLLOWED: usize = 1 << 14;

/// The last read of a thread in a file, in pages.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Where its last piece began.
    first: u64,
    last: u64,
    pages: u64,
    sequential: bool,
}

/// The threads that read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    last: HashMap<(u32, FileKey), Last>,
}

impl Reads {
    /// A record of pages `first..=last`: with which page the read begins, if this is its first piece. `waited`: the
    /// thread has slept for a page since its record before.
    pub(super) fn begin(
        &mut self,
        tid: u32,
        file: FileKey,
        first: u64,
        last: u64,
        waited: bool,
    ) -> Option<u64> {
        let before = self.last.get(&(tid, file)).copied();
        let (start, sequential) = match before {
            Some(before) if before.last == last && before.first < first => {
                self.last.insert((tid, file), Last { first, ..before });
                return None;
            }
            Some(before) => {
                let next = before.last.saturating_add(1);
                let late = waited && before.sequential && next < first && first - next < before.pages;
                let start = if late { next } else { first };
                (start, start == next || start == before.last)
            }
            None => {
                let start = if waited && first <= FIRST_GAP_PAGES { 0 } else { first };
                (start, start == 0)
            }
        };
        if before.is_none() && self.last.len() >= FOLLOWED {
            self.last.clear();
        }
        let pages = last.saturating_sub(start).saturating_add(1);
        self.last.insert((tid, file), Last { first, last, pages, sequential });
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileKey = FileKey { dev: 1, ino: 1 };
    const B: FileKey = FileKey { dev: 1, ino: 2 };

    /// Where reads are found to begin, of one thread that has waited before each record.
    fn begins(records: &[(FileKey, u64, u64)], waited: bool) -> Vec<Option<u64>> {
        let mut reads = Reads::default();
        records.iter().map(|&(file, first, last)| reads.begin(7, file, first, last, waited)).collect()
    }

    #[test]
    fn a_read_in_sequence_that_seems_to_begin_late_is_filled_in_after_a_wait() {
        let records = [(A, 0, 15), (A, 17, 31), (A, 20, 31), (A, 40, 47), (A, 48, 63)];
        assert_eq!(begins(&records, true), [Some(0), Some(16), None, Some(32), Some(48)]);
        assert_eq!(begins(&records, false), [Some(0), Some(17), None, Some(40), Some(48)]);
    }

    #[test]
    fn a_first_read_that_seems_to_begin_near_the_start_begins_there() {
        assert_eq!(begins(&[(A, 3, 7), (B, 62, 63)], true), [Some(0), Some(0)]);
        assert_eq!(begins(&[(A, 63, 70)], true), [Some(63)]);
        assert_eq!(begins(&[(A, 3, 7)], false), [Some(3)]);
    }

    #[test]
    fn reads_here_and_there_are_as_they_are_told() {
        let records = [(A, 500, 500), (A, 100, 101), (A, 103, 104), (A, 900, 900)];
        assert_eq!(begins(&records, true), [Some(500), Some(100), Some(103), Some(900)]);
    }

    #[test]
    fn beyond_the_limit_what_was_is_forgotten() {
        let mut reads = Reads::default();
        for ino in 0..=FOLLOWED as u64 {
            assert_eq!(reads.begin(1, FileKey { dev: 1, ino }, 0, 9, true), Some(0));
        }
        assert_eq!(reads.begin(1, FileKey { dev: 1, ino: 0 }, 5, 9, true), Some(0), "a piece, told again");
        assert!(reads.last.len() <= FOLLOWED);
    }
}
