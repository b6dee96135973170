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
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use foretell_policy::FileId;

use crate::aside;
use crate::file_key::FileKey;

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

/// Orphans that are open at a time at most.
const LENT: usize = 16;

/// Orphans that were opened in this round of the loop: what is done to one is done in many parts, and to open it is asked of
/// another process.
#[derive(Debug, Default)]
pub(crate) struct Lent(Vec<(u32, FileKey, u32, Arc<File>)>);

impl Lent {
    pub(crate) fn get(&self, key: FileKey, generation: u32) -> Option<Arc<File>> {
        let found = self.0.iter().find(|(_, of, its, _)| (*of, *its) == (key, generation))?;
        Some(Arc::clone(&found.3))
    }

    /// Keeps it open until the round ends. To whose share it counts is who closes it, should it have been deleted.
    pub(crate) fn keep(&mut self, account: u32, key: FileKey, generation: u32, file: &Arc<File>) {
        if self.0.len() < LENT {
            self.0.push((account, key, generation, Arc::clone(file)));
        }
    }

    /// The round ends.
    pub(crate) fn close(&mut self) {
        for (account, _, _, file) in self.0.drain(..) {
            if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
                aside::close(account, file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_open_for_a_round_and_not_for_another_file_of_its_number() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let key = FileKey { dev: 1, ino: 2 };
        let mut lent = Lent::default();
        for number in 0..=LENT as u64 {
            lent.keep(0, FileKey { ino: number, ..key }, 7, &file);
        }
        assert_eq!(lent.0.len(), LENT, "no more than so many");
        assert!(lent.get(key, 7).is_some_and(|found| Arc::ptr_eq(&found, &file)));
        assert!(lent.get(key, 8).is_none() && lent.get(FileKey { dev: 2, ..key }, 7).is_none());
        lent.close();
        assert!(lent.get(key, 7).is_none());
    }

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
