//! Prefetching: what to fetch before it is referenced. One file an algorithm.
//!
//! An algorithm looks at one manager's list (or at the reference just made) and calls
//! [`Engine::prefetch`] for one block after the other; the engine makes room for each at once, by the
//! allocation's rules, and hands the batch to the plane in the configured [`crate::Order`].

mod aggressive;
mod controlled_aggressive;
mod fixed_horizon;
pub(crate) mod forestall;
mod one_block;
pub(crate) mod reverse_aggressive;
pub(crate) mod sequential;

use crate::blocks::{BlockId, Mark, State};
use crate::config::{Order, Prefetch};
use crate::engine::Engine;
use crate::event::{Action, Reason};
use crate::ids::{Block, ManagerId, Nanos};

/// What made the engine ask what to prefetch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trigger {
    /// A process referenced this block.
    Reference(Block),
    /// A fetch ended, or the list grew.
    Opportunity,
}

impl Engine {
    /// Asks the configured algorithm what to fetch for `manager` now.
    pub(crate) fn plan(&mut self, now: Nanos, manager: ManagerId, trigger: Trigger) {
        match self.config.prefetch {
            Prefetch::None => {}
            Prefetch::OneBlock => self.plan_one_block(now, manager, trigger),
            Prefetch::ControlledAggressive => self.plan_controlled_aggressive(now, manager),
            Prefetch::Bsd => self.plan_bsd(now, manager, trigger),
            Prefetch::Linux => self.plan_linux(now, manager, trigger),
            Prefetch::FixedHorizon => self.plan_fixed_horizon(now, manager),
            Prefetch::Aggressive => self.plan_aggressive(now, manager),
            Prefetch::Forestall => self.plan_forestall(now, manager),
            Prefetch::ReverseAggressive => self.plan_reverse_aggressive(now, manager),
        }
        self.hand_over_batch(manager);
    }

    /// Starts to fetch an absent block into a frame made free for it; false if no frame can be had.
    pub(crate) fn prefetch(&mut self, now: Nanos, manager: ManagerId, b: BlockId) -> bool {
        debug_assert!(matches!(self.blocks[b].state, State::Absent | State::Leaving));
        if !self.make_room(b) {
            return false;
        }
        let process = self.managers[manager.0 as usize].last_process;
        self.occupy(b, State::InFlight, Some(manager), process);
        let number = self.start_fetch(b, manager);
        let record = &mut self.blocks[b];
        record.set(Mark::Prefetched, true);
        record.set(Mark::Referenced, false);
        let file = record.block.file;
        self.count(process, file, |c| c.prefetches += 1);
        if let Some(timeout) = self.config.fetch_timeout {
            self.deadlines.push_back((now.saturating_add(timeout), b, number));
        }
        self.batch.push(b);
        true
    }

    /// Are more than `margin` blocks free for a fetch of the block at position `hole` of the manager's
    /// list: empty frames, blocks that the list does not name, and blocks that it names after the hole?
    pub(crate) fn free_blocks_exceed(&self, manager: ManagerId, hole: u32, margin: u32) -> bool {
        let m = &self.managers[manager.0 as usize];
        let empty = self.config.cache_blocks.saturating_sub(self.used_blocks);
        let mut free = empty.saturating_add(m.pools.as_ref().map_or(0, |p| p.len() as u32));
        let Some(list) = self.disclosures.list(manager) else { return free > margin };
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

    /// Gives the batch to the plane, in order.
    fn hand_over_batch(&mut self, manager: ManagerId) {
        if self.config.order == Order::Ascending {
            let blocks = &self.blocks;
            self.batch.sort_by_key(|&b| blocks.locate(b));
        }
        for b in self.batch.drain(..) {
            let block = self.blocks[b].block;
            self.actions.push_back(Action::Fetch { block, reason: Reason::Prefetch, manager });
        }
    }
}
