//! The list of a stream: which block each position names, and where else that block is named.
//!
//! The positions of one block are linked backwards, from its last one. Beside the link to the position before,
//! each has a *jump* further back; together they find the first position at or after a given one in about
//! 2 log n steps, and nothing has to be changed when a stream jumps (Myers, "An applicative random-access
//! stack", Information Processing Letters 17, 1983). Appending takes one step.
//!
//! The oldest positions can be *released*. Positions keep their numbers, and links to what was released lead nowhere.
//!
//! Memory: 17 bytes a position, 4 a distinct block, 24 a file: at most 24 bytes a position when each file is named in
//! ten positions or more.

use std::collections::VecDeque;

use super::Reference;
use super::bits::reserve_some;
use super::paged::Paged;

/// No position, no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Bits of a mark that hold the rank of the jump: it goes 2^(rank + 1) - 1 links back.
const RANK: u8 = 0x1f;

/// The rank of a block's first position, which jumps nowhere.
const ROOT: u8 = RANK;

/// The position is part of a sequential run.
const RUN: u8 = 0x20;

/// The position was not disclosed: it completes a run.
const COMPLETED: u8 = 0x40;

/// Marks that are looked at together.
pub(crate) const TOGETHER: u32 = 32;

/// Positions within which a file's neighbouring blocks must be named to be a run. Two files that are read in turn,
/// and entries that slipped in between, still leave it one.
const RUN_REACH: u32 = 8;

/// Positions within which a file goes on with its next block where readers take turns in the list.
const TURN_REACH: u32 = 64;

/// Steps after which it is looked at how far apart they are.
const STEPS_A_LOOK: u64 = 64;

/// As many turns are told apart at most.
const MOST_TURNS: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Entry {
    block: u32,
    /// The position that names the same block before, or `NONE`.
    before: u32,
    /// A position that names it earlier still, or `NONE` for the first one.
    jump: u32,
    /// How many positions before this one name blocks of the same file.
    ordinal: u32,
}

/// What a list says of one file, and where the reader is in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileState {
    /// Its last position in the list, and which block that is.
    last_position: u32,
    last_index: u32,
    /// Positions matched last: the first one steers, the other one is where the file was before.
    pub(crate) at: [u32; 2],
    /// In which of the stream's places `at` was found; stale after a jump.
    pub(crate) place: u32,
}

/// Positions that are released together.
pub(crate) const RELEASED: u32 = 64;

/// A list of positions, and the files that they are of.
#[derive(Debug, Default)]
pub(crate) struct List {
    entries: VecDeque<Entry>,
    marks: VecDeque<u8>,
    /// The first position that is held; a multiple of [`RELEASED`].
    first: u32,
    /// The last position of each block.
    last: Paged,
    /// The slot of each file in `files`.
    slots: Paged,
    files: Vec<FileState>,
    distinct: u32,
    /// How often a file went on with its next block, and after how many positions all in all.
    steps: u64,
    steps_positions: u64,
    /// See [`List::turns`]; 0 before the first look.
    turns: u32,
    /// Changes with the positions and what they are.
    changes: u32,
}

impl List {
    /// One past the last position.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.first + self.entries.len() as u32
    }

    /// The first position that is held.
    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// How many positions are held.
    #[inline]
    pub(crate) fn held(&self) -> u32 {
        self.entries.len() as u32
    }

    /// A number that changes whenever a position comes, goes, or becomes one of another kind.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }

    /// About how many readers take turns in the list: so many positions of others lie between a block and the next one of its
    /// file in the mean; 1 for one reader, also where every other position has slipped in.
    #[inline]
    pub(crate) fn turns(&self) -> u32 {
        self.turns.max(1)
    }

    /// How many blocks are named.
    pub(crate) fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Appends a position; the caller has checked the limits.
    pub(crate) fn append(&mut self, r: Reference) -> u32 {
        let position = self.len();
        self.changes = self.changes.wrapping_add(1);
        let (ordinal, mark) = self.note_file(r, position);
        let (before, jump, rank) = match self.last.get(r.block) {
            NONE => {
                self.distinct += 1;
                (NONE, NONE, ROOT)
            }
            before => {
                let (jump, rank) = (self.links(before).1, self.rank(before));
                if jump != NONE && self.rank(jump) == rank {
                    (before, self.links(jump).1, rank + 1)
                } else {
                    (before, before, 0)
                }
            }
        };
        self.last.set(r.block, position);
        reserve_some(&mut self.entries);
        self.entries.push_back(Entry { block: r.block, before, jump, ordinal });
        reserve_some(&mut self.marks);
        self.marks.push_back(rank | mark);
        position
    }

    /// Releases the first [`RELEASED`] positions, all of which are held. Gives the blocks that no position names any
    /// more.
    pub(crate) fn release(&mut self, mut unnamed: impl FnMut(u32)) {
        self.changes = self.changes.wrapping_add(1);
        for position in self.first..self.first + RELEASED {
            let Some(Entry { block, .. }) = self.entries.pop_front() else { break };
            self.marks.pop_front();
            self.first += 1;
            if self.last.get(block) == position {
                self.last.set(block, NONE);
                self.distinct -= 1;
                unnamed(block);
            }
        }
    }

    #[inline]
    fn entry(&self, position: u32) -> Option<&Entry> {
        self.entries.get(position.checked_sub(self.first)? as usize)
    }

    #[inline]
    fn mark(&self, position: u32) -> Option<u8> {
        self.marks.get(position.checked_sub(self.first)? as usize).copied()
    }

    #[inline]
    fn mark_mut(&mut self, position: u32) -> Option<&mut u8> {
        self.marks.get_mut(position.checked_sub(self.first)? as usize)
    }

    /// The links of a position: to the one before and its jump, `NONE` where they lead nowhere.
    #[inline]
    fn links(&self, position: u32) -> (u32, u32) {
        let held = |p: u32| if p < self.first { NONE } else { p };
        self.entry(position).map_or((NONE, NONE), |e| (held(e.before), held(e.jump)))
    }

    fn rank(&self, position: u32) -> u8 {
        self.mark(position).map_or(ROOT, |mark| mark & RANK)
    }

    /// The position's ordinal in its file; whether it continues the file's last position, which is marked then.
    fn note_file(&mut self, r: Reference, position: u32) -> (u32, u8) {
        let new = FileState { last_position: position, last_index: r.index, at: [NONE; 2], place: 0 };
        let slot = self.slots.get(r.file);
        let Some(&FileState { last_position: last, last_index, .. }) = self.files.get(slot as usize) else {
            self.slots.set(r.file, self.files.len() as u32);
            if self.files.len() == self.files.capacity() {
                self.files.reserve_exact(self.files.len() / 16 + 16);
            }
            self.files.push(new);
            return (0, 0);
        };
        let file = &mut self.files[slot as usize];
        if last < self.first {
            // All of it was released: it begins anew.
            *file = new;
            return (0, 0);
        }
        (file.last_position, file.last_index) = (position, r.index);
        let neighbour = last_index.abs_diff(r.index) == 1 && position - last <= RUN_REACH;
        if neighbour {
            self.mark_run(last);
        }
        if last_index.wrapping_add(1) == r.index && position - last <= TURN_REACH {
            self.steps += 1;
            self.steps_positions += u64::from(position - last);
            if self.steps.is_multiple_of(STEPS_A_LOOK) {
                let mean = (self.steps_positions / self.steps) as u32;
                self.turns = (mean - 1).clamp(1, MOST_TURNS);
            }
        }
        (self.ordinal(last) + 1, if neighbour { RUN } else { 0 })
    }

    /// Which of the list's files this one is, if it is one.
    #[inline]
    pub(crate) fn slot(&self, file: u32) -> Option<usize> {
        let slot = self.slots.get(file) as usize;
        (slot < self.files.len()).then_some(slot)
    }

    #[inline]
    pub(crate) fn file(&self, slot: usize) -> &FileState {
        &self.files[slot]
    }

    #[inline]
    pub(crate) fn file_mut(&mut self, slot: usize) -> &mut FileState {
        &mut self.files[slot]
    }

    #[inline]
    pub(crate) fn is_listed(&self, block: u32) -> bool {
        self.last.get(block) != NONE
    }

    /// The block that a position names, or `NONE`.
    #[inline]
    pub(crate) fn block_at(&self, position: u32) -> u32 {
        self.entry(position).map_or(NONE, |e| e.block)
    }

    /// How many positions before this one are of the same file; 0 for one that was released.
    #[inline]
    pub(crate) fn ordinal(&self, position: u32) -> u32 {
        self.entry(position).map_or(0, |e| e.ordinal)
    }

    /// Is the position part of a sequential run in the list?
    #[inline]
    pub(crate) fn is_run(&self, position: u32) -> bool {
        self.mark(position).is_some_and(|m| m & RUN != 0)
    }

    /// Which of the [`TOGETHER`] positions from one on, which is held, were disclosed and are part of a run, or are not: the
    /// lowest bit is the first of them. Cheaper than to ask of each.
    pub(crate) fn disclosed(&self, from: u32, in_run: bool) -> u32 {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const WORD: usize = size_of::<u64>();
        let from = (from.saturating_sub(self.first) as usize).min(self.marks.len());
        let to = (from + TOGETHER as usize).min(self.marks.len());
        let (front, back) = self.marks.as_slices();
        let whole = front.get(from..).and_then(<[u8]>::first_chunk::<{ TOGETHER as usize }>);
        let marks = whole.copied().unwrap_or_else(|| {
            // What is not held counts as not disclosed.
            let mut marks = [COMPLETED; TOGETHER as usize];
            let in_front = from.min(front.len())..to.min(front.len());
            let split = in_front.len();
            marks[..split].copy_from_slice(&front[in_front]);
            let in_back = from.max(front.len()) - front.len()..to.max(front.len()) - front.len();
            marks[split..to - from].copy_from_slice(&back[in_back]);
            marks
        });
        let wanted = if in_run { u64::from(RUN) * ONES } else { 0 };
        let mut found = 0;
        for (at, word) in marks.as_chunks::<WORD>().0.iter().enumerate() {
            // A byte of 1 for each mark that differs; then a bit of the top byte for each that does not.
            let differs = (u64::from_le_bytes(*word) & (u64::from(RUN | COMPLETED) * ONES)) ^ wanted;
            let same = (((differs >> 5) | (differs >> 6)) & ONES) ^ ONES;
            found |= ((same.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32) << (at * WORD);
        }
        found
    }

    /// How many positions name a block.
    pub(crate) fn count(&self, block: u32) -> u32 {
        let mut at = self.last.get(block);
        let mut count = u32::from(at != NONE);
        while at != NONE {
            let (before, jump) = self.links(at);
            // A jump to a released position says nothing of how many are left.
            let links = if jump == NONE { 1 } else { (2 << self.rank(at)) - 1 };
            at = if jump == NONE { before } else { jump };
            count = if at == NONE { count } else { count.saturating_add(links) };
        }
        count
    }

    /// Marks the last position as one that was not disclosed.
    pub(crate) fn mark_completed(&mut self) {
        if let Some(last) = self.marks.back_mut() {
            *last |= COMPLETED;
            self.changes = self.changes.wrapping_add(1);
        }
    }

    /// Marks a position as part of a run.
    pub(crate) fn mark_run(&mut self, position: u32) {
        if let Some(mark) = self.mark_mut(position) {
            *mark |= RUN;
            self.changes = self.changes.wrapping_add(1);
        }
    }

    /// Was the position not disclosed?
    #[inline]
    pub(crate) fn is_completed(&self, position: u32) -> bool {
        self.mark(position).is_some_and(|m| m & COMPLETED != 0)
    }

    /// The last position of a block before `position`, and the first one from there on; `NONE` where there is none.
    #[inline]
    pub(crate) fn around(&self, block: u32, position: u32) -> (u32, u32) {
        let mut at = self.last.get(block);
        if at == NONE || at < position {
            return (at, NONE);
        }
        loop {
            let (before, jump) = self.links(at);
            if jump != NONE && jump >= position {
                at = jump;
            } else if before != NONE && before >= position {
                at = before;
            } else {
                return (before, at);
            }
        }
    }

    /// The first position of a block from `position` on, or `NONE`.
    #[inline]
    pub(crate) fn first_from(&self, block: u32, position: u32) -> u32 {
        self.around(block, position).1
    }

    /// The position that names the same block before, as it was when that was held; and whether none after this one does.
    #[inline]
    pub(crate) fn place_of(&self, position: u32) -> (u32, bool) {
        self.entry(position).map_or((NONE, false), |e| (e.before, self.last.get(e.block) == position))
    }

    /// The position that names the same block before, or `NONE`.
    pub(crate) fn before(&self, position: u32) -> u32 {
        self.links(position).0
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.marks.capacity()
            + self.files.capacity() * size_of::<FileState>()
            + self.last.bytes()
            + self.slots.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_testkit::seeded;
    use proptest::prelude::*;

    const BLOCKS: u32 = 12;

    /// Positions that are never given back, looked through from one end to the other.
    #[derive(Debug, Default)]
    struct Naive {
        named: Vec<Reference>,
        ordinals: Vec<u32>,
        first: u32,
    }

    impl Naive {
        fn of(&self, block: u32) -> Vec<u32> {
            let held = self.first..self.named.len() as u32;
            held.filter(|&p| self.named[p as usize].block == block).collect()
        }

        /// The ordinal of what comes next in a file: from nothing on where nothing of it is held.
        fn next_ordinal(&self, file: u32) -> u32 {
            let last = self.named.iter().rposition(|r| r.file == file).filter(|&p| p >= self.first as usize);
            last.map_or(0, |p| self.ordinals[p] + 1)
        }
    }

    #[test]
    fn it_is_known_how_many_readers_take_turns_in_a_list() {
        let turns = |readers: u32, slips_in: bool| {
            let mut list = List::default();
            for index in 0..1000 {
                for file in 0..readers {
                    list.append(Reference { block: file * 1000 + index, file, index });
                }
                if slips_in {
                    list.append(Reference { block: 100_000 + index, file: 100 + index, index: 0 });
                }
            }
            list.turns()
        };
        assert_eq!([turns(1, false), turns(1, true), turns(4, false), turns(8, false)], [1, 1, 3, 7]);
        assert_eq!(turns(40, false), MOST_TURNS);
    }

    proptest! {
        #![proptest_config(seeded(200))]

        /// What is left of a list answers as one does that is held whole and looked at from there on.
        #[test]
        fn released_positions_are_gone_and_the_others_stay(
            named in prop::collection::vec(0..BLOCKS, 64..600),
            releases in prop::collection::vec(1usize..200, 0..8),
        ) {
            let (mut list, mut naive) = (List::default(), Naive::default());
            let mut left = releases.into_iter();
            let mut next = left.next().unwrap_or(usize::MAX);
            for block in named {
                let r = Reference { block, file: block % 3, index: block / 3 };
                prop_assert_eq!(list.append(r), naive.named.len() as u32);
                naive.ordinals.push(naive.next_ordinal(r.file));
                naive.named.push(r);
                next = next.saturating_sub(1);
                if next > 0 || list.held() < RELEASED {
                    continue;
                }
                next = left.next().unwrap_or(usize::MAX);
                let before: Vec<u32> = (0..BLOCKS).filter(|&b| !naive.of(b).is_empty()).collect();
                let mut unnamed = Vec::new();
                list.release(|block| unnamed.push(block));
                naive.first += RELEASED;
                unnamed.sort_unstable();
                let gone: Vec<u32> = before.into_iter().filter(|&b| naive.of(b).is_empty()).collect();
                prop_assert_eq!(unnamed, gone);
            }
            prop_assert_eq!((list.first(), list.len()), (naive.first, naive.named.len() as u32));
            let distinct = (0..BLOCKS).filter(|&b| !naive.of(b).is_empty()).count();
            prop_assert_eq!(list.distinct() as usize, distinct);
            for block in 0..BLOCKS {
                let of = naive.of(block);
                prop_assert_eq!(list.count(block) as usize, of.len());
                prop_assert_eq!(list.is_listed(block), !of.is_empty());
                for position in 0..list.len() + 1 {
                    let before = of.iter().rev().find(|&&p| p < position).copied().unwrap_or(NONE);
                    let from = of.iter().find(|&&p| p >= position).copied().unwrap_or(NONE);
                    prop_assert_eq!(list.around(block, position), (before, from));
                }
            }
            for position in naive.first..list.len() {
                prop_assert_eq!(list.block_at(position), naive.named[position as usize].block);
                prop_assert_eq!(list.ordinal(position), naive.ordinals[position as usize]);
            }
            prop_assert!((0..naive.first).all(|p| list.block_at(p) == NONE && list.before(p) == NONE));
        }
    }
}
