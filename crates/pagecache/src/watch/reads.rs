//! Where a read begins, of which the kernel tells in pieces.
//!
//! One record comes for each batch of folios that a read is given, from where it is to the end of the whole read. Two
//! things follow for somebody who wants to know what was read, and not when which of it was there:
//!
//! * a record with the end of the one before it, and a later start, is the same read going on: nothing new. Has the
//!   thread read another file between them, it is another read;
//! * a read may seem to begin late, and a recording of a night on which somebody fetched ahead would have holes, more of
//!   them every night. They are filled in (`read_starts.rs`), but not with pages before those that the thread fetched for
//!   this read: had it come by cached ones first, it would have been told of them.
//!
//! The plane does the same with more knowledge, for it knows what is cached (`streams.rs`).

use foldhash::HashMap;
use std::ops::{Range, RangeInclusive};

use crate::observe::FileKey;
use crate::read_starts::LastRead;

/// Threads and files that are followed; for one more all are forgotten: a piece may be told twice, a gap may stay.
const FOLLOWED: usize = 1 << 14;

/// The last read of a thread in a file, in pages.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Where its last piece began.
    first: u64,
    /// The thread had fetched that page itself.
    has_fetched: bool,
    read: LastRead,
}

/// The threads that read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    last: HashMap<(u32, FileKey), Last>,
    /// The file that each thread has read last.
    reading: HashMap<u32, FileKey>,
    /// The first and the last page that a thread has fetched of a file since its last record of it.
    fetched: HashMap<(u32, FileKey), (u64, u64)>,
}

impl Reads {
    /// A thread fetched these pages of a file.
    pub(super) fn fetched(&mut self, tid: u32, file: FileKey, pages: RangeInclusive<u64>) {
        if self.fetched.len() >= FOLLOWED && !self.fetched.contains_key(&(tid, file)) {
            self.fetched.clear();
        }
        let (from, to) = (*pages.start(), *pages.end());
        let all = self.fetched.entry((tid, file)).or_insert((from, to));
        *all = (all.0.min(from), all.1.max(to));
    }

    /// Whether a thread has fetched this page of a file itself, with which its last piece begins or which it maps now.
    pub(super) fn has_fetched(&self, tid: u32, file: FileKey, page: u64) -> bool {
        let is_read = self.last.get(&(tid, file)).is_some_and(|last| last.first == page && last.has_fetched);
        is_read || self.fetched.get(&(tid, file)).is_some_and(|&(from, to)| (from..=to).contains(&page))
    }

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
        let fetched = self.fetched.remove(&(tid, file)).filter(|&(from, _)| from <= first);
        if self.reading.len() >= FOLLOWED && !self.reading.contains_key(&tid) {
            self.reading.clear();
        }
        let goes_on = self.reading.insert(tid, file) == Some(file);
        if let Some(before) = before
            && goes_on
            && before.read.last == last
            && before.first < first
        {
            self.last.insert((tid, file), Last { first, ..before });
            return None;
        }
        if before.is_none() && self.last.len() >= FOLLOWED {
            self.last.clear();
        }
        let may_fill = |gap: Range<u64>| fetched.is_none_or(|(from, _)| from <= gap.start);
        let has_fetched = fetched.is_some_and(|(from, to)| (from..=to).contains(&first));
        // Without readahead what is fetched is what is read.
        let whole = fetched.filter(|&(_, to)| waited && to == last);
        let first = whole.map_or(first, |(from, _)| from);
        let (start, read) = LastRead::next(before.map(|before| before.read), (first, last), waited, may_fill);
        self.last.insert((tid, file), Last { first, has_fetched, read });
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

    /// Where the read of `13..=15` is found to begin after a wait, of a thread that has fetched these pages.
    fn begins_after(fetched: &[RangeInclusive<u64>]) -> Option<u64> {
        let mut reads = Reads::default();
        fetched.iter().for_each(|pages| reads.fetched(7, A, pages.clone()));
        reads.begin(7, A, 13, 15, true)
    }

    #[test]
    fn nothing_is_filled_in_before_what_the_thread_fetched_itself() {
        assert_eq!(begins_after(&[13..=31]), Some(13));
        assert_eq!(begins_after(&[14..=14, 15..=15, 13..=13]), Some(13));
        assert_eq!(begins_after(&[0..=31]), Some(0), "the first pages have come before the others");
        assert_eq!(begins_after(&[16..=31]), Some(0), "what comes ahead says nothing of the beginning");
        let mut reads = Reads::default();
        reads.fetched(7, A, 0..=15);
        assert!(reads.has_fetched(7, A, 15) && !reads.has_fetched(7, A, 16) && !reads.has_fetched(8, A, 0));
        assert_eq!(reads.begin(7, A, 0, 15, true), Some(0));
        assert!(reads.has_fetched(7, A, 0));
        assert_eq!(reads.begin(7, A, 20, 31, true), Some(16), "what was fetched belongs to the read before");
        assert!(!reads.has_fetched(7, A, 0), "that was the read before");
        (0..=FOLLOWED as u64).for_each(|ino| reads.fetched(7, FileKey { dev: 9, ino }, 1..=1));
        assert!(reads.fetched.len() <= FOLLOWED);
    }

    #[test]
    fn what_was_fetched_up_to_the_end_of_a_read_was_fetched_for_it() {
        assert_eq!(begins_after(&[11..=11, 12..=15]), Some(11), "the kernel told late of it");
        let mut reads = Reads::default();
        reads.begin(7, A, 500, 500, true);
        reads.fetched(7, A, 90..=110);
        assert_eq!(reads.begin(7, A, 100, 110, false), Some(100), "it has not waited");
        reads.fetched(7, A, 90..=120);
        assert_eq!(reads.begin(7, A, 100, 111, true), Some(100), "it was asked for more than it read");
    }

    #[test]
    fn the_same_end_after_another_file_is_another_read() {
        let records = [(A, 2, 7), (B, 0, 0), (A, 4, 7), (A, 6, 7)];
        assert_eq!(begins(&records, false), [Some(2), Some(0), Some(4), None]);
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
