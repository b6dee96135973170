//! Parts that wait to be asked for, and the requests that they become.
//!
//! What somebody waits for stands in the first queue and goes at once; what is fetched ahead goes as far as
//! [`crate::flow::Flow`] has room; what is on the disk stands in a third one. A request is for the first part of a queue and
//! the neighbours of it that stand in either of the first two. A part that somebody comes to wait for moves to the first
//! queue; what is left of it in the other one is passed over.

use std::collections::VecDeque;
use std::sync::Arc;

use foretell_policy::{Block, Input, Nanos, Reason};

use super::{STALE, State};
use crate::object::{Part, Run, Stage};

impl State {
    pub(super) fn queue(&mut self, now: Nanos, block: Block, reason: Reason) {
        let is_kept = self.is_kept(block);
        let Some(open) = self.object_mut(block.file) else { return };
        let new = || Part::Pending { pending: Arc::default(), stage: Stage::Awaited, waited_for: false };
        let Part::Pending { stage, waited_for, .. } = open.parts.entry(block.index).or_insert_with(new)
        else {
            return;
        };
        if *stage == Stage::Frameless {
            self.engine.tell(now, Input::FetchFailed { block });
            return;
        }
        if is_kept {
            *waited_for |= reason == Reason::Demand;
            *stage = Stage::Kept;
            self.from_disk.push_back(block);
        } else if *waited_for || reason == Reason::Demand {
            *stage = Stage::Demanded;
            self.demanded.push_back(block);
        } else {
            *stage = Stage::Ahead;
            self.ahead.push_back(block);
        }
    }

    pub(super) fn stage(&self, block: Block) -> Option<Stage> {
        let open = self.objects.get(block.file.0 as usize)?.as_ref()?;
        match open.parts.get(&block.index)? {
            Part::Pending { stage, .. } => Some(*stage),
            Part::Ready { .. } => None,
        }
    }

    fn drop_stale(&mut self) {
        for (queued, mut queue) in [
            (Stage::Demanded, std::mem::take(&mut self.demanded)),
            (Stage::Ahead, std::mem::take(&mut self.ahead)),
            (Stage::Kept, std::mem::take(&mut self.from_disk)),
        ] {
            queue.retain(|&block| self.stage(block) == Some(queued));
            match queued {
                Stage::Demanded => self.demanded = queue,
                Stage::Kept => self.from_disk = queue,
                _ => self.ahead = queue,
            }
        }
    }

    /// The first part of a queue whose turn it is.
    pub(super) fn next_queued(&mut self) -> Option<Block> {
        if self.flow.under_way() < self.flow.most() {
            while let Some(block) = self.demanded.pop_front() {
                if self.stage(block) == Some(Stage::Demanded) {
                    return Some(block);
                }
            }
        }
        if self.flow.under_way() < self.flow.requests() {
            while let Some(block) = self.ahead.pop_front() {
                if self.stage(block) == Some(Stage::Ahead) {
                    return Some(block);
                }
            }
        }
        None
    }

    pub(super) fn run_from(&mut self, now: Nanos, block: Block) -> Option<Run> {
        let (most, part_bytes) = (self.request_parts, u64::from(self.part_bytes));
        let open = self.object_mut(block.file)?;
        // Back no further than what is waited for as well: the part itself would come late.
        let waited =
            |index: &u32| matches!(open.parts.get(index), Some(Part::Pending { stage: Stage::Demanded, .. }));
        let before = (0..block.index).rev().take(most - 1).take_while(waited).count();
        let first = block.index - before as u32;
        let start = u64::from(first) * part_bytes;
        if open.begun.as_ref().is_some_and(|begun| begun.is_old()) {
            open.begun = None;
        }
        // As much of it as comes by an answer that has begun.
        let left = open.fixed.stamp.length.saturating_sub(start);
        let coming = match open.begun.as_ref().map_or(0, |begun| begun.has_from(start)) {
            all if all >= left => most,
            some => (some / part_bytes) as usize,
        };
        let begun = if coming > 0 { open.begun.take() } else { None };
        let most = if coming > 0 { most.min(coming) } else { most };
        let mut pending_parts = VecDeque::new();
        for index in (first..).take(most) {
            let Some(Part::Pending { pending, stage, .. }) = open.parts.get_mut(&index) else { break };
            if !matches!(stage, Stage::Demanded | Stage::Ahead) {
                break;
            }
            *stage = Stage::UnderWay;
            pending_parts.push_back(pending.clone());
        }
        let fixed = open.fixed.clone();
        let parts = pending_parts.len();
        let whole = parts as u64 * part_bytes >= fixed.stamp.length;
        let asked = start..(start + parts as u64 * part_bytes).min(fixed.stamp.length);
        // Of all of it by one answer its store sends the checksum.
        let pieces = open.running.as_ref().filter(|_| !whole).map(|running| running.begin(asked));
        // It is behind what comes by that answer, and asked for next.
        if block.index >= first + parts as u32 {
            match self.stage(block) {
                Some(Stage::Ahead) => self.ahead.push_front(block),
                _ => self.demanded.push_front(block),
            }
        }
        let ticket = self.flow.begin(now.0, parts, whole);
        self.counts.requests += 1;
        let number = self.counts.requests;
        Some(Run {
            number,
            fixed,
            file: block.file,
            first,
            parts,
            pending: pending_parts,
            ticket,
            pieces,
            is_begun: begun.is_some(),
            begun,
        })
    }

    /// Forgets entries that say nothing any more, once there are too many.
    pub(super) fn bound_queues(&mut self) {
        let most = self.engine.config().cache_blocks as usize + STALE;
        if [&self.ahead, &self.demanded, &self.from_disk].iter().any(|queue| queue.len() > most) {
            self.drop_stale();
        }
    }
}
