//! LIRS (Jiang and Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to
//! improve buffer cache performance", SIGMETRICS 2002, section 3).
//!
//! What counts is how many other blocks were referenced between a block's last two references. Nearly
//! the whole cache is for blocks for which this is low (*LIR* blocks); the others (*HIR* blocks) pass
//! through a queue of a hundredth of it. A stack holds, by recency, all LIR blocks and every HIR block,
//! cached or not, that was referenced after the oldest LIR block was. A HIR block that is referenced
//! while it is in the stack has come back sooner than the oldest LIR block: they change places.
//!
//! A cyclic scan keeps the blocks that were there first, as under MRU; blocks with locality are kept as
//! under LRU: this one needs no choice between the two. The paper does not limit the stack; here the
//! HIR blocks in it that are not cached are at most as many as the cache has blocks, oldest forgotten
//! first.

use super::algorithm::Algorithm;
use super::arena::{Arena, List, Slot};
use super::remembered::Ghosts;

const LIR: u8 = 1;
const HIR: u8 = 2;
const GHOST: u8 = 3;

/// The HIR queue's share of the cache is one in so many (section 4.2: 1%).
const QUEUE_SHARE: u32 = 100;

#[derive(Debug)]
pub(super) struct Lirs {
    stack: List<1>,
    /// HIR blocks that are cached; the oldest goes first.
    queue: List<0>,
    ghosts: Ghosts,
    lir: u32,
    lir_target: u32,
}

fn lir_target(capacity: u32) -> u32 {
    capacity - (capacity / QUEUE_SHARE).max(1)
}

impl Lirs {
    pub(super) fn new(capacity: u32) -> Lirs {
        Lirs {
            stack: List::default(),
            queue: List::default(),
            ghosts: Ghosts::new(capacity),
            lir: 0,
            lir_target: lir_target(capacity),
        }
    }

    /// Puts a block on top of the stack.
    fn stack(&mut self, arena: &mut Arena, slot: Slot) {
        if arena[slot].stacked {
            self.stack.renew(arena, slot);
        } else {
            arena[slot].stacked = true;
            self.stack.push_newest(arena, slot);
        }
    }

    fn unstack(&mut self, arena: &mut Arena, slot: Slot) {
        arena[slot].stacked = false;
        self.stack.remove(arena, slot);
    }

    /// A block that is not in the queue becomes LIR, in place of the oldest such if there are too many.
    fn promote(&mut self, arena: &mut Arena, slot: Slot) {
        arena[slot].place = LIR;
        self.lir += 1;
        self.stack(arena, slot);
        self.demote_beyond(arena);
    }

    /// The oldest LIR blocks become HIR until they are no more than may be.
    fn demote_beyond(&mut self, arena: &mut Arena) {
        while self.lir > self.lir_target {
            let Some(slot) = self.stack.oldest() else { break };
            self.unstack(arena, slot);
            arena[slot].place = HIR;
            self.lir -= 1;
            self.queue.push_newest(arena, slot);
            self.prune(arena);
        }
    }

    /// HIR blocks below the oldest LIR block leave the stack, so that this is at its bottom.
    fn prune(&mut self, arena: &mut Arena) {
        while let Some(slot) = self.stack.oldest() {
            match arena[slot].place {
                LIR => break,
                GHOST => self.forget(arena, slot),
                _ => self.unstack(arena, slot),
            }
        }
    }

    fn forget(&mut self, arena: &mut Arena, ghost: Slot) {
        self.unstack(arena, ghost);
        self.ghosts.remove(arena, ghost);
        arena.forget(ghost);
    }
}

impl Algorithm for Lirs {
    fn enter(&mut self, arena: &mut Arena, slot: Slot, remembered: bool) {
        if remembered {
            self.ghosts.remove(arena, slot);
            self.promote(arena, slot);
        } else if self.lir < self.lir_target {
            self.promote(arena, slot);
        } else {
            arena[slot].place = HIR;
            self.stack(arena, slot);
            self.queue.push_newest(arena, slot);
        }
        self.prune(arena);
    }

    fn hit(&mut self, arena: &mut Arena, slot: Slot) {
        if arena[slot].place == LIR {
            self.stack(arena, slot);
        } else if arena[slot].stacked {
            self.queue.remove(arena, slot);
            self.promote(arena, slot);
        } else {
            self.stack(arena, slot);
            self.queue.renew(arena, slot);
        }
        self.prune(arena);
    }

    fn victim(&mut self, _: &mut Arena) -> Option<Slot> {
        self.queue.oldest().or(self.stack.oldest())
    }

    fn leave(&mut self, arena: &mut Arena, slot: Slot, evicted: bool) {
        if arena[slot].place == LIR {
            self.lir -= 1;
            self.unstack(arena, slot);
            arena.forget(slot);
            self.prune(arena);
            return;
        }
        self.queue.remove(arena, slot);
        if evicted && arena[slot].stacked {
            arena[slot].place = GHOST;
            if let Some(oldest) = self.ghosts.add(arena, slot) {
                self.forget(arena, oldest);
            }
            return;
        }
        if arena[slot].stacked {
            self.unstack(arena, slot);
        }
        arena.forget(slot);
    }

    fn set_capacity(&mut self, arena: &mut Arena, capacity: u32) {
        self.lir_target = lir_target(capacity);
        self.demote_beyond(arena);
        self.ghosts.limit = capacity;
        while self.ghosts.list.len() > self.ghosts.limit {
            let Some(oldest) = self.ghosts.list.oldest() else { break };
            self.forget(arena, oldest);
        }
    }

    fn order(&self, arena: &Arena, each: &mut dyn FnMut(Slot)) {
        let lir = self.stack.iter(arena).filter(|&slot| arena[slot].place == LIR);
        self.queue.iter(arena).chain(lir).for_each(each);
    }
}
