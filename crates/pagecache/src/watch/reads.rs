//! Where a read begins, of which the kernel tells in pieces.
//!
//! One record comes for each batch of folios that a read is given, from where it is to the end of the whole read. Two
//! things follow for somebody who wants to know what was read, and not when which of it was there:
//!
//! * a record with the end of the one before it, and a later start, is the same read going on: nothing new;
//! * a read may seem to begin late, and a recording of a night on which somebody fetched ahead would have holes, more of
//!   them every night. They are filled in (`read_starts.rs`).
//!
//! The plane does the same with more knowledge, for it knows what is cached (`streams.rs`).

use std::collections::HashMap;

use crate::observe::FileKey;
use crate::read_starts::LastRead;

/// Threads and files that are followed; for one more all are forgotten: a piece may be told twice, a gap may stay.
const FOLLOWED: usize = 1 << 14;

/// The last read of a thread in a file, in pages.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Where its last piece began.
    first: u64,
    read: LastRead,
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
        if let Some(before) = before
            && before.read.last == last
            && before.first < first
        {
            self.last.insert((tid, file), Last { first, ..before });
            return None;
        }
        if before.is_none() && self.last.len() >= FOLLOWED {
            self.last.clear();
        }
        let (start, read) = LastRead::next(before.map(|before| before.read), (first, last), waited, |_| true);
        self.last.insert((tid, file), Last { first, read });
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
