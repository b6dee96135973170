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
use std::time::{Duration, Instant};

use foretell_policy::FileId;

use crate::steering::Steering;

/// Of the files that may be under control one in so many can be an orphan.
pub(crate) const ORPHAN_SHARE: u32 = 4;

/// Files that are abandoned before the clock is looked at: tens of microseconds each, more for one of which much is
/// cached.
const ABANDONED_AT_ONCE: u32 = 8;

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

impl Steering {
    /// Nobody is interested in a file any more.
    pub(crate) fn abandon(&mut self, id: FileId) {
        let Some(managed) = self.files.get(id) else { return };
        if managed.is_orphan() {
            if self.sessions.len() == 0 {
                self.retire(id);
            }
            return;
        }
        // Not asked by its path, which nobody answers for now.
        if managed.folios.cached_pages() > 0 {
            self.files.refresh(id);
        }
        let Some(managed) = self.files.get(id) else { return };
        let left = managed.folios.cached_pages() > 0 && !managed.unlinked && self.sessions.len() > 0;
        if !left {
            self.retire(id);
            return;
        }
        self.files.orphan(id);
        while self.files.orphans.len() > self.orphan_limit {
            self.retire_oldest_orphan();
        }
    }

    /// Leaves the oldest orphan to the kernel; says whether there was one.
    pub(crate) fn retire_oldest_orphan(&mut self) -> bool {
        let oldest = self.files.orphans.oldest();
        oldest.inspect(|&id| self.retire(id)).is_some()
    }

    /// Nobody may be interested in a file any more: it is looked at soon whether that is so.
    pub(crate) fn let_lie(&mut self, id: FileId) {
        self.let_go_of.insert(id);
    }

    /// The last session has ended: all orphans are left to the kernel.
    pub(crate) fn let_all_orphans_lie(&mut self) {
        self.let_go_of.extend(self.files.orphans.all());
    }

    /// Abandons the files that nobody is interested in any more, a few at least and as many as there is time for; says
    /// whether these are all, and there were any.
    pub(crate) fn abandon_some(&mut self, time: Duration) -> bool {
        let start = Instant::now();
        let mut looked_at = 0;
        while (looked_at < ABANDONED_AT_ONCE || start.elapsed() < time)
            && let Some(id) = self.let_go_of.pop_first()
        {
            looked_at += 1;
            let Some(managed) = self.files.get(id) else { continue };
            let named = managed.holders > 0 || !managed.listed.is_empty();
            if !named && self.sessions.rule_for(&managed.path).is_none() {
                self.abandon(id);
            }
        }
        self.stirred |= !self.let_go_of.is_empty();
        looked_at > 0 && self.let_go_of.is_empty()
    }

    /// Somebody has named a file: if it is an orphan it is one no more. What the programs outside of our
    /// control have read of it meanwhile is found out about.
    pub(crate) fn claim(&mut self, id: FileId, user: u32) {
        if !self.files.claim(id) {
            return;
        }
        self.engine.allow_fetches(id);
        self.files.refresh(id);
        let size = self.files.get(id).map_or(0, |managed| managed.size);
        self.resized(id, size);
        self.look_at(id, user, true);
    }

    /// Rules have come: orphans that they match are managed by them.
    pub(crate) fn claim_by_rules(&mut self) {
        for id in self.files.orphans.all() {
            let Some(managed) = self.files.get(id) else { continue };
            let Some(control) = self.sessions.rule_for(&managed.path).map(|r| (r.policy, r.priority)) else {
                continue;
            };
            if let Some(managed) = self.files.get_mut(id) {
                managed.control = Some(control);
            }
            self.claim(id, 0);
        }
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
