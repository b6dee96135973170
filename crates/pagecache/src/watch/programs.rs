//! Files that every process of a job maps anew: which of their pages have been told of.
//!
//! What a process touches of its executable and its libraries is fetched before the job begins, whatever the order, so
//! one reference a page says all. A file of which [`QUIET`] references in a row have said nothing new is *settled*: the
//! kernel's side can stop telling. Not so one that is read as well, as data are.

use foldhash::HashMap;

use crate::observe::FileKey;

/// References without a new page after which a file is settled. A short process has about a hundred of them over all
/// its libraries, so this is a file that several processes have mapped.
const QUIET: u32 = 256;
/// Files that are followed; beyond them every reference is recorded.
const FILES: usize = 1 << 12;
/// Pages of the largest file that is followed, 1 GiB: its set takes 32 KiB.
const PAGES: u32 = 1 << 18;

/// Has a reference said something new?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// There is a page among them that was not told of.
    Now,
    /// No.
    Before,
}

/// What was mapped of one file.
#[derive(Debug, Default)]
struct Mapped {
    /// A bit a page.
    pages: Vec<u64>,
    quiet: u32,
    settled: bool,
}

/// What was mapped of all of them.
#[derive(Debug, Default)]
pub(super) struct Programs {
    files: HashMap<FileKey, Mapped>,
    settled: Vec<FileKey>,
}

impl Programs {
    /// Pages `first..=last` of a file with so many were mapped. One that is read as well does not settle.
    pub(super) fn map(&mut self, key: FileKey, pages: u32, (first, last): (u32, u32), read: bool) -> Told {
        if pages > PAGES || last >= pages || (self.files.len() >= FILES && !self.files.contains_key(&key)) {
            return Told::Now;
        }
        let mapped = self.files.entry(key).or_default();
        mapped.pages.resize(pages.div_ceil(u64::BITS) as usize, 0);
        let mut told = Told::Before;
        for page in first..=last {
            let (word, bit) = (&mut mapped.pages[(page / u64::BITS) as usize], 1 << (page % u64::BITS));
            if *word & bit == 0 {
                *word |= bit;
                told = Told::Now;
            }
        }
        mapped.quiet = if told == Told::Now { 0 } else { mapped.quiet.saturating_add(1) };
        if mapped.quiet >= QUIET && !read && !mapped.settled {
            mapped.settled = true;
            self.settled.push(key);
        }
        told
    }

    /// Those that have settled since the last time.
    pub(super) fn take_settled(&mut self) -> impl Iterator<Item = FileKey> {
        std::mem::take(&mut self.settled).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileKey = FileKey { dev: 1, ino: 2 };

    #[test]
    fn a_page_is_told_of_once_and_a_file_settles_once() {
        let mut programs = Programs::default();
        assert_eq!(programs.map(FILE, 100, (0, 15), false), Told::Now);
        assert_eq!(programs.map(FILE, 100, (8, 15), false), Told::Before);
        assert_eq!(programs.map(FILE, 100, (8, 16), false), Told::Now);
        (1..QUIET).for_each(|_| assert_eq!(programs.map(FILE, 100, (3, 3), false), Told::Before));
        assert_eq!(programs.take_settled().count(), 0);
        (0..2 * QUIET).for_each(|_| assert_eq!(programs.map(FILE, 100, (3, 3), false), Told::Before));
        assert_eq!(programs.take_settled().collect::<Vec<_>>(), [FILE]);
    }

    #[test]
    fn what_is_read_as_well_never_settles() {
        let mut programs = Programs::default();
        for _ in 0..2 * QUIET {
            programs.map(FILE, 4, (3, 3), true);
        }
        assert_eq!(programs.take_settled().count(), 0);
    }

    #[test]
    fn beyond_the_limits_every_reference_is_told() {
        let mut programs = Programs::default();
        // A file that has grown since it was named, and one that is too large.
        for _ in 0..2 {
            assert_eq!(programs.map(FILE, 4, (4, 4), false), Told::Now);
            assert_eq!(programs.map(FILE, PAGES + 1, (4, 4), false), Told::Now);
        }
        for ino in 0..FILES as u64 {
            assert_eq!(programs.map(FileKey { dev: 3, ino }, 1, (0, 0), false), Told::Now);
        }
        (0..2).for_each(|_| assert_eq!(programs.map(FILE, 4, (0, 0), false), Told::Now));
    }
}
