//! The desk: all that a planner may look at, and the one thing that it may do.

use std::ops::Range;

use super::{Books, Touch};
use crate::blocks::{BlockId, Mark, State};
use crate::config::Config;
use crate::ids::{Block, DiskId, ManagerId, Nanos, ProcessId};
use crate::knowledge::List;

/// Of several lists one takes a block's frame for another block that is needed sooner by one part in so many of the way to it at
/// least: less is what readers beside each other differ by from one moment to the next.
const UNEVEN: u32 = 8;

/// What planners see of the books, and how they ask for fetches.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    books: &'a mut Books,
    now: Nanos,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(books: &'a mut Books, now: Nanos) -> Desk<'a> {
        Desk { books, now }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.books.config
    }

    /// All disks, in order.
    pub(crate) fn disks(&self) -> impl Iterator<Item = DiskId> + use<> {
        (0..self.books.config.disks.max(1)).map(DiskId)
    }

    /// The manager of a process.
    pub(crate) fn manager_of(&self, process: ProcessId) -> Option<ManagerId> {
        self.books.managers.of_process(process)
    }

    // ---- what is cached and on its way ----

    pub(crate) fn state(&self, b: BlockId) -> State {
        self.books.blocks[b].state
    }

    /// Could a fetch of this block be asked for?
    pub(crate) fn is_fetchable(&self, b: BlockId) -> bool {
        let record = &self.books.blocks[b];
        record.state == State::Absent && !record.is(Mark::Unfetchable)
    }

    /// Has this block been referenced since it was loaded, and is it cached still?
    pub(crate) fn was_referenced(&self, block: Block) -> bool {
        self.books.blocks.find(block).is_some_and(|b| {
            let record = &self.books.blocks[b];
            record.state == State::Cached && record.is(Mark::Referenced)
        })
    }

    /// The record of a block that is inside its file.
    pub(crate) fn find_or_add(&mut self, block: Block) -> Option<BlockId> {
        if self.books.blocks.exists(block) { self.books.blocks.find_or_add(block) } else { None }
    }

    /// Gives a record back that nothing speaks of.
    pub(crate) fn forget_if_idle(&mut self, b: BlockId) {
        self.books.blocks.forget_if_idle(b);
    }

    pub(crate) fn disk_of(&self, b: BlockId) -> DiskId {
        self.books.blocks.disk(b)
    }

    /// Fetches under way from a disk.
    pub(crate) fn in_flight_from(&self, disk: DiskId) -> u32 {
        self.books.fetches.of_disk(disk)
    }

    /// Fetches under way on a manager's behalf.
    pub(crate) fn in_flight_for(&self, manager: ManagerId) -> u32 {
        self.books.fetches.of_manager(manager)
    }

    /// Is no frame empty?
    pub(crate) fn is_full(&self) -> bool {
        self.books.frames.empty() == 0
    }

    // ---- what is known of the future ----

    /// Lists of a manager.
    pub(crate) fn list_count(&self, manager: ManagerId) -> usize {
        self.books.knowledge.list_count(manager)
    }

    /// A manager's list by its number, unless it explains nothing at present.
    #[inline]
    pub(crate) fn list(&self, manager: ManagerId, list: usize) -> Option<&List> {
        self.books.knowledge.list(manager, list).filter(|l| !l.is_dormant())
    }

    /// Do the manager's lists not count at present?
    pub(crate) fn is_suspended(&self, manager: ManagerId) -> bool {
        self.books.knowledge.is_suspended(manager)
    }

    /// The block at a position of a list.
    pub(crate) fn block_at(&self, manager: ManagerId, list: usize, position: u32) -> Option<BlockId> {
        self.books.knowledge.block_at(manager, list, position)
    }

    /// The position at which a list names a block next.
    pub(crate) fn next_use(&self, manager: ManagerId, list: usize, b: BlockId) -> Option<u32> {
        self.books.knowledge.next_use(&self.books.blocks, manager, list, b)
    }

    /// Had a list predicted the last reference?
    pub(crate) fn was_predicted(&self) -> bool {
        self.books.predicted
    }

    /// The positions of a list of which any may be worth a fetch: see [`Desk::is_worth`].
    pub(crate) fn believed(&mut self, manager: ManagerId, list: usize, least_chance: f64) -> Range<u32> {
        self.books.knowledge.believed(&self.books.blocks, manager, list, least_chance)
    }

    /// Is a hole worth a fetch: is the chance that it will be used at least this? If not, its block is taken to be
    /// needed at the next position that names it.
    pub(crate) fn is_worth(&mut self, manager: ManagerId, list: usize, hole: u32, least_chance: f64) -> bool {
        if least_chance <= 0.0 || self.books.knowledge.chance(manager, list, hole) >= least_chance {
            return true;
        }
        self.books.knowledge.decline(&self.books.blocks, manager, list, hole);
        false
    }

    /// Is there a frame for a fetch of the block at position `hole` of a list: an empty one, that of a block that no list
    /// names, or that of one that is needed later, whichever list names it?
    pub(crate) fn is_frame_free(&mut self, manager: ManagerId, list: usize, hole: u32) -> bool {
        let Some(l) = self.list(manager, list) else { return self.books.frames.empty() > 0 };
        let distance = hole.saturating_sub(l.cursor());
        // The one that would be given up. Were it needed sooner, another list would take its place back at once. So it would if
        // it were needed at about the same time: readers are now quicker and now slower than each other.
        let uneven = if self.list_count(manager) > 1 { distance / UNEVEN } else { 0 };
        self.free_of_unlisted(manager, distance) > 0
            || self
                .books
                .knowledge
                .furthest(&self.books.blocks, manager)
                .is_some_and(|(_, far)| far > distance.saturating_add(uneven))
    }

    /// Are more than `margin` blocks free for a fetch of the block at position `hole` of a list: empty frames, blocks
    /// that no list names, and blocks that this list names after the hole?
    pub(crate) fn free_blocks_exceed(&self, manager: ManagerId, list: usize, hole: u32, margin: u32) -> bool {
        let Some(list) = self.list(manager, list) else { return self.books.frames.empty() > margin };
        let mut free = self.free_of_unlisted(manager, hole.saturating_sub(list.cursor()));
        let mut next_use = list.furthest();
        while free <= margin {
            match next_use {
                Some(position) if position > hole => {
                    free += 1;
                    next_use = list.furthest_before(position);
                }
                _ => return false,
            }
        }
        true
    }

    /// Empty frames, and those of blocks that no list names and that are worth less than one needed in so many references.
    fn free_of_unlisted(&self, manager: ManagerId, distance: u32) -> u32 {
        let empty = self.books.frames.empty();
        let unlisted = self.books.managers.unlisted_chance(manager);
        if unlisted != 0.0 && self.books.listed_worth(manager, distance) <= unlisted {
            // They would not be given up. A listed block would go in their place, and be the next hole.
            return empty;
        }
        empty.saturating_add(self.books.managers.pools(manager).map_or(0, |p| p.spare() as u32))
    }

    /// How the last reference met its block.
    pub(crate) fn last_touch(&self) -> Touch {
        self.books.touch
    }

    /// Blocks that a manager's lists name; one that several of them name counts for each.
    pub(crate) fn named_blocks(&self, manager: ManagerId) -> u64 {
        let streams = (0..self.list_count(manager)).filter_map(|l| self.books.knowledge.stream(manager, l));
        streams.map(|stream| u64::from(stream.distinct())).sum()
    }

    /// The positions of a list that are held.
    pub(crate) fn held_positions(&self, manager: ManagerId, list: usize) -> Range<u32> {
        self.books.knowledge.stream(manager, list).map_or(0..0, |stream| stream.first()..stream.len())
    }

    /// Where a block is on its disk, and the block.
    pub(crate) fn place_of(&self, b: BlockId) -> (DiskId, u64, Block) {
        let block = self.books.blocks[b].block;
        let (disk, address) = self.books.blocks.place(block);
        (disk, address, block)
    }

    /// Where the place of a block ends on its disk.
    pub(crate) fn end_of(&self, block: Block) -> u64 {
        self.books.blocks.place_end(block)
    }

    /// The record of a block, if there is one.
    pub(crate) fn find(&self, block: Block) -> Option<BlockId> {
        self.books.blocks.find(block)
    }

    /// Where a block is.
    pub(crate) fn spot_of(&self, block: Block) -> (DiskId, u64) {
        self.books.blocks.place(block)
    }

    /// Could a fetch be asked for of this block, which nobody has referenced since a list named it?
    pub(crate) fn is_left(&self, b: BlockId) -> bool {
        self.is_fetchable(b) && !self.books.blocks[b].is(Mark::Met)
    }

    /// The record of such a block.
    pub(crate) fn find_left(&self, block: Block) -> Option<BlockId> {
        self.books.blocks.find(block).filter(|&b| self.is_left(b))
    }

    // ---- what can be done ----

    /// Starts to fetch an absent block into a frame made free for it; false if no frame can be had.
    pub(crate) fn prefetch(&mut self, manager: ManagerId, b: BlockId) -> bool {
        self.books.prefetch(self.now, manager, b)
    }

    /// The same for a block that a list names, on the manager's credit where lists may be wrong; false also if that is
    /// used up.
    pub(crate) fn prefetch_listed(&mut self, manager: ManagerId, b: BlockId) -> bool {
        let doubts = self.books.config.prefetch.doubts_lists();
        if doubts
            && (!self.books.credit.has_room(manager)
                || !self.can_afford()
                || self.books.managers.is_in_vain(manager, self.now))
        {
            return false;
        }
        let begun = self.prefetch(manager, b);
        if begun {
            self.books.fetches.set_listed(&self.books.blocks, b);
        }
        // A manager that has ended owns nothing.
        if begun && doubts && self.books.blocks[b].owner() == Some(manager) {
            self.books.blocks[b].set(Mark::OnCredit, true);
            self.books.credit.fetched(manager);
        }
        begun
    }

    /// The same for a block that adjoins one which was asked for. It is on no credit: as many are fetched as cost what the one
    /// has cost.
    pub(crate) fn prefetch_along(&mut self, manager: ManagerId, b: BlockId) -> bool {
        let is_wasted = self.is_full() && self.books.managers.wastes_prefetches(manager);
        let is_in_vain = is_wasted || self.books.managers.is_in_vain(manager, self.now);
        if is_in_vain || !self.can_afford() || !self.prefetch(manager, b) {
            return false;
        }
        self.books.fetches.set_listed(&self.books.blocks, b);
        true
    }

    /// The same for a block of which it is only known that it will be used some time: nothing is replaced for it but what
    /// was used, and nothing any more once one in five has gone unused.
    pub(crate) fn prefetch_unordered(&mut self, manager: ManagerId, b: BlockId) -> bool {
        let is_full = self.is_full();
        let has_room = self.books.managers.pools(manager).is_some_and(|pools| pools.takes_unordered(is_full));
        let is_wasted = is_full && self.books.managers.wastes_prefetches(manager);
        let is_in_vain = is_wasted || self.books.managers.is_in_vain(manager, self.now);
        if !has_room || is_in_vain || !self.can_afford() || !self.prefetch(manager, b) {
            return false;
        }
        self.books.fetches.set_listed(&self.books.blocks, b);
        true
    }

    /// May lists have one more fetch under way?
    fn can_afford(&self) -> bool {
        let disks = u32::from(self.books.config.disks.max(1));
        self.books.fetches.of_lists() < self.books.affordable.saturating_mul(disks)
    }

    /// Takes a cached block for one that was just referenced.
    pub(crate) fn touch(&mut self, b: BlockId) {
        self.books.frames.touch(&mut self.books.blocks, b);
    }

    /// Gives up a cached block now, because a schedule says so.
    pub(crate) fn evict(&mut self, b: BlockId) {
        if self.books.blocks[b].state == State::Cached {
            self.books.evict(b);
        }
    }
}
