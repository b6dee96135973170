//! What readers did without the lock, as the engine is told of it ([`crate::memory`]).
//!
//! Parts that were read are looked up on the board and not in the objects' tables: what is published there is in memory.

use foretell_policy::{Block, FileId, Input, Nanos};

use super::State;
use crate::memory::{RELAXED, Reference};
use crate::object::{Part, Sequence, file_of};
use crate::readers::{Mean, Reading};
use crate::who::Who;

impl State {
    /// Tells the engine what was read without the lock.
    pub(crate) fn catch_up(&mut self, now: Nanos) {
        let Some(gathered) = self.lanes.gather(&self.arena) else { return };
        let is_awaited = self.is_awaited();
        let mut computed = Mean::default();
        for (reference, who) in &gathered.references {
            let reading = Reading { reader: reference.reader, compute_ns: reference.compute_ns };
            let compute = self.begin_read(reading, reference.parts);
            computed.add(compute);
            self.was_read(now, reference, compute.filter(|_| is_awaited), *who);
        }
        // Where the planner plans nothing it is told once of them all.
        if let Some(compute) = computed.get().filter(|_| !is_awaited) {
            self.engine.tell(now, Input::Computed { process: self.own.process, compute });
        }
        self.counts.references += gathered.passed;
        self.counts.hits += gathered.passed;
        self.lanes.done(gathered);
    }

    fn was_read(&mut self, now: Nanos, read: &Reference, compute: Option<Nanos>, who: Option<Who>) {
        let file = file_of(read.serial);
        let parts = read.first..read.first.saturating_add(read.parts);
        let is_open = self.object_mut(file).is_some_and(|open| open.fixed.serial == read.serial);
        let order = if is_open { self.sequence(file, &parts, who) } else { Sequence::InOrder };
        let process = who.unwrap_or(self.own).process;
        let was_read = |state: &mut State, part| {
            if !is_open || !state.is_ready(file, read.serial, part) {
                // It was replaced meanwhile. To the engine that would be a wish for it.
                state.counts.references += 1;
                state.counts.hits += 1;
                return;
            }
            let block = Block::new(file, part);
            state.tell_reference(now, process, read.serial, block, compute);
            if state.unread > 0
                && let Some(open) = state.objects[file.0 as usize].as_mut()
                && let Some(Part::Ready { used, .. }) = open.parts.get_mut(&part)
            {
                state.unread -= u32::from(!std::mem::replace(used, true));
            }
            state.tell_tier(now, process, block);
        };
        match order {
            Sequence::InOrder => parts.for_each(|part| was_read(self, part)),
            Sequence::FromTheEnd => parts.rev().for_each(|part| was_read(self, part)),
        }
    }

    /// Is this part of an open object in memory? What is published is, and found there the quickest.
    fn is_ready(&self, file: FileId, serial: u64, part: u32) -> bool {
        let Some(open) = &self.objects[file.0 as usize] else { return false };
        // A guest can write to the board: what is not of the object is not there.
        let is_of_it = u64::from(part) < open.fixed.stamp.length.div_ceil(u64::from(self.part_bytes));
        is_of_it
            && (self.arena.has(serial, part) || matches!(open.parts.get(&part), Some(Part::Ready { .. })))
    }

    /// Lanes for a guest, by the first of them; `None` when as many guests as may be have theirs.
    pub(crate) fn grant_lanes(&mut self, who: Option<Who>) -> Option<u32> {
        self.lanes.grant(&self.arena, who)
    }

    pub(crate) fn set_lanes_of(&mut self, first: u32, who: Who) {
        self.lanes.set_who(first, who);
    }

    /// A guest is gone.
    pub(crate) fn release_lanes(&mut self, first: u32) {
        self.lanes.release(&self.arena, first);
    }

    /// Does the planner do anything about references? It follows lists, and what is there ahead of its use.
    fn is_awaited(&self) -> bool {
        let mut all = self.lanes.whos().chain([self.own]);
        self.unread > 0 || all.any(|who| self.engine.disclosed_ahead(who.manager) > 0)
    }

    /// Has readers leave as many references as suits.
    pub(super) fn set_told_at(&self) {
        let is_relaxed = !self.is_awaited() && !self.recorder.records();
        self.arena.set_told_at(if is_relaxed { RELAXED } else { self.told_at });
    }
}
