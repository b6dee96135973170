//! Controlled-aggressive (Cao et al. 1996, sections 2.1.2 and 4.3).
//!
//! Whenever nothing that the manager asked for is on its way, fetch the next missing blocks of its list,
//! as long as doing so does no harm. The four rules:
//!
//! 1. optimal prefetching: fetch the next hole;
//! 2. optimal replacement: replace the block whose next reference is furthest in the future (that is
//!    [`crate::allocation`] asking the manager: blocks that the list does not name first, then the
//!    furthest);
//! 3. do no harm: never replace a block that will be referenced before the fetched one, which holds as
//!    long as *free blocks* are left: cached blocks whose next use is after the hole;
//! 4. first opportunity: do it as soon as that is so.
//!
//! Elapsed time is then at most 1 + F/K times the optimum (fetch time F in references, K cached blocks).
//! For disk scheduling up to B fetches are issued together, and the next batch waits until all of them
//! have completed; a margin of free blocks absorbs what other processes take in the meantime.
//!
//! A horizon, if set, leaves holes alone that are further ahead: with a fast device the rules alone fill
//! the cache with the near future and replace blocks early, which costs fetches without saving time.

use crate::engine::Engine;
use crate::ids::{ManagerId, Nanos};

impl Engine {
    pub(super) fn plan_controlled_aggressive(&mut self, now: Nanos, manager: ManagerId) {
        if self.managers[manager.0 as usize].in_flight > 0 {
            return;
        }
        for _ in 0..self.config.batch.max(1) {
            let Some(list) = self.disclosures.list(manager) else { return };
            let cursor = list.cursor();
            let Some(hole) = list.next_hole(cursor) else { return };
            if self.config.horizon.is_some_and(|h| hole - cursor >= h) {
                return;
            }
            let b = self.disclosures.block_at(list, hole);
            if !self.free_blocks_exceed(manager, hole, self.config.free_margin)
                || !self.prefetch(now, manager, b)
            {
                return;
            }
        }
    }
}
