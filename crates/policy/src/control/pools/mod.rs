//! The pools of one manager: which of its blocks it gives up when asked.
//!
//! Files have long-term priorities (0 unless set), priority levels have a policy (LRU unless set), and
//! all of a manager's blocks of one priority are one pool. The block given up is the one that the policy of
//! the lowest pool that is not empty names: the least (LRU) or most (MRU) recently used one, for example. A temporary
//! priority moves cached blocks to another pool until they are referenced or replaced. A block that
//! moves into a pool goes to the end from which it is replaced later (Cao, Felten, Li 1994, sections 3
//! and 4).
//!
//! Two kinds of blocks are kept out of the pools. Blocks that the manager's disclosed list names are
//! ordered by their next use there; those that the list named in vain (the reference was skipped, and no
//! later one is known) are `passed_over` and given up before all others. Blocks that were loaded but not referenced yet (the kernel's
//! readahead, one-block look-ahead) wait in [`arriving`]: by recency they would be MRU's first victims
//! just before they are used.
//!
//! In a live plane, what another reader is about to reference is kept for it under MRU ([`followed`]).
//!
//! A directive that moves many blocks takes effect at once and moves them by and by ([`moving`]).

mod arriving;
mod followed;
mod level;
mod moving;

use std::collections::BTreeMap;

use crate::blocks::{BlockId, Blocks, Mark, NO_POOL};
use crate::ids::{FileId, ManagerId};
use crate::input::LimitReached;
use crate::pool_policy::PoolPolicy;
use crate::recency::{NONE, RecencyList};
use crate::shadow::ShadowReport;
use arriving::Arriving;
use followed::Followed;
use level::Level;
use moving::Moving;

/// Pool number of the blocks that were loaded but not referenced yet.
const ARRIVING: u16 = 0;

/// Pool number of the blocks whose disclosed reference was skipped.
const PASSED_OVER: u16 = 1;

/// Pool number of the first level.
const FIRST_LEVEL: u16 = 2;

/// Levels of one manager that can be adaptive at a time: their shadows take just under 1 MB each.
const ADAPTIVE_LEVELS: u32 = 8;

/// Priorities, policies and pools of one manager.
#[derive(Debug)]
pub(crate) struct Pools {
    /// Whose they are.
    own: ManagerId,
    arriving: Arriving,
    passed_over: RecencyList,
    /// Pool `FIRST_LEVEL + l` is level l.
    levels: Vec<Level>,
    /// Levels in ascending order of priority.
    ascending: Vec<u16>,
    file_priorities: BTreeMap<FileId, i32>,
    level_limit: u32,
    file_limit: u32,
    cache_blocks: u32,
    /// Levels that are adaptive.
    adaptive: u32,
    /// Readers of what is replaced in the order of MRU, where they may keep blocks for each other.
    followed: Option<Followed>,
    /// What directives have still to move.
    moving: Moving,
}

impl Pools {
    pub(crate) fn new(own: ManagerId, level_limit: u32, file_limit: u32, cache_blocks: u32) -> Pools {
        let mut pools = Pools {
            own,
            arriving: Arriving::new(cache_blocks),
            passed_over: RecencyList::default(),
            levels: Vec::new(),
            ascending: Vec::new(),
            file_priorities: BTreeMap::new(),
            // Each may have a second place for the blocks that come from its policy before.
            level_limit: level_limit.clamp(1, u32::from(NO_POOL - FIRST_LEVEL) / 2 - 1),
            file_limit,
            cache_blocks,
            adaptive: 0,
            followed: None,
            moving: Moving::default(),
        };
        pools.add_level(0);
        pools
    }

    /// From now on readers that follow each other keep blocks for each other under MRU. That is for planes on a real cache:
    /// the papers' MRU knows nothing of it.
    pub(crate) fn follow_readers(&mut self) {
        self.followed.get_or_insert_default();
    }

    /// The cache has another size. Levels that are adaptive already keep the size of their shadows.
    pub(crate) fn set_cache_blocks(&mut self, cache_blocks: u32) {
        self.cache_blocks = cache_blocks;
        self.arriving.cache_blocks = cache_blocks;
    }

    /// Blocks in all pools.
    pub(crate) fn len(&self) -> usize {
        self.arriving.list.len() + self.passed_over.len() + self.levels.iter().map(Level::len).sum::<usize>()
    }

    /// Those that [`Pools::victim`] would give up: not the arriving ones, unless they are too many.
    pub(crate) fn spare(&self) -> usize {
        let kept = if self.arriving.are_too_many() { 0 } else { self.arriving.list.len() };
        self.len() - kept
    }

    pub(crate) fn priority(&self, file: FileId) -> i32 {
        self.file_priorities.get(&file).copied().unwrap_or(0)
    }

    pub(crate) fn policy(&self, priority: i32) -> PoolPolicy {
        self.find_level(priority).map_or(PoolPolicy::default(), |l| self.levels[l as usize].policy())
    }

    pub(crate) fn set_policy(
        &mut self,
        blocks: &mut Blocks,
        priority: i32,
        policy: PoolPolicy,
    ) -> Result<(), LimitReached> {
        let was = u32::from(self.policy(priority) == PoolPolicy::Adaptive);
        let becomes = u32::from(policy == PoolPolicy::Adaptive);
        let adaptive = self.adaptive - was + becomes;
        if adaptive > ADAPTIVE_LEVELS {
            return Err(LimitReached { what: "adaptive priority levels", limit: ADAPTIVE_LEVELS });
        }
        let level = self.level(priority)?;
        if let Some(follow) = self.levels[level as usize].set_policy(policy) {
            self.follow(blocks, level, follow);
        }
        self.adaptive = adaptive;
        Ok(())
    }

    /// A block of this manager was referenced, cached or not.
    #[inline]
    pub(crate) fn observe(&mut self, blocks: &mut Blocks, b: BlockId) {
        if self.adaptive > 0 {
            let level = self.home(blocks[b].block.file) - FIRST_LEVEL;
            let level = &mut self.levels[level as usize];
            // All at once: by and by the blocks would come in another order than the one that was compared.
            if let Some(follow) = level.observe(blocks[b].block)
                && !level.turn_to(follow)
            {
                level.follow(blocks, follow);
            }
        }
        let level = blocks[b].pool.checked_sub(FIRST_LEVEL).map(usize::from);
        if let Some(level) = level.and_then(|level| self.levels.get_mut(level))
            && level.is_newest_first()
            && let Some(followed) = &mut self.followed
            && followed.reference(blocks[b].block, self.cache_blocks)
        {
            level.keep(blocks, b);
        }
    }

    /// How the policies compare on a level, if it is adaptive.
    pub(crate) fn shadow_report(&self, priority: i32) -> Option<ShadowReport> {
        self.levels[self.find_level(priority)? as usize].shadow_report()
    }

    /// Sets the long-term priority of a file and moves its cached blocks, except those with a temporary
    /// priority.
    pub(crate) fn set_priority(
        &mut self,
        blocks: &mut Blocks,
        file: FileId,
        priority: i32,
    ) -> Result<(), LimitReached> {
        let old = self.priority(file);
        if priority == old {
            return Ok(());
        }
        if !self.file_priorities.contains_key(&file) && self.file_priorities.len() >= self.file_limit as usize
        {
            return Err(LimitReached { what: "files with a priority of their own", limit: self.file_limit });
        }
        self.level(priority)?;
        if priority == 0 {
            self.file_priorities.remove(&file);
        } else {
            self.file_priorities.insert(file, priority);
        }
        self.move_file(blocks, file);
        Ok(())
    }

    /// Moves blocks that are in this manager's pools to another priority until they are referenced or
    /// replaced. `chosen` is taken in the order given.
    pub(crate) fn set_temporary(
        &mut self,
        blocks: &mut Blocks,
        chosen: &[BlockId],
        priority: i32,
    ) -> Result<(), LimitReached> {
        let to = self.level(priority)? + FIRST_LEVEL;
        for &b in chosen {
            blocks[b].set(Mark::Temporary, true);
        }
        self.move_in(blocks, chosen.to_vec(), to);
        Ok(())
    }

    /// A block enters the pools: loaded (`referenced` false: it waits among the arriving), or referenced
    /// for the last time that the disclosed list knows of.
    pub(crate) fn insert(&mut self, blocks: &mut Blocks, b: BlockId) {
        self.move_some(blocks);
        let pool = if blocks[b].is(Mark::Referenced) { self.home(blocks[b].block.file) } else { ARRIVING };
        self.append(blocks, b, pool);
    }

    /// A block that the list named in vain enters the pools.
    pub(crate) fn insert_passed_over(&mut self, blocks: &mut Blocks, b: BlockId) {
        self.append(blocks, b, PASSED_OVER);
    }

    /// A block in the pools is referenced: it ends a temporary priority and is the most recently used.
    pub(crate) fn touch(&mut self, blocks: &mut Blocks, b: BlockId) {
        self.move_some(blocks);
        let record = &blocks[b];
        let pool = record.pool;
        if pool == ARRIVING {
            self.arriving.referenced(b);
        }
        let home_elsewhere = || self.is_moving() && pool != self.home(record.block.file);
        if record.is(Mark::Temporary) || pool < FIRST_LEVEL || home_elsewhere() {
            self.remove(blocks, b);
            let home = self.home(blocks[b].block.file);
            self.append(blocks, b, home);
        } else {
            self.levels[(pool - FIRST_LEVEL) as usize].touch(blocks, b);
        }
    }

    /// Moves a block to the end of its home pool from which it is replaced later.
    pub(crate) fn keep_longest(&mut self, blocks: &mut Blocks, b: BlockId) {
        let home = self.home(blocks[b].block.file);
        self.move_in(blocks, vec![b], home);
    }

    /// A block leaves the pools.
    pub(crate) fn remove(&mut self, blocks: &mut Blocks, b: BlockId) {
        let record = &mut blocks[b];
        let (pool, place) = (record.pool, record.place);
        record.pool = NO_POOL;
        record.place = NONE;
        record.set(Mark::Temporary, false);
        self.take_out(pool, place);
    }

    /// The block to give up, if the pools hold any but arriving ones.
    pub(crate) fn victim(&mut self) -> Option<BlockId> {
        if let Some(b) = self.passed_over.front() {
            return Some(b);
        }
        if self.arriving.are_too_many() {
            return self.arriving.victim();
        }
        for &l in &self.ascending {
            let victim = self.levels[l as usize].victim();
            if victim.is_some() {
                return victim;
            }
        }
        None
    }

    /// Is there a block that a list named in vain?
    pub(crate) fn has_passed_over(&self) -> bool {
        self.passed_over.len() > 0
    }

    /// May one more block be fetched of which it is only known that it will be used some time? If there `is_full`, one that
    /// was used goes for it.
    pub(crate) fn takes_unordered(&self, is_full: bool) -> bool {
        let has_used = self.len() > self.arriving.list.len();
        !self.arriving.are_too_many() && (has_used || !is_full)
    }

    /// The block to give up of those that wait to be referenced: the last resort.
    pub(crate) fn arriving_victim(&mut self) -> Option<BlockId> {
        self.arriving.victim()
    }

    /// Forgets a file's priority.
    pub(crate) fn forget_file(&mut self, file: FileId) {
        self.file_priorities.remove(&file);
        self.followed.iter_mut().for_each(|followed| followed.forget_file(file));
        self.moving.forget_file(file);
    }

    fn move_in(&mut self, blocks: &mut Blocks, moving: Vec<BlockId>, to: u16) {
        for &b in &moving {
            let record = &mut blocks[b];
            let from = std::mem::replace(&mut record.pool, to);
            let place = record.place;
            self.take_out(from, place);
        }
        self.levels[(to - FIRST_LEVEL) as usize].push_last(blocks, moving);
    }

    fn append(&mut self, blocks: &mut Blocks, b: BlockId, pool: u16) {
        blocks[b].pool = pool;
        let list = match pool {
            ARRIVING => &mut self.arriving.list,
            PASSED_OVER => &mut self.passed_over,
            level => return self.levels[(level - FIRST_LEVEL) as usize].push(blocks, b),
        };
        let place = list.push_back(b, |m, p| blocks[m].place = p);
        blocks[b].place = place;
    }

    fn take_out(&mut self, pool: u16, place: u32) {
        match pool {
            ARRIVING => self.arriving.list.remove(place),
            PASSED_OVER => self.passed_over.remove(place),
            level => self.levels[(level - FIRST_LEVEL) as usize].remove(place),
        }
    }

    /// The pool that a file's blocks belong to by its long-term priority.
    fn home(&self, file: FileId) -> u16 {
        let priority = if self.file_priorities.is_empty() { 0 } else { self.priority(file) };
        self.find_level(priority).unwrap_or(0) + FIRST_LEVEL
    }

    fn find_level(&self, priority: i32) -> Option<u16> {
        self.levels.iter().position(|l| l.priority == priority && !l.retired).map(|l| l as u16)
    }

    fn level(&mut self, priority: i32) -> Result<u16, LimitReached> {
        match self.find_level(priority) {
            Some(level) => Ok(level),
            None if self.levels.iter().filter(|l| !l.retired).count() >= self.level_limit as usize => {
                Err(LimitReached { what: "priority levels", limit: self.level_limit })
            }
            None => Ok(self.add_level(priority)),
        }
    }

    fn add_level(&mut self, priority: i32) -> u16 {
        self.place_level(Level::new(priority, self.cache_blocks))
    }
}
