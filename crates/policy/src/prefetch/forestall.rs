//! Forestall (Kimbrel et al. 1996, section 5): fetch late enough to replace well, early enough not to
//! stall.
//!
//! Let d_i be the distance from the cursor to the i-th missing block of a disk, and F the time of a
//! fetch in references: the ratio of the disk's last 100 access times to the last 100 times between
//! references. The disk needs i F to fetch the first i of them, so if i F > d_i for some i, a stall is
//! certain. Forestall therefore fetches (a batch, from a free disk) as soon as i F' >= d_i for some i
//! within 2K references. F' is F when accesses are quick (mostly sequential, served in order). When they
//! are slow, thus reordered and varied, it overestimates F. Because requests are reordered, fixed
//! horizon's rule is kept beside it: a missing block within H is fetched at once.
//!
//! The paper's overestimate is 4 F. Where the disks are busy for a quarter of the time or more that is
//! due for ever, and forestall becomes aggressive although nothing stalls: up to 13% slower than fixed
//! horizon on ten disks and more (models of `ld`, `xds` and `postgres-join`; the paper's own traces gave
//! 2%). Three things differ here for slow accesses, and with them forestall is at most 2% slower than the
//! better of the two on every workload and array of the paper:
//!
//! - The sum of i access times varies by its square root, so the first i fetches are given i + 10 sqrt(i)
//!   times F, at most 4 i F as in the paper (from the 12th missing block on it is less).
//! - In a slow run of references F is small, and the next quick run would come as a surprise: F is taken
//!   over the mean time between all references so far if that is less than the last 100's.
//! - The horizon's rule keeps a busy disk from ever being free. So a batch is filled up again as soon as
//!   a quarter of it is done, which also lets the disk choose among more requests.
//!
//! The test first holds when the cursor reaches the least p_i - i F' over positions p_i of missing blocks.
//! That *due* position is computed once and kept until a block of the disk within reach is evicted or
//! fetched, F' changes by more than a few per cent, or the reach has moved on by a sixteenth: the same
//! decisions as testing every missing block at every reference, up to what F' moves in between.

use std::collections::VecDeque;

use crate::disclosure::List;
use crate::engine::Engine;
use crate::ids::{DiskId, ManagerId, Nanos};

/// Access times and times between references that F is taken over (the paper's history length).
const HISTORY: usize = 100;

/// Mean access time below which accesses are taken to be sequential (the paper's 5 ms).
const QUICK_ACCESS_NS: u64 = 5_000_000;

/// What F is multiplied by for slow accesses at most (the paper's F' = 4F).
const OVERESTIMATE: f64 = 4.0;

/// Accesses that are added to i of them, times the square root of i. Fitted: 8 to 11 keep within 2%; less
/// is late on `cscope2` and `glimpse`, more is early on `ld`.
const SPREAD: f64 = 10.0;

/// How much F may grow, or fall, before a due position is computed again.
const F_GROWTH: f64 = 1.02;
const F_FALL: f64 = 0.9;

/// A sum over the last [`HISTORY`] values, and over all.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    values: VecDeque<u64>,
    sum: u64,
    all_sum: u128,
    all: u64,
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
        self.all_sum += u128::from(value);
        self.all += 1;
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.values.len().max(1) as f64
    }

    fn mean_of_all(&self) -> f64 {
        self.all_sum as f64 / self.all.max(1) as f64
    }
}

/// The time of a fetch from one disk in references, and how much to allow for it.
#[derive(Debug, Clone, Copy, Default)]
struct FetchReferences {
    f: f64,
    slow: bool,
}

impl FetchReferences {
    /// References to allow for the first `i` fetches: i F'.
    fn of(self, i: u32) -> f64 {
        let i = f64::from(i);
        if self.slow { self.f * (i + SPREAD * i.sqrt()).min(OVERESTIMATE * i) } else { self.f * i }
    }

    fn far_from(self, other: FetchReferences) -> bool {
        self.slow != other.slow || self.f > other.f * F_GROWTH || self.f < other.f * F_FALL
    }
}

/// When one disk has to be looked at again for one manager.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Due {
    /// The cursor position from which on a fetch is due, if anything is within reach.
    at: Option<u32>,
    /// Look again when the cursor gets here, in any case.
    until: u32,
    /// What it was computed with.
    fetch: FetchReferences,
    /// Missing blocks changed since.
    stale: bool,
}

impl Due {
    pub(crate) fn invalidate(&mut self) {
        self.stale = true;
    }

    fn compute(list: &List, disk: DiskId, reach: u32, fetch: FetchReferences) -> Due {
        let cursor = list.cursor();
        let end = cursor.saturating_add(reach);
        let mut at: Option<u32> = None;
        let (mut from, mut i) = (cursor, 0u32);
        while let Some(hole) = list.next_hole_on(disk, from).filter(|&hole| hole < end) {
            i += 1;
            let due = (f64::from(hole) - fetch.of(i)).max(0.0) as u32;
            at = Some(at.map_or(due, |at| at.min(due)));
            if due <= cursor {
                break;
            }
            from = hole + 1;
        }
        Due { at, until: cursor.saturating_add((reach / 16).max(1)), fetch, stale: false }
    }
}

impl Engine {
    pub(super) fn plan_forestall(&mut self, now: Nanos, manager: ManagerId) {
        let batch = self.config.batch.max(1);
        self.fill_batches(now, manager, None, |engine, disk| {
            let in_flight = engine.disk_in_flight[disk.0 as usize];
            let fetch = engine.fetch_references(manager, disk);
            let refill_at = if fetch.slow { batch / 4 * 3 } else { 0 };
            if in_flight <= refill_at && engine.is_due(manager, disk, fetch) { batch - in_flight } else { 0 }
        });
        self.plan_fixed_horizon(now, manager);
    }

    fn is_due(&mut self, manager: ManagerId, disk: DiskId, fetch: FetchReferences) -> bool {
        let reach = self.config.cache_blocks.saturating_mul(2);
        let Some(list) = self.disclosures.list_mut(manager) else { return false };
        let (cursor, due) = (list.cursor(), list.due(disk));
        if due.stale || cursor >= due.until || fetch.far_from(due.fetch) {
            *list.due_mut(disk) = Due::compute(list, disk, reach, fetch);
        }
        list.due(disk).at.is_some_and(|at| cursor >= at)
    }

    /// The time of a fetch from `disk`, in references of the manager.
    fn fetch_references(&self, manager: ManagerId, disk: DiskId) -> FetchReferences {
        let access_ns = self.access_times[disk.0 as usize].mean();
        let compute = &self.managers[manager.0 as usize].compute_times;
        let slow = access_ns >= QUICK_ACCESS_NS as f64;
        let compute_ns = if slow { compute.mean().min(compute.mean_of_all()) } else { compute.mean() };
        FetchReferences { f: access_ns / compute_ns.max(1.0), slow }
    }
}
