//! One-block look-ahead: if blocks k and k + 1 of a file have been referenced, fetch block k + 2
//! (Cao et al. 1996, section 1; most file systems of the time).

use super::{Occasion, Planner};
use crate::books::Desk;
use crate::config::Config;
use crate::ids::{Block, ManagerId};

#[derive(Debug)]
pub(super) struct OneBlock;

impl OneBlock {
    pub(super) fn new(_: &Config) -> OneBlock {
        OneBlock
    }
}

impl Planner for OneBlock {
    fn plan(&mut self, desk: &mut Desk<'_>, manager: ManagerId, occasion: Occasion) {
        let Occasion::Reference(block) = occasion else { return };
        let (Some(before), Some(after)) = (block.index.checked_sub(1), block.index.checked_add(1)) else {
            return;
        };
        if !desk.was_referenced(Block::new(block.file, before)) {
            return;
        }
        if let Some(b) = desk.find_or_add(Block::new(block.file, after)) {
            if desk.is_fetchable(b) {
                desk.prefetch(manager, b);
            }
            desk.forget_if_idle(b);
        }
    }
}
