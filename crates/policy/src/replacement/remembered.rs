//! Blocks that have gone and are remembered.

use super::arena::{Arena, List, Slot};

/// Blocks that have gone and are remembered, up to a limit.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    pub(super) list: List<0>,
    pub(super) limit: u32,
}

impl Ghosts {
    pub(super) fn new(limit: u32) -> Ghosts {
        Ghosts { list: List::default(), limit }
    }

    /// Remembers a block; gives the one to forget instead, if there are too many.
    pub(super) fn add(&mut self, arena: &mut Arena, slot: Slot) -> Option<Slot> {
        self.list.push_newest(arena, slot);
        (self.list.len() > self.limit).then_some(()).and_then(|()| self.list.oldest())
    }

    pub(super) fn remove(&mut self, arena: &mut Arena, slot: Slot) {
        self.list.remove(arena, slot);
    }
}
