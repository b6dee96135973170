//! Frames: which blocks have one, in order of their last reference.
//!
//! All blocks that are cached or on their way are in one global list, from least to most recently used (Cao et
//! al. 1996, section 3.2). The list decides nothing: it proposes a candidate, and [`crate::books`] asks its owner.

use crate::blocks::{BlockId, Blocks, State};
use crate::recency::{NONE, RecencyList};

/// Empty places that are walked over at most to find a block: this many, and one for so many blocks.
const EMPTY_PLACES: usize = 64;
const EMPTY_SHARE: usize = 4;

/// The frames of the cache.
#[derive(Debug)]
pub(crate) struct Frames {
    order: RecencyList,
    /// No block before this place could be replaced when it was last looked for one: what is on its way stays where
    /// it is, and would have to be walked over each time.
    passed: u32,
    used_blocks: u32,
    cache_blocks: u32,
}

impl Frames {
    pub(crate) fn new(cache_blocks: u32) -> Frames {
        Frames { order: RecencyList::default(), passed: 0, used_blocks: 0, cache_blocks: cache_blocks.max(1) }
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
        let mut moved = false;
        let place = self.order.push_back(b, |m, p| {
            blocks[m].global_place = p;
            moved = true;
        });
        blocks[b].global_place = place;
        self.look_again(if moved { 0 } else { place });
    }

    /// There may be a block at a place that could be replaced.
    #[inline]
    fn look_again(&mut self, place: u32) {
        self.passed = self.passed.min(place);
    }

    /// A block that was on its way is there.
    #[inline]
    pub(crate) fn arrived(&mut self, blocks: &Blocks, b: BlockId) {
        self.look_again(blocks[b].global_place);
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
        let mut moved = false;
        let place = self.order.touch(b, place, |m, p| {
            blocks[m].global_place = p;
            moved = true;
        });
        blocks[b].global_place = place;
        self.look_again(if moved { 0 } else { place });
    }

    /// Two blocks exchange their places.
    pub(crate) fn swap(&mut self, blocks: &mut Blocks, a: BlockId, b: BlockId) {
        let (at_a, at_b) = (blocks[a].global_place, blocks[b].global_place);
        self.order.swap(at_a, at_b);
        (blocks[a].global_place, blocks[b].global_place) = (at_b, at_a);
        self.look_again(at_a.min(at_b));
    }

    /// The first block of the list that could be replaced.
    pub(crate) fn least_recently_used(&mut self, blocks: &mut Blocks) -> Option<BlockId> {
        let front = self.order.front()?;
        if blocks[front].state == State::Cached {
            return Some(front);
        }
        let (found, place, empty) = self.order.find_from(self.passed, |b| blocks[b].state == State::Cached);
        self.passed = place;
        // Those that have gone from behind one that stays leave their places empty, which a round of moving all
        // blocks gives up. It pays for itself: each of these places was a block.
        if empty > self.used_blocks as usize / EMPTY_SHARE + EMPTY_PLACES {
            self.order.close_up(|m, p| blocks[m].global_place = p);
            self.passed = 0;
        }
        found
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Block;
    use crate::layout::Layout;

    #[test]
    fn what_is_on_its_way_in_front_is_not_walked_over_with_all_that_has_gone_behind_it() {
        let mut blocks = Blocks::new(1);
        let file = blocks.add_file(Layout::Unknown);
        let mut frames = Frames::new(1000);
        let enter = |frames: &mut Frames, blocks: &mut Blocks, index, state| {
            let b = blocks.find_or_add(Block::new(file, index)).unwrap();
            blocks[b].state = state;
            frames.give(blocks, b);
            b
        };
        let front = enter(&mut frames, &mut blocks, 0, State::InFlight);
        let all: Vec<BlockId> =
            (1..100_000).map(|index| enter(&mut frames, &mut blocks, index, State::Cached)).collect();
        for expected in all {
            let first = frames.least_recently_used(&mut blocks);
            assert_eq!(first, Some(expected));
            let most = EMPTY_PLACES + frames.used() as usize / EMPTY_SHARE;
            let (_, _, empty) = frames.order.find_from(frames.passed, |b| blocks[b].state == State::Cached);
            assert!(empty <= most, "{empty}");
            frames.take(&mut blocks, expected);
        }
        assert_eq!(frames.least_recently_used(&mut blocks), None);
        blocks[front].state = State::Cached;
        frames.arrived(&blocks, front);
        assert_eq!(frames.least_recently_used(&mut blocks), Some(front));
    }
}
