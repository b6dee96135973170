//! Where the files of a plan are tonight, looked for by several threads ahead of whoever needs them.
//!
//! On a cold disk a name costs up to three reads, one after the other: the directory's blocks, the inode. A job that reads
//! thousands of small files waits for these as long as for what is in them. Here [`THREADS`] files are looked for at a
//! time, in the order in which they will be needed; what they find the kernel keeps, and the job's own open(2) finds it
//! there. They stay [`AHEAD`] files ahead of what was asked for last. Neighbours of one directory are one thread's, as all
//! of them wait for the same blocks: the others go on with other directories.
//!
//! On a disk with an arm they are looked for in the order of their inodes, [`SORTED`] at a time: files that were made one after the
//! other have their inodes side by side, and so have the directories in which they are. Of 920 directories, gone through in the order of
//! a hash, each took a movement; so a few do.
//!
//! Nothing is opened, and nobody waits: [`Finder::place`] says what is known.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use crate::lists::PlannedFile;
use crate::locate::Locator;

/// Files that are looked for at a time: what a volume serves at once; on a disk with an arm more would only get into the
/// job's way.
const THREADS: usize = 8;
const THREADS_WITH_AN_ARM: usize = 2;
/// Files that are looked for ahead of the last one that was asked for: 2 MB of the kernel's inodes and names.
const AHEAD: usize = 1024;

/// Files that are brought into the order of their inodes on a disk with an arm: 16 MB of the kernel's.
const SORTED: usize = 1 << 13;

/// Neighbours of one directory that one thread looks for in one go: more would be waited for by who needs the first ones
/// of a directory in which each has its own block.
const TOGETHER: usize = 16;

/// After so long it is looked whether there still is a thread that seeks.
const PATIENCE: Duration = Duration::from_millis(100);

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It is being looked for.
    Sought,
    /// It is there, of this size in bytes.
    There(PathBuf, u64),
    /// Nothing is there that could be it.
    Gone,
}

/// How the files were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Names {
    /// Files that bear another name tonight.
    pub renamed: u64,
    /// Files that are gone.
    pub missing: u64,
}

/// Finds the files of a plan. Its threads end when it is dropped, and are not waited for.
#[derive(Debug)]
pub struct Finder(Arc<Shared>);

/// Another path to a file, good while the descriptor is open, by which its mount is not kept busy.
pub type Beside = fn(&Path) -> Option<(Arc<OwnedFd>, PathBuf)>;

#[derive(Debug)]
struct Shared {
    files: Arc<[PlannedFile]>,
    beside: Beside,
    /// The order in which they are looked for, if it is not that in which they are needed.
    order: OnceLock<Vec<u32>>,
    state: Mutex<State>,
    /// There is more to look for, or nobody asks any more.
    changed: Condvar,
    /// A file has been looked for.
    found: Condvar,
    /// Of files that are not where they were.
    locator: Mutex<Locator>,
}

#[derive(Debug)]
struct State {
    places: Vec<Place>,
    /// The first file that nobody looks for yet, as a place in the order.
    next: usize,
    /// Files up to this place are looked for.
    end: usize,
    missing: u64,
    has_ended: bool,
}

impl Finder {
    /// Begins to look for the files.
    #[must_use]
    pub fn start(files: Arc<[PlannedFile]>) -> Finder {
        Finder::start_by(files, |_| None)
    }

    /// The same, by other paths where there are some.
    #[must_use]
    pub fn start_by(files: Arc<[PlannedFile]>, beside: Beside) -> Finder {
        let shared = Shared::by(files, beside);
        let first = Arc::clone(&shared);
        // What kind of a disk it is may be a question to that disk, for which nobody waits.
        let ask = move || {
            let path = first.files.first().map(|file| &*file.path);
            if path.is_some_and(has_an_arm) {
                first.sort();
            }
            let threads = path.map_or(0, at_a_time);
            first.start(threads.min(first.files.len()).saturating_sub(1));
            first.seek();
        };
        // What no thread looks for is looked for by who asks.
        let _ = thread::Builder::new().name("finder".into()).spawn(ask);
        Finder(shared)
    }

    /// What is known of a file of the plan; those after it are looked for.
    #[must_use]
    pub fn place(&self, file: u32) -> Place {
        let at = file as usize;
        let mut state = self.0.state();
        let end = self.0.end(at);
        if end > state.end {
            state.end = end;
            self.0.changed.notify_all();
        }
        let known = state.places.get(at).cloned().unwrap_or(Place::Gone);
        // No thread could be started, or is left: then it is looked for here.
        if known == Place::Sought && Arc::strong_count(&self.0) == 1 {
            drop(state);
            self.0.look(at);
            return self.0.state().places[at].clone();
        }
        known
    }

    /// The same, waiting until the file has been looked for.
    #[must_use]
    pub fn wait(&self, file: u32) -> Place {
        let mut place = self.place(file);
        while place == Place::Sought {
            let state = self.0.state();
            if state.places.get(file as usize) == Some(&Place::Sought) {
                drop(self.0.found.wait_timeout(state, PATIENCE));
            } else {
                drop(state);
            }
            place = self.place(file);
        }
        place
    }

    /// How the files were found, so far.
    #[must_use]
    pub fn names(&self) -> Names {
        let renamed = self.0.locator.lock().unwrap_or_else(PoisonError::into_inner).renamed();
        Names { renamed, missing: self.0.state().missing }
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn by(files: Arc<[PlannedFile]>, beside: Beside) -> Arc<Shared> {
        let state = State {
            places: vec![Place::Sought; files.len()],
            next: 0,
            end: AHEAD.min(files.len()),
            missing: 0,
            has_ended: false,
        };
        let (changed, found, locator) = (Condvar::new(), Condvar::new(), Mutex::default());
        let (order, state) = (OnceLock::new(), Mutex::new(state));
        Arc::new(Shared { files, beside, order, state, changed, found, locator })
    }

    /// Files are looked for in the order of their inodes. Before any is.
    fn sort(&self) {
        let mut order: Vec<u32> = (0..u32::try_from(self.files.len()).unwrap_or(u32::MAX)).collect();
        for some in order.chunks_mut(SORTED) {
            some.sort_by_key(|&at| self.files[at as usize].inode);
        }
        let _ = self.order.set(order);
        // Somebody may have asked for more already.
        let mut state = self.state();
        state.end = state.end.next_multiple_of(SORTED).min(self.files.len());
    }

    /// The file at a place of the order.
    fn file_at(&self, place: usize) -> usize {
        self.order.get().map_or(place, |order| order[place] as usize)
    }

    /// Up to which place files are looked for when this one is asked for.
    fn end(&self, file: usize) -> usize {
        let end = file.saturating_add(1 + AHEAD);
        let end = if self.order.get().is_some() { end.next_multiple_of(SORTED) } else { end };
        end.min(self.files.len())
    }

    /// Starts so many threads, or as many as are to be had.
    fn start(self: &Arc<Self>, threads: usize) {
        for _ in 0..threads {
            let seeker = Arc::clone(self);
            if thread::Builder::new().name("finder".into()).spawn(move || seeker.seek()).is_err() {
                break;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does: the next file, and the next one.
    fn seek(&self) {
        loop {
            let mut state = self.state();
            while state.next >= state.end && state.next < self.files.len() && !state.has_ended {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.has_ended || state.next >= self.files.len() {
                return;
            }
            let some = self.neighbours(state.next, state.end);
            state.next = some.end;
            drop(state);
            some.for_each(|place| self.look(self.file_at(place)));
        }
    }

    /// The places from one on whose files lie in its directory, some at most.
    fn neighbours(&self, first: usize, end: usize) -> Range<usize> {
        let directory = |place: usize| self.files[self.file_at(place)].path.parent();
        let is_there = |&place: &usize| directory(place) == directory(first);
        let count = (first..end).take(TOGETHER).take_while(is_there).count();
        first..first + count
    }

    fn look(&self, at: usize) {
        let path = &self.files[at].path;
        let size = |path: &Path| {
            let beside = (self.beside)(path);
            let found = fs::metadata(beside.as_ref().map_or(path, |(_, beside)| beside));
            found.ok().filter(fs::Metadata::is_file).map(|found| found.len())
        };
        let place = match size(path) {
            Some(bytes) => Place::There(path.clone(), bytes),
            None => {
                let found = self.locator.lock().unwrap_or_else(PoisonError::into_inner).find(path);
                let found = found.and_then(|path| size(&path).map(|bytes| Place::There(path, bytes)));
                found.unwrap_or(Place::Gone)
            }
        };
        let mut state = self.state();
        state.missing += u64::from(place == Place::Gone);
        state.places[at] = place;
        drop(state);
        self.found.notify_all();
    }
}

/// How many files of the disk on which this one lies should be looked for, or read, at a time.
#[must_use]
pub fn at_a_time(path: &Path) -> usize {
    if has_an_arm(path) { THREADS_WITH_AN_ARM } else { THREADS }
}

/// Does the disk of a file say that it has an arm (`Documentation/block/queue-sysfs`)? The nearest directory that is
/// there is asked.
#[must_use]
pub fn has_an_arm(path: &Path) -> bool {
    let Some(device) = path.ancestors().find_map(|path| fs::metadata(path).ok()).map(|found| found.dev())
    else {
        return false;
    };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let of = |directory: &str| {
        fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{directory}queue/rotational")).ok()
    };
    // A partition has its disk's queue.
    of("").or_else(|| of("../")).is_some_and(|rotational| rotational.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Of inodes in their order.
    fn files(dir: &Path, names: impl IntoIterator<Item = String>) -> Arc<[PlannedFile]> {
        let file = |(name, inode)| PlannedFile { path: dir.join(name), bytes: 1, inode };
        names.into_iter().zip(0..).map(file).collect()
    }

    fn with_threads(files: Arc<[PlannedFile]>, threads: usize) -> Finder {
        let shared = Shared::by(files, |_| None);
        shared.start(threads);
        Finder(shared)
    }

    #[test]
    fn files_are_found_renamed_or_told_to_be_gone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "four").unwrap();
        fs::write(dir.path().join("log-22"), "twenty-two").unwrap();
        fs::create_dir(dir.path().join("directory")).unwrap();
        let named = ["a", "log-21", "gone", "directory"].map(String::from);
        for threads in [0, 1, THREADS] {
            let finder = with_threads(files(dir.path(), named.clone()), threads);
            assert_eq!(finder.wait(0), Place::There(dir.path().join("a"), 4));
            assert_eq!(finder.wait(1), Place::There(dir.path().join("log-22"), 10));
            assert_eq!(finder.wait(2), Place::Gone);
            assert_eq!(finder.wait(3), Place::Gone, "no regular file");
            assert_eq!(finder.wait(4), Place::Gone, "not of the plan");
            assert_eq!(finder.names(), Names { renamed: 1, missing: 2 });
        }
    }

    #[test]
    fn neighbours_of_a_directory_are_one_threads() {
        let names = ["a/1", "a/2", "b/1", "a/3"].map(String::from);
        let many = (0..TOGETHER + 2).map(|at| format!("c/{at}"));
        let files = files(Path::new("/nonexistent"), names.into_iter().chain(many));
        let all = files.len();
        let shared = Shared::by(files, |_| None);
        let (mut some, mut at) = (Vec::new(), 0);
        while at < all {
            some.push(shared.neighbours(at, all));
            at = some.last().unwrap().end;
        }
        assert_eq!(some, [0..2, 2..3, 3..4, 4..4 + TOGETHER, 4 + TOGETHER..all]);
        assert_eq!(shared.neighbours(0, 1), 0..1, "no further than is asked for");
    }

    #[test]
    fn where_an_arm_moves_they_are_looked_for_by_inode_and_a_part_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let count = SORTED + 3;
        let inode = |at: usize| 7919 * at as u64 % count as u64;
        let file =
            |at| PlannedFile { path: dir.path().join(format!("gone {at}")), bytes: 1, inode: inode(at) };
        let shared = Shared::by((0..count).map(file).collect(), |_| None);
        shared.sort();
        let order: Vec<usize> = (0..count).map(|place| shared.file_at(place)).collect();
        assert!(
            order[..SORTED].is_sorted_by_key(|&at| inode(at))
                && order[SORTED..].is_sorted_by_key(|&at| inode(at))
        );
        assert!(order[..SORTED].iter().all(|&at| at < SORTED), "those that are needed first");
        let asked = |file| shared.end(file);
        assert_eq!([0, SORTED - AHEAD - 1, SORTED - AHEAD].map(asked), [SORTED, SORTED, count]);
        shared.start(2);
        let finder = Finder(shared);
        assert!((0..count as u32).all(|file| finder.wait(file) == Place::Gone));
    }

    #[test]
    fn no_more_than_so_many_are_looked_for_ahead() {
        let dir = tempfile::tempdir().unwrap();
        let finder = with_threads(files(dir.path(), (0..4 * AHEAD).map(|at| format!("gone {at}"))), 2);
        assert_eq!(finder.wait(AHEAD as u32 - 1), Place::Gone);
        let last = 2 * AHEAD as u32 - 1;
        assert_eq!(finder.wait(last - 1), Place::Gone);
        thread::sleep(Duration::from_millis(50));
        assert!(finder.names().missing <= u64::from(last) + AHEAD as u64);
        let shared = Arc::downgrade(&finder.0);
        drop(finder);
        let until = Instant::now() + Duration::from_secs(60);
        while shared.strong_count() > 0 {
            assert!(Instant::now() < until, "the threads go on");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
