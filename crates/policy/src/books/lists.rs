//! Lists at work: appending to them, following the references through them, giving them up.

use super::Books;
use super::credit::Credit;
use crate::action::Action;
use crate::blocks::{BlockId, Mark, NO_POOL, State};
use crate::ids::{Block, ManagerId, ProcessId};
use crate::knowledge::Met;

/// Positions around the cursor at which a reference is taken for the one that is listed there, before its block has
/// arrived and the alignment is asked.
const ABOUT_NOW: u32 = 64;

/// Parts of a list, of which a reference in order is in the present one or beside it: readers beside each other come in
/// another order each night, and not far from it. By chance it is one of eight references.
const PARTS: u32 = 16;

/// References that wait and become positions of a list with one reference: more than one, so that a reader that passes
/// over some does not come to the end of what is held.
const HELD_AT_A_REFERENCE: u32 = 4;

impl Books {
    /// Appends to one of the manager's lists; gives how many references were taken.
    pub(crate) fn disclose(&mut self, manager: ManagerId, list: u32, blocks: &[Block]) -> usize {
        let list = list as usize;
        if !self.managers.is_alive(manager)
            || list > self.knowledge.list_count(manager)
            || !self.knowledge.begin(manager, list)
        {
            return 0;
        }
        self.control(manager);
        if self.config.prefetch.doubts_lists() {
            self.managers.measure_unlisted(manager, self.config.cache_blocks);
        }
        let ahead = self.knowledge.list(manager, list).map_or(0, |l| l.ahead() as usize);
        let room = (self.config.limits.disclosed_blocks as usize).saturating_sub(ahead);
        let mut taken = 0;
        for &block in blocks.iter().take(room) {
            if !self.knowledge.is_far(manager, list) {
                if !self.go_on(manager, list, block) {
                    break;
                }
            } else if self.blocks.is_file(block.file) {
                self.knowledge.put_off(manager, list, block);
            } else {
                break;
            }
            taken += 1;
        }
        taken
    }

    /// Some of what waits becomes positions, as the manager's readers have come nearer.
    #[inline]
    pub(crate) fn hold_more(&mut self, manager: ManagerId) {
        if !self.knowledge.is_waiting() {
            return;
        }
        for list in 0..self.knowledge.list_count(manager) {
            for _ in 0..HELD_AT_A_REFERENCE {
                let Some(block) = self.knowledge.due(manager, list) else { break };
                // The rest goes on when there is room.
                if !self.go_on(manager, list, block) && self.blocks.is_file(block.file) {
                    break;
                }
                self.knowledge.take_due(manager, list);
            }
        }
    }

    /// Appends a reference, and what completes the run that it is part of; false if there is no room.
    fn go_on(&mut self, manager: ManagerId, list: usize, block: Block) -> bool {
        if self.config.prefetch.doubts_lists() {
            for index in self.knowledge.continue_run(manager, list, block) {
                self.append(manager, list, Block::new(block.file, index), true);
            }
        }
        self.append(manager, list, block, false)
    }

    fn append(&mut self, manager: ManagerId, list: usize, block: Block, completed: bool) -> bool {
        self.knowledge.make_room(&mut self.blocks, manager, list);
        let Some(b) = self.blocks.find_or_add(block) else { return false };
        if !self.knowledge.append(&mut self.blocks, manager, list, b, completed) {
            self.blocks.forget_if_idle(b);
            return false;
        }
        self.blocks[b].set(Mark::Met, false);
        if self.blocks[b].pool != NO_POOL
            && self.owner_of(b) == Some(manager)
            && self.knowledge.names(&self.blocks, manager, b)
        {
            self.leave_pools(b);
        }
        true
    }

    /// Does a list of the manager's name this block about now?
    pub(super) fn is_expected(&self, manager: ManagerId, b: BlockId) -> bool {
        (0..self.knowledge.list_count(manager)).any(|list| {
            let cursor = self.knowledge.list(manager, list).map_or(0, |l| l.cursor());
            let next = self.knowledge.next_use(&self.blocks, manager, list, b);
            next.is_some_and(|next| next.abs_diff(cursor) <= ABOUT_NOW)
        })
    }

    /// Does a list of the manager's name this block in the part of it that its reader has come to?
    pub(super) fn is_about(&self, manager: ManagerId, b: BlockId) -> bool {
        (0..self.knowledge.list_count(manager)).any(|list| {
            let cursor = self.knowledge.list(manager, list).map_or(0, |l| l.cursor());
            let distinct = self.knowledge.stream(manager, list).map_or(0, |stream| stream.distinct());
            let next = self.knowledge.next_use(&self.blocks, manager, list, b);
            next.is_some_and(|next| next.abs_diff(cursor) <= (distinct / PARTS).max(ABOUT_NOW))
        })
    }

    /// Puts a process on one of its manager's lists.
    pub(crate) fn assign_reader(&mut self, process: ProcessId, list: u32) {
        if let Some(manager) = self.managers.of_process(process) {
            self.knowledge.assign(manager, process, list as usize);
        }
    }

    /// References of the manager's lists that lie ahead of their cursors.
    pub(crate) fn disclosed_ahead(&self, manager: ManagerId) -> usize {
        let lists = (0..self.knowledge.list_count(manager)).filter_map(|l| self.knowledge.list(manager, l));
        lists.map(|l| l.ahead() as usize).sum()
    }

    /// References of one list that lie ahead of its cursor.
    pub(crate) fn list_ahead(&self, manager: ManagerId, list: u32) -> usize {
        self.knowledge.list(manager, list as usize).map_or(0, |l| l.ahead() as usize)
    }

    /// Blocks that a list names no more fall to the pools in order of recency.
    fn settle_withdrawn(&mut self, mut named: Vec<BlockId>) {
        for &b in &named {
            self.settle_credit(b, Credit::returned);
        }
        named.retain(|&b| self.blocks[b].state == State::Cached);
        named.sort_by_key(|&b| self.blocks[b].global_place);
        for b in named {
            self.settle(b);
        }
    }

    /// Is there something to do that need not be done at once?
    #[inline]
    pub(crate) fn is_untidy(&self) -> bool {
        self.knowledge.is_withdrawing() || !self.removing.is_empty() || self.placeholders.is_untidy()
    }

    /// Does some of that: takes so many positions of withdrawn lists out, or blocks of removed files, and so many
    /// placeholders that mean nothing any more.
    pub(crate) fn tidy(&mut self, most: usize) {
        self.placeholders.tidy(&mut self.blocks, most);
        if self.knowledge.is_withdrawing() {
            for (_, named) in self.knowledge.take_out(&mut self.blocks, most) {
                self.settle_withdrawn(named);
            }
            return;
        }
        let Some((file, next)) = self.removing.pop_front() else { return };
        let end = self.blocks.part_end(file, next, u32::MAX, most);
        self.remove_part(file, next, end);
        if let Some(next) = end.checked_add(1) {
            self.removing.push_front((file, next));
        }
    }

    /// Positions of withdrawn lists that are still in the tables.
    pub(crate) fn withdrawn_positions(&self) -> usize {
        self.knowledge.withdrawn_positions()
    }

    /// Withdraws a manager's lists: its cached blocks fall to the pools in order of recency, those of a long list by and
    /// by.
    pub(crate) fn cancel(&mut self, manager: ManagerId) {
        let had_lists = self.knowledge.list_count(manager) > 0;
        let named = self.knowledge.withdraw(&mut self.blocks, manager);
        self.settle_withdrawn(named);
        if had_lists {
            self.actions.push_back(Action::CancelPrefetches { manager });
        }
    }

    /// A manager is treated as the plain kernel treats it from now on, or as its lists say again: they say nothing of any
    /// block meanwhile, and nobody is asked which block is to go.
    pub(crate) fn suspend(&mut self, manager: ManagerId, suspended: bool) {
        if self.knowledge.is_suspended(manager) == suspended {
            return;
        }
        self.knowledge.suspend(manager, suspended);
        let is_own =
            |&b: &BlockId| self.blocks[b].owner() == Some(manager) && self.blocks[b].state == State::Cached;
        let own: Vec<BlockId> = self.frames.iter().filter(is_own).collect();
        for b in own {
            self.settle(b);
        }
    }

    /// Matches a reference against the manager's lists; says whether one had predicted it. Blocks that it shows to be
    /// named in vain are the first that the manager gives up.
    pub(super) fn match_list(&mut self, manager: ManagerId, process: ProcessId, b: BlockId) -> bool {
        let met = self.knowledge.reference(&self.blocks, manager, process, b);
        // Also a reference that is not counted, as one behind the end of the lists, may leave blocks without a next use.
        if met == Met::default() && self.knowledge.list_count(manager) == 0 {
            return false;
        }
        self.passed_over = self.passed_over.saturating_add(met.skipped);
        if let Some(counters) = self.managers.counters_mut(manager) {
            counters.predicted += u64::from(met.predicted);
            counters.unpredicted += u64::from(met.unpredicted);
            counters.skipped += u64::from(met.skipped);
            counters.lists_discarded += u64::from(met.put_aside);
        }
        while let Some(passed) = self.knowledge.take_unlisted() {
            if passed != b {
                self.place_unlisted(manager, passed);
            }
        }
        // What it was fetched for has not happened, whatever else names it.
        while let Some(passed) = self.knowledge.take_passed_by() {
            self.settle_credit(passed, Credit::lost);
        }
        met.predicted > 0
    }

    /// What was fetched on credit shows whether that was right: `fate` says how, once a fetch.
    pub(super) fn settle_credit(&mut self, b: BlockId, fate: fn(&mut Credit, ManagerId)) {
        if self.blocks[b].take(Mark::OnCredit)
            && let Some(owner) = self.blocks[b].owner()
        {
            fate(&mut self.credit, owner);
        }
    }

    /// Was this block fetched because it is listed, at whatever place, and not used yet? What the order of a list fetches is on
    /// credit, where lists may be wrong.
    pub(super) fn is_unordered(&self, b: BlockId) -> bool {
        let record = &self.blocks[b];
        self.config.prefetch.doubts_lists() && record.is(Mark::Prefetched) && !record.is(Mark::OnCredit)
    }

    /// A block lost its next use, or found one again: it goes to the pools, or out of them.
    fn place_unlisted(&mut self, manager: ManagerId, b: BlockId) {
        let named = self.knowledge.names(&self.blocks, manager, b);
        // Of what was fetched whatever the order is, the order tells nothing.
        let is_awaited = self.is_unordered(b);
        // Also if it is still on its way.
        if !named {
            self.settle_credit(b, Credit::lost);
        }
        if self.blocks[b].state != State::Cached || self.owner_of(b) != Some(manager) {
            return;
        }
        if named {
            self.leave_pools(b);
        } else if self.blocks[b].pool == NO_POOL
            && let Some(pools) = self.managers.pools_mut(manager)
        {
            if is_awaited {
                pools.insert(&mut self.blocks, b);
            } else {
                pools.insert_passed_over(&mut self.blocks, b);
            }
        }
    }
}
