//! Trees whose files are read in no order: samples that are shuffled, objects that are named by their hash, messages of a mailbox.
//!
//! Nothing tells which file comes next, but a device gives several files at a time where the program waits for one after the
//! other. So it is the same with a tree as with a region of a file (`scattered.rs`): once a program has waited in it for as long
//! as it takes to read all of its files, that is done, and no more time of the device is lost than the program had lost by itself.
//!
//! - The *tree* is the deepest directory below which most of the last visits were that waited and had not been foreseen.
//! - How many files there are in it is found out a directory at a time, and no further as long as what is known already costs
//!   more than the program has waited. So a large tree of which little is read costs a few listings.
//! - Only kinds of files are read that the program has read, and of each no more than it has read of others ([`Habits`]).
//! - What was read must turn out to be used, or no other tree is.
//!
//! On a disk with an arm files that are read at a time are read no sooner, and nothing is done.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::Serialize;

use crate::costs::{self, ARM_NS};
use crate::habits::Habits;
use crate::listing::{Entry, Kind};
use crate::walks::{PAGE_BYTES, Visit, Wanted};

/// Visits by which the tree is known, and how many of them must be in it.
const RECENT: usize = 32;
const IN_TREE: usize = 24;
/// Directories that are looked at, upwards from a file.
const ABOVE: usize = 6;
/// Waits before anything is read, however small the tree is.
const LEAST_WAITS: u32 = 32;
/// Files that are read at a time, where a device does that.
const AT_A_TIME: f64 = 8.0;
/// Files of a tree, and its directories, at most: what is kept of them takes 8 MB. Read ahead they take 256 MB at least.
const FILES: usize = 1 << 16;
const DIRECTORIES: usize = 1 << 14;
/// Files of all trees that were asked for and have not come.
const ASKED: usize = 2 * FILES;
/// No more of a file is read than so many times what others have in the mean.
const LARGER: u32 = 4;
/// Directories that are being listed.
const LISTED_AT_A_TIME: usize = 4;
/// Files that were asked for before it matters how many of them came; then one in so many must have.
const JUDGED: u64 = 128;
const USED_SHARE: u64 = 2;

/// How good the guesses of trees that are read in no order were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UnorderedGuesses {
    /// Files that were asked for.
    pub asked: u64,
    /// Of these, those that the program came to.
    pub used: u64,
    /// What the program would have waited besides, nanoseconds: an estimate.
    pub saved_ns: u64,
}

/// A file of a tree.
#[derive(Debug)]
struct File {
    inode: u64,
    directory: Rc<Path>,
    name: Box<OsStr>,
}

/// A tree in which files are read in no order.
#[derive(Debug)]
struct Top {
    path: PathBuf,
    habits: Habits,
    /// Visits in it that waited and had not been foreseen, and for how long, nanoseconds.
    waits: u32,
    waited_ns: u64,
    /// Those of them that were for an arm.
    long_waits: u32,
    /// When the first of these began and the last one ended.
    began_ns: u64,
    ended_ns: u64,
    /// Files that have come, by a hash of their paths, and those that have not, as far as they are known.
    come: HashSet<u64>,
    files: HashMap<u64, File>,
    /// How many of these are likely to be read.
    left: usize,
    /// Directories that are to be listed, those that are being, and those that were.
    to_list: Vec<PathBuf>,
    being_listed: Vec<PathBuf>,
    listed: usize,
    /// It is read, or too large.
    is_over: bool,
}

impl Top {
    /// Nothing is known of it.
    fn at(path: &Path) -> Top {
        Top {
            path: path.to_owned(),
            habits: Habits::default(),
            waits: 0,
            waited_ns: 0,
            long_waits: 0,
            began_ns: u64::MAX,
            ended_ns: 0,
            come: HashSet::new(),
            files: HashMap::new(),
            left: 0,
            to_list: vec![path.to_owned()],
            being_listed: Vec::new(),
            listed: 0,
            is_over: false,
        }
    }

    /// A program has waited for one of its files, with this hash.
    fn came(&mut self, path: &Path, hash: u64, waited_ns: u64, at_ns: u64) {
        self.habits.passed(path.file_name().unwrap_or_default(), true);
        self.waits += 1;
        self.waited_ns += waited_ns;
        self.long_waits += u32::from(waited_ns >= ARM_NS);
        self.began_ns = self.began_ns.min(at_ns.saturating_sub(waited_ns));
        self.ended_ns = self.ended_ns.max(at_ns);
        self.come.insert(hash);
        if self.files.remove(&hash).is_some() {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Nothing more is to be done.
    fn give_up(&mut self) {
        self.is_over = true;
        (self.files, self.come, self.to_list) = Default::default();
    }

    /// Whether most waits were for an arm: on a busy machine some are as long on any disk.
    fn has_an_arm(&self) -> bool {
        self.long_waits * 2 > self.waits
    }

    fn mean_wait_ns(&self) -> u64 {
        self.waited_ns / u64::from(self.waits.max(1))
    }

    /// Bytes of its files that are left.
    fn left_bytes(&self) -> u64 {
        self.left as u64 * u64::from(self.habits.mean_pages()) * PAGE_BYTES
    }

    /// Whether what is left of the files that are known takes no longer to be read than has been waited.
    fn is_paid_for(&self) -> bool {
        let by_number_ns = self.left as f64 * self.mean_wait_ns() as f64 / AT_A_TIME;
        let by_bytes_ns = self.left_bytes() as f64 / costs::rate(self.mean_wait_ns()) * 1e9;
        // Threads that wait beside each other have a device read at a time already, and lose this time once.
        let lost_ns = self.waited_ns.min(self.ended_ns.saturating_sub(self.began_ns));
        lost_ns as f64 >= by_number_ns.max(by_bytes_ns)
    }
}

/// Follows programs that read the files of a tree in no order.
#[derive(Debug)]
pub struct Unordered {
    hasher: RandomState,
    /// Files that were waited for and had not been foreseen, how long, and when they came.
    recent: VecDeque<(PathBuf, u64, u64)>,
    top: Option<Top>,
    /// Bytes that may still be asked for.
    budget_bytes: u64,
    /// What is to be read, with hashes, the next one last, and bytes of each.
    due: Vec<(u64, File)>,
    due_bytes: u64,
    /// Files that were asked for and have not come, by a hash, and what is waited for one.
    asked: HashSet<u64>,
    wait_ns: u64,
    /// What would have been waited for those that came, and what was all the same, nanoseconds.
    would_have_waited_ns: u64,
    still_waited_ns: u64,
    guesses: UnorderedGuesses,
}

impl Unordered {
    /// Nothing is known. At most `budget_bytes` will be asked for.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Unordered {
        Unordered {
            hasher: RandomState::new(),
            recent: VecDeque::new(),
            top: None,
            budget_bytes,
            due: Vec::new(),
            due_bytes: 0,
            asked: HashSet::new(),
            wait_ns: 0,
            would_have_waited_ns: 0,
            still_waited_ns: 0,
            guesses: UnorderedGuesses::default(),
        }
    }

    /// How good the guesses were so far.
    #[must_use]
    pub fn guesses(&self) -> UnorderedGuesses {
        let saved_ns = self.would_have_waited_ns.saturating_sub(self.still_waited_ns);
        UnorderedGuesses { saved_ns, ..self.guesses }
    }

    /// A program comes to a file at this time, nanoseconds of any clock, and it had been foreseen or not. Returns a directory that
    /// should be listed.
    pub fn visit(&mut self, visit: &Visit, is_foreseen: bool, at_ns: u64) -> Option<PathBuf> {
        let hash = self.hasher.hash_one(&visit.path);
        if let Some(top) = &mut self.top {
            let left = visit.left.iter().filter(|(path, _)| path.starts_with(&top.path));
            left.for_each(|(_, extent)| top.habits.read(*extent));
        }
        if self.asked.remove(&hash) {
            self.guesses.used += 1;
            self.still_waited_ns += visit.waited_ns;
            self.would_have_waited_ns += self.wait_ns;
            return None;
        }
        if is_foreseen || visit.waited_ns == 0 {
            return None;
        }
        self.recent.push_back((visit.path.clone(), visit.waited_ns, at_ns));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let is_new = self.settle(visit.path.parent()?);
        let top = self.top.as_mut().filter(|top| !top.is_over && visit.path.starts_with(&top.path))?;
        if !is_new {
            top.came(&visit.path, hash, visit.waited_ns, at_ns);
        }
        if top.come.len() > FILES {
            top.give_up();
        }
        self.go_on()
    }

    /// Finds the tree in which the last visits were, if it is no longer the one that is known. Returns whether there is a new one.
    fn settle(&mut self, directory: &Path) -> bool {
        let within = |top: &Path| self.recent.iter().filter(|(path, ..)| path.starts_with(top)).count();
        if self.top.as_ref().is_some_and(|top| within(&top.path) >= IN_TREE) {
            return false;
        }
        let mut not_root = directory.ancestors().take(ABOVE).filter(|above| above.parent().is_some());
        let Some(path) = not_root.find(|above| within(above) >= IN_TREE) else { return false };
        let mut top = Top::at(path);
        for (file, waited_ns, at_ns) in self.recent.iter().filter(|(file, ..)| file.starts_with(path)) {
            top.came(file, self.hasher.hash_one(file), *waited_ns, *at_ns);
        }
        self.top = Some(top);
        true
    }

    /// The next directory to be listed; or all is known, and is to be read if it has been paid for.
    fn go_on(&mut self) -> Option<PathBuf> {
        let is_trusted = self.guesses.asked < JUDGED || self.guesses.used * USED_SHARE >= self.guesses.asked;
        let top = self.top.as_mut()?;
        if !is_trusted || top.is_over || top.waits < LEAST_WAITS || top.has_an_arm() || !top.is_paid_for() {
            return None;
        }
        if top.being_listed.len() < LISTED_AT_A_TIME
            && let Some(directory) = top.to_list.pop()
        {
            top.being_listed.push(directory.clone());
            return Some(directory);
        }
        if !top.to_list.is_empty() || !top.being_listed.is_empty() {
            return None;
        }
        let Top { habits, files, .. } = top;
        let mut files: Vec<_> = files.drain().filter(|(_, file)| habits.is_likely(&file.name)).collect();
        let (pages, mean_pages) = (habits.pages(), habits.mean_pages());
        top.give_up();
        let bytes = files.len() as u64 * u64::from(mean_pages) * PAGE_BYTES;
        if bytes > self.budget_bytes || self.asked.len() + files.len() > ASKED {
            return None;
        }
        self.budget_bytes -= bytes;
        self.wait_ns = top.mean_wait_ns();
        // Of one that is much larger than others the beginning.
        self.due_bytes = u64::from(pages.min(LARGER * mean_pages)) * PAGE_BYTES;
        // As they were written most likely. The next one is the last.
        files.sort_unstable_by_key(|(_, file)| std::cmp::Reverse(file.inode));
        self.asked.extend(files.iter().map(|(hash, _)| *hash));
        self.guesses.asked += files.len() as u64;
        self.due = files;
        None
    }

    /// What is in a directory, as [`Tree::list`](crate::Tree::list) tells it. Returns whether it had been wanted here.
    pub fn listed(&mut self, directory: &Path, entries: Option<&[Entry]>) -> bool {
        let Some(top) = self.top.as_mut() else { return false };
        let Some(at) = top.being_listed.iter().position(|listed| listed == directory) else { return false };
        top.being_listed.swap_remove(at);
        top.listed += 1;
        let path: Rc<Path> = directory.into();
        for Entry { name, kind, inode } in entries.unwrap_or_default() {
            let hash = self.hasher.hash_one(directory.join(name));
            match kind {
                Kind::Directory => top.to_list.push(directory.join(name)),
                Kind::File if top.come.contains(&hash) => {}
                Kind::File => {
                    top.left += usize::from(top.habits.is_likely(name));
                    let file =
                        File { inode: *inode, directory: Rc::clone(&path), name: name.as_os_str().into() };
                    top.files.insert(hash, file);
                }
            }
        }
        // Of each a page is read at least.
        let is_too_much = top.left as u64 * PAGE_BYTES > self.budget_bytes;
        if is_too_much
            || top.files.len() + top.come.len() > FILES
            || top.listed + top.to_list.len() > DIRECTORIES
        {
            top.give_up();
        }
        true
    }

    /// So many files, at most, that should be read now.
    #[must_use]
    pub fn wanted(&mut self, most: usize) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        while wanted.len() < most
            && let Some((hash, File { directory, name, .. })) = self.due.pop()
        {
            // The program may have come to it meanwhile.
            if self.asked.contains(&hash) {
                wanted.push(Wanted::File(directory.join(&*name), self.due_bytes));
            }
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_tree_that_cannot_be_listed_few_files_are_remembered() {
        let mut unordered = Unordered::new(u64::MAX);
        for n in 0..2 * FILES as u64 {
            let path = PathBuf::from(format!("/data/{n}"));
            let visit = Visit { path, waited_ns: 1_000_000, has_fetched: true, left: Vec::new() };
            // Nobody tells what is in the directory.
            let _ = unordered.visit(&visit, false, n * 1_000_000);
        }
        let top = unordered.top.unwrap();
        assert!(top.is_over && top.come.is_empty() && unordered.recent.len() == RECENT);
    }
}
