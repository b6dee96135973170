//! Joins the pieces in which the kernel reports one long read.
//!
//! `filemap_read()` works through a read in batches of folios (31 at most, fewer where a folio is not up to
//! date or marked for readahead), and the tracepoint fires for each: with the page where the batch begins
//! and, every time, the last page of the whole read. A `pread` of 1 MiB of small folios is
//!
//! ```text
//!     0..=255   31..=255   62..=255   …   248..=255
//! ```
//!
//! The first piece names every page already. So a piece is the continuation of what the same thread did
//! last if it is in the same file, ends at the same page, and begins later: it adds no page. The one thing
//! that cannot be told apart is a read of the tail of what the thread has just read.

use super::event::{FileKey, Observation};

/// Threads whose last read is remembered.
const THREADS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    tid: u32,
    file: FileKey,
    first_page: u64,
    last_page: u64,
}

/// Remembers the last read of each of some hundred threads.
///
/// A table indexed by the thread's number, each place holding the thread that read last: two threads in one
/// place can make a continuation look like a new read of the pages that were left, which repeats references
/// but invents none.
#[derive(Debug)]
pub struct ReadMerger {
    last: Box<[Option<Piece>; THREADS]>,
}

impl Default for ReadMerger {
    fn default() -> ReadMerger {
        ReadMerger { last: Box::new([None; THREADS]) }
    }
}

impl ReadMerger {
    /// Whether `observation` tells of pages that were not told before: `false` for the continuation of a
    /// read, `true` for everything else.
    #[inline]
    pub fn is_new(&mut self, observation: &Observation) -> bool {
        let Observation::Read { tid, file, first_page, last_page, .. } = *observation else {
            return true;
        };
        let piece = Piece { tid, file, first_page, last_page };
        let place = &mut self.last[tid as usize % THREADS];
        let before = place.replace(piece);
        !before.is_some_and(|before| {
            before.tid == tid
                && before.file == file
                && before.last_page == last_page
                && before.first_page < first_page
                && first_page <= last_page
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tid: u32, first_page: u64, last_page: u64) -> Observation {
        let file = FileKey { dev: 1, ino: 2 };
        Observation::Read { tgid: 1, tid, file, first_page, last_page, known: true, generation: 0 }
    }

    #[test]
    fn the_pieces_of_a_long_read_are_one() {
        let mut merger = ReadMerger::default();
        let new: Vec<_> = [0, 31, 62, 248].map(|first| merger.is_new(&read(7, first, 255))).into();
        assert_eq!(new, [true, false, false, false]);
        assert!(merger.is_new(&read(7, 0, 255)), "read once more");
        assert!(merger.is_new(&read(7, 256, 511)), "the next read");
    }

    #[test]
    fn threads_do_not_disturb_each_other() {
        let mut merger = ReadMerger::default();
        assert!(merger.is_new(&read(7, 0, 255)));
        assert!(merger.is_new(&read(8, 0, 255)));
        assert!(!merger.is_new(&read(7, 31, 255)));
        assert!(!merger.is_new(&read(8, 31, 255)));
    }

    #[test]
    fn what_is_not_a_read_is_always_new() {
        let mut merger = ReadMerger::default();
        let exited = Observation::Exited { tgid: 7, device_read_bytes: 0, wait_ns: 0 };
        assert!(merger.is_new(&exited) && merger.is_new(&exited));
    }
}
