//! Aggressive, for several disks (Kimbrel et al. 1996, sections 2.4 and 2.7).
//!
//! Whenever a disk is free, fetch the first missing blocks *of that disk*, replacing the blocks whose
//! next reference is furthest, as long as those come after the fetched ones. Fetches are issued in
//! batches of up to B a disk; the next batch waits until the disk has none of ours left. If several
//! disks are free, their missing blocks are taken together in the order of reference, each added to its
//! own disk's batch. With one disk and B = 1 it is the algorithm of Cao et al. 1995: at most 1 + F/K
//! times the optimum, d times that for d disks.

use super::along::Along;
use super::{Occasion, Planner};
use crate::books::Desk;
use crate::config::Config;
use crate::ids::{DiskId, ManagerId};
use crate::knowledge::List;

/// Free disks and the room left in their batches, while they are filled: kept for its memory.
#[derive(Debug, Default)]
pub(super) struct OpenBatches(Vec<(DiskId, u32)>);

#[derive(Debug)]
pub(super) struct Aggressive {
    open: OpenBatches,
    /// Nothing: the paper's fetches each block for itself.
    along: Along,
}

impl Aggressive {
    pub(super) fn new(_: &Config) -> Aggressive {
        Aggressive { open: OpenBatches::default(), along: Along::default() }
    }
}

impl Planner for Aggressive {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, _: Occasion) {
        let (batch, horizon) = (desk.config().batch.max(1), desk.config().horizon);
        let room = |_: &List, _, in_flight| if in_flight == 0 { batch } else { 0 };
        for list in 0..desk.list_count(manager) {
            self.open.fill(desk, manager, list, (horizon, 0.0), &mut self.along, room);
        }
    }
}

impl OpenBatches {
    /// Fetches from every disk as many missing blocks as `room` says of it and the fetches under way from it, up to
    /// `horizon` references ahead, that are used with at least this chance; and what goes along with them. Says whether there
    /// was any.
    pub(super) fn fill(
        &mut self,
        desk: &mut Desk<'_>,
        manager: ManagerId,
        list: usize,
        (horizon, least_chance): (Option<u32>, f64),
        along: &mut Along,
        mut room: impl FnMut(&List, DiskId, u32) -> u32,
    ) -> bool {
        let mut any = false;
        let believed = desk.believed(manager, list, least_chance);
        let Some(l) = desk.list(manager, list) else { return any };
        let end = horizon.map_or(u32::MAX, |h| l.cursor().saturating_add(h)).min(believed.end);
        let open = &mut self.0;
        open.clear();
        for disk in desk.disks() {
            let room = room(l, disk, desk.in_flight_from(disk));
            if room > 0 {
                open.push((disk, room));
            }
        }
        while let Some(l) = desk.list(manager, list) {
            // From the first one each time: an eviction for this batch may have made an earlier hole.
            let first = open
                .iter()
                .enumerate()
                .filter_map(|(i, &(disk, _))| l.next_hole_on(disk, believed.start).map(|hole| (hole, i)))
                .min();
            let Some((hole, i)) = first.filter(|&(hole, _)| hole < end) else { break };
            let Some(b) = desk.block_at(manager, list, hole) else { break };
            if !desk.is_worth(manager, list, hole, least_chance) {
                continue;
            }
            if !desk.is_frame_free(manager, list, hole) || !desk.prefetch_listed(manager, b) {
                break;
            }
            any = true;
            let fetched = 1 + along.fetch(desk, manager, list, hole);
            open[i].1 = open[i].1.saturating_sub(fetched);
            if open[i].1 == 0 {
                open.swap_remove(i);
            }
        }
        any
    }
}
