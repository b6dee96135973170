//! S3-FIFO (Yang, Zhang, Qiu, Yue and Vinayak, "FIFO queues are all you need for cache eviction", SOSP
//! 2023, section 4).
//!
//! New blocks go into a small queue, a tenth of the cache. What reaches its end referenced more than
//! once moves to the main queue; the rest goes and is remembered, as many as the main queue holds. A
//! block that comes back while it is remembered goes to the main queue at once. There a block at the end
//! that was referenced goes round again, its count less by one.

use super::algorithm::Algorithm;
use super::arena::{Arena, List, Slot};
use super::remembered::Ghosts;

const SMALL: u8 = 1;
const MAIN: u8 = 2;
const GHOST: u8 = 3;

/// The small queue's share of the cache is one in so many (section 4.1: 10%).
const SMALL_SHARE: u32 = 10;

/// References are counted up to this (section 4.1: two bits).
const MOST_COUNTED: u8 = 3;

/// A block of the small queue moves to the main one with more references than this (section 4.2).
const PROMOTE_ABOVE: u8 = 1;

#[derive(Debug)]
pub(super) struct S3Fifo {
    small: List<0>,
    main: List<0>,
    ghosts: Ghosts,
    small_target: u32,
}

fn small_target(capacity: u32) -> u32 {
    (capacity / SMALL_SHARE).max(1)
}

impl S3Fifo {
    pub(super) fn new(capacity: u32) -> S3Fifo {
        let small_target = small_target(capacity);
        let ghosts = Ghosts::new(capacity - small_target);
        S3Fifo { small: List::default(), main: List::default(), ghosts, small_target }
    }

    fn push_main(&mut self, arena: &mut Arena, slot: Slot) {
        arena[slot].place = MAIN;
        self.main.push_newest(arena, slot);
    }
}

impl Algorithm for S3Fifo {
    fn enter(&mut self, arena: &mut Arena, slot: Slot, remembered: bool) {
        arena[slot].count = 0;
        if remembered {
            self.ghosts.remove(arena, slot);
            self.push_main(arena, slot);
        } else {
            arena[slot].place = SMALL;
            self.small.push_newest(arena, slot);
        }
    }

    fn hit(&mut self, arena: &mut Arena, slot: Slot) {
        let count = &mut arena[slot].count;
        *count = (*count + 1).min(MOST_COUNTED);
    }

    fn victim(&mut self, arena: &mut Arena) -> Option<Slot> {
        // Each round empties the small queue by one or takes a reference off: it ends.
        loop {
            if self.small.len() >= self.small_target || self.main.len() == 0 {
                let slot = self.small.oldest()?;
                if arena[slot].count <= PROMOTE_ABOVE {
                    return Some(slot);
                }
                self.small.remove(arena, slot);
                arena[slot].count = 0;
                self.push_main(arena, slot);
            } else {
                let slot = self.main.oldest()?;
                if arena[slot].count == 0 {
                    return Some(slot);
                }
                arena[slot].count -= 1;
                self.main.renew(arena, slot);
            }
        }
    }

    fn leave(&mut self, arena: &mut Arena, slot: Slot, evicted: bool) {
        if arena[slot].place == MAIN {
            self.main.remove(arena, slot);
            arena.forget(slot);
            return;
        }
        self.small.remove(arena, slot);
        if !evicted {
            arena.forget(slot);
            return;
        }
        arena[slot].place = GHOST;
        if let Some(oldest) = self.ghosts.add(arena, slot) {
            self.ghosts.remove(arena, oldest);
            arena.forget(oldest);
        }
    }

    fn keep(&mut self, arena: &mut Arena, slot: Slot) {
        match arena[slot].place {
            MAIN => self.main.remove(arena, slot),
            _ => self.small.remove(arena, slot),
        }
        self.push_main(arena, slot);
    }

    fn set_capacity(&mut self, arena: &mut Arena, capacity: u32) {
        self.small_target = small_target(capacity);
        self.ghosts.limit = capacity - self.small_target;
        while self.ghosts.list.len() > self.ghosts.limit {
            let Some(oldest) = self.ghosts.list.oldest() else { break };
            self.ghosts.remove(arena, oldest);
            arena.forget(oldest);
        }
    }

    fn order(&self, arena: &Arena, each: &mut dyn FnMut(Slot)) {
        self.small.iter(arena).chain(self.main.iter(arena)).for_each(each);
    }
}
