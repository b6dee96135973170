//! Which directories come next, where a program goes through a tree and asks for the names in it, whether or not it reads any
//! file: `du`, `find`, `ls -R`, `rsync`, whoever looks for what has changed.
//!
//! Such a program waits for one small piece of the disk after the other: the names of a directory, then the inodes under
//! them. The disk could give many of them at a time, if it were told which.
//!
//! - Where the program is, is looked up every now and then ([`Place`]): it has the directory open. When it waits for all that it
//!   does nearly every directory is seen, and when it waits for nothing one in many.
//! - What comes next is among the directories in those that it has come to. *Ways* to go through them are a traversal and an
//!   order of the directories beside each other; each way keeps its own queue of what is still to come, and a *score* of
//!   how often what came was the first of it.
//! - By the best way the next directories are listed ahead, and those found in them, and so on: as many as the program may
//!   soon come to. Where it is seen next, it has passed those before.
//! - The inodes under the names are asked for as well if the program waits in directories of which the names are known
//!   (`du` does, `find -name` does not). One directory in [`SAMPLE`] is not asked for, and of another one the names
//!   alone, to see whether that is still so, and what it waits for without us.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;

use crate::asked::{Asked, Came};
use crate::listing::Contents;
use crate::pays::Pays;
use crate::resting::Resting;
use crate::tops::Tops;
use crate::trust::Trust;
use crate::waits::Waits;
use crate::walks::{Look, Wanted};
use crate::ways::{LATE, Node, Queue, Way};

/// A score from which on a way is believed: that of four directories that came as foreseen. By chance it is 0.2.
const ENOUGH: f64 = 0.5;
/// Directories that are asked for ahead at first; with each one that is asked for it is one more.
const FIRST_AHEAD: usize = 8;
/// Directories that are asked for ahead at most: what a quick program comes to in 10 ms.
const MOST_AHEAD: usize = 128;
/// A directory that was asked for was wrong if the program has come to so many others since. Among many directories in many
/// directories the right one may come late.
const VISITS: u64 = 1 << 12;
/// Memory of the kernel for a name and its inode, bytes: 192 for the name, and 1.1 KiB on ext4 (`/proc/slabinfo`).
const INODE_BYTES: u64 = 1536;
/// Names in a directory, before any was seen.
const USUAL_NAMES: f64 = 16.0;
/// How much the names in one directory count in their mean.
const WEIGHT: f64 = 0.125;
/// Directories that are asked for before any has come. Each that came allows two more, each that was wrong one less.
const FIRST_ASKED: u64 = 16;
/// One directory in so many is left to the program, and of one the names alone are asked for.
const SAMPLE: u64 = 16;
/// After so many directories of which the names alone were asked for it is judged whether that was enough.
const ENOUGH_NAMES: u32 = 4;
/// The names alone were not enough if the program has waited in one directory in so many.
const WAITS_IN: u32 = 4;
/// Directories to which the program came and that are remembered; for one more, all are forgotten.
const REMEMBERED: usize = 1 << 16;
/// Directories that were asked for and have not come yet; for one more, all are forgotten.
const ASKED: usize = 8 * MOST_AHEAD;
/// Directories in those; for one more, all are forgotten.
const HELD: usize = 1 << 14;
/// Processes that are followed; for one more, all are forgotten.
const PROCESSES: usize = 4096;
/// A program is seen in at least one of so many of the directories that are left to it.
const SKIPS: u64 = 8;
/// Directories above one another that a program is taken to go through though it was not seen there.
const LEVELS: usize = 3;
/// Directories in a row in which a program may have waited unseen.
const UNSEEN: usize = 2 * LATE;
/// A way whose score is this close to the best one may be the right one.
const NEARLY: f64 = 0.2;
/// Ways that are tried because their scores are close.
const ROUTES: usize = 4;
/// Of the last eight places so many in which the program waited: what comes is not cached, even if it was by the time that it was
/// looked at.
const WAITS: u32 = 4;
/// Steps in looking for a directory.
const STEPS: usize = 1024;

/// A process is seen in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The process.
    pub process: u32,
    /// The directory, by its path from the root.
    pub directory: Arc<Path>,
    /// What the process has waited for the device since it was seen last, other than for what it read of files; nanoseconds.
    pub waited_ns: u64,
}

/// What is known of a directory that was come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Nothing.
    Unknown,
    /// It is being listed,
    Wanted,
    /// as the program was in two of its own: what else is in it comes after these.
    Above,
    /// What is in it.
    Known,
}

/// How good the guesses were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DescentGuesses {
    /// Directories that were asked for.
    pub asked: u64,
    /// Of these, those that the program came to.
    pub used: u64,
    /// Those that it did not come to, and times that it went elsewhere.
    pub wrong: u64,
    /// What the program would have waited for those that it came to, if it had waited for each as for those that had not been
    /// asked for; nanoseconds.
    pub saved_ns: u64,
}

/// A directory that was asked for and not come to.
#[derive(Debug)]
struct Ahead {
    with_inodes: bool,
    /// What is in it, as soon as that is known.
    listed: Option<Rc<[Rc<Node>]>>,
}

/// Who has made the kernel know a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The program itself.
    Program,
    /// We, the names in it.
    Names,
    /// We, and the inodes under them as well, or the program has been there before.
    Inodes,
}

/// Where a process is.
#[derive(Debug, Clone, Copy)]
struct At {
    id: u64,
    known: Known,
    /// What it has waited there.
    waited_ns: u64,
}

/// What is before a directory on a way: what was asked for, and what was not.
#[derive(Debug, Default)]
struct Route {
    passed: Vec<Rc<Node>>,
    unasked: Vec<Rc<Node>>,
    /// How many were left to the program.
    left: u64,
}

/// Follows programs through the directories of trees.
#[derive(Debug)]
pub struct Descents {
    queues: Vec<Queue>,
    hasher: RandomState,
    /// Directories that were come to.
    entered: HashMap<u64, Inside>,
    tops: Tops,
    /// Directories that were asked for.
    ahead: HashMap<u64, Ahead>,
    /// Directories in those.
    held: usize,
    /// Directories that were chosen to be asked for, or to be left to the program.
    chosen: u64,
    /// Those that are left to the program; how many of these it was seen in, and how many it seems to have passed.
    left: HashSet<u64>,
    left_seen: u64,
    left_passed: u64,
    processes: HashMap<u32, At>,
    /// Whether names alone are not enough; and of the last directories of which the names alone were asked for how many have
    /// come, and in how many of them the program has waited.
    wants_inodes: bool,
    names_alone: (u32, u32),
    /// Bytes of the kernel's memory that may be filled ahead.
    budget_bytes: u64,
    /// Names in a directory on the average, the last ones counting most.
    mean_names: f64,
    /// A bit for each of the last places: the program has waited.
    waited: u32,
    /// How far ahead directories are asked for now.
    most: usize,
    asked: Asked,
    clock: u64,
    guesses: DescentGuesses,
    /// What a directory took that was not asked for: before any was, and lately.
    first_wait_ns: u64,
    typical_wait_ns: u64,
    /// What was waited in those that were.
    still_waited_ns: u64,
    waits: Waits,
    trust: Trust,
    pays: Pays,
    resting: Resting,
}

impl Descents {
    /// Nothing is known. At most `budget_bytes` of names and inodes will be asked for ahead of their use.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Descents {
        Descents {
            queues: Way::all().map(Queue::new).collect(),
            hasher: RandomState::new(),
            entered: HashMap::new(),
            tops: Tops::default(),
            ahead: HashMap::new(),
            held: 0,
            chosen: 0,
            left: HashSet::new(),
            left_seen: 0,
            left_passed: 0,
            processes: HashMap::new(),
            wants_inodes: false,
            names_alone: (0, 0),
            budget_bytes,
            mean_names: USUAL_NAMES,
            waited: 0,
            most: FIRST_AHEAD,
            asked: Asked::within(VISITS),
            clock: 0,
            guesses: DescentGuesses::default(),
            first_wait_ns: 0,
            typical_wait_ns: 0,
            still_waited_ns: 0,
            waits: Waits::default(),
            trust: Trust::default(),
            pays: Pays::default(),
            resting: Resting::default(),
        }
    }

    /// How good the guesses were so far.
    #[must_use]
    pub fn guesses(&self) -> DescentGuesses {
        // Beside what is read ahead a program waits longer than it would by itself.
        let wait_ns = self.typical_wait_ns.min(self.first_wait_ns);
        let would_have_waited_ns = self.guesses.used.saturating_mul(wait_ns);
        let saved_ns = would_have_waited_ns.saturating_sub(self.still_waited_ns);
        DescentGuesses { saved_ns, ..self.guesses }
    }

    /// So many of the directories that were wanted have been looked at, and so many of these were not cached.
    pub fn looked_at(&mut self, directories: u32, absent: u32) {
        self.resting.looked_at(directories, absent);
    }

    /// A process is seen in a directory. Returns what should be looked at before it comes to the next ones.
    pub fn seen(&mut self, place: &Place) -> Vec<Wanted> {
        let id = self.id(&place.directory);
        self.waited = self.waited << 1 | u32::from(place.waited_ns > 0);
        self.pays.waited(place.waited_ns, self.asked.pending() > 0, self.clock);
        self.process_waited(place, id);
        let mut wanted = Vec::new();
        if !self.entered.contains_key(&id) {
            if self.entered.len() >= REMEMBERED {
                self.forget();
            }
            let is_expected = |id| self.queues.iter().any(|queue| queue.has_near(id));
            if let Some(above) = place.directory.parent() {
                let above_id = self.id(above);
                if !is_expected(id) && is_expected(above_id) {
                    // It was not seen in the one above, where it must have been.
                    let wish = self.arrive(above_id, &above.into());
                    let may_look = |_: &Wanted| self.tops.may_look(self.guesses.used);
                    wanted.extend(wish.filter(may_look));
                } else if self.is_waiting() && self.entered.get(&above_id) == Some(&Inside::Unknown) {
                    self.entered.insert(above_id, Inside::Wanted);
                    wanted.push(Wanted::Contents(above.into(), Look::Come));
                }
            }
            wanted.extend(self.arrive(id, &place.directory));
            if self.is_waiting() {
                wanted.extend(self.looked_above(&place.directory));
            }
            self.guesses.wrong += self.asked.given_up(self.clock);
        }
        wanted.extend(self.wanted());
        wanted
    }

    /// A directory in two of whose own a program has been is one that it goes through, even if it was not seen there. Returns
    /// the wish to know what is in those above this one of which that is found out now.
    fn looked_above(&mut self, directory: &Path) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        for (below, above) in directory.ancestors().zip(directory.ancestors().skip(1)).take(LEVELS) {
            let [below, id] = [below, above].map(|path| self.id(path));
            if self.entered.contains_key(&id) {
                continue;
            }
            if self.tops.is_second(id, below) && self.tops.may_look(self.guesses.used) {
                self.entered.insert(id, Inside::Above);
                wanted.push(Wanted::Contents(above.into(), Look::Come));
            }
        }
        wanted
    }

    /// A program is at a directory for the first time. Returns the wish to know what is in it, if that is not known.
    fn arrive(&mut self, id: u64, directory: &Arc<Path>) -> Option<Wanted> {
        // What it was given, and what lies in a directory of which the names are not known yet, tells nothing.
        let is_expected = self.queues.iter().any(|queue| queue.has_near(id));
        match self.passed_before(id) {
            Some((passed, left)) => {
                for passed in &passed {
                    self.came(passed.id, &passed.path, false);
                }
                self.left_passed += left;
                if self.left_passed > SKIPS * (self.left_seen + 1) {
                    // It waits in those that are left to it, and would have been seen: it skips what it seems to pass.
                    self.guesses.wrong += SAMPLE * left;
                }
            }
            None if self.best().is_some() && self.asked.pending() > 0 => {
                self.guesses.wrong += u64::from(is_expected);
            }
            None => {}
        }
        let is_expected = is_expected || self.queues.iter().any(|queue| queue.has_near(id));
        let is_known = self.came(id, directory, is_expected);
        if is_known || !self.is_waiting() {
            return None;
        }
        self.entered.insert(id, Inside::Wanted);
        Some(Wanted::Contents(Arc::clone(directory), Look::Come))
    }

    /// What is in a directory that was wanted. Returns what should be looked at now.
    pub fn listed(&mut self, contents: &Contents) -> Vec<Wanted> {
        let id = self.id(&contents.directory);
        let names = contents.others + contents.directories.len();
        self.mean_names += WEIGHT * (names as f64 - self.mean_names);
        let above = [Some(&*contents.directory), contents.directory.parent()];
        let above = above.map(|path| path.map_or(0, |path| self.id(path)));
        let node = |(name, inode): &(OsString, u64)| {
            let path: Arc<Path> = contents.directory.join(name).into();
            Rc::new(Node { id: self.id(&path), path, inode: *inode, above })
        };
        let nodes: Rc<[Rc<Node>]> = contents.directories.iter().map(node).collect();
        if self.entered.contains_key(&id) {
            self.descend(id, above[1], &nodes);
        } else if self.held + nodes.len() > HELD {
            (self.held, self.ahead) = (0, HashMap::new());
        } else if let Some(ahead) = self.ahead.get_mut(&id).filter(|ahead| ahead.listed.is_none()) {
            self.held += nodes.len();
            ahead.listed = Some(nodes);
        }
        self.wanted()
    }

    fn id(&self, path: &Path) -> u64 {
        self.hasher.hash_one(path)
    }

    /// What a process has waited since it was seen last, it has waited where it was, as a rule.
    fn process_waited(&mut self, place: &Place, id: u64) {
        if self.processes.len() >= PROCESSES && !self.processes.contains_key(&place.process) {
            self.processes.clear();
        }
        let known = match self.ahead.get(&id) {
            None if self.entered.contains_key(&id) => Known::Inodes,
            None => Known::Program,
            Some(Ahead { with_inodes: false, .. }) => Known::Names,
            Some(Ahead { with_inodes: true, .. }) => Known::Inodes,
        };
        let at = self.processes.entry(place.process).or_insert(At { id, known, waited_ns: 0 });
        // From one that is known to one that is not it has waited for the latter.
        let for_the_next = at.id != id && known == Known::Program && at.known != Known::Program;
        let [here, next] = if for_the_next { [0, place.waited_ns] } else { [place.waited_ns, 0] };
        at.waited_ns = at.waited_ns.saturating_add(here);
        if at.id == id {
            return;
        }
        let left = std::mem::replace(at, At { id, known, waited_ns: next });
        if left.known != Known::Program {
            self.still_waited_ns = self.still_waited_ns.saturating_add(left.waited_ns);
        }
        match left.known {
            Known::Program if self.is_waiting() => {
                self.waits.add(left.waited_ns);
                self.typical_wait_ns = self.waits.mean_ns();
                if self.guesses.asked == 0 || self.first_wait_ns == 0 {
                    self.first_wait_ns = self.typical_wait_ns;
                }
            }
            // If the next one was not known it may have waited for that.
            Known::Names if known != Known::Program => self.names_were(1, u32::from(left.waited_ns > 0)),
            _ => {}
        }
    }

    /// So many directories of which the names alone were asked for are done with, and in some of them the program has waited.
    fn names_were(&mut self, directories: u32, waited: u32) {
        self.names_alone = (self.names_alone.0 + directories, self.names_alone.1 + waited);
        let (all, waited) = self.names_alone;
        if all >= ENOUGH_NAMES {
            self.wants_inodes = waited * WAITS_IN >= all;
            self.names_alone = (0, 0);
        }
    }

    /// All is to come once more.
    fn forget(&mut self) {
        self.entered.clear();
        self.tops.clear();
        self.left.clear();
        self.queues.iter_mut().for_each(Queue::clear);
    }

    /// The way that fits best, if it is believed.
    fn best(&self) -> Option<&Queue> {
        // The first of equals.
        let best = self.queues.iter().rev().max_by(|a, b| a.score.total_cmp(&b.score));
        best.filter(|best| best.score >= ENOUGH)
    }

    /// Directories that a program has passed that is now at this one: those before it on one of the ways that fit best, but for the
    /// last few that were not asked for. `None` if it has left these ways.
    fn passed_before(&self, id: u64) -> Option<(Vec<Rc<Node>>, u64)> {
        let best = self.best()?;
        let nearly = self.queues.iter().filter(|queue| queue.score >= best.score - NEARLY).take(ROUTES);
        let routes = std::iter::once(best).chain(nearly).filter_map(|queue| self.route(queue, id));
        // Where nothing was asked for it would have been seen, as it waits there, as a rule.
        let likely = routes.filter(|route| route.unasked.len() <= UNSEEN);
        let Route { mut passed, mut unasked, left } = likely.min_by_key(|route| route.unasked.len())?;
        unasked.truncate(unasked.len().saturating_sub(LATE));
        passed.extend(unasked);
        Some((passed, left))
    }

    /// What is before a directory on a way.
    fn route(&self, queue: &Queue, id: u64) -> Option<Route> {
        let mut route = Route::default();
        if queue.is_late(id) {
            return Some(route);
        }
        let mut coming: VecDeque<Rc<Node>> = queue.coming.iter().take(STEPS).cloned().collect();
        for _ in 0..STEPS {
            let node = coming.pop_front()?;
            if node.id == id {
                return Some(route);
            }
            if let Some(ahead) = self.ahead.get(&node.id) {
                if let Some(listed) = &ahead.listed {
                    queue.way.descend(&mut coming, node.above[0], listed);
                    // What lies further is not come to in so many steps.
                    coming.truncate(STEPS);
                }
                route.passed.push(node);
            } else if self.left.contains(&node.id) {
                route.left += 1;
            } else if !self.entered.contains_key(&node.id) {
                route.unasked.push(node);
            }
        }
        None
    }

    /// A program has come to a directory, or passed it. Returns whether it is known what is in it.
    fn came(&mut self, id: u64, path: &Path, scored: bool) -> bool {
        self.clock += 1;
        self.left_seen += u64::from(scored && self.left.remove(&id));
        self.pays.came(self.asked.pending() > 0, self.clock);
        self.entered.insert(id, Inside::Unknown);
        let entered = &self.entered;
        self.queues.iter_mut().for_each(|queue| queue.came(id, scored, |id| entered.contains_key(&id)));
        match self.asked.came(path) {
            Came::Unasked => {}
            Came::Soon { .. } => self.guesses.used += 1,
            Came::Late => {
                self.guesses.used += 1;
                self.guesses.wrong -= 1;
            }
        }
        let Some(ahead) = self.ahead.remove(&id) else { return false };
        if !ahead.with_inodes && !scored {
            self.names_were(1, 0);
        }
        let Some(listed) = ahead.listed else { return false };
        self.held -= listed.len();
        let above = path.parent().map_or(0, |above| self.id(above));
        self.descend(id, above, &listed);
        true
    }

    /// The program has come to a directory that lies in the one of the id `above`, and these are in it.
    fn descend(&mut self, id: u64, above: u64, listed: &[Rc<Node>]) {
        let before = self.entered.insert(id, Inside::Known);
        if before == Some(Inside::Known) {
            return;
        }
        let new = listed.iter().filter(|node| !self.entered.contains_key(&node.id));
        let new: Vec<Rc<Node>> = new.cloned().collect();
        let is_above = before == Some(Inside::Above);
        self.queues.iter_mut().for_each(|queue| match is_above {
            true => queue.append(&new),
            false => queue.descend(above, &new),
        });
    }

    /// Whether the program has waited lately.
    fn is_waiting(&self) -> bool {
        self.waited & 0xff != 0
    }

    /// What is to be looked at ahead now.
    fn wanted(&mut self) -> Vec<Wanted> {
        let DescentGuesses { used, wrong, .. } = self.guesses;
        let is_paused = self.trust.is_paused(used, wrong, self.clock);
        if (self.waited & 0xff).count_ones() >= WAITS {
            self.resting.end();
        }
        let pending = self.asked.pending();
        if is_paused
            || self.pays.is_paused(self.clock)
            || self.resting.is_resting()
            || !(self.is_waiting() || pending > 0)
        {
            return Vec::new();
        }
        let in_budget = self.budget_bytes / (INODE_BYTES * (self.mean_names as u64 + 1));
        let in_budget = in_budget.clamp(1, ASKED as u64 / 2);
        // What has come between since they were asked for may have put some further away.
        let room = (2 * in_budget).saturating_sub(pending);
        let distance =
            (self.most as u64).min(in_budget).min((FIRST_ASKED + 2 * used).saturating_sub(wrong).max(1));
        let mut wanted = Vec::new();
        for node in self.coming(distance as usize, room as usize) {
            self.chosen += 1;
            if self.chosen.is_multiple_of(SAMPLE) {
                self.left.insert(node.id);
            } else if self.asked.ask(&node.path, self.clock) {
                self.guesses.asked += 1;
                self.most = (self.most + FIRST_AHEAD).min(MOST_AHEAD);
                let with_inodes = self.wants_inodes && self.chosen % SAMPLE != SAMPLE / 2;
                if self.ahead.len() >= ASKED {
                    (self.held, self.ahead) = (0, HashMap::new());
                }
                self.ahead.insert(node.id, Ahead { with_inodes, listed: None });
                let look = if with_inodes { Look::Inodes } else { Look::Names };
                wanted.push(Wanted::Contents(Arc::clone(&node.path), look));
            }
        }
        wanted
    }

    /// Of so many directories that are next by the best way, with those that have been found in them ahead, the first `most` that
    /// were not asked for yet.
    fn coming(&self, farthest: usize, most: usize) -> Vec<Rc<Node>> {
        let Some(Queue { way, coming, .. }) = self.best() else { return Vec::new() };
        let mut coming: VecDeque<Rc<Node>> = coming.iter().take(STEPS).cloned().collect();
        let (mut found, mut distance) = (Vec::new(), 0);
        while distance < farthest && found.len() < most {
            let Some(node) = coming.pop_front() else { break };
            if self.entered.contains_key(&node.id) {
                continue;
            }
            distance += 1;
            match self.ahead.get(&node.id) {
                Some(Ahead { listed: Some(listed), .. }) => {
                    way.descend(&mut coming, node.above[0], listed);
                }
                Some(_) => {}
                None if self.left.contains(&node.id) || self.asked.knows(&node.path) => {}
                None => found.push(node),
            }
        }
        found
    }
}
