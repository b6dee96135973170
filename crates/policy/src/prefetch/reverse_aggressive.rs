//! Reverse aggressive (Kimbrel et al. 1996, sections 2.5 and 2.6; theorem 2: at most 1 + F d/K times the
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
//! - the block that it fetched when its cursor was at j of n may be evicted once the forward cursor has
//!   reached n - j;
//! - fetches and evictions, each in order, are paired; the first K fetches use the empty frames.
//!
//! A reference that finds its block neither cached nor on its way (the disks were slower than F) is
//! fetched on demand, with the usual replacement.

use std::collections::VecDeque;

use crate::blocks::{BlockId, State};
use crate::disclosure::positions::PositionSet;
use crate::engine::Engine;
use crate::ids::{DiskId, ManagerId, Nanos};
use crate::recency::NONE;

/// A block to fetch, and the place of its fetch in the order of all.
#[derive(Debug, Clone, Copy)]
struct PlannedFetch {
    block: BlockId,
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
pub(crate) struct Schedule {
    /// By disk.
    fetches: Vec<VecDeque<PlannedFetch>>,
    evictions: Vec<PlannedEviction>,
    /// Fetches that need no eviction.
    free_frames: u32,
}

impl Engine {
    /// Makes the schedule of reverse aggressive from the manager's whole list, which must have been
    /// disclosed before; the blocks of the list are assumed not to be cached yet.
    ///
    /// `fetch_references` is F, the time of a fetch in references; `batch` the number of replacements
    /// that a free disk makes at a time on the reversed list (fetch k of a batch ends after k F).
    pub fn set_schedule(&mut self, manager: ManagerId, fetch_references: f64, batch: u32) {
        let Some(list) = self.disclosures.list(manager) else { return };
        let sequence: Vec<BlockId> =
            (list.cursor()..list.end()).map(|p| self.disclosures.block_at(list, p)).collect();
        let disks = self.config.disks.max(1);
        let disk_of = |b: BlockId| self.blocks[b].disk;
        let mut reversed = Reversed::new(&sequence, self.config.cache_blocks, disks, disk_of);
        reversed.run(fetch_references.max(0.01), batch.max(1));
        let schedule = reversed.into_schedule(list.cursor());
        self.managers[manager.0 as usize].schedule = Some(Box::new(schedule));
    }

    pub(super) fn plan_reverse_aggressive(&mut self, now: Nanos, manager: ManagerId) {
        let Some(mut schedule) = self.managers[manager.0 as usize].schedule.take() else { return };
        let cursor = self.disclosures.list(manager).map_or(u32::MAX, |l| l.cursor());
        for disk in 0..self.config.disks.max(1) as usize {
            if self.disk_in_flight[disk] == 0 {
                self.follow(now, manager, &mut schedule, disk, cursor);
            }
        }
        self.managers[manager.0 as usize].schedule = Some(schedule);
    }

    /// Issues a batch of the schedule's next fetches from one disk, as far as their evictions are released.
    fn follow(&mut self, now: Nanos, manager: ManagerId, schedule: &mut Schedule, disk: usize, cursor: u32) {
        let mut issued = 0;
        while issued < self.config.batch.max(1)
            && let Some(&fetch) = schedule.fetches[disk].front()
        {
            // Fetched on demand in the meantime, or passed without having been needed.
            if fetch.needed_at < cursor || !matches!(self.blocks[fetch.block].state, State::Absent) {
                schedule.fetches[disk].pop_front();
                continue;
            }
            if let Some(i) = fetch.number.checked_sub(schedule.free_frames) {
                let Some(eviction) = schedule.evictions.get(i as usize) else { return };
                if eviction.released_at > cursor {
                    return;
                }
                let full = self.used_blocks >= self.config.cache_blocks;
                if full && self.blocks[eviction.block].state == State::Cached {
                    self.evict(eviction.block);
                }
            }
            schedule.fetches[disk].pop_front();
            if !self.prefetch(now, manager, fetch.block) {
                return;
            }
            issued += 1;
        }
    }
}

/// The uniform model on the reversed sequence. Indices of blocks are dense; `j` counts from the end.
struct Reversed<'a> {
    sequence: &'a [BlockId],
    disks: Vec<DiskId>,
    cache_blocks: u32,
    /// For each reversed position, the next reversed position of the same block, `NONE` for none.
    next: Vec<u32>,
    /// Reversed next uses of blocks that are not cached.
    missing: PositionSet,
    /// Reversed next uses of cached blocks, by disk.
    cached: Vec<PositionSet>,
    /// Cached blocks that the rest of the reversed sequence does not use, by disk: the reversed position
    /// of their last use.
    done: Vec<Vec<u32>>,
    /// (reversed position of the last use before it, reversed cursor) of every replacement.
    replaced: Vec<u32>,
    /// (block, reversed cursor) of every fetch.
    fetched: Vec<(BlockId, u32)>,
    /// For each reversed position, the last use of the block before it, `NONE` for none.
    previous: Vec<u32>,
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
            missing,
            cached,
            replaced: Vec::new(),
            fetched: Vec::new(),
            previous,
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
        let mut busy_until = vec![0.0f64; self.cached.len()];
        // When the block needed at a reversed position arrives, for those on their way.
        let mut arrives: std::collections::BTreeMap<u32, f64> = std::collections::BTreeMap::new();
        let mut j = 0;
        while j < n {
            for (disk, busy) in busy_until.iter_mut().enumerate() {
                if *busy > time {
                    continue;
                }
                for k in 1..=batch {
                    let Some((needed, position)) = self.replacement(j, disk) else { break };
                    self.replace(disk, position, needed, j);
                    *busy = time + f64::from(k) * fetch_units;
                    arrives.insert(needed, *busy);
                }
            }
            // Blocks that have arrived can be replaced again; those behind the cursor are in use already.
            let landed: Vec<u32> = arrives.iter().filter(|a| *a.1 <= time).map(|a| *a.0).collect();
            for position in landed {
                arrives.remove(&position);
                self.cached[self.disks[position as usize].0 as usize].insert(position);
            }
            let disk = self.disks[j as usize].0 as usize;
            if self.cached[disk].remove(j) {
                match self.next[j as usize] {
                    NONE => self.done[disk].push(j),
                    next => self.cached[disk].insert(next),
                }
                time += 1.0;
                j += 1;
            } else {
                // Stall until something changes: the block arrives, or a disk becomes free to fetch it.
                let disks_free = busy_until.iter().copied().filter(|&b| b > time);
                let next_event = arrives.values().copied().chain(disks_free).fold(f64::INFINITY, f64::min);
                if !next_event.is_finite() {
                    // No block of any disk may be replaced (a cache of blocks in flight only).
                    self.missing.remove(j);
                    self.cached[disk].insert(j);
                    continue;
                }
                time = next_event.max(time);
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

    fn replace(&mut self, disk: usize, position: u32, needed: u32, cursor: u32) {
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
        let b = self.block(needed);
        self.fetched.push((b, cursor));
    }

    fn block(&self, reversed: u32) -> BlockId {
        self.sequence[self.sequence.len() - 1 - reversed as usize]
    }

    fn into_schedule(self, base: u32) -> Schedule {
        let n = self.sequence.len() as u32;
        // What the reversed run leaves in the cache is what the forward run fetches first.
        let left = self.done.iter().flatten().copied();
        let mut needs: Vec<u32> = self.replaced.iter().copied().chain(left).map(|j| n - 1 - j).collect();
        needs.sort_unstable();
        let mut fetches = vec![VecDeque::new(); self.cached.len()];
        for (number, &at) in needs.iter().enumerate() {
            let disk = self.disks[(n - 1 - at) as usize].0 as usize;
            let block = self.sequence[at as usize];
            fetches[disk].push_back(PlannedFetch { block, needed_at: base + at, number: number as u32 });
        }
        let mut evictions: Vec<PlannedEviction> = self
            .fetched
            .iter()
            .map(|&(block, j)| PlannedEviction { block, released_at: base + n - j })
            .collect();
        evictions.sort_by_key(|e| e.released_at);
        Schedule { fetches, evictions, free_frames: self.cache_blocks }
    }
}
