//! Unordered: what lists name, when their order is lost.
//!
//! A job may read the same files each night and in another order: its list is shuffled, its threads take what is next,
//! a table of names has no order. Then no position of a list says when its block will be used, and all that is known is
//! that it will be. That is still worth much: read in the order of the device, and many at a time, a block costs a small
//! part of what it costs who waits for it.
//!
//! Evidence is taken of runs that begin with a block which has not been referenced since a list named it, of the last
//! [`MEMORY`] to twice as many:
//!
//! - *named*: lists name its first block. The share is how far the set is the same tonight.
//! - *in order*: it is named about where its list's reader is, within a sixteenth of the list.
//!
//! and of all such blocks
//!
//! - *by order*: it was fetched ahead, as the order said;
//! - *missed*: it was waited for, or would have been without what is fetched here.
//!
//! If most are named, few of these in order, and twice as many blocks are missed as come by order, the order is lost: lists
//! say no more when a block is used, and what they name and nobody has referenced is fetched, once, in the order of the
//! device, or the nearest to the job first where this stays in one region for a while ([`super::nearest`]). The order is
//! found again when three of four are in order. For runs that are long ([`LONG_RUN`]) nothing is fetched.
//!
//! The chance that such a block is used is the share that is named, times the references that are expected still (as many
//! as lists name blocks, less those that have been referenced), over the blocks that are left. Below [`LEAST_CHANCE`]
//! nothing is fetched. Nothing is replaced for it but what has been used, and that only if the job seldom goes back to it.
//!
//! ```text
//!  lists      a b c d e f g h i j        named 10 blocks
//!  tonight    g b x e                    3 of 4 were named, all of them waited for
//!  left       a c d f h i j              7, and 10 - 4 references to come: used with a chance of 3/4 x 6/7
//! ```

use std::ops::Range;

use super::nearest::{Nearest, Spot};
use crate::books::{Desk, Touch};
use crate::ids::{Block, DiskId, ManagerId};

/// Runs that decide: of so many the evidence is kept, by halving.
const MEMORY: u32 = 64;

/// Runs before the first decision. By then they have cost what as many waits do.
const ENOUGH: u32 = 32;

/// Runs after which it is told how much lists name. A job may begin with what is new each night.
const TELLING: u64 = 256;

/// Blocks that decide whether the order helps all the same: where it is lost between files, and not within large ones.
const BLOCKS: u32 = 256;

/// So many of them must have been waited for,
const LEAST_MISSED: u32 = 4;

/// and so many times as many as came in time by the order.
const BY_ORDER: u32 = 2;

/// Where no frame is empty, and one run in so many goes back to what was read before, what was read is needed again: nothing is
/// replaced by what is only needed some time.
const AGAIN: u32 = 4;

/// Half of what is fetched must be used: read together it costs less than half of what each costs alone, on every device
/// that was measured.
const LEAST_CHANCE: f64 = 0.5;

/// Blocks of a run in the mean, 256 KiB at 8 KiB, from which on the job waits for what the disk gives, and not for its
/// answers. Such runs are read ahead as it is.
const LONG_RUN: u64 = 32;

/// A run is near the one before if it is no further from it than one part in so many of all that the job has gone
/// through: by chance one in four is.
const NEAR_PART: u64 = 8;

/// Blocks that are looked for in the lists at a time, 2 GiB at 8 KiB: the table takes 24 bytes for each.
const PIECE: usize = 1 << 18;

/// Positions that are looked at for one piece: some 20 ms.
const LOOKED_AT: u32 = 1 << 20;

/// After a look that was in vain so many more runs are waited for, and twice as many after the next.
const PAUSE: u32 = 64;

/// What is known of one manager.
#[derive(Debug, Default)]
struct Set {
    /// Its order is lost.
    is_unordered: bool,
    /// Runs that began with a block that was new, of late.
    runs: u32,
    /// Others that began with a block that had been referenced before.
    again: u32,
    /// All that began with a new one.
    runs_in_all: u64,
    /// Those of `runs` that a list names.
    named: u32,
    /// Those of these where the list's reader is,
    in_order: u32,
    /// Blocks that a list names, of late: those that were fetched in time by its order, and those that were waited for.
    by_order: u32,
    missed: u32,
    /// Blocks referenced for the first time, and those of them that a list names.
    met: u64,
    met_named: u64,
    /// Runs until the lists are looked at again, and how many that was.
    pause: u32,
    paused: u32,
    /// Where the next piece begins: list and position.
    from: (usize, u32),
    /// Blocks that lists name.
    total: u64,
    /// What is to be fetched.
    left: Nearest,
    /// Where the job is, and from where to where it has been on that disk.
    at: Option<Spot>,
    been: Range<u64>,
    /// Those of `runs` that begin near the one before.
    near: u32,
}

/// The sets of all managers.
#[derive(Debug, Default)]
pub(super) struct Unordered {
    /// By manager.
    sets: Vec<Set>,
}

impl Unordered {
    /// A manager's process has referenced a block.
    pub(super) fn note(&mut self, desk: &Desk<'_>, manager: ManagerId, block: Block) {
        let slot = manager.0 as usize;
        if self.sets.len() <= slot {
            self.sets.resize_with(slot + 1, Set::default);
        }
        let set = &mut self.sets[slot];
        let touch = desk.last_touch();
        if touch.is_first && touch.begins {
            set.goes_to(desk.spot_of(block));
        }
        if set.note(touch) {
            set.decide(desk.is_full());
        }
    }

    /// Fetches what is left of a set, as far as disks are free: `room` says how many more of these a disk may be given that
    /// has so many under way.
    pub(super) fn fetch(
        &mut self,
        desk: &mut Desk<'_>,
        manager: ManagerId,
        room: impl Fn(DiskId, u32) -> u32,
    ) {
        let Some(set) = self.sets.get_mut(manager.0 as usize).filter(|set| set.is_unordered) else { return };
        if desk.is_suspended(manager) || set.pause > 0 || (set.left.is_empty() && !set.look(desk, manager)) {
            return;
        }
        if set.chance() < LEAST_CHANCE {
            return;
        }
        let from = set.at.filter(|_| 2 * set.near >= set.runs);
        while let Some((disk, block)) = set.left.next(from)
            && room(disk, desk.in_flight_from(disk)) > 0
        {
            if let Some(b) = desk.find_left(block)
                && !desk.prefetch_unordered(manager, b)
            {
                return;
            }
            set.left.pop();
        }
    }

    /// The share of the last new runs that lists name, when there were enough.
    pub(super) fn known_share(&self, manager: ManagerId) -> Option<f64> {
        let set = self.sets.get(manager.0 as usize).filter(|set| set.runs_in_all >= TELLING)?;
        Some(f64::from(set.named) / f64::from(set.runs.max(1)))
    }

    /// A manager's lists begin anew.
    pub(super) fn forget(&mut self, manager: ManagerId) {
        if let Some(set) = self.sets.get_mut(manager.0 as usize) {
            *set = Set::default();
        }
    }
}

impl Set {
    /// The job begins a run here.
    fn goes_to(&mut self, at: Spot) {
        let (disk, address) = at;
        match self.at {
            Some((before, was)) if before == disk => {
                self.near +=
                    u32::from(address.abs_diff(was) <= (self.been.end - self.been.start) / NEAR_PART);
                self.been = self.been.start.min(address)..self.been.end.max(address);
            }
            _ => self.been = address..address,
        }
        self.at = Some(at);
    }

    /// Takes a reference into account; says whether a run began with it that is evidence.
    fn note(&mut self, touch: Touch) -> bool {
        if !touch.is_first {
            self.again = (self.again + u32::from(touch.begins)).min(2 * MEMORY);
            return false;
        }
        self.met += 1;
        self.met_named += u64::from(touch.is_named);
        if touch.is_named {
            self.by_order += u32::from(touch.is_by_order);
            self.missed += u32::from(touch.is_missed);
            if self.by_order + self.missed >= 2 * BLOCKS {
                (self.by_order, self.missed) = (self.by_order / 2, self.missed / 2);
            }
        }
        if !touch.begins {
            return false;
        }
        self.pause = self.pause.saturating_sub(1);
        self.runs += 1;
        self.runs_in_all += 1;
        self.named += u32::from(touch.is_named);
        self.in_order += u32::from(touch.is_named && touch.is_in_order);
        if self.runs == 2 * MEMORY {
            (self.runs, self.named, self.in_order) = (self.runs / 2, self.named / 2, self.in_order / 2);
            (self.again, self.near) = (self.again / 2, self.near / 2);
        }
        self.runs >= ENOUGH
    }

    /// Is the set the same, and its order lost?
    fn decide(&mut self, is_full: bool) {
        let is_dear = is_full && AGAIN * self.again >= self.runs;
        let are_long = self.met > LONG_RUN * self.runs_in_all;
        self.is_unordered = if is_dear || are_long {
            false
        } else if self.is_unordered {
            4 * self.named >= self.runs && 4 * self.in_order < 3 * self.named
        } else {
            2 * self.named >= self.runs
                && 2 * self.in_order < self.named
                && self.missed >= LEAST_MISSED
                && BY_ORDER * self.by_order < self.missed
        };
    }

    /// The chance that one of the blocks that are left will be used.
    fn chance(&self) -> f64 {
        let expected = self.total.saturating_sub(self.met) as f64;
        let left = self.total.saturating_sub(self.met_named).max(1) as f64;
        f64::from(self.named) / f64::from(self.runs.max(1)) * (expected / left).min(1.0)
    }

    /// Looks in the lists for the next piece of what nobody has referenced; says whether there is any.
    fn look(&mut self, desk: &Desk<'_>, manager: ManagerId) -> bool {
        self.total = desk.named_blocks(manager);
        let (mut list, mut position) = self.from;
        let mut left = Vec::new();
        let mut looked_at = 0;
        while list < desk.list_count(manager) && left.len() < PIECE && looked_at < LOOKED_AT {
            let held = desk.held_positions(manager, list);
            position = position.max(held.start);
            if position >= held.end {
                (list, position) = (list + 1, 0);
                continue;
            }
            if let Some(b) = desk.block_at(manager, list, position)
                && desk.is_left(b)
            {
                left.push(desk.place_of(b));
            }
            position += 1;
            looked_at += 1;
        }
        self.from = (list, position);
        self.left = Nearest::of(left);
        if self.left.is_empty() {
            self.paused = (2 * self.paused).max(PAUSE);
            self.pause = self.paused;
        }
        !self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run begins.
    fn begins(is_named: bool, is_in_order: bool, is_missed: bool) -> Touch {
        Touch { is_first: true, is_named, begins: true, is_in_order, is_by_order: false, is_missed }
    }

    fn after(touches: impl Iterator<Item = Touch>) -> Set {
        let mut set = Set::default();
        for touch in touches {
            if set.note(touch) {
                set.decide(false);
            }
        }
        set
    }

    #[test]
    fn the_example_of_the_header() {
        let mut set = after([true, true, false, true].into_iter().map(|named| begins(named, false, true)));
        set.total = 10;
        assert!(!set.is_unordered, "four are no evidence");
        assert!((set.chance() - 0.75 * 6.0 / 7.0).abs() < 1e-9);
    }

    #[test]
    fn order_is_lost_where_few_come_in_order_and_most_are_missed() {
        assert!(after((0..40).map(|_| begins(true, false, true))).is_unordered);
        assert!(!after((0..40).map(|at| begins(true, at % 4 != 0, true))).is_unordered, "the device is slow");
        assert!(!after((0..40).map(|at| begins(true, false, at % 16 == 0))).is_unordered, "all is cached");
        let within =
            |at| Touch { is_by_order: at % 3 != 0, begins: at % 3 == 0, ..begins(true, false, at % 3 == 0) };
        assert!(!after((0..150).map(within)).is_unordered, "within files it is right");
        assert!(
            !after((0..40).map(|at| begins(at % 4 == 0, false, true))).is_unordered,
            "another job's lists"
        );
    }

    #[test]
    fn what_is_read_again_and_again_keeps_its_place() {
        let mut set = after((0..40).map(|_| begins(true, false, true)));
        let again = Touch { is_first: false, ..begins(true, false, true) };
        (0..20).for_each(|_| assert!(!set.note(again)));
        set.decide(false);
        assert!(set.is_unordered, "there is room");
        set.decide(true);
        assert!(!set.is_unordered);
    }

    #[test]
    fn a_job_that_stays_in_one_region_is_told_from_one_that_does_not() {
        let near = |places: &mut dyn Iterator<Item = u64>| {
            let mut set = Set::default();
            places.for_each(|place| set.goes_to((DiskId(0), place)));
            set.near
        };
        let backwards = near(&mut (0..60).rev().map(|at| 100 * at));
        assert_eq!(backwards, 51, "once it has gone through eight");
        assert!(near(&mut (0..60).map(|at| 100 * (at * 37 % 60))) < 20, "here and there");
    }

    #[test]
    fn order_is_found_again() {
        let lost = (0..40).map(|_| begins(true, false, true));
        let half = lost.clone().chain((0..200).map(|at| begins(true, at % 2 == 0, true)));
        assert!(after(half).is_unordered);
        assert!(!after(lost.chain((0..400).map(|_| begins(true, true, false)))).is_unordered);
    }

    #[test]
    fn a_run_counts_once_and_its_blocks_each() {
        let goes_on = Touch { begins: false, ..begins(true, false, true) };
        let again = Touch { is_first: false, ..begins(true, false, true) };
        let set = after([begins(true, false, true), goes_on, goes_on, again].into_iter());
        assert_eq!((set.runs, set.met, set.met_named), (1, 3, 3));
    }

    #[test]
    fn when_as_much_was_read_as_is_named_no_more_is_expected() {
        let mut set = after((0..400).map(|at| begins(at % 4 != 0, false, true)));
        set.total = 400;
        assert!(set.chance() < 1e-9);
        set.total = 1000;
        assert!(set.chance() > 0.6, "{}", set.chance());
    }
}
