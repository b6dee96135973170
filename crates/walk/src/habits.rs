//! What a program does with the files that it passes: which of them it reads, and how much of each.
//!
//! Files are told apart by their names (`copyright`, `__init__.py`) where these come again, else by their extensions; no
//! extension is one, too. Whoever reads files of several extensions is taken to read all of them.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::path::Path;

/// Names, and extensions, that are told apart; of all others no more is known than of all.
const KINDS: usize = 256;
/// Extensions that are read before one that has not been met is expected to be read as well.
const ENOUGH_EXTENSIONS: usize = 3;
/// Files of one name that are seen before it is a kind of its own.
const ENOUGH_SEEN: u32 = 3;
/// Files that are remembered.
const REMEMBERED: usize = 16;
/// A kind is expected to be read if at least this share of it was.
const SHARE: (u32, u32) = (3, 4);
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

type Kinds = HashMap<Box<[u8]>, Counts>;

/// The habits of a program in one place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Habits {
    names: Kinds,
    extensions: Kinds,
    all: Counts,
    extents: VecDeque<Extent>,
}

impl Habits {
    /// A file of this name was read, or passed by for good.
    pub(crate) fn passed(&mut self, name: &OsStr, is_read: bool) {
        self.all.add(is_read);
        add(&mut self.names, name.as_encoded_bytes(), is_read);
        add(&mut self.extensions, extension(name), is_read);
    }

    /// So much of a file was read in one go.
    pub(crate) fn read(&mut self, extent: Extent) {
        self.extents.push_back(extent);
        if self.extents.len() > REMEMBERED {
            self.extents.pop_front();
        }
    }

    /// Is a file of this name likely to be read?
    pub(crate) fn is_likely(&self, name: &OsStr) -> bool {
        let of_unknown = || if self.takes_all() { self.all } else { Counts { read: 0, left_out: 1 } };
        self.known(name).unwrap_or_else(of_unknown).is_likely()
    }

    fn known(&self, name: &OsStr) -> Option<Counts> {
        let named = self
            .names
            .get(name.as_encoded_bytes())
            .filter(|counts| counts.read + counts.left_out >= ENOUGH_SEEN);
        named.or_else(|| self.extensions.get(extension(name))).copied()
    }

    fn takes_all(&self) -> bool {
        self.extensions.values().filter(|counts| counts.read > 0).nth(ENOUGH_EXTENSIONS - 1).is_some()
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

fn extension(name: &OsStr) -> &[u8] {
    Path::new(name).extension().map_or(&[], OsStr::as_encoded_bytes)
}

fn add(kinds: &mut Kinds, kind: &[u8], is_read: bool) {
    if let Some(counts) = kinds.get_mut(kind) {
        counts.add(is_read);
        return;
    }
    // Room is made by those of which nothing can be said yet.
    if kinds.len() >= KINDS {
        kinds.retain(|_, counts| counts.read + counts.left_out >= ENOUGH_SEEN);
    }
    if kinds.len() < KINDS {
        kinds.entry(kind.into()).or_default().add(is_read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_left_out_are_not_expected() {
        let mut habits = Habits::default();
        let likely = |habits: &Habits, name: &str| habits.is_likely(OsStr::new(name));
        assert!(!likely(&habits, "a.c"));
        habits.passed(OsStr::new("x.c"), true);
        assert!(likely(&habits, "a.c") && !likely(&habits, "a.o") && !likely(&habits, "a"));
        habits.passed(OsStr::new("x"), true);
        habits.passed(OsStr::new("x.h"), true);
        assert!(likely(&habits, "a.o"), "it reads all kinds");
        let mut habits = Habits::default();
        for name in ["a.c", "b.c", "c.c"] {
            habits.passed(OsStr::new(name), true);
            habits.passed(OsStr::new(&format!("{name}.o")), false);
        }
        assert!(likely(&habits, "d.c") && !likely(&habits, "d.c.o"));
        assert!(!likely(&habits, "Makefile"), "of one kind only it is known that it is read");
        (0..3).for_each(|_| habits.passed(OsStr::new("Makefile"), true));
        (0..3).for_each(|_| habits.passed(OsStr::new("main.c"), false));
        assert!(likely(&habits, "Makefile") && !likely(&habits, "main.c"), "names come first");
        (0..1 << 20).for_each(|_| habits.passed(OsStr::new("x.o"), true));
        assert!(likely(&habits, "d.c.o"), "what was long ago is forgotten");
        (0..1000).for_each(|n| habits.passed(OsStr::new(&format!("x{n}.{n}")), true));
        assert!(habits.names.len() <= KINDS && habits.extensions.len() <= KINDS);
        assert!(!likely(&habits, "main.c"));
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
