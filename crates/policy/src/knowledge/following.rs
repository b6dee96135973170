//! Following the references through the lists: positions are used up, passed over, or come back after a jump.

use std::ops::Range;

use super::{Knowledge, Known, Met, find_use, list_of, reference};
use crate::alignment::Match;
use crate::blocks::{BlockId, Blocks};
use crate::ids::{ManagerId, ProcessId};
use crate::recency::NONE;

impl Knowledge {
    /// Matches a reference of a manager's process. Blocks that lost their next use by it wait in
    /// [`Knowledge::take_unlisted`].
    #[inline]
    pub(crate) fn reference(
        &mut self,
        blocks: &Blocks,
        manager: ManagerId,
        process: ProcessId,
        b: BlockId,
    ) -> Met {
        let Some(Some(known)) = self.known.get_mut(manager.0 as usize) else { return Met::default() };
        if known.lists.is_empty() {
            return Met::default();
        }
        let Some(list) = known.readers.on(process.0) else {
            return self.reference_of_unknown(blocks, manager, process, b);
        };
        if let Some(stream) = known.readers.stream_mut(list)
            && let Some(l) = known.lists.get_mut(list)
            && stream.passes_by(blocks[b].block.file.0)
        {
            l.note_explained(false);
            // As a rule it changes nothing of a list that it is not explained by it.
            if !stream.is_moved() && l.is_as_it_was(stream.frontier(), stream.is_asleep()) {
                return Met { unpredicted: u32::from(!known.is_at_end()), ..Met::default() };
            }
            return self.met_unless_ended(blocks, manager, list, b, Match::Unpredicted);
        }
        self.reference_on(blocks, manager, list, b)
    }

    /// The same of a reader on a list that names the file.
    fn reference_on(&mut self, blocks: &Blocks, manager: ManagerId, list: usize, b: BlockId) -> Met {
        let Some((_, stream, l)) = list_of(&mut self.known, manager, list) else { return Met::default() };
        let found = stream.reference(reference(blocks, b));
        l.note_explained(found != Match::Unpredicted);
        if found == Match::Unpredicted
            && !stream.is_moved()
            && l.is_as_it_was(stream.frontier(), stream.is_asleep())
        {
            let ended = self.of(manager).is_none_or(Known::is_at_end);
            return Met { unpredicted: u32::from(!ended), ..Met::default() };
        }
        self.met_unless_ended(blocks, manager, list, b, found)
    }

    /// What comes after the end of the lists was not predicted, and not missed either.
    fn met_unless_ended(
        &mut self,
        blocks: &Blocks,
        manager: ManagerId,
        list: usize,
        b: BlockId,
        found: Match,
    ) -> Met {
        let ended = self.of(manager).is_none_or(Known::is_at_end);
        let met = self.met(blocks, manager, list, b, found);
        if ended { Met { unpredicted: 0, ..met } } else { met }
    }

    /// The same of a reader that is on no list yet.
    fn reference_of_unknown(
        &mut self,
        blocks: &Blocks,
        manager: ManagerId,
        process: ProcessId,
        b: BlockId,
    ) -> Met {
        let Some(Some(known)) = self.known.get_mut(manager.0 as usize) else { return Met::default() };
        if known.lists.len() == 1 && known.readers.assign(process.0, 0) {
            return self.reference(blocks, manager, process, b);
        }
        let (r, ended) = (reference(blocks, b), known.is_at_end());
        let mut matches = std::mem::take(&mut self.matches);
        known.readers.reference(process.0, r, |list, r, found| matches.push((list, r.block, found)));
        self.is_behind = true;
        let mut all = Met::default();
        for (list, b, found) in matches.drain(..) {
            if let Some(l) = self.list_mut(manager, list) {
                l.note_explained(found != Match::Unpredicted);
            }
            let met = self.met(blocks, manager, list, b, found);
            all.predicted += met.predicted;
            all.unpredicted += if ended { 0 } else { met.unpredicted };
            all.skipped += met.skipped;
            all.put_aside += met.put_aside;
        }
        (self.matches, self.is_behind) = (matches, false);
        all
    }

    /// A reference to `b` was matched in a list.
    #[inline]
    fn met(&mut self, blocks: &Blocks, manager: ManagerId, list: usize, b: BlockId, found: Match) -> Met {
        let Some((number, stream, l)) = list_of(&mut self.known, manager, list) else {
            return Met::default();
        };
        let explained = found != Match::Unpredicted;
        let was_dormant = l.is_dormant();
        let mut rebuilds = false;
        if let Match::At(position) = found
            && let Some(u) = find_use(&self.uses, blocks, manager, number, b)
        {
            l.note_match(position);
            rebuilds = stream.is_completed(position) && l.completion.judge(true);
            let first = &mut self.uses[u as usize].first;
            // Else it is an older one, passed over already, or late.
            if !rebuilds && (*first == NONE || *first <= position) {
                let is_only_one = stream.is_only_one(position, l.passed());
                let next = if is_only_one { NONE } else { l.next_counting(stream, b, l.passed()) };
                let first = std::mem::replace(first, next);
                l.replace(blocks, b, manager, first, next);
            }
        }
        if rebuilds {
            self.rebuild(blocks, manager, list);
        }
        // The cursor follows; positions are passed over, or come back.
        let Some((_, stream, l)) = list_of(&mut self.known, manager, list) else { return Met::default() };
        let resumed = stream.take_resumed();
        if l.set_cursor(stream.frontier(), stream.is_asleep()) {
            self.unlisted.extend(l.cached_uses().filter_map(|p| stream.block_at(p)));
        }
        let mut met = Met {
            predicted: u32::from(explained),
            unpredicted: u32::from(!explained),
            skipped: 0,
            put_aside: u32::from(!was_dormant && l.is_dormant()),
        };
        let (from, to) = (l.passed(), l.late_before());
        if resumed {
            self.rebuild(blocks, manager, list);
        } else if to > from {
            l.set_passed(to);
            // What was used up is no block's next use.
            if self.is_behind || stream.first_unused(from..to).is_some() {
                met.skipped = self.pass_over(blocks, manager, list, from..to);
            }
        }
        met
    }

    /// Blocks that lost their next use since the last call.
    pub(crate) fn take_unlisted(&mut self) -> Option<BlockId> {
        self.unlisted.pop()
    }

    /// Blocks that were passed over since the last call, and are named once more.
    pub(crate) fn take_passed_by(&mut self) -> Option<BlockId> {
        self.passed_by.pop()
    }

    /// Passes over the positions of a range that were not used up. Gives how many were passed over.
    fn pass_over(&mut self, blocks: &Blocks, manager: ManagerId, list: usize, range: Range<u32>) -> u32 {
        let (mut skipped, mut judged) = (0, false);
        let mut left = range.clone();
        while let Some(stream) = self.stream(manager, list)
            && let Some(position) =
                if self.is_behind { left.clone().next() } else { stream.first_unused(left.clone()) }
            && let Some(b) = stream.block_at(position)
        {
            left.start = position + 1;
            let (completed, live) = (stream.is_completed(position), stream.is_live(position));
            if completed && live {
                judged |= self.list_mut(manager, list).is_some_and(|l| l.completion.judge(false));
            }
            let Some(u) = self.find_use(blocks, manager, list, b) else { continue };
            if self.uses[u as usize].first != position {
                continue;
            }
            skipped += 1;
            let Some((_, stream, l)) = list_of(&mut self.known, manager, list) else { break };
            let next = l.next_counting(stream, b, range.end);
            self.uses[u as usize].first = next;
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
