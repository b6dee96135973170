//! Fixed horizon (Kimbrel et al. 1996, section 2.3; the algorithm of TIP2).
//!
//! Whenever a missing block is at most H references ahead, fetch it, whatever the disks are doing, and
//! replace the block whose next reference is furthest. H is the time of a fetch over the least time
//! between two references, so that with idle disks a fetch ends just in time; fetching no earlier makes
//! the best replacements, and stalls where the disks cannot keep up. The paper's condition on the
//! victim (its next reference is more than H ahead) always holds for H < K; for larger H "do no harm"
//! is what remains of it.

use super::along::Along;
use super::{Occasion, Planner};
use crate::books::Desk;
use crate::config::Config;
use crate::ids::ManagerId;

#[derive(Debug)]
pub(super) struct FixedHorizon {
    /// Nothing: the paper's fetches each block for itself.
    along: Along,
}

impl FixedHorizon {
    pub(super) fn new(_: &Config) -> FixedHorizon {
        FixedHorizon { along: Along::default() }
    }
}

impl Planner for FixedHorizon {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, _: Occasion) {
        fetch_within(desk, manager, 0.0, &mut self.along);
    }
}

/// Fetches what is missing within the horizon and is used with at least this chance, and what goes along with it.
pub(super) fn fetch_within(desk: &mut Desk<'_>, manager: ManagerId, least_chance: f64, along: &mut Along) {
    let horizon = desk.config().fixed_horizon();
    for list in 0..desk.list_count(manager) {
        let believed = desk.believed(manager, list, least_chance);
        let Some(cursor) = desk.list(manager, list).map(|l| l.cursor()) else { continue };
        let (mut from, end) = (believed.start, cursor.saturating_add(horizon).min(believed.end));
        while let Some(l) = desk.list(manager, list)
            && let Some(hole) = l.next_hole(from).filter(|&hole| hole < end)
            && let Some(b) = desk.block_at(manager, list, hole)
        {
            if !desk.is_worth(manager, list, hole, least_chance) {
                continue;
            }
            if !desk.is_frame_free(manager, list, hole) || !desk.prefetch_listed(manager, b) {
                break;
            }
            along.fetch(desk, manager, list, hole);
            from = hole;
        }
    }
}
