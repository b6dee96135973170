//! The book of fetches: what is under way, for whom, until when, and who waits.
//!
//! A fetch has a place here that the record of its block names, and a number that tells it from another fetch of
//! the same block. Two kinds of waiting are kept beside: references whose block has not arrived yet (exact planes;
//! they count as made when it is there), and demand fetches for which no frame is free.

use std::collections::VecDeque;

use crate::blocks::{BlockId, Blocks, State};
use crate::ids::{DiskId, ManagerId, Nanos, ProcessId};
use crate::recency::NONE;

/// A fetch that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fetch {
    /// The manager on whose behalf the block is being fetched.
    manager: ManagerId,
    /// Tells this fetch from another one of the same block (and so a stale time-out from a current one).
    number: u32,
    /// A list names the block, and nobody waited for it.
    listed: bool,
}

/// All fetches under way.
#[derive(Debug)]
pub(crate) struct Fetches {
    entries: Vec<Fetch>,
    vacant: Vec<u32>,
    last_number: u32,
    by_disk: Vec<u32>,
    by_manager: Vec<u32>,
    /// Those of blocks that lists name.
    listed: u32,
    /// Prefetches by the time at which they are given up; only with a time-out.
    deadlines: VecDeque<(Nanos, BlockId, u32)>,
    timeout: Option<Nanos>,
    /// Blocks that processes wait for while every frame is on its way to another block.
    without_frame: VecDeque<(BlockId, ProcessId)>,
    /// References that wait for their block to arrive.
    waiting: Vec<(BlockId, ProcessId)>,
}

impl Fetches {
    pub(crate) fn new(disks: u16, timeout: Option<Nanos>) -> Fetches {
        Fetches {
            entries: Vec::new(),
            vacant: Vec::new(),
            last_number: 0,
            by_disk: vec![0; disks.max(1) as usize],
            by_manager: Vec::new(),
            listed: 0,
            deadlines: VecDeque::new(),
            timeout,
            without_frame: VecDeque::new(),
            waiting: Vec::new(),
        }
    }

    /// A fetch begins. A prefetch is given up after the time-out; a demand fetch is not.
    pub(crate) fn begin(
        &mut self,
        blocks: &mut Blocks,
        b: BlockId,
        manager: ManagerId,
        prefetch_at: Option<Nanos>,
    ) {
        let slot = manager.0 as usize;
        if self.by_manager.len() <= slot {
            self.by_manager.resize(slot + 1, 0);
        }
        self.by_manager[slot] += 1;
        self.by_disk[blocks.disk(b).0 as usize] += 1;
        self.last_number = self.last_number.wrapping_add(1);
        let fetch = Fetch { manager, number: self.last_number, listed: false };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.entries[place as usize] = fetch;
                place
            }
            None => {
                self.entries.push(fetch);
                self.entries.len() as u32 - 1
            }
        };
        blocks[b].place = place;
        if let (Some(now), Some(timeout)) = (prefetch_at, self.timeout) {
            self.deadlines.push_back((now.saturating_add(timeout), b, fetch.number));
        }
    }

    /// A fetch that has begun is one that a list has asked for.
    pub(crate) fn set_listed(&mut self, blocks: &Blocks, b: BlockId) {
        if let Some(fetch) = self.entries.get_mut(blocks[b].place as usize) {
            self.listed += u32::from(!fetch.listed);
            fetch.listed = true;
        }
    }

    /// A fetch has ended; time-outs that are of no interest any more are forgotten.
    pub(crate) fn end(&mut self, blocks: &mut Blocks, b: BlockId) {
        let manager = self.manager_of(blocks, b);
        self.by_manager[manager.0 as usize] -= 1;
        self.by_disk[blocks.disk(b).0 as usize] -= 1;
        let place = std::mem::replace(&mut blocks[b].place, NONE);
        self.listed -= u32::from(self.entries.get(place as usize).is_some_and(|fetch| fetch.listed));
        self.vacant.push(place);
        while let Some(&(_, b, number)) = self.deadlines.front() {
            if self.number_of(blocks, b) == Some(number) {
                break;
            }
            self.deadlines.pop_front();
        }
    }

    /// The manager on whose behalf a block on its way is being fetched.
    pub(crate) fn manager_of(&self, blocks: &Blocks, b: BlockId) -> ManagerId {
        self.entries.get(blocks[b].place as usize).map_or(ManagerId(0), |fetch| fetch.manager)
    }

    /// The number of the fetch that brings a block in, if it is on its way.
    fn number_of(&self, blocks: &Blocks, b: BlockId) -> Option<u32> {
        let record = &blocks[b];
        let is_on_its_way = record.state == State::InFlight && record.place != NONE;
        is_on_its_way.then(|| self.entries.get(record.place as usize).map(|fetch| fetch.number)).flatten()
    }

    /// Fetches under way from a disk.
    #[inline]
    pub(crate) fn of_disk(&self, disk: DiskId) -> u32 {
        self.by_disk[disk.0 as usize]
    }

    /// Fetches under way on a manager's behalf.
    #[inline]
    pub(crate) fn of_manager(&self, manager: ManagerId) -> u32 {
        self.by_manager.get(manager.0 as usize).copied().unwrap_or(0)
    }

    /// Fetches under way that lists have asked for.
    pub(crate) fn of_lists(&self) -> u32 {
        self.listed
    }

    /// When the first prefetch is to be given up.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.front().map(|d| d.0)
    }

    /// A prefetch whose time has come.
    pub(crate) fn overdue(&mut self, blocks: &Blocks, now: Nanos) -> Option<BlockId> {
        while let Some(&(deadline, b, number)) = self.deadlines.front() {
            let current = self.number_of(blocks, b) == Some(number);
            if current && deadline > now {
                return None;
            }
            self.deadlines.pop_front();
            if current {
                return Some(b);
            }
        }
        None
    }

    // ---- who waits ----

    /// A reference waits for its block to arrive.
    pub(crate) fn wait(&mut self, b: BlockId, process: ProcessId) {
        self.waiting.push((b, process));
    }

    /// The process of a reference that waited for this block.
    pub(crate) fn resume_one(&mut self, b: BlockId) -> Option<ProcessId> {
        let i = self.waiting.iter().position(|w| w.0 == b)?;
        Some(self.waiting.remove(i).1)
    }

    /// Nobody waits for this block any more.
    pub(crate) fn stop_waiting(&mut self, b: BlockId) {
        self.waiting.retain(|w| w.0 != b);
    }

    /// A demand fetch waits for a frame.
    pub(crate) fn wait_for_frame(&mut self, b: BlockId, process: ProcessId) {
        self.without_frame.push_back((b, process));
    }

    /// The first demand fetch that waits for a frame.
    pub(crate) fn first_without_frame(&self) -> Option<(BlockId, ProcessId)> {
        self.without_frame.front().copied()
    }

    /// It has one now.
    pub(crate) fn pop_without_frame(&mut self) {
        self.without_frame.pop_front();
    }

    /// A block is no longer wanted.
    pub(crate) fn forget_without_frame(&mut self, b: BlockId) {
        self.without_frame.retain(|&(waiting, _)| waiting != b);
    }

    /// Gives the memory of empty queues back.
    pub(crate) fn release_memory(&mut self) {
        if self.deadlines.is_empty() {
            self.deadlines = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Block;
    use crate::layout::Layout;

    #[test]
    fn places_are_used_again_and_a_stale_time_out_does_not_end_a_new_fetch() {
        let mut blocks = Blocks::new(1);
        let file = blocks.add_file(Layout::Unknown);
        let mut fetches = Fetches::new(1, Some(Nanos(10)));
        let b = blocks.find_or_add(Block::new(file, 0)).expect("the file is known");
        blocks[b].state = State::InFlight;
        fetches.begin(&mut blocks, b, ManagerId(3), Some(Nanos(0)));
        let place = blocks[b].place;
        assert_eq!(fetches.manager_of(&blocks, b), ManagerId(3));
        assert_eq!((fetches.of_manager(ManagerId(3)), fetches.of_disk(DiskId(0))), (1, 1));
        fetches.end(&mut blocks, b);
        assert_eq!((fetches.of_manager(ManagerId(3)), fetches.of_disk(DiskId(0))), (0, 0));
        fetches.begin(&mut blocks, b, ManagerId(4), Some(Nanos(5)));
        assert_eq!(blocks[b].place, place);
        assert_eq!(fetches.overdue(&blocks, Nanos(12)), None, "the first fetch's time-out");
        assert_eq!(fetches.next_deadline(), Some(Nanos(15)));
        assert_eq!(fetches.overdue(&blocks, Nanos(15)), Some(b));
    }
}
