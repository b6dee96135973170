//! What is known of each block: one record for every block that is cached, on its way, disclosed, or
//! remembered by a placeholder.
//!
//! A block is found by file and index through a table of record numbers in three levels: no hashing on a
//! hit, and memory only where a file is used. A file of 32 TiB of which the last block is named (whoever
//! names it need not own such a disk: a hole costs nothing) takes 1.5 MB for the top level, not half a
//! gigabyte. Records are reused when nothing speaks of the block any more.

use crate::ids::{Block, DiskId, FileId, ManagerId, ProcessId};
use crate::layout::Layout;
use crate::recency::NONE;

/// Blocks a leaf of the table covers: 256 bytes for the smallest file, an eighth of a percent of a large one.
const LEAF_BLOCKS: usize = 64;

/// Leaves of one branch of the table: 65,536 blocks, 512 MiB of a file at 8 KiB a block.
const BRANCH_LEAVES: usize = 1024;

/// Records by which their table grows at least.
const MIN_RECORDS: usize = 256;

/// Number of a record; only valid inside the engine.
pub(crate) type BlockId = u32;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not in the cache.
    Absent,
    /// Not in the cache, and a process waits until a frame is free to fetch it into.
    Awaited,
    /// On its way; it has a frame.
    InFlight,
    /// In the cache.
    Cached,
    /// Asked to be evicted from an advisory plane, which has not answered yet; it has no frame.
    Leaving,
}

/// Something that may be true of a block.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Mark {
    /// Referenced since it was loaded.
    Referenced = 1,
    /// Loaded by a prefetch of ours (until it is referenced).
    Prefetched = 2,
    /// Loaded by the kernel on a process's behalf: its first reference is part of that demand fetch.
    Demanded = 4,
    /// Referenced by more than one living manager: has no owner until it is replaced.
    Shared = 8,
    /// In a pool by temporary priority.
    Temporary = 16,
    /// A prefetch of it failed: not tried again before the block has been seen in the cache.
    Unfetchable = 32,
    /// Fetched on its owner's credit ([`crate::books`]), until it has shown whether that was right.
    OnCredit = 64,
    /// Referenced since a list named it last.
    Met = 128,
}

/// One block, in half a cache line: a hit misses the processor's caches once for it, and there are as many as
/// blocks in the cache, and more. What only a few blocks have at a time lies elsewhere: what a fetch under way
/// is for in [`crate::fetches`], where a block is on its disk in its file's layout.
#[derive(Debug, Clone)]
#[repr(align(32))]
pub(crate) struct Record {
    pub(crate) block: Block,
    pub(crate) state: State,
    /// The [`Mark`]s that it has.
    marks: u8,
    /// The pool of its owner that it is in, [`NO_POOL`] for none.
    pub(crate) pool: u16,
    /// The manager that it belongs to, or [`NOBODY_SHORT`].
    owner: u16,
    /// The process that its fetch is charged to, or [`NOBODY_SHORT`].
    charged_to: u16,
    /// Place in the global list, or `NONE`.
    pub(crate) global_place: u32,
    /// Place in its pool; of a block on its way its place among the fetches, else `NONE`.
    pub(crate) place: u32,
    /// First of the lists' uses of this block, or `NONE`.
    pub(crate) first_use: u32,
    /// A placeholder, or `NONE`: of a block with a frame the first of those that point to it, of another one
    /// that which remembers why it was replaced. (One that has a frame cannot be missed.)
    pub(crate) placeholder: u32,
}

const _: () = assert!(size_of::<Record>() == 32);

/// No process: the plane has not named one yet.
pub(crate) const NOBODY: ProcessId = ProcessId(NONE);

/// No manager or process, in a record.
const NOBODY_SHORT: u16 = u16::MAX;

/// Managers and processes at most, so that a record takes their numbers.
pub(crate) const NUMBERS: u32 = NOBODY_SHORT as u32;

/// No pool.
pub(crate) const NO_POOL: u16 = u16::MAX;

impl Record {
    fn new(block: Block) -> Record {
        Record {
            block,
            state: State::Absent,
            marks: 0,
            pool: NO_POOL,
            owner: NOBODY_SHORT,
            charged_to: NOBODY_SHORT,
            global_place: NONE,
            place: NONE,
            first_use: NONE,
            placeholder: NONE,
        }
    }

    #[inline]
    pub(crate) fn is(&self, mark: Mark) -> bool {
        self.marks & mark as u8 != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, mark: Mark, to: bool) {
        self.marks = if to { self.marks | mark as u8 } else { self.marks & !(mark as u8) };
    }

    /// Takes a mark away; says whether it was there.
    #[inline]
    pub(crate) fn take(&mut self, mark: Mark) -> bool {
        let was = self.is(mark);
        self.set(mark, false);
        was
    }

    /// The manager that it belongs to.
    #[inline]
    pub(crate) fn owner(&self) -> Option<ManagerId> {
        (self.owner != NOBODY_SHORT).then_some(ManagerId(self.owner.into()))
    }

    pub(crate) fn set_owner(&mut self, owner: Option<ManagerId>) {
        // Managers are numbered below `NUMBERS`.
        self.owner = owner.map_or(NOBODY_SHORT, |manager| manager.0 as u16);
    }

    /// The process that its fetch is charged to, [`NOBODY`] if none.
    #[inline]
    pub(crate) fn charged_to(&self) -> ProcessId {
        if self.charged_to == NOBODY_SHORT { NOBODY } else { ProcessId(self.charged_to.into()) }
    }

    pub(crate) fn charge(&mut self, process: ProcessId) {
        // Processes are numbered below `NUMBERS`.
        self.charged_to = if process == NOBODY { NOBODY_SHORT } else { process.0 as u16 };
    }
}

/// One file's part of the table.
#[derive(Debug)]
struct File {
    layout: Layout,
    length_blocks: u32,
    /// Records of its blocks.
    records: u32,
    /// Forgotten by the plane: goes when its last record does.
    removed: bool,
    branches: Vec<Option<Branch>>,
}

/// Record numbers of neighbouring blocks, [`NONE`] where there is no record.
type Leaf = [BlockId; LEAF_BLOCKS];

/// Leaves that lie next to each other, as far as the last one in use: a small file has a small branch.
type Branch = Vec<Option<Box<Leaf>>>;

/// Branch, leaf in the branch, and entry in the leaf of a block.
#[inline]
fn way(index: u32) -> (usize, usize, usize) {
    let (leaf, entry) = (index as usize / LEAF_BLOCKS, index as usize % LEAF_BLOCKS);
    (leaf / BRANCH_LEAVES, leaf % BRANCH_LEAVES, entry)
}

impl File {
    #[inline]
    fn leaf(&self, branch: usize, leaf: usize) -> Option<&Leaf> {
        self.branches.get(branch)?.as_ref()?.get(leaf)?.as_deref()
    }

    fn leaf_mut(&mut self, branch: usize, leaf: usize) -> &mut Leaf {
        if self.branches.len() <= branch {
            self.branches.resize_with(branch + 1, || None);
        }
        let branch = self.branches[branch].get_or_insert_default();
        if branch.len() <= leaf {
            branch.resize_with(leaf + 1, || None);
        }
        branch[leaf].get_or_insert_with(|| Box::new([NONE; LEAF_BLOCKS]))
    }
}

/// All records and the way to them.
#[derive(Debug)]
pub(crate) struct Blocks {
    disks: u16,
    records: Vec<Record>,
    /// There is room for so many records from the beginning.
    expected: usize,
    vacant: Vec<BlockId>,
    files: Vec<Option<File>>,
    vacant_files: Vec<u32>,
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Record;
    #[inline]
    fn index(&self, id: BlockId) -> &Record {
        &self.records[id as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Record {
        &mut self.records[id as usize]
    }
}

impl Blocks {
    pub(crate) fn new(disks: u16) -> Blocks {
        Blocks {
            disks: disks.max(1),
            records: Vec::new(),
            expected: 0,
            vacant: Vec::new(),
            files: Vec::new(),
            vacant_files: Vec::new(),
        }
    }

    /// Has room for so many records from now on, if it is to be had: it takes addresses, and memory when they are used. To
    /// move all records to a larger place takes 10 ms for each 16 MiB, in which nothing else is done. (An allocator that moves
    /// large tables by their page tables does not do so for what is aligned like a record.)
    pub(crate) fn expect(&mut self, records: usize) {
        self.expected = records;
        // If not, the table grows as it is used.
        let _ = self.records.try_reserve_exact(records.saturating_sub(self.records.len()));
    }

    /// Files known.
    pub(crate) fn file_count(&self) -> usize {
        self.files.len() - self.vacant_files.len()
    }

    pub(crate) fn add_file(&mut self, layout: Layout) -> FileId {
        let file = File { layout, length_blocks: u32::MAX, records: 0, removed: false, branches: Vec::new() };
        match self.vacant_files.pop() {
            Some(id) => {
                self.files[id as usize] = Some(file);
                FileId(id)
            }
            None => {
                self.files.push(Some(file));
                FileId(self.files.len() as u32 - 1)
            }
        }
    }

    /// Forgets a file, at once or with the last record of its blocks: says whether there are any.
    pub(crate) fn remove_file(&mut self, file: FileId) -> bool {
        let Some(Some(f)) = self.files.get_mut(file.0 as usize) else { return false };
        f.removed = true;
        if f.records == 0 {
            self.files[file.0 as usize] = None;
            self.vacant_files.push(file.0);
            return false;
        }
        true
    }

    pub(crate) fn set_length(&mut self, file: FileId, length_blocks: u32) {
        if let Some(Some(file)) = self.files.get_mut(file.0 as usize) {
            file.length_blocks = length_blocks;
        }
    }

    /// Is the file known?
    pub(crate) fn is_file(&self, file: FileId) -> bool {
        matches!(self.files.get(file.0 as usize), Some(Some(f)) if !f.removed)
    }

    /// Is the block inside its file, as far as the file's length is known?
    pub(crate) fn exists(&self, block: Block) -> bool {
        matches!(self.files.get(block.file.0 as usize), Some(Some(f)) if block.index < f.length_blocks)
    }

    /// Disk and physical address of a block.
    pub(crate) fn locate(&self, id: BlockId) -> (DiskId, u64) {
        self.place(self[id].block)
    }

    /// The same for a block that may have no record.
    pub(crate) fn place(&self, block: Block) -> (DiskId, u64) {
        let Some(Some(file)) = self.files.get(block.file.0 as usize) else { return (DiskId(0), 0) };
        let (disk, address) = file.layout.locate(block.file.0, block.index);
        (DiskId(disk.0 % self.disks), address)
    }

    /// Where the place of a block ends on its disk.
    pub(crate) fn place_end(&self, block: Block) -> u64 {
        let file = self.files.get(block.file.0 as usize).and_then(Option::as_ref);
        let stride = file.map_or(0, |file| file.layout.stride(block.index));
        self.place(block).1.saturating_add(stride)
    }

    /// The disk that a block is on.
    pub(crate) fn disk(&self, id: BlockId) -> DiskId {
        self.locate(id).0
    }

    /// The record of a block, if there is one.
    #[inline]
    pub(crate) fn find(&self, block: Block) -> Option<BlockId> {
        let file = self.files.get(block.file.0 as usize)?.as_ref()?;
        let (branch, leaf, entry) = way(block.index);
        let id = file.leaf(branch, leaf)?[entry];
        (id != NONE).then_some(id)
    }

    /// The record of a block, made if there is none; `None` if the file is not known.
    pub(crate) fn find_or_add(&mut self, block: Block) -> Option<BlockId> {
        if let Some(id) = self.find(block) {
            return Some(id);
        }
        let file = self.files.get_mut(block.file.0 as usize)?.as_mut().filter(|f| !f.removed)?;
        file.records += 1;
        let (branch, leaf, entry) = way(block.index);
        let leaf = file.leaf_mut(branch, leaf);
        let record = Record::new(block);
        let id = match self.vacant.pop() {
            Some(id) => {
                self.records[id as usize] = record;
                id
            }
            None => {
                // By an eighth at a time, not by doubling: the cache fills once.
                if self.records.len() == self.records.capacity() {
                    self.records.reserve_exact((self.records.len() / 8).max(MIN_RECORDS));
                }
                self.records.push(record);
                self.records.len() as BlockId - 1
            }
        };
        leaf[entry] = id;
        Some(id)
    }

    /// Gives the record back if nothing speaks of the block any more.
    pub(crate) fn forget_if_idle(&mut self, id: BlockId) {
        let r = &self.records[id as usize];
        if r.state != State::Absent || r.first_use != NONE || r.placeholder != NONE {
            return;
        }
        let block = r.block;
        let (branch, leaf, entry) = way(block.index);
        if let Some(Some(file)) = self.files.get_mut(block.file.0 as usize)
            && let Some(Some(branch)) = file.branches.get_mut(branch)
            && let Some(Some(leaf)) = branch.get_mut(leaf)
        {
            let entry = &mut leaf[entry];
            if *entry == id {
                *entry = NONE;
                self.vacant.push(id);
                file.records -= 1;
                if file.removed && file.records == 0 {
                    self.files[block.file.0 as usize] = None;
                    self.vacant_files.push(block.file.0);
                }
            }
        }
    }

    /// Gives the memory of the records back if none is in use.
    pub(crate) fn release_memory(&mut self) {
        if self.vacant.len() == self.records.len() {
            (self.records, self.vacant) = (Vec::new(), Vec::new());
            self.expect(self.expected);
        }
        if self.vacant_files.len() == self.files.len() {
            (self.files, self.vacant_files) = (Vec::new(), Vec::new());
        }
    }

    /// Where a part of `first..=last` ends that is not too long to be gone through at once: the last block of it. It
    /// has at most `most` records, or as many places where one could be.
    pub(crate) fn part_end(&self, file: FileId, first: u32, last: u32, most: usize) -> u32 {
        let Some(Some(f)) = self.files.get(file.0 as usize) else { return last };
        let (first_branch, first_leaf, mut entry) = way(first);
        let (mut records, mut looks) = (0, 0);
        for (at, branch) in f.branches.iter().enumerate().skip(first_branch) {
            let from = if at == first_branch { first_leaf } else { 0 };
            looks += 1;
            for (i, leaf) in branch.iter().flatten().enumerate().skip(from) {
                let base = (at * BRANCH_LEAVES + i) * LEAF_BLOCKS;
                if base > last as usize {
                    return last;
                }
                looks += 1;
                if let Some(leaf) = leaf {
                    for (at, id) in leaf.iter().enumerate().skip(entry) {
                        records += usize::from(*id != NONE);
                        if records >= most {
                            return u32::try_from(base + at).unwrap_or(u32::MAX).min(last);
                        }
                    }
                }
                entry = 0;
                if looks >= most.max(LEAF_BLOCKS) {
                    let end = base + LEAF_BLOCKS - 1;
                    return u32::try_from(end).unwrap_or(u32::MAX).min(last);
                }
            }
            entry = 0;
        }
        last
    }

    /// The records of a file's blocks, in ascending order, within `first..=last`.
    pub(crate) fn of_file(&self, file: FileId, first: u32, last: u32) -> Vec<BlockId> {
        let Some(Some(f)) = self.files.get(file.0 as usize) else { return Vec::new() };
        let wanted = first as usize..=last as usize;
        let span = LEAF_BLOCKS * BRANCH_LEAVES;
        let mut found = Vec::new();
        let last_branch = (last as usize / span).saturating_add(1).min(f.branches.len());
        for at in (first as usize / span).min(last_branch)..last_branch {
            let Some(branch) = &f.branches[at] else { continue };
            let base = at * span;
            let from = (first as usize).saturating_sub(base) / LEAF_BLOCKS;
            let leaves = branch.iter().enumerate().skip(from);
            for (i, leaf) in leaves.take_while(|(i, _)| base + i * LEAF_BLOCKS <= *wanted.end()) {
                let Some(leaf) = leaf else { continue };
                let entries = (base + i * LEAF_BLOCKS..).zip(leaf.iter());
                found
                    .extend(entries.filter(|(at, id)| **id != NONE && wanted.contains(at)).map(|(_, id)| id));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_range_come_in_order_wherever_they_are() {
        let mut blocks = Blocks::new(1);
        let file = blocks.add_file(Layout::Unknown);
        let indices = [0, 63, 64, 65_535, 65_536, 70_000, 1 << 31, u32::MAX - 1];
        for index in indices.into_iter().rev() {
            blocks.find_or_add(Block::new(file, index)).unwrap();
        }
        for (first, last) in [(0, u32::MAX), (63, 65_536), (65_537, 69_999), (70_000, 1 << 31), (1, 62)] {
            let found: Vec<u32> =
                blocks.of_file(file, first, last).into_iter().map(|b| blocks[b].block.index).collect();
            let expected: Vec<u32> =
                indices.into_iter().filter(|index| (first..=last).contains(index)).collect();
            assert_eq!(found, expected, "{first}..={last}");
        }
        assert_eq!(blocks.find(Block::new(file, 1)), None);
        assert_eq!(blocks.find(Block::new(file, u32::MAX)), None);
    }

    #[test]
    fn a_record_that_is_expected_stays_where_it_is_however_many_there_are() {
        const EXPECTED: u32 = 300_000;
        let mut blocks = Blocks::new(1);
        blocks.expect(EXPECTED as usize);
        let file = blocks.add_file(Layout::Unknown);
        for _ in 0..2 {
            let place = blocks.records.as_ptr();
            for index in 0..EXPECTED {
                assert_eq!(blocks.find_or_add(Block::new(file, index)), Some(index));
            }
            assert_eq!(blocks.records.as_ptr(), place, "nothing was moved");
            assert_eq!(
                blocks.find_or_add(Block::new(file, EXPECTED)),
                Some(EXPECTED),
                "and there is no limit"
            );
            (0..=EXPECTED).for_each(|id| blocks.forget_if_idle(id));
            blocks.release_memory();
            assert!(blocks.records.is_empty(), "the memory is given back, and there is room again");
        }
    }

    #[test]
    fn a_range_is_cut_into_parts_of_few_records() {
        let mut blocks = Blocks::new(1);
        let file = blocks.add_file(Layout::Unknown);
        let mut indices: Vec<u32> = (0..3000).chain([65_535, 65_536, 1 << 31, u32::MAX - 1]).collect();
        indices.extend((100_000..200_000).step_by(640));
        indices.sort_unstable();
        for &index in &indices {
            blocks.find_or_add(Block::new(file, index)).unwrap();
        }
        for most in [1, 64, 1000] {
            let (mut next, mut found) = (0, Vec::new());
            loop {
                let end = blocks.part_end(file, next, u32::MAX, most);
                let part = blocks.of_file(file, next, end);
                assert!(part.len() <= most && end >= next);
                found.extend(part.into_iter().map(|b| blocks[b].block.index));
                let Some(after) = end.checked_add(1) else { break };
                next = after;
            }
            assert_eq!(found, indices, "{most} at a time");
        }
        assert_eq!(blocks.part_end(FileId(9), 3, 7, 1), 7, "no such file");
        assert_eq!(blocks.part_end(file, 5, 6, 100), 6);
    }

    #[test]
    fn the_last_block_of_the_largest_file_takes_less_than_two_megabytes() {
        let mut blocks = Blocks::new(1);
        let file = blocks.add_file(Layout::Unknown);
        blocks.find_or_add(Block::new(file, u32::MAX)).unwrap();
        let branches = &blocks.files[0].as_ref().unwrap().branches;
        let bytes = branches.capacity() * size_of::<Option<Branch>>()
            + branches.iter().flatten().map(|b| b.capacity() * size_of::<Option<Box<Leaf>>>()).sum::<usize>();
        assert!(bytes < 2 << 20, "{bytes}");
    }
}
