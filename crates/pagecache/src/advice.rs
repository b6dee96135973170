//! Turning the kernel's own readahead off on the programs' open files, and on again.
//!
//! Where a disclosed list says what will be read, the kernel's guesses only cost: 1.5 times the bytes on
//! random records of 64 KiB. `POSIX_FADV_RANDOM` belongs to the open file, so it can be set on a copy of
//! the program's descriptor (`pidfd_getfd(2)`) and reaches the program's reads. Advice that the program
//! gave itself cannot be seen and is replaced by the default when ours is taken back.

use std::collections::{BTreeMap, BTreeSet};

use foretell_policy::ManagerId;

use crate::closing::Closer;
use crate::descriptors::{self, Descriptors};
use crate::file_at;
use crate::file_key::FileKey;
use crate::guard::{Guard, NOTES, OpenFile, start_time};
use crate::reach::Broker;

/// The open files whose readahead is off because of us.
#[derive(Debug)]
pub(crate) struct ReadaheadOff {
    guard: Guard,
    closer: Closer,
    /// By process and descriptor: the file, on behalf of which manager, and the process's user.
    files: BTreeMap<(u32, i32), (OpenFile, ManagerId, u32)>,
    /// Processes and files whose descriptors have been gone through.
    covered: BTreeSet<(u32, FileKey)>,
}

impl OpenFile {
    /// Gives the kernel advice on all of this open file, as if its process had. Says whether it could. What was found in
    /// its place is closed by `closer`, on behalf of `user`, whose process it is.
    pub(crate) fn advise(&self, advice: libc::c_int, user: u32, closer: &Closer) -> bool {
        match Broker::of_process() {
            Some(broker) => broker.advise(*self, advice, user).is_ok(),
            None => self.advise_here(advice, user, closer),
        }
    }
}

impl ReadaheadOff {
    pub(crate) fn new(guard: Guard, closer: Closer) -> ReadaheadOff {
        ReadaheadOff { guard, closer, files: BTreeMap::new(), covered: BTreeSet::new() }
    }

    /// Turns readahead off for the file where process `pid` of `user` has it open, on behalf of a manager. Says on
    /// how many descriptors. The first time, the number that it has told (`told`) will do: should it read through
    /// another one, that is asked for `again`. Nothing changes when the table is full.
    pub(crate) fn turn_off(
        &mut self,
        (pid, user, key): (u32, u32, FileKey),
        told: Option<i32>,
        again: bool,
        manager: ManagerId,
        descriptors: &mut Descriptors,
    ) -> usize {
        if self.covered.len() < NOTES {
            self.covered.insert((pid, key));
        }
        let Some(started) = start_time(pid) else { return 0 };
        let file = |fd| {
            let looks = file_at::look(&descriptors::link(pid, fd)).ok().filter(|looks| looks.is(key))?;
            Some(OpenFile { pid, started, fd, dev: looks.stat.dev, ino: looks.stat.ino })
        };
        if let Some(told) = told.filter(|_| !again).and_then(file)
            && self.turn_off_one(told, user, manager)
        {
            return 1;
        }
        let found = descriptors.find_all(pid, key, again);
        let found: Vec<OpenFile> = found.into_iter().filter_map(file).collect();
        found.into_iter().filter(|&file| self.turn_off_one(file, user, manager)).count()
    }

    fn turn_off_one(&mut self, file: OpenFile, user: u32, manager: ManagerId) -> bool {
        let place = (file.pid, file.fd);
        if self.files.len() >= NOTES && !self.files.contains_key(&place) || !self.guard.note(file) {
            return false;
        }
        let done = file.advise(libc::POSIX_FADV_RANDOM, user, &self.closer);
        if done {
            self.files.insert(place, (file, manager, user));
        } else {
            // What the guard knew of this number, if anything, is of no use any more.
            self.files.remove(&place);
            self.guard.forget(file);
        }
        done
    }

    /// Have the process's descriptors for this file been gone through? It may have opened more since.
    pub(crate) fn covers(&self, pid: u32, key: FileKey) -> bool {
        self.covered.contains(&(pid, key)) || self.covered.len() >= NOTES
    }

    /// Turns readahead on again where it was turned off for this manager.
    pub(crate) fn restore(&mut self, manager: ManagerId) {
        self.files.retain(|_, (file, owner, user)| {
            let keep = *owner != manager;
            if !keep {
                file.advise(libc::POSIX_FADV_NORMAL, *user, &self.closer);
                self.guard.forget(*file);
            }
            keep
        });
        // Those of other managers are gone through once more, which changes nothing.
        self.covered.clear();
    }

    /// The process has ended, and its open files with it.
    pub(crate) fn forget_process(&mut self, pid: u32) {
        let ended: Vec<(u32, i32)> =
            self.files.range((pid, i32::MIN)..=(pid, i32::MAX)).map(|(k, _)| *k).collect();
        for key in ended {
            if let Some((file, ..)) = self.files.remove(&key) {
                // A descriptor that was passed on lives on; the open file is the same.
                self.guard.forget(file);
            }
        }
        self.covered.retain(|(process, _)| *process != pid);
    }

    /// Has readahead been turned off for this manager anywhere?
    pub(crate) fn any(&self, manager: ManagerId) -> bool {
        self.files.values().any(|(_, owner, _)| *owner == manager)
    }
}

impl Drop for ReadaheadOff {
    fn drop(&mut self) {
        for (file, _, user) in self.files.values() {
            file.advise(libc::POSIX_FADV_NORMAL, *user, &self.closer);
            self.guard.forget(*file);
        }
    }
}
