//! Residency: what fetches and evictions, asked for or not, do to the books.
//!
//! In an exact plane everything happens because the policy asked for it. In an advisory one the kernel
//! loads and drops blocks by itself, refuses evictions, and answers late; every such event moves the block
//! to the state that it is really in.

use super::Books;
use super::credit::Credit;
use crate::action::{Action, Reason};
use crate::blocks::{BlockId, Mark, NOBODY, State};
use crate::config::Residency;
use crate::control::Fate;
use crate::counters::Counters;
use crate::ids::{ManagerId, Nanos, ProcessId};

/// What a load did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// A fetch of ours for this manager has completed.
    Completed(ManagerId),
    /// The kernel loaded the block by itself, or it was there already.
    ByItself,
}

impl Books {
    /// Fetches a block that a process waits for, at once or when a frame is free.
    pub(super) fn demand(&mut self, b: BlockId, process: ProcessId, manager: ManagerId) {
        if !self.make_room(b) {
            self.blocks[b].state = State::Awaited;
            self.knowledge.refresh(&self.blocks, b);
            self.fetches.wait_for_frame(b, process);
            return;
        }
        self.occupy(b, State::InFlight, Some(manager), process);
        self.fetches.begin(&mut self.blocks, b, manager, None);
        let block = self.blocks[b].block;
        self.actions.push_back(Action::Fetch { block, reason: Reason::Demand, manager });
    }

    /// Does a process wait for a frame?
    pub(crate) fn waits_for_frame(&self) -> bool {
        self.fetches.first_without_frame().is_some()
    }

    /// Serves the processes that wait for a frame, as far as there are any.
    pub(crate) fn serve_awaited(&mut self) {
        while let Some((b, process)) = self.fetches.first_without_frame() {
            if !self.make_room(b) {
                return;
            }
            self.fetches.pop_without_frame();
            self.blocks[b].state = State::Absent;
            if let Some(manager) = self.managers.of_process(process) {
                self.demand(b, process, manager);
            }
        }
    }

    /// Starts to fetch an absent block into a frame made free for it; false if no frame can be had.
    pub(super) fn prefetch(&mut self, now: Nanos, manager: ManagerId, b: BlockId) -> bool {
        debug_assert!(matches!(self.blocks[b].state, State::Absent | State::Leaving));
        let paid = self.payment(b, manager);
        if paid.is_none() && !self.make_room(b) {
            return false;
        }
        let process = self.managers.last_process(manager);
        self.occupy(b, State::InFlight, Some(manager), process);
        if let Some(victim) = paid {
            self.pay(b, victim);
        }
        self.fetches.begin(&mut self.blocks, b, manager, Some(now));
        self.count_prefetched(b, Fate::Begun);
        let record = &mut self.blocks[b];
        record.set(Mark::Prefetched, true);
        record.set(Mark::Referenced, false);
        let file = record.block.file;
        self.accounts.count(process, file, |c| c.prefetches += 1);
        self.batch.push(b);
        true
    }

    /// Gives the batch to the plane, in order.
    #[inline]
    pub(crate) fn hand_over_batch(&mut self, manager: ManagerId) {
        if self.batch.is_empty() {
            return;
        }
        crate::order::arrange(&mut self.batch, &self.blocks, self.config.order);
        for b in self.batch.drain(..) {
            let block = self.blocks[b].block;
            self.actions.push_back(Action::Fetch { block, reason: Reason::Prefetch, manager });
        }
    }

    /// A block is in the cache now. A completed fetch is booked; who waited for it goes on with
    /// [`Books::resume`].
    pub(crate) fn load(&mut self, b: BlockId, by: Option<ProcessId>) -> Load {
        self.blocks[b].set(Mark::Unfetchable, false);
        match self.blocks[b].state {
            State::InFlight => {
                let manager = self.fetches.manager_of(&self.blocks, b);
                // Somebody who needed it was quicker.
                self.blocks[b].set(Mark::Demanded, by.is_some());
                self.arrive(b);
                return Load::Completed(manager);
            }
            State::Cached | State::Awaited => {}
            State::Absent | State::Leaving => {
                self.make_room(b);
                let owner = by.and_then(|process| self.managers.of_process(process));
                self.occupy(b, State::Cached, owner, by.unwrap_or(NOBODY));
                let record = &mut self.blocks[b];
                record.set(Mark::Referenced, false);
                record.set(Mark::Prefetched, false);
                record.set(Mark::Demanded, by.is_some());
                let file = record.block.file;
                if let Some(process) = by {
                    self.accounts.count(process, file, |c| c.demand_fetches += 1);
                }
                self.settle(b);
            }
        }
        Load::ByItself
    }

    /// A block on its way is there.
    pub(super) fn arrive(&mut self, b: BlockId) {
        self.fetches.end(&mut self.blocks, b);
        self.blocks[b].state = State::Cached;
        self.frames.arrived(&self.blocks, b);
        self.knowledge.refresh(&self.blocks, b);
    }

    /// The references that waited for a block are made; false if there were none. Then the block goes
    /// where it belongs.
    pub(crate) fn resume(&mut self, b: BlockId) -> bool {
        let mut any = false;
        while let Some(process) = self.fetches.resume_one(b) {
            if let Some(manager) = self.managers.of_process(process) {
                self.match_list(manager, process, b);
            }
            any = true;
        }
        if self.blocks[b].state == State::Cached {
            self.settle(b);
        }
        any
    }

    /// A fetch has failed. Gives the manager that it was for, if there was one under way.
    pub(crate) fn fail(&mut self, b: BlockId) -> Option<ManagerId> {
        if self.blocks[b].state != State::InFlight {
            return None;
        }
        self.settle_credit(b, Credit::returned);
        let record = &mut self.blocks[b];
        record.set(Mark::Unfetchable, true);
        let (file, charged_to) = (record.block.file, record.charged_to());
        if record.take(Mark::Prefetched) {
            // The process's record may have been given to another one since, with counts of its own.
            self.accounts.count(charged_to, file, |c| c.prefetches = c.prefetches.saturating_sub(1));
            self.count_prefetched(b, Fate::Failed);
        }
        self.fetches.stop_waiting(b);
        let manager = self.fetches.manager_of(&self.blocks, b);
        self.fetches.end(&mut self.blocks, b);
        self.release(b, State::Absent);
        self.serve_awaited();
        Some(manager)
    }

    /// A block left the cache; `add` says how that counts. Gives its owner, who has room now.
    pub(crate) fn lose(&mut self, b: BlockId, add: impl Fn(&mut Counters)) -> Option<ManagerId> {
        match self.blocks[b].state {
            State::Cached => {
                let record = &self.blocks[b];
                let (file, charged_to) = (record.block.file, record.charged_to());
                let vanished = record.is(Mark::Prefetched);
                self.accounts.count(charged_to, file, add);
                let owner = self.owner_of(b);
                if let Some(owner) = owner.filter(|_| vanished) {
                    self.managers.count_vanished(owner);
                }
                self.release(b, State::Absent);
                owner
            }
            State::Leaving => {
                self.blocks[b].state = State::Absent;
                self.blocks.forget_if_idle(b);
                None
            }
            State::Absent | State::Awaited | State::InFlight => None,
        }
    }

    /// An eviction was refused: the block is cached still.
    pub(crate) fn keep_refused(&mut self, b: BlockId) {
        if self.blocks[b].state != State::Leaving {
            return;
        }
        let record = &self.blocks[b];
        let (file, charged_to) = (record.block.file, record.charged_to());
        self.accounts.count(charged_to, file, |c| c.evictions_refused += 1);
        self.make_room(b);
        let owner = self.managers.of_process(charged_to);
        self.occupy(b, State::Cached, owner, charged_to);
        self.settle_for_long(b);
    }

    /// Gives up a cached block.
    pub(super) fn evict(&mut self, b: BlockId) {
        let block = self.blocks[b].block;
        let charged_to = self.blocks[b].charged_to();
        self.accounts.count(charged_to, block.file, |c| c.evictions += 1);
        let state = match self.config.residency {
            Residency::Exact => State::Absent,
            Residency::Advisory => State::Leaving,
        };
        self.release(b, state);
        self.actions.push_back(Action::Evict { block });
    }

    /// Takes a block off the books, whatever its state.
    pub(super) fn forget(&mut self, b: BlockId) {
        self.settle_credit(b, Credit::returned);
        self.fetches.stop_waiting(b);
        match self.blocks[b].state {
            State::InFlight => {
                if self.blocks[b].take(Mark::Prefetched) {
                    let (file, charged_to) = (self.blocks[b].block.file, self.blocks[b].charged_to());
                    self.accounts.count(charged_to, file, |c| c.prefetches_wasted += 1);
                    self.count_prefetched(b, Fate::Failed);
                }
                self.fetches.end(&mut self.blocks, b);
                self.release(b, State::Absent);
            }
            State::Cached => self.release(b, State::Absent),
            State::Awaited => {
                self.fetches.forget_without_frame(b);
                self.blocks[b].state = State::Absent;
            }
            State::Leaving => self.blocks[b].state = State::Absent,
            State::Absent => {}
        }
    }
}
