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

use super::Books;
use super::credit::Credit;
use crate::blocks::{BlockId, Mark, NO_POOL, State};
use crate::config::Allocation;
use crate::control::Fate;
use crate::ids::{ManagerId, ProcessId};
use crate::recency::NONE;

impl Books {
    /// Makes room for one more block; false if every block that has a frame is on its way.
    pub(super) fn make_room(&mut self, missing: BlockId) -> bool {
        let placeholder = self.placeholders.take(&mut self.blocks, missing);
        if self.frames.empty() > 0 {
            return true;
        }
        if let Some((_, manager)) = placeholder {
            self.managers.count_mistake(manager);
        }
        let candidate = match placeholder {
            Some((to, _)) if self.blocks[to].state == State::Cached => Some(to),
            _ => self.frames.least_recently_used(&mut self.blocks),
        };
        let Some(candidate) = candidate else { return false };
        let victim = self.consult(candidate);
        self.remember_unlisted(victim);
        self.evict(victim);
        true
    }

    /// The block that a manager gives up for one that it fetches ahead, if it has more ahead than has been right before;
    /// `None` if there is room, or to be made as for a miss.
    pub(super) fn payment(&mut self, missing: BlockId, manager: ManagerId) -> Option<BlockId> {
        if self.frames.empty() > 0 || !self.managers.pays_for_prefetches(manager) {
            return None;
        }
        let victim = self.choice_of(manager)?;
        if let Some((_, mistaken)) = self.placeholders.take(&mut self.blocks, missing) {
            self.managers.count_mistake(mistaken);
        }
        self.remember_unlisted(victim);
        Some(victim)
    }

    /// A block that has a frame by now takes the place of one that its manager gives up for it: nobody's block is nearer
    /// to its end than before.
    pub(super) fn pay(&mut self, new: BlockId, victim: BlockId) {
        self.frames.swap(&mut self.blocks, new, victim);
        self.evict(victim);
    }

    /// What becomes of a block that is fetched ahead.
    pub(super) fn count_prefetched(&mut self, b: BlockId, fate: Fate) {
        if let Some(owner) = self.blocks[b].owner() {
            self.managers.count_prefetched(owner, fate);
        }
    }

    /// A block is replaced: if no list names it, it is seen whether it is missed.
    fn remember_unlisted(&mut self, b: BlockId) {
        if let Some(owner) = self.owner_of(b)
            && !self.knowledge.names(&self.blocks, owner, b)
            && let Some(ghosts) = self.managers.ghosts_mut(owner)
        {
            ghosts.remember(self.blocks[b].block);
        }
    }

    /// The cache has another size: evicts what is too much. What is on its way is evicted when it is there ([`Books::shed`]).
    pub(crate) fn resize(&mut self, cache_blocks: u32) {
        self.config.cache_blocks = cache_blocks.max(1);
        self.credit.set_cache_blocks(cache_blocks);
        self.frames.set_cache_blocks(cache_blocks);
        self.managers.set_cache_blocks(cache_blocks);
        self.shed();
    }

    /// Evicts what is too much, as far as it is there: the cache has become smaller, or the kernel has loaded something when all
    /// frames were taken by what is on its way.
    pub(crate) fn shed(&mut self) {
        while self.frames.is_overfull() {
            let Some(candidate) = self.frames.least_recently_used(&mut self.blocks) else { return };
            let victim = self.consult(candidate);
            self.evict(victim);
        }
    }

    /// Asks the candidate's owner which block to replace, and keeps the books on its answer.
    fn consult(&mut self, candidate: BlockId) -> BlockId {
        let Some(manager) = self.owner_of(candidate) else { return candidate };
        let victim = self.choice_of(manager).unwrap_or(candidate);
        self.managers.count_decision(manager, victim != candidate);
        if victim != candidate {
            self.keep_instead(manager, candidate, victim);
        }
        victim
    }

    /// Which of its blocks a manager gives up, `None` if it leaves the decision to the allocation.
    fn choice_of(&mut self, manager: ManagerId) -> Option<BlockId> {
        let is_asked = !self.managers.is_revoked(manager) && !self.knowledge.is_suspended(manager);
        if self.config.allocation == Allocation::GlobalLru || !is_asked {
            return None;
        }
        let unlisted = self.managers.unlisted_chance(manager);
        let pools = self.managers.pools_mut(manager)?;
        let named_in_vain = pools.has_passed_over();
        if let Some(b) = pools.victim() {
            // What no list names goes first, unless that is missed more often than what a list names last.
            if unlisted == 0.0 || named_in_vain {
                return Some(b);
            }
            return match self.knowledge.furthest(&self.blocks, manager) {
                Some((far, distance)) if self.listed_worth(manager, distance) < unlisted => Some(far),
                _ => Some(b),
            };
        }
        if let Some((b, _)) = self.knowledge.furthest(&self.blocks, manager) {
            return Some(b);
        }
        pools.arriving_victim()
    }

    /// The chance per reference that a block is needed which a list names `distance` references ahead.
    pub(super) fn listed_worth(&self, _manager: ManagerId, distance: u32) -> f64 {
        1.0 / f64::from(distance.max(1))
    }

    /// The owner keeps `candidate` and gives up `victim`: swap, and remember.
    fn keep_instead(&mut self, manager: ManagerId, candidate: BlockId, victim: BlockId) {
        if self.config.allocation == Allocation::AllocLru {
            return;
        }
        self.frames.swap(&mut self.blocks, candidate, victim);
        if self.config.allocation == Allocation::LruSp {
            self.placeholders.redirect(&mut self.blocks, victim, candidate);
            self.placeholders.add(&mut self.blocks, victim, candidate, manager);
        }
    }

    /// Gives a block a frame: it is in flight or cached from now on, and the most recently used.
    pub(super) fn occupy(&mut self, b: BlockId, state: State, owner: Option<ManagerId>, process: ProcessId) {
        self.frames.give(&mut self.blocks, b);
        let owner = owner.filter(|&m| self.managers.is_alive(m));
        if let Some(m) = owner {
            self.managers.own(m);
        }
        let record = &mut self.blocks[b];
        record.state = state;
        record.set_owner(owner);
        record.set(Mark::Shared, false);
        (record.pool, record.place) = (NO_POOL, NONE);
        record.set(Mark::Temporary, false);
        debug_assert_eq!(record.placeholder, NONE, "taken when room was made");
        record.charge(process);
        self.knowledge.refresh(&self.blocks, b);
    }

    /// Takes a block's frame away.
    pub(super) fn release(&mut self, b: BlockId, state: State) {
        self.settle_credit(b, Credit::lost);
        if self.blocks[b].is(Mark::Prefetched) {
            self.count_prefetched(b, Fate::Wasted);
        }
        self.leave_pools(b);
        self.disown(b);
        self.frames.take(&mut self.blocks, b);
        let record = &mut self.blocks[b];
        record.state = state;
        record.set(Mark::Shared, false);
        record.set(Mark::Demanded, false);
        let wasted = record.take(Mark::Prefetched);
        let (file, charged_to) = (record.block.file, record.charged_to());
        if wasted {
            self.accounts.count(charged_to, file, |c| c.prefetches_wasted += 1);
        }
        self.placeholders.delete_all_to(&mut self.blocks, b);
        self.knowledge.refresh(&self.blocks, b);
        self.blocks.forget_if_idle(b);
    }
}
