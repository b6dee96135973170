//! The guesses beside a job: one thread that follows, and some that read.
//!
//! ```text
//!  visits, pieces, ──► queue ──► follower: Walks, Streams, ──► queue ──► readers
//!  directories                             Descents, Unordered              │
//!                                     ▲                                     │ cached or not, what is in directories
//!                                     └─────────────────────────────────────┘
//! ```
//!
//! Whoever tells of visits and the like never waits: what finds a queue full is dropped. A reader takes one file or part at a
//! time and waits for it, so that no more requests are under way than there are readers; of large ones two at most, so
//! that nobody else waits long behind them.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use serde::Serialize;

use crate::descents::{DescentGuesses, Descents, Place};
use crate::listing::{Ahead, Disk, Entry, Tree};
use crate::means::Means;
use crate::readers::{LARGE_AT_A_TIME, Shared, WAITING};
use crate::streams::{Piece, StreamGuesses, Streams};
use crate::unordered::{Unordered, UnorderedGuesses};
use crate::walks::{Guesses, Visit, Walks, Wanted};

/// Visits, pieces and directories that wait to be followed. A job that is so far ahead does not wait for storage.
const TOLD: usize = 4096;
/// Within files one part in so many of that is read ahead besides.
const STREAMS_SHARE: u64 = 2;
/// A visit is told of that late, at most, unless the machine is busy.
const TOLD_LATE: Duration = Duration::from_millis(5);
/// A job ends that much later at most, for what is said of it: [`TOLD`] pieces take some milliseconds to follow.
const FOLLOWED_LATE: Duration = Duration::from_millis(20);

/// Follows a job, and reads what it will read. Its threads end when it is dropped, and are not waited for.
#[derive(Debug)]
pub struct Walker {
    /// The only one: when it is gone all threads end.
    told: Arc<SyncSender<Told>>,
    guesses: Arc<Mutex<AllGuesses>>,
}

/// How good all guesses were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct AllGuesses {
    /// Which files come.
    #[serde(flatten)]
    pub files: Guesses,
    /// Which parts of them.
    pub streams: StreamGuesses,
    /// Which directories.
    pub directories: DescentGuesses,
    /// Which trees are read in no order.
    pub trees: UnorderedGuesses,
}

/// What the job does.
#[derive(Debug)]
enum Told {
    /// And when it was told.
    Visit(Visit, Instant),
    Piece(Piece),
    Place(Place, u64),
    /// Something was found in directories.
    Found,
    /// Somebody waits until all that was told before is followed.
    Followed(SyncSender<()>),
}

impl Walker {
    /// Begins. Readers are there as soon as there is something to read.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(means: Means) -> io::Result<Walker> {
        let (told, followed) = sync_channel(TOLD);
        let told = Arc::new(told);
        let found = Arc::downgrade(&told);
        let tell = move || {
            // Full, it looks by itself.
            let _ = found.upgrade().is_some_and(|told| told.try_send(Told::Found).is_ok());
        };
        let follower = Follower { shared: Arc::new(Shared::new(tell)), guesses: Arc::default(), means };
        let guesses = Arc::clone(&follower.guesses);
        thread::Builder::new().name("walk".into()).spawn(move || follower.follow(&followed))?;
        Ok(Walker { told, guesses })
    }

    /// The job comes to a file.
    pub fn visited(&self, visit: Visit) {
        // Full, or the thread has ended: it is not followed then.
        let _ = self.told.try_send(Told::Visit(visit, Instant::now()));
    }

    /// The job has read a piece of a file.
    pub fn read(&self, piece: Piece) {
        let _ = self.told.try_send(Told::Piece(piece));
    }

    /// The job is seen in a directory, on the mount of this number.
    pub fn seen(&self, place: Place, mount: u64) {
        let _ = self.told.try_send(Told::Place(place, mount));
    }

    /// How good the guesses were so far. What was told and is not yet followed is waited for, but not for long.
    #[must_use]
    pub fn guesses(&self) -> AllGuesses {
        let (followed, is_followed) = sync_channel(1);
        if self.told.try_send(Told::Followed(followed)).is_ok() {
            let _ = is_followed.recv_timeout(FOLLOWED_LATE);
        }
        *self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Directories of disks: those to which nobody has come are read by the readers, as the follower must not wait for a disk and
/// fall behind the job.
struct Followed(Disk);

impl Tree for Followed {
    fn list(&mut self, directory: &Path) -> Option<Vec<Entry>> {
        self.0.list(directory)
    }

    fn list_ahead(&mut self, _: &Path) -> Ahead {
        Ahead::Later
    }
}

/// The thread that follows. The readers end with it.
struct Follower {
    shared: Arc<Shared>,
    guesses: Arc<Mutex<AllGuesses>>,
    means: Means,
}

impl Follower {
    fn follow(self, told: &Receiver<Told>) {
        let disk = Disk::as_mounted().by(self.means.beside);
        let mut walks = Walks::new(Followed(disk.clone()), self.means.budget_bytes);
        let within_files = self.means.budget_bytes / STREAMS_SHARE;
        let mut streams = Streams::new(within_files, self.means.whole_bytes, self.means.has_arm);
        let mut descents = Descents::new(self.means.budget_bytes);
        let mut unordered = Unordered::new(self.means.whole_bytes);
        let started = Instant::now();
        let mut has_readers = false;
        // What has been read, and perhaps not before the job came to it.
        let mut lately = Vec::new();
        loop {
            let Ok(told) = told.recv() else { return };
            let mut wanted = Vec::new();
            let (contents, listings) = self.shared.take_contents();
            for contents in contents {
                wanted.extend(descents.listed(&contents));
            }
            for (directory, entries) in listings {
                if !unordered.listed(&directory, entries.as_deref()) {
                    wanted.extend(walks.listed(&directory, entries));
                }
            }
            let path: Option<&Path> = match &told {
                Told::Visit(visit, at) => {
                    let (looked, absent) = self.shared.files.take();
                    walks.looked_at(looked, absent);
                    lately.append(&mut self.shared.fetched());
                    lately.drain(..lately.len().saturating_sub(WAITING));
                    let began = at.checked_sub(Duration::from_nanos(visit.waited_ns) + TOLD_LATE);
                    let is_over =
                        |(_, end): &mut (PathBuf, Instant)| began.is_some_and(|began| *end <= began);
                    lately.extract_if(.., is_over).for_each(|(path, _)| walks.fetched(&path));
                    self.shared.tell_what_went_along(&mut walks);
                    wanted.extend(walks.visit(visit));
                    let at_ns = at.saturating_duration_since(started).as_nanos();
                    let at_ns = u64::try_from(at_ns).unwrap_or(u64::MAX);
                    wanted.extend(unordered.visit(visit, walks.was_foreseen(), at_ns).map(Wanted::Listing));
                    self.shared.came(&visit.path, &walks, self.means.along_bytes);
                    Some(&visit.path)
                }
                Told::Piece(piece) => {
                    let (looked, absent) = self.shared.parts.take();
                    streams.looked_at(looked, absent);
                    let (parts, bytes, ns) = self.shared.done.take();
                    streams.done(parts, bytes, ns as f64 / 1e9 / LARGE_AT_A_TIME as f64);
                    wanted.extend(streams.read(piece));
                    Some(&piece.path)
                }
                Told::Place(place, mount) if disk.is_mount(*mount) => {
                    let (looked, absent) = self.shared.directories.take();
                    descents.looked_at(looked, absent);
                    wanted.extend(descents.seen(place));
                    Some(&place.directory)
                }
                Told::Place(..) | Told::Found => None,
                Told::Followed(asker) => {
                    let _ = asker.try_send(());
                    continue;
                }
            };
            wanted.extend(unordered.wanted(self.shared.room_for_files()));
            if !wanted.is_empty() {
                if let Some(path) = path.filter(|_| !std::mem::replace(&mut has_readers, true)) {
                    self.start_readers(path, &disk);
                }
                self.shared.want(wanted);
            }
            let (files, streams, directories) = (walks.guesses(), streams.guesses(), descents.guesses());
            let guesses = AllGuesses { files, streams, directories, trees: unordered.guesses() };
            *self.guesses.lock().unwrap_or_else(PoisonError::into_inner) = guesses;
        }
    }

    /// As many as the disk of this file can use, or as there can be.
    fn start_readers(&self, of: &Path, disk: &Disk) {
        for _ in 0..(self.means.readers)(of) {
            let (shared, means, disk) = (Arc::clone(&self.shared), self.means, disk.clone());
            let reader = thread::Builder::new().name("walk-reader".into());
            if reader.spawn(move || shared.read(means, disk)).is_err() {
                break;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.shared.end();
    }
}
