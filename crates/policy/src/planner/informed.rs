//! Informed: forestall for lists that may be partly wrong.
//!
//! A list that is right to the letter is served as by [`super::forestall`]. Where it is not, six things
//! differ, each by what is measured while the list is followed:
//!
//! 1. A missing block is fetched if the chance that it is used in time is worth the cost. The chance is that of its
//!    kind (part of a run, or isolated) at its distance ([`crate::alignment`]); what it must be is
//!    [`Forestall::least_chance`].
//! 2. What the list leaves out of sequential runs is completed ([`crate::knowledge`]).
//! 3. A block that no list names is not taken for one that is not needed: it is worth what blocks like it are missed
//!    ([`crate::ghosts`]), and neither replaced nor held free for a prefetch that is worth less.
//! 4. Files that are referenced without having been predicted are read ahead as the kernel does, and so is everything
//!    while no list explains what is referenced. (In an advisory plane the kernel does that itself.)
//!
//! 5. Where the order of the lists is lost, what they name is fetched all the same ([`super::unordered`]).
//! 6. What adjoins a block on a disk with an arm is fetched along with it ([`super::along`]), as soon as the lists are told.
//!
//! Demand fetches overtake prefetches where the plane can do that.

use super::forestall::Forestall;
use super::sequential::Sequential;
use super::unordered::Unordered;
use super::{Occasion, Planner};
use crate::books::Desk;
use crate::config::{Config, Residency};
use crate::ids::{Block, ManagerId};
use crate::input::Input;

/// A file is read ahead while more of its references come unpredicted than predicted: by this many, of as many again
/// that are remembered.
const MORE_UNPREDICTED: u8 = 8;

#[derive(Debug)]
pub(super) struct Informed {
    forestall: Forestall,
    readahead: Sequential,
    /// How many more references of each file came unpredicted. Files are dense numbers, as many as
    /// [`crate::Limits::files`].
    unpredicted: Vec<u8>,
    /// Files of which a window was left out, as a list was the better guide.
    left_out: Vec<bool>,
    unordered: Unordered,
    /// Whose lists are not told to their end yet, by manager.
    open: Vec<bool>,
}

impl Informed {
    pub(super) fn new(config: &Config) -> Informed {
        Informed {
            forestall: Forestall::new(config),
            readahead: Sequential::linux(config),
            unpredicted: Vec::new(),
            left_out: Vec::new(),
            unordered: Unordered::default(),
            open: Vec::new(),
        }
    }

    fn set_open(&mut self, manager: ManagerId, open: bool) {
        let slot = manager.0 as usize;
        if open && self.open.len() <= slot {
            self.open.resize(slot + 1, false);
        }
        if let Some(is_open) = self.open.get_mut(slot) {
            *is_open = open;
        }
    }

    /// Is it not known yet what goes along? A block that is fetched by itself now leaves a hole where its neighbours are read in
    /// one go later, and the arm moves for it once more.
    fn waits_for_lists(&self, manager: ManagerId) -> bool {
        self.open.get(manager.0 as usize).is_some_and(|open| *open) && self.forestall.has_arm()
    }

    /// Is the file of this reference mostly referenced without a prediction?
    fn is_unpredicted(&mut self, desk: &Desk<'_>, file: usize) -> bool {
        if self.unpredicted.len() <= file {
            self.unpredicted.resize(file + 1, 0);
        }
        let more = &mut self.unpredicted[file];
        *more =
            if desk.was_predicted() { more.saturating_sub(1) } else { (*more + 1).min(2 * MORE_UNPREDICTED) };
        *more >= MORE_UNPREDICTED
    }

    /// Follows how the file is read, and reads it ahead if `fetch` says so. The first time that it does again, the rest of
    /// the present window is fetched: else its blocks would be waited for one by one.
    fn read_ahead(&mut self, desk: &mut Desk<'_>, manager: ManagerId, block: Block, fetch: bool) {
        let file = block.file.0 as usize;
        if self.left_out.len() <= file {
            self.left_out.resize(file + 1, false);
        }
        let left_out = self.readahead.follow(desk, manager, block, fetch);
        if fetch && self.left_out[file] {
            self.readahead.catch_up(desk, manager, block);
        }
        self.left_out[file] = !fetch && (self.left_out[file] || left_out);
    }

    fn fetch_unordered(&mut self, desk: &mut Desk<'_>, manager: ManagerId) {
        let forestall = &self.forestall;
        let usual = desk.config().batch.max(1);
        self.unordered
            .fetch(desk, manager, |disk, in_flight| forestall.batch(disk, usual).saturating_sub(in_flight));
    }
}

impl Planner for Informed {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, occasion: Occasion) {
        let waits = self.waits_for_lists(manager);
        if let Occasion::Reference(block) = occasion {
            let kernel_reads_ahead = desk.config().residency == Residency::Advisory;
            let nothing_known = (0..desk.list_count(manager)).all(|list| desk.list(manager, list).is_none());
            if !kernel_reads_ahead {
                let fetch = self.is_unpredicted(desk, block.file.0 as usize) || nothing_known;
                self.read_ahead(desk, manager, block, fetch);
            }
            if desk.list_count(manager) > 0 {
                self.unordered.note(desk, manager, block);
            }
            if nothing_known && !waits {
                self.fetch_unordered(desk, manager);
                return;
            }
        }
        if waits {
            return;
        }
        let least_chance = self.forestall.least_chance(manager);
        self.forestall.fetch_due(desk, manager, least_chance);
        self.fetch_unordered(desk, manager);
    }

    fn known_share(&self, manager: ManagerId) -> Option<f64> {
        self.unordered.known_share(manager)
    }

    fn note(&mut self, desk: &mut Desk<'_>, input: &Input<'_>) {
        if let Input::ManagerRemoved { manager } | Input::Cancelled { manager } = *input {
            self.unordered.forget(manager);
            self.forestall.forget(manager);
            self.set_open(manager, false);
        }
        if let Input::ListsOpen { manager, open } = *input {
            self.set_open(manager, open);
        }
        if let Input::DiskArm { disk, reach_blocks } = *input {
            self.forestall.set_reach(disk, reach_blocks);
        }
        self.forestall.note(desk, input);
    }
}
