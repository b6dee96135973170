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
//!
//! Hundreds of thousands may point to one block, which is replaced next. So they do not name it: a placeholder
//! belongs to a *group*, and that names it. To make two groups one, one of them becomes part of the other
//! (union by rank, Tarjan 1975): no decision takes time for the placeholders that it makes point elsewhere. Nor does the end of
//! such a block: most of what pointed to it is dead then, and leaves the tables by and by ([`Placeholders::tidy`]).

use crate::blocks::{BlockId, Blocks};
use crate::ids::ManagerId;
use crate::recency::NONE;

/// Placeholders to one block that are deleted at once, when they mean nothing any more.
const AT_ONCE: usize = 32;

#[derive(Debug, Clone)]
struct Placeholder {
    /// The block that was given up; [`NONE`] if this place is vacant.
    from: BlockId,
    /// The group in which it was made, or one that has become part of it.
    group: u32,
    /// Whose decision it was.
    manager: ManagerId,
    /// Of those that point to the same block, the ones beside it; the first one has the last one before it.
    next: u32,
    prev: u32,
    /// Of all, the ones that were made before and after it.
    older: u32,
    newer: u32,
}

/// Placeholders that point to one block.
#[derive(Debug, Clone)]
struct Group {
    /// The cached block that was kept, [`NONE`] if they are dead; or the group that this one is a part of.
    up: u32,
    is_part: bool,
    /// At most so many steps lead up to it.
    rank: u8,
    /// Placeholders made in it and groups that are parts of it: it is kept while there are any, or it is to be tidied up.
    uses: u32,
    /// Placeholders in it and in its parts.
    size: u32,
    /// The first placeholder; [`NONE`] if it is a part of another one.
    first: u32,
}

/// All placeholders. The record of a block names, if it has a frame, the group of those that point to it, else the
/// placeholder that remembers why it was replaced.
#[derive(Debug)]
pub(crate) struct Placeholders {
    entries: Vec<Placeholder>,
    vacant: Vec<u32>,
    groups: Vec<Group>,
    vacant_groups: Vec<u32>,
    /// Groups whose placeholders are dead and have not been deleted.
    dead: Vec<u32>,
    oldest: u32,
    newest: u32,
    live: u32,
    limit: u32,
}

impl Placeholders {
    pub(crate) fn new(limit: u32) -> Placeholders {
        Placeholders {
            entries: Vec::new(),
            vacant: Vec::new(),
            groups: Vec::new(),
            vacant_groups: Vec::new(),
            dead: Vec::new(),
            oldest: NONE,
            newest: NONE,
            live: 0,
            limit,
        }
    }

    /// Placeholders in use.
    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    /// Gives the memory back if there is none.
    pub(crate) fn release_memory(&mut self) {
        if self.live == 0 && self.dead.is_empty() {
            *self = Placeholders::new(self.limit);
        }
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
        let entry = Placeholder {
            from,
            group: NONE,
            manager,
            next: NONE,
            prev: NONE,
            older: self.newest,
            newer: NONE,
        };
        let id = place(&mut self.entries, &mut self.vacant, entry);
        let group = match self.group_of(blocks, to) {
            Some(group) => {
                let next = std::mem::replace(&mut self.groups[group as usize].first, id);
                let last = std::mem::replace(&mut self.entries[next as usize].prev, id);
                let entry = &mut self.entries[id as usize];
                (entry.next, entry.prev) = (next, last);
                group
            }
            None => {
                let new = Group { up: to, is_part: false, rank: 0, uses: 0, size: 0, first: id };
                self.entries[id as usize].prev = id;
                blocks[to].placeholder = place(&mut self.groups, &mut self.vacant_groups, new);
                blocks[to].placeholder
            }
        };
        self.entries[id as usize].group = group;
        self.groups[group as usize].uses += 1;
        self.groups[group as usize].size += 1;
        match self.newest {
            NONE => self.oldest = id,
            newest => self.entries[newest as usize].newer = id,
        }
        self.newest = id;
        blocks[from].placeholder = id;
        self.live += 1;
    }

    /// Where the placeholder of `from` points and whose decision it was; the placeholder is deleted.
    pub(crate) fn take(&mut self, blocks: &mut Blocks, from: BlockId) -> Option<(BlockId, ManagerId)> {
        let id = self.of(blocks, from)?;
        let entry = &self.entries[id as usize];
        let (to, manager) = (self.groups[self.whole(entry.group) as usize].up, entry.manager);
        self.delete(blocks, id);
        (to != NONE).then_some((to, manager))
    }

    /// Deletes the placeholder of an absent block, if there is one.
    pub(crate) fn delete_of(&mut self, blocks: &mut Blocks, from: BlockId) {
        if let Some(id) = self.of(blocks, from) {
            self.delete(blocks, id);
        }
    }

    /// The placeholder that remembers why a block was replaced, or a dead one.
    fn of(&self, blocks: &Blocks, from: BlockId) -> Option<u32> {
        let id = blocks[from].placeholder;
        (self.entries.get(id as usize)?.from == from).then_some(id)
    }

    /// The group of those that point to a block.
    fn group_of(&self, blocks: &Blocks, to: BlockId) -> Option<u32> {
        let id = blocks[to].placeholder;
        let group = self.groups.get(id as usize)?;
        (group.first != NONE && group.up == to).then_some(id)
    }

    /// The group that a group is a part of by now.
    fn whole(&self, mut group: u32) -> u32 {
        while self.groups[group as usize].is_part {
            group = self.groups[group as usize].up;
        }
        group
    }

    /// Deletes every placeholder that points to `to`, most of many of them by and by.
    pub(crate) fn delete_all_to(&mut self, blocks: &mut Blocks, to: BlockId) {
        for _ in 0..AT_ONCE {
            let Some(group) = self.group_of(blocks, to) else { return };
            self.delete_first(blocks, group);
        }
        if let Some(id) = self.group_of(blocks, to) {
            blocks[to].placeholder = NONE;
            let group = &mut self.groups[id as usize];
            group.up = NONE;
            group.uses += 1;
            self.live -= group.size;
            self.dead.push(id);
        }
    }

    fn delete_first(&mut self, blocks: &mut Blocks, group: u32) {
        let id = self.groups[group as usize].first;
        let from = self.entries[id as usize].from;
        self.delete(blocks, id);
        blocks.forget_if_idle(from);
    }

    /// Are there dead ones?
    pub(crate) fn is_untidy(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Deletes so many dead ones.
    pub(crate) fn tidy(&mut self, blocks: &mut Blocks, most: usize) {
        for _ in 0..most {
            let Some(&group) = self.dead.last() else { return };
            if self.groups[group as usize].first == NONE {
                self.dead.pop();
                self.leave(group);
            } else {
                self.delete_first(blocks, group);
            }
        }
    }

    /// Makes every placeholder that points to `old` point to `new`.
    pub(crate) fn redirect(&mut self, blocks: &mut Blocks, old: BlockId, new: BlockId) {
        let Some(of_old) = self.group_of(blocks, old).filter(|_| old != new) else { return };
        let whole = match self.group_of(blocks, new) {
            Some(of_new) => self.unite(of_old, of_new),
            None => of_old,
        };
        self.groups[whole as usize].up = new;
        blocks[old].placeholder = NONE;
        blocks[new].placeholder = whole;
    }

    /// Makes one of two groups a part of the other one, which is given back. The placeholders of the first come first.
    fn unite(&mut self, one: u32, other: u32) -> u32 {
        let [first, behind] = [one, other].map(|group| self.groups[group as usize].first);
        let [last_of_one, last] = [first, behind].map(|id| self.entries[id as usize].prev);
        self.entries[last_of_one as usize].next = behind;
        self.entries[behind as usize].prev = last_of_one;
        self.entries[first as usize].prev = last;
        let [rank_of_one, rank_of_other] = [one, other].map(|group| self.groups[group as usize].rank);
        let (part, whole) = if rank_of_one > rank_of_other { (other, one) } else { (one, other) };
        let group = &mut self.groups[part as usize];
        (group.up, group.is_part, group.first) = (whole, true, NONE);
        let size = group.size;
        let group = &mut self.groups[whole as usize];
        group.first = first;
        group.uses += 1;
        group.size += size;
        group.rank += u8::from(rank_of_one == rank_of_other);
        whole
    }

    fn forget_oldest(&mut self, blocks: &mut Blocks) {
        let live = self.live;
        while self.live == live
            && let Some(entry) = self.entries.get(self.oldest as usize)
        {
            let from = entry.from;
            self.delete(blocks, self.oldest);
            blocks.forget_if_idle(from);
        }
    }

    fn delete(&mut self, blocks: &mut Blocks, id: u32) {
        let Placeholder { from, group, next, prev, older, newer, .. } = self.entries[id as usize];
        blocks[from].placeholder = NONE;
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        let whole = self.whole(group);
        let Group { first, up, .. } = self.groups[whole as usize];
        self.groups[whole as usize].size -= 1;
        if first == id {
            self.groups[whole as usize].first = next;
            if next == NONE && up != NONE {
                blocks[up].placeholder = NONE;
            }
        } else {
            self.entries[prev as usize].next = next;
        }
        match next {
            // The last one, which the first one knows.
            NONE if first != id => self.entries[first as usize].prev = prev,
            NONE => {}
            next => self.entries[next as usize].prev = prev,
        }
        self.entries[id as usize].from = NONE;
        self.vacant.push(id);
        self.live -= u32::from(up != NONE);
        self.leave(group);
    }

    /// A use of a group is over: with the last one it goes, and so a use of the one that it is a part of is over.
    fn leave(&mut self, mut id: u32) {
        loop {
            let group = &mut self.groups[id as usize];
            group.uses -= 1;
            if group.uses > 0 {
                return;
            }
            self.vacant_groups.push(id);
            if !group.is_part {
                return;
            }
            id = group.up;
        }
    }
}

/// Puts something into a vacant place of a table, or at its end; gives the place.
fn place<T>(table: &mut Vec<T>, vacant: &mut Vec<u32>, what: T) -> u32 {
    match vacant.pop() {
        Some(id) => {
            table[id as usize] = what;
            id
        }
        None => {
            table.push(what);
            table.len() as u32 - 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Block;
    use crate::layout::Layout;
    use proptest::prelude::*;

    const MANAGER: ManagerId = ManagerId(3);

    /// Blocks without anything, all of which something speaks of: they stay.
    fn blocks(count: u32) -> (Blocks, Vec<BlockId>) {
        let mut blocks = Blocks::new(1);
        let file = blocks.add_file(Layout::Unknown);
        let ids = (0..count).map(|index| {
            let id = blocks.find_or_add(Block::new(file, index)).unwrap();
            blocks[id].first_use = 0;
            id
        });
        let ids = ids.collect();
        (blocks, ids)
    }

    #[test]
    fn what_points_to_a_block_that_is_replaced_again_and_again_takes_no_time_for_each() {
        const COUNT: u32 = 1 << 17;
        let (mut blocks, ids) = blocks(2 * COUNT);
        let mut placeholders = Placeholders::new(COUNT);
        let (given_up, kept) = ids.split_at(COUNT as usize);
        // All point to one; then it is replaced, and the one to which they point then, and so on. Were each looked at,
        // this would take 2^34 steps: an hour.
        given_up.iter().for_each(|&from| placeholders.add(&mut blocks, from, kept[0], MANAGER));
        for pair in kept.windows(2) {
            placeholders.redirect(&mut blocks, pair[0], pair[1]);
        }
        let last = kept[kept.len() - 1];
        assert_eq!(placeholders.take(&mut blocks, given_up[5]), Some((last, MANAGER)));
        placeholders.delete_all_to(&mut blocks, last);
        assert_eq!(placeholders.len(), 0);
        let left = placeholders.entries.len() - placeholders.vacant.len();
        assert_eq!(left, COUNT as usize - 1 - AT_ONCE, "no more were deleted at once");
        // A dead one proves nothing, nor does it count.
        assert_eq!(placeholders.take(&mut blocks, given_up[9]), None);
        placeholders.add(&mut blocks, given_up[10], kept[0], MANAGER);
        assert_eq!(placeholders.take(&mut blocks, given_up[10]), Some((kept[0], MANAGER)));
        placeholders.tidy(&mut blocks, 100);
        assert_eq!(placeholders.entries.len() - placeholders.vacant.len(), left - 2 - 100);
        assert!(placeholders.is_untidy());
        placeholders.tidy(&mut blocks, COUNT as usize);
        assert!(!placeholders.is_untidy());
        assert!(ids.iter().all(|&id| blocks[id].placeholder == NONE));
        assert_eq!(placeholders.vacant_groups.len(), placeholders.groups.len());
        placeholders.release_memory();
        assert_eq!((placeholders.entries.capacity(), placeholders.groups.capacity()), (0, 0));
    }

    #[test]
    fn beyond_the_limit_the_oldest_is_forgotten_also_when_many_have_gone_in_between() {
        let (mut blocks, ids) = blocks(100);
        let mut placeholders = Placeholders::new(3);
        for &from in &ids[..50] {
            placeholders.add(&mut blocks, from, ids[99], MANAGER);
        }
        assert_eq!(placeholders.len(), 3);
        placeholders.delete_of(&mut blocks, ids[48]);
        placeholders.add(&mut blocks, ids[60], ids[98], MANAGER);
        placeholders.add(&mut blocks, ids[61], ids[98], MANAGER);
        let left: Vec<usize> = (0..100).filter(|&at| placeholders.of(&blocks, ids[at]).is_some()).collect();
        assert_eq!(left, [49, 60, 61], "47 was the oldest");
        assert_eq!(placeholders.entries.len(), 3, "places are used again");
    }

    #[derive(Debug, Clone)]
    enum Op {
        Add(usize, usize),
        Take(usize),
        DeleteAllTo(usize),
        Redirect(usize, usize),
        Tidy(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            8 => (0..240usize, 240..244usize).prop_map(|(from, to)| Op::Add(from, to)),
            2 => (0..240usize).prop_map(Op::Take),
            1 => (240..244usize).prop_map(Op::DeleteAllTo),
            1 => (0..64usize).prop_map(Op::Tidy),
            2 => (240..244usize, 240..244usize).prop_map(|(old, new)| Op::Redirect(old, new)),
        ]
    }

    proptest! {
        /// Against a plain list of who points where, the oldest first.
        #[test]
        fn each_points_where_a_plain_list_says(ops in prop::collection::vec(op(), 0..500), limit in 1_u32..200) {
            let (mut blocks, ids) = blocks(244);
            let mut placeholders = Placeholders::new(limit);
            let mut plain: Vec<(usize, usize)> = Vec::new();
            for op in ops {
                match op {
                    Op::Add(from, to) => {
                        placeholders.add(&mut blocks, ids[from], ids[to], MANAGER);
                        plain.retain(|(known, _)| *known != from);
                        if plain.len() == limit as usize {
                            plain.remove(0);
                        }
                        plain.push((from, to));
                    }
                    Op::Take(from) => {
                        let taken = placeholders.take(&mut blocks, ids[from]);
                        let known = plain.iter().position(|(known, _)| *known == from);
                        let known = known.map(|at| (ids[plain.remove(at).1], MANAGER));
                        prop_assert_eq!(taken, known);
                    }
                    Op::DeleteAllTo(to) => {
                        placeholders.delete_all_to(&mut blocks, ids[to]);
                        plain.retain(|(_, known)| *known != to);
                    }
                    Op::Tidy(most) => placeholders.tidy(&mut blocks, most),
                    Op::Redirect(old, new) => {
                        placeholders.redirect(&mut blocks, ids[old], ids[new]);
                        plain.iter_mut().filter(|(_, to)| *to == old).for_each(|(_, to)| *to = new);
                    }
                }
                prop_assert_eq!(placeholders.len() as usize, plain.len());
                let entries = placeholders.entries.len() - placeholders.vacant.len();
                let groups = placeholders.groups.len() - placeholders.vacant_groups.len();
                prop_assert!(groups <= 2 * entries + placeholders.dead.len(), "{} groups for {}", groups, entries);
            }
            for (from, to) in plain {
                prop_assert_eq!(placeholders.take(&mut blocks, ids[from]), Some((ids[to], MANAGER)));
            }
            placeholders.tidy(&mut blocks, 10_000);
            prop_assert_eq!(placeholders.vacant_groups.len(), placeholders.groups.len());
            prop_assert_eq!(placeholders.vacant.len(), placeholders.entries.len());
        }
    }
}
