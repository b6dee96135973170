//! Whether a long visit of a file is followed by what the list names after it.
//!
//! Within a file that is read from one end to the other almost every prediction comes true, whatever the order of the
//! files is. So a chance by distance ([`super::confidence`]) says little of the next file: near the end of the present
//! one, a few hundred references ahead mean the same file nearly always, and another one now. What lies beyond the
//! present file is measured by itself: each time the reader leaves a long visit, it has come to the list's next place or
//! to another one.

use std::ops::Range;

use super::list::{List, NONE};

/// References in a row of one file that are a long visit: 512 KiB of 8 KiB. What is shorter is within the reach of the
/// chances by distance, which are measured from that far on.
const LONG: u32 = 64;

/// Positions about the list's next place that are as good as that: several readers of one list are so far apart.
const NEAR: u32 = 256;

/// Visits after which the counts are halved.
const FULL: u32 = 16;

/// Visits that are taken to have been followed rightly before the first one: one that was not proves a lot, as nobody
/// jumps by chance.
const TRUST: f64 = 0.5;

/// The visits of one stream's reader.
#[derive(Debug)]
pub(crate) struct Visits {
    /// The file that was referenced last, the position of that, and how many came in a row.
    file: u32,
    last: u32,
    length: u32,
    /// The visit before this one was long.
    followed_long: bool,
    /// One past the positions after `last` that are known to be of the same file.
    same_before: u32,
    kept: u32,
    all: u32,
}

impl Default for Visits {
    fn default() -> Visits {
        Visits { file: NONE, last: 0, length: 0, followed_long: false, same_before: 0, kept: 0, all: 0 }
    }
}

impl Visits {
    /// A reference of `file` has used a position up.
    #[inline]
    pub(crate) fn take(&mut self, file: u32, position: u32) {
        if file != self.file {
            self.leave(file, position);
        }
        self.last = position;
        self.length = self.length.saturating_add(1);
    }

    #[inline(never)]
    fn leave(&mut self, file: u32, position: u32) {
        self.followed_long = self.length >= LONG;
        if self.followed_long {
            self.all += 1;
            self.kept += u32::from(position.abs_diff(self.last + 1) <= NEAR);
            if self.all == FULL {
                self.all /= 2;
                self.kept /= 2;
            }
        }
        (self.file, self.length, self.same_before) = (file, 0, 0);
    }

    /// The chance that the list's next file is the next one; 1 where the reader is in no long visit, nor just after one.
    #[inline]
    pub(crate) fn chance(&self) -> f64 {
        if self.all == 0 || !(self.followed_long || self.length >= LONG) {
            return 1.0;
        }
        (f64::from(self.kept) + TRUST) / (f64::from(self.all) + TRUST)
    }

    /// What the list names of the present file from here on, before any other one. `file_of` says of which file a block
    /// is.
    pub(crate) fn rest(&mut self, list: &List, file_of: impl Fn(u32) -> u32) -> Range<u32> {
        let from = (self.last + 1).max(list.first());
        let mut end = self.same_before.max(from);
        while end < list.len() && file_of(list.block_at(end)) == self.file {
            end += 1;
        }
        self.same_before = end;
        from..end
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reference;
    use super::*;

    const BLOCKS: u32 = 100;

    /// Files of so many blocks each, one after the other: block `b` is of file `b / BLOCKS`.
    fn list(files: u32) -> List {
        let mut list = List::default();
        for block in 0..files * BLOCKS {
            list.append(Reference { block, file: block / BLOCKS, index: block % BLOCKS });
        }
        list
    }

    fn visit(visits: &mut Visits, file: u32, blocks: u32) {
        for position in file * BLOCKS..file * BLOCKS + blocks {
            visits.take(file, position);
        }
    }

    #[test]
    fn an_example_by_hand() {
        let (list, mut visits) = (list(10), Visits::default());
        assert_eq!(visits.chance(), 1.0, "nothing is known");
        visit(&mut visits, 0, 100);
        visit(&mut visits, 1, 100);
        // One of one, and half a visit's trust.
        assert_eq!((visits.kept, visits.all, visits.chance()), (1, 1, 1.0));
        visit(&mut visits, 7, 30);
        assert_eq!((visits.kept, visits.all, visits.chance()), (1, 2, 1.5 / 2.5));
        assert_eq!(visits.rest(&list, |block| block / BLOCKS), 730..800);
        visit(&mut visits, 7, 70);
        visit(&mut visits, 3, 1);
        assert_eq!((visits.kept, visits.all, visits.chance()), (1, 3, 1.5 / 3.5));
        assert_eq!(visits.rest(&list, |block| block / BLOCKS), 301..400);
    }

    #[test]
    fn short_visits_say_nothing() {
        let mut visits = Visits::default();
        for file in [0, 7, 3, 1] {
            visit(&mut visits, file, LONG - 1);
        }
        assert_eq!((visits.all, visits.chance()), (0, 1.0));
        // One long visit that nothing listed follows, and two short ones after it.
        visit(&mut visits, 8, LONG);
        visit(&mut visits, 2, 1);
        assert!(visits.chance() < 0.5);
        visit(&mut visits, 5, 1);
        assert_eq!(visits.chance(), 1.0);
    }

    #[test]
    fn a_visit_that_ends_early_was_followed_rightly_by_the_next_file() {
        let mut visits = Visits::default();
        visit(&mut visits, 0, LONG);
        visit(&mut visits, 1, 1);
        assert_eq!((visits.kept, visits.all), (1, 1));
    }

    #[test]
    fn what_was_released_is_not_asked_for() {
        let (mut list, mut visits) = (list(3), Visits::default());
        visit(&mut visits, 0, 10);
        list.release(|_| {});
        assert_eq!(visits.rest(&list, |block| block / BLOCKS), 64..100);
    }
}
