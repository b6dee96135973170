//! What the follower and the readers share: what is to be read, what was found, and the readers' work.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::listing::{Contents, Disk, Entry, Tree, is_same};
use crate::means::{Found, Means};
use crate::neighbours::{Neighbours, Run, WHOLE_BYTES};
use crate::walks::{Look, Walks, Wanted};

/// What waits to be read; of more the oldest is dropped, which the job has come to by now.
pub(crate) const WAITING: usize = 512;
/// Files that wait to be read because all of their tree is to be: others that come sooner do not wait long behind them.
const OF_TREES: usize = 32;
/// A part of more bytes than this is a large one,
const LARGE_BYTES: u64 = 128 << 10;
/// and so many of them are read at a time: enough for a disk that answers after 2 ms and gives 500 MB/s.
pub(crate) const LARGE_AT_A_TIME: usize = 2;

/// Where so many files lie is looked for in any case,
const LOOKED_FIRST: usize = 64;
/// and then as long as a movement of the arm tells of so many: XFS keeps 64 inodes together, ext4 reads 512.
const INODES_A_MOVEMENT: usize = 16;
/// Directories of which it is remembered that it takes longer.
const SCATTERED: usize = 64;

/// What both have.
pub(crate) struct Shared {
    /// Tells the follower that something was found in directories.
    tell: Box<dyn Fn() + Send + Sync>,
    waiting: Mutex<Waiting>,
    changed: Condvar,
    pub(crate) files: Looked,
    pub(crate) parts: Looked,
    pub(crate) directories: Looked,
    pub(crate) done: Done,
    /// Files that were read from the device since the follower took them, and when that was over: [`WAITING`] at most, more are
    /// not told.
    fetched: Mutex<Vec<(PathBuf, Instant)>>,
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
    /// Directories whose files take a movement each to be found: [`SCATTERED`], of more the oldest is forgotten.
    scattered: VecDeque<PathBuf>,
    /// Bytes that may go with one file, and in all.
    reach_bytes: u64,
    room_bytes: u64,
}

/// Parts that are done with: read, or given up. Of the large ones the bytes that came from the device, and the time that their
/// readers took, nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Done {
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
    pub(crate) fn take(&self) -> (u32, u64, u64) {
        let taken = |number: &AtomicU64| number.swap(0, Ordering::Relaxed);
        (self.parts.swap(0, Ordering::Relaxed), taken(&self.bytes), taken(&self.ns))
    }
}

/// How many were looked at, and how many of them were not cached.
#[derive(Debug, Default)]
pub(crate) struct Looked {
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
    pub(crate) fn take(&self) -> (u32, u32) {
        (self.all.swap(0, Ordering::Relaxed), self.absent.swap(0, Ordering::Relaxed))
    }
}

/// What is in directories.
pub(crate) type Listings = Vec<(PathBuf, Option<Vec<Entry>>)>;

#[derive(Debug, Default)]
struct Waiting {
    wanted: VecDeque<Wanted>,
    /// Large ones that are being read.
    large: usize,
    /// Directories of which it is being looked for where their files lie. Meanwhile no files are read: many may go along then.
    looked_for: usize,
    /// What was found in others: as many at most as had been waited for, as the follower takes them at once.
    contents: Vec<Contents>,
    listings: Listings,
    has_ended: bool,
}

impl Waiting {
    /// The next one that may be read now.
    fn next(&mut self) -> Option<Wanted> {
        let may_be_large = self.large < LARGE_AT_A_TIME;
        let may_be_file = self.looked_for == 0;
        let may_be_read = |wanted: &Wanted| match wanted {
            Wanted::File(..) => may_be_file,
            wanted => may_be_large || !wanted.is_large(),
        };
        // Without what is in a directory it is not known what comes.
        let listing = self.wanted.iter().position(Wanted::is_listing);
        let at = listing.or_else(|| self.wanted.iter().position(may_be_read))?;
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

    fn is_listing(&self) -> bool {
        matches!(self, Wanted::Listing(_))
    }
}

impl Shared {
    /// Nothing is to be read. `tell` must not wait.
    pub(crate) fn new(tell: impl Fn() + Send + Sync + 'static) -> Shared {
        Shared {
            tell: Box::new(tell),
            waiting: Mutex::default(),
            changed: Condvar::default(),
            files: Looked::default(),
            parts: Looked::default(),
            directories: Looked::default(),
            done: Done::default(),
            fetched: Mutex::default(),
            along: Mutex::default(),
            together: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn want(&self, wanted: Vec<Wanted>) {
        let mut waiting = self.waiting();
        waiting.wanted.extend(wanted);
        let mut too_many = waiting.wanted.len().saturating_sub(WAITING);
        // Without its listing a directory would not be gone through, nor asked for again: of those there are few.
        waiting.wanted.retain(|wanted| {
            let is_dropped = too_many > 0 && !wanted.is_listing();
            too_many -= usize::from(is_dropped);
            self.done.add(usize::from(is_dropped && wanted.is_part()));
            !is_dropped
        });
        self.changed.notify_all();
    }

    /// So many files of trees that are read as a whole may wait beside what waits.
    pub(crate) fn room_for_files(&self) -> usize {
        OF_TREES.saturating_sub(self.waiting().wanted.len())
    }

    pub(crate) fn fetched(&self) -> MutexGuard<'_, Vec<(PathBuf, Instant)>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn was_fetched(&self, path: &Path) {
        let mut fetched = self.fetched();
        if fetched.len() < WAITING {
            fetched.push((path.to_owned(), Instant::now()));
        }
    }

    /// What was found in directories since this was asked the last time.
    pub(crate) fn take_contents(&self) -> (Vec<Contents>, Listings) {
        let mut waiting = self.waiting();
        (std::mem::take(&mut waiting.contents), std::mem::take(&mut waiting.listings))
    }

    /// What a reader does.
    pub(crate) fn read(&self, means: Means, mut disk: Disk) {
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
                Wanted::Listing(path) => {
                    let entries = disk.list(path);
                    self.waiting().listings.push((path.clone(), entries));
                    (self.tell)();
                }
                Wanted::Part(..) => {}
                Wanted::Contents(path, look) => {
                    let before = (means.blocks_read)();
                    let contents = disk.contents(path, *look == Look::Inodes);
                    let had_to_read = (means.blocks_read)() != before;
                    let found = if had_to_read { Found::Absent } else { Found::Cached };
                    if *look != Look::Come {
                        self.directories.add(if contents.is_some() { found } else { Found::Nothing });
                    }
                    // One that cannot be listed is as good as empty, and need not be asked for again.
                    self.waiting().contents.push(contents.unwrap_or_else(|| Contents::none(path)));
                    (self.tell)();
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
            Run::Gone => return,
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
        let went: Vec<_> = went.inspect(|(path, _)| self.was_fetched(path)).collect();
        self.along().went.extend(went);
    }

    /// Looks for where files lie. Where their inodes do not lie beside each other, it would take a movement to learn of each: it is
    /// left, for all of the directory.
    fn look_for(&self, means: Means, directory: &Path, files: &[(OsString, u64)], bytes: u64) {
        if !(means.has_arm)(directory) || self.along().scattered.iter().any(|one| one == directory) {
            return;
        }
        let bytes = bytes.max(WHOLE_BYTES);
        let (mut looked, mut scattered, mut blocks) = (0, 0, (means.blocks_read)());
        for (name, _) in files {
            if looked >= LOOKED_FIRST && scattered * INODES_A_MOVEMENT > looked {
                let mut along = self.along();
                along.scattered.push_back(directory.to_owned());
                if along.scattered.len() > SCATTERED {
                    along.scattered.pop_front();
                }
                break;
            }
            let path = directory.join(name);
            let place = (means.beginning)(&path, bytes);
            looked += 1;
            scattered += usize::from(std::mem::replace(&mut blocks, (means.blocks_read)()) != blocks);
            if let Some(place) = place {
                let bytes = bytes.min(place.bytes.end - place.bytes.start);
                self.along().neighbours.add(path, bytes, &place);
            }
        }
    }

    fn along(&self) -> MutexGuard<'_, GoingAlong> {
        self.along.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell_what_went_along(&self, walks: &mut Walks<impl Tree>) {
        let went = std::mem::take(&mut self.along().went);
        went.iter().for_each(|(path, bytes)| walks.went_along(path, *bytes));
    }

    /// The job comes to a file, and reads it by itself if it has not been read.
    pub(crate) fn came(&self, path: &Path, walks: &Walks<impl Tree>, most_bytes: u64) {
        let mut along = self.along();
        along.neighbours.came(path);
        along.reach_bytes = walks.reach_bytes();
        along.room_bytes = walks.along_room_bytes(most_bytes);
        drop(along);
        let mut waiting = self.waiting();
        if let Some(at) = waiting
            .wanted
            .iter()
            .position(|wanted| matches!(wanted, Wanted::File(file, _) if is_same(file, path)))
        {
            waiting.wanted.remove(at);
        }
    }

    /// Nothing more is read.
    pub(crate) fn end(&self) {
        let mut waiting = self.waiting();
        waiting.has_ended = true;
        waiting.wanted.clear();
        self.changed.notify_all();
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::neighbours::OnDisk;

    thread_local! {
        /// Files that were looked for, and after how many of them a movement is made.
        static LOOKED: Cell<(u64, u64)> = const { Cell::new((0, 1)) };
    }

    fn beginning(_: &Path, bytes: u64) -> Option<OnDisk> {
        let (looked, a_movement) = LOOKED.get();
        LOOKED.set((looked + 1, a_movement));
        Some(OnDisk { device: 1, bytes: looked * bytes..(looked + 1) * bytes })
    }

    fn blocks_read() -> i64 {
        let (looked, a_movement) = LOOKED.get();
        looked.div_ceil(a_movement) as i64
    }

    #[test]
    fn where_each_inode_takes_a_movement_few_are_looked_for() {
        let means = Means {
            fetch: |_, _| Found::Nothing,
            blocks_read,
            readers: |_| 1,
            has_arm: |_| true,
            beginning,
            fetch_together: |_| Vec::new(),
            beside: |_| None,
            along_bytes: 0,
            budget_bytes: 0,
            whole_bytes: 0,
        };
        let files: Vec<_> = (0..1000_u64).map(|n| (OsString::from(n.to_string()), n)).collect();
        for (a_movement, looked_for) in [(1, LOOKED_FIRST as u64), (64, 1000), (512, 1000)] {
            LOOKED.set((0, a_movement));
            Shared::new(|| {}).look_for(means, Path::new("/d"), &files, 4096);
            assert_eq!(LOOKED.get().0, looked_for, "{a_movement} inodes a movement");
        }
        LOOKED.set((0, 1));
        Shared::new(|| {}).look_for(Means { has_arm: |_| false, ..means }, Path::new("/d"), &files, 4096);
        assert_eq!(LOOKED.get().0, 0, "no arm");
    }

    #[test]
    fn of_too_many_the_oldest_are_dropped_but_no_listing() {
        let shared = Shared::new(|| {});
        let file = |n: usize| Wanted::File(format!("/{n}").into(), 1);
        shared.want(vec![Wanted::Listing("/d".into())]);
        shared.want((0..WAITING + 10).map(file).collect());
        assert_eq!(shared.waiting().wanted.len(), WAITING);
        assert_eq!([shared.next(), shared.next()], [Some(Wanted::Listing("/d".into())), Some(file(11))]);
    }
}
