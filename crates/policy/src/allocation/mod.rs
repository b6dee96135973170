//! Allocation: which block makes room for another one (Cao et al. 1996, section 3.2).
//!
//! All blocks with a frame are in one global list in order of their last reference, with two changes.
//! To make room, the *candidate* is the least recently used block, or the block that a placeholder of
//! the missing one points to. If the candidate has an owner that controls its blocks, the owner may
//! give up another one instead; then
//!
//! - the two are *swapped* in the global list, so that a manager is not asked again and again because
//!   it keeps an old block, and
//! - a *placeholder* remembers the choice, so that the manager pays for it if it was wrong.
//!
//! LRU-S leaves out the placeholders, ALLOC-LRU both, global LRU never asks.

pub(crate) mod placeholders;

use crate::blocks::{BlockId, Mark, NO_POOL, State};
use crate::config::{Allocation, Residency};
use crate::control::revocation::Verdict;
use crate::engine::Engine;
use crate::event::Action;
use crate::ids::{ManagerId, ProcessId};
use crate::recency::NONE;

impl Engine {
    /// Makes room for one more block; false if every block that has a frame is on its way.
    pub(crate) fn make_room(&mut self, missing: BlockId) -> bool {
        let placeholder = self.placeholders.take(&mut self.blocks, missing);
        if self.used_blocks < self.config.cache_blocks {
            return true;
        }
        if let Some((_, manager)) = placeholder {
            self.count_mistake(manager);
        }
        let candidate = match placeholder {
            Some((to, _)) if self.blocks[to].state == State::Cached => Some(to),
            _ => self.least_recently_used(),
        };
        let Some(candidate) = candidate else { return false };
        let victim = self.consult(candidate);
        self.evict(victim);
        true
    }

    /// The first block of the global list that could be replaced.
    fn least_recently_used(&mut self) -> Option<BlockId> {
        let front = self.global.front()?;
        if self.blocks[front].state == State::Cached {
            return Some(front);
        }
        self.global.iter().find(|&b| self.blocks[b].state == State::Cached)
    }

    /// Asks the candidate's owner which block to replace, and keeps the books on its answer.
    fn consult(&mut self, candidate: BlockId) -> BlockId {
        let Some(manager) = self.owner_of(candidate) else { return candidate };
        let victim = self.choice_of(manager).unwrap_or(candidate);
        self.count_decision(manager, victim != candidate);
        if victim != candidate {
            self.keep_instead(manager, candidate, victim);
        }
        victim
    }

    /// Which of its blocks a manager gives up, `None` if it leaves the decision to the allocation.
    fn choice_of(&mut self, manager: ManagerId) -> Option<BlockId> {
        let m = &mut self.managers[manager.0 as usize];
        if self.config.allocation == Allocation::GlobalLru || m.standing.is_revoked() {
            return None;
        }
        let pools = m.pools.as_mut()?;
        if let Some(b) = pools.victim() {
            return Some(b);
        }
        if let Some(list) = self.disclosures.list(manager)
            && let Some(position) = list.furthest()
        {
            return Some(self.disclosures.block_at(list, position));
        }
        pools.oldest_arriving()
    }

    /// The owner keeps `candidate` and gives up `victim`: swap, and remember.
    fn keep_instead(&mut self, manager: ManagerId, candidate: BlockId, victim: BlockId) {
        if self.config.allocation == Allocation::AllocLru {
            return;
        }
        let (a, c) = (self.blocks[candidate].global_place, self.blocks[victim].global_place);
        self.global.swap(a, c);
        self.blocks[candidate].global_place = c;
        self.blocks[victim].global_place = a;
        if self.config.allocation == Allocation::LruSp {
            self.placeholders.redirect(&mut self.blocks, victim, candidate);
            self.placeholders.add(&mut self.blocks, victim, candidate, manager);
        }
    }

    /// Gives up a cached block because its frame is needed.
    pub(crate) fn evict(&mut self, b: BlockId) {
        let block = self.blocks[b].block;
        let charged_to = self.blocks[b].charged_to();
        self.count(charged_to, block.file, |c| c.evictions += 1);
        let state = match self.config.residency {
            Residency::Exact => State::Absent,
            Residency::Advisory => State::Leaving,
        };
        self.release(b, state);
        self.actions.push_back(Action::Evict { block });
    }

    /// Gives a block a frame: it is in flight or cached from now on, and the most recently used.
    pub(crate) fn occupy(&mut self, b: BlockId, state: State, owner: Option<ManagerId>, process: ProcessId) {
        self.used_blocks += 1;
        let place = self.global.push_back(b, |m, p| self.blocks[m].global_place = p);
        let owner = owner.filter(|m| self.managers[m.0 as usize].alive);
        if let Some(m) = owner {
            self.managers[m.0 as usize].owned += 1;
        }
        let record = &mut self.blocks[b];
        record.state = state;
        record.global_place = place;
        record.set_owner(owner);
        record.set(Mark::Shared, false);
        (record.pool, record.place) = (NO_POOL, NONE);
        record.set(Mark::Temporary, false);
        debug_assert_eq!(record.placeholder, NONE, "taken when room was made");
        record.charge(process);
        self.disclosures.refresh(&self.blocks, b);
    }

    /// Takes a block's frame away.
    pub(crate) fn release(&mut self, b: BlockId, state: State) {
        self.used_blocks -= 1;
        self.leave_pools(b);
        self.disown(b);
        self.global.remove(self.blocks[b].global_place);
        let record = &mut self.blocks[b];
        record.global_place = NONE;
        record.state = state;
        record.set(Mark::Shared, false);
        record.set(Mark::Demanded, false);
        let wasted = record.take(Mark::Prefetched);
        let (file, charged_to) = (record.block.file, record.charged_to());
        if wasted {
            self.count(charged_to, file, |c| c.prefetches_wasted += 1);
        }
        self.placeholders.delete_all_to(&mut self.blocks, b);
        self.disclosures.refresh(&self.blocks, b);
        self.blocks.forget_if_idle(b);
    }

    /// A manager was asked to give up a block.
    fn count_decision(&mut self, manager: ManagerId, overruled: bool) {
        let m = &mut self.managers[manager.0 as usize];
        m.counters.consulted += u64::from(m.pools.is_some());
        m.counters.overruled += u64::from(overruled);
        if let Some(rule) = &self.config.revocation
            && m.standing.replaced(rule) == Some(Verdict::Reinstated)
        {
            m.counters.reinstatements += 1;
        }
    }

    /// A placeholder proved a manager's decision wrong.
    fn count_mistake(&mut self, manager: ManagerId) {
        let m = &mut self.managers[manager.0 as usize];
        if !m.alive {
            return;
        }
        m.counters.placeholders_used += 1;
        if let Some(rule) = &self.config.revocation
            && m.standing.mistaken(rule) == Some(Verdict::Revoked)
        {
            m.counters.revocations += 1;
        }
    }
}
