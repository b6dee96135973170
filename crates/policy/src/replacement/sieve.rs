//! SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, "SIEVE is simpler than LRU", NSDI 2024, section 3).
//!
//! Blocks stay in the order in which they came. A reference marks a block. A hand goes from the oldest
//! towards the newest: it takes the mark off a block that has one and gives up the first that has none;
//! then it stays where it is, so that old blocks that it has passed over are looked at last.

use super::algorithm::Algorithm;
use super::arena::{Arena, List, Slot};

#[derive(Debug, Default)]
pub(super) struct Sieve {
    queue: List<0>,
    /// Where to look next; from the oldest on if nowhere.
    hand: Option<Slot>,
}

impl Algorithm for Sieve {
    fn enter(&mut self, arena: &mut Arena, slot: Slot, _: bool) {
        arena[slot].count = 0;
        self.queue.push_newest(arena, slot);
    }

    fn hit(&mut self, arena: &mut Arena, slot: Slot) {
        arena[slot].count = 1;
    }

    fn victim(&mut self, arena: &mut Arena) -> Option<Slot> {
        let mut at = self.hand.or(self.queue.oldest())?;
        while std::mem::take(&mut arena[at].count) > 0 {
            at = self.queue.newer(arena, at).or(self.queue.oldest())?;
        }
        self.hand = Some(at);
        self.hand
    }

    fn leave(&mut self, arena: &mut Arena, slot: Slot, _: bool) {
        if self.hand == Some(slot) {
            self.hand = self.queue.newer(arena, slot);
        }
        self.queue.remove(arena, slot);
        arena.forget(slot);
    }

    fn set_capacity(&mut self, _: &mut Arena, _: u32) {}

    fn order(&self, arena: &Arena, each: &mut dyn FnMut(Slot)) {
        for marked in [false, true] {
            self.queue.iter(arena).filter(|&slot| (arena[slot].count > 0) == marked).for_each(&mut *each);
        }
    }
}
