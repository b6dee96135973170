//! The guesses beside a job: one thread that follows, and some that read.
//!
//! ```text
//!  visits, pieces, ──► queue ──► follower: Walks, Streams, ──► queue ──► readers
//!  directories                             Descents                         │
//!                                     ▲                                     │ cached or not, what is in directories
//!                                     └─────────────────────────────────────┘
//! ```
//!
//! Whoever tells of visits and the like never waits: what finds a queue full is dropped. A reader takes one file or part at a
//! time and waits for it, so that no more requests are under way than there are readers; of large ones two at most, so
//! that nobody else waits long behind them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use serde::Serialize;

use crate::descents::{DescentGuesses, Descents, Place};
use crate::listing::{Contents, Disk, ENTRIES};
use crate::neighbours::{Neighbours, OnDisk, Run};
use crate::streams::{Piece, StreamGuesses, Streams};
use crate::walks::{Guesses, Look, Visit, Walks, Wanted};

/// Visits, pieces and directories that wait to be followed. A job that is so far ahead does not wait for storage.
const TOLD: usize = 4096;
/// What waits to be read; of more the oldest is dropped, which the job has come to by now.
const WAITING: usize = 512;
/// A part of more bytes than this is a large one,
const LARGE_BYTES: u64 = 128 << 10;
/// and so many of them are read at a time: enough for a disk that answers after 2 ms and gives 500 MB/s.
const LARGE_AT_A_TIME: usize = 2;
/// Within files one part in so many of that is read ahead besides.
const STREAMS_SHARE: u64 = 2;
/// How long what was found in directories may wait for the follower, while some are looked at.
const CONTENTS_WAIT: Duration = Duration::from_millis(1);

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
    /// Reads these bytes of a file into the page cache, and waits for them.
    pub fetch: fn(&Path, Range<u64>) -> Found,
    /// Blocks that this thread has asked disks for so far.
    pub blocks_read: fn() -> i64,
    /// How many files of the disk on which this one lies should be read at a time.
    pub readers: fn(&Path) -> usize,
    /// Whether the disk of a directory has an arm,
    pub has_arm: fn(&Path) -> bool,
    /// where on its device the first bytes of a file lie, if they are in one piece,
    pub beginning: fn(&Path, u64) -> Option<OnDisk>,
    /// and what reads the beginnings of files, all at once, and waits for them.
    pub fetch_together: fn(&[(PathBuf, u64)]) -> Vec<Found>,
    /// Bytes of files that may be read ahead because they lie beside others on such a disk.
    pub along_bytes: u64,
    /// Bytes of files that may be read ahead of their use; as much again of names and inodes, and half as much within files.
    pub budget_bytes: u64,
    /// Bytes of files that are read here and there and may be read as a whole.
    pub whole_bytes: u64,
}

/// Follows a job, and reads what it will read. Its threads end when it is dropped, and are not waited for.
#[derive(Debug)]
pub struct Walker {
    told: SyncSender<Told>,
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
}

/// What the job does.
#[derive(Debug)]
enum Told {
    Visit(Visit),
    Piece(Piece),
    Place(Place, u64),
}

impl Walker {
    /// Begins. Readers are there as soon as there is something to read.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(means: Means) -> io::Result<Walker> {
        let (told, followed) = sync_channel(TOLD);
        let follower = Follower { shared: Arc::default(), guesses: Arc::default(), means };
        let guesses = Arc::clone(&follower.guesses);
        thread::Builder::new().name("walk".into()).spawn(move || follower.follow(&followed))?;
        Ok(Walker { told, guesses })
    }

    /// The job comes to a file.
    pub fn visited(&self, visit: Visit) {
        // Full, or the thread has ended: it is not followed then.
        let _ = self.told.try_send(Told::Visit(visit));
    }

    /// The job has read a piece of a file.
    pub fn read(&self, piece: Piece) {
        let _ = self.told.try_send(Told::Piece(piece));
    }

    /// The job is seen in a directory, on the mount of this number.
    pub fn seen(&self, place: Place, mount: u64) {
        let _ = self.told.try_send(Told::Place(place, mount));
    }

    /// How good the guesses were so far.
    #[must_use]
    pub fn guesses(&self) -> AllGuesses {
        *self.guesses.lock().unwrap_or_else(PoisonError::into_inner)
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
        let disk = Disk::as_mounted();
        let mut walks = Walks::new(disk.clone(), self.means.budget_bytes);
        let mut streams = Streams::new(self.means.budget_bytes / STREAMS_SHARE, self.means.whole_bytes);
        let mut descents = Descents::new(self.means.budget_bytes);
        let mut has_readers = false;
        loop {
            let told = if self.shared.looks_at_directories() {
                match told.recv_timeout(CONTENTS_WAIT) {
                    Ok(told) => Some(told),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            } else {
                let Ok(told) = told.recv() else { return };
                Some(told)
            };
            let mut wanted = Vec::new();
            for contents in self.shared.take_contents() {
                wanted.extend(descents.listed(&contents));
            }
            let path: Option<&Path> = match &told {
                Some(Told::Visit(visit)) => {
                    let (looked, absent) = self.shared.files.take();
                    walks.looked_at(looked, absent);
                    std::mem::take(&mut *self.shared.fetched()).iter().for_each(|path| walks.fetched(path));
                    self.shared.tell_what_went_along(&mut walks);
                    wanted.extend(walks.visit(visit));
                    self.shared.came(&visit.path, &walks, self.means.along_bytes);
                    Some(&visit.path)
                }
                Some(Told::Piece(piece)) => {
                    let (looked, absent) = self.shared.parts.take();
                    streams.looked_at(looked, absent);
                    let (parts, bytes, ns) = self.shared.done.take();
                    streams.done(parts, bytes, ns as f64 / 1e9 / LARGE_AT_A_TIME as f64);
                    wanted.extend(streams.read(piece));
                    Some(&piece.path)
                }
                Some(Told::Place(place, mount)) if disk.is_mount(*mount) => {
                    let (looked, absent) = self.shared.directories.take();
                    descents.looked_at(looked, absent);
                    wanted.extend(descents.seen(place));
                    Some(&place.directory)
                }
                Some(Told::Place(..)) | None => None,
            };
            if !wanted.is_empty() {
                if let Some(path) = path.filter(|_| !std::mem::replace(&mut has_readers, true)) {
                    self.start_readers(path, &disk);
                }
                self.shared.want(wanted);
            }
            let (files, streams, directories) = (walks.guesses(), streams.guesses(), descents.guesses());
            let guesses = AllGuesses { files, streams, directories };
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
    files: Looked,
    parts: Looked,
    directories: Looked,
    done: Done,
    /// Files that were read from the device since the follower took them: [`WAITING`] at most, more are not told.
    fetched: Mutex<Vec<PathBuf>>,
    along: Mutex<GoingAlong>,
    /// Held while files are read together: nothing comes between their requests that need not.
    together: Mutex<()>,
}

/// What may go along with what is fetched.
#[derive(Debug, Default)]
struct GoingAlong {
    neighbours: Neighbours,
    /// What went since the follower took it: no more than there is room for.
    went: Vec<(PathBuf, u64)>,
    /// Bytes that may go with one file, and in all.
    reach_bytes: u64,
    room_bytes: u64,
}

/// Parts that are done with: read, or given up. Of the large ones the bytes that came from the device, and the time that their
/// readers took, nanoseconds.
#[derive(Debug, Default)]
struct Done {
    parts: AtomicU32,
    bytes: AtomicU64,
    ns: AtomicU64,
}

impl Done {
    fn add(&self, parts: usize) {
        self.parts.fetch_add(u32::try_from(parts).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    fn read(&self, bytes: u64, since: Instant) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// All since this was asked the last time.
    fn take(&self) -> (u32, u64, u64) {
        let taken = |number: &AtomicU64| number.swap(0, Ordering::Relaxed);
        (self.parts.swap(0, Ordering::Relaxed), taken(&self.bytes), taken(&self.ns))
    }
}

/// How many were looked at, and how many of them were not cached.
#[derive(Debug, Default)]
struct Looked {
    all: AtomicU32,
    absent: AtomicU32,
}

impl Looked {
    fn add(&self, found: Found) {
        if found != Found::Nothing {
            self.all.fetch_add(1, Ordering::Relaxed);
            self.absent.fetch_add(u32::from(found == Found::Absent), Ordering::Relaxed);
        }
    }

    /// The numbers since this was asked the last time.
    fn take(&self) -> (u32, u32) {
        (self.all.swap(0, Ordering::Relaxed), self.absent.swap(0, Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
struct Waiting {
    wanted: VecDeque<Wanted>,
    /// Large ones that are being read.
    large: usize,
    /// Directories of which it is being looked for where their files lie. Meanwhile no files are read: many may go along then.
    looked_for: usize,
    /// Directories that wait or are being looked at.
    directories: usize,
    /// What was found in others: as many at most as had been waited for, as the follower takes them each millisecond.
    contents: Vec<Contents>,
    has_ended: bool,
}

impl Waiting {
    /// The next one that may be read now.
    fn next(&mut self) -> Option<Wanted> {
        let may_be_large = self.large < LARGE_AT_A_TIME;
        let may_be_file = self.looked_for == 0;
        let at = self.wanted.iter().position(|wanted| match wanted {
            Wanted::File(..) => may_be_file,
            wanted => may_be_large || !wanted.is_large(),
        })?;
        let wanted = self.wanted.remove(at)?;
        self.large += usize::from(wanted.is_large());
        self.looked_for += usize::from(wanted.is_neighbours());
        Some(wanted)
    }
}

impl Wanted {
    fn is_large(&self) -> bool {
        matches!(self, Wanted::Part(_, bytes) if bytes.end - bytes.start > LARGE_BYTES)
    }

    fn is_part(&self) -> bool {
        matches!(self, Wanted::Part(..))
    }

    fn is_neighbours(&self) -> bool {
        matches!(self, Wanted::Neighbours(..))
    }

    fn is_contents(&self) -> bool {
        matches!(self, Wanted::Contents(..))
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn want(&self, wanted: Vec<Wanted>) {
        let mut waiting = self.waiting();
        waiting.directories += wanted.iter().filter(|wanted| wanted.is_contents()).count();
        waiting.wanted.extend(wanted);
        let too_many = waiting.wanted.len().saturating_sub(WAITING);
        for dropped in waiting.wanted.drain(..too_many).collect::<Vec<_>>() {
            waiting.directories -= usize::from(dropped.is_contents());
            self.done.add(usize::from(dropped.is_part()));
        }
        self.changed.notify_all();
    }

    /// Whether something may be found in directories soon, or was.
    fn looks_at_directories(&self) -> bool {
        let waiting = self.waiting();
        waiting.directories > 0 || !waiting.contents.is_empty()
    }

    fn fetched(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_fetched(&self, path: &Path) {
        let mut fetched = self.fetched();
        if fetched.len() < WAITING {
            fetched.push(path.to_owned());
        }
    }

    /// What was found in directories since this was asked the last time.
    fn take_contents(&self) -> Vec<Contents> {
        std::mem::take(&mut self.waiting().contents)
    }

    /// What a reader does.
    fn read(&self, means: Means, mut disk: Disk) {
        let fetch = means.fetch;
        while let Some(wanted) = self.next() {
            match &wanted {
                Wanted::File(path, bytes) => self.read_file(means, path, *bytes),
                Wanted::Neighbours(directory, files, bytes) => {
                    self.look_for(means, directory, files, *bytes);
                    self.waiting().looked_for -= 1;
                    self.changed.notify_all();
                }
                Wanted::Part(path, bytes) if path.parent().is_some_and(|directory| disk.has(directory)) => {
                    let began = Instant::now();
                    let found = fetch(path, bytes.clone());
                    if found == Found::Absent && wanted.is_large() {
                        self.done.read(bytes.end - bytes.start, began);
                    }
                    self.parts.add(found);
                }
                Wanted::Directory(path) if disk.has(path) => read_names(path),
                Wanted::Part(..) | Wanted::Directory(_) => {}
                Wanted::Contents(path, look) => {
                    let before = (means.blocks_read)();
                    let contents = disk.contents(path, *look == Look::Inodes);
                    let had_to_read = (means.blocks_read)() != before;
                    let found = if had_to_read { Found::Absent } else { Found::Cached };
                    if *look != Look::Come {
                        self.directories.add(if contents.is_some() { found } else { Found::Nothing });
                    }
                    let mut waiting = self.waiting();
                    waiting.directories -= 1;
                    // One that cannot be listed is as good as empty, and need not be asked for again.
                    waiting.contents.push(contents.unwrap_or_else(|| Contents::none(path)));
                }
            }
            self.done.add(usize::from(wanted.is_part()));
            if wanted.is_large() {
                self.waiting().large -= 1;
                self.changed.notify_one();
            }
        }
    }

    /// Reads a file, and what may go along with it.
    fn read_file(&self, means: Means, path: &Path, bytes: u64) {
        let run = {
            let mut along = self.along();
            let most_bytes = along.reach_bytes.min(along.room_bytes);
            let run = along.neighbours.take(path, bytes, most_bytes);
            if let Run::Files(files, _) = &run {
                let others = files.iter().map(|(_, bytes)| bytes).sum::<u64>().saturating_sub(bytes);
                along.room_bytes = along.room_bytes.saturating_sub(others);
            }
            run
        };
        let (found, at, files) = match run {
            Run::Gone => return self.was_fetched(path),
            Run::Files(files, at) if files.len() > 1 => {
                let _alone = self.together.lock().unwrap_or_else(PoisonError::into_inner);
                ((means.fetch_together)(&files), at, files)
            }
            Run::Files(..) => (vec![(means.fetch)(path, 0..bytes)], 0, vec![(path.to_owned(), bytes)]),
        };
        self.files.add(found[at]);
        if found[at] == Found::Absent {
            self.was_fetched(path);
        }
        let others = files.into_iter().zip(found).enumerate().filter(|(one, _)| *one != at);
        let went = others.filter(|(_, (_, found))| *found == Found::Absent).map(|(_, (file, _))| file);
        self.along().went.extend(went);
    }

    /// Looks for where files lie, in the order of their inodes: so they lie on the disk, many beside each other.
    fn look_for(&self, means: Means, directory: &Path, files: &[(OsString, u64)], bytes: u64) {
        if !(means.has_arm)(directory) {
            return;
        }
        let mut files: Vec<_> = files.iter().collect();
        files.sort_unstable_by_key(|(_, inode)| inode);
        for (name, _) in files {
            let path = directory.join(name);
            if let Some(place) = (means.beginning)(&path, bytes) {
                let bytes = bytes.min(place.bytes.end - place.bytes.start);
                self.along().neighbours.add(path, bytes, &place);
            }
        }
    }

    fn along(&self) -> MutexGuard<'_, GoingAlong> {
        self.along.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_what_went_along(&self, walks: &mut Walks<Disk>) {
        let went = std::mem::take(&mut self.along().went);
        went.iter().for_each(|(path, bytes)| walks.went_along(path, *bytes));
    }

    /// The job comes to a file.
    fn came(&self, path: &Path, walks: &Walks<Disk>, most_bytes: u64) {
        let mut along = self.along();
        along.neighbours.came(path);
        along.reach_bytes = walks.reach_bytes();
        along.room_bytes = most_bytes.saturating_sub(walks.along_bytes());
    }

    fn next(&self) -> Option<Wanted> {
        let mut waiting = self.waiting();
        loop {
            if let Some(wanted) = waiting.next() {
                return Some(wanted);
            }
            if waiting.has_ended {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Makes the kernel know the names in a directory.
fn read_names(path: &Path) {
    if let Ok(names) = fs::read_dir(path) {
        let _ = names.take(ENTRIES).count();
    }
}
