//! What every replacement algorithm does.

use super::arena::{Arena, Slot};

/// One algorithm. It moves nodes between lists of its own; those that it forgets it gives back.
pub(super) trait Algorithm: std::fmt::Debug + Send {
    /// A block is held from now on, referenced for the first time. It may have been remembered.
    fn enter(&mut self, arena: &mut Arena, slot: Slot, remembered: bool);

    /// A block that is held was referenced.
    fn hit(&mut self, arena: &mut Arena, slot: Slot);

    /// The block that goes first; it stays until it is told to leave. The same one if asked again.
    fn victim(&mut self, arena: &mut Arena) -> Option<Slot>;

    /// A block is not held any more: the algorithm chose it (`evicted`), and may remember it, or it went
    /// by itself, and is forgotten.
    fn leave(&mut self, arena: &mut Arena, slot: Slot, evicted: bool);

    /// A block shall stay as long as possible, without a reference.
    fn keep(&mut self, arena: &mut Arena, slot: Slot) {
        self.hit(arena, slot);
    }

    /// So many blocks may be held.
    fn set_capacity(&mut self, arena: &mut Arena, capacity: u32);

    /// All that are held, roughly from the one that would go first to the one that would go last.
    fn order(&self, arena: &Arena, each: &mut dyn FnMut(Slot));
}
