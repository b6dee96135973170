//! Forestall (Kimbrel et al. 1996, section 5): fetch late enough to replace well, early enough not to
//! stall.
//!
//! Let d_i be the distance from the cursor to the i-th missing block of a disk, and F the time of a
//! fetch in references. The disk needs i F to fetch the first i of them, so if i F > d_i for some i, a
//! stall is certain. Forestall fetches (a batch, from a free disk) as soon as i F' >= d_i for some i
//! within 2K references, where F' overestimates F: the ratio of the last 100 access times of the disk to
//! the last 100 times between references, taken as it is when accesses are quick (mostly sequential,
//! served in order), four times that when they are slow (reordered and varied). Because requests are
//! reordered, fixed horizon's rule is kept beside it: a missing block within H is fetched at once.
//!
//! The test is i F' >= p_i - cursor for positions p_i, so it first holds when the cursor reaches
//! min(p_i - i F'). That *due* position is computed once and kept until a block of the disk within reach
//! is evicted or fetched, F' grows, or the reach has moved on by an eighth: the same decisions as
//! testing every missing block at every reference, up to what F' moves in between.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::ids::{DiskId, ManagerId, Nanos};

/// Access times and times between references that F is taken over (the paper's history length).
const HISTORY: usize = 100;

/// Mean access time below which accesses are taken to be sequential (the paper's 5 ms).
const QUICK_ACCESS_NS: u64 = 5_000_000;

/// What F is multiplied by for slow accesses (the paper's F' = 4F).
const OVERESTIMATE: f64 = 4.0;

/// How much F' may grow before a due position is computed again.
const F_GROWTH: f64 = 1.02;

/// A sum over the last [`HISTORY`] values.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    values: VecDeque<u64>,
    sum: u64,
}

impl History {
    pub(crate) fn push(&mut self, value: u64) {
        if self.values.len() == HISTORY
            && let Some(oldest) = self.values.pop_front()
        {
            self.sum -= oldest;
        }
        self.values.push_back(value);
        self.sum += value;
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.values.len().max(1) as f64
    }
}

/// When one disk has to be looked at again for one manager.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Due {
    /// The cursor position from which on a fetch is due, if anything is within reach.
    at: Option<u32>,
    /// Look again when the cursor gets here, in any case.
    until: u32,
    /// The F' that it was computed with.
    f: f64,
    /// Missing blocks changed since.
    stale: bool,
}

impl Due {
    pub(crate) fn invalidate(&mut self) {
        self.stale = true;
    }
}

impl Engine {
    pub(super) fn plan_forestall(&mut self, now: Nanos, manager: ManagerId) {
        let Some(cursor) = self.disclosures.list(manager).map(|l| l.cursor()) else { return };
        self.fill_batches(now, manager, None, |engine, disk| engine.is_due(manager, disk, cursor));
        self.plan_fixed_horizon(now, manager);
    }

    fn is_due(&mut self, manager: ManagerId, disk: DiskId, cursor: u32) -> bool {
        let f = self.overestimated_fetch_references(manager, disk);
        let Some(list) = self.disclosures.list_mut(manager) else { return false };
        let due = list.due(disk);
        if due.stale || cursor >= due.until || f > due.f * F_GROWTH {
            let reach = self.config.cache_blocks.saturating_mul(2);
            *list.due_mut(disk) = Self::compute_due(list, disk, cursor, reach, f);
        }
        list.due(disk).at.is_some_and(|at| cursor >= at)
    }

    fn compute_due(list: &crate::disclosure::List, disk: DiskId, cursor: u32, reach: u32, f: f64) -> Due {
        let end = cursor.saturating_add(reach);
        let mut at: Option<u32> = None;
        let (mut from, mut i) = (cursor, 0u32);
        while let Some(hole) = list.next_hole_on(disk, from).filter(|&hole| hole < end) {
            i += 1;
            let due = (f64::from(hole) - f64::from(i) * f).max(0.0) as u32;
            at = Some(at.map_or(due, |at| at.min(due)));
            if due <= cursor {
                break;
            }
            from = hole + 1;
        }
        Due { at, until: cursor.saturating_add((reach / 16).max(1)), f, stale: false }
    }

    /// F': the time of a fetch from `disk`, in references of the manager, overestimated as the paper does.
    fn overestimated_fetch_references(&self, manager: ManagerId, disk: DiskId) -> f64 {
        let access_ns = self.access_times[disk.0 as usize].mean();
        let compute_ns = self.managers[manager.0 as usize].compute_times.mean();
        let f = access_ns / compute_ns.max(1.0);
        if access_ns < QUICK_ACCESS_NS as f64 { f } else { OVERESTIMATE * f }
    }
}
