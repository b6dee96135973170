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

/// One block. Fills one cache line, so that a hit misses the processor's caches once for it.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Record {
    pub(crate) block: Block,
    pub(crate) state: State,
    /// Referenced since it was loaded.
    pub(crate) referenced: bool,
    /// Loaded by a prefetch of ours (until it is referenced).
    pub(crate) prefetched: bool,
    /// Loaded by the kernel on a process's behalf: its first reference is part of that demand fetch.
    pub(crate) demanded: bool,
    /// Referenced by more than one living manager: has no owner until it is replaced.
    pub(crate) shared: bool,
    /// In a pool by temporary priority.
    pub(crate) temporary: bool,
    /// A prefetch of it failed: not tried again before the block has been seen in the cache.
    pub(crate) unfetchable: bool,
    /// The pool of its owner that it is in, [`NO_POOL`] for none.
    pub(crate) pool: u16,
    pub(crate) disk: DiskId,
    /// Physical address on the disk.
    pub(crate) address: u64,
    /// The manager that it belongs to, or `NONE`.
    pub(crate) owner: u32,
    /// The process that its fetch is charged to, [`NOBODY`] if none.
    pub(crate) charged_to: ProcessId,
    /// The manager on whose behalf it is being fetched.
    pub(crate) fetched_for: ManagerId,
    /// Place in the global list, or `NONE`.
    pub(crate) global_place: u32,
    /// Place in its pool.
    pub(crate) pool_place: u32,
    /// First of the lists' uses of this block, or `NONE`.
    pub(crate) first_use: u32,
    /// The placeholder that remembers why this absent block was replaced, or `NONE`.
    pub(crate) placeholder: u32,
    /// First of the placeholders that point to this cached block, or `NONE`.
    pub(crate) pointed_to: u32,
    /// Which fetch brings it in (tells a stale time-out from a current one).
    pub(crate) fetch_number: u32,
}

const _: () = assert!(size_of::<Record>() == 64);

/// No process: the plane has not named one yet.
pub(crate) const NOBODY: ProcessId = ProcessId(NONE);

/// No pool.
pub(crate) const NO_POOL: u16 = u16::MAX;

impl Record {
    fn new(block: Block, disk: DiskId, address: u64) -> Record {
        Record {
            block,
            state: State::Absent,
            referenced: false,
            prefetched: false,
            demanded: false,
            shared: false,
            temporary: false,
            unfetchable: false,
            pool: NO_POOL,
            disk,
            address,
            owner: NONE,
            charged_to: NOBODY,
            fetched_for: ManagerId(0),
            global_place: NONE,
            pool_place: NONE,
            first_use: NONE,
            placeholder: NONE,
            pointed_to: NONE,
            fetch_number: 0,
        }
    }

    /// The manager that it belongs to.
    pub(crate) fn owner(&self) -> Option<ManagerId> {
        (self.owner != NONE).then_some(ManagerId(self.owner))
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
            vacant: Vec::new(),
            files: Vec::new(),
            vacant_files: Vec::new(),
        }
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

    /// Forgets a file, at once or with the last record of its blocks.
    pub(crate) fn remove_file(&mut self, file: FileId) {
        if let Some(Some(f)) = self.files.get_mut(file.0 as usize) {
            f.removed = true;
            if f.records == 0 {
                self.files[file.0 as usize] = None;
                self.vacant_files.push(file.0);
            }
        }
    }

    pub(crate) fn set_length(&mut self, file: FileId, length_blocks: u32) {
        if let Some(Some(file)) = self.files.get_mut(file.0 as usize) {
            file.length_blocks = length_blocks;
        }
    }

    /// Is the block inside its file, as far as the file's length is known?
    pub(crate) fn exists(&self, block: Block) -> bool {
        matches!(self.files.get(block.file.0 as usize), Some(Some(f)) if block.index < f.length_blocks)
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
        let (disk, address) = file.layout.locate(block.file.0, block.index);
        let disk = DiskId(disk.0 % self.disks);
        let (branch, leaf, entry) = way(block.index);
        let leaf = file.leaf_mut(branch, leaf);
        let record = Record::new(block, disk, address);
        let id = match self.vacant.pop() {
            Some(id) => {
                self.records[id as usize] = record;
                id
            }
            None => {
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
        }
        if self.vacant_files.len() == self.files.len() {
            (self.files, self.vacant_files) = (Vec::new(), Vec::new());
        }
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
