//! Files whose programs have ended or let go of them, and of which blocks are still cached.
//!
//! Such a file is an *orphan*. Its blocks stay where they are in the policy's global order and count in the
//! budget, as blocks that no manager answers for do (Cao et al. 1996, section 3.2: they go when they are the
//! least recently used of all). So a program that ends does not leave pages beside the budget, which would take
//! the memory of those that go on, and whoever names the file next finds what is left of it.
//!
//! An orphan only shrinks. What programs outside of our control read of it is theirs and the kernel's, as it is
//! with files that nobody ever named; what lists still say of it is passed over.
//!
//! No descriptor is kept on an orphan: a file system can be unmounted, and what is deleted frees its space, as if
//! we were not there. For the moment in which blocks are dropped it is opened by the number of its inode
//! ([`crate::handles`]), never by its path, which was up to the program. Where that does not work, the file is
//! *left to the kernel*: its pages stay, and are known no more.
//!
//! That also happens to an orphan of which nothing is cached any more, to one that is deleted, to all when the
//! last session ends (nobody is left whose memory they could take), and to the oldest when there are more than
//! a quarter of the files that can be under control, or the table of files is full.

use std::collections::BTreeMap;

use foretell_policy::FileId;

/// Of the files that may be under control one in so many can be an orphan.
pub(crate) const ORPHAN_SHARE: u32 = 4;

/// The orphans by age.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    by_age: BTreeMap<u64, FileId>,
    last: u64,
}

impl Orphans {
    /// Adds one; gives its number, by which it is taken out again.
    pub(crate) fn add(&mut self, file: FileId) -> u64 {
        self.last += 1;
        self.by_age.insert(self.last, file);
        self.last
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.by_age.remove(&number);
    }

    pub(crate) fn oldest(&self) -> Option<FileId> {
        self.by_age.first_key_value().map(|(_, file)| *file)
    }

    /// All, the oldest first.
    pub(crate) fn all(&self) -> Vec<FileId> {
        self.by_age.values().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_age.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphans_are_known_by_age() {
        let mut orphans = Orphans::default();
        assert_eq!(orphans.oldest(), None);
        let numbers = [7, 3, 5].map(|file| orphans.add(FileId(file)));
        assert_eq!((orphans.oldest(), orphans.len()), (Some(FileId(7)), 3));
        orphans.remove(numbers[0]);
        orphans.add(FileId(7));
        assert_eq!(orphans.all(), [FileId(3), FileId(5), FileId(7)]);
    }
}
