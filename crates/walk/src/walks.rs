//! Which files come next, from those that came.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::course::{Coming, Course, Step, WINDOW};
use crate::habits::{Extent, Habits};
use crate::listing::{Listings, Order, Tree};

/// Evidence from which on files are fetched: one in a thousand that it is chance.
const ENOUGH_BITS: f64 = 10.0;
/// Walks at the same time.
const WALKS: usize = 4;
/// Visits after which a walk that was not met again may make room for another.
const FORGOTTEN: u64 = 256;
/// Files that are fetched ahead at most: what a job reads in 10 ms of the quickest device on which it waits.
const FILES_AHEAD: usize = 128;
/// Files that are fetched ahead at first, and with each visit that was foreseen more.
const FIRST_AHEAD: usize = 4;
/// Directories that are looked at ahead.
const DIRECTORIES_AHEAD: usize = 8;
/// Files after which it is seen whether they had to be fetched at all.
const LOOKED_AT: u32 = 32;
/// Files after which it is seen whether they were used.
const JUDGED: u64 = 128;
/// A pause after guesses that were wrong, in visits; each one is twice as long as the one before, up to the longest.
const PAUSE: u64 = 512;
const LONGEST_PAUSE: u64 = 1 << 20;
/// Bytes of a page, as the pages of a visit are counted.
const PAGE_BYTES: u64 = 4096;

/// A program begins to read a file from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// The file, by its path from the root.
    pub path: PathBuf,
    /// What it waited for the device, nanoseconds.
    pub waited_ns: u64,
    /// What was read of the file at which the same thread was before.
    pub before: Option<Extent>,
}

/// What should be read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The beginning of a file, so many bytes or what there is of them.
    File(PathBuf, u64),
    /// The names in a directory.
    Directory(PathBuf),
}

/// How good the guesses were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Guesses {
    /// Files that were asked for.
    pub asked: u64,
    /// Of these, those that the program came to.
    pub used: u64,
    /// Those that it passed by, or left behind when it went elsewhere.
    pub wrong: u64,
    /// Visits that had not been foreseen and waited,
    pub unforeseen: u64,
    /// and how long, nanoseconds.
    pub waited_ns: u64,
}

impl Guesses {
    /// What the program would have waited for the files that had been read ahead, if it had waited for each as for those that
    /// had not; nanoseconds.
    #[must_use]
    pub fn saved_ns(&self) -> u64 {
        self.used.saturating_mul(self.waited_ns.checked_div(self.unforeseen).unwrap_or(0))
    }
}

/// One program's way through a tree.
#[derive(Debug)]
struct Walk {
    /// The ways that fit; what they have in common is what has come so far.
    courses: Vec<Course>,
    habits: Habits,
    /// A bit for each of the last visits: it waited.
    waits: u32,
    /// When it was met the last time.
    met_at: u64,
    ahead: usize,
    /// Directories that were asked for.
    asked: VecDeque<PathBuf>,
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

    /// Files that were asked for and have not come.
    fn outstanding(&mut self) -> u64 {
        self.courses.iter_mut().flat_map(Course::coming).filter(|coming| coming.is_fetched).count() as u64
    }
}

/// Follows programs through trees of files.
#[derive(Debug)]
pub struct Walks<T> {
    listings: Listings<T>,
    walks: Vec<Walk>,
    /// Bytes that may be fetched ahead.
    budget_bytes: u64,
    /// Visits so far.
    clock: u64,
    guesses: Guesses,
    /// Guesses of which it has been judged whether they were good.
    judged: Guesses,
    pause: u64,
    paused_until: u64,
    /// Files that were looked at, and those among them that had to be fetched.
    looked: (u32, u32),
    /// All that comes is cached already.
    is_resting: bool,
}

impl<T: Tree> Walks<T> {
    /// Nothing is known. At most `budget_bytes` will be wanted ahead of their use.
    pub fn new(tree: T, budget_bytes: u64) -> Walks<T> {
        Walks {
            listings: Listings::new(tree),
            walks: Vec::new(),
            budget_bytes,
            clock: 0,
            guesses: Guesses::default(),
            judged: Guesses::default(),
            pause: PAUSE,
            paused_until: 0,
            looked: (0, 0),
            is_resting: false,
        }
    }

    /// How good the guesses were so far.
    #[must_use]
    pub fn guesses(&self) -> Guesses {
        self.guesses
    }

    /// So many of the files that were wanted have been looked at, and so many of these were not cached.
    pub fn looked_at(&mut self, files: u32, absent: u32) {
        self.looked = (self.looked.0 + files, self.looked.1 + absent);
        if self.looked.0 >= LOOKED_AT {
            self.is_resting = self.looked.1 * 8 < self.looked.0;
            self.looked = (0, 0);
        }
    }

    /// A program comes to a file. Returns what should be read before it comes to the next ones.
    pub fn visit(&mut self, visit: &Visit) -> Vec<Wanted> {
        self.clock += 1;
        let used = self.guesses.used;
        let wanted = self.follow(visit);
        if used == self.guesses.used && visit.waited_ns > 0 {
            self.guesses.unforeseen += 1;
            self.guesses.waited_ns += visit.waited_ns;
        }
        wanted
    }

    fn follow(&mut self, visit: &Visit) -> Vec<Wanted> {
        let (Some(directory), Some(name)) = (visit.path.parent(), visit.path.file_name()) else {
            return Vec::new();
        };
        let Some(at) = self.step(directory, name).or_else(|| self.above(directory, name)) else {
            if self.clock.is_multiple_of(WINDOW as u64) {
                self.listings.earn();
            }
            self.begin(directory, name);
            return Vec::new();
        };
        self.listings.earn();
        let walk = &mut self.walks[at];
        walk.met_at = self.clock;
        walk.waits = walk.waits << 1 | u32::from(visit.waited_ns > 0);
        walk.habits.passed(name, true);
        if let Some(extent) = visit.before {
            walk.habits.read(extent);
        }
        self.wanted(at)
    }

    /// The walk that has come to the file as was foreseen.
    fn step(&mut self, directory: &Path, name: &OsStr) -> Option<usize> {
        for (at, walk) in self.walks.iter_mut().enumerate() {
            for course in &mut walk.courses {
                course.look_ahead(WINDOW, &mut self.listings);
            }
            let leader = walk.leader();
            let steps: Vec<Option<Step>> =
                walk.courses.iter_mut().map(|course| course.step(directory, name)).collect();
            if steps.iter().all(Option::is_none) {
                continue;
            }
            if let Some(Some(step)) = leader.and_then(|leader| steps.get(leader)) {
                self.guesses.used += u64::from(step.was_fetched);
                for Coming { is_fetched, .. } in &step.left_out {
                    self.guesses.wrong += u64::from(*is_fetched);
                }
                step.left_out.iter().for_each(|left_out| walk.habits.passed(left_out.name(), false));
            }
            let before = walk.outstanding();
            let mut fits = steps.iter().map(Option::is_some);
            walk.courses.retain(|_| fits.next().unwrap_or(false));
            self.guesses.wrong += before - walk.outstanding();
            return Some(at);
        }
        None
    }

    /// The walk that goes on in the next directory beside the highest one that it has been in.
    fn above(&mut self, directory: &Path, name: &OsStr) -> Option<usize> {
        for (at, walk) in self.walks.iter_mut().enumerate() {
            let above = walk.courses.iter().filter_map(|course| {
                // What is not known of any course is asked for once.
                course.above(directory, name, &mut self.listings)
            });
            let courses: Vec<Course> = above.collect();
            if !courses.is_empty() {
                self.guesses.wrong += walk.outstanding();
                walk.courses = courses;
                return Some(at);
            }
        }
        None
    }

    /// A new walk begins at this file, in place of the one that matters least.
    fn begin(&mut self, directory: &Path, name: &OsStr) {
        let Some(listing) = self.listings.get(directory) else { return };
        let courses: Vec<Course> =
            Order::ALL.iter().filter_map(|&order| Course::at(order, &listing, name)).collect();
        if courses.is_empty() {
            return;
        }
        if self.walks.len() >= WALKS {
            let matters = |walk: &Walk| walk.bits() >= ENOUGH_BITS && self.clock - walk.met_at < FORGOTTEN;
            let least = (0..WALKS).min_by_key(|&at| (matters(&self.walks[at]), self.walks[at].met_at));
            let mut least = self.walks.swap_remove(least.unwrap_or(0));
            self.guesses.wrong += least.outstanding();
        }
        self.walks.push(Walk {
            courses,
            habits: Habits::default(),
            waits: 0,
            met_at: self.clock,
            ahead: FIRST_AHEAD,
            asked: VecDeque::new(),
        });
    }

    /// Whether guesses have been wrong lately.
    fn is_paused(&mut self) -> bool {
        let (used, wrong) = (self.guesses.used - self.judged.used, self.guesses.wrong - self.judged.wrong);
        if used + wrong >= JUDGED {
            self.judged = self.guesses;
            if wrong * 3 > used {
                self.paused_until = self.clock + self.pause;
                self.pause = (2 * self.pause).min(LONGEST_PAUSE);
            }
        }
        self.clock < self.paused_until
    }

    /// What a walk wants now.
    fn wanted(&mut self, at: usize) -> Vec<Wanted> {
        let is_paused = self.is_paused();
        let walk = &mut self.walks[at];
        let Some(leader) = walk.leader().filter(|&leader| walk.courses[leader].bits() >= ENOUGH_BITS) else {
            return Vec::new();
        };
        if self.is_resting && walk.waits.count_ones() >= 4 {
            self.is_resting = false;
        }
        // A program that has not waited lately, and for which nothing is under way, reads what is cached.
        let needs = walk.waits & 0xff != 0 || walk.outstanding() > 0;
        if is_paused || self.is_resting || !needs {
            walk.ahead = FIRST_AHEAD;
            return Vec::new();
        }
        let Walk { courses, habits, ahead, asked, .. } = walk;
        let budget = self.budget_bytes / (u64::from(habits.mean_pages()) * PAGE_BYTES);
        let most = FILES_AHEAD.min(usize::try_from(budget).unwrap_or(FILES_AHEAD)).max(1);
        *ahead = (*ahead + FIRST_AHEAD).min(most);
        let course = &mut courses[leader];
        course.look_ahead(WINDOW.max(*ahead), &mut self.listings);
        let bytes = (u64::from(habits.pages()) * PAGE_BYTES).min(self.budget_bytes);
        let passed = course.passed();
        let mut wanted = Vec::new();
        for coming in course.coming().take(*ahead) {
            let passed = passed.iter().map(OsString::as_os_str);
            if !coming.is_fetched && habits.is_likely(coming.name(), passed) {
                coming.is_fetched = true;
                self.guesses.asked += 1;
                wanted.push(Wanted::File(coming.path(), bytes));
            }
        }
        for directory in course.directories(DIRECTORIES_AHEAD) {
            if !asked.contains(&directory) {
                if asked.len() >= 2 * DIRECTORIES_AHEAD {
                    asked.pop_front();
                }
                asked.push_back(directory.clone());
                wanted.push(Wanted::Directory(directory));
            }
        }
        wanted
    }
}
