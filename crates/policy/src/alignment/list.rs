//! The list of a stream: which block each position names, and where else that block is named.
//!
//! The positions of one block are linked backwards, from its last one. Beside the link to the position before,
//! each has a *jump* further back; together they find the first position at or after a given one in about
//! 2 log n steps, and nothing has to be changed when a stream jumps (Myers, "An applicative random-access
//! stack", Information Processing Letters 17, 1983). Appending takes one step.
//!
//! Memory: 17 bytes a position, 4 a distinct block, 24 a file: at most 24 bytes a position when each file is named in
//! ten positions or more.

use super::Reference;
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

/// Positions within which a file's neighbouring blocks must be named to be a run. Two files that are read in turn,
/// and entries that slipped in between, still leave it one.
const RUN_REACH: u32 = 8;

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

/// A list of positions, and the files that they are of.
#[derive(Debug, Default)]
pub(crate) struct List {
    entries: Vec<Entry>,
    marks: Vec<u8>,
    /// The last position of each block.
    last: Paged,
    /// The slot of each file in `files`.
    slots: Paged,
    files: Vec<FileState>,
    distinct: u32,
}

/// Makes room for one more without doubling: a sixteenth is spare at most.
fn reserve_some<T>(all: &mut Vec<T>) {
    if all.len() == all.capacity() {
        all.reserve_exact(all.len() / 16 + 16);
    }
}

impl List {
    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// How many blocks are named.
    pub(crate) fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Appends a position; the caller has checked the limits.
    pub(crate) fn append(&mut self, r: Reference) -> u32 {
        let position = self.len();
        let (ordinal, mark) = self.note_file(r, position);
        let (before, jump, rank) = match self.last.get(r.block) {
            NONE => {
                self.distinct += 1;
                (NONE, NONE, ROOT)
            }
            before => {
                let jump = self.entries[before as usize].jump;
                if jump != NONE && self.rank(jump) == self.rank(before) {
                    (before, self.entries[jump as usize].jump, self.rank(before) + 1)
                } else {
                    (before, before, 0)
                }
            }
        };
        self.last.set(r.block, position);
        reserve_some(&mut self.entries);
        self.entries.push(Entry { block: r.block, before, jump, ordinal });
        reserve_some(&mut self.marks);
        self.marks.push(rank | mark);
        position
    }

    fn rank(&self, position: u32) -> u8 {
        self.marks[position as usize] & RANK
    }

    /// The position's ordinal in its file; whether it continues the file's last position, which is marked then.
    fn note_file(&mut self, r: Reference, position: u32) -> (u32, u8) {
        let slot = self.slots.get(r.file);
        let Some(file) = self.files.get_mut(slot as usize) else {
            self.slots.set(r.file, self.files.len() as u32);
            reserve_some(&mut self.files);
            self.files.push(FileState {
                last_position: position,
                last_index: r.index,
                at: [NONE; 2],
                place: 0,
            });
            return (0, 0);
        };
        let last = file.last_position as usize;
        let neighbour = file.last_index.abs_diff(r.index) == 1 && position - file.last_position <= RUN_REACH;
        (file.last_position, file.last_index) = (position, r.index);
        let mark = if neighbour { RUN } else { 0 };
        self.marks[last] |= mark;
        (self.entries[last].ordinal + 1, mark)
    }

    pub(crate) fn file(&self, file: u32) -> Option<&FileState> {
        self.files.get(self.slots.get(file) as usize)
    }

    pub(crate) fn file_mut(&mut self, file: u32) -> Option<&mut FileState> {
        self.files.get_mut(self.slots.get(file) as usize)
    }

    pub(crate) fn is_listed(&self, block: u32) -> bool {
        self.last.get(block) != NONE
    }

    /// The block that a position names, or `NONE`.
    pub(crate) fn block_at(&self, position: u32) -> u32 {
        self.entries.get(position as usize).map_or(NONE, |e| e.block)
    }

    /// How many positions before this one are of the same file.
    pub(crate) fn ordinal(&self, position: u32) -> u32 {
        self.entries.get(position as usize).map_or(0, |e| e.ordinal)
    }

    /// Is the position part of a sequential run in the list?
    pub(crate) fn is_run(&self, position: u32) -> bool {
        self.marks.get(position as usize).is_some_and(|m| m & RUN != 0)
    }

    /// How many positions name a block.
    pub(crate) fn count(&self, block: u32) -> u32 {
        let mut at = self.last.get(block);
        let mut count = u32::from(at != NONE);
        while at != NONE && self.rank(at) != ROOT {
            count = count.saturating_add((2 << self.rank(at)) - 1);
            at = self.entries[at as usize].jump;
        }
        count
    }

    /// Marks the last position as one that was not disclosed.
    pub(crate) fn mark_completed(&mut self) {
        if let Some(last) = self.marks.last_mut() {
            *last |= COMPLETED;
        }
    }

    /// Marks a position as part of a run.
    pub(crate) fn mark_run(&mut self, position: u32) {
        if let Some(mark) = self.marks.get_mut(position as usize) {
            *mark |= RUN;
        }
    }

    /// Was the position not disclosed?
    pub(crate) fn is_completed(&self, position: u32) -> bool {
        self.marks.get(position as usize).is_some_and(|m| m & COMPLETED != 0)
    }

    /// The last position of a block before `position`, and the first one from there on; `NONE` where there is none.
    pub(crate) fn around(&self, block: u32, position: u32) -> (u32, u32) {
        let mut at = self.last.get(block);
        if at == NONE || at < position {
            return (at, NONE);
        }
        loop {
            let Entry { before, jump, .. } = self.entries[at as usize];
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
    pub(crate) fn first_from(&self, block: u32, position: u32) -> u32 {
        self.around(block, position).1
    }

    /// The position that names the same block before, or `NONE`.
    pub(crate) fn before(&self, position: u32) -> u32 {
        self.entries.get(position as usize).map_or(NONE, |e| e.before)
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
