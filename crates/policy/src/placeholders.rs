//! Placeholders: what a manager's choice to overrule cost, remembered until it is known.
//!
//! When a manager gives up C instead of the candidate A, a placeholder for C points to A. If C is missed
//! while A has not been referenced, the choice was wrong, and A becomes the candidate: the manager pays
//! with its own block. The rules of bookkeeping (Cao et al. 1996, section 3.2):
//!
//! - a hit on A deletes every placeholder to A (A was needed first: the choice was right);
//! - when C is replaced while A is the candidate, placeholders to C now point to A;
//! - when A itself is replaced or vanishes, placeholders to it mean nothing any more and are deleted.
//!
//! The table is bounded; for one more, the oldest placeholder is forgotten, so that one old decision
//! can no longer be proved wrong.

use std::collections::VecDeque;

use crate::blocks::{BlockId, Blocks};
use crate::ids::ManagerId;
use crate::recency::NONE;

#[derive(Debug, Clone)]
struct Placeholder {
    /// The block that was given up.
    from: BlockId,
    /// The cached block that was kept instead.
    to: BlockId,
    /// Whose decision it was.
    manager: ManagerId,
    next: u32,
    prev: u32,
    /// Tells this use of the entry from an earlier one.
    number: u32,
}

/// All placeholders.
#[derive(Debug)]
pub(crate) struct Placeholders {
    entries: Vec<Placeholder>,
    vacant: Vec<u32>,
    /// Oldest first; an entry that was deleted since is told by its number.
    by_age: VecDeque<(u32, u32)>,
    live: u32,
    limit: u32,
    next_number: u32,
}

impl Placeholders {
    pub(crate) fn new(limit: u32) -> Placeholders {
        Placeholders {
            entries: Vec::new(),
            vacant: Vec::new(),
            by_age: VecDeque::new(),
            live: 0,
            limit,
            next_number: 0,
        }
    }

    /// Placeholders in use.
    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    /// Remembers that `manager` gave up `from` instead of `to`.
    pub(crate) fn add(&mut self, blocks: &mut Blocks, from: BlockId, to: BlockId, manager: ManagerId) {
        if self.limit == 0 {
            return;
        }
        self.delete_of(blocks, from);
        if self.live == self.limit {
            self.forget_oldest(blocks);
        }
        let next = blocks[to].placeholder;
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        let entry = Placeholder { from, to, manager, next, prev: NONE, number };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        if next != NONE {
            self.entries[next as usize].prev = id;
        }
        blocks[to].placeholder = id;
        blocks[from].placeholder = id;
        self.live += 1;
        self.by_age.push_back((id, number));
        if self.by_age.len() > 2 * self.live as usize + 16 {
            let entries = &self.entries;
            self.by_age.retain(|&(id, number)| {
                let e = &entries[id as usize];
                e.number == number && e.from != NONE
            });
        }
    }

    /// Where the placeholder of `from` points and whose decision it was; the placeholder is deleted.
    pub(crate) fn take(&mut self, blocks: &mut Blocks, from: BlockId) -> Option<(BlockId, ManagerId)> {
        let id = self.of(blocks, from)?;
        let entry = &self.entries[id as usize];
        let found = (entry.to, entry.manager);
        self.delete(blocks, id);
        Some(found)
    }

    /// Deletes the placeholder of an absent block, if there is one.
    pub(crate) fn delete_of(&mut self, blocks: &mut Blocks, from: BlockId) {
        if let Some(id) = self.of(blocks, from) {
            self.delete(blocks, id);
        }
    }

    /// The placeholder that remembers why a block was replaced.
    fn of(&self, blocks: &Blocks, from: BlockId) -> Option<u32> {
        let id = blocks[from].placeholder;
        (id != NONE && self.entries[id as usize].from == from).then_some(id)
    }

    /// The first of those that point to a block.
    fn first_to(&self, blocks: &Blocks, to: BlockId) -> Option<u32> {
        let id = blocks[to].placeholder;
        (id != NONE && self.entries[id as usize].to == to).then_some(id)
    }

    /// Deletes every placeholder that points to `to`.
    pub(crate) fn delete_all_to(&mut self, blocks: &mut Blocks, to: BlockId) {
        while let Some(id) = self.first_to(blocks, to) {
            let from = self.entries[id as usize].from;
            self.delete(blocks, id);
            blocks.forget_if_idle(from);
        }
    }

    /// Makes every placeholder that points to `old` point to `new`.
    pub(crate) fn redirect(&mut self, blocks: &mut Blocks, old: BlockId, new: BlockId) {
        let Some(first) = self.first_to(blocks, old).filter(|_| old != new) else { return };
        let mut last = first;
        loop {
            let entry = &mut self.entries[last as usize];
            entry.to = new;
            if entry.next == NONE {
                break;
            }
            last = entry.next;
        }
        let after = blocks[new].placeholder;
        self.entries[last as usize].next = after;
        if after != NONE {
            self.entries[after as usize].prev = last;
        }
        blocks[new].placeholder = first;
        blocks[old].placeholder = NONE;
    }

    fn forget_oldest(&mut self, blocks: &mut Blocks) {
        while let Some((id, number)) = self.by_age.pop_front() {
            let entry = &self.entries[id as usize];
            if entry.number == number && entry.from != NONE {
                let from = entry.from;
                self.delete(blocks, id);
                blocks.forget_if_idle(from);
                return;
            }
        }
    }

    fn delete(&mut self, blocks: &mut Blocks, id: u32) {
        let Placeholder { from, to, next, prev, .. } = self.entries[id as usize];
        blocks[from].placeholder = NONE;
        match prev {
            NONE => blocks[to].placeholder = next,
            prev => self.entries[prev as usize].next = next,
        }
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        self.entries[id as usize].from = NONE;
        self.vacant.push(id);
        self.live -= 1;
    }
}
