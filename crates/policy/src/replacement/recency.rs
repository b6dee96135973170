//! LRU and MRU: one list in order of recency, given up from the one end or the other.

use super::algorithm::Algorithm;
use super::arena::{Arena, List, Slot};

#[derive(Debug)]
pub(super) struct Recency {
    list: List<0>,
    newest_first: bool,
}

impl Recency {
    /// The least recently used one goes first.
    pub(super) fn least() -> Recency {
        Recency { list: List::default(), newest_first: false }
    }

    /// The most recently used one goes first.
    pub(super) fn most() -> Recency {
        Recency { list: List::default(), newest_first: true }
    }
}

impl Algorithm for Recency {
    fn enter(&mut self, arena: &mut Arena, slot: Slot, _: bool) {
        self.list.push_newest(arena, slot);
    }

    fn hit(&mut self, arena: &mut Arena, slot: Slot) {
        self.list.renew(arena, slot);
    }

    fn victim(&mut self, _: &mut Arena) -> Option<Slot> {
        if self.newest_first { self.list.newest() } else { self.list.oldest() }
    }

    fn leave(&mut self, arena: &mut Arena, slot: Slot, _: bool) {
        self.list.remove(arena, slot);
        arena.forget(slot);
    }

    fn keep(&mut self, arena: &mut Arena, slot: Slot) {
        self.list.remove(arena, slot);
        if self.newest_first {
            self.list.push_oldest(arena, slot);
        } else {
            self.list.push_newest(arena, slot);
        }
    }

    fn set_capacity(&mut self, _: &mut Arena, _: u32) {}

    fn order(&self, arena: &Arena, each: &mut dyn FnMut(Slot)) {
        self.list.iter(arena).for_each(each);
    }
}
