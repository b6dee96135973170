//! Frames: which blocks have one, in order of their last reference.
//!
//! All blocks that are cached or on their way are in one global list, from least to most recently used (Cao et
//! al. 1996, section 3.2). The list decides nothing: it proposes a candidate, and [`crate::books`] asks its owner.

use crate::blocks::{BlockId, Blocks, State};
use crate::recency::{NONE, RecencyList};

/// The frames of the cache.
#[derive(Debug)]
pub(crate) struct Frames {
    order: RecencyList,
    used_blocks: u32,
    cache_blocks: u32,
}

impl Frames {
    pub(crate) fn new(cache_blocks: u32) -> Frames {
        Frames { order: RecencyList::default(), used_blocks: 0, cache_blocks: cache_blocks.max(1) }
    }

    /// Frames in use.
    pub(crate) fn used(&self) -> u32 {
        self.used_blocks
    }

    /// Frames that nothing is in.
    pub(crate) fn empty(&self) -> u32 {
        self.cache_blocks.saturating_sub(self.used_blocks)
    }

    pub(crate) fn set_cache_blocks(&mut self, cache_blocks: u32) {
        self.cache_blocks = cache_blocks.max(1);
    }

    /// Are more frames in use than there are, after the cache has become smaller?
    pub(crate) fn is_overfull(&self) -> bool {
        self.used_blocks > self.cache_blocks
    }

    /// Gives a block a frame; it is the most recently used one.
    pub(crate) fn give(&mut self, blocks: &mut Blocks, b: BlockId) {
        self.used_blocks += 1;
        let place = self.order.push_back(b, |m, p| blocks[m].global_place = p);
        blocks[b].global_place = place;
    }

    /// Takes a block's frame away.
    pub(crate) fn take(&mut self, blocks: &mut Blocks, b: BlockId) {
        self.used_blocks -= 1;
        self.order.remove(blocks[b].global_place);
        blocks[b].global_place = NONE;
    }

    /// A block was referenced.
    #[inline]
    pub(crate) fn touch(&mut self, blocks: &mut Blocks, b: BlockId) {
        let place = blocks[b].global_place;
        let place = self.order.touch(place, |m, p| blocks[m].global_place = p);
        blocks[b].global_place = place;
    }

    /// Two blocks exchange their places.
    pub(crate) fn swap(&mut self, blocks: &mut Blocks, a: BlockId, b: BlockId) {
        let (at_a, at_b) = (blocks[a].global_place, blocks[b].global_place);
        self.order.swap(at_a, at_b);
        (blocks[a].global_place, blocks[b].global_place) = (at_b, at_a);
    }

    /// The first block of the list that could be replaced.
    pub(crate) fn least_recently_used(&mut self, blocks: &Blocks) -> Option<BlockId> {
        let front = self.order.front()?;
        if blocks[front].state == State::Cached {
            return Some(front);
        }
        self.order.iter().find(|&b| blocks[b].state == State::Cached)
    }

    /// All blocks with a frame, least recently used first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = BlockId> + '_ {
        self.order.iter()
    }

    /// Gives the memory of an empty list back.
    pub(crate) fn release_memory(&mut self) {
        self.order.release_memory();
    }
}
