//! Lists at work: appending to them, moving the cursor with the references, giving them up.

use super::Match;
use crate::blocks::{BlockId, NO_POOL, State};
use crate::engine::Engine;
use crate::event::Action;
use crate::ids::{Block, ManagerId, Nanos};
use crate::prefetch::Trigger;
use crate::recency::NONE;

impl Engine {
    /// Appends to the manager's list of future references, in order. Returns how many were taken: fewer
    /// than all when [`crate::Limits::disclosed_blocks`] lie ahead of the cursor already, or a block's
    /// file is not known. The rest can be appended when the cursor has moved on.
    pub fn disclose(&mut self, now: Nanos, manager: ManagerId, blocks: &[Block]) -> usize {
        if !self.managers[manager.0 as usize].alive {
            return 0;
        }
        self.control(manager);
        let room = self.config.limits.disclosed_blocks as usize - self.disclosed_ahead(manager);
        let mut taken = 0;
        for &block in blocks.iter().take(room) {
            let Some(b) = self.blocks.find_or_add(block) else { break };
            if !self.disclosures.append(&mut self.blocks, manager, b) {
                break;
            }
            if self.blocks[b].pool != NO_POOL && self.owner_of(b) == Some(manager) {
                self.leave_pools(b);
            }
            taken += 1;
        }
        self.plan(now, manager, Trigger::Opportunity);
        taken
    }

    /// References of the manager's list that lie ahead of its cursor.
    #[must_use]
    pub fn disclosed_ahead(&self, manager: ManagerId) -> usize {
        self.disclosures.list(manager).map_or(0, |l| l.ahead() as usize)
    }

    /// Withdraws or discards a manager's list: its cached blocks fall to the pools in order of recency.
    pub(crate) fn cancel(&mut self, manager: ManagerId) {
        let had_list = self.disclosures.list(manager).is_some();
        let mut cached = self.disclosures.discard(&mut self.blocks, manager);
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
    pub(crate) fn match_list(&mut self, manager: ManagerId, b: BlockId) {
        if self.disclosed_ahead(manager) == 0 {
            return;
        }
        let mut found = self.disclosures.matching(&self.blocks, manager, b, self.config.match_ahead);
        if found == Match::Unpredicted
            && let Some(run) = self.config.resync_run
            && let Some(position) = self.disclosures.resync(&self.blocks, manager, b, run)
        {
            found = Match::At(position);
        }
        let predicted = found != Match::Unpredicted;
        if let Match::At(position) = found {
            let cursor = self.disclosures.list(manager).map_or(0, |l| l.cursor());
            for _ in cursor..position {
                self.skip(manager);
            }
            self.disclosures.pass(&mut self.blocks, manager);
            self.disclosures.trim(manager);
        }
        let counters = &mut self.managers[manager.0 as usize].counters;
        counters.predicted += u64::from(predicted);
        counters.unpredicted += u64::from(!predicted);
        let Some(rule) = &self.config.distrust else { return };
        let Some(list) = self.disclosures.list_mut(manager) else { return };
        if list.trust.judge(rule, predicted) {
            self.managers[manager.0 as usize].counters.lists_discarded += 1;
            self.cancel(manager);
        }
    }

    /// Takes the next position of the list as having happened, though it did not.
    fn skip(&mut self, manager: ManagerId) {
        self.managers[manager.0 as usize].counters.skipped += 1;
        let (b, named_again) = self.disclosures.pass(&mut self.blocks, manager);
        if named_again || b == NONE {
            return;
        }
        if self.blocks[b].state == State::Cached && self.owner_of(b) == Some(manager) {
            if let Some(pools) = &mut self.managers[manager.0 as usize].pools
                && self.blocks[b].pool == NO_POOL
            {
                pools.insert_passed_over(&mut self.blocks, b);
            }
        } else {
            self.blocks.forget_if_idle(b);
        }
    }
}
