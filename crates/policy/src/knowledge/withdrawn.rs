//! Withdrawing lists: at once for all who ask, by and by in the tables.
//!
//! A list that is withdrawn says nothing of any block from that moment on: its uses bear a number that no list has any
//! more. What it has in the tables is as long as the list is, so it is taken out a part at a time. Short lists are
//! taken out at once.

use std::collections::VecDeque;

use super::{Knowledge, Known};
use crate::blocks::{BlockId, Blocks};
use crate::ids::ManagerId;
use crate::recency::NONE;

/// Positions that are taken out at once: a tenth of a millisecond.
const AT_ONCE: usize = 1024;

/// Withdrawals of one manager's that are under way; what there are more is taken out at once.
const OF_A_MANAGER: usize = 64;

/// The lists of a manager, withdrawn, and how far they have been taken out.
#[derive(Debug)]
struct Leaving {
    manager: ManagerId,
    known: Box<Known>,
    list: usize,
    position: u32,
}

/// Lists that are being taken out, the first one first.
#[derive(Debug, Default)]
pub(super) struct Withdrawn {
    leaving: VecDeque<Leaving>,
    positions: usize,
}

impl Knowledge {
    /// Withdraws a manager's lists; gives blocks that they still named, in ascending order of next use: all of them,
    /// or the first, and [`Knowledge::take_out`] gives the others.
    pub(crate) fn withdraw(&mut self, blocks: &mut Blocks, manager: ManagerId) -> Vec<BlockId> {
        let Some(mut known) = self.known.get_mut(manager.0 as usize).and_then(Option::take) else {
            return Vec::new();
        };
        for l in &mut known.lists {
            self.waiting -= u64::from(std::mem::take(&mut l.waiting).len());
        }
        self.bases[manager.0 as usize] = known.base.wrapping_add(known.lists.len() as u16);
        self.withdrawn.positions += positions(&known);
        self.withdrawn.leaving.push_back(Leaving { manager, known, list: 0, position: 0 });
        let of_manager = self.withdrawn.leaving.iter().filter(|leaving| leaving.manager == manager).count();
        let most = if of_manager > OF_A_MANAGER { usize::MAX } else { AT_ONCE };
        self.take_out(blocks, most).into_iter().flat_map(|(_, named)| named).collect()
    }

    /// Is something of withdrawn lists still in the tables?
    #[inline]
    pub(crate) fn is_withdrawing(&self) -> bool {
        !self.withdrawn.leaving.is_empty()
    }

    /// Is something of this manager's?
    pub(crate) fn is_withdrawing_of(&self, manager: ManagerId) -> bool {
        self.withdrawn.leaving.iter().any(|leaving| leaving.manager == manager)
    }

    /// Positions of withdrawn lists that are still in the tables.
    pub(crate) fn withdrawn_positions(&self) -> usize {
        self.withdrawn.positions
    }

    /// Takes some positions out of the tables; gives the blocks that they still named, in ascending order of next use,
    /// and whose list it was.
    pub(crate) fn take_out(&mut self, blocks: &mut Blocks, most: usize) -> Vec<(ManagerId, Vec<BlockId>)> {
        let mut all = Vec::new();
        let mut left = most;
        while left > 0
            && let Some(mut leaving) = self.withdrawn.leaving.pop_front()
        {
            let mut named = Vec::new();
            let taken = self.take_part(blocks, &mut leaving, left, &mut named);
            left -= taken;
            self.withdrawn.positions -= taken;
            named.sort_unstable();
            all.push((leaving.manager, named.into_iter().map(|(_, b)| b).collect()));
            if leaving.list < leaving.known.lists.len() {
                self.withdrawn.leaving.push_front(leaving);
            }
        }
        all
    }

    fn take_part(
        &mut self,
        blocks: &mut Blocks,
        leaving: &mut Leaving,
        most: usize,
        named: &mut Vec<(u32, BlockId)>,
    ) -> usize {
        let mut taken = 0;
        while leaving.list < leaving.known.lists.len() {
            let number = leaving.known.base.wrapping_add(leaving.list as u16);
            let Some(stream) = leaving.known.readers.stream(leaving.list) else {
                leaving.list += 1;
                continue;
            };
            leaving.position = leaving.position.max(stream.first());
            while leaving.position < stream.len() {
                if taken == most {
                    return taken;
                }
                taken += 1;
                leaving.position += 1;
                let Some(b) = stream.block_at(leaving.position - 1) else { continue };
                // The first position of a block in the list gives its use back; the others find none.
                let Some(u) = self.find_numbered(blocks, leaving.manager, number, b) else { continue };
                if self.uses[u as usize].first != NONE {
                    named.push((self.uses[u as usize].first, b));
                }
                self.unlink(blocks, b, u);
                blocks.forget_if_idle(b);
            }
            (leaving.list, leaving.position) = (leaving.list + 1, 0);
        }
        taken
    }
}

fn positions(known: &Known) -> usize {
    let streams = (0..known.lists.len()).filter_map(|list| known.readers.stream(list));
    streams.map(|stream| (stream.len() - stream.first()) as usize).sum()
}
