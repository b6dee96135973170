//! The walks beside a job: one thread that follows, and some that read.
//!
//! ```text
//!  visits ──► queue ──► follower: Walks ──► queue ──► readers
//!                          ▲                            │ cached or not
//!                          └────────────────────────────┘
//! ```
//!
//! Whoever tells of visits never waits: what finds a queue full is dropped. A reader takes one file at a time and waits
//! for it, so that no more requests are under way than there are readers.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{fs, io, thread};

use crate::listing::{Disk, ENTRIES};
use crate::walks::{Guesses, Visit, Walks, Wanted};

/// Visits that wait to be followed. A job that is so far ahead does not wait for storage.
const VISITS: usize = 1024;
/// Files and directories that wait to be read; of more the oldest are dropped, which the job has come to by now.
const WAITING: usize = 512;

/// What was found of a file that was to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It was cached.
    Cached,
    /// It was not, and is now.
    Absent,
    /// It cannot be read.
    Nothing,
}

/// What a walker needs of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Means {
    /// Reads the beginning of a file, so many bytes, into the page cache, and waits for it.
    pub fetch: fn(&Path, u64) -> Found,
    /// How many files of the disk on which this one lies should be read at a time.
    pub readers: fn(&Path) -> usize,
    /// Bytes that may be read ahead of their use.
    pub budget_bytes: u64,
}

/// Follows a job, and reads what it will read. Its threads end when it is dropped, and are not waited for.
#[derive(Debug)]
pub struct Walker {
    visits: SyncSender<Visit>,
    guesses: Arc<Mutex<Guesses>>,
}

impl Walker {
    /// Begins. Readers are there as soon as there is something to read.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(means: Means) -> io::Result<Walker> {
        let (visits, followed) = sync_channel(VISITS);
        let follower = Follower { shared: Arc::default(), guesses: Arc::default(), means };
        let guesses = Arc::clone(&follower.guesses);
        thread::Builder::new().name("walk".into()).spawn(move || follower.follow(&followed))?;
        Ok(Walker { visits, guesses })
    }

    /// The job comes to a file.
    pub fn visited(&self, visit: Visit) {
        // Full, or the thread has ended: it is not followed then.
        let _ = self.visits.try_send(visit);
    }

    /// How good the guesses were so far.
    #[must_use]
    pub fn guesses(&self) -> Guesses {
        *self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that follows. The readers end with it.
struct Follower {
    shared: Arc<Shared>,
    guesses: Arc<Mutex<Guesses>>,
    means: Means,
}

impl Follower {
    fn follow(self, visits: &Receiver<Visit>) {
        let disk = Disk::as_mounted();
        let mut walks = Walks::new(disk.clone(), self.means.budget_bytes);
        let mut has_readers = false;
        while let Ok(visit) = visits.recv() {
            let looked = self.shared.looked.swap(0, Ordering::Relaxed);
            let absent = self.shared.absent.swap(0, Ordering::Relaxed);
            walks.looked_at(looked, absent);
            let wanted = walks.visit(&visit);
            if !wanted.is_empty() {
                if !std::mem::replace(&mut has_readers, true) {
                    self.start_readers(&visit.path, &disk);
                }
                self.shared.want(wanted);
            }
            *self.guesses.lock().unwrap_or_else(PoisonError::into_inner) = walks.guesses();
        }
    }
}

impl Follower {
    /// As many as the disk of this file can use, or as there can be.
    fn start_readers(&self, of: &Path, disk: &Disk) {
        for _ in 0..(self.means.readers)(of) {
            let (shared, fetch, disk) = (Arc::clone(&self.shared), self.means.fetch, disk.clone());
            let reader = thread::Builder::new().name("walk-reader".into());
            if reader.spawn(move || shared.read(fetch, &disk)).is_err() {
                break;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        waiting.has_ended = true;
        waiting.wanted.clear();
        self.shared.changed.notify_all();
    }
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    looked: AtomicU32,
    absent: AtomicU32,
}

#[derive(Debug, Default)]
struct Waiting {
    wanted: VecDeque<Wanted>,
    has_ended: bool,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, wanted: Vec<Wanted>) {
        let mut waiting = self.waiting();
        waiting.wanted.extend(wanted);
        let too_many = waiting.wanted.len().saturating_sub(WAITING);
        waiting.wanted.drain(..too_many);
        self.changed.notify_all();
    }

    /// What a reader does.
    fn read(&self, fetch: fn(&Path, u64) -> Found, disk: &Disk) {
        while let Some(wanted) = self.next() {
            match wanted {
                Wanted::File(path, bytes) => match fetch(&path, bytes) {
                    Found::Nothing => {}
                    found => {
                        self.looked.fetch_add(1, Ordering::Relaxed);
                        self.absent.fetch_add(u32::from(found == Found::Absent), Ordering::Relaxed);
                    }
                },
                Wanted::Directory(path) if disk.has(&path) => read_names(&path),
                Wanted::Directory(_) => {}
            }
        }
    }

    fn next(&self) -> Option<Wanted> {
        let mut waiting = self.waiting();
        while waiting.wanted.is_empty() && !waiting.has_ended {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.wanted.pop_front()
    }
}

/// Makes the kernel know the names in a directory.
fn read_names(path: &Path) {
    if let Ok(names) = fs::read_dir(path) {
        let _ = names.take(ENTRIES).count();
    }
}
