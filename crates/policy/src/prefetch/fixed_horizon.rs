//! Fixed horizon (Kimbrel et al. 1996, section 2.3; the algorithm of TIP2).
//!
//! Whenever a missing block is at most H references ahead, fetch it, whatever the disks are doing, and
//! replace the block whose next reference is furthest. H is the time of a fetch over the least time
//! between two references, so that with idle disks a fetch ends just in time; fetching no earlier makes
//! the best replacements, and stalls where the disks cannot keep up. The paper's condition on the
//! victim (its next reference is more than H ahead) always holds for H < K; for larger H "do no harm"
//! is what remains of it.

use crate::engine::Engine;
use crate::ids::{ManagerId, Nanos};

impl Engine {
    pub(super) fn plan_fixed_horizon(&mut self, now: Nanos, manager: ManagerId) {
        let horizon = self.config.fixed_horizon();
        let Some(mut from) = self.disclosures.list(manager).map(|l| l.cursor()) else { return };
        let end = from.saturating_add(horizon);
        while let Some(list) = self.disclosures.list(manager)
            && let Some(hole) = list.next_hole(from).filter(|&hole| hole < end)
        {
            let b = self.disclosures.block_at(list, hole);
            if !self.free_blocks_exceed(manager, hole, 0) || !self.prefetch(now, manager, b) {
                return;
            }
            from = hole;
        }
    }
}
