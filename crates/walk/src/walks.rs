//! Which files come next, from those that came.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;

use crate::asked::{Asked, Came};
use crate::course::{Course, Step, WINDOW};
use crate::habits::{Extent, Habits};
use crate::listing::{Entry, Listing, Listings, Order, Tree};
use crate::neighbours::{Along, Spending, reach_bytes};
use crate::resting::Resting;
use crate::trust::Trust;
use crate::waits::{ByItself, Wait};

/// Evidence from which on files are fetched: one in 1,500 that it is chance, as up to 44 courses are tried at a time.
const ENOUGH_BITS: f64 = 16.0;
/// Evidence that a walk begins with if it is in the tree of one that is believed, and goes the same way.
const ALIKE_BITS: f64 = 12.0;
/// Walks at the same time.
const WALKS: usize = 4;
/// Visits after which a walk that was not met again may make room for another.
const FORGOTTEN: u64 = 256;
/// Files that are fetched ahead at most: what a job reads in 10 ms of the quickest device on which it waits.
const FILES_AHEAD: usize = 128;
/// Files that are asked for before any has come. For each that came there may be one more, as for each that came as foreseen
/// but had not been asked for; for each that was wrong one less.
const FIRST_ASKED: u64 = 16;
/// Visits within which a file that was asked for is used, or it was wrong to ask for it: as many as two walks are ahead.
const VISITS: u64 = 256;
/// Files among which those that are fetched ahead are looked for.
const LOOKED_THROUGH: usize = 1024;
/// Files that are fetched ahead at first, and with each visit that was foreseen more.
const FIRST_AHEAD: usize = 4;
/// Directories that are looked at ahead.
const DIRECTORIES_AHEAD: usize = 8;
/// Directories that may be read for each visit of a walk that is believed.
const DIRECTORIES_A_VISIT: u32 = 4;
/// Directories of a walk of which it is remembered how far they have been offered, and files of each that are.
const OFFERED: usize = 64;
const OFFERED_FILES: usize = 1 << 13;
/// So many of them at a time, with neighbouring inodes: what it takes to learn where they lie is soon waited for.
const OFFERED_AT_A_TIME: usize = 256;
/// Files that a walk has come to last, of which it is still to be told how much was read.
const RECENT: usize = 32;
/// Of 32 visits so many waited: what comes is not cached, even if it was by the time that it was looked at.
const WAITS: u32 = 4;
/// What it costs to read a file ahead, and a page of it, nanoseconds: a processor is busy with what the program's own reads would
/// do as well, and its neighbours' caches are cold. On a disk that gives 1 GB/s jobs that read files of a MiB took a quarter
/// longer, where they had waited 0.2 ms a file.
const FILE_NS: u64 = 50_000;
const PAGE_NS: u64 = 1_000;
/// Bytes of a page, as the pages of a visit are counted.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A program begins to read a file from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// The file, by its path from the root.
    pub path: PathBuf,
    /// What it waited for the device, nanoseconds.
    pub waited_ns: u64,
    /// It had to fetch the beginning itself.
    pub has_fetched: bool,
    /// What was read of files that have been left since the visit before.
    pub left: Vec<(Arc<Path>, Extent)>,
}

/// What should be read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The beginning of a file, so many bytes or what there is of them.
    File(PathBuf, u64),
    /// These bytes of a file.
    Part(Arc<Path>, Range<u64>),
    /// If the disk has an arm: where the beginnings of these files of a directory lie, so many bytes of each or what there is of
    /// them, by name and number of the inode, in the order of these numbers: so inodes lie on the disk, many beside each other. The
    /// program will come to the files, and they may go along with others.
    Neighbours(PathBuf, Vec<(OsString, u64)>, u64),
    /// What is in a directory to which the program comes soon, to be told ([`Walks::listed`]).
    Listing(PathBuf),
    /// The names in a directory, or the inodes under them, and to be told which of them are directories.
    Contents(Arc<Path>, Look),
}

/// How a directory is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The program is there already.
    Come,
    /// It will come: the names are read ahead,
    Names,
    /// and the inodes under them.
    Inodes,
}

/// How good the guesses were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Guesses {
    /// Files that were asked for.
    pub asked: u64,
    /// Of these, those that the program came to.
    pub used: u64,
    /// Those that it did not come to soon, or that it had to fetch again: some programs have the kernel drop each file
    /// before they read it (`POSIX_FADV_DONTNEED`), and what is read ahead goes with it.
    pub wrong: u64,
    /// Visits that had not been foreseen and waited,
    pub unforeseen: u64,
    /// and how long, nanoseconds.
    pub waited_ns: u64,
    /// What a quarter of the last of these waits in trees does not exceed, nanoseconds, or the same of those that came while nothing
    /// was read ahead, if that is less.
    pub typical_wait_ns: u64,
    /// Visits that were foreseen when nothing was asked for.
    pub foreseen: u64,
}

impl Guesses {
    /// What the program would have waited for the files that had been read ahead, if it had waited for each as for those that
    /// had not; nanoseconds.
    #[must_use]
    pub fn saved_ns(&self) -> u64 {
        self.used.saturating_mul(self.typical_wait_ns)
    }
}

/// One program's way through a tree.
#[derive(Debug)]
struct Walk {
    /// The ways that fit; what they have in common is what has come so far.
    courses: Vec<Course>,
    habits: Habits,
    /// The files that came last.
    recent: VecDeque<PathBuf>,
    /// A bit for each of the last visits: it waited.
    waits: u32,
    /// What was waited for files that had not been asked for, until it is believed: what a process loads when it begins, perhaps
    /// from another disk, tells nothing of a tree. Of more than [`RECENT`] the first ones.
    waited: Vec<Wait>,
    /// When it was met the last time.
    met_at: u64,
    ahead: usize,
    /// Directories whose files have been offered to go along, and from which inode on they have not been; `None` where all have.
    offered: VecDeque<(PathBuf, Option<u64>)>,
}

impl Walk {
    fn leader(&self) -> Option<usize> {
        let bits = |at: &usize| self.courses[*at].bits();
        // The first of equals.
        (0..self.courses.len()).rev().max_by(|a, b| bits(a).total_cmp(&bits(b)))
    }

    fn bits(&self) -> f64 {
        self.leader().map_or(0.0, |at| self.courses[at].bits())
    }

    /// A file of this walk is visited.
    fn came_to(&mut self, path: &Path) {
        self.recent.push_back(path.to_owned());
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }
}

/// Those of the lowest inodes, [`OFFERED_AT_A_TIME`] of them, and from which inode on there are others.
fn by_inode<'a>(entries: impl Iterator<Item = &'a Entry>) -> (Vec<(OsString, u64)>, Option<u64>) {
    let mut entries: Vec<&Entry> = entries.collect();
    entries.sort_unstable_by_key(|entry| entry.inode);
    let next = entries.get(OFFERED_AT_A_TIME).map(|entry| entry.inode);
    entries.truncate(OFFERED_AT_A_TIME);
    (entries.into_iter().map(|entry| (entry.name.clone(), entry.inode)).collect(), next)
}

/// All of it, if there is something in it.
fn some_of<T>(options: impl Iterator<Item = Option<T>>) -> Option<Vec<Option<T>>> {
    let all: Vec<Option<T>> = options.collect();
    all.iter().any(Option::is_some).then_some(all)
}

/// Follows programs through trees of files.
#[derive(Debug)]
pub struct Walks<T> {
    listings: Listings<T>,
    walks: Vec<Walk>,
    /// Bytes that may be fetched ahead.
    budget_bytes: u64,
    /// Visits so far that waited or had been asked for.
    clock: u64,
    /// The last visit was foreseen, or as good as that.
    was_foreseen: bool,
    asked: Asked,
    along: Along,
    spending: Spending,
    guesses: Guesses,
    waits: ByItself,
    trust: Trust,
    resting: Resting,
}

impl<T: Tree> Walks<T> {
    /// Nothing is known. At most `budget_bytes` will be wanted ahead of their use.
    pub fn new(tree: T, budget_bytes: u64) -> Walks<T> {
        Walks {
            listings: Listings::new(tree),
            walks: Vec::new(),
            budget_bytes,
            clock: 0,
            was_foreseen: false,
            asked: Asked::within(VISITS),
            along: Along::default(),
            spending: Spending::default(),
            guesses: Guesses::default(),
            waits: ByItself::default(),
            trust: Trust::default(),
            resting: Resting::default(),
        }
    }

    /// How good the guesses were so far.
    #[must_use]
    pub fn guesses(&self) -> Guesses {
        self.guesses
    }

    /// Whether the last visit had been asked for, or had at least been foreseen.
    #[must_use]
    pub fn was_foreseen(&self) -> bool {
        self.was_foreseen
    }

    /// So many of the files that were wanted have been looked at, and so many of these were not cached.
    pub fn looked_at(&mut self, files: u32, absent: u32) {
        self.resting.looked_at(files, absent);
    }

    /// A file that was wanted or went along has been read from the device, before the program came to it.
    pub fn fetched(&mut self, path: &Path) {
        self.asked.fetched(path);
        self.along.fetched(path);
    }

    /// What is in a directory that was wanted, as [`Tree::list`] tells it. Returns what should be read now.
    pub fn listed(&mut self, directory: &Path, entries: Option<Vec<Entry>>) -> Vec<Wanted> {
        self.listings.keep(directory, entries);
        let wanted: Vec<_> = (0..self.walks.len()).flat_map(|at| self.wanted(at)).collect();
        self.with_listings(wanted)
    }

    /// What is wanted, behind the directories without which it is not known what comes.
    fn with_listings(&mut self, wanted: Vec<Wanted>) -> Vec<Wanted> {
        self.listings.take_wanted().into_iter().map(Wanted::Listing).chain(wanted).collect()
    }

    /// So much of a file has been read from the device with another beside which it lies.
    pub fn went_along(&mut self, path: &Path, bytes: u64) {
        if self.asked.knows(path) {
            // That it cost no movement counts, and it needs no more room.
            self.along.went(path, 0);
        } else {
            self.along.went(path, bytes);
            self.guesses.asked += 1;
        }
    }

    /// Bytes of the files that went along and have not come.
    #[must_use]
    pub fn along_bytes(&self) -> u64 {
        self.along.bytes()
    }

    /// Bytes that may go along yet, if there is memory for so many.
    #[must_use]
    pub fn along_room_bytes(&self, memory_bytes: u64) -> u64 {
        memory_bytes.min(self.spending.left_bytes()).saturating_sub(self.along.bytes())
    }

    /// Bytes that may go along with a file: 0 where nobody waits for an arm.
    #[must_use]
    pub fn reach_bytes(&self) -> u64 {
        reach_bytes(self.waits.movement_ns())
    }

    /// A program comes to a file. Returns what should be read before it comes to the next ones.
    pub fn visit(&mut self, visit: &Visit) -> Vec<Wanted> {
        for (path, extent) in &visit.left {
            let is_there = |walk: &&mut Walk| walk.recent.iter().any(|recent| **recent == **path);
            if let Some(walk) = self.walks.iter_mut().find(is_there) {
                walk.habits.read(*extent);
            }
        }
        let mut came = self.asked.came(&visit.path);
        if let Some(was_fetched) = self.along.came(&visit.path) {
            self.spending.earn(self.waits.movement_ns());
            if came == Came::Unasked {
                came = Came::Soon { was_fetched };
            }
        }
        self.spending.earn(visit.waited_ns);
        // What every process reads when it begins is cached, and no step of anybody.
        if visit.waited_ns > 0 || came != Came::Unasked {
            self.clock += 1;
            if self.clock.is_multiple_of(WINDOW as u64) {
                self.listings.earn(1);
            }
        }
        self.guesses.wrong += self.asked.given_up(self.clock);
        match came {
            Came::Soon { was_fetched } if was_fetched && visit.has_fetched => self.guesses.wrong += 1,
            Came::Soon { .. } => self.guesses.used += 1,
            Came::Late => {
                (self.guesses.used, self.guesses.wrong) = (self.guesses.used + 1, self.guesses.wrong - 1)
            }
            Came::Unasked => {
                self.guesses.unforeseen += u64::from(visit.waited_ns > 0);
                self.guesses.waited_ns += visit.waited_ns;
            }
        }
        self.was_foreseen = came != Came::Unasked;
        let wanted = self.follow(visit, came == Came::Unasked);
        self.with_listings(wanted)
    }

    fn follow(&mut self, visit: &Visit, is_unasked: bool) -> Vec<Wanted> {
        let (Some(directory), Some(name)) = (visit.path.parent(), visit.path.file_name()) else {
            return Vec::new();
        };
        let wait = (visit.waited_ns, self.asked.pending() == 0 && self.along.bytes() == 0);
        // What every process reads when it begins.
        if self.walks.iter().any(|walk| walk.courses.iter().any(|course| course.is_at(directory, name))) {
            return Vec::new();
        }
        let Some((at, is_next)) = self.step(directory, name).or_else(|| self.skip(directory, name)) else {
            // Who does not wait needs no help, and is no reason to forget another: a process for each file reads its libraries.
            if visit.waited_ns > 0 {
                let waited = if is_unasked { vec![wait] } else { Vec::new() };
                self.begin(directory, name, waited);
            }
            return Vec::new();
        };
        let walk = &mut self.walks[at];
        if is_unasked && visit.waited_ns > 0 && walk.waited.len() < RECENT {
            walk.waited.push(wait);
        }
        if walk.bits() >= ENOUGH_BITS {
            walk.waited.drain(..).for_each(|wait| self.waits.add(wait));
            self.guesses.typical_wait_ns = self.waits.typical_ns();
            self.listings.earn(DIRECTORIES_A_VISIT);
            self.was_foreseen |= is_next;
            self.guesses.foreseen += u64::from(is_unasked && is_next);
        }
        walk.met_at = self.clock;
        walk.waits = walk.waits << 1 | u32::from(visit.waited_ns > 0);
        walk.habits.passed(name, true);
        walk.came_to(&visit.path);
        self.wanted(at)
    }

    /// The walk that has come to the file as was foreseen, and whether to the very next one.
    fn step(&mut self, directory: &Path, name: &OsStr) -> Option<(usize, bool)> {
        let Walks { walks, listings, .. } = self;
        let (at, steps) = walks.iter_mut().enumerate().find_map(|(at, walk)| {
            let Walk { courses, habits, .. } = walk;
            let step = |course: &mut Course| {
                course.look_ahead(WINDOW, listings);
                course.step(directory, name, |name| habits.is_likely(name))
            };
            some_of(courses.iter_mut().map(step)).map(|steps| (at, steps))
        })?;
        Some((at, self.stepped(at, steps)))
    }

    /// The walk that has come to the file, leaving others out.
    fn skip(&mut self, directory: &Path, name: &OsStr) -> Option<(usize, bool)> {
        let Walks { walks, listings, .. } = self;
        let (at, steps) = walks.iter_mut().enumerate().find_map(|(at, walk)| {
            let skip = |course: &mut Course| course.skip(directory, name, listings);
            some_of(walk.courses.iter_mut().map(skip)).map(|steps| (at, steps))
        })?;
        Some((at, self.stepped(at, steps)))
    }

    /// The courses of a walk have come to a file, or not. Returns whether it was the very next one.
    fn stepped(&mut self, at: usize, steps: Vec<Option<Step>>) -> bool {
        let walk = &mut self.walks[at];
        // Before those that do not fit are dropped the steps are in the order of the courses.
        let told = walk.leader().filter(|&leader| steps[leader].is_some());
        let told = told.or_else(|| steps.iter().position(Option::is_some));
        let told = told.and_then(|told| steps[told].as_ref());
        if let Some(step) = told {
            step.left_out.iter().for_each(|left_out| walk.habits.passed(left_out.name(), false));
        }
        let is_next = told.is_some_and(|step| step.is_next);
        let mut fits = steps.iter().map(Option::is_some);
        walk.courses.retain(|_| fits.next().unwrap_or(false));
        is_next
    }

    /// A new walk begins at this file, in place of the one that matters least.
    fn begin(&mut self, directory: &Path, name: &OsStr, waited: Vec<Wait>) {
        let Some(listing) = self.listings.get(directory) else { return };
        // Threads that share a tree go through it in one way, each somewhere else.
        let alike = self.walks.iter().find_map(|walk| {
            let leader = &walk.courses[walk.leader()?];
            (leader.bits() >= ENOUGH_BITS && leader.is_around(directory))
                .then_some((leader.order(), &walk.habits))
        });
        let bits = |order| if alike.is_some_and(|(alike, _)| alike == order) { ALIKE_BITS } else { 0.0 };
        let begin = |&order: &Order| Course::at(order, &listing, name, bits(order));
        let courses: Vec<Course> = Order::ALL.iter().filter_map(begin).collect();
        let mut habits = alike.map(|(_, habits)| habits.clone()).unwrap_or_default();
        habits.passed(name, true);
        if courses.is_empty() {
            return;
        }
        if self.walks.len() >= WALKS {
            let matters = |walk: &Walk| walk.bits() >= ENOUGH_BITS && self.clock - walk.met_at < FORGOTTEN;
            let worth = |walk: &Walk| (matters(walk), walk.bits() as u32, walk.met_at);
            let least = (0..WALKS).min_by_key(|&at| worth(&self.walks[at]));
            self.walks.swap_remove(least.unwrap_or(0));
        }
        self.walks.push(Walk {
            courses,
            habits,
            recent: VecDeque::from([directory.join(name)]),
            waits: 0,
            waited,
            met_at: self.clock,
            ahead: FIRST_AHEAD,
            offered: VecDeque::new(),
        });
    }

    /// What a walk wants now.
    fn wanted(&mut self, at: usize) -> Vec<Wanted> {
        let is_paused = self.trust.is_paused(self.guesses.used, self.guesses.wrong, self.clock);
        let walk = &mut self.walks[at];
        let Some(leader) = walk.leader().filter(|&leader| walk.courses[leader].bits() >= ENOUGH_BITS) else {
            return Vec::new();
        };
        if walk.waits.count_ones() >= WAITS && self.resting.end() {
            walk.ahead *= 2;
        }
        // A program that has not waited lately, and for which nothing is under way, reads what is cached.
        let is_under_way = self.asked.pending() > 0 || self.along.bytes() > 0;
        let needs = walk.waits & 0xff != 0 || is_under_way;
        let cost_ns = FILE_NS + PAGE_NS * u64::from(walk.habits.mean_pages());
        let pays = self.waits.mean_ns() >= cost_ns;
        if is_paused || self.resting.is_resting() || !needs || !pays {
            return Vec::new();
        }
        let Walk { courses, habits, ahead, offered, .. } = walk;
        let budget = self.budget_bytes / (u64::from(habits.mean_pages()) * PAGE_BYTES);
        let most = FILES_AHEAD.min(usize::try_from(budget).unwrap_or(FILES_AHEAD)).max(1);
        *ahead = (*ahead + FIRST_AHEAD).min(most);
        let Guesses { used, wrong, foreseen, .. } = self.guesses;
        let credit = (FIRST_ASKED + used + foreseen).saturating_sub(wrong);
        let course = &mut courses[leader];
        let bytes = (u64::from(habits.pages()) * PAGE_BYTES).min(self.budget_bytes);
        let may_go_along = reach_bytes(self.waits.movement_ns()) > 0;
        let (mut wanted, mut likely, mut known) = (Vec::new(), 0, 0);
        let mut directories: Vec<Rc<Listing>> = Vec::new();
        // As many of those that are likely, among as many as have to be looked through.
        while likely < *ahead
            && known < LOOKED_THROUGH
            && course.look_ahead(known + *ahead, &mut self.listings) > known
        {
            for coming in course.coming().skip(known).take(*ahead) {
                known += 1;
                if likely == *ahead
                    || self.asked.pending() >= credit
                    || !(coming.is_fetched || habits.is_likely(coming.name()))
                {
                    continue;
                }
                likely += 1;
                if std::mem::replace(&mut coming.is_fetched, true) {
                    continue;
                }
                let path = coming.path();
                if !self.along.has(&path) && self.asked.ask(&path, self.clock) {
                    self.guesses.asked += 1;
                    wanted.push(Wanted::File(path, bytes));
                    if may_go_along && !directories.iter().any(|one| Rc::ptr_eq(one, coming.directory())) {
                        directories.push(Rc::clone(coming.directory()));
                    }
                }
            }
        }
        for directory in directories {
            let at = offered.iter().position(|(one, _)| one == directory.path());
            let Some(from) = at.map_or(Some(0), |at| offered[at].1) else { continue };
            if !self.spending.look_for(directory.len().min(OFFERED_AT_A_TIME), self.waits.movement_ns()) {
                continue;
            }
            let rest = course.rest_of(&directory).filter(|entry| habits.is_likely(&entry.name));
            let (files, next) = by_inode(rest.filter(|entry| entry.inode >= from).take(OFFERED_FILES));
            match at {
                Some(at) => offered[at].1 = next,
                None => {
                    if offered.len() >= OFFERED {
                        offered.pop_front();
                    }
                    offered.push_back((directory.path().to_owned(), next));
                }
            }
            // Before the files that are wanted, which take others along then.
            wanted.insert(0, Wanted::Neighbours(directory.path().to_owned(), files, bytes));
        }
        for directory in course.directories(DIRECTORIES_AHEAD) {
            self.listings.ahead(&directory);
        }
        wanted
    }
}
