//! Disclosure: ordered lists of future references, and where their processes are in them.
//!
//! A list is a sequence of positions, each naming a block. The *cursor* is the position that is
//! expected next. For every block that is named at or after the cursor, its *next use* is the first
//! such position; it is kept in one of the list's sets of positions:
//!
//! - `cached`: next uses of cached blocks that the list's manager owns. The last member is the block
//!   whose next reference is furthest in the future: the optimal replacement (rule 2).
//! - `missing`, one set a disk: next uses of absent blocks. The first member is the *next hole*: the
//!   block to fetch next (rule 1).
//!
//! Blocks on their way are in neither. "Do no harm" (rule 3) compares the two: a fetch of hole h may
//! replace a block only if that block's next use is after h.
//!
//! References are matched against the list with a small look-ahead: a reference matches if its block's
//! next use is at most `match_ahead` positions after the cursor; the positions passed over are taken as
//! having happened, and what they would have used is flushed unless it is named again later. A
//! reference to the block just passed (a second read of the same block) matches too. Everything else is
//! unpredicted; a list that misses too many references is discarded. (Cao et al. 1996, sections 2.1.3
//! and 4.3.)
//!
//! A plane that misses references finds its place again by *resynchronisation*: when several unpredicted
//! references in a row follow each other further down the list, the cursor moves there.
//!
//! Positions count from the beginning of the list and are 32 bits wide: one list may name 4 G
//! references in its life.

pub(crate) mod distrust;
pub(crate) mod positions;

use crate::blocks::{BlockId, Blocks, Mark, State};
use crate::ids::{Block, DiskId, ManagerId};
use crate::recency::NONE;
use distrust::Trust;
use positions::PositionSet;

/// Entries passed before the storage in front of the cursor is given back.
const TRIM_ENTRIES: u32 = 1 << 16;

/// One position of a list.
#[derive(Debug, Clone, Copy)]
struct Entry {
    use_id: u32,
    /// The position that names the same block next, or `NONE`.
    next: u32,
}

/// What a list says of one block.
#[derive(Debug, Clone, Copy)]
struct Use {
    block: BlockId,
    manager: u32,
    /// Its next use: the first position at or after the cursor that names it.
    first: u32,
    /// The last position that names it.
    last: u32,
    /// The next list's use of the same block, or `NONE`.
    other: u32,
}

/// One manager's list.
#[derive(Debug)]
pub(crate) struct List {
    entries: Vec<Entry>,
    /// Position of the first entry kept.
    base: u32,
    cursor: u32,
    /// The block at the position passed last.
    passed: Option<Block>,
    /// Where unpredicted references seem to be: the position that would continue them, and how many have
    /// followed each other so far.
    astray: (u32, u32),
    cached: PositionSet,
    missing: Vec<PositionSet>,
    /// How often the missing blocks of each disk have changed.
    changes: Vec<u32>,
    pub(crate) trust: Trust,
}

impl List {
    fn new(disks: u16) -> List {
        List {
            entries: Vec::new(),
            base: 0,
            cursor: 0,
            passed: None,
            astray: (NONE, 0),
            cached: PositionSet::default(),
            missing: (0..disks.max(1)).map(|_| PositionSet::default()).collect(),
            changes: vec![0; disks.max(1) as usize],
            trust: Trust::default(),
        }
    }

    /// One past the last position.
    pub(crate) fn end(&self) -> u32 {
        self.base + self.entries.len() as u32
    }

    /// The position expected next.
    pub(crate) fn cursor(&self) -> u32 {
        self.cursor
    }

    /// Positions at or after the cursor.
    pub(crate) fn ahead(&self) -> u32 {
        self.end() - self.cursor
    }

    /// The first position at or after `from` whose block is missing on `disk`.
    pub(crate) fn next_hole_on(&self, disk: DiskId, from: u32) -> Option<u32> {
        self.missing[disk.0 as usize].next(from)
    }

    /// The first position at or after `from` whose block is missing.
    pub(crate) fn next_hole(&self, from: u32) -> Option<u32> {
        self.missing.iter().filter_map(|m| m.next(from)).min()
    }

    /// The furthest next use of a cached block of the manager's own.
    pub(crate) fn furthest(&self) -> Option<u32> {
        self.cached.last()
    }

    /// The furthest next use before `position`.
    pub(crate) fn furthest_before(&self, position: u32) -> Option<u32> {
        self.cached.prev(position.checked_sub(1)?)
    }

    /// A number that changes whenever a block of the disk begins or ceases to be missing.
    pub(crate) fn changes(&self, disk: DiskId) -> u32 {
        self.changes[disk.0 as usize]
    }

    fn entry(&self, position: u32) -> Entry {
        self.entries[(position - self.base) as usize]
    }
}

/// All lists, and what they say of each block.
#[derive(Debug)]
pub(crate) struct Knowledge {
    lists: Vec<Option<Box<List>>>,
    uses: Vec<Use>,
    vacant: Vec<u32>,
    disks: u16,
}

/// How a reference met the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// It was named, at this position.
    At(u32),
    /// It is the block just passed.
    Again,
    /// It was not named.
    Unpredicted,
}

impl Knowledge {
    pub(crate) fn new(disks: u16) -> Knowledge {
        Knowledge { lists: Vec::new(), uses: Vec::new(), vacant: Vec::new(), disks }
    }

    pub(crate) fn list(&self, manager: ManagerId) -> Option<&List> {
        self.lists.get(manager.0 as usize)?.as_deref()
    }

    pub(crate) fn list_mut(&mut self, manager: ManagerId) -> Option<&mut List> {
        self.lists.get_mut(manager.0 as usize)?.as_deref_mut()
    }

    /// The block named at a position.
    pub(crate) fn block_at(&self, list: &List, position: u32) -> BlockId {
        self.uses[list.entry(position).use_id as usize].block
    }

    /// Does a manager's list name this block from here on?
    #[inline]
    pub(crate) fn names(&self, blocks: &Blocks, manager: ManagerId, b: BlockId) -> bool {
        self.find_use(blocks, manager, b).is_some()
    }

    /// The block of a manager's own whose next use is furthest in the future.
    pub(crate) fn furthest_block(&self, manager: ManagerId) -> Option<BlockId> {
        let list = self.list(manager)?;
        list.furthest().map(|position| self.block_at(list, position))
    }

    /// The next use of a block in a manager's list.
    pub(crate) fn next_use(&self, blocks: &Blocks, manager: ManagerId, b: BlockId) -> Option<u32> {
        self.find_use(blocks, manager, b).map(|u| self.uses[u as usize].first)
    }

    /// Appends one reference; false when the list is at the end of its positions.
    pub(crate) fn append(&mut self, blocks: &mut Blocks, manager: ManagerId, b: BlockId) -> bool {
        let slot = manager.0 as usize;
        if self.lists.len() <= slot {
            self.lists.resize_with(slot + 1, || None);
        }
        let disks = self.disks;
        let known = self.find_use(blocks, manager, b);
        let list = self.lists[slot].get_or_insert_with(|| Box::new(List::new(disks)));
        let position = list.end();
        if position >= NONE - 1 {
            return false;
        }
        let use_id = match known {
            Some(u) => {
                let last = self.uses[u as usize].last;
                let at = (last - list.base) as usize;
                list.entries[at].next = position;
                self.uses[u as usize].last = position;
                u
            }
            None => {
                let other = blocks[b].first_use;
                let new = Use { block: b, manager: manager.0, first: position, last: position, other };
                let u = match self.vacant.pop() {
                    Some(u) => {
                        self.uses[u as usize] = new;
                        u
                    }
                    None => {
                        self.uses.push(new);
                        self.uses.len() as u32 - 1
                    }
                };
                blocks[b].first_use = u;
                u
            }
        };
        list.entries.push(Entry { use_id, next: NONE });
        list.cached.reserve(position + 1);
        let disk = blocks.disk(b).0 as usize;
        list.missing[disk].reserve(position + 1);
        if known.is_none() {
            Self::place(list, blocks, b, manager, position, disk);
        }
        true
    }

    /// Where in the list a reference by its manager belongs.
    pub(crate) fn matching(&self, blocks: &Blocks, manager: ManagerId, b: BlockId, ahead: u32) -> Match {
        let Some(list) = self.list(manager) else { return Match::Unpredicted };
        let again = list.passed == Some(blocks[b].block);
        match self.next_use(blocks, manager, b) {
            // Named as the very next one: a repetition in the list, not a second read of the same.
            Some(first) if first == list.cursor => Match::At(first),
            _ if again => Match::Again,
            Some(first) if first - list.cursor <= ahead => Match::At(first),
            _ => Match::Unpredicted,
        }
    }

    /// Takes note of an unpredicted reference. Gives its position further down the list once `run`
    /// references in a row have followed each other there.
    pub(crate) fn resync(
        &mut self,
        blocks: &Blocks,
        manager: ManagerId,
        b: BlockId,
        run: u32,
    ) -> Option<u32> {
        let found = self.next_use(blocks, manager, b);
        let list = self.list_mut(manager)?;
        let Some(position) = found else {
            list.astray = (NONE, 0);
            return None;
        };
        let (expected, length) = list.astray;
        let length = match position {
            p if p == expected => length + 1,
            // The same block once more.
            p if p + 1 == expected => length,
            _ => 1,
        };
        list.astray = (position + 1, length);
        (length >= run).then_some(position)
    }

    /// Moves the cursor past the next position; gives its block and whether it is named again.
    pub(crate) fn pass(&mut self, blocks: &mut Blocks, manager: ManagerId) -> (BlockId, bool) {
        let slot = manager.0 as usize;
        let Some(list) = self.lists[slot].as_deref_mut() else { return (NONE, false) };
        let position = list.cursor;
        let Entry { use_id, next } = list.entry(position);
        let b = self.uses[use_id as usize].block;
        let disk = blocks.disk(b).0 as usize;
        Self::unplace(list, position, disk);
        list.cursor += 1;
        list.passed = Some(blocks[b].block);
        if next == NONE {
            self.unlink(blocks, use_id);
        } else {
            self.uses[use_id as usize].first = next;
            Self::place(list, blocks, b, manager, next, disk);
        }
        (b, next != NONE)
    }

    /// Gives the memory of the uses back if none is in use.
    pub(crate) fn release_memory(&mut self) {
        if self.vacant.len() == self.uses.len() {
            (self.uses, self.vacant) = (Vec::new(), Vec::new());
        }
    }

    /// Gives storage in front of the cursor back, now and then.
    pub(crate) fn trim(&mut self, manager: ManagerId) {
        let Some(list) = self.list_mut(manager) else { return };
        let passed = list.cursor - list.base;
        if passed < TRIM_ENTRIES || passed < list.entries.len() as u32 / 2 {
            return;
        }
        let base = list.cursor / 64 * 64;
        list.entries.drain(..(base - list.base) as usize);
        list.base = base;
        list.cached.rebase(base);
        for missing in &mut list.missing {
            missing.rebase(base);
        }
    }

    /// The block came, went, or changed its owner: puts its next uses into the right sets.
    pub(crate) fn refresh(&mut self, blocks: &Blocks, b: BlockId) {
        let mut u = blocks[b].first_use;
        while u != NONE {
            let Use { manager, first, other, .. } = self.uses[u as usize];
            if let Some(list) = self.lists[manager as usize].as_deref_mut() {
                let disk = blocks.disk(b).0 as usize;
                Self::unplace(list, first, disk);
                Self::place(list, blocks, b, ManagerId(manager), first, disk);
            }
            u = other;
        }
    }

    /// Drops a manager's list; gives the blocks that it still named, in ascending order of next use.
    pub(crate) fn discard(&mut self, blocks: &mut Blocks, manager: ManagerId) -> Vec<BlockId> {
        let Some(list) = self.lists.get_mut(manager.0 as usize).and_then(Option::take) else {
            return Vec::new();
        };
        let mut named = Vec::new();
        for position in list.cursor..list.end() {
            let use_id = list.entry(position).use_id;
            if self.uses[use_id as usize].first == position {
                named.push(self.uses[use_id as usize].block);
            }
        }
        for &b in &named {
            if let Some(u) = self.find_use(blocks, manager, b) {
                self.unlink(blocks, u);
            }
        }
        named
    }

    fn find_use(&self, blocks: &Blocks, manager: ManagerId, b: BlockId) -> Option<u32> {
        let mut u = blocks[b].first_use;
        while u != NONE && self.uses[u as usize].manager != manager.0 {
            u = self.uses[u as usize].other;
        }
        (u != NONE).then_some(u)
    }

    /// Takes a use out of its block's chain.
    fn unlink(&mut self, blocks: &mut Blocks, use_id: u32) {
        let Use { block, other, .. } = self.uses[use_id as usize];
        if blocks[block].first_use == use_id {
            blocks[block].first_use = other;
        } else {
            let mut u = blocks[block].first_use;
            while self.uses[u as usize].other != use_id {
                u = self.uses[u as usize].other;
            }
            self.uses[u as usize].other = other;
        }
        self.vacant.push(use_id);
    }

    fn place(list: &mut List, blocks: &Blocks, b: BlockId, manager: ManagerId, position: u32, disk: usize) {
        match blocks[b].state {
            State::Cached if blocks[b].owner() == Some(manager) => {
                list.cached.insert(position);
            }
            State::Absent | State::Leaving if !blocks[b].is(Mark::Unfetchable) => {
                list.missing[disk].insert(position);
                list.changes[disk] = list.changes[disk].wrapping_add(1);
            }
            _ => {}
        }
    }

    fn unplace(list: &mut List, position: u32, disk: usize) {
        list.cached.remove(position);
        if list.missing[disk].remove(position) {
            list.changes[disk] = list.changes[disk].wrapping_add(1);
        }
    }
}
