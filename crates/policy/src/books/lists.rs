//! Lists at work: appending to them, moving the cursor with the references, giving them up.

use super::Books;
use crate::action::Action;
use crate::blocks::{BlockId, NO_POOL, State};
use crate::ids::{Block, ManagerId};
use crate::knowledge::Match;
use crate::recency::NONE;

impl Books {
    /// Appends to the manager's list; gives how many were taken.
    pub(crate) fn disclose(&mut self, manager: ManagerId, blocks: &[Block]) -> usize {
        if !self.managers.is_alive(manager) {
            return 0;
        }
        self.control(manager);
        let room = self.config.limits.disclosed_blocks as usize - self.disclosed_ahead(manager);
        let mut taken = 0;
        for &block in blocks.iter().take(room) {
            let Some(b) = self.blocks.find_or_add(block) else { break };
            if !self.knowledge.append(&mut self.blocks, manager, b) {
                break;
            }
            if self.blocks[b].pool != NO_POOL && self.owner_of(b) == Some(manager) {
                self.leave_pools(b);
            }
            taken += 1;
        }
        taken
    }

    /// References of the manager's list that lie ahead of its cursor.
    pub(crate) fn disclosed_ahead(&self, manager: ManagerId) -> usize {
        self.knowledge.list(manager).map_or(0, |l| l.ahead() as usize)
    }

    /// Withdraws or discards a manager's list: its cached blocks fall to the pools in order of recency.
    pub(crate) fn cancel(&mut self, manager: ManagerId) {
        let had_list = self.knowledge.list(manager).is_some();
        let mut cached = self.knowledge.discard(&mut self.blocks, manager);
        cached.retain(|&b| {
            self.blocks.forget_if_idle(b);
            self.blocks[b].state == State::Cached
        });
        cached.sort_by_key(|&b| self.blocks[b].global_place);
        for b in cached {
            self.settle(b);
        }
        if had_list {
            self.actions.push_back(Action::CancelPrefetches { manager });
        }
    }

    /// Moves the cursor of the manager's list over the reference, if the list named it.
    pub(super) fn match_list(&mut self, manager: ManagerId, b: BlockId) {
        if self.disclosed_ahead(manager) == 0 {
            return;
        }
        let mut found = self.knowledge.matching(&self.blocks, manager, b, self.config.match_ahead);
        if found == Match::Unpredicted
            && let Some(run) = self.config.resync_run
            && let Some(position) = self.knowledge.resync(&self.blocks, manager, b, run)
        {
            found = Match::At(position);
        }
        let predicted = found != Match::Unpredicted;
        if let Match::At(position) = found {
            let cursor = self.knowledge.list(manager).map_or(0, |l| l.cursor());
            for _ in cursor..position {
                self.skip(manager);
            }
            self.knowledge.pass(&mut self.blocks, manager);
            self.knowledge.trim(manager);
        }
        if let Some(counters) = self.managers.counters_mut(manager) {
            counters.predicted += u64::from(predicted);
            counters.unpredicted += u64::from(!predicted);
        }
        let Some(rule) = &self.config.distrust else { return };
        let Some(list) = self.knowledge.list_mut(manager) else { return };
        if list.trust.judge(rule, predicted) {
            if let Some(counters) = self.managers.counters_mut(manager) {
                counters.lists_discarded += 1;
            }
            self.cancel(manager);
        }
    }

    /// Takes the next position of the list as having happened, though it did not.
    fn skip(&mut self, manager: ManagerId) {
        if let Some(counters) = self.managers.counters_mut(manager) {
            counters.skipped += 1;
        }
        let (b, named_again) = self.knowledge.pass(&mut self.blocks, manager);
        if named_again || b == NONE {
            return;
        }
        if self.blocks[b].state == State::Cached && self.owner_of(b) == Some(manager) {
            if let Some(pools) = self.managers.pools_mut(manager)
                && self.blocks[b].pool == NO_POOL
            {
                pools.insert_passed_over(&mut self.blocks, b);
            }
        } else {
            self.blocks.forget_if_idle(b);
        }
    }
}
