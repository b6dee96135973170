//! What a program does with the files that it passes: which kinds of them it reads, and how much of each.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::path::Path;

/// Kinds of names that are told apart; all others are one.
const KINDS: usize = 64;
/// Files that are remembered.
const REMEMBERED: usize = 16;
/// A kind is expected to be read if at least this share of it was.
const SHARE: (u32, u32) = (3, 4);
/// Files of a kind that are passed by before it is expected to be left out.
const ENOUGH_PASSED: usize = 3;
/// Counts are halved at this number, so that what was long ago counts less.
const MOST: u32 = 1 << 10;
/// Pages of a file that are fetched before anything is known: what the kernel reads at first is not more.
const FIRST_PAGES: u32 = 16;
/// Pages of the largest part of a file that is fetched ahead, 4 MiB. By then the kernel's own readahead has come to speed.
const MOST_PAGES: u32 = 1024;

/// How often something was read, and how often not.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    read: u32,
    left_out: u32,
}

impl Counts {
    fn add(&mut self, is_read: bool) {
        *(if is_read { &mut self.read } else { &mut self.left_out }) += 1;
        if self.read + self.left_out >= MOST {
            (self.read, self.left_out) = (self.read / 2, self.left_out / 2);
        }
    }

    fn is_likely(self) -> bool {
        let (share, of) = SHARE;
        u64::from(self.read) * u64::from(of) >= u64::from(share) * u64::from(self.read + self.left_out)
    }
}

/// What was read of a file: pages, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Pages that were read.
    pub read: u32,
    /// Pages that there are.
    pub of: u32,
}

/// The habits of a program in one place.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    kinds: HashMap<Box<[u8]>, Counts>,
    all: Counts,
    extents: VecDeque<Extent>,
}

impl Habits {
    /// A file of this name was read, or passed by for good.
    pub(crate) fn passed(&mut self, name: &OsStr, is_read: bool) {
        self.all.add(is_read);
        let kind = kind(name);
        if let Some(counts) = self.kinds.get_mut(kind) {
            counts.add(is_read);
        } else if self.kinds.len() < KINDS {
            self.kinds.entry(kind.into()).or_default().add(is_read);
        }
    }

    /// So much of a file was read in one go.
    pub(crate) fn read(&mut self, extent: Extent) {
        self.extents.push_back(extent);
        if self.extents.len() > REMEMBERED {
            self.extents.pop_front();
        }
    }

    /// Is a file of this name likely to be read? Of a kind that was never read it is not as soon as there are some among
    /// those that were passed by, and may still come.
    pub(crate) fn is_likely<'a>(&self, name: &OsStr, passed: impl Iterator<Item = &'a OsStr>) -> bool {
        let known = self.kinds.get(kind(name)).copied();
        if known.is_none_or(|counts| counts.read == 0)
            && passed.filter(|passed| kind(passed) == kind(name)).nth(ENOUGH_PASSED - 1).is_some()
        {
            return false;
        }
        known.unwrap_or(self.all).is_likely()
    }

    /// Pages of the next file that are likely to be read.
    pub(crate) fn pages(&self) -> u32 {
        let telling = || self.extents.iter().filter(|extent| extent.of > FIRST_PAGES / 4);
        let whole = telling().filter(|extent| extent.read >= extent.of - extent.of / 8).count();
        match telling().count() {
            0 => FIRST_PAGES,
            count if whole * 4 >= count * 3 => MOST_PAGES,
            _ => telling().map(|extent| extent.read).max().map_or(FIRST_PAGES, |most| most.min(MOST_PAGES)),
        }
    }

    /// Pages that a file takes, in the mean.
    pub(crate) fn mean_pages(&self) -> u32 {
        let most = self.pages();
        let sum: u64 = self.extents.iter().map(|extent| u64::from(extent.of.min(most).max(1))).sum();
        sum.checked_div(self.extents.len() as u64).map_or(FIRST_PAGES, |mean| mean as u32)
    }
}

/// Files of one kind have the same extension, or no extension.
fn kind(name: &OsStr) -> &[u8] {
    Path::new(name).extension().map_or(&[], OsStr::as_encoded_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_left_out_are_not_expected() {
        let mut habits = Habits::default();
        fn likely(habits: &Habits, name: &str) -> bool {
            habits.is_likely(OsStr::new(name), std::iter::empty())
        }
        assert!(likely(&habits, "a.c"));
        let after =
            |passed: [&str; 3]| habits.is_likely(OsStr::new("a.c"), passed.into_iter().map(OsStr::new));
        assert!(after(["b.c", "c.c", "d.o"]) && !after(["b.c", "c.c", "d.c"]));
        for name in ["a.c", "b.c", "c.c"] {
            habits.passed(OsStr::new(name), true);
            habits.passed(OsStr::new(&format!("{name}.o")), false);
        }
        assert!(likely(&habits, "d.c") && !likely(&habits, "d.c.o"));
        assert!(!likely(&habits, "Makefile"), "of others as of all: half");
        (0..1 << 20).for_each(|_| habits.passed(OsStr::new("x.o"), true));
        assert!(likely(&habits, "d.c.o"), "what was long ago is forgotten");
        (0..1000).for_each(|n| habits.passed(OsStr::new(&format!("x.{n}")), true));
        assert_eq!(habits.kinds.len(), KINDS);
    }

    #[test]
    fn so_much_of_a_file_is_expected_as_of_those_before() {
        let mut habits = Habits::default();
        assert_eq!((habits.pages(), habits.mean_pages()), (FIRST_PAGES, FIRST_PAGES));
        for of in [1, 8, 30] {
            habits.read(Extent { read: of, of });
        }
        assert_eq!((habits.pages(), habits.mean_pages()), (MOST_PAGES, 13));
        for read in [4, 6] {
            habits.read(Extent { read, of: 500 });
        }
        assert_eq!(habits.pages(), 30, "half of them whole");
        (0..REMEMBERED).for_each(|_| habits.read(Extent { read: 4, of: 500 }));
        assert_eq!((habits.pages(), habits.mean_pages()), (4, 4));
    }
}
