//! The kernel's replacement of unmapped file pages (Linux 6.x, without the multi-generational LRU): a
//! model of `mm/swap.c` (`folio_mark_accessed`), `mm/vmscan.c` (`inactive_is_low`,
//! `shrink_active_list`) and `mm/workingset.c`.
//!
//! New blocks go to the inactive list. A second reference there makes a block active. The oldest of the
//! inactive list goes, referenced or not. When the inactive list is shorter than its share, the oldest
//! active blocks become inactive; references do not save them. A counter advances with each eviction and
//! each activation; a block that comes back when it has advanced by at most as much as there are active
//! blocks would have stayed in a larger inactive list: it becomes active at once, and an active block is
//! made inactive for it, as reclaim does when refaults go on.
//!
//! Left out: batches, reference bits of mapped pages, dirty pages, the balance with anonymous memory.

use super::algorithm::Algorithm;
use super::arena::{Arena, List, Slot};
use super::remembered::Ghosts;

const INACTIVE: u8 = 1;
const ACTIVE: u8 = 2;
const GHOST: u8 = 3;

/// Blocks of a GiB, at 8 KiB each: the share of the inactive list depends on the size of the memory.
const GIB_BLOCKS: u64 = 1 << 17;

#[derive(Debug)]
pub(super) struct Linux {
    inactive: List<0>,
    active: List<0>,
    ghosts: Ghosts,
    /// Active blocks for each inactive one before the inactive list is too short.
    inactive_ratio: u32,
    scale: u32,
    /// Evictions and activations so far (`nonresident_age`).
    age: u32,
    /// Blocks that became active as they came back, each to be paid for by an active one.
    refaulted: u32,
}

/// `inactive_is_low`: the square root of ten times the size in GiB, 1 below a GiB.
fn inactive_ratio(blocks: u64) -> u32 {
    let gib = blocks / GIB_BLOCKS;
    ((10 * gib).isqrt() as u32).max(1)
}

impl Linux {
    pub(super) fn new(capacity: u32, scale: u32) -> Linux {
        Linux {
            inactive: List::default(),
            active: List::default(),
            ghosts: Ghosts::new(capacity),
            inactive_ratio: inactive_ratio(u64::from(capacity) * u64::from(scale)),
            scale,
            age: 0,
            refaulted: 0,
        }
    }

    fn activate(&mut self, arena: &mut Arena, slot: Slot) {
        arena[slot].place = ACTIVE;
        self.active.push_newest(arena, slot);
        self.age = self.age.wrapping_add(1);
    }

    /// The oldest active block becomes inactive; false if there is none.
    fn deactivate(&mut self, arena: &mut Arena) -> bool {
        let Some(slot) = self.active.oldest() else { return false };
        self.active.remove(arena, slot);
        arena[slot].place = INACTIVE;
        self.inactive.push_newest(arena, slot);
        true
    }

    fn inactive_is_low(&self) -> bool {
        u64::from(self.inactive.len()) * u64::from(self.inactive_ratio) < u64::from(self.active.len())
    }

    fn unlist(&mut self, arena: &mut Arena, slot: Slot) {
        match arena[slot].place {
            ACTIVE => self.active.remove(arena, slot),
            _ => self.inactive.remove(arena, slot),
        }
    }
}

impl Algorithm for Linux {
    fn enter(&mut self, arena: &mut Arena, slot: Slot, remembered: bool) {
        // The reference that brought it in is the first.
        arena[slot].count = 1;
        if remembered {
            self.ghosts.remove(arena, slot);
            let distance = self.age.wrapping_sub(arena[slot].tag);
            if distance <= self.active.len() {
                self.refaulted += 1;
                self.activate(arena, slot);
                return;
            }
        }
        arena[slot].place = INACTIVE;
        self.inactive.push_newest(arena, slot);
    }

    fn hit(&mut self, arena: &mut Arena, slot: Slot) {
        let node = &mut arena[slot];
        if node.place == INACTIVE && node.count > 0 {
            node.count = 0;
            self.inactive.remove(arena, slot);
            self.activate(arena, slot);
        } else {
            node.count = 1;
        }
    }

    fn victim(&mut self, arena: &mut Arena) -> Option<Slot> {
        while (self.refaulted > 0 || self.inactive_is_low()) && self.deactivate(arena) {
            self.refaulted = self.refaulted.saturating_sub(1);
        }
        self.inactive.oldest().or(self.active.oldest())
    }

    fn leave(&mut self, arena: &mut Arena, slot: Slot, evicted: bool) {
        self.unlist(arena, slot);
        if !evicted {
            arena.forget(slot);
            return;
        }
        let node = &mut arena[slot];
        (node.place, node.tag) = (GHOST, self.age);
        self.age = self.age.wrapping_add(1);
        if let Some(oldest) = self.ghosts.add(arena, slot) {
            self.ghosts.remove(arena, oldest);
            arena.forget(oldest);
        }
    }

    fn keep(&mut self, arena: &mut Arena, slot: Slot) {
        self.unlist(arena, slot);
        arena[slot].place = ACTIVE;
        self.active.push_newest(arena, slot);
    }

    fn set_capacity(&mut self, arena: &mut Arena, capacity: u32) {
        self.inactive_ratio = inactive_ratio(u64::from(capacity) * u64::from(self.scale));
        self.ghosts.limit = capacity;
        while self.ghosts.list.len() > self.ghosts.limit {
            let Some(oldest) = self.ghosts.list.oldest() else { break };
            self.ghosts.remove(arena, oldest);
            arena.forget(oldest);
        }
    }

    fn order(&self, arena: &Arena, each: &mut dyn FnMut(Slot)) {
        self.inactive.iter(arena).chain(self.active.iter(arena)).for_each(each);
    }
}
