//! Reverse aggressive (Kimbrel et al. 1996, sections 2.5 and 2.7; theorem 2: at most 1 + F d/K times the
//! optimum on d disks).
//!
//! Offline: a schedule is made for the *reversed* references in the uniform model (one time unit a
//! reference, F units a fetch), in which whenever a disk is free the block *of that disk* that is not
//! needed for the longest time is replaced by the first missing block of any disk, provided it is needed
//! later. Read backwards, every fetch is an eviction and every eviction a fetch: since replacements went
//! to as many disks in parallel as possible, so do the fetches now, and since fetching was greedy, the
//! evictions now are as late as possible.
//!
//! In the forward direction:
//!
//! - every block that the reversed schedule replaced is fetched, in the order in which it will be needed;
//!   the blocks left in the cache at the end of the reversed schedule are fetched too;
//! - a block that it fetched for position p of the n reversed ones may be evicted as soon as the forward
//!   cursor has reached n - p: one past the block's last use before it is fetched back;
//! - fetches and evictions, each in order, are paired; the first K fetches use the empty frames.
//!
//! A free disk issues its next pairs that are released, up to a batch. A reference that comes before its
//! fetch was issued (the disks were slower than F) fetches on demand and evicts what was planned for it.

use std::collections::VecDeque;

use super::{Occasion, Planner};
use crate::blocks::{BlockId, State};
use crate::books::Desk;
use crate::config::Config;
use crate::ids::{DiskId, ManagerId};
use crate::input::Input;
use crate::knowledge::positions::PositionSet;
use crate::recency::NONE;

/// Schedules are made from a manager's first list.
const ONLY: usize = 0;

/// A block to fetch, and the place of its fetch in the order of all.
#[derive(Debug, Clone, Copy)]
struct PlannedFetch {
    /// Position of the reference that needs it.
    needed_at: u32,
    number: u32,
}

/// A block that may go once the cursor has reached `released_at`.
#[derive(Debug, Clone, Copy)]
struct PlannedEviction {
    block: BlockId,
    released_at: u32,
}

/// What to fetch and to evict, in order.
#[derive(Debug)]
struct Schedule {
    /// By disk.
    fetches: Vec<VecDeque<PlannedFetch>>,
    evictions: Vec<PlannedEviction>,
    /// Fetches that need no eviction.
    free_frames: u32,
}

impl Schedule {
    /// What makes room for a fetch.
    fn eviction(&self, fetch: PlannedFetch) -> Option<PlannedEviction> {
        let i = fetch.number.checked_sub(self.free_frames)?;
        self.evictions.get(i as usize).copied()
    }
}

#[derive(Debug)]
pub(super) struct ReverseAggressive {
    /// By manager.
    schedules: Vec<Option<Schedule>>,
}

impl ReverseAggressive {
    pub(super) fn new(_: &Config) -> ReverseAggressive {
        ReverseAggressive { schedules: Vec::new() }
    }
}

impl Planner for ReverseAggressive {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, _: Occasion) {
        let Some(Some(schedule)) = self.schedules.get_mut(manager.0 as usize) else { return };
        let cursor = desk.list(manager, ONLY).map_or(u32::MAX, |l| l.cursor());
        for disk in desk.disks() {
            if desk.in_flight_from(disk) == 0 {
                follow(desk, manager, schedule, disk, cursor);
            }
        }
    }

    fn note(&mut self, desk: &mut Desk<'_>, input: &Input<'_>) {
        match *input {
            Input::Scheduled { manager, fetch_references, batch } => {
                let Some(schedule) = make_schedule(desk, manager, fetch_references, batch) else { return };
                let slot = manager.0 as usize;
                if self.schedules.len() <= slot {
                    self.schedules.resize_with(slot + 1, || None);
                }
                self.schedules[slot] = Some(schedule);
            }
            Input::ManagerRemoved { manager } => {
                if let Some(schedule) = self.schedules.get_mut(manager.0 as usize) {
                    *schedule = None;
                }
            }
            _ => {}
        }
    }

    fn before_demand(&mut self, desk: &mut Desk<'_>, manager: ManagerId, b: BlockId) {
        let Some(Some(schedule)) = self.schedules.get(manager.0 as usize) else { return };
        let Some(next_use) = desk.next_use(manager, ONLY, b) else { return };
        let fetches = &schedule.fetches[desk.disk_of(b).0 as usize];
        let at = fetches.partition_point(|f| f.needed_at < next_use);
        if let Some(&fetch) = fetches.get(at).filter(|f| f.needed_at == next_use)
            && let Some(eviction) = schedule.eviction(fetch)
        {
            evict_as_planned(desk, eviction);
        }
    }
}

fn make_schedule(desk: &Desk<'_>, manager: ManagerId, fetch_references: f64, batch: u32) -> Option<Schedule> {
    let list = desk.list(manager, ONLY)?;
    let sequence: Vec<BlockId> =
        (list.cursor()..list.end()).filter_map(|p| desk.block_at(manager, ONLY, p)).collect();
    let config = desk.config();
    let mut reversed =
        Reversed::new(&sequence, config.cache_blocks, config.disks.max(1), |b| desk.disk_of(b));
    reversed.run(fetch_references.max(0.01), batch.max(1));
    Some(reversed.into_schedule(list.cursor()))
}

/// Issues a batch of the schedule's next fetches from one disk, as far as their evictions are released.
fn follow(desk: &mut Desk<'_>, manager: ManagerId, schedule: &mut Schedule, disk: DiskId, cursor: u32) {
    let mut issued = 0;
    let slot = disk.0 as usize;
    while issued < desk.config().batch.max(1)
        && let Some(&fetch) = schedule.fetches[slot].front()
        && desk.list(manager, ONLY).is_some()
    {
        if fetch.needed_at < cursor {
            schedule.fetches[slot].pop_front();
            continue;
        }
        let Some(block) = desk.block_at(manager, ONLY, fetch.needed_at) else { return };
        if desk.state(block) != State::Absent {
            // Either it was fetched on demand, or the eviction before this fetch is still to come, on
            // behalf of another disk.
            if desk.next_use(manager, ONLY, block).is_some_and(|next| next < fetch.needed_at) {
                return;
            }
            schedule.fetches[slot].pop_front();
            continue;
        }
        if let Some(eviction) = schedule.eviction(fetch) {
            if eviction.released_at > cursor {
                return;
            }
            evict_as_planned(desk, eviction);
        }
        schedule.fetches[slot].pop_front();
        if !desk.prefetch(manager, block) {
            return;
        }
        issued += 1;
    }
}

fn evict_as_planned(desk: &mut Desk<'_>, eviction: PlannedEviction) {
    if desk.is_full() {
        desk.evict(eviction.block);
    }
}

/// The uniform model on the reversed sequence. Indices of blocks are dense; `j` counts from the end.
struct Reversed<'a> {
    sequence: &'a [BlockId],
    disks: Vec<DiskId>,
    cache_blocks: u32,
    /// For each reversed position, the next reversed position of the same block, `NONE` for none.
    next: Vec<u32>,
    /// For each reversed position, the last use of the block before it, `NONE` for none.
    previous: Vec<u32>,
    /// Reversed next uses of blocks that are not cached.
    missing: PositionSet,
    /// Reversed next uses of cached blocks, by disk.
    cached: Vec<PositionSet>,
    /// Cached blocks that the rest of the reversed sequence does not use, by disk: the reversed position
    /// of their last use.
    done: Vec<Vec<u32>>,
    /// Reversed position of the last use before every replacement.
    replaced: Vec<u32>,
    /// Reversed position of the use that every fetch is for.
    fetched: Vec<u32>,
}

/// What a disk of the reversed model is doing.
#[derive(Debug, Clone, Default)]
struct ReversedDisk {
    busy_until: f64,
    /// Reversed positions of the uses of the blocks on their way, and when they arrive.
    arriving: VecDeque<(u32, f64)>,
}

impl<'a> Reversed<'a> {
    fn new(
        sequence: &'a [BlockId],
        cache_blocks: u32,
        disks: u16,
        disk_of: impl Fn(BlockId) -> DiskId,
    ) -> Self {
        let n = sequence.len();
        let blocks = sequence.iter().max().map_or(0, |&b| b as usize + 1);
        let (mut next, mut previous, mut seen) = (vec![NONE; n], vec![NONE; n], vec![NONE; blocks]);
        let mut missing = PositionSet::default();
        missing.reserve(n as u32 + 1);
        for j in 0..n as u32 {
            let b = sequence[n - 1 - j as usize] as usize;
            let before = std::mem::replace(&mut seen[b], j);
            previous[j as usize] = before;
            match before {
                NONE => missing.insert(j),
                before => next[before as usize] = j,
            }
        }
        let mut cached: Vec<PositionSet> = (0..disks).map(|_| PositionSet::default()).collect();
        cached.iter_mut().for_each(|c| c.reserve(n as u32 + 1));
        let disks: Vec<DiskId> = (0..n).map(|j| disk_of(sequence[n - 1 - j])).collect();
        let mut model = Reversed {
            sequence,
            done: vec![Vec::new(); cached.len()],
            disks,
            cache_blocks,
            next,
            previous,
            missing,
            cached,
            replaced: Vec::new(),
            fetched: Vec::new(),
        };
        // What is cached at the end of the forward run costs nothing: the first blocks of the reversed one.
        for _ in 0..cache_blocks {
            let Some(j) = model.missing.next(0) else { break };
            model.missing.remove(j);
            model.cached[model.disks[j as usize].0 as usize].insert(j);
        }
        model
    }

    fn run(&mut self, fetch_units: f64, batch: u32) {
        let n = self.sequence.len() as u32;
        let mut time = 0.0;
        let mut disks = vec![ReversedDisk::default(); self.cached.len()];
        let mut j = 0;
        while j < n {
            for disk in &mut disks {
                // Blocks that have arrived can be used, and replaced again.
                while let Some((position, _)) = disk.arriving.pop_front_if(|a| a.1 <= time) {
                    self.cached[self.disks[position as usize].0 as usize].insert(position);
                }
            }
            for (number, disk) in disks.iter_mut().enumerate().filter(|(_, d)| d.busy_until <= time) {
                for k in 1..=batch {
                    let Some((needed, position)) = self.replacement(j, number) else { break };
                    self.replace(number, position, needed);
                    disk.busy_until = time + f64::from(k) * fetch_units;
                    disk.arriving.push_back((needed, disk.busy_until));
                }
            }
            let disk = self.disks[j as usize].0 as usize;
            if self.cached[disk].remove(j) {
                match self.next[j as usize] {
                    NONE => self.done[disk].push(j),
                    next => self.cached[disk].insert(next),
                }
                time += 1.0;
                j += 1;
                continue;
            }
            // Stall until something changes: a block arrives, which also is when a disk becomes free.
            let next_event = disks.iter().filter_map(|d| d.arriving.front()).map(|a| a.1).reduce(f64::min);
            match next_event {
                Some(next_event) => time = next_event,
                None => {
                    // No block of any disk may be replaced: more blocks are done for than the cache holds.
                    self.missing.remove(j);
                    self.cached[disk].insert(j);
                }
            }
        }
    }

    /// The first missing position, and the block of `disk` to replace for it: its next use, or `NONE` for
    /// one that is not used any more.
    fn replacement(&self, cursor: u32, disk: usize) -> Option<(u32, u32)> {
        let needed = self.missing.next(cursor)?;
        if !self.done[disk].is_empty() {
            return Some((needed, NONE));
        }
        self.cached[disk].last().filter(|&position| position > needed).map(|position| (needed, position))
    }

    fn replace(&mut self, disk: usize, position: u32, needed: u32) {
        let last_use = match position {
            NONE => self.done[disk].pop().unwrap_or(0),
            position => {
                self.cached[disk].remove(position);
                self.missing.insert(position);
                self.previous[position as usize]
            }
        };
        // A block that was cached from the start and is replaced unused is one more at the end of the
        // forward run: nothing to fetch.
        if last_use != NONE {
            self.replaced.push(last_use);
        }
        self.missing.remove(needed);
        self.fetched.push(needed);
    }

    fn into_schedule(self, base: u32) -> Schedule {
        let n = self.sequence.len() as u32;
        // What the reversed run leaves in the cache is what the forward run fetches first.
        let mut needs = self.replaced;
        needs.extend(self.done.iter().flatten());
        for j in &mut needs {
            *j = n - 1 - *j;
        }
        needs.sort_unstable();
        let mut fetches = vec![VecDeque::new(); self.cached.len()];
        for (number, &at) in needs.iter().enumerate() {
            let disk = self.disks[(n - 1 - at) as usize].0 as usize;
            fetches[disk].push_back(PlannedFetch { needed_at: base + at, number: number as u32 });
        }
        let mut evictions: Vec<PlannedEviction> = self
            .fetched
            .iter()
            .map(|&j| PlannedEviction {
                block: self.sequence[(n - 1 - j) as usize],
                released_at: base + n - j,
            })
            .collect();
        evictions.sort_unstable_by_key(|e| e.released_at);
        Schedule { fetches, evictions, free_frames: self.cache_blocks }
    }
}
