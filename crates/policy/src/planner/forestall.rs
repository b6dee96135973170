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
//!   a quarter of it is done, which also lets the disk choose among more requests. So is one of which it was said
//!   how large it may be ([`Input::DiskBatch`]), and every batch of an advisory plane, quick or slow: there blocks are
//!   served many at a time, and an arm that moves for a few blocks within the horizon at a time takes 1 ms for each. That
//!   counts as quick, and would never end.
//!
//! The test first holds when the cursor reaches the least p_i - i F' over positions p_i of missing blocks.
//! That *due* position is computed once and kept until a block of the disk within reach is evicted or
//! fetched, F' changes by more than a few per cent, or the reach has moved on by a sixteenth: the same
//! decisions as testing every missing block at every reference, up to what F' moves in between.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::aggressive::OpenBatches;
use super::along::Along;
use super::fixed_horizon::fetch_within;
use super::history::History;
use super::{Occasion, Planner};
use crate::books::Desk;
use crate::config::{Config, Residency};
use crate::ids::{DiskId, ManagerId};
use crate::input::Input;
use crate::knowledge::List;

/// Mean access time below which accesses are taken to be sequential (the paper's 5 ms).
const QUICK_ACCESS_NS: u64 = 5_000_000;

/// What F is multiplied by for slow accesses at most (the paper's F' = 4F).
const OVERESTIMATE: f64 = 4.0;

/// Accesses that are added to i of them, times the square root of i. Fitted: 8 to 11 keep within 2%; less
/// is late on `cscope2` and `glimpse`, more is early on `ld`.
const SPREAD: f64 = 10.0;

/// A demand fetch takes longer than the mean of all, by this factor: it is not sorted among others, and somebody waits.
/// From 2.5 on it makes no difference on the papers' workloads with wrong hints; less declines right ones.
const DEMAND_COST: f64 = 3.0;

/// However many disks are idle, a fetch costs the processor: less than this chance is never worth it.
const LEAST_CHANCE: f64 = 0.05;

/// Blocks that a list fetches before the others are looked at: what a program reads at a time, as a rule (128 KiB).
const TURN: u32 = 16;

/// How much F may grow, or fall, before a due position is computed again.
const F_GROWTH: f64 = 1.02;
const F_FALL: f64 = 0.9;

/// The time of a fetch from one disk in references, and how much to allow for it.
#[derive(Debug, Clone, Copy, Default)]
struct FetchReferences {
    f: f64,
    slow: bool,
}

/// The mean time between two references of a manager, where accesses are quick and where they are slow.
#[derive(Debug, Clone, Copy)]
struct Between {
    quick_ns: f64,
    slow_ns: f64,
}

impl Between {
    fn new(times: &History) -> Between {
        let quick_ns = times.mean();
        Between { quick_ns: quick_ns.max(1.0), slow_ns: quick_ns.min(times.mean_of_all()).max(1.0) }
    }

    fn of(self, slow: bool) -> f64 {
        if slow { self.slow_ns } else { self.quick_ns }
    }
}

impl FetchReferences {
    /// References to allow for the first `i` fetches: i F'.
    fn of(self, i: u32) -> f64 {
        let i = f64::from(i);
        if self.slow { self.f * (i + SPREAD * i.sqrt()).min(OVERESTIMATE * i) } else { self.f * i }
    }

    /// That of a disk with this mean access time.
    fn new(access_ns: f64, between: Between) -> FetchReferences {
        let slow = is_slow(access_ns);
        FetchReferences { f: access_ns / between.of(slow), slow }
    }

    /// Has it changed much? Asked of every disk at every reference, and so without a division.
    #[inline]
    fn is_outdated(self, access_ns: f64, between: Between) -> bool {
        let slow = is_slow(access_ns);
        let as_it_was_ns = self.f * between.of(slow);
        slow != self.slow || access_ns > as_it_was_ns * F_GROWTH || access_ns < as_it_was_ns * F_FALL
    }
}

fn is_slow(access_ns: f64) -> bool {
    access_ns >= QUICK_ACCESS_NS as f64
}

/// When one disk has to be looked at again for one manager.
#[derive(Debug, Clone, Copy, Default)]
struct Due {
    /// The cursor position from which on a fetch is due, if anything is within reach.
    at: Option<u32>,
    /// Look again when the cursor gets here, in any case.
    until: u32,
    /// What it was computed with.
    fetch: FetchReferences,
    /// The state of the list's missing blocks then; `None` before the first look.
    changes: Option<u32>,
}

impl Due {
    fn compute(list: &List, disk: DiskId, reach: u32, fetch: FetchReferences) -> Due {
        let cursor = list.cursor();
        let end = cursor.saturating_add(reach);
        let mut at: Option<u32> = None;
        let (mut from, mut i) = (cursor, 0u32);
        while let Some(hole) = list.next_hole_on(disk, from).filter(|&hole| hole < end) {
            i += 1;
            let due = (f64::from(hole) - fetch.of(i)).max(0.0) as u32;
            at = Some(at.map_or(due, |at| at.min(due)));
            // A fetch more is given less and less, and the next missing block is a reference further on at least: where that
            // is enough for it, none is due before this one. Else all of them are looked at, as many as twice the cache.
            if due <= cursor || fetch.of(i + 1) - fetch.of(i) <= 1.0 {
                break;
            }
            from = hole + 1;
        }
        let until = cursor.saturating_add((reach / 16).max(1));
        Due { at, until, fetch, changes: Some(list.changes(disk)) }
    }

    /// Is a fetch due? Looks again where something may have changed.
    #[inline]
    fn is_now(&mut self, list: &List, disk: DiskId, reach: u32, access_ns: f64, between: Between) -> bool {
        let cursor = list.cursor();
        let stale = self.changes != Some(list.changes(disk));
        if stale || cursor >= self.until || self.fetch.is_outdated(access_ns, between) {
            *self = Due::compute(list, disk, reach, FetchReferences::new(access_ns, between));
        }
        self.at.is_some_and(|at| cursor >= at)
    }
}

/// What is remembered of one manager.
#[derive(Debug, Default)]
struct Watched {
    /// The last times between its references.
    compute_times: History,
    /// By list and disk.
    due: Vec<Vec<Due>>,
}

#[derive(Debug)]
pub(super) struct Forestall {
    open: OpenBatches,
    /// By disk, whether a batch is being filled, by one list after the other.
    filling: Vec<bool>,
    /// Of disks whose arm was told: by informed alone.
    along: Along,
    /// The last access times, by disk.
    access_times: Vec<History>,
    /// Their mean.
    mean_access_ns: f64,
    /// Prefetches that may be under way, by disk, where that was said.
    batches: Vec<Option<u32>>,
    /// By manager.
    watched: Vec<Watched>,
}

impl Forestall {
    pub(super) fn new(config: &Config) -> Forestall {
        Forestall {
            open: OpenBatches::default(),
            filling: vec![false; config.disks.max(1) as usize],
            along: Along::default(),
            access_times: vec![History::default(); config.disks.max(1) as usize],
            mean_access_ns: 0.0,
            batches: vec![None; config.disks.max(1) as usize],
            watched: Vec::new(),
        }
    }
}

impl Planner for Forestall {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, _: Occasion) {
        self.fetch_due(desk, manager, 0.0);
    }

    fn note(&mut self, desk: &mut Desk<'_>, input: &Input<'_>) {
        match *input {
            Input::Served { disk, access } => {
                if let Some(times) = self.access_times.get_mut(disk.0 as usize) {
                    times.push(access.0);
                    let sum: f64 = self.access_times.iter().map(History::mean).sum();
                    self.mean_access_ns = sum / self.access_times.len() as f64;
                }
            }
            Input::DiskBatch { disk, batch } => {
                if let Some(of_disk) = self.batches.get_mut(disk.0 as usize) {
                    *of_disk = Some(batch);
                }
            }
            Input::Computed { process, compute } => {
                if let Some(manager) = desk.manager_of(process) {
                    watched(&mut self.watched, manager).compute_times.push(compute.0);
                }
            }
            _ => {}
        }
    }
}

impl Forestall {
    /// See [`Along::set_reach`].
    pub(super) fn set_reach(&mut self, disk: DiskId, blocks: u32) {
        self.along.set_reach(disk, blocks);
    }

    /// See [`Along::has_arm`].
    pub(super) fn has_arm(&self) -> bool {
        self.along.has_arm()
    }

    /// A manager's lists begin anew.
    pub(super) fn forget(&mut self, manager: ManagerId) {
        self.along.forget(manager);
    }

    /// Fetches what is due, and what is within the horizon, if it is used with at least this chance.
    pub(super) fn fetch_due(&mut self, desk: &mut Desk<'_>, manager: ManagerId, least_chance: f64) {
        let disks = self.access_times.len();
        let batches = &self.batches;
        let Watched { compute_times, due } = watched(&mut self.watched, manager);
        let access_times = &self.access_times;
        let between = Between::new(compute_times);
        let usual = desk.config().batch.max(1);
        let advisory = desk.config().residency == Residency::Advisory;
        let reach = desk.config().cache_blocks.saturating_mul(2);
        let lists = desk.list_count(manager);
        if due.len() < lists {
            due.resize_with(lists, || vec![Due::default(); disks]);
        }
        // One list has nobody to share with.
        let turn = if lists > 1 { TURN } else { u32::MAX };
        let (open, along, filling) = (&mut self.open, &mut self.along, &mut self.filling);
        filling.fill(false);
        nearest_first(desk, manager, |desk, list| {
            let due = &mut due[list];
            let mut left = turn;
            open.fill(desk, manager, list, (None, least_chance), along, |l, disk, in_flight| {
                let said = batches[disk.0 as usize];
                let batch = said.unwrap_or(usual);
                let access_ns = access_times[disk.0 as usize].mean();
                let refills = is_slow(access_ns) || said.is_some() || advisory;
                let refill_at = if refills { batch / 4 * 3 } else { 0 };
                let due = &mut due[disk.0 as usize];
                let is_filling = &mut filling[disk.0 as usize];
                let has_room = (in_flight <= refill_at || *is_filling) && in_flight < batch;
                if has_room && due.is_now(l, disk, reach, access_ns, between) {
                    let room = (batch - in_flight).min(left);
                    left -= room;
                    *is_filling = true;
                    room
                } else {
                    0
                }
            })
        });
        fetch_within(desk, manager, least_chance, &mut self.along);
    }

    /// Prefetches that a disk may have under way: what was said of it, or else as many as usual.
    pub(super) fn batch(&self, disk: DiskId, usual: u32) -> u32 {
        self.batches.get(disk.0 as usize).copied().flatten().unwrap_or(usual)
    }

    /// The least chance of use that makes a prefetch worth its cost. A fetch that is used saves the stall of a demand
    /// fetch, and overlaps the computation of a reference; one that is not costs the time of a disk, of which there
    /// are several.
    pub(super) fn least_chance(&self, manager: ManagerId) -> f64 {
        let disks = self.access_times.len() as f64;
        let served = self.mean_access_ns;
        let computed = self.watched.get(manager.0 as usize).map_or(0.0, |w| w.compute_times.mean());
        if served <= 0.0 {
            0.0
        } else {
            (served / (disks * (DEMAND_COST * served + computed))).max(LEAST_CHANCE)
        }
    }
}

/// Calls `fetch` for the lists of a manager, that whose next missing block is needed soonest first, as long as it fetches
/// something. Taken one after the other, a list would fetch into a free frame what is needed late, and another one give that up
/// for what it needs sooner.
fn nearest_first(
    desk: &mut Desk<'_>,
    manager: ManagerId,
    mut fetch: impl FnMut(&mut Desk<'_>, usize) -> bool,
) {
    let distance = |desk: &Desk<'_>, list: usize| {
        let l = desk.list(manager, list)?;
        Some(l.next_hole(l.cursor())?.saturating_sub(l.cursor()))
    };
    let lists = desk.list_count(manager);
    if lists == 1 {
        fetch(desk, 0);
        return;
    }
    let next = (0..lists).filter_map(|list| Some(Reverse((distance(desk, list)?, list))));
    let mut next: BinaryHeap<_> = next.collect();
    while let Some(Reverse((_, list))) = next.pop() {
        if fetch(desk, list) {
            next.extend(distance(desk, list).map(|distance| Reverse((distance, list))));
        }
    }
}

/// What is remembered of a manager. Managers are dense numbers, as many as [`crate::Limits::managers`].
fn watched(all: &mut Vec<Watched>, manager: ManagerId) -> &mut Watched {
    let slot = manager.0 as usize;
    if all.len() <= slot {
        all.resize_with(slot + 1, Watched::default);
    }
    &mut all[slot]
}
