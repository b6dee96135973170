//! Whether a sequence is left to the kernel as its disk has an arm.
//!
//! Read in sequence, a disk with an arm gives all it has to the kernel's own readahead, and what is read ahead of that moves the
//! arm away and back. Where a program goes through several sequences by turns it is moved anyway, and the less often the more is
//! read at a time.

use std::path::Path;

use crate::costs::ARM_NS;

/// Of the last 32 pieces of sequences that waited so many followed a piece of another one: it goes by turns.
const TURNS: u32 = 8;

/// What tells it.
#[derive(Debug)]
pub(crate) struct Arm {
    /// Whether the disk of a file says that it has one.
    has_arm: fn(&Path) -> bool,
    /// Pieces that followed none and waited, and for how long, nanoseconds.
    begun: (u64, u64),
    /// A bit for each of the last pieces of sequences that waited: it was in another file or process than the one before.
    turns: u32,
    last: (u32, u32),
}

impl Arm {
    pub(crate) fn new(has_arm: fn(&Path) -> bool) -> Arm {
        Arm { has_arm, begun: (0, 0), turns: 0, last: (0, 0) }
    }

    /// A piece that follows none has waited so long.
    pub(crate) fn began(&mut self, waited_ns: u64) {
        if waited_ns > 0 {
            self.begun = (self.begun.0 + 1, self.begun.1.saturating_add(waited_ns));
        }
    }

    /// A sequence of a process in a file has waited.
    pub(crate) fn went_on(&mut self, place: (u32, u32)) {
        let is_other = std::mem::replace(&mut self.last, place) != place;
        self.turns = self.turns << 1 | u32::from(is_other);
    }

    /// Is a sequence in this file left to the kernel?
    pub(crate) fn is_in_the_way(&self, path: &Path) -> bool {
        let (begun, waited_ns) = self.begun;
        self.turns.count_ones() < TURNS && waited_ns >= ARM_NS * begun.max(1) && (self.has_arm)(path)
    }
}
