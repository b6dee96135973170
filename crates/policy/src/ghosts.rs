//! Ghosts: what a block that no list names is worth.
//!
//! Blocks that were replaced while no list named them are remembered for a while. How often they are missed, over how
//! long they were remembered, is the chance per reference that such a block is needed again: the marginal value of one
//! more block for LRU, as in cost-benefit caching (Patterson et al., SOSP 1995, section 4.2). A block that a list names
//! k references ahead is worth 1/k on the same scale, times the chance that the list is right.
//!
//! Memory: at most [`REMEMBERED`] blocks a manager; of a larger cache a sample of the blocks by a hash of their number.

use std::collections::{HashMap, VecDeque};

use crate::ids::Block;

/// Ghosts at most.
const REMEMBERED: usize = 4096;

/// Ghosts for one block of the cache: what LRU would hit with twice the memory.
const GHOSTS_PER_BLOCK: usize = 1;

/// References over which the chance is taken, in ghosts' references: sums are halved at so many for each ghost.
const MEMORY: u64 = 4096;

/// Ghosts of one manager.
#[derive(Debug)]
pub(crate) struct Ghosts {
    /// Block to the number of its eviction. Only looked up, never iterated: the result does not depend on its order.
    numbers: HashMap<Block, u64>,
    /// In order of eviction; entries of blocks that were missed since are stale.
    order: VecDeque<(Block, u64)>,
    next: u64,
    capacity: usize,
    /// One block in so many is remembered: a power of two.
    one_in: u64,
    missed: f64,
    exposure: f64,
}

impl Ghosts {
    pub(crate) fn new(cache_blocks: u32) -> Ghosts {
        let wanted = (cache_blocks as usize * GHOSTS_PER_BLOCK).max(16);
        let one_in = wanted.div_ceil(REMEMBERED).next_power_of_two();
        Ghosts {
            numbers: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
            capacity: wanted / one_in,
            one_in: one_in as u64,
            missed: 0.0,
            exposure: 0.0,
        }
    }

    /// A block that no list names was replaced.
    pub(crate) fn remember(&mut self, block: Block) {
        if !self.is_sampled(block) {
            return;
        }
        self.numbers.insert(block, self.next);
        self.order.push_back((block, self.next));
        self.next += 1;
        while self.order.len() > self.capacity {
            if let Some((oldest, number)) = self.order.pop_front()
                && self.numbers.get(&oldest) == Some(&number)
            {
                self.numbers.remove(&oldest);
            }
        }
    }

    /// One of the manager's references has been made.
    #[inline]
    pub(crate) fn reference(&mut self) {
        self.exposure += self.numbers.len() as f64;
        if self.exposure > (MEMORY * self.capacity as u64) as f64 {
            self.exposure /= 2.0;
            self.missed /= 2.0;
        }
    }

    /// A block had to be fetched that nothing had predicted.
    pub(crate) fn miss(&mut self, block: Block) {
        if self.is_sampled(block) && self.numbers.remove(&block).is_some() {
            self.missed += 1.0;
        }
    }

    /// The chance per reference that a block which no list names is needed.
    pub(crate) fn chance(&self) -> f64 {
        if self.exposure > 0.0 { self.missed / self.exposure } else { 0.0 }
    }

    fn is_sampled(&self, block: Block) -> bool {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
        let number = (u64::from(block.file.0) << 32) | u64::from(block.index);
        (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) & (self.one_in - 1) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FileId;

    #[test]
    fn a_cycle_of_replaced_blocks_is_worth_one_over_its_length() {
        let mut ghosts = Ghosts::new(64);
        let block = |i: u32| Block::new(FileId(0), i);
        // Each of 50 blocks is replaced and missed again 50 references later.
        for i in 0..10_000u32 {
            ghosts.reference();
            ghosts.miss(block(i % 50));
            ghosts.remember(block(i % 50));
        }
        assert!((ghosts.chance() * 50.0 - 1.0).abs() < 0.1, "{}", ghosts.chance());
    }

    #[test]
    fn what_is_never_missed_is_worth_nothing_and_memory_is_bounded() {
        let mut ghosts = Ghosts::new(1 << 24);
        for i in 0..1_000_000 {
            ghosts.reference();
            ghosts.remember(Block::new(FileId(1), i));
        }
        assert_eq!(ghosts.chance(), 0.0);
        assert!(ghosts.order.len() <= REMEMBERED && ghosts.numbers.len() <= REMEMBERED);
    }
}
