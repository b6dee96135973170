//! What a guest is told of the memory that it gets.

use super::board::{GUEST_LANES, LOCAL_LANES, MOST_GUESTS, Shape};

/// What a guest is told of the memory that it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) shape: Shape,
    pub(crate) first_lane: u32,
}

impl Granted {
    /// For another process.
    pub(crate) fn to_numbers(self) -> [u64; 4] {
        let Shape { slots, parts, part_bytes } = self.shape;
        [slots, parts, part_bytes, self.first_lane].map(u64::from)
    }

    /// `None` if it cannot be.
    pub(crate) fn from_numbers(numbers: [u64; 4]) -> Option<Granted> {
        let [slots, parts, part_bytes, first_lane] = numbers.map(|number| u32::try_from(number).ok());
        let shape = Shape { slots: slots?, parts: parts?, part_bytes: part_bytes? };
        let lanes = LOCAL_LANES..LOCAL_LANES + MOST_GUESTS * GUEST_LANES;
        let first_lane = first_lane.filter(|first| lanes.contains(first) && first % GUEST_LANES == 0)?;
        let is_possible = shape.parts > 0 && shape.slots >= shape.parts && shape.part_bytes > 0;
        is_possible.then_some(Granted { shape, first_lane })
    }
}
