//! Turning the kernel's own readahead off on the programs' open files, and on again.
//!
//! Where a disclosed list says what will be read, the kernel's guesses only cost: 1.5 times the bytes on
//! random records of 64 KiB. `POSIX_FADV_RANDOM` belongs to the open file, so it can be set on a copy of
//! the program's descriptor (`pidfd_getfd(2)`) and reaches the program's reads. Advice that the program
//! gave itself cannot be seen and is replaced by the default when ours is taken back.
//!
//! To find a program's open file takes some looks at its descriptors, and where another process does that for this one
//! ([`crate::reach`]) each look waits for that process: up to 30 ms where programs want all processors. So a thread does it
//! ([`Adviser`]), in the order in which the loop wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use foretell_policy::ManagerId;

use crate::descriptors::{self, Descriptors};
use crate::file_at;
use crate::file_key::FileKey;
use crate::guard::{Guard, NOTES, OpenFile, start_time};
use crate::mailbox::Mailbox;
use crate::reach::{self, Broker};
use foretell_door::Closer;

/// Files that are being looked for at a time; a further one is when it is read again.
const UNDER_WAY: usize = 1024;
/// Open files that cannot be steered and of which nobody has heard yet; further ones are not told.
const UNSTEERED: usize = 16;

/// What the loop wants done, and knows of it.
#[derive(Debug)]
pub(crate) struct ReadaheadOff {
    /// `None` only while it is dropped.
    wanted: Option<Sender<Wanted>>,
    done: Arc<Mailbox<Done>>,
    thread: Option<JoinHandle<()>>,
    /// Processes and files whose descriptors have been gone through, or will be.
    covered: BTreeSet<(u32, FileKey)>,
    /// Those of which it is not known yet that they have been.
    under_way: BTreeSet<(u32, FileKey)>,
    /// Managers on whose behalf something was wanted.
    managers: BTreeSet<ManagerId>,
    /// Processes in which something was wanted, and on whose behalf. With as many as there are notes, the thread is told of every
    /// process that ends.
    processes: BTreeSet<(u32, ManagerId)>,
    unsteered: Vec<(PathBuf, &'static str)>,
}

/// A process, its user, and a file that it has open.
pub(crate) type Open = (u32, u32, FileKey);

/// What is to be done.
#[derive(Debug)]
enum Wanted {
    TurnOff { open: Open, told: Option<i32>, again: bool, manager: ManagerId },
    Restore(ManagerId),
    ForgetProcess(u32),
}

/// A process's file was looked for; open files of the process that nobody can steer, and why.
type Done = ((u32, FileKey), Vec<(PathBuf, &'static str)>);

impl ReadaheadOff {
    /// Starts the thread, which like those that prefetch has no real-time priority.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start(guard: Guard, closer: Closer) -> io::Result<ReadaheadOff> {
        let (wanted, is_wanted) = channel();
        let done = Arc::new(Mailbox::new(usize::MAX));
        let says = Arc::clone(&done);
        let mut adviser = Adviser { guard, closer, files: BTreeMap::new(), descriptors: Descriptors::new() };
        let thread = std::thread::Builder::new().name("foretell-advise".to_owned());
        let thread = thread.spawn(move || {
            reach::ask_as_adviser();
            for wanted in is_wanted {
                if let Some(done) = adviser.take(wanted) {
                    says.put(done);
                }
            }
        })?;
        Ok(ReadaheadOff {
            wanted: Some(wanted),
            done,
            thread: Some(thread),
            covered: BTreeSet::new(),
            under_way: BTreeSet::new(),
            managers: BTreeSet::new(),
            processes: BTreeSet::new(),
            unsteered: Vec::new(),
        })
    }

    fn want(&self, wanted: Wanted) {
        // Its thread ends with this; should it have failed, readahead stays as it is.
        let _ = self.wanted.as_ref().map(|sender| sender.send(wanted));
    }

    /// Turns readahead off for a file where a process has it open, on behalf of a manager. The first time, the
    /// number that it has told (`told`) will do: should it read through another one, that is asked for `again`.
    /// Nothing is done while the file is being looked for already, or too many are.
    pub(crate) fn turn_off(&mut self, open: Open, told: Option<i32>, again: bool, manager: ManagerId) {
        self.hear();
        let (pid, _, key) = open;
        if self.under_way.len() >= UNDER_WAY || !self.under_way.insert((pid, key)) {
            return;
        }
        if self.covered.len() < NOTES {
            self.covered.insert((pid, key));
        }
        self.managers.insert(manager);
        if self.processes.len() < NOTES {
            self.processes.insert((pid, manager));
        }
        self.want(Wanted::TurnOff { open, told, again, manager });
    }

    fn hear(&mut self) {
        for (file, unsteered) in self.done.take().into_iter().flatten() {
            self.under_way.remove(&file);
            let room = UNSTEERED.saturating_sub(self.unsteered.len());
            self.unsteered.extend(unsteered.into_iter().take(room));
        }
    }

    /// What has been seen since the last time that cannot be steered.
    pub(crate) fn take_unsteered(&mut self) -> Vec<(PathBuf, &'static str)> {
        self.hear();
        std::mem::take(&mut self.unsteered)
    }

    /// Have the process's descriptors for this file been gone through? It may have opened more since.
    pub(crate) fn covers(&self, pid: u32, key: FileKey) -> bool {
        self.covered.contains(&(pid, key)) || self.covered.len() >= NOTES
    }

    /// Turns readahead on again where it was turned off for this manager.
    pub(crate) fn restore(&mut self, manager: ManagerId) {
        if self.managers.remove(&manager) {
            self.want(Wanted::Restore(manager));
            self.processes.retain(|(_, of)| *of != manager);
            // Those of other managers are gone through once more, which changes nothing.
            self.covered.clear();
        }
    }

    /// The process has ended, and its open files with it.
    pub(crate) fn forget_process(&mut self, pid: u32) {
        let before = self.processes.len();
        self.processes.retain(|(process, _)| *process != pid);
        if self.processes.len() < before || before >= NOTES {
            self.covered.retain(|(process, _)| *process != pid);
            self.want(Wanted::ForgetProcess(pid));
        }
    }
}

impl Drop for ReadaheadOff {
    fn drop(&mut self) {
        self.wanted = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
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

/// The open files whose readahead is off because of us.
#[derive(Debug)]
struct Adviser {
    guard: Guard,
    closer: Closer,
    /// By process and descriptor: the file, on behalf of which manager, and the process's user.
    files: BTreeMap<(u32, i32), (OpenFile, ManagerId, u32)>,
    /// What was seen of the processes' open files, beside what the loop has seen.
    descriptors: Descriptors,
}

impl Adviser {
    fn take(&mut self, wanted: Wanted) -> Option<Done> {
        match wanted {
            Wanted::TurnOff { open, told, again, manager } => {
                self.turn_off(open, told, again, manager);
                let (pid, _, key) = open;
                return Some(((pid, key), self.descriptors.take_unsteered()));
            }
            Wanted::Restore(manager) => self.restore(manager),
            Wanted::ForgetProcess(pid) => self.forget_process(pid),
        }
        None
    }

    /// Says on how many descriptors. Nothing changes when the table is full.
    fn turn_off(
        &mut self,
        (pid, user, key): Open,
        told: Option<i32>,
        again: bool,
        manager: ManagerId,
    ) -> usize {
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
        let found = self.descriptors.find_all(pid, key, again);
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

    fn restore(&mut self, manager: ManagerId) {
        self.files.retain(|_, (file, owner, user)| {
            let keep = *owner != manager;
            if !keep {
                file.advise(libc::POSIX_FADV_NORMAL, *user, &self.closer);
                self.guard.forget(*file);
            }
            keep
        });
    }

    fn forget_process(&mut self, pid: u32) {
        let ended: Vec<(u32, i32)> =
            self.files.range((pid, i32::MIN)..=(pid, i32::MAX)).map(|(k, _)| *k).collect();
        for key in ended {
            if let Some((file, ..)) = self.files.remove(&key) {
                // A descriptor that was passed on lives on; the open file is the same.
                self.guard.forget(file);
            }
        }
        self.descriptors.forget_process(pid);
    }
}

impl Drop for Adviser {
    fn drop(&mut self) {
        for (file, _, user) in self.files.values() {
            file.advise(libc::POSIX_FADV_NORMAL, *user, &self.closer);
            self.guard.forget(*file);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    const MANAGER: ManagerId = ManagerId(1);

    fn key(ino: u64) -> FileKey {
        FileKey { dev: 1, ino }
    }

    fn off() -> ReadaheadOff {
        ReadaheadOff::start(Guard::start().unwrap(), Closer::start().unwrap()).unwrap()
    }

    fn adviser() -> Adviser {
        Adviser {
            guard: Guard::start().unwrap(),
            closer: Closer::start().unwrap(),
            files: BTreeMap::new(),
            descriptors: Descriptors::new(),
        }
    }

    #[test]
    fn beyond_the_limit_open_files_keep_their_readahead() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let key = FileKey::of(file.as_file()).unwrap();
        let pid = std::process::id();
        let open = (pid, 0, key);
        let mut adviser = adviser();
        let number = Some(file.as_file().as_raw_fd());
        assert_eq!(adviser.turn_off(open, number, false, MANAGER), 1);
        let (_, known) = adviser.files.pop_first().unwrap();
        let others = (0..NOTES as u32).map(|process| ((u32::MAX - process, 0), known));
        adviser.files.extend(others);
        assert_eq!(adviser.turn_off(open, number, false, MANAGER), 0, "no room");
        adviser.files.pop_last();
        assert_eq!(adviser.turn_off(open, number, false, MANAGER), 1);
        adviser.restore(MANAGER);
        assert!(adviser.files.is_empty());
    }

    #[test]
    fn a_file_is_looked_for_once_at_a_time_and_no_more_than_so_many_are() {
        let mut off = off();
        // Processes that there are not: nothing is found.
        let open = |at: usize| (u32::MAX - at as u32, 0, key(at as u64));
        let covers = |off: &ReadaheadOff, at| off.covers(open(at).0, key(at as u64));
        off.under_way.extend((0..UNDER_WAY).map(|at| (open(at).0, key(at as u64))));
        off.turn_off(open(1), None, true, MANAGER);
        off.turn_off(open(UNDER_WAY), None, false, MANAGER);
        assert!(
            off.managers.is_empty() && !covers(&off, UNDER_WAY),
            "one is looked for, and there is no room"
        );
        off.under_way.pop_first();
        off.turn_off(open(UNDER_WAY), None, false, MANAGER);
        assert!(covers(&off, UNDER_WAY));
        off.restore(MANAGER);
        assert!(off.covered.is_empty() && off.managers.is_empty());
        off.covered.insert((open(1).0, key(1)));
        off.restore(MANAGER);
        assert!(covers(&off, 1), "nothing was done for it: nothing is to be done anew");
    }

    /// What was turned off in a process stays so when that of another manager's is turned on again, and ends with the process.
    #[test]
    fn of_a_process_that_ends_nothing_is_kept_whoever_had_theirs_restored_before() {
        let (wanted, is_wanted) = channel();
        let mut off = off();
        off.wanted = Some(wanted);
        let ended = || -> Vec<u32> {
            let ended = |wanted| if let Wanted::ForgetProcess(pid) = wanted { Some(pid) } else { None };
            is_wanted.try_iter().filter_map(ended).collect()
        };
        let other = ManagerId(2);
        off.turn_off((7, 0, key(1)), None, false, MANAGER);
        off.turn_off((8, 0, key(1)), None, false, other);
        off.under_way.clear();
        off.restore(other);
        [7, 8, 9].into_iter().for_each(|pid| off.forget_process(pid));
        assert_eq!(ended(), [7]);
        off.processes.extend((0..NOTES as u32).map(|pid| (pid, MANAGER)));
        off.turn_off((u32::MAX, 0, key(1)), None, false, MANAGER);
        off.forget_process(u32::MAX);
        assert_eq!(ended(), [u32::MAX], "of too many the end of each is told");
    }
}
