//! One way in which a program may be going through a tree: where it is, and what comes next.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::listing::{Entry, Kind, Listing, Listings, Order, Tree, is_same};

/// Files among which the next one is looked for: several processes that share a list are so far apart.
pub(crate) const WINDOW: usize = 16;
/// Files that were passed by and may come yet.
const LATE: usize = 64;
/// What it tells, in bits, that one of those comes: it is one of few, but in no order.
const LATE_BITS: f64 = 1.0;
/// Directories that are read to find the next file, of which there may be none.
const EMPTY: usize = 256;
/// Directories below each other.
const LEVELS: usize = 64;
/// Evidence from which on directories are read for a course.
const LIKELY_BITS: f64 = 5.0;
/// More evidence than this changes nothing; what does not fit any more is then forgotten in time.
const MOST_BITS: f64 = 64.0;

/// A file that may come next.
#[derive(Debug, Clone)]
pub(crate) struct Coming {
    directory: Rc<Listing>,
    entry: u32,
    /// Entries of the directory in which its way parts from that of the file before.
    among: usize,
    /// It has been asked for.
    pub(crate) is_fetched: bool,
}

impl Coming {
    fn is(&self, directory: &Path, name: &OsStr) -> bool {
        self.name() == name && is_same(self.directory.path(), directory)
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.directory.entry(self.entry).name
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(self.name())
    }

    pub(crate) fn directory(&self) -> &Rc<Listing> {
        &self.directory
    }
}

/// A step of a course.
#[derive(Debug)]
pub(crate) struct Step {
    /// Files that were passed by some time ago, and will not come any more.
    pub(crate) left_out: Vec<Coming>,
    /// It was the very next of those that were likely.
    pub(crate) is_next: bool,
}

/// A place in a tree, and an order in which it is gone through from there.
#[derive(Debug)]
pub(crate) struct Course {
    order: Order,
    /// The file that came last: its directory, and its name.
    last: (Rc<Listing>, OsString),
    /// The directories that lead to the next entry, the highest one first, and the place of the next entry in each.
    levels: Vec<(Rc<Listing>, usize)>,
    /// The highest of these in which a step was made since the last file that is known to come.
    highest: usize,
    coming: VecDeque<Coming>,
    passed: VecDeque<Coming>,
    /// How unlikely it is that all of this came by chance, as the logarithm of base two.
    bits: f64,
    /// There is nothing behind what is known to come.
    is_at_its_end: bool,
}

impl Course {
    /// The course that has come to this file of a directory, with some evidence.
    pub(crate) fn at(order: Order, directory: &Rc<Listing>, name: &OsStr, bits: f64) -> Option<Course> {
        let place = directory.place(order, name)?;
        Some(Course {
            order,
            last: (Rc::clone(directory), name.to_owned()),
            levels: vec![(Rc::clone(directory), place + 1)],
            highest: usize::MAX,
            coming: VecDeque::new(),
            passed: VecDeque::new(),
            bits,
            is_at_its_end: false,
        })
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// Whether a directory is in the tree that this course is in, as far as that is known.
    pub(crate) fn is_around(&self, directory: &Path) -> bool {
        self.levels.first().is_some_and(|(highest, _)| directory.starts_with(highest.path()))
    }

    /// Whether this is the file that came last.
    pub(crate) fn is_at(&self, directory: &Path, name: &OsStr) -> bool {
        self.last.1 == name && is_same(self.last.0.path(), directory)
    }

    pub(crate) fn bits(&self) -> f64 {
        self.bits
    }

    /// The files that come next, as far as they are known.
    pub(crate) fn coming(&mut self) -> impl Iterator<Item = &mut Coming> {
        self.coming.iter_mut()
    }

    /// The files of a directory that are still to come, those that are not known yet included.
    pub(crate) fn rest_of(&self, directory: &Rc<Listing>) -> impl Iterator<Item = &Entry> {
        let known = self.coming.iter().filter(|coming| Rc::ptr_eq(&coming.directory, directory));
        let level = self.levels.iter().find(|(level, _)| Rc::ptr_eq(level, directory));
        let behind = level.into_iter().flat_map(|(level, next)| {
            (*next..level.len()).filter_map(|place| level.at(self.order, place)).map(|(_, entry)| entry)
        });
        let known = known.map(|coming| coming.directory.entry(coming.entry));
        known.chain(behind.filter(|entry| entry.kind == Kind::File))
    }

    /// The directories that come next in the lowest one that has any.
    pub(crate) fn directories(&self, most: usize) -> impl Iterator<Item = PathBuf> + '_ {
        let lowest = self.levels.iter().rev().map(move |(listing, next)| {
            let kind = |place| listing.at(self.order, place).map(|(_, entry)| entry);
            let ahead = (*next..listing.len()).filter_map(kind);
            ahead
                .filter(|entry| entry.kind == Kind::Directory)
                .map(|entry| listing.path().join(&entry.name))
                .take(most)
                .collect::<Vec<_>>()
        });
        lowest.into_iter().find(|found| !found.is_empty()).into_iter().flatten()
    }

    /// Finds out more of what comes, until that many files are known or there are no more. Returns how many are known. Of a
    /// course of which little is known yet no directories are read for it.
    pub(crate) fn look_ahead(&mut self, files: usize, listings: &mut Listings<impl Tree>) -> usize {
        let mut empty = 0;
        while self.coming.len() < files && !self.is_at_its_end && empty < EMPTY {
            let level = self.levels.len().saturating_sub(1);
            let Some((listing, next)) = self.levels.last_mut() else {
                self.is_at_its_end = true;
                break;
            };
            let Some((entry, found)) = listing.at(self.order, *next) else {
                // The highest one stays: what it is among is not known.
                if self.levels.len() == 1 {
                    self.is_at_its_end = true;
                    break;
                }
                self.levels.pop();
                continue;
            };
            if found.kind == Kind::File {
                *next += 1;
                let directory = Rc::clone(listing);
                let among = self.levels[self.highest.min(level)].0.len();
                self.highest = usize::MAX;
                self.coming.push_back(Coming { directory, entry, among, is_fetched: false });
                continue;
            }
            let path = listing.path().join(&found.name);
            let below = if self.bits >= LIKELY_BITS { listings.ahead(&path) } else { listings.known(&path) };
            let Some(below) = below else { break };
            *next += 1;
            self.highest = self.highest.min(level);
            empty += 1;
            if self.levels.len() < LEVELS {
                self.levels.push((below, 0));
            }
        }
        self.coming.len()
    }

    /// The file is read now: was it to come soon, not counting those that are not likely to be read?
    pub(crate) fn step(
        &mut self,
        directory: &Path,
        name: &OsStr,
        is_likely: impl Fn(&OsStr) -> bool,
    ) -> Option<Step> {
        if let Some(at) = self.passed.iter().position(|passed| passed.is(directory, name)) {
            self.passed.remove(at);
            self.add(LATE_BITS);
            return Some(Step { left_out: Vec::new(), is_next: false });
        }
        let mut passed = 0;
        let at = self.coming.iter().position(|coming| {
            let is_found = coming.is(directory, name);
            passed += usize::from(!is_found && is_likely(coming.name()));
            is_found || passed == WINDOW
        })?;
        if passed == WINDOW {
            return None;
        }
        self.passed.extend(self.coming.drain(..at));
        let found = self.coming.pop_front()?;
        // By chance it would have been any of those it is among.
        self.add(evidence(found.among, passed));
        self.last = (Rc::clone(&found.directory), name.to_owned());
        Some(Step { left_out: self.too_late(), is_next: passed == 0 })
    }

    /// The file is read now: does it lie a little further in the directory in which its way parts from that of the last
    /// one? So it is when what lies between was left out, and when the tree is larger than was known.
    pub(crate) fn skip(
        &mut self,
        directory: &Path,
        name: &OsStr,
        listings: &mut Listings<impl Tree>,
    ) -> Option<Step> {
        let here = self.last.0.path();
        // What has nothing in common but the root directory is no tree that somebody goes through.
        let common = here.ancestors().find(|above| directory.starts_with(above))?;
        common.parent()?;
        let from = here.strip_prefix(common).ok()?.iter().next().unwrap_or(&self.last.1);
        let mut way = directory.strip_prefix(common).ok()?.iter().chain([name]);
        let to = way.next()?;
        let kept = self.levels.iter().take_while(|(level, _)| level.path() != common);
        let mut levels: Vec<_> =
            kept.filter(|(level, _)| common.starts_with(level.path())).cloned().collect();
        let mut listing = listings.get(common)?;
        let (before, after) = (listing.place(self.order, from)?, listing.place(self.order, to)?);
        let passed = after.checked_sub(before + 1)?;
        let mut bits = evidence(listing.len(), passed);
        levels.push((Rc::clone(&listing), after + 1));
        let mut below = common.join(to);
        for part in way {
            // What is as likely of somebody who takes any is no way to go on.
            if bits <= 0.0 {
                return None;
            }
            listing = listings.get(&below)?;
            let place = listing.place(self.order, part)?;
            // Whoever comes to a directory begins with what is first in it, or not far from it.
            bits += evidence(listing.len(), place).min(0.0);
            levels.push((Rc::clone(&listing), place + 1));
            below.push(part);
        }
        if bits <= 0.0 {
            return None;
        }
        (self.levels, self.highest) = (levels, usize::MAX);
        (self.last, self.is_at_its_end) = ((listing, name.to_owned()), false);
        // Who goes elsewhere has left out some; all the rest he, or another thread, may come to another time.
        self.coming.truncate(WINDOW);
        self.passed.append(&mut self.coming);
        self.add(bits);
        Some(Step { left_out: self.too_late(), is_next: false })
    }

    fn add(&mut self, bits: f64) {
        self.bits = (self.bits + bits).clamp(0.0, MOST_BITS);
    }

    /// Those that were passed by too long ago to come still.
    fn too_late(&mut self) -> Vec<Coming> {
        let too_many = self.passed.len().saturating_sub(LATE);
        self.passed.drain(..too_many).collect()
    }
}

/// Evidence, in bits, that a program goes through `of` files in order, when it has skipped `passed` of them before the next one:
/// the ratio of two likelihoods. Who goes in order skips n with chance 1 / (n + 1)(n + 2): none in one case of two, one in one
/// of six, rarely many. Who takes any file takes each with chance 1 / `of`.
fn evidence(of: usize, passed: usize) -> f64 {
    (of.max(1) as f64 / ((passed + 1) * (passed + 2)) as f64).log2()
}
