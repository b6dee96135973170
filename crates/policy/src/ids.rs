//! Names of things inside the policy: dense numbers that the plane hands out or receives.
//!
//! Dense ids index straight into tables, so no result ever depends on the order of a hash map, and a
//! hit costs no hashing. What a file or a process really is (device and inode, a pid) only its plane
//! knows.

/// A moment or a span, in nanoseconds, on whatever clock the plane uses (simulated or monotonic).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The sum, stopping at the largest value instead of wrapping.
    #[must_use]
    pub fn saturating_add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// The span since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The value in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// A file under control, as numbered by [`crate::Engine::add_file`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A process that references blocks, as numbered by [`crate::Engine::add_process`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// Who owns blocks and decides on their replacement: one process, or a group of processes under the
/// same rules (a shell and the commands that it starts, say). The papers' manager process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerId(pub u32);

/// A device that serves one queue of fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u16);

/// One block: the unit of caching, 8 KiB unless the plane says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// The file that the block is part of.
    pub file: FileId,
    /// Which block of the file, from 0. 32 bits reach 32 TiB at 8 KiB a block.
    pub index: u32,
}

impl Block {
    /// Block `index` of `file`.
    #[must_use]
    pub fn new(file: FileId, index: u32) -> Block {
        Block { file, index }
    }
}
