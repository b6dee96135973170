//! One list: where its reader is, and the next uses of the blocks that it names.

use super::completion::Completion;
use super::positions::PositionSet;
use super::waiting::Waiting;
use crate::alignment::Stream;
use crate::blocks::{BlockId, Blocks, Mark, State};
use crate::ids::{DiskId, ManagerId};
use crate::recency::NONE;

/// How far late references reach is forgotten by this share with each reference that is in order.
const LATE_DECAY: u32 = 256;

/// References over which the share of those that the list explains is taken.
const REMEMBERED: f64 = 256.0;

/// The least share that is told from none. Without it a long time of nothing leads to numbers so small that processors
/// take a hundred times as long to reckon with them (IEEE 754's subnormal ones).
const NO_SHARE: f64 = 1e-100;

/// A list that explains a smaller share than this says nothing of any block: the kernel does better without it. Cao et
/// al. 1996 discard a list that is "too often wrong" (section 2.1.3); here it may come back.
const LEAST_SHARE: f64 = 0.5;

/// It is believed again from this share on: the gap keeps it from flapping.
const BELIEVED_SHARE: f64 = 0.65;

/// One list of a manager.
#[derive(Debug)]
pub(crate) struct List {
    cursor: u32,
    end: u32,
    /// Positions before this one are passed over.
    passed: u32,
    /// How far behind the cursor references have been used, lately.
    late: u32,
    /// How far behind the cursor is waited for at least.
    late_positions: u32,
    /// Share of the reader's last references that the list explained.
    explained_share: f64,
    dormant: bool,
    /// The manager's lists do not count at present.
    suspended: bool,
    pub(super) completion: Completion,
    /// What is appended continues a run.
    pub(super) continues: bool,
    /// What follows its last position.
    pub(super) waiting: Waiting,
    cached: PositionSet,
    missing: Vec<PositionSet>,
    /// The same of all disks, if there are several.
    missing_anywhere: Option<PositionSet>,
    /// A number a disk that changes with its missing blocks.
    changes: Vec<u32>,
}

impl List {
    /// An empty list. `number` differs from that of every other list.
    pub(super) fn new(disks: u16, number: u32, late_positions: u32) -> List {
        let disks = disks.max(1) as usize;
        List {
            cursor: 0,
            end: 0,
            passed: 0,
            late: 0,
            late_positions,
            explained_share: 1.0,
            dormant: false,
            suspended: false,
            completion: Completion::default(),
            continues: false,
            waiting: Waiting::default(),
            cached: PositionSet::default(),
            missing: (0..disks).map(|_| PositionSet::default()).collect(),
            missing_anywhere: (disks > 1).then(PositionSet::default),
            // Far apart, so that what was computed from one list is not taken for another one's.
            changes: vec![number.wrapping_mul(0x9e37_79b1); disks],
        }
    }

    // ---- for planners ----

    /// One past the last position.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// The position expected next.
    #[inline]
    pub(crate) fn cursor(&self) -> u32 {
        self.cursor
    }

    /// References at or after the cursor.
    #[inline]
    pub(crate) fn ahead(&self) -> u32 {
        self.held_ahead().saturating_add(self.waiting.len())
    }

    /// Positions at or after the cursor.
    pub(super) fn held_ahead(&self) -> u32 {
        self.end - self.cursor
    }

    /// Does the list say nothing at present: it explains nothing, or does not count?
    #[inline]
    pub(crate) fn is_dormant(&self) -> bool {
        self.dormant || self.suspended
    }

    /// The first position at or after `from` whose block is missing on `disk`.
    #[inline]
    pub(crate) fn next_hole_on(&self, disk: DiskId, from: u32) -> Option<u32> {
        self.missing[disk.0 as usize].next(from)
    }

    /// The first position at or after `from` whose block is missing.
    pub(crate) fn next_hole(&self, from: u32) -> Option<u32> {
        self.missing_anywhere.as_ref().or(self.missing.first())?.next(from)
    }

    /// The furthest next use of a cached block of the manager's own.
    pub(crate) fn furthest(&self) -> Option<u32> {
        self.cached.last()
    }

    /// The furthest next use before `position`.
    pub(crate) fn furthest_before(&self, position: u32) -> Option<u32> {
        self.cached.prev(position.checked_sub(1)?)
    }

    /// A number that changes whenever a block of the disk begins or ceases to be missing.
    #[inline]
    pub(crate) fn changes(&self, disk: DiskId) -> u32 {
        self.changes[disk.0 as usize]
    }

    // ---- for the knowledge ----

    pub(super) fn passed(&self) -> u32 {
        self.passed
    }

    pub(super) fn set_passed(&mut self, passed: u32) {
        self.passed = passed;
    }

    /// The position before which nothing is waited for: twice as far behind the cursor as references came late. A
    /// reader that is always in order is not waited for, as in Cao et al. 1996, section 4.3, unless it was asked for.
    pub(super) fn late_before(&self) -> u32 {
        self.cursor.saturating_sub(self.late.saturating_mul(2).max(self.late_positions))
    }

    /// A reference used a position up.
    #[inline]
    pub(super) fn note_match(&mut self, position: u32) {
        if position < self.cursor {
            self.late = self.late.max(self.cursor - position);
        } else {
            self.late -= self.late.div_ceil(LATE_DECAY);
        }
    }

    /// Was the reader's last reference explained?
    #[inline]
    pub(super) fn note_explained(&mut self, explained: bool) {
        let now = if explained { 1.0 } else { 0.0 };
        let share = self.explained_share + (now - self.explained_share) / REMEMBERED;
        self.explained_share = share.max(NO_SHARE);
    }

    /// The reader has come here; `asleep` if the alignment says that nothing fits. Says whether the list has become
    /// dormant or ceases to be.
    pub(super) fn set_cursor(&mut self, cursor: u32, asleep: bool) -> bool {
        self.cursor = cursor.min(self.end);
        let dormant = self.becomes_dormant(asleep);
        std::mem::replace(&mut self.dormant, dormant) != dormant
    }

    /// Would [`List::set_cursor`] change nothing, and is nothing to be passed over?
    #[inline]
    pub(super) fn is_as_it_was(&self, cursor: u32, asleep: bool) -> bool {
        cursor.min(self.end) == self.cursor
            && self.becomes_dormant(asleep) == self.dormant
            && self.late_before() <= self.passed
    }

    #[inline]
    fn becomes_dormant(&self, asleep: bool) -> bool {
        asleep || self.explained_share < if self.dormant { BELIEVED_SHARE } else { LEAST_SHARE }
    }

    pub(super) fn set_suspended(&mut self, suspended: bool) {
        self.suspended = suspended;
    }

    /// Next uses of cached blocks, ascending.
    pub(super) fn cached_uses(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.cached.next(0), |&p| self.cached.next(p + 1))
    }

    /// Positions before this one, all of which are passed over, are no longer held.
    pub(super) fn release_before(&mut self, position: u32) {
        self.cached.release_before(position);
        for missing in self.missing.iter_mut().chain(&mut self.missing_anywhere) {
            missing.release_before(position);
        }
    }

    /// There is a position more, whose block is on `disk`.
    pub(super) fn extend(&mut self, end: u32, disk: usize) {
        self.end = end;
        self.cached.reserve(end);
        self.missing[disk].reserve(end);
        if let Some(anywhere) = &mut self.missing_anywhere {
            anywhere.reserve(end);
        }
    }

    /// Forgets all next uses and goes on from the cursor.
    pub(super) fn clear(&mut self) {
        self.cached.clear();
        for (missing, changes) in self.missing.iter_mut().zip(&mut self.changes) {
            missing.clear();
            missing.reserve(self.end);
            *changes = changes.wrapping_add(1);
        }
        if let Some(anywhere) = &mut self.missing_anywhere {
            anywhere.clear();
            anywhere.reserve(self.end);
        }
        self.cached.reserve(self.end);
        self.late = 0;
        self.passed = self.cursor;
    }

    #[inline]
    pub(super) fn place(&mut self, blocks: &Blocks, b: BlockId, manager: ManagerId, position: u32) {
        match blocks[b].state {
            State::Cached if blocks[b].owner() == Some(manager) => self.cached.insert(position),
            State::Absent | State::Leaving if !blocks[b].is(Mark::Unfetchable) => {
                let disk = self.disk_of(blocks, b);
                self.missing[disk].insert(position);
                if let Some(anywhere) = &mut self.missing_anywhere {
                    anywhere.insert(position);
                }
                self.changes[disk] = self.changes[disk].wrapping_add(1);
            }
            _ => {}
        }
    }

    /// A block's next use is another one than it was; `NONE` where it has none.
    #[inline]
    pub(super) fn replace(&mut self, blocks: &Blocks, b: BlockId, manager: ManagerId, first: u32, next: u32) {
        if first != NONE {
            self.unplace(blocks, b, first);
        }
        if next != NONE {
            self.place(blocks, b, manager, next);
        }
    }

    /// The first position of a block from `from` on that counts; `NONE` if there is none.
    pub(super) fn next_counting(&self, stream: &Stream, b: BlockId, mut from: u32) -> u32 {
        // Completed positions that do not count are passed by, a few at most.
        for _ in 0..4 {
            match stream.next_use_from(b, from) {
                Some(p) if !self.completion.counts() && stream.is_completed(p) => from = p + 1,
                found => return found.unwrap_or(NONE),
            }
        }
        NONE
    }

    #[inline]
    fn disk_of(&self, blocks: &Blocks, b: BlockId) -> usize {
        if self.missing.len() == 1 { 0 } else { blocks.disk(b).0 as usize }
    }

    #[inline]
    pub(super) fn unplace(&mut self, blocks: &Blocks, b: BlockId, position: u32) {
        // It is in one of the sets, if in any.
        if self.cached.remove(position) {
            return;
        }
        let disk = self.disk_of(blocks, b);
        if self.missing[disk].remove(position) {
            if let Some(anywhere) = &mut self.missing_anywhere {
                anywhere.remove(position);
            }
            self.changes[disk] = self.changes[disk].wrapping_add(1);
        }
    }
}
