//! Residency: what fetches and evictions, asked for or not, do to the books.
//!
//! In an exact plane everything happens because the policy asked for it. In an advisory one the kernel
//! loads and drops blocks by itself, refuses evictions, and answers late; every such event moves the block
//! to the state that it is really in.

use crate::blocks::{BlockId, Mark, NOBODY, State};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::event::{Action, Reason};
use crate::ids::{Block, FileId, ManagerId, Nanos, ProcessId};
use crate::prefetch::Trigger;
use crate::recency::NONE;

impl Engine {
    /// Fetches a block that a process waits for, at once or when a frame is free.
    pub(crate) fn demand(&mut self, b: BlockId, process: ProcessId) {
        self.make_planned_room(self.processes[process.0 as usize].manager, b);
        if !self.make_room(b) {
            self.blocks[b].state = State::Awaited;
            self.disclosures.refresh(&self.blocks, b);
            self.awaited.push_back((b, process));
            return;
        }
        let manager = self.processes[process.0 as usize].manager;
        self.occupy(b, State::InFlight, Some(manager), process);
        self.start_fetch(b, manager);
        let block = self.blocks[b].block;
        self.actions.push_back(Action::Fetch { block, reason: Reason::Demand, manager });
    }

    /// Serves the processes that wait for a frame, as far as there are any.
    fn serve_awaited(&mut self) {
        while let Some(&(b, process)) = self.awaited.front() {
            if !self.make_room(b) {
                return;
            }
            self.awaited.pop_front();
            self.blocks[b].state = State::Absent;
            self.demand(b, process);
        }
    }

    pub(crate) fn loaded(&mut self, now: Nanos, block: Block, by: Option<ProcessId>) {
        let Some(b) = self.blocks.find_or_add(block) else { return };
        self.blocks[b].set(Mark::Unfetchable, false);
        match self.blocks[b].state {
            State::InFlight => {
                let manager = self.fetched_for(b);
                self.arrive(b);
                // The disk is free at this very instant, before a process that waited goes on.
                self.plan(now, manager, Trigger::Opportunity);
                if self.resume(b) {
                    self.plan(now, manager, Trigger::Opportunity);
                }
                self.serve_awaited();
            }
            State::Cached | State::Awaited => {}
            State::Absent | State::Leaving => {
                self.make_room(b);
                let owner = by.map(|process| self.processes[process.0 as usize].manager);
                self.occupy(b, State::Cached, owner, by.unwrap_or(NOBODY));
                let record = &mut self.blocks[b];
                record.set(Mark::Referenced, false);
                record.set(Mark::Prefetched, false);
                record.set(Mark::Demanded, by.is_some());
                if let Some(process) = by {
                    self.count(process, block.file, |c| c.demand_fetches += 1);
                }
                self.settle(b);
            }
        }
    }

    /// A block on its way is there.
    pub(crate) fn arrive(&mut self, b: BlockId) {
        self.end_fetch(b);
        self.blocks[b].state = State::Cached;
        self.disclosures.refresh(&self.blocks, b);
    }

    /// The references that waited for a block are made; false if there were none. Then the block goes
    /// where it belongs.
    pub(crate) fn resume(&mut self, b: BlockId) -> bool {
        let mut any = false;
        while let Some(i) = self.waiting.iter().position(|w| w.0 == b) {
            let (_, manager) = self.waiting.remove(i);
            self.match_list(manager, b);
            any = true;
        }
        if self.blocks[b].state == State::Cached {
            self.settle(b);
        }
        any
    }

    pub(crate) fn fetch_failed(&mut self, now: Nanos, b: BlockId) {
        if self.blocks[b].state != State::InFlight {
            return;
        }
        let record = &mut self.blocks[b];
        record.set(Mark::Unfetchable, true);
        let (file, charged_to) = (record.block.file, record.charged_to());
        if record.take(Mark::Prefetched) {
            self.count(charged_to, file, |c| c.prefetches -= 1);
        }
        self.waiting.retain(|w| w.0 != b);
        let manager = self.fetched_for(b);
        self.end_fetch(b);
        self.release(b, State::Absent);
        self.serve_awaited();
        self.plan(now, manager, Trigger::Opportunity);
    }

    pub(crate) fn gone(&mut self, now: Nanos, b: BlockId, add: impl Fn(&mut Counters)) {
        match self.blocks[b].state {
            State::Cached => {
                let record = &self.blocks[b];
                let (file, charged_to) = (record.block.file, record.charged_to());
                self.count(charged_to, file, add);
                let owner = self.owner_of(b);
                self.release(b, State::Absent);
                if let Some(manager) = owner {
                    self.plan(now, manager, Trigger::Opportunity);
                }
            }
            State::Leaving => {
                self.blocks[b].state = State::Absent;
                self.blocks.forget_if_idle(b);
            }
            State::Absent | State::Awaited | State::InFlight => {}
        }
    }

    pub(crate) fn evict_refused(&mut self, b: BlockId) {
        if self.blocks[b].state != State::Leaving {
            return;
        }
        let record = &self.blocks[b];
        let (file, charged_to) = (record.block.file, record.charged_to());
        self.count(charged_to, file, |c| c.evictions_refused += 1);
        self.make_room(b);
        let owner = self.processes.get(charged_to.0 as usize).map(|p| p.manager);
        self.occupy(b, State::Cached, owner, charged_to);
        self.settle_for_long(b);
    }

    /// Blocks of a file whose fetches have failed may be fetched again: the plane has come by the file anew.
    pub fn allow_fetches(&mut self, file: FileId) {
        for b in self.blocks.of_file(file, 0, u32::MAX) {
            if self.blocks[b].take(Mark::Unfetchable) {
                self.disclosures.refresh(&self.blocks, b);
            }
        }
    }

    /// Books a fetch; gives its number.
    pub(crate) fn start_fetch(&mut self, b: BlockId, manager: ManagerId) -> u32 {
        self.managers[manager.0 as usize].in_flight += 1;
        self.disk_in_flight[self.blocks.disk(b).0 as usize] += 1;
        let (place, number) = self.fetches.begin(manager);
        self.blocks[b].place = place;
        number
    }

    /// The manager on whose behalf a block on its way is being fetched.
    fn fetched_for(&self, b: BlockId) -> ManagerId {
        self.fetches.get(self.blocks[b].place).map_or(ManagerId(0), |fetch| fetch.manager)
    }

    /// The number of the fetch that brings a block in, if it is on its way.
    pub(crate) fn fetch_number(&self, b: BlockId) -> Option<u32> {
        let record = &self.blocks[b];
        let is_on_its_way = record.state == State::InFlight && record.place != NONE;
        is_on_its_way.then(|| self.fetches.get(record.place).map(|fetch| fetch.number)).flatten()
    }

    /// Books the end of a fetch, and forgets time-outs that are of no interest any more.
    fn end_fetch(&mut self, b: BlockId) {
        let manager = self.fetched_for(b);
        self.managers[manager.0 as usize].in_flight -= 1;
        self.disk_in_flight[self.blocks.disk(b).0 as usize] -= 1;
        self.fetches.end(std::mem::replace(&mut self.blocks[b].place, NONE));
        while let Some(&(_, b, number)) = self.deadlines.front() {
            if self.fetch_number(b) == Some(number) {
                break;
            }
            self.deadlines.pop_front();
        }
    }

    /// Takes a block off the books, whatever its state.
    pub(crate) fn forget(&mut self, b: BlockId) {
        self.waiting.retain(|w| w.0 != b);
        match self.blocks[b].state {
            State::InFlight => {
                if self.blocks[b].take(Mark::Prefetched) {
                    let (file, charged_to) = (self.blocks[b].block.file, self.blocks[b].charged_to());
                    self.count(charged_to, file, |c| c.prefetches_wasted += 1);
                }
                self.end_fetch(b);
                self.release(b, State::Absent);
            }
            State::Cached => self.release(b, State::Absent),
            State::Awaited => {
                self.awaited.retain(|&(waiting, _)| waiting != b);
                self.blocks[b].state = State::Absent;
            }
            State::Leaving => self.blocks[b].state = State::Absent,
            State::Absent => {}
        }
    }
}
