//! One-block look-ahead: if blocks k and k + 1 of a file have been referenced, fetch block k + 2
//! (Cao et al. 1996, section 1; most file systems of the time).

use super::Trigger;
use crate::blocks::{Mark, State};
use crate::engine::Engine;
use crate::ids::{Block, ManagerId, Nanos};

impl Engine {
    pub(super) fn plan_one_block(&mut self, now: Nanos, manager: ManagerId, trigger: Trigger) {
        let Trigger::Reference(block) = trigger else { return };
        let (Some(before), Some(after)) = (block.index.checked_sub(1), block.index.checked_add(1)) else {
            return;
        };
        let sequential = self.blocks.find(Block::new(block.file, before)).is_some_and(|b| {
            let record = &self.blocks[b];
            record.state == State::Cached && record.is(Mark::Referenced)
        });
        let next = Block::new(block.file, after);
        if !sequential || !self.blocks.exists(next) {
            return;
        }
        if let Some(b) = self.blocks.find_or_add(next) {
            if self.blocks[b].state == State::Absent && !self.blocks[b].is(Mark::Unfetchable) {
                self.prefetch(now, manager, b);
            }
            self.blocks.forget_if_idle(b);
        }
    }
}
