//! What is known of each block: one record for every block that is cached, on its way, disclosed, or
//! remembered by a placeholder.
//!
//! A block is found by file and index through a two-level table of record numbers: no hashing on a hit,
//! and memory only where a file is used. Records are reused when nothing speaks of the block any more.

use crate::ids::{Block, DiskId, FileId, ManagerId, ProcessId};
use crate::layout::Layout;
use crate::recency::NONE;

/// Blocks a leaf of the table covers: 256 bytes for the smallest file, an eighth of a percent of a large one.
const LEAF_BLOCKS: usize = 64;

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
    leaves: Vec<Option<Box<[BlockId; LEAF_BLOCKS]>>>,
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
        let file = File { layout, length_blocks: u32::MAX, records: 0, removed: false, leaves: Vec::new() };
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
        let leaf = file.leaves.get(block.index as usize / LEAF_BLOCKS)?.as_ref()?;
        let id = leaf[block.index as usize % LEAF_BLOCKS];
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
        let leaf = block.index as usize / LEAF_BLOCKS;
        if file.leaves.len() <= leaf {
            file.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = file.leaves[leaf].get_or_insert_with(|| Box::new([NONE; LEAF_BLOCKS]));
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
        leaf[block.index as usize % LEAF_BLOCKS] = id;
        Some(id)
    }

    /// Gives the record back if nothing speaks of the block any more.
    pub(crate) fn forget_if_idle(&mut self, id: BlockId) {
        let r = &self.records[id as usize];
        if r.state != State::Absent || r.first_use != NONE || r.placeholder != NONE {
            return;
        }
        let block = r.block;
        if let Some(Some(file)) = self.files.get_mut(block.file.0 as usize)
            && let Some(Some(leaf)) = file.leaves.get_mut(block.index as usize / LEAF_BLOCKS)
        {
            let entry = &mut leaf[block.index as usize % LEAF_BLOCKS];
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

    /// The records of a file's blocks, in ascending order, within `first..=last`.
    pub(crate) fn of_file(&self, file: FileId, first: u32, last: u32) -> Vec<BlockId> {
        let Some(Some(f)) = self.files.get(file.0 as usize) else { return Vec::new() };
        let (from, to) = (first as usize / LEAF_BLOCKS, last as usize / LEAF_BLOCKS);
        f.leaves
            .iter()
            .enumerate()
            .take(to.saturating_add(1))
            .skip(from)
            .filter_map(|(i, leaf)| leaf.as_ref().map(|l| (i, l)))
            .flat_map(|(i, leaf)| leaf.iter().enumerate().map(move |(j, &id)| (i * LEAF_BLOCKS + j, id)))
            .filter(|&(index, id)| id != NONE && (first as usize..=last as usize).contains(&index))
            .map(|(_, id)| id)
            .collect()
    }
}
