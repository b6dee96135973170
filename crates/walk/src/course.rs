//! One way in which a program may be going through a tree: where it is, and what comes next.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::listing::{Kind, Listing, Listings, Order, Tree};

/// Files among which the next one is looked for: several processes that share a list are so far apart.
pub(crate) const WINDOW: usize = 16;
/// Files that were passed by and may come yet.
const LATE: usize = 64;
/// Directories that are read to find the next file, of which there may be none.
const EMPTY: usize = 256;
/// Directories below each other.
const LEVELS: usize = 64;
/// More evidence than this changes nothing; what does not fit any more is then forgotten in time.
const MOST_BITS: f64 = 64.0;

/// A file that may come next.
#[derive(Debug, Clone)]
pub(crate) struct Coming {
    directory: Rc<Listing>,
    entry: u32,
    /// It has been asked for.
    pub(crate) is_fetched: bool,
}

impl Coming {
    fn is(&self, directory: &Path, name: &OsStr) -> bool {
        self.name() == name && self.directory.path() == directory
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.directory.entry(self.entry).name
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join(self.name())
    }
}

/// What became of the files before the one that was found.
#[derive(Debug)]
pub(crate) struct Step {
    /// The file itself had been asked for.
    pub(crate) was_fetched: bool,
    /// Files that were passed by some time ago, and will not come any more.
    pub(crate) left_out: Vec<Coming>,
}

/// A place in a tree, and an order in which it is gone through from there.
#[derive(Debug)]
pub(crate) struct Course {
    order: Order,
    /// The directories that lead to the next entry, the highest one first, and the place of the next entry in each.
    levels: Vec<(Rc<Listing>, usize)>,
    coming: VecDeque<Coming>,
    passed: VecDeque<Coming>,
    /// How unlikely it is that all of this came by chance, as the logarithm of base two.
    bits: f64,
    /// There is nothing behind what is known to come.
    is_at_its_end: bool,
}

impl Course {
    /// The course that has come to this file of a directory.
    pub(crate) fn at(order: Order, directory: &Rc<Listing>, name: &OsStr) -> Option<Course> {
        let place = directory.place(order, name)?;
        Some(Course::from(order, Rc::clone(directory), place + 1, 0.0))
    }

    fn from(order: Order, directory: Rc<Listing>, place: usize, bits: f64) -> Course {
        let (levels, is_at_its_end) = (vec![(directory, place)], false);
        Course { order, levels, coming: VecDeque::new(), passed: VecDeque::new(), bits, is_at_its_end }
    }

    pub(crate) fn bits(&self) -> f64 {
        self.bits
    }

    /// The files that come next, as far as they are known.
    pub(crate) fn coming(&mut self) -> impl Iterator<Item = &mut Coming> {
        self.coming.iter_mut()
    }

    /// The names of those that were passed by and may still come.
    pub(crate) fn passed(&self) -> Vec<OsString> {
        self.passed.iter().map(|passed| passed.name().to_owned()).collect()
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

    /// Finds out more of what comes, until that many files are known or there are no more.
    pub(crate) fn look_ahead(&mut self, files: usize, listings: &mut Listings<impl Tree>) {
        let mut empty = 0;
        while self.coming.len() < files && !self.is_at_its_end && empty < EMPTY {
            let Some((listing, next)) = self.levels.last_mut() else {
                self.is_at_its_end = true;
                return;
            };
            let Some((entry, found)) = listing.at(self.order, *next) else {
                // The highest one stays: what it is among is not known.
                if self.levels.len() == 1 {
                    self.is_at_its_end = true;
                    return;
                }
                self.levels.pop();
                continue;
            };
            if found.kind == Kind::File {
                *next += 1;
                self.coming.push_back(Coming { directory: Rc::clone(listing), entry, is_fetched: false });
                continue;
            }
            let path = listing.path().join(&found.name);
            let Some(below) = listings.get(&path) else { return };
            *next += 1;
            empty += 1;
            if self.levels.len() < LEVELS {
                self.levels.push((below, 0));
            }
        }
    }

    /// The file is read now: was it to come?
    pub(crate) fn step(&mut self, directory: &Path, name: &OsStr) -> Option<Step> {
        if let Some(at) = self.passed.iter().position(|passed| passed.is(directory, name)) {
            let was_fetched = self.passed.remove(at).is_some_and(|late| late.is_fetched);
            return Some(Step { was_fetched, left_out: Vec::new() });
        }
        let at = self.coming.iter().take(WINDOW).position(|coming| coming.is(directory, name))?;
        self.passed.extend(self.coming.drain(..at));
        let found = self.coming.pop_front()?;
        // By chance it would have been any of those it is among.
        self.bits = (self.bits + evidence(found.directory.len(), at)).min(MOST_BITS);
        let too_many = self.passed.len().saturating_sub(LATE);
        Some(Step { was_fetched: found.is_fetched, left_out: self.passed.drain(..too_many).collect() })
    }

    /// The course that has gone on from the highest directory of this one to the next, and found the file there.
    pub(crate) fn above(
        &self,
        directory: &Path,
        name: &OsStr,
        listings: &mut Listings<impl Tree>,
    ) -> Option<Course> {
        let highest = self.levels.first()?.0.path();
        let common = highest.ancestors().skip(1).find(|above| directory.starts_with(above))?;
        let from = highest.strip_prefix(common).ok()?.iter().next()?;
        let (to, is_file) = match directory.strip_prefix(common).ok()?.iter().next() {
            Some(to) => (to, false),
            None => (name, true),
        };
        let listing = listings.get(common)?;
        let (before, after) = (listing.place(self.order, from)?, listing.place(self.order, to)?);
        let passed = after.checked_sub(before + 1).filter(|passed| *passed < WINDOW)?;
        let bits = (self.bits + evidence(listing.len(), passed)).min(MOST_BITS);
        let mut course = Course::from(self.order, listing, if is_file { after + 1 } else { after }, bits);
        if !is_file {
            course.look_ahead(WINDOW, listings);
            course.step(directory, name)?;
        }
        Some(course)
    }
}

/// What it tells that of so many the next one came but for `passed`.
fn evidence(of: usize, passed: usize) -> f64 {
    (of.max(1) as f64 / (passed + 1) as f64).log2().max(0.0)
}
