//! Whose a block is, and what its manager has said of it: directives at work.

use super::Books;
use crate::blocks::{BlockId, Mark, NO_POOL, State};
use crate::config::Residency;
use crate::control::Pools;
use crate::ids::{FileId, ManagerId};
use crate::input::LimitReached;
use crate::pool_policy::PoolPolicy;
use crate::recency::NONE;

impl Books {
    // ---- directives ----

    pub(crate) fn set_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        priority: i32,
    ) -> Result<(), LimitReached> {
        self.control(manager);
        match self.managers.pools_mut(manager) {
            Some(pools) => pools.set_priority(&mut self.blocks, file, priority),
            None => Ok(()),
        }
    }

    pub(crate) fn set_policy(
        &mut self,
        manager: ManagerId,
        priority: i32,
        policy: PoolPolicy,
    ) -> Result<(), LimitReached> {
        self.control(manager);
        match self.managers.pools_mut(manager) {
            Some(pools) => pools.set_policy(&mut self.blocks, priority, policy),
            None => Ok(()),
        }
    }

    pub(crate) fn set_temporary_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        first: u32,
        last: u32,
        priority: i32,
    ) -> Result<(), LimitReached> {
        self.control(manager);
        let chosen: Vec<BlockId> = self
            .blocks
            .of_file(file, first, last)
            .into_iter()
            .filter(|&b| self.blocks[b].pool != NO_POOL && self.owner_of(b) == Some(manager))
            .collect();
        match self.managers.pools_mut(manager) {
            Some(pools) => pools.set_temporary(&mut self.blocks, &chosen, priority),
            None => Ok(()),
        }
    }

    /// Evicts cached blocks that the manager owns and its list does not name; gives how many.
    pub(crate) fn flush(&mut self, manager: ManagerId, file: FileId, first: u32, last: u32) -> u32 {
        let mut flushed = 0;
        for b in self.blocks.of_file(file, first, last) {
            let own = self.blocks[b].state == State::Cached && self.owner_of(b) == Some(manager);
            if own && !self.knowledge.names(&self.blocks, manager, b) {
                self.evict(b);
                flushed += 1;
            }
        }
        flushed
    }

    /// Tells the shadows of a referenced block's level. What a list names is not the policies' business.
    #[inline]
    pub(super) fn observe(&mut self, manager: ManagerId, b: BlockId) {
        let record = &self.blocks[b];
        if record.first_use == NONE
            && record.owner() == Some(manager)
            && let Some(pools) = self.managers.pools_mut(manager)
        {
            pools.observe(&mut self.blocks, b);
        }
    }

    // ---- owners ----

    /// The living owner of a block.
    pub(super) fn owner_of(&self, b: BlockId) -> Option<ManagerId> {
        self.blocks[b].owner().filter(|&m| self.managers.is_alive(m))
    }

    /// A manager's process referenced a cached block: the block becomes its own if it has no living
    /// owner, and nobody's if it has another one.
    pub(super) fn adopt(&mut self, b: BlockId, manager: ManagerId) {
        let record = &self.blocks[b];
        if record.owner() == Some(manager) || record.is(Mark::Shared) {
            return;
        }
        let shared = self.owner_of(b).is_some();
        self.leave_pools(b);
        self.disown(b);
        let record = &mut self.blocks[b];
        record.set(Mark::Shared, shared);
        if !shared && self.managers.is_alive(manager) {
            record.set_owner(Some(manager));
            self.managers.own(manager);
        }
        self.knowledge.refresh(&self.blocks, b);
    }

    /// Takes the owner of a block away.
    pub(super) fn disown(&mut self, b: BlockId) {
        if let Some(owner) = self.blocks[b].owner() {
            self.managers.disown(owner);
            self.blocks[b].set_owner(None);
        }
    }

    /// Takes the blocks of managers that have ended off their hands, so that their records can be used again:
    /// once in as many ends as there are records, as it goes through the whole cache.
    pub(super) fn disown_blocks_of_ended(&mut self) {
        let ended = |b: &BlockId| self.blocks[*b].owner().is_some_and(|m| !self.managers.is_alive(m));
        let orphaned: Vec<BlockId> = self.frames.iter().filter(ended).collect();
        for b in orphaned {
            self.leave_pools(b);
            self.disown(b);
            // What they remember is the decision of a manager whose number will be another one's.
            self.placeholders.delete_all_to(&mut self.blocks, b);
        }
    }

    /// Takes a block out of its owner's pools, if it is in one.
    pub(super) fn leave_pools(&mut self, b: BlockId) {
        if self.blocks[b].pool == NO_POOL {
            return;
        }
        match self.owner_of(b).and_then(|m| self.managers.pools_mut(m)) {
            Some(pools) => pools.remove(&mut self.blocks, b),
            // The owner has ended and its pools with it.
            None => {
                let record = &mut self.blocks[b];
                record.pool = NO_POOL;
                record.set(Mark::Temporary, false);
            }
        }
    }

    /// Puts a cached block where it belongs: into its owner's pools unless the owner's list names it. A
    /// block that is there already becomes the most recently used one.
    pub(super) fn settle(&mut self, b: BlockId) {
        let Some(owner) = self.owner_of(b) else { return };
        let Some(pools) = self.managers.pools_mut(owner) else { return };
        let listed = self.blocks[b].first_use != NONE && self.knowledge.names(&self.blocks, owner, b);
        match (listed, self.blocks[b].pool != NO_POOL) {
            (true, true) => pools.remove(&mut self.blocks, b),
            (true, false) => {}
            (false, true) => pools.touch(&mut self.blocks, b),
            (false, false) => pools.insert(&mut self.blocks, b),
        }
    }

    /// The same for a block that could not be evicted: it goes to the end of its pool from which it is
    /// replaced later, so that it is not asked for again at once.
    pub(super) fn settle_for_long(&mut self, b: BlockId) {
        self.settle(b);
        if self.blocks[b].pool != NO_POOL
            && let Some(owner) = self.owner_of(b)
            && let Some(pools) = self.managers.pools_mut(owner)
        {
            pools.keep_longest(&mut self.blocks, b);
        }
    }

    /// Makes a manager a controlling one: its blocks so far fill its pools in order of recency.
    pub(super) fn control(&mut self, manager: ManagerId) {
        let (limits, cache_blocks) = (self.config.limits, self.config.cache_blocks);
        let is_live = self.config.residency == Residency::Advisory;
        let new = || {
            let (levels, files) = (limits.levels_per_manager, limits.file_records_per_manager);
            let mut pools = Pools::new(manager, levels, files, cache_blocks);
            if is_live {
                pools.follow_readers();
            }
            pools
        };
        if !self.managers.take_control(manager, new) || self.managers.owned(manager) == 0 {
            return;
        }
        let is_own =
            |&b: &BlockId| self.blocks[b].owner() == Some(manager) && self.blocks[b].state == State::Cached;
        let own: Vec<BlockId> = self.frames.iter().filter(is_own).collect();
        for b in own {
            self.settle(b);
        }
    }
}
