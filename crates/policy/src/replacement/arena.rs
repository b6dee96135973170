//! What a ranking is made of: nodes for the blocks it holds and for those it remembers, lists through
//! them, and the way from a block to its node.
//!
//! A node is used again when its block is forgotten, and the index is as long as twice the most nodes
//! there ever were: once a ranking has its size, nothing is allocated any more. Keys are found by
//! hashing, but never walked over, so no result depends on where they lie.

use crate::recency::NONE;

/// Number of a node.
pub(crate) type Slot = u32;

#[derive(Debug, Clone, Copy)]
struct Links {
    older: Slot,
    newer: Slot,
}

/// A block that a ranking holds or remembers, in half a cache line.
#[derive(Debug, Clone)]
pub(super) struct Node {
    key: u64,
    /// The caller's number while the block is held; what the policy likes while it is remembered.
    pub(super) tag: u32,
    /// Which list it is in, in the policy's own numbers.
    pub(super) place: u8,
    /// References counted, or whether there was one.
    pub(super) count: u8,
    /// Held, not only remembered.
    pub(super) held: bool,
    /// In the second list as well ([`List<1>`]).
    pub(super) stacked: bool,
    links: [Links; 2],
}

const _: () = assert!(size_of::<Node>() == 32);

/// The nodes, and where each key's is.
#[derive(Debug, Default)]
pub(super) struct Arena {
    nodes: Vec<Node>,
    /// First of the nodes that can be used again, linked through `newer`.
    vacant: Option<Slot>,
    /// Nodes by the hash of their keys, with linear probing; a power of two, at most half full.
    index: Vec<Slot>,
    known: usize,
}

/// Places of the smallest index.
const MIN_PLACES: usize = 16;

/// Neighbouring keys that have neighbouring places: half of a cache line of the index.
const NEIGHBOURS: u64 = 8;

/// The home of a key in an index of `mask + 1` places. Neighbours lie together, as a program that reads in order takes
/// them one after the other; where they lie is mixed, so that groups do not heap up.
#[inline]
fn home(key: u64, mask: usize) -> usize {
    (mixed(key / NEIGHBOURS).wrapping_mul(NEIGHBOURS) + key % NEIGHBOURS) as usize & mask
}

/// Bits of a number mixed so that each depends on all (the finaliser of SplitMix64; Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014).
#[inline]
pub(crate) fn mixed(key: u64) -> u64 {
    let mut bits = key.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

impl std::ops::Index<Slot> for Arena {
    type Output = Node;
    #[inline]
    fn index(&self, slot: Slot) -> &Node {
        &self.nodes[slot as usize]
    }
}

impl std::ops::IndexMut<Slot> for Arena {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Node {
        &mut self.nodes[slot as usize]
    }
}

impl Arena {
    /// The node of a key.
    pub(super) fn find(&self, key: u64) -> Option<Slot> {
        let mut at = self.home(key)?;
        loop {
            match self.index[at] {
                NONE => return None,
                slot if self[slot].key == key => return Some(slot),
                _ => at = (at + 1) & (self.index.len() - 1),
            }
        }
    }

    /// A node for a key that has none.
    pub(super) fn add(&mut self, key: u64) -> Slot {
        if (self.known + 1) * 2 > self.index.len() {
            self.grow();
        }
        let links = [Links { older: NONE, newer: NONE }; 2];
        let node = Node { key, tag: NONE, place: 0, count: 0, held: false, stacked: false, links };
        let slot = match self.vacant {
            Some(slot) => {
                let next = self[slot].links[0].newer;
                self.vacant = (next != NONE).then_some(next);
                self[slot] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as Slot - 1
            }
        };
        self.known += 1;
        self.note(slot);
        slot
    }

    /// Forgets a node that is in no list.
    pub(super) fn forget(&mut self, slot: Slot) {
        let mask = self.index.len() - 1;
        let Some(mut hole) = self.home(self[slot].key) else { return };
        while self.index[hole] != slot {
            hole = (hole + 1) & mask;
        }
        // What was pushed on by this one moves back, so that no search ends at the hole.
        let mut at = (hole + 1) & mask;
        while self.index[at] != NONE {
            let home = home(self[self.index[at]].key, mask);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = self.index[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.index[hole] = NONE;
        self.known -= 1;
        let next = self.vacant.unwrap_or(NONE);
        self[slot].links[0].newer = next;
        self.vacant = Some(slot);
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.index.capacity() * size_of::<Slot>()
    }

    fn home(&self, key: u64) -> Option<usize> {
        (!self.index.is_empty()).then(|| home(key, self.index.len() - 1))
    }

    fn note(&mut self, slot: Slot) {
        let mask = self.index.len() - 1;
        let mut at = home(self[slot].key, mask);
        while self.index[at] != NONE {
            at = (at + 1) & mask;
        }
        self.index[at] = slot;
    }

    fn grow(&mut self) {
        let places = (self.index.len() * 2).max(MIN_PLACES);
        let old = std::mem::replace(&mut self.index, vec![NONE; places]);
        for slot in old.into_iter().filter(|slot| *slot != NONE) {
            self.note(slot);
        }
    }
}

/// A list of nodes from the oldest to the newest. A node can be in one list of each `W` at a time.
#[derive(Debug, Clone)]
pub(super) struct List<const W: usize> {
    oldest: Slot,
    newest: Slot,
    len: u32,
}

impl<const W: usize> Default for List<W> {
    fn default() -> Self {
        List { oldest: NONE, newest: NONE, len: 0 }
    }
}

impl<const W: usize> List<W> {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    pub(super) fn newest(&self) -> Option<Slot> {
        (self.newest != NONE).then_some(self.newest)
    }

    /// The next newer node.
    pub(super) fn newer(&self, arena: &Arena, slot: Slot) -> Option<Slot> {
        let newer = arena[slot].links[W].newer;
        (newer != NONE).then_some(newer)
    }

    /// From the oldest to the newest.
    pub(super) fn iter<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = Slot> + 'a {
        std::iter::successors(self.oldest(), |&slot| self.newer(arena, slot))
    }

    pub(super) fn push_newest(&mut self, arena: &mut Arena, slot: Slot) {
        arena[slot].links[W] = Links { older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = slot,
            newest => arena[newest].links[W].newer = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    pub(super) fn push_oldest(&mut self, arena: &mut Arena, slot: Slot) {
        arena[slot].links[W] = Links { older: NONE, newer: self.oldest };
        match self.oldest {
            NONE => self.newest = slot,
            oldest => arena[oldest].links[W].older = slot,
        }
        self.oldest = slot;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, arena: &mut Arena, slot: Slot) {
        let Links { older, newer } = arena[slot].links[W];
        match older {
            NONE => self.oldest = newer,
            older => arena[older].links[W].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => arena[newer].links[W].older = older,
        }
        self.len -= 1;
    }

    pub(super) fn renew(&mut self, arena: &mut Arena, slot: Slot) {
        if self.newest != slot {
            self.remove(arena, slot);
            self.push_newest(arena, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Keys are found exactly as long as they are known, whatever else comes and goes.
        #[test]
        fn finds_as_a_map(operations in prop::collection::vec((0..60u64, any::<bool>()), 0..400)) {
            let mut arena = Arena::default();
            let mut naive = BTreeMap::new();
            for (key, add) in operations {
                match (naive.get(&key).copied(), add) {
                    (None, true) => drop(naive.insert(key, arena.add(key))),
                    (Some(slot), false) => {
                        arena.forget(slot);
                        naive.remove(&key);
                    }
                    _ => {}
                }
                for key in 0..60 {
                    prop_assert_eq!(arena.find(key), naive.get(&key).copied());
                }
            }
            prop_assert!(arena.nodes.len() <= 60, "nodes are used again");
        }
    }
}
