//! Knowledge: what managers will reference, in order, and what that says of each block.
//!
//! A manager has one *list* for each reader of its (a program that discloses its own reads has one). Which position of
//! a list a live reference is, [`crate::alignment`] says; here is what follows from it for blocks. For every block
//! that is named at a position still to come, its *next use* is the first such position; it is kept in one of the
//! list's sets of positions:
//!
//! - `cached`: next uses of cached blocks that the list's manager owns. The last member is the block
//!   whose next reference is furthest in the future: the optimal replacement (rule 2).
//! - `missing`, one set a disk: next uses of absent blocks. The first member is the *next hole*: the
//!   block to fetch next (rule 1).
//!
//! Blocks on their way are in neither. "Do no harm" (rule 3) compares the two: a fetch of hole h may
//! replace a block only if that block's next use is after h. (Cao et al. 1996, sections 2.1.2 and 2.1.3.)
//!
//! The *cursor* of a list is the frontier of its alignment. Positions are used up in any order around it. One that the
//! cursor has left behind further than its reader ever comes late is *passed over*: it is not waited for any more, and
//! its block is nothing special unless it is named again. A list that explains nothing for a while is *dormant*: it says
//! nothing of any block until it explains something again. Nothing is discarded.
//!
//! Positions count from the beginning of the list and are 32 bits wide: a list ends for good after 2^32 of them, 32 TiB
//! of 8 KiB blocks. What the reader has left behind further than some caches is released, 64 positions at a time, while
//! the list goes on: it cannot go back there. Held are no more than twice what may lie ahead of the cursor.
//!
//! What lies further ahead than `Limits::held_ahead` and some caches *waits* in few bytes ([`waiting`]): it says nothing of
//! any block, and no jump goes there, until the reader has come nearer.

mod belief;
mod completion;
mod following;
mod list;
pub(crate) mod positions;
mod waiting;
mod withdrawn;

pub(crate) use list::List;

use crate::alignment::{self, Match, Readers, Reference};
use crate::blocks::{BlockId, Blocks};
use crate::config::Config;
use crate::ids::{Block, FileId, ManagerId, ProcessId};
use crate::recency::NONE;
use withdrawn::Withdrawn;

/// What is held of a list ahead of its reader, at least: this many caches. Optimal replacement has nothing to choose from
/// beyond as many different blocks as are cached, and lists name blocks repeatedly.
pub const CACHES_AHEAD: u32 = 8;

/// What is held of a list behind its reader: this many caches,
const CACHES_BEHIND: u32 = 8;

/// and this many positions at least, 2 GiB of references at 8 KiB a block.
const LEAST_BEHIND: u32 = 1 << 18;

/// What a list says of one block.
#[derive(Debug, Clone, Copy)]
struct Use {
    manager: u16,
    /// Counted from the manager's [`Known::base`].
    list: u16,
    /// Its next use: the first position still to come that names it, or `NONE`.
    first: u32,
    /// The next list's use of the same block, or `NONE`.
    other: u32,
}

/// What is known of one manager's references.
#[derive(Debug)]
struct Known {
    readers: Readers,
    /// By the number of the stream.
    lists: Vec<List>,
    /// Nothing of what they say counts at present.
    suspended: bool,
    /// The number of its first list in [`Use::list`]: lists that are being withdrawn have other numbers.
    base: u16,
}

impl Known {
    /// Do the lists name nothing any more from where their readers are?
    #[inline]
    fn is_at_end(&self) -> bool {
        self.lists.iter().all(|l| l.ahead() == 0)
    }
}

/// How a reference met the lists of its manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Met {
    /// References that a list had predicted; a new reader's first ones are judged together.
    pub(crate) predicted: u32,
    /// References that it had not.
    pub(crate) unpredicted: u32,
    /// Positions that were passed over.
    pub(crate) skipped: u32,
    /// Lists that became dormant.
    pub(crate) put_aside: u32,
}

/// All lists, and what they say of each block.
#[derive(Debug)]
pub(crate) struct Knowledge {
    known: Vec<Option<Box<Known>>>,
    /// The base of each manager's next lists.
    bases: Vec<u16>,
    withdrawn: Withdrawn,
    uses: Vec<Use>,
    vacant: Vec<u32>,
    disks: u16,
    limits: alignment::Limits,
    /// Positions ahead of a list's cursor beyond which further references wait.
    held_ahead: u32,
    /// Positions behind a list's cursor that are waited for at least.
    late_positions: u32,
    /// References that wait, of all lists.
    waiting: u64,
    /// Lists begun so far: no two of them count their changes from the same number.
    begun: u32,
    /// Blocks that lost their next use and whose place is to be looked at.
    unlisted: Vec<BlockId>,
    /// Blocks whose next use was passed over, and that are named once more.
    passed_by: Vec<BlockId>,
    /// What the reference at hand matched; kept for its memory.
    matches: Vec<(usize, BlockId, Match)>,
    /// Some of that is used up in the alignment, and not here yet: a new reader's first references come together.
    is_behind: bool,
    /// Blocks that a list names no more as its oldest positions are released; kept for its memory.
    unnamed: Vec<BlockId>,
}

impl Knowledge {
    pub(crate) fn new(config: &Config) -> Knowledge {
        let &Config { disks, cache_blocks, late_positions, ref limits, .. } = config;
        let held_ahead = limits.held_ahead.max(cache_blocks.saturating_mul(CACHES_AHEAD));
        let held_ahead = held_ahead.min(limits.disclosed_blocks);
        let limits = alignment::Limits {
            window: cache_blocks,
            // A part can always be released where no more lie ahead than may.
            positions: held_ahead.saturating_add(alignment::RELEASED).saturating_mul(2),
            behind: cache_blocks.saturating_mul(CACHES_BEHIND).max(LEAST_BEHIND),
            ids: NONE - 1,
            streams: limits.lists_per_manager.min(u32::from(u16::MAX)),
            readers: limits.readers_per_manager,
        };
        Knowledge {
            known: Vec::new(),
            bases: Vec::new(),
            withdrawn: Withdrawn::default(),
            uses: Vec::new(),
            vacant: Vec::new(),
            disks,
            limits,
            held_ahead,
            late_positions,
            waiting: 0,
            begun: 0,
            unlisted: Vec::new(),
            passed_by: Vec::new(),
            matches: Vec::new(),
            is_behind: false,
            unnamed: Vec::new(),
        }
    }

    // ---- lists ----

    /// Lists of a manager.
    #[inline]
    pub(crate) fn list_count(&self, manager: ManagerId) -> usize {
        self.of(manager).map_or(0, |k| k.lists.len())
    }

    /// A manager's list by its number.
    #[inline]
    pub(crate) fn list(&self, manager: ManagerId, list: usize) -> Option<&List> {
        self.of(manager)?.lists.get(list)
    }

    /// The block named at a position.
    pub(crate) fn block_at(&self, manager: ManagerId, list: usize, position: u32) -> Option<BlockId> {
        self.of(manager)?.readers.stream(list)?.block_at(position)
    }

    /// How a list's alignment stands.
    pub(crate) fn stream(&self, manager: ManagerId, list: usize) -> Option<&alignment::Stream> {
        self.of(manager)?.readers.stream(list)
    }

    /// Begins lists of a manager until there is one with this number; false at the limit.
    pub(crate) fn begin(&mut self, manager: ManagerId, list: usize) -> bool {
        let slot = manager.0 as usize;
        if self.known.len() <= slot {
            self.known.resize_with(slot + 1, || None);
            self.bases.resize(slot + 1, 0);
        }
        let (limits, base) = (self.limits, self.bases[slot]);
        let new =
            || Box::new(Known { readers: Readers::new(limits), lists: Vec::new(), suspended: false, base });
        let known = self.known[slot].get_or_insert_with(new);
        while known.lists.len() <= list {
            if known.readers.add_stream().is_none() {
                return false;
            }
            self.begun = self.begun.wrapping_add(1);
            let mut list = List::new(self.disks, self.begun, self.late_positions);
            list.set_suspended(known.suspended);
            known.lists.push(list);
        }
        true
    }

    /// A manager's lists say nothing of any block from now on, or speak again.
    pub(crate) fn suspend(&mut self, manager: ManagerId, suspended: bool) {
        let Some(known) = self.of_mut(manager) else { return };
        known.suspended = suspended;
        for list in &mut known.lists {
            list.set_suspended(suspended);
        }
    }

    /// Does what a manager's lists say not count at present?
    pub(crate) fn is_suspended(&self, manager: ManagerId) -> bool {
        self.of(manager).is_some_and(|known| known.suspended)
    }

    /// Puts a process on a list of its manager's; false when there is no such list or no room for a reader.
    pub(crate) fn assign(&mut self, manager: ManagerId, process: ProcessId, list: usize) -> bool {
        self.of_mut(manager).is_some_and(|known| known.readers.assign(process.0, list))
    }

    /// A process has ended.
    pub(crate) fn end_reader(&mut self, manager: ManagerId, process: ProcessId) {
        if let Some(known) = self.of_mut(manager) {
            known.readers.end(process.0);
        }
    }

    /// Is what is appended to a list too far ahead of its cursor to be held?
    pub(crate) fn is_far(&self, manager: ManagerId, list: usize) -> bool {
        self.list(manager, list).is_some_and(|l| l.waiting.len() > 0 || l.held_ahead() >= self.held_ahead)
    }

    /// Appends a reference that is far ahead.
    pub(crate) fn put_off(&mut self, manager: ManagerId, list: usize, block: Block) {
        if let Some(l) = self.list_mut(manager, list) {
            l.waiting.push(block);
            self.waiting += 1;
        }
    }

    /// Does a list of anybody go on with references that wait?
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The reference that a list goes on with, if its reader has come near enough.
    pub(crate) fn due(&self, manager: ManagerId, list: usize) -> Option<Block> {
        let l = self.list(manager, list)?;
        if l.held_ahead() < self.held_ahead { l.waiting.first() } else { None }
    }

    /// That has become a position, or cannot.
    pub(crate) fn take_due(&mut self, manager: ManagerId, list: usize) {
        if let Some(l) = self.list_mut(manager, list)
            && l.waiting.pop().is_some()
        {
            self.waiting -= 1;
        }
    }

    /// A file is gone: what waits does not name it any more, as its number may become another one's.
    pub(crate) fn forget_waiting_of(&mut self, file: FileId) {
        if !self.is_waiting() {
            return;
        }
        for l in self.known.iter_mut().flatten().flat_map(|known| &mut known.lists) {
            self.waiting -= u64::from(l.waiting.forget_file(file));
        }
    }

    /// A list goes on with `block`: marks the run that it continues, and gives the blocks of the file that complete it,
    /// to be appended as completed ones before.
    pub(crate) fn continue_run(
        &mut self,
        manager: ManagerId,
        list: usize,
        block: Block,
    ) -> std::ops::Range<u32> {
        let Some(known) = self.of_mut(manager) else { return 0..0 };
        let (Some(stream), Some(l)) = (known.readers.stream_mut(list), known.lists.get_mut(list)) else {
            return 0..0;
        };
        let Some(step) = l.completion.step(block) else {
            l.continues = false;
            return 0..0;
        };
        l.continues = true;
        stream.mark_run(step.from);
        step.missing
    }

    /// Releases what the reader of a long list has left behind for good, a part at a time.
    #[inline]
    pub(crate) fn make_room(&mut self, blocks: &mut Blocks, manager: ManagerId, list: usize) {
        let Some(Some(known)) = self.known.get_mut(manager.0 as usize) else { return };
        let Some(stream) = known.readers.stream_mut(list) else { return };
        let (l, mut unnamed) = (&mut known.lists[list], std::mem::take(&mut self.unnamed));
        if stream.release(l.passed(), |b| unnamed.push(b)) {
            l.release_before(stream.first());
        }
        for b in unnamed.drain(..) {
            // All of its positions were passed over: it has no next use.
            if let Some(u) = self.find_use(blocks, manager, list, b) {
                self.unlink(blocks, b, u);
            }
            blocks.forget_if_idle(b);
        }
        self.unnamed = unnamed;
    }

    /// Appends one reference; false when the list is full.
    pub(crate) fn append(
        &mut self,
        blocks: &mut Blocks,
        manager: ManagerId,
        list: usize,
        b: BlockId,
        completed: bool,
    ) -> bool {
        let known_use = self.find_use(blocks, manager, list, b);
        let Some(Some(known)) = self.known.get_mut(manager.0 as usize) else { return false };
        let Some(stream) = known.readers.stream_mut(list) else { return false };
        let r = reference(blocks, b);
        let position = if completed { stream.append_completed(r) } else { stream.append(r) };
        let Some(position) = position else { return false };
        let l = &mut known.lists[list];
        if !completed {
            l.completion.note(blocks[b].block, position);
        }
        if l.continues {
            stream.mark_run(position);
        }
        let ignored = completed && !l.completion.counts();
        let disk = blocks.disk(b).0 as usize;
        l.extend(position + 1, disk);
        match known_use {
            Some(u) if self.uses[u as usize].first != NONE || ignored => return true,
            Some(u) => self.uses[u as usize].first = position,
            None => {
                let other = blocks[b].first_use;
                let (manager, list) = (manager.0 as u16, known.base.wrapping_add(list as u16));
                let first = if ignored { NONE } else { position };
                let new = Use { manager, list, first, other };
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
            }
        }
        if !ignored && let Some(l) = self.list_mut(manager, list) {
            l.place(blocks, b, manager, position);
        }
        true
    }

    // ---- what is known of a block ----

    /// Does a list of the manager's name this block from here on?
    #[inline]
    pub(crate) fn names(&self, blocks: &Blocks, manager: ManagerId, b: BlockId) -> bool {
        let mut u = blocks[b].first_use;
        while u != NONE {
            let this = &self.uses[u as usize];
            if u32::from(this.manager) == manager.0
                && this.first != NONE
                && self.numbered(manager, this.list).is_some_and(|l| !l.is_dormant())
            {
                return true;
            }
            u = this.other;
        }
        false
    }

    /// Does a list of the manager's name this block anywhere, whether it explains something or not?
    #[inline]
    pub(crate) fn knows(&self, blocks: &Blocks, manager: ManagerId, b: BlockId) -> bool {
        let mut u = blocks[b].first_use;
        while u != NONE {
            let this = &self.uses[u as usize];
            if u32::from(this.manager) == manager.0 && self.numbered(manager, this.list).is_some() {
                return true;
            }
            u = this.other;
        }
        false
    }

    /// The next use of a block in a manager's list.
    pub(crate) fn next_use(
        &self,
        blocks: &Blocks,
        manager: ManagerId,
        list: usize,
        b: BlockId,
    ) -> Option<u32> {
        let first = self.find_use(blocks, manager, list, b).map(|u| self.uses[u as usize].first)?;
        (first != NONE).then_some(first)
    }

    /// The block of a manager's own whose next use is furthest in the future, and how many references away that is.
    /// A block that several lists name counts by the nearest.
    pub(crate) fn furthest(&mut self, blocks: &Blocks, manager: ManagerId) -> Option<(BlockId, u32)> {
        let one = self.list_count(manager) == 1;
        loop {
            let known = self.of(manager)?;
            let far = known.lists.iter().enumerate().filter(|(_, l)| !l.is_dormant());
            let far = far.filter_map(|(i, l)| l.furthest().map(|p| (p.saturating_sub(l.cursor()), i, p)));
            let (distance, list, position) = far.max()?;
            let b = known.readers.stream(list)?.block_at(position)?;
            if one || !self.is_nearer_elsewhere(blocks, manager, list, b, distance) {
                return Some((b, distance));
            }
            // The other list speaks for it from now on; this one when it is placed again.
            self.list_mut(manager, list)?.unplace(blocks, b, position);
        }
    }

    fn is_nearer_elsewhere(
        &self,
        blocks: &Blocks,
        manager: ManagerId,
        list: usize,
        b: BlockId,
        distance: u32,
    ) -> bool {
        let own = self.number(manager, list);
        let mut u = blocks[b].first_use;
        while u != NONE {
            let Use { manager: m, list: l, first, other, .. } = self.uses[u as usize];
            if u32::from(m) == manager.0
                && l != own
                && first != NONE
                && let Some(there) = self.numbered(manager, l).filter(|l| !l.is_dormant())
                && first.saturating_sub(there.cursor()) < distance
            {
                return true;
            }
            u = other;
        }
        false
    }

    /// A hole is not worth a fetch: what its block is needed for is the next position that names it.
    pub(crate) fn decline(&mut self, blocks: &Blocks, manager: ManagerId, list: usize, position: u32) {
        let Some(b) = self.block_at(manager, list, position) else { return };
        let Some(u) = self.find_use(blocks, manager, list, b) else { return };
        let Some((_, stream, l)) = list_of(&mut self.known, manager, list) else { return };
        let next = l.next_counting(stream, b, position + 1);
        self.uses[u as usize].first = next;
        l.replace(blocks, b, manager, position, next);
    }

    /// The block came, went, or changed its owner: puts its next uses into the right sets.
    #[inline]
    pub(crate) fn refresh(&mut self, blocks: &Blocks, b: BlockId) {
        let mut u = blocks[b].first_use;
        while u != NONE {
            let Use { manager, list, first, other, .. } = self.uses[u as usize];
            if first != NONE
                && let Some(Some(known)) = self.known.get_mut(usize::from(manager))
                && let Some(l) = known.lists.get_mut(usize::from(list.wrapping_sub(known.base)))
            {
                l.unplace(blocks, b, first);
                l.place(blocks, b, ManagerId(manager.into()), first);
            }
            u = other;
        }
    }

    /// Gives the memory of the uses back if none is in use.
    pub(crate) fn release_memory(&mut self) {
        if self.vacant.len() == self.uses.len() {
            (self.uses, self.vacant) = (Vec::new(), Vec::new());
        }
        self.unlisted.shrink_to_fit();
        self.passed_by.shrink_to_fit();
    }

    // ---- within ----

    #[inline]
    fn of(&self, manager: ManagerId) -> Option<&Known> {
        self.known.get(manager.0 as usize)?.as_deref()
    }

    #[inline]
    fn of_mut(&mut self, manager: ManagerId) -> Option<&mut Known> {
        self.known.get_mut(manager.0 as usize)?.as_deref_mut()
    }

    #[inline]
    fn list_mut(&mut self, manager: ManagerId, list: usize) -> Option<&mut List> {
        self.of_mut(manager)?.lists.get_mut(list)
    }

    /// The use of a block in one list.
    #[inline]
    fn find_use(&self, blocks: &Blocks, manager: ManagerId, list: usize, b: BlockId) -> Option<u32> {
        self.find_numbered(blocks, manager, self.number(manager, list), b)
    }

    #[inline]
    fn find_numbered(&self, blocks: &Blocks, manager: ManagerId, number: u16, b: BlockId) -> Option<u32> {
        find_use(&self.uses, blocks, manager, number, b)
    }

    /// The number of a list in the uses.
    #[inline]
    fn number(&self, manager: ManagerId, list: usize) -> u16 {
        self.of(manager).map_or(0, |known| known.base).wrapping_add(list as u16)
    }

    /// The list that a number in the uses stands for; `None` for one that is being withdrawn.
    #[inline]
    fn numbered(&self, manager: ManagerId, number: u16) -> Option<&List> {
        let known = self.of(manager)?;
        known.lists.get(usize::from(number.wrapping_sub(known.base)))
    }

    /// Takes a use out of its block's chain.
    fn unlink(&mut self, blocks: &mut Blocks, b: BlockId, use_id: u32) {
        let other = self.uses[use_id as usize].other;
        if blocks[b].first_use == use_id {
            blocks[b].first_use = other;
        } else {
            let mut u = blocks[b].first_use;
            while self.uses[u as usize].other != use_id {
                u = self.uses[u as usize].other;
            }
            self.uses[u as usize].other = other;
        }
        self.vacant.push(use_id);
    }
}

/// A block as alignment knows it.
#[inline]
fn reference(blocks: &Blocks, b: BlockId) -> Reference {
    let block = blocks[b].block;
    Reference { block: b, file: block.file.0, index: block.index }
}

/// The use of a block in the list of a manager's that has this number.
#[inline]
fn find_use(uses: &[Use], blocks: &Blocks, manager: ManagerId, number: u16, b: BlockId) -> Option<u32> {
    let mut u = blocks[b].first_use;
    while u != NONE {
        let this = &uses[u as usize];
        if u32::from(this.manager) == manager.0 && this.list == number {
            return Some(u);
        }
        u = this.other;
    }
    None
}

/// A list of a manager's: its number in the uses, its alignment, and what is known of it.
#[inline]
fn list_of(
    known: &mut [Option<Box<Known>>],
    manager: ManagerId,
    list: usize,
) -> Option<(u16, &mut alignment::Stream, &mut List)> {
    let known = known.get_mut(manager.0 as usize)?.as_deref_mut()?;
    let number = known.base.wrapping_add(list as u16);
    Some((number, known.readers.stream_mut(list)?, known.lists.get_mut(list)?))
}
