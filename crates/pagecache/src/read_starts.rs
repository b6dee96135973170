//! Where a read begins of which the kernel tells late.
//!
//! Of a batch that ends in a folio which is still being fetched the kernel tells nothing (`mm/filemap.c`, the error path of
//! `filemap_get_pages`), so that a read may seem to begin late, wherever somebody fetches ahead. A gap is filled in when
//! the thread has just waited, has read the file in sequence so far, and the gap is shorter than its last read; or when it
//! is the first read of a file and seems to begin close to its start. Who knows what is cached has a say as well.

use std::ops::Range;

/// A first read of a file that seems to begin within this many pages of its start is taken to have begun
/// there: twice the 31 folios of the kernel's `PAGEVEC_SIZE`.
const FIRST_GAP_PAGES: u64 = 62;

/// The last read of a thread in a file. Page numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastRead {
    /// Its last page.
    pub(crate) last: u64,
    /// Its pages.
    pub(crate) pages: u64,
    /// It followed the read before it, or began the file.
    pub(crate) sequential: bool,
}

impl LastRead {
    /// The read after `before` that seems to begin with page `first` and ends with `last`, and where it begins. `waited`:
    /// the thread has slept for a page since its record before. `may_fill`: may these pages have been read just now?
    pub(crate) fn next(
        before: Option<LastRead>,
        (first, last): (u64, u64),
        waited: bool,
        may_fill: impl FnOnce(Range<u64>) -> bool,
    ) -> (u64, LastRead) {
        let (start, sequential) = match before {
            Some(before) => {
                let next = before.last.saturating_add(1);
                let late = waited && before.sequential && next < first && first - next < before.pages;
                let start = if late && may_fill(next..first) { next } else { first };
                (start, start == next || start == before.last)
            }
            None => {
                let late = waited && first > 0 && first <= FIRST_GAP_PAGES;
                let start = if late && may_fill(0..first) { 0 } else { first };
                (start, start == 0)
            }
        };
        let pages = last.saturating_sub(start).saturating_add(1);
        (start, LastRead { last, pages, sequential })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: LastRead = LastRead { last: 9, pages: 5, sequential: true };

    fn start(before: Option<LastRead>, first: u64, waited: bool) -> u64 {
        LastRead::next(before, (first, 100), waited, |_| true).0
    }

    #[test]
    fn only_a_short_gap_in_a_sequence_after_a_wait_is_filled_in() {
        assert_eq!(start(Some(BEFORE), 14, true), 10);
        assert_eq!(start(Some(BEFORE), 15, true), 15, "as long as the last read");
        assert_eq!(start(Some(BEFORE), 14, false), 14);
        assert_eq!(start(Some(LastRead { sequential: false, ..BEFORE }), 14, true), 14);
        assert_eq!((start(None, 62, true), start(None, 63, true), start(None, 62, false)), (0, 63, 62));
        let (unfilled, next) = LastRead::next(Some(BEFORE), (14, 17), true, |gap| gap != (10..14));
        assert_eq!((unfilled, next.sequential, next.pages), (14, false, 4));
    }

    #[test]
    fn a_read_of_the_last_page_again_goes_on_in_sequence() {
        let sequential = |first| LastRead::next(Some(BEFORE), (first, first), false, |_| true).1.sequential;
        assert_eq!([8, 9, 10, 11].map(sequential), [false, true, true, false]);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let (start, next) = LastRead::next(None, (0, u64::MAX), true, |_| true);
        assert_eq!((start, next.pages), (0, u64::MAX));
        assert_eq!(LastRead::next(Some(next), (5, 9), true, |_| true).0, 5);
    }
}
