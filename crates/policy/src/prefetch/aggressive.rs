//! Aggressive, for several disks (Kimbrel et al. 1996, sections 2.4 and 2.7).
//!
//! Whenever a disk is free, fetch the first missing blocks *of that disk*, replacing the blocks whose
//! next reference is furthest, as long as those come after the fetched ones. Fetches are issued in
//! batches of up to B a disk; the next batch waits until the disk has none of ours left. If several
//! disks are free, their missing blocks are taken together in the order of reference, each added to its
//! own disk's batch. With one disk and B = 1 it is the algorithm of Cao et al. 1995: at most 1 + F/K
//! times the optimum, d times that for d disks.

use crate::engine::Engine;
use crate::ids::{DiskId, ManagerId, Nanos};

impl Engine {
    pub(super) fn plan_aggressive(&mut self, now: Nanos, manager: ManagerId) {
        let batch = self.config.batch.max(1);
        self.fill_batches(now, manager, self.config.horizon, |engine, disk| {
            if engine.disk_in_flight[disk.0 as usize] == 0 { batch } else { 0 }
        });
    }

    /// Fetches from every disk as many missing blocks as `room` says, up to `horizon` references ahead.
    pub(super) fn fill_batches(
        &mut self,
        now: Nanos,
        manager: ManagerId,
        horizon: Option<u32>,
        mut room: impl FnMut(&mut Engine, DiskId) -> u32,
    ) {
        let Some(cursor) = self.disclosures.list(manager).map(|l| l.cursor()) else { return };
        let end = horizon.map_or(u32::MAX, |h| cursor.saturating_add(h));
        let mut open = std::mem::take(&mut self.open_batches);
        open.clear();
        for disk in (0..self.config.disks.max(1)).map(DiskId) {
            let room = room(self, disk);
            if room > 0 {
                open.push((disk, room));
            }
        }
        while let Some(list) = self.disclosures.list(manager) {
            // From the cursor each time: an eviction for this batch may have made an earlier hole.
            let first = open
                .iter()
                .enumerate()
                .filter_map(|(i, &(disk, _))| list.next_hole_on(disk, cursor).map(|hole| (hole, i)))
                .min();
            let Some((hole, i)) = first.filter(|&(hole, _)| hole < end) else { break };
            let b = self.disclosures.block_at(list, hole);
            if !self.free_blocks_exceed(manager, hole, 0) || !self.prefetch(now, manager, b) {
                break;
            }
            open[i].1 -= 1;
            if open[i].1 == 0 {
                open.swap_remove(i);
            }
        }
        self.open_batches = open;
    }
}
