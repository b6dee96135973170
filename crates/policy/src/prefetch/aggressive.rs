//! Aggressive, for several disks (Kimbrel et al. 1996, sections 2.4 and 2.6).
//!
//! Whenever a disk is free, fetch the first missing blocks *of that disk*, replacing the blocks whose
//! next reference is furthest, as long as those come after the fetched ones. Fetches are issued in
//! batches of up to B a disk; the next batch waits until the disk has none of ours left. With one disk
//! and B = 1 it is the algorithm of Cao et al. 1995: at most 1 + F/K times the optimum, d times that
//! for d disks.

use crate::engine::Engine;
use crate::ids::{DiskId, ManagerId, Nanos};

impl Engine {
    pub(super) fn plan_aggressive(&mut self, now: Nanos, manager: ManagerId) {
        for disk in 0..self.config.disks.max(1) {
            if self.disk_in_flight[disk as usize] == 0 {
                self.fill_batch(now, manager, DiskId(disk));
            }
        }
    }

    /// Fetches the first missing blocks of one disk, as many as a batch holds and "do no harm" allows.
    pub(super) fn fill_batch(&mut self, now: Nanos, manager: ManagerId, disk: DiskId) {
        let Some(cursor) = self.disclosures.list(manager).map(|l| l.cursor()) else { return };
        let end = self.config.horizon.map_or(u32::MAX, |h| cursor.saturating_add(h));
        for _ in 0..self.config.batch.max(1) {
            let Some(list) = self.disclosures.list(manager) else { return };
            // From the cursor each time: an eviction for this batch may have made an earlier hole.
            let Some(hole) = list.next_hole_on(disk, cursor).filter(|&hole| hole < end) else { return };
            let b = self.disclosures.block_at(list, hole);
            if !self.free_blocks_exceed(manager, hole, 0) || !self.prefetch(now, manager, b) {
                return;
            }
        }
    }
}
