//! A process references a block: it is matched against what its manager disclosed, and changes the residency and
//! the recency of the block.

use super::credit::Credit;
use super::{Books, Touch};
use crate::action::Access;
use crate::blocks::{BlockId, Mark, State};
use crate::config::Residency;
use crate::control::Fate;
use crate::ids::{ManagerId, ProcessId};
use crate::recency::NONE;

impl Books {
    /// Will a reference to this block ask for a demand fetch?
    pub(crate) fn is_missing(&self, b: BlockId) -> bool {
        self.config.residency == Residency::Exact && self.blocks[b].state == State::Absent
    }

    pub(crate) fn reference(
        &mut self,
        process: ProcessId,
        manager: ManagerId,
        b: BlockId,
        stalled: bool,
    ) -> Access {
        self.managers.note_process(manager, process);
        self.touch(manager, b);
        let (is_by_order, is_unordered) = (self.blocks[b].is(Mark::OnCredit), self.is_unordered(b));
        let absent = matches!(self.blocks[b].state, State::Absent | State::Leaving);
        if self.config.residency == Residency::Advisory || self.blocks[b].state == State::Cached {
            self.predicted = self.match_list(manager, process, b);
        } else {
            self.predicted = self.is_expected(manager, b);
            self.fetches.wait(b, process);
        }
        if let Some(ghosts) = self.managers.ghosts_mut(manager) {
            ghosts.reference();
            if absent && !self.predicted {
                ghosts.miss(self.blocks[b].block);
            }
        }
        let file = self.blocks[b].block.file;
        let access = match self.blocks[b].state {
            State::Cached => self.reference_cached(manager, b, stalled),
            State::InFlight => self.reference_in_flight(b),
            State::Leaving => Access::Hit,
            State::Awaited => Access::InFlight,
            State::Absent => self.reference_absent(process, manager, b),
        };
        self.touch.is_by_order = is_by_order;
        self.touch.is_missed = access == Access::Miss || is_unordered;
        self.accounts.count(process, file, |c| {
            c.references += 1;
            c.hits += u64::from(access == Access::Hit);
        });
        self.observe(manager, b);
        access
    }

    /// Notes how a reference meets a block that lists may name.
    #[inline]
    fn touch(&mut self, manager: ManagerId, b: BlockId) {
        let record = &mut self.blocks[b];
        let (is_first, block) = (!record.is(Mark::Met), record.block);
        record.set(Mark::Met, true);
        let last = self.last.replace(block);
        let begins = !last.is_some_and(|last| {
            let step = block.index.wrapping_sub(last.index);
            last.file == block.file && step <= 1
        });
        let is_named = is_first && self.knowledge.knows(&self.blocks, manager, b);
        let is_in_order = begins && is_named && self.is_about(manager, b);
        self.touch = Touch { is_first, is_named, begins, is_in_order, is_by_order: false, is_missed: false };
    }

    fn reference_cached(&mut self, manager: ManagerId, b: BlockId, stalled: bool) -> Access {
        self.settle_credit(b, Credit::used);
        let record = &mut self.blocks[b];
        record.set(Mark::Referenced, true);
        let demanded = record.take(Mark::Demanded);
        let prefetched = record.take(Mark::Prefetched);
        let (charged_to, file) = (record.charged_to(), record.block.file);
        record.set(Mark::Unfetchable, false);
        if prefetched {
            self.count_prefetched(b, if demanded { Fate::Failed } else { Fate::Used });
        }
        self.frames.touch(&mut self.blocks, b);
        if self.blocks[b].placeholder != NONE {
            self.placeholders.delete_all_to(&mut self.blocks, b);
        }
        self.adopt(b, manager);
        self.settle(b);
        match (prefetched, stalled) {
            (true, true) => {
                self.accounts.count(charged_to, file, |c| c.prefetches_late += 1);
                Access::InFlight
            }
            (true, false) => {
                self.accounts.count(charged_to, file, |c| c.prefetches_useful += 1);
                Access::Hit
            }
            // The kernel loaded it for this very reference, or ahead of it on the process's behalf.
            (false, _) if demanded => Access::Miss,
            (false, _) => Access::Hit,
        }
    }

    fn reference_in_flight(&mut self, b: BlockId) -> Access {
        self.settle_credit(b, Credit::used);
        let record = &mut self.blocks[b];
        record.set(Mark::Referenced, true);
        let (charged_to, file) = (record.charged_to(), record.block.file);
        if record.take(Mark::Prefetched) {
            self.accounts.count(charged_to, file, |c| c.prefetches_late += 1);
            self.count_prefetched(b, Fate::Used);
        }
        if self.config.residency == Residency::Advisory {
            // The reference was made with the data there: the fetch has completed.
            self.arrive(b);
            self.resume(b);
        }
        Access::InFlight
    }

    fn reference_absent(&mut self, process: ProcessId, manager: ManagerId, b: BlockId) -> Access {
        let file = self.blocks[b].block.file;
        self.accounts.count(process, file, |c| c.demand_fetches += 1);
        self.blocks[b].set(Mark::Referenced, true);
        match self.config.residency {
            Residency::Advisory => {
                self.make_room(b);
                self.occupy(b, State::Cached, Some(manager), process);
                self.settle(b);
            }
            Residency::Exact => self.demand(b, process, manager),
        }
        Access::Miss
    }
}
