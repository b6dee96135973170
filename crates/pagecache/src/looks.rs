//! Looking up what is cached of files that programs have named: a part at a time.
//!
//! A file may be as large as the memory, and all of it cached; to go through it takes a tenth of a second for each few
//! GiB. So a file is looked at in parts, the files of one user after another and those of several users in turn, for
//! some hundred microseconds in a round of the loop. One that is small is looked at when it is named.
//!
//! The kernel's side reports of the file before it is looked at, so that what changes meanwhile is told by it. What a
//! process reads of a part that was not looked at yet, and nobody was seen to load, was cached before.
//!
//! A look puts both right: pages that are cached and not known, and known ones that are gone.

use std::collections::{BTreeMap, HashMap};

use foretell_policy::FileId;

use crate::kernel::WINDOW_BYTES;

/// Windows of 2 MiB of a file named by a descriptor in which what is cached already is looked up; the rest is learnt
/// when it is read.
pub(crate) const WINDOWS: u32 = 4096;

/// Longest part that is asked about at a time: 32,768 pages take half a millisecond.
pub(crate) const SPAN_BYTES: u64 = 64 * WINDOW_BYTES;

/// A look at a file, as far as it has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) id: FileId,
    /// Byte.
    pub(crate) next: u64,
    pub(crate) span: u64,
    pub(crate) windows: u32,
    /// Pages that are not known are told of as well.
    pub(crate) new: bool,
}

/// All looks under way: one a file.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// By user, then by the serial number of the file.
    by_user: BTreeMap<u32, BTreeMap<u32, Look>>,
    files: HashMap<FileId, (u32, u32)>,
    last_user: u32,
}

impl Looks {
    /// Is there something of the file that was not looked at yet?
    pub(crate) fn is_pending(&self, file: FileId) -> bool {
        !self.files.is_empty() && self.files.contains_key(&file)
    }

    /// The look at a file: whose, the file's serial number, and how far it has come.
    pub(crate) fn of(&self, file: FileId) -> Option<(u32, u32, Look)> {
        let &(user, serial) = self.files.get(&file)?;
        Some((user, serial, *self.by_user.get(&user)?.get(&serial)?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn add(&mut self, user: u32, serial: u32, look: Look) {
        self.remove(look.id);
        self.files.insert(look.id, (user, serial));
        self.by_user.entry(user).or_default().insert(serial, look);
    }

    /// The file is not looked at any more; gives how far that had come.
    pub(crate) fn remove(&mut self, file: FileId) {
        if let Some((user, serial)) = self.files.remove(&file)
            && let Some(looks) = self.by_user.get_mut(&user)
        {
            looks.remove(&serial);
            if looks.is_empty() {
                self.by_user.remove(&user);
            }
        }
    }

    /// The look whose turn it is: whose, the file's serial number, and how far it has come.
    pub(crate) fn next(&mut self) -> Option<(u32, u32, Look)> {
        let after = self.last_user.checked_add(1).and_then(|from| self.by_user.range(from..).next());
        let (&user, looks) = after.or_else(|| self.by_user.first_key_value())?;
        let (&serial, &look) = looks.first_key_value()?;
        self.last_user = user;
        Some((user, serial, look))
    }

    pub(crate) fn put_back(&mut self, user: u32, serial: u32, look: Look) {
        if let Some(place) = self.by_user.get_mut(&user).and_then(|looks| looks.get_mut(&serial)) {
            *place = look;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(file: u32) -> Look {
        Look { id: FileId(file), next: 0, span: SPAN_BYTES, windows: WINDOWS, new: true }
    }

    #[test]
    fn there_is_one_look_a_file_and_users_take_turns() {
        let mut looks = Looks::default();
        for serial in 0..1000 {
            looks.add(7, serial, look(serial % 10));
        }
        looks.add(8, 2000, look(100));
        assert_eq!((looks.files.len(), looks.by_user[&7].len()), (11, 10));
        let users: Vec<u32> = (0..4).map(|_| looks.next().unwrap().0).collect();
        assert_eq!(users, [7, 8, 7, 8]);
        (0..10).chain([100]).for_each(|file| looks.remove(FileId(file)));
        assert!(looks.by_user.is_empty() && looks.is_empty() && looks.next().is_none());
    }
}
