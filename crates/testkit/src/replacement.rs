//! Two-level replacement as the papers tell it, with plain vectors.
//!
//! The kernel keeps one list of all cached blocks, least recently used first. On a miss with a full
//! cache it takes a *candidate*: the block that the missing block's placeholder points to, else the
//! first of the list. The candidate's owner, if it controls its blocks, names the block to give up: from
//! its pool of lowest priority, the first (LRU) or the last (MRU). If that is another block than the
//! candidate, the two swap places in the list, and a placeholder is kept for the one that goes.
//! (Cao, Felten, Li 1994, sections 2 to 4; Cao et al. 1996, section 3.2.)

use std::collections::{BTreeMap, BTreeSet};

use foretell_policy::{Allocation, Block, FileId, ManagerCounters, ManagerId, PoolPolicy};

/// What a reference led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The block was in the cache.
    pub hit: bool,
    /// The block that went to make room.
    pub replaced: Option<Block>,
}

/// A placeholder: `missing` was given up in place of `kept`, by `manager`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Placeholder {
    missing: Block,
    kept: Block,
    manager: ManagerId,
}

/// The cache. Fetches take no time.
#[derive(Debug, Clone)]
pub struct NaiveCache {
    allocation: Allocation,
    cache_blocks: usize,
    /// Most placeholders; for one more, the oldest is forgotten.
    placeholder_limit: usize,
    /// The kernel's list, least recently used first.
    list: Vec<Block>,
    /// Owners of cached blocks; a block that is not in here belongs to nobody.
    owners: BTreeMap<Block, ManagerId>,
    /// Cached blocks that two living managers have used: nobody's until they are replaced.
    shared: BTreeSet<Block>,
    /// The blocks of each manager and priority, least recently used first.
    pools: BTreeMap<(ManagerId, i32), Vec<Block>>,
    /// Blocks that are in a pool by temporary priority.
    temporary: BTreeSet<Block>,
    priorities: BTreeMap<(ManagerId, FileId), i32>,
    policies: BTreeMap<(ManagerId, i32), PoolPolicy>,
    /// Managers that have given a directive; the others are oblivious.
    controlling: BTreeSet<ManagerId>,
    ended: BTreeSet<ManagerId>,
    /// Oldest first.
    placeholders: Vec<Placeholder>,
    counters: BTreeMap<ManagerId, ManagerCounters>,
}

impl NaiveCache {
    /// An empty cache.
    #[must_use]
    pub fn new(allocation: Allocation, cache_blocks: usize) -> NaiveCache {
        NaiveCache {
            allocation,
            cache_blocks,
            placeholder_limit: usize::MAX,
            list: Vec::new(),
            owners: BTreeMap::new(),
            shared: BTreeSet::new(),
            pools: BTreeMap::new(),
            temporary: BTreeSet::new(),
            priorities: BTreeMap::new(),
            policies: BTreeMap::new(),
            controlling: BTreeSet::new(),
            ended: BTreeSet::new(),
            placeholders: Vec::new(),
            counters: BTreeMap::new(),
        }
    }

    /// The same with a limit on placeholders.
    #[must_use]
    pub fn with_placeholder_limit(mut self, limit: usize) -> NaiveCache {
        self.placeholder_limit = limit;
        self
    }

    /// Is the block in the cache?
    #[must_use]
    pub fn is_cached(&self, block: Block) -> bool {
        self.list.contains(&block)
    }

    /// The cached blocks, least recently used first.
    #[must_use]
    pub fn list(&self) -> &[Block] {
        &self.list
    }

    /// What the manager's decisions were worth: consulted, overruled and placeholders used.
    #[must_use]
    pub fn manager_counters(&self, manager: ManagerId) -> ManagerCounters {
        self.counters.get(&manager).copied().unwrap_or_default()
    }

    /// A process of `manager` references `block`.
    pub fn access(&mut self, manager: ManagerId, block: Block) -> Outcome {
        if let Some(at) = self.list.iter().position(|&b| b == block) {
            self.list.remove(at);
            self.list.push(block);
            // Kept blocks that are needed: it was right to keep them.
            self.placeholders.retain(|p| p.kept != block);
            match self.owners.get(&block) {
                Some(&owner) if owner == manager => self.enter_pool(block, manager),
                Some(_) => {
                    self.disown(block);
                    self.shared.insert(block);
                }
                None if self.shared.contains(&block) => {}
                // Its owner has ended: now it belongs to who uses it.
                None => self.own(block, manager),
            }
            return Outcome { hit: true, replaced: None };
        }
        let replaced = (self.list.len() == self.cache_blocks).then(|| self.make_room_for(block));
        self.placeholders.retain(|p| p.missing != block);
        self.list.push(block);
        self.own(block, manager);
        Outcome { hit: false, replaced }
    }

    /// The block left the cache by itself.
    pub fn gone(&mut self, block: Block) {
        if self.is_cached(block) {
            self.placeholders.retain(|p| p.kept != block);
            self.remove(block);
        }
    }

    /// The manager ended: its blocks are nobody's.
    pub fn end_manager(&mut self, manager: ManagerId) {
        self.ended.insert(manager);
        for block in self.list.clone() {
            if self.owners.get(&block) == Some(&manager) {
                self.disown(block);
            }
        }
    }

    /// Long-term priority of a file.
    pub fn set_priority(&mut self, manager: ManagerId, file: FileId, priority: i32) {
        self.controlling.insert(manager);
        let before = self.priorities.insert((manager, file), priority).unwrap_or(0);
        if before != priority {
            let pool = self.pools.get(&(manager, before)).cloned().unwrap_or_default();
            let of_file = |b: &Block| b.file == file && !self.temporary.contains(b);
            let moving = pool.into_iter().filter(of_file).collect();
            self.move_to_pool(moving, manager, priority);
        }
    }

    /// Replacement policy of a priority level: LRU or MRU, as in the papers.
    ///
    /// # Panics
    ///
    /// On another one; [`crate::policies`] has those.
    pub fn set_policy(&mut self, manager: ManagerId, priority: i32, policy: PoolPolicy) {
        assert!(matches!(policy, PoolPolicy::Lru | PoolPolicy::Mru), "{policy}");
        self.controlling.insert(manager);
        self.policies.insert((manager, priority), policy);
    }

    /// Temporary priority of the cached blocks `first..=last` of a file.
    pub fn set_temporary_priority(
        &mut self,
        manager: ManagerId,
        file: FileId,
        first: u32,
        last: u32,
        priority: i32,
    ) {
        self.controlling.insert(manager);
        let range = Block::new(file, first)..=Block::new(file, last);
        let own = self.owners.range(range).filter(|(_, owner)| **owner == manager);
        let moving: Vec<Block> = own.map(|(block, _)| *block).collect();
        self.move_to_pool(moving.clone(), manager, priority);
        self.temporary.extend(moving);
    }

    /// Placeholders in use.
    #[must_use]
    pub fn placeholders(&self) -> usize {
        self.placeholders.len()
    }

    fn own(&mut self, block: Block, manager: ManagerId) {
        self.owners.insert(block, manager);
        self.enter_pool(block, manager);
    }

    fn policy(&self, manager: ManagerId, priority: i32) -> PoolPolicy {
        self.policies.get(&(manager, priority)).copied().unwrap_or_default()
    }

    fn leave_pool(&mut self, block: Block) {
        for pool in self.pools.values_mut() {
            pool.retain(|&b| b != block);
        }
        self.temporary.remove(&block);
    }

    /// As referenced just now: at the most recently used end of the pool of its file.
    fn enter_pool(&mut self, block: Block, manager: ManagerId) {
        self.leave_pool(block);
        let priority = self.priorities.get(&(manager, block.file)).copied().unwrap_or(0);
        self.pools.entry((manager, priority)).or_default().push(block);
    }

    /// By a directive: at the end where they are replaced later, in the order given.
    fn move_to_pool(&mut self, moving: Vec<Block>, manager: ManagerId, priority: i32) {
        for &block in &moving {
            self.leave_pool(block);
        }
        let policy = self.policy(manager, priority);
        let pool = self.pools.entry((manager, priority)).or_default();
        if policy == PoolPolicy::Mru {
            pool.splice(0..0, moving);
        } else {
            pool.extend(moving);
        }
    }

    fn disown(&mut self, block: Block) {
        self.leave_pool(block);
        self.owners.remove(&block);
    }

    fn remove(&mut self, block: Block) {
        self.list.retain(|&b| b != block);
        self.shared.remove(&block);
        self.disown(block);
    }

    fn make_room_for(&mut self, missing: Block) -> Block {
        let mut candidate = self.list[0];
        if let Some(at) = self.placeholders.iter().position(|p| p.missing == missing) {
            let placeholder = self.placeholders.remove(at);
            candidate = placeholder.kept;
            if !self.ended.contains(&placeholder.manager) {
                self.counters.entry(placeholder.manager).or_default().placeholders_used += 1;
            }
        }
        let manager = self.owners.get(&candidate).copied().filter(|m| self.controlling.contains(m));
        let manager = manager.filter(|_| self.allocation != Allocation::GlobalLru);
        let Some(manager) = manager else {
            self.placeholders.retain(|p| p.kept != candidate);
            self.remove(candidate);
            return candidate;
        };
        let choice = self.choice_of(manager);
        let counters = self.counters.entry(manager).or_default();
        counters.consulted += 1;
        counters.overruled += u64::from(choice != candidate);
        if choice == candidate {
            self.placeholders.retain(|p| p.kept != candidate);
        } else if self.allocation != Allocation::AllocLru {
            let place = |list: &[Block], block| list.iter().position(|&b| b == block);
            if let (Some(a), Some(b)) = (place(&self.list, candidate), place(&self.list, choice)) {
                self.list.swap(a, b);
            }
            if self.allocation == Allocation::LruSp {
                for placeholder in self.placeholders.iter_mut().filter(|p| p.kept == choice) {
                    placeholder.kept = candidate;
                }
                self.placeholders.push(Placeholder { missing: choice, kept: candidate, manager });
                if self.placeholders.len() > self.placeholder_limit {
                    self.placeholders.remove(0);
                }
            }
        }
        self.remove(choice);
        choice
    }

    /// The first or the last block of the manager's pool of lowest priority.
    fn choice_of(&self, manager: ManagerId) -> Block {
        let pools = self.pools.range((manager, i32::MIN)..=(manager, i32::MAX));
        let ((_, priority), pool) =
            pools.into_iter().find(|(_, pool)| !pool.is_empty()).expect("the candidate is in a pool");
        if self.policy(manager, *priority) == PoolPolicy::Mru { pool[pool.len() - 1] } else { pool[0] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetches;

    const ALONE: ManagerId = ManagerId(0);

    fn misses(cache: &mut NaiveCache, references: &[u32]) -> u64 {
        let file = FileId(0);
        references.iter().map(|&i| u64::from(!cache.access(ALONE, Block::new(file, i)).hit)).sum()
    }

    #[test]
    fn alone_it_counts_like_lru_and_mru() {
        let references: Vec<u32> = (0..10).cycle().take(40).collect();
        for allocation in [Allocation::GlobalLru, Allocation::AllocLru, Allocation::LruS, Allocation::LruSp] {
            let mut lru = NaiveCache::new(allocation, 7);
            assert_eq!(misses(&mut lru, &references), fetches::lru(&references, 7));
            let mut mru = NaiveCache::new(allocation, 7);
            mru.set_policy(ALONE, 0, PoolPolicy::Mru);
            let expected = match allocation {
                Allocation::GlobalLru => fetches::lru(&references, 7),
                _ => fetches::mru(&references, 7),
            };
            assert_eq!(misses(&mut mru, &references), expected, "{allocation:?}");
        }
    }
}
