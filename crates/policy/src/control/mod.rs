//! Control: what a manager may say about the replacement of its own blocks, when it loses the right, and
//! whose blocks are whose.
//!
//! The interface is that of Cao, Felten, Li 1994, section 3: priorities of files, policies of priority
//! levels, temporary priorities of blocks. A manager that has said nothing is oblivious and costs
//! nothing; its first directive or disclosure makes it a controlling one.

pub(crate) mod pools;
pub(crate) mod revocation;

use crate::blocks::{BlockId, Mark, NO_POOL, State};
use crate::engine::Engine;
use crate::event::LimitReached;
use crate::ids::{FileId, ManagerId};
use crate::pool_policy::PoolPolicy;
use crate::recency::NONE;
use crate::shadow::ShadowReport;
use pools::Pools;

impl Engine {
    /// Sets the long-term priority of a file; 0 unless set. Blocks of lower priority are replaced first.
    ///
    /// # Errors
    /// When the manager has as many levels or file records as [`crate::Limits`] allows.
    pub fn set_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        priority: i32,
    ) -> Result<(), LimitReached> {
        self.control(manager);
        match &mut self.managers[manager.0 as usize].pools {
            Some(pools) => pools.set_priority(&mut self.blocks, file, priority),
            None => Ok(()),
        }
    }

    /// The long-term priority of a file.
    #[must_use]
    pub fn priority(&self, manager: ManagerId, file: FileId) -> i32 {
        self.pools(manager).map_or(0, |p| p.priority(file))
    }

    /// Sets the replacement policy of a priority level; LRU unless set.
    ///
    /// # Errors
    /// When the manager has as many levels as [`crate::Limits`] allows, or eight adaptive ones.
    pub fn set_policy(
        &mut self,
        manager: ManagerId,
        priority: i32,
        policy: PoolPolicy,
    ) -> Result<(), LimitReached> {
        self.control(manager);
        match &mut self.managers[manager.0 as usize].pools {
            Some(pools) => pools.set_policy(&mut self.blocks, priority, policy),
            None => Ok(()),
        }
    }

    /// The replacement policy of a priority level.
    #[must_use]
    pub fn policy(&self, manager: ManagerId, priority: i32) -> PoolPolicy {
        self.pools(manager).map_or(PoolPolicy::default(), |p| p.policy(priority))
    }

    /// How policies compare on the references of a level, and which one it follows; `None` unless its policy
    /// is [`PoolPolicy::Adaptive`].
    #[must_use]
    pub fn shadow_report(&self, manager: ManagerId, priority: i32) -> Option<ShadowReport> {
        self.pools(manager)?.shadow_report(priority)
    }

    /// Tells the shadows of a referenced block's level. What a list names is not the policies' business.
    #[inline]
    pub(crate) fn observe(&mut self, manager: ManagerId, b: BlockId) {
        let record = &self.blocks[b];
        if record.first_use == NONE
            && record.owner() == Some(manager)
            && let Some(pools) = &mut self.managers[manager.0 as usize].pools
        {
            let block = record.block;
            pools.observe(&mut self.blocks, block);
        }
    }

    /// Gives the cached blocks `first..=last` of a file that the manager owns another priority, until
    /// each is referenced or replaced. Blocks that are not cached, or that the manager's list names, are
    /// left alone.
    ///
    /// # Errors
    /// When the manager has as many levels as [`crate::Limits`] allows.
    pub fn set_temporary_priority(
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
        match &mut self.managers[manager.0 as usize].pools {
            Some(pools) => pools.set_temporary(&mut self.blocks, &chosen, priority),
            None => Ok(()),
        }
    }

    /// Evicts the cached blocks `first..=last` of a file that the manager owns: it has no further use for
    /// them, and their room is anybody's at once. Blocks that its list names, and those of others, are left
    /// alone. Gives how many were evicted. (Flushing as soon as a block has been used for the last time is
    /// what the papers do with a temporary priority of -1 and the next replacement; Cao, Felten, Li 1994,
    /// section 5.1, "access-once".)
    pub fn flush(&mut self, manager: ManagerId, file: FileId, first: u32, last: u32) -> u32 {
        let mut flushed = 0;
        for b in self.blocks.of_file(file, first, last) {
            let own = self.blocks[b].state == State::Cached && self.owner_of(b) == Some(manager);
            if own && self.disclosures.next_use(&self.blocks, manager, b).is_none() {
                self.evict(b);
                flushed += 1;
            }
        }
        flushed
    }

    /// The living owner of a block.
    pub(crate) fn owner_of(&self, b: BlockId) -> Option<ManagerId> {
        self.blocks[b].owner().filter(|m| self.managers[m.0 as usize].alive)
    }

    /// A manager's process referenced a cached block: the block becomes its own if it has no living
    /// owner, and nobody's if it has another one.
    pub(crate) fn adopt(&mut self, b: BlockId, manager: ManagerId) {
        let record = &self.blocks[b];
        if record.owner() == Some(manager) || record.is(Mark::Shared) {
            return;
        }
        let shared = self.owner_of(b).is_some();
        self.leave_pools(b);
        self.disown(b);
        let record = &mut self.blocks[b];
        record.set(Mark::Shared, shared);
        if !shared && self.managers[manager.0 as usize].alive {
            record.set_owner(Some(manager));
            self.managers[manager.0 as usize].owned += 1;
        }
        self.disclosures.refresh(&self.blocks, b);
    }

    /// Takes the owner of a block away.
    pub(crate) fn disown(&mut self, b: BlockId) {
        if let Some(owner) = self.blocks[b].owner() {
            self.managers[owner.0 as usize].owned -= 1;
            self.blocks[b].set_owner(None);
        }
    }

    /// Takes the blocks of managers that have ended off their hands, so that their records can be used again:
    /// once in as many ends as there are records, as it goes through the whole cache.
    pub(crate) fn disown_blocks_of_ended(&mut self) {
        let ended = |b: &BlockId| self.blocks[*b].owner().is_some_and(|m| !self.managers[m.0 as usize].alive);
        let orphaned: Vec<BlockId> = self.global.iter().filter(ended).collect();
        for b in orphaned {
            self.leave_pools(b);
            self.disown(b);
            // What they remember is the decision of a manager whose number will be another one's.
            self.placeholders.delete_all_to(&mut self.blocks, b);
        }
    }

    /// Takes a block out of its owner's pools, if it is in one.
    pub(crate) fn leave_pools(&mut self, b: BlockId) {
        if self.blocks[b].pool == NO_POOL {
            return;
        }
        match self.owner_of(b).and_then(|m| self.managers[m.0 as usize].pools.as_mut()) {
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
    pub(crate) fn settle(&mut self, b: BlockId) {
        let Some(owner) = self.owner_of(b) else { return };
        let Some(pools) = &mut self.managers[owner.0 as usize].pools else { return };
        let listed =
            self.blocks[b].first_use != NONE && self.disclosures.next_use(&self.blocks, owner, b).is_some();
        match (listed, self.blocks[b].pool != NO_POOL) {
            (true, true) => pools.remove(&mut self.blocks, b),
            (true, false) => {}
            (false, true) => pools.touch(&mut self.blocks, b),
            (false, false) => pools.insert(&mut self.blocks, b),
        }
    }

    /// The same for a block that could not be evicted: it goes to the end of its pool from which it is
    /// replaced later, so that it is not asked for again at once.
    pub(crate) fn settle_for_long(&mut self, b: BlockId) {
        self.settle(b);
        if self.blocks[b].pool != NO_POOL
            && let Some(owner) = self.owner_of(b)
            && let Some(pools) = &mut self.managers[owner.0 as usize].pools
        {
            pools.keep_longest(&mut self.blocks, b);
        }
    }

    /// Makes a manager a controlling one: its blocks so far fill its pools in order of recency.
    pub(crate) fn control(&mut self, manager: ManagerId) {
        let m = &mut self.managers[manager.0 as usize];
        if m.pools.is_some() || !m.alive {
            return;
        }
        let limits = &self.config.limits;
        let pools =
            Pools::new(limits.levels_per_manager, limits.file_records_per_manager, self.config.cache_blocks);
        m.pools = Some(Box::new(pools));
        if m.owned == 0 {
            return;
        }
        let own: Vec<BlockId> = self
            .global
            .iter()
            .filter(|&b| self.blocks[b].owner() == Some(manager) && self.blocks[b].state == State::Cached)
            .collect();
        for b in own {
            self.settle(b);
        }
    }

    fn pools(&self, manager: ManagerId) -> Option<&Pools> {
        self.managers.get(manager.0 as usize)?.pools.as_deref()
    }
}
