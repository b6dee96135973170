//! The cache of the machine beside: LRU, but what is on its way stays until it is there, as in ours.

use std::collections::{BTreeMap, HashMap};

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Residence {
    Absent,
    /// Queued or being fetched; it has its place in the cache.
    OnItsWay,
    Cached,
}

#[derive(Debug)]
pub(super) struct Cache {
    /// By key, when each was used last, by a count, and whether it is there. Only looked up: nothing depends on the order.
    blocks: HashMap<u64, (u64, bool)>,
    /// Those that are there, by their last use: what may be replaced.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    most_blocks: u32,
}

impl Cache {
    pub(super) fn new(most_blocks: u32) -> Cache {
        Cache { blocks: HashMap::new(), by_use: BTreeMap::new(), uses: 0, most_blocks: most_blocks.max(1) }
    }

    pub(super) fn find(&self, key: u64) -> Residence {
        match self.blocks.get(&key) {
            None => Residence::Absent,
            Some((_, false)) => Residence::OnItsWay,
            Some((_, true)) => Residence::Cached,
        }
    }

    /// A block that is there was referenced. What is on its way keeps the place that it got when its fetch was asked for.
    pub(super) fn touch(&mut self, key: u64) {
        if let Some((used, true)) = self.blocks.get_mut(&key) {
            self.by_use.remove(used);
            self.uses += 1;
            *used = self.uses;
            self.by_use.insert(self.uses, key);
        }
    }

    /// A block that is absent is on its way from now on; false if there is no room, as all others are, too.
    pub(super) fn enter(&mut self, key: u64) -> bool {
        self.make_room(1);
        if self.blocks.len() >= self.most_blocks as usize {
            return false;
        }
        self.uses += 1;
        self.blocks.insert(key, (self.uses, false));
        true
    }

    /// A block that was on its way is there.
    pub(super) fn arrived(&mut self, key: u64) {
        if let Some((used, is_there)) = self.blocks.get_mut(&key) {
            *is_there = true;
            self.by_use.insert(*used, key);
        }
    }

    /// The cache has another size. What is on its way stays, even if that is more.
    pub(super) fn resize(&mut self, most_blocks: u32) {
        self.most_blocks = most_blocks.max(1);
        self.make_room(0);
    }

    /// Replaces the least recently used blocks until there is room for so many more, or nothing left to replace.
    fn make_room(&mut self, more: usize) {
        while self.blocks.len() + more > self.most_blocks as usize
            && let Some((_, key)) = self.by_use.pop_first()
        {
            self.blocks.remove(&key);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Residence::{Absent, Cached, OnItsWay};
    use super::*;

    #[test]
    fn what_is_on_its_way_is_not_replaced() {
        let mut cache = Cache::new(3);
        for key in 0..3 {
            assert!(cache.enter(key));
        }
        assert!(!cache.enter(3), "all are on their way");
        cache.touch(0);
        cache.arrived(1);
        cache.arrived(2);
        cache.touch(1);
        assert!(cache.enter(3) && cache.enter(4));
        assert_eq!(
            [0, 1, 2, 3, 4].map(|key| cache.find(key)),
            [OnItsWay, Absent, Absent, OnItsWay, OnItsWay]
        );
        assert!(!cache.enter(5));
        // It has the place of its fetch, not that of its arrival.
        cache.arrived(3);
        cache.arrived(0);
        assert!(cache.enter(5));
        assert_eq!([0, 3].map(|key| cache.find(key)), [Absent, Cached]);
    }

    #[test]
    fn a_smaller_one_keeps_what_is_on_its_way() {
        let mut cache = Cache::new(4);
        for key in 0..4 {
            assert!(cache.enter(key));
        }
        cache.arrived(3);
        cache.resize(2);
        assert_eq!(cache.len(), 3);
        cache.arrived(0);
        assert!(!cache.enter(9));
        assert_eq!(cache.len(), 2);
    }
}
