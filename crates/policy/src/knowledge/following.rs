//! Following the references through the lists: positions are used up, passed over, or come back after a jump.

use super::{Knowledge, Met, reference};
use crate::alignment::{Match, Moved};
use crate::blocks::{BlockId, Blocks};
use crate::ids::{ManagerId, ProcessId};
use crate::recency::NONE;

impl Knowledge {
    /// Matches a reference of a manager's process. Blocks that lost their next use by it wait in
    /// [`Knowledge::take_unlisted`].
    pub(crate) fn reference(
        &mut self,
        blocks: &mut Blocks,
        manager: ManagerId,
        process: ProcessId,
        b: BlockId,
    ) -> Met {
        let mut met = Met::default();
        let Some(Some(known)) = self.known.get_mut(manager.0 as usize) else { return met };
        if known.lists.is_empty() {
            return met;
        }
        let matches = &mut self.matches;
        matches.clear();
        if known.lists.len() == 1 && known.readers.stream_of(process.0).is_none() {
            known.readers.assign(process.0, 0);
        }
        known.readers.reference(process.0, reference(blocks, b), |list, r, m| matches.push((list, r, m)));
        for i in 0..self.matches.len() {
            let (list, r, found) = self.matches[i];
            if let Some(l) = self.list_mut(manager, list) {
                l.note_explained(found != Match::Unpredicted);
            }
            match found {
                Match::At(position) => {
                    met.predicted += 1;
                    self.used_up(blocks, manager, list, r.block, position);
                }
                Match::Again => met.predicted += 1,
                Match::Unpredicted => met.unpredicted += 1,
            }
            let was_dormant = self.is_dormant(manager, list);
            met.skipped += self.follow(blocks, manager, list);
            met.put_aside += u32::from(!was_dormant && self.is_dormant(manager, list));
        }
        met
    }

    fn is_dormant(&self, manager: ManagerId, list: usize) -> bool {
        self.list(manager, list).is_some_and(super::List::is_dormant)
    }

    /// Blocks that lost their next use since the last call.
    pub(crate) fn take_unlisted(&mut self) -> Option<BlockId> {
        self.unlisted.pop()
    }

    /// Blocks that were passed over since the last call, and are named once more.
    pub(crate) fn take_passed_by(&mut self) -> Option<BlockId> {
        self.passed_by.pop()
    }

    /// The first position of a block from `from` on that counts.
    pub(super) fn next_counting(&self, manager: ManagerId, list: usize, b: BlockId, mut from: u32) -> u32 {
        let Some(known) = self.of(manager) else { return NONE };
        let Some(stream) = known.readers.stream(list) else { return NONE };
        let counts = known.lists[list].completion.counts();
        // Completed positions that do not count are passed by, a few at most.
        for _ in 0..4 {
            match stream.next_use_from(b, from) {
                Some(p) if !counts && stream.is_completed(p) => from = p + 1,
                found => return found.unwrap_or(NONE),
            }
        }
        NONE
    }

    /// A position was used up: its block is needed at its next one.
    fn used_up(&mut self, blocks: &Blocks, manager: ManagerId, list: usize, b: BlockId, position: u32) {
        let Some(u) = self.find_use(blocks, manager, list, b) else { return };
        let Some(Some(known)) = self.known.get_mut(manager.0 as usize) else { return };
        let (Some(stream), l) = (known.readers.stream(list), &mut known.lists[list]) else { return };
        l.note_match(position);
        if stream.is_completed(position) && l.completion.judge(true) {
            self.rebuild(blocks, manager, list);
            return;
        }
        let first = self.uses[u as usize].first;
        if first != NONE && first > position {
            // An older one, passed over already, or late.
            return;
        }
        let passed = l.passed();
        let next = self.next_counting(manager, list, b, passed);
        self.uses[u as usize].first = next;
        let Some(l) = self.list_mut(manager, list) else { return };
        if first != NONE {
            l.unplace(blocks, b, first);
        }
        if next != NONE {
            l.place(blocks, b, manager, next);
        }
    }

    /// Follows the alignment of a list to where it is now: the cursor moves, positions are passed over, or come back.
    /// Gives how many were passed over.
    fn follow(&mut self, blocks: &Blocks, manager: ManagerId, list: usize) -> u32 {
        let Some(Some(known)) = self.known.get_mut(manager.0 as usize) else { return 0 };
        let Some(stream) = known.readers.stream_mut(list) else { return 0 };
        let mut resumed = false;
        while let Some(moved) = stream.take_moved() {
            resumed |= matches!(moved, Moved::Resumed(_));
        }
        let (cursor, asleep) = (stream.frontier(), stream.is_asleep());
        let l = &mut known.lists[list];
        if l.set_cursor(cursor, asleep) {
            self.unlisted.extend(l.cached_uses().filter_map(|p| stream.block_at(p)));
        }
        if resumed {
            self.rebuild(blocks, manager, list);
            return 0;
        }
        let to = l.late_before();
        if to <= l.passed() { 0 } else { self.pass_over(blocks, manager, list, to) }
    }

    /// Passes over the positions before `to` that were not used up.
    fn pass_over(&mut self, blocks: &Blocks, manager: ManagerId, list: usize, to: u32) -> u32 {
        let Some(l) = self.list_mut(manager, list) else { return 0 };
        let from = l.passed();
        l.set_passed(to);
        let (mut skipped, mut judged) = (0, false);
        for position in from..to {
            let Some(stream) = self.stream(manager, list) else { break };
            let (Some(b), completed, live) =
                (stream.block_at(position), stream.is_completed(position), stream.is_live(position))
            else {
                break;
            };
            if completed && live {
                judged |= self.list_mut(manager, list).is_some_and(|l| l.completion.judge(false));
            }
            let Some(u) = self.find_use(blocks, manager, list, b) else { continue };
            if self.uses[u as usize].first != position {
                continue;
            }
            skipped += 1;
            let next = self.next_counting(manager, list, b, to);
            self.uses[u as usize].first = next;
            let Some(l) = self.list_mut(manager, list) else { break };
            l.unplace(blocks, b, position);
            if next == NONE {
                self.unlisted.push(b);
            } else {
                l.place(blocks, b, manager, next);
                self.passed_by.push(b);
            }
        }
        if judged {
            self.rebuild(blocks, manager, list);
        }
        skipped
    }

    /// The reader is somewhere else in its list: every next use is looked up anew, from the cursor on.
    fn rebuild(&mut self, blocks: &Blocks, manager: ManagerId, list: usize) {
        let Some(Some(mut known)) = self.known.get_mut(manager.0 as usize).map(Option::take) else { return };
        // Not found by the list while that is taken out.
        let number = known.base.wrapping_add(list as u16);
        if let Some(stream) = known.readers.stream(list) {
            let l = &mut known.lists[list];
            l.clear();
            let mut named = Vec::new();
            for position in stream.first()..stream.len() {
                let Some(b) = stream.block_at(position) else { break };
                let Some(u) = self.find_numbered(blocks, manager, number, b) else { continue };
                let first = &mut self.uses[u as usize].first;
                if *first != NONE {
                    named.push(b);
                    *first = NONE;
                }
            }
            let counts = l.completion.counts();
            let live = |&p: &u32| stream.is_live(p) && (counts || !stream.is_completed(p));
            for position in (l.passed()..stream.len()).rev().filter(live) {
                let Some(b) = stream.block_at(position) else { break };
                if let Some(u) = self.find_numbered(blocks, manager, number, b) {
                    self.uses[u as usize].first = position;
                }
            }
            for position in l.passed()..stream.len() {
                let Some(b) = stream.block_at(position) else { break };
                if let Some(u) = self.find_numbered(blocks, manager, number, b)
                    && self.uses[u as usize].first == position
                {
                    l.place(blocks, b, manager, position);
                    // It may be in a pool, as long as nothing named it.
                    self.unlisted.push(b);
                }
            }
            self.unlisted.extend(named);
        }
        self.known[manager.0 as usize] = Some(known);
    }
}
