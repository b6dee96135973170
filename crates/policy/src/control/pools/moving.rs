//! Moving many blocks between pools without anybody waiting for it.
//!
//! Two directives concern as many blocks as a manager has: another priority of a file, and another policy of a level.
//! What they say holds at once for each block that is referenced or loaded. Up to [`AT_ONCE`] blocks move at once, too;
//! of more the rest move by and by, [`WITH_EACH`] with every block that enters the pools or is referenced. Until then
//! they are replaced as they were before.
//!
//! A level that gets another policy is *retired* then: another one takes its place, and its blocks move there, the
//! newest first. A level that is left is small, so that there are at most twice as many levels as priorities.

use std::collections::{BTreeMap, VecDeque};

use super::level::Level;
use super::{FIRST_LEVEL, Pools};
use crate::blocks::{BlockId, Blocks, Mark, NO_POOL};
use crate::ids::FileId;
use crate::pool_policy::PoolPolicy;

/// Blocks that a directive moves at once: a tenth of a millisecond.
pub(super) const AT_ONCE: usize = 1024;

/// Blocks that move with each one that is referenced or loaded.
const WITH_EACH: usize = 32;

/// Blocks of a retired level, as they are to be moved.
#[derive(Debug)]
struct Leaving {
    level: u16,
    /// Oldest first. Some may have left the pools since.
    members: VecDeque<BlockId>,
}

/// What has still to be moved.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// Files with another priority, and up to which block theirs have been looked at. At most as many as files have a
    /// priority of their own, and those that had one.
    files: BTreeMap<FileId, u32>,
    /// At most one a level.
    retired: VecDeque<Leaving>,
    /// Places of levels in which there is nothing.
    vacant: Vec<u16>,
}

impl Moving {
    pub(super) fn forget_file(&mut self, file: FileId) {
        self.files.remove(&file);
    }
}

impl Pools {
    /// Are there blocks in other pools than where they belong?
    #[inline]
    pub(super) fn is_moving(&self) -> bool {
        !self.moving.files.is_empty() || !self.moving.retired.is_empty()
    }

    /// A file has another priority: its blocks go where they belong.
    pub(super) fn move_file(&mut self, blocks: &mut Blocks, file: FileId) {
        self.moving.files.insert(file, 0);
        self.move_part_of(blocks, file, AT_ONCE);
    }

    /// Puts the blocks of a level in the order of a policy.
    pub(super) fn follow(&mut self, blocks: &mut Blocks, level: u16, policy: PoolPolicy) {
        let present = &mut self.levels[level as usize];
        if present.turn_to(policy) {
            return;
        }
        if present.len() <= AT_ONCE {
            present.follow(blocks, policy);
            return;
        }
        let members = present.members().into();
        let successor = present.successor(policy);
        self.place_level(successor);
        self.moving.retired.push_back(Leaving { level, members });
    }

    /// A new level has a place, behind one of the same priority.
    pub(super) fn place_level(&mut self, new: Level) -> u16 {
        let priority = new.priority;
        let at = self.ascending.partition_point(|&l| self.levels[l as usize].priority <= priority);
        let level = match self.moving.vacant.pop() {
            Some(level) => {
                self.levels[level as usize] = new;
                level
            }
            None => {
                self.levels.push(new);
                self.levels.len() as u16 - 1
            }
        };
        self.ascending.insert(at, level);
        level
    }

    /// Moves some of the blocks that are not where they belong.
    #[inline]
    pub(super) fn move_some(&mut self, blocks: &mut Blocks) {
        if self.is_moving() {
            self.move_on(blocks, WITH_EACH);
        }
    }

    fn move_on(&mut self, blocks: &mut Blocks, most: usize) {
        if let Some((&file, _)) = self.moving.files.first_key_value() {
            self.move_part_of(blocks, file, most);
            return;
        }
        let Some(leaving) = self.moving.retired.front_mut() else { return };
        let (level, count) = (leaving.level, leaving.members.len().saturating_sub(most));
        // The newest first, each of them before the one that came before it.
        let part = leaving.members.split_off(count);
        if count == 0 {
            self.moving.retired.pop_front();
        }
        let (pool, own) = (level + FIRST_LEVEL, self.own);
        for b in part.into_iter().rev() {
            let record = &blocks[b];
            if record.pool != pool || record.owner() != Some(own) {
                continue;
            }
            let to = self.home(record.block.file);
            if record.is(Mark::Temporary) {
                // It stays of the priority that it has for now.
                let priority = self.levels[level as usize].priority;
                let to = self.find_level(priority).map_or(to, |level| level + FIRST_LEVEL);
                self.carry(blocks, b, to);
            } else {
                self.carry(blocks, b, to);
            }
        }
        if count == 0 {
            self.ascending.retain(|&other| other != level);
            self.moving.vacant.push(level);
        }
    }

    fn carry(&mut self, blocks: &mut Blocks, b: BlockId, to: u16) {
        let record = &mut blocks[b];
        let (from, place) = (std::mem::replace(&mut record.pool, to), record.place);
        self.take_out(from, place);
        self.levels[(to - FIRST_LEVEL) as usize].push_before(blocks, b);
    }

    /// Moves some blocks of a file to where they belong, in the order in which they were, to be replaced later than
    /// those that are there.
    fn move_part_of(&mut self, blocks: &mut Blocks, file: FileId, most: usize) {
        let Some(&next) = self.moving.files.get(&file) else { return };
        let to = self.home(file);
        let end = blocks.part_end(file, next, u32::MAX, most);
        let own = self.own;
        let mut coming = blocks.of_file(file, next, end);
        coming.retain(|&b| {
            let record = &blocks[b];
            let is_elsewhere = (FIRST_LEVEL..NO_POOL).contains(&record.pool) && record.pool != to;
            is_elsewhere && record.owner() == Some(own) && !record.is(Mark::Temporary)
        });
        coming.sort_by_key(|&b| {
            let record = &blocks[b];
            let by_recency = self.levels[(record.pool - FIRST_LEVEL) as usize].is_by_recency();
            (record.pool, if by_recency { record.place } else { record.global_place })
        });
        self.move_in(blocks, coming, to);
        match end.checked_add(1) {
            Some(next) => drop(self.moving.files.insert(file, next)),
            None => drop(self.moving.files.remove(&file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::State;
    use crate::ids::{Block, ManagerId};
    use crate::layout::Layout;

    const BLOCKS: u32 = 10_000;
    const OWN: ManagerId = ManagerId(3);

    fn enter(pools: &mut Pools, blocks: &mut Blocks, file: FileId, index: u32) -> BlockId {
        let b = blocks.find_or_add(Block::new(file, index)).unwrap();
        blocks[b].state = State::Cached;
        blocks[b].set_owner(Some(OWN));
        blocks[b].set(Mark::Referenced, true);
        // In the global list they are in the same order.
        blocks[b].global_place = index;
        pools.insert(blocks, b);
        b
    }

    fn scene() -> (Pools, Blocks, FileId) {
        let mut blocks = Blocks::new(1);
        let file = blocks.add_file(Layout::Unknown);
        let mut pools = Pools::new(OWN, 4, 1 << 16, BLOCKS);
        for index in 0..BLOCKS {
            enter(&mut pools, &mut blocks, file, index);
        }
        (pools, blocks, file)
    }

    /// All that there is, in the order in which it goes.
    fn order(pools: &mut Pools, blocks: &mut Blocks) -> Vec<u32> {
        std::iter::from_fn(|| {
            let b = pools.victim()?;
            pools.remove(blocks, b);
            Some(blocks[b].block.index)
        })
        .collect()
    }

    /// Until nothing moves any more; how often blocks came or were referenced meanwhile.
    fn settle(pools: &mut Pools, blocks: &mut Blocks) -> usize {
        (0..)
            .find(|_| {
                pools.move_some(blocks);
                !pools.is_moving()
            })
            .unwrap()
    }

    #[test]
    fn a_large_file_gets_its_priority_by_and_by_and_a_referenced_block_at_once() {
        let (mut pools, mut blocks, file) = scene();
        pools.set_priority(&mut blocks, file, 1).unwrap();
        let moved = |blocks: &Blocks| {
            let all = blocks.of_file(file, 0, u32::MAX);
            all.into_iter().filter(|&b| blocks[b].pool != FIRST_LEVEL).count()
        };
        assert_eq!(moved(&blocks), AT_ONCE);
        let last = blocks.find(Block::new(file, BLOCKS - 1)).unwrap();
        pools.touch(&mut blocks, last);
        assert_eq!(moved(&blocks), AT_ONCE + WITH_EACH + 1);
        assert!(settle(&mut pools, &mut blocks) <= BLOCKS as usize / WITH_EACH);
        assert_eq!(moved(&blocks), BLOCKS as usize);
        let mut expected: Vec<u32> = (0..BLOCKS).collect();
        let place = expected.iter().position(|index| *index == BLOCKS - 1).unwrap();
        expected.remove(place);
        let mut found = order(&mut pools, &mut blocks);
        found.retain(|index| *index != BLOCKS - 1);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_large_level_gets_its_policy_by_and_by_and_keeps_its_order() {
        let (mut pools, mut blocks, file) = scene();
        for policy in [PoolPolicy::S3Fifo, PoolPolicy::Sieve, PoolPolicy::Lru] {
            pools.set_policy(&mut blocks, 0, policy).unwrap();
            assert_eq!(pools.policy(0), policy);
        }
        // The second and the third time there was nothing in the level yet.
        assert_eq!(pools.moving.retired.len(), 1);
        enter(&mut pools, &mut blocks, file, BLOCKS);
        settle(&mut pools, &mut blocks);
        assert_eq!(pools.len(), BLOCKS as usize + 1);
        assert_eq!(order(&mut pools, &mut blocks), (0..=BLOCKS).collect::<Vec<u32>>());
        assert_eq!((pools.levels.len(), pools.moving.vacant.len(), pools.ascending.len()), (2, 1, 1));
    }

    #[test]
    fn levels_that_are_left_do_not_take_the_places_of_others() {
        let (mut pools, mut blocks, _) = scene();
        pools.set_policy(&mut blocks, 0, PoolPolicy::Lirs).unwrap();
        for priority in 1..4 {
            pools.set_policy(&mut blocks, priority, PoolPolicy::Mru).unwrap();
        }
        assert!(pools.set_policy(&mut blocks, 4, PoolPolicy::Mru).is_err());
        settle(&mut pools, &mut blocks);
        for round in 0..20 {
            let policy = if round % 2 == 0 { PoolPolicy::Sieve } else { PoolPolicy::Lirs };
            pools.set_policy(&mut blocks, 0, policy).unwrap();
            settle(&mut pools, &mut blocks);
            assert_eq!(pools.len(), BLOCKS as usize);
        }
        assert_eq!(pools.levels.len(), 5);
    }
}
