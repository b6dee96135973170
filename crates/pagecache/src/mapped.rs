//! Evictions of what processes have mapped, which may take long: whoever has mapped a file has a say in that.
//!
//! To page out what a process has mapped its mappings are read ([`crate::mappings`]) and its memory is gone through. Both
//! wait for a lock of that process's, which it can hold for long: while it forks with much memory, say. So they are done
//! by user ([`foretell_door::ByUser`]). What users have mapped together has a lane of its own: it may be as slow as the slowest
//! of them.
//!
//! What waits in a lane has no frame any more, so it is in the cache beyond the budget. No more pages wait than may be put
//! off ([`crate::put_off`]), and further ones are.

use std::collections::BTreeMap;

use crate::eviction::CALL_PAGES;
use foretell_door::Shape;

/// The threads that do them.
pub(crate) const MAPPED: Shape = Shape {
    name: "foretell-mapped",
    threads: 16,
    spare: 1,
    stack_bytes: 1 << 20,
    lane_jobs: 1 << 14,
    all_jobs: 1 << 16,
};
/// The lane of what several users have mapped: -1, which is nobody's number (setreuid(2)).
pub(crate) const SHARED: u32 = u32::MAX;
/// Pages that may wait in a lane however small the budget: a few calls.
const LEAST_PAGES: u64 = 4 * CALL_PAGES;

/// Pages that wait in lanes.
#[derive(Debug, Default)]
pub(crate) struct InLanes(BTreeMap<u32, u64>);

impl InLanes {
    pub(crate) fn add(&mut self, lane: u32, pages: u64) {
        *self.0.entry(lane).or_default() += pages;
    }

    pub(crate) fn subtract(&mut self, lane: u32, pages: u64) {
        if let Some(waiting) = self.0.get_mut(&lane) {
            *waiting = waiting.saturating_sub(pages);
            if *waiting == 0 {
                self.0.remove(&lane);
            }
        }
    }

    pub(crate) fn has_room(&self, lane: u32, pages: u64, limit_pages: u64) -> bool {
        self.0.get(&lane).is_none_or(|waiting| waiting + pages <= limit_pages.max(LEAST_PAGES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_takes_so_much_and_has_room_again() {
        let mut lanes = InLanes::default();
        let limit = 2 * LEAST_PAGES;
        assert!(lanes.has_room(7, 10 * limit, limit), "an empty one takes anything");
        lanes.add(7, limit);
        assert!(!lanes.has_room(7, 1, limit));
        assert!(lanes.has_room(8, 1, limit), "another user's");
        lanes.subtract(7, LEAST_PAGES);
        assert!(lanes.has_room(7, LEAST_PAGES, limit) && !lanes.has_room(7, LEAST_PAGES + 1, limit));
        assert!(!lanes.has_room(7, 1, 0), "however small the budget");
        lanes.subtract(7, limit);
        assert!(lanes.0.is_empty());
    }
}
