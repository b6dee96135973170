//! Records as bytes. [`crate::decode`] is the other half; the numbers of kinds are only here.

use foretell_numbers::{put, put_difference};
use foretell_policy::{Block, Input, Layout, Nanos, ProcessId};

use crate::sum::Sum;

/// What a record is, in the lower five bits of its first byte. Never used for something else.
pub(crate) mod kind {
    pub(crate) const ACCESSED: u8 = 0;
    pub(crate) const LOADED: u8 = 1;
    pub(crate) const FETCH_FAILED: u8 = 2;
    pub(crate) const GONE: u8 = 3;
    pub(crate) const TAKEN_ALONG: u8 = 4;
    pub(crate) const EVICT_REFUSED: u8 = 5;
    pub(crate) const PROCESS_EXITED: u8 = 6;
    pub(crate) const SERVED: u8 = 7;
    pub(crate) const COMPUTED: u8 = 8;
    pub(crate) const TIME_PASSED: u8 = 9;
    pub(crate) const FILE_ADDED: u8 = 10;
    pub(crate) const FILE_LENGTH: u8 = 11;
    pub(crate) const FILE_REMOVED: u8 = 12;
    pub(crate) const FETCHES_ALLOWED: u8 = 13;
    pub(crate) const MANAGER_ADDED: u8 = 14;
    pub(crate) const MANAGER_REMOVED: u8 = 15;
    pub(crate) const PROCESS_ADDED: u8 = 16;
    pub(crate) const CACHE_SIZE: u8 = 17;
    pub(crate) const MEMORY_RELEASED: u8 = 18;
    pub(crate) const DISCLOSED: u8 = 19;
    pub(crate) const READER_ASSIGNED: u8 = 20;
    pub(crate) const CANCELLED: u8 = 21;
    pub(crate) const PRIORITY: u8 = 22;
    pub(crate) const POLICY: u8 = 23;
    pub(crate) const TEMPORARY_PRIORITY: u8 = 24;
    pub(crate) const FLUSHED: u8 = 25;
    pub(crate) const SCHEDULED: u8 = 26;
    /// Its batch, or its arm: [`super::ARM`].
    pub(crate) const OF_DISK: u8 = 27;
    pub(crate) const ONE_PROCESS: u8 = 28;
    // Not inputs.
    pub(crate) const ACTIONS: u8 = 29;
    pub(crate) const CHECK: u8 = 30;
    pub(crate) const END: u8 = 31;
}

/// Bits of the first byte that say what the record is.
pub(crate) const KIND: u8 = 31;
/// Added to the number of a disk of which the arm is told, and not the batch: there are no more kinds.
pub(crate) const ARM: u32 = 1 << 16;
/// The record's block is in the file of the block before it.
pub(crate) const SAME_FILE: u8 = 32;
/// The record's process is that of the record before it which named one.
pub(crate) const SAME_PROCESS: u8 = 64;
/// The access stalled; a load was by a process; a manager is persistent; its lists are open or told, not withdrawn; an end is a cut.
pub(crate) const FLAG: u8 = 128;

/// What differences are taken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Before {
    pub(crate) now: Nanos,
    pub(crate) block: Block,
    pub(crate) process: ProcessId,
}

impl Default for Before {
    fn default() -> Before {
        let file = foretell_policy::FileId(0);
        Before { now: Nanos(0), block: Block::new(file, 0), process: ProcessId(0) }
    }
}

pub(crate) fn name(out: &mut Vec<u8>, text: &str) {
    // Cut where a character begins.
    let end = (0..=text.len().min(crate::MAX_NAME_BYTES)).rev().find(|&at| text.is_char_boundary(at));
    let text = &text[..end.unwrap_or(0)];
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A record in the making: the kind with its flags is put in front when they are known.
struct Making<'a> {
    out: &'a mut Vec<u8>,
    first: usize,
}

impl Making<'_> {
    fn flag(&mut self, flag: u8, set: bool) {
        self.out[self.first] |= if set { flag } else { 0 };
    }

    fn process(&mut self, before: &mut Before, process: ProcessId) {
        if process == before.process {
            self.flag(SAME_PROCESS, true);
        } else {
            put(self.out, process.0.into());
            before.process = process;
        }
    }

    fn block(&mut self, before: &mut Before, block: Block) {
        if block.file == before.block.file {
            self.flag(SAME_FILE, true);
        } else {
            put(self.out, block.file.0.into());
        }
        put_difference(self.out, before.block.index.into(), block.index.into());
        before.block = block;
    }

    fn numbers(&mut self, values: &[u32]) {
        for &value in values {
            put(self.out, value.into());
        }
    }

    fn signed(&mut self, value: i32) {
        put_difference(self.out, 0, i64::from(value) as u64);
    }
}

/// Is the input short enough for a log?
pub(crate) fn fits(input: &Input<'_>) -> bool {
    match input {
        Input::Disclosed { blocks, .. } => blocks.len() <= crate::MAX_DISCLOSED,
        Input::FileAdded { layout: Layout::Extents(extents) } => extents.len() <= crate::MAX_EXTENTS,
        _ => true,
    }
}

/// Appends an input to `out`.
pub(crate) fn input(out: &mut Vec<u8>, before: &mut Before, now: Nanos, input: &Input<'_>) {
    let first = out.len();
    out.push(kind_of(input));
    put_difference(out, before.now.0, now.0);
    before.now = now;
    let mut record = Making { out, first };
    match *input {
        Input::Accessed { process, block, stalled } => {
            record.flag(FLAG, stalled);
            record.process(before, process);
            record.block(before, block);
        }
        Input::Loaded { block, by } => {
            if let Some(process) = by {
                record.flag(FLAG, true);
                record.process(before, process);
            }
            record.block(before, block);
        }
        Input::FetchFailed { block }
        | Input::Gone { block }
        | Input::TakenAlong { block }
        | Input::EvictRefused { block } => record.block(before, block),
        Input::ProcessExited { process } => record.process(before, process),
        Input::Served { disk, access } => {
            record.numbers(&[disk.0.into()]);
            put(record.out, access.0);
        }
        Input::DiskBatch { disk, batch } => record.numbers(&[disk.0.into(), batch]),
        Input::DiskArm { disk, reach_blocks } => record.numbers(&[ARM + u32::from(disk.0), reach_blocks]),
        Input::Computed { process, compute } => {
            record.process(before, process);
            put(record.out, compute.0);
        }
        Input::TimePassed | Input::MemoryReleased => {}
        Input::FileAdded { layout } => self::layout(record.out, layout),
        Input::FileLength { file, length_blocks } => record.numbers(&[file.0, length_blocks]),
        Input::FileRemoved { file } | Input::FetchesAllowed { file } => record.numbers(&[file.0]),
        Input::ManagerAdded { persistent } => record.flag(FLAG, persistent),
        Input::ManagerRemoved { manager }
        | Input::ProcessAdded { manager }
        | Input::Cancelled { manager } => {
            record.numbers(&[manager.0]);
        }
        Input::ListsOpen { manager, open } => {
            record.flag(FLAG, true);
            record.numbers(&[manager.0, open.into()]);
        }
        Input::CacheSize { cache_blocks } => record.numbers(&[cache_blocks]),
        Input::Disclosed { manager, list, blocks } => {
            record.numbers(&[manager.0, list]);
            disclosed(record.out, blocks);
        }
        Input::ReaderAssigned { process, list } => {
            record.process(before, process);
            record.numbers(&[list]);
        }
        Input::OneProcess { process, first } => {
            record.process(before, process);
            record.numbers(&[first.0]);
        }
        Input::Priority { manager, file, priority } => {
            record.numbers(&[manager.0, file.0]);
            record.signed(priority);
        }
        Input::Policy { manager, priority, policy } => {
            record.numbers(&[manager.0, policy.number().into()]);
            record.signed(priority);
        }
        Input::TemporaryPriority { manager, file, first, last, priority } => {
            record.numbers(&[manager.0, file.0, first, last]);
            record.signed(priority);
        }
        Input::Flushed { manager, file, first, last } => record.numbers(&[manager.0, file.0, first, last]),
        Input::Scheduled { manager, fetch_references, batch } => {
            record.numbers(&[manager.0, batch]);
            record.out.extend_from_slice(&fetch_references.to_bits().to_le_bytes());
        }
    }
}

fn kind_of(input: &Input<'_>) -> u8 {
    match input {
        Input::Accessed { .. } => kind::ACCESSED,
        Input::Loaded { .. } => kind::LOADED,
        Input::FetchFailed { .. } => kind::FETCH_FAILED,
        Input::Gone { .. } => kind::GONE,
        Input::TakenAlong { .. } => kind::TAKEN_ALONG,
        Input::EvictRefused { .. } => kind::EVICT_REFUSED,
        Input::ProcessExited { .. } => kind::PROCESS_EXITED,
        Input::Served { .. } => kind::SERVED,
        Input::DiskBatch { .. } | Input::DiskArm { .. } => kind::OF_DISK,
        Input::Computed { .. } => kind::COMPUTED,
        Input::TimePassed => kind::TIME_PASSED,
        Input::FileAdded { .. } => kind::FILE_ADDED,
        Input::FileLength { .. } => kind::FILE_LENGTH,
        Input::FileRemoved { .. } => kind::FILE_REMOVED,
        Input::FetchesAllowed { .. } => kind::FETCHES_ALLOWED,
        Input::ManagerAdded { .. } => kind::MANAGER_ADDED,
        Input::ManagerRemoved { .. } => kind::MANAGER_REMOVED,
        Input::ProcessAdded { .. } => kind::PROCESS_ADDED,
        Input::CacheSize { .. } => kind::CACHE_SIZE,
        Input::MemoryReleased => kind::MEMORY_RELEASED,
        Input::Disclosed { .. } => kind::DISCLOSED,
        Input::ReaderAssigned { .. } => kind::READER_ASSIGNED,
        Input::OneProcess { .. } => kind::ONE_PROCESS,
        Input::Cancelled { .. } | Input::ListsOpen { .. } => kind::CANCELLED,
        Input::Priority { .. } => kind::PRIORITY,
        Input::Policy { .. } => kind::POLICY,
        Input::TemporaryPriority { .. } => kind::TEMPORARY_PRIORITY,
        Input::Flushed { .. } => kind::FLUSHED,
        Input::Scheduled { .. } => kind::SCHEDULED,
    }
}

/// Every layout's number. Never used for another one.
pub(crate) const UNKNOWN: u64 = 0;
pub(crate) const EXTENTS: u64 = 1;
pub(crate) const STRIPED: u64 = 2;

fn layout(out: &mut Vec<u8>, layout: &Layout) {
    match layout {
        Layout::Unknown => put(out, UNKNOWN),
        Layout::Extents(extents) => {
            put(out, EXTENTS);
            put(out, extents.len() as u64);
            let (mut block, mut address) = (0, 0);
            for e in extents {
                put_difference(out, block, e.first_block.into());
                put(out, e.blocks.into());
                put_difference(out, address, e.address);
                put(out, e.stride);
                put(out, e.disk.0.into());
                (block, address) = (e.first_block.into(), e.address);
            }
        }
        Layout::Striped { disks, unit, base } => {
            put(out, STRIPED);
            put(out, (*disks).into());
            put(out, (*unit).into());
            put(out, *base);
        }
    }
}

/// Blocks of a list: the difference to the block before, doubled, plus one where the file follows because it is
/// another one. A sequential run takes a byte a block.
fn disclosed(out: &mut Vec<u8>, blocks: &[Block]) {
    put(out, blocks.len() as u64);
    let mut before = Before::default().block;
    for &block in blocks {
        let step = i64::from(block.index) - i64::from(before.index);
        let step = ((step << 1) ^ (step >> 63)) as u64;
        let moved = block.file != before.file;
        put(out, step << 1 | u64::from(moved));
        if moved {
            put(out, block.file.0.into());
        }
        before = block;
    }
}

/// A group of actions that went out, and what the sum is now.
pub(crate) fn actions(out: &mut Vec<u8>, actions: u64, sum: &Sum) {
    // Up to six fit into the first byte; a zero there says that the number follows.
    if actions < 7 {
        out.push(kind::ACTIONS | (actions as u8) << 5);
    } else {
        out.push(kind::ACTIONS);
        put(out, actions);
    }
    out.extend_from_slice(&sum.short().to_le_bytes());
}

/// Inputs and actions so far and their sum: a check, or the end.
pub(crate) fn totals(out: &mut Vec<u8>, first: u8, inputs: u64, sum: &Sum) {
    out.push(first);
    put(out, inputs);
    put(out, sum.actions());
    out.extend_from_slice(&sum.value().to_le_bytes());
}
