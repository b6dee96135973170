//! What waits to be fetched, by device, and how it becomes requests.
//!
//! A request begins with one block and takes along the blocks after it in the same file, then those before it, that
//! wait anywhere in the queue, up to the largest request worth making on that device ([`crate::disk`]). Which block
//! is next depends on the device:
//!
//! - Without an arm, it is the one that the policy gave first.
//! - With an arm, it is the next one along the disk; behind the last one the sweep begins anew at the first (C-SCAN,
//!   one-way elevator). A sweep ends after a bounded number of requests, however much comes in ahead of it, and a
//!   block that has seen two sweeps begin goes before all others: nothing waits for ever. Where what lies between two
//!   blocks is read in less time than the arm takes to move, both belong to one request, and the gap with them.
//!
//! Small files that lie one behind the other and wait here are asked for at once, as a [`Train`] of requests, up to the
//! largest request: one after the other, the program's own reads would come between them, and the arm move there and back. So are
//! those between which no more lies than is read in less time than the arm takes to move: it is read along with them, and nobody
//! is given it.
//!
//! Each device has a lane of its own, with as many requests under way as it serves in a short time. A device that has
//! enough to do is passed over, so no thread ever waits for room in one while another device has work. The same holds
//! for the blocks: a lane that is full keeps those of its own device out.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::{Fetch, PREFETCH_QUEUE_BLOCKS, Request, Run, Train};
use crate::disk::{Disk, Room};

/// Requests of one sweep at most.
const SWEEP_REQUESTS: usize = PREFETCH_QUEUE_BLOCKS;
/// A block that has seen so many sweeps begin goes first.
const SWEEPS: u64 = 2;
/// What a request may skip on the disk and is near the one before: whether the arm moves for it depends on what others read there.
/// In a sweep over small files half of those that skipped a few KiB took 8 ms, half of them 0.1.
const NEAR_BYTES: u64 = 256 << 10;
/// Requests of a train at most: half of what a device queues as a rule.
const TRAIN_REQUESTS: usize = 64;
/// Lanes of devices for which nothing waits that are kept: their place on the disk is worth remembering.
const IDLE_LANES: usize = 64;

/// What waits for one device.
#[derive(Debug)]
struct Lane {
    disk: Arc<Disk>,
    /// By order of arrival, with the sweep in which it came.
    waiting: BTreeMap<u64, (Fetch, u64)>,
    by_block: BTreeMap<(u32, u32), u64>,
    by_place: BTreeSet<(u64, u64)>,
    /// Where the sweep has come, and its number.
    head: u64,
    sweep: u64,
    /// Requests of this sweep.
    swept: usize,
    /// File and block after the last request,
    end: Option<(u32, u32)>,
    /// and the place after it: there another file may begin.
    end_place: u64,
}

impl Lane {
    fn new(disk: Arc<Disk>) -> Lane {
        Lane {
            disk,
            waiting: BTreeMap::new(),
            by_block: BTreeMap::new(),
            by_place: BTreeSet::new(),
            head: 0,
            sweep: 0,
            swept: 0,
            end: None,
            end_place: u64::MAX,
        }
    }

    fn remove(&mut self, arrival: u64) -> Option<Fetch> {
        let (fetch, _) = self.waiting.remove(&arrival)?;
        self.by_block.remove(&(fetch.serial, fetch.block.index));
        self.by_place.remove(&(fetch.place, arrival));
        Some(fetch)
    }

    /// The block that the next request begins with.
    fn next(&mut self, has_arm: bool) -> Option<u64> {
        let (&oldest, &(_, sweep)) = self.waiting.first_key_value()?;
        if !has_arm || sweep + SWEEPS <= self.sweep {
            return Some(oldest);
        }
        let ahead = self.by_place.range((self.head, 0)..).next().filter(|_| self.swept < SWEEP_REQUESTS);
        if let Some(&(_, arrival)) = ahead {
            self.swept += 1;
            return Some(arrival);
        }
        (self.sweep, self.swept) = (self.sweep + 1, 1);
        self.by_place.first().map(|&(_, arrival)| arrival)
    }

    /// Takes a block out of the queue, if it waits there and goes with a request.
    fn neighbour(&mut self, serial: u32, index: u32, goes: impl Fn(&Fetch) -> bool) -> Option<Fetch> {
        let arrival = *self.by_block.get(&(serial, index))?;
        self.waiting.get(&arrival).filter(|(fetch, _)| goes(fetch))?;
        self.remove(arrival)
    }

    /// Takes the blocks behind a run out of the queue, up to the offset `most` of the file.
    fn extend(&mut self, serial: u32, run: &mut Run, most: u64, block_bytes: &mut u64) {
        while let Some(next) = self.neighbour(serial, run.blocks.end, |next| {
            next.offset == run.end() && next.offset + next.length <= most
        }) {
            run.length += next.length;
            run.blocks.end = run.blocks.end.saturating_add(1);
            *block_bytes = next.length.max(*block_bytes);
            self.head = next.place;
        }
    }

    /// Takes the next block behind a run out of the queue, if what lies between is worth reading: no more than
    /// `gap_bytes`, and no further apart on the disk than in the file.
    fn beyond_a_gap(&mut self, serial: u32, run: &Run, most: u64, gap_bytes: u64) -> Option<Fetch> {
        let (_, &arrival) = self.by_block.range((serial, run.blocks.end)..=(serial, u32::MAX)).next()?;
        let (next, _) = self.waiting.get(&arrival)?;
        let gap = next.offset.checked_sub(run.end())?;
        let apart = next.place.checked_sub(self.head)?;
        let goes = gap <= gap_bytes && apart <= gap + run.length && next.offset + next.length <= most;
        if goes { self.remove(arrival) } else { None }
    }

    /// Takes the next requests out of the queue, if the device has room for one.
    fn take(&mut self, now_ns: u64) -> Option<Train> {
        if self.waiting.is_empty() {
            return None;
        }
        let room = self.disk.room()?;
        let has_arm = room.has_arm;
        let arrival = self.next(has_arm)?;
        let first = self.remove(arrival)?;
        let (place, disk) = (first.place, Arc::clone(&first.disk));
        // An arm that goes on where it was, or passes over a little, shows nothing of what it takes to move.
        let is_near = has_arm && (0..NEAR_BYTES).contains(&place.wrapping_sub(self.end_place));
        let before = self.end;
        let (request, mut length) = self.request(first, room);
        let scattered = before != Some((request.serial, request.runs[0].blocks.start)) && !is_near;
        let mut requests = vec![request];
        while has_arm && requests.len() < TRAIN_REQUESTS {
            let left_bytes = room.bytes.saturating_sub(length);
            let Some((passed, next)) = self.beyond(left_bytes, room.passed_bytes) else { break };
            let passed_bytes = passed.end - passed.start;
            let room = Room { bytes: left_bytes - passed_bytes, gap_bytes: 0, ..room };
            let (request, bytes) = self.request(next, room);
            requests.push(Request { passed, ..request });
            length += passed_bytes + bytes;
        }
        let ticket = self.disk.begin(now_ns, length, scattered);
        Some(Train { requests, disk, ticket })
    }

    /// Takes the block out of the queue that lies behind the last request, with what lies between, if both together are no
    /// longer than `most_bytes`, and the latter no longer than `passed_bytes`.
    fn beyond(&mut self, most_bytes: u64, passed_bytes: u64) -> Option<(Range<u64>, Fetch)> {
        let &(place, arrival) = self.by_place.range((self.head, 0)..).next()?;
        let passed = place.checked_sub(self.end_place)?;
        let goes = passed <= passed_bytes
            && self.swept < SWEEP_REQUESTS
            && self.waiting.get(&arrival).is_some_and(|(next, _)| passed + next.length <= most_bytes);
        if !goes {
            return None;
        }
        self.swept += 1;
        let passed = self.end_place..place;
        self.remove(arrival).map(|next| (passed, next))
    }

    /// A request that begins with a block, and its length in bytes.
    fn request(&mut self, first: Fetch, room: Room) -> (Request, u64) {
        let Room { bytes, has_arm, gap_bytes, .. } = room;
        let (serial, mut block_bytes) = (first.serial, first.length);
        self.head = first.place;
        let most = first.offset.saturating_add(bytes);
        let mut run = Run::of(&first);
        self.extend(serial, &mut run, most, &mut block_bytes);
        let mut runs = Vec::new();
        if has_arm {
            while let Some(next) = self.beyond_a_gap(serial, &run, most, gap_bytes) {
                self.head = next.place;
                runs.push(std::mem::replace(&mut run, Run::of(&next)));
                self.extend(serial, &mut run, most, &mut block_bytes);
            }
        } else {
            // On a disk what lies behind has been passed.
            while let Some(index) = run.blocks.start.checked_sub(1)
                && let Some(before) = self.neighbour(serial, index, |before| {
                    before.offset + before.length == run.offset && run.end() - before.offset <= bytes
                })
            {
                run = Run {
                    blocks: index..run.blocks.end,
                    offset: before.offset,
                    length: run.end() - before.offset,
                };
                block_bytes = block_bytes.max(before.length);
            }
        }
        runs.push(run);
        let last = &runs[runs.len() - 1];
        let before_last = u64::from(last.blocks.end - last.blocks.start).saturating_sub(1);
        let last_bytes = last.length.saturating_sub(before_last.saturating_mul(block_bytes));
        // The next file begins at a whole page.
        let end_place = self.head.saturating_add(last_bytes.next_multiple_of(crate::kernel::page_bytes()));
        self.head = self.head.saturating_add(1);
        let end = runs[runs.len() - 1].blocks.end;
        (self.end, self.end_place) = (Some((serial, end)), end_place);
        let length = runs[runs.len() - 1].end() - runs[0].offset;
        (Request { passed: 0..0, serial, id: first.block.file, runs, file: first.file, block_bytes }, length)
    }
}

/// What waits, by device.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    arrivals: u64,
    /// The lane that is asked first next time.
    turn: usize,
}

impl Lanes {
    /// Takes in fetches in their order; returns those for which there was no room on their device. A block that waits
    /// already is not taken in twice.
    pub(super) fn push(&mut self, fetches: Vec<Fetch>) -> Vec<Fetch> {
        let mut refused = Vec::new();
        for fetch in fetches {
            let arrival = self.arrivals;
            let lane = self.lane(&fetch.disk);
            let block = (fetch.serial, fetch.block.index);
            if lane.by_block.contains_key(&block) {
                continue;
            }
            if lane.waiting.len() >= PREFETCH_QUEUE_BLOCKS {
                refused.push(fetch);
                continue;
            }
            lane.by_block.insert(block, arrival);
            lane.by_place.insert((fetch.place, arrival));
            lane.waiting.insert(arrival, (fetch, lane.sweep));
            self.arrivals += 1;
        }
        refused
    }

    fn lane(&mut self, disk: &Arc<Disk>) -> &mut Lane {
        let known = self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.disk, disk));
        let at = known.unwrap_or_else(|| {
            if self.lanes.len() >= IDLE_LANES {
                self.lanes.retain(|lane| !lane.waiting.is_empty());
            }
            self.lanes.push(Lane::new(Arc::clone(disk)));
            self.lanes.len() - 1
        });
        &mut self.lanes[at]
    }

    /// The next requests to a device that has room for one; the devices take turns.
    pub(super) fn take(&mut self, now_ns: u64) -> Option<Train> {
        let count = self.lanes.len();
        let turn = self.turn;
        let (at, train) = (0..count)
            .map(|step| (turn + step) % count)
            .find_map(|at| self.lanes[at].take(now_ns).map(|train| (at, train)))?;
        self.turn = at + 1;
        Some(train)
    }

    /// Is there a device with work and room for it?
    pub(super) fn has_more(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.waiting.is_empty() && lane.disk.room().is_some())
    }

    /// The program has asked for a block itself: it need not be asked for again. If it stayed, it might be used and dropped
    /// by the time it is its turn, and would be read for nothing. The sweep goes on where it was, although the arm has been
    /// elsewhere: from there on it would come by the same places again, and find less there.
    pub(super) fn overtaken(&mut self, serial: u32, index: u32) {
        for lane in &mut self.lanes {
            if let Some(&arrival) = lane.by_block.get(&(serial, index)) {
                lane.remove(arrival);
            }
        }
    }

    /// Drops what `drop_it` says; returns it in the order in which it came.
    pub(super) fn cancel(&mut self, drop_it: impl Fn(&Fetch) -> bool) -> Vec<Fetch> {
        let mut dropped = Vec::new();
        for lane in &mut self.lanes {
            let arrivals: Vec<u64> = lane
                .waiting
                .iter()
                .filter(|(_, (fetch, _))| drop_it(fetch))
                .map(|(&arrival, _)| arrival)
                .collect();
            dropped.extend(arrivals.into_iter().filter_map(|arrival| lane.remove(arrival)));
        }
        dropped
    }
}

#[cfg(test)]
mod tests;
