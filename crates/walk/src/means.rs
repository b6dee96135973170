//! What a walker needs of the machine.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::listing::Beside;
use crate::neighbours::OnDisk;

/// What was found of a file that was to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It was cached.
    Cached,
    /// It was not, and is now.
    Absent,
    /// It cannot be read.
    Nothing,
}

/// What a walker needs of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Means {
    /// Reads these bytes of a file into the page cache, and waits for them.
    pub fetch: fn(&Path, Range<u64>) -> Found,
    /// Blocks that this thread has asked disks for so far.
    pub blocks_read: fn() -> i64,
    /// How many files of the disk on which this one lies should be read at a time.
    pub readers: fn(&Path) -> usize,
    /// Whether the disk of a file or directory has an arm,
    pub has_arm: fn(&Path) -> bool,
    /// where on its device the first bytes of a file lie, if they are in one piece,
    pub beginning: fn(&Path, u64) -> Option<OnDisk>,
    /// and what reads the beginnings of files, all at once, and waits for them.
    pub fetch_together: fn(&[(PathBuf, u64)]) -> Vec<Found>,
    /// Other paths to directories, by which their mounts are not kept busy.
    pub beside: Beside,
    /// Bytes of files that may be read ahead because they lie beside others on such a disk.
    pub along_bytes: u64,
    /// Bytes of files that may be read ahead of their use; as much again of names and inodes, and half as much within files.
    pub budget_bytes: u64,
    /// Bytes of files that are read here and there and may be read as a whole.
    pub whole_bytes: u64,
}
