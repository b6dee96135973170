//! How much a reader keeps in memory at most, whatever a trace contains.

/// Limits of a reader. Beyond one of them it stops with [`crate::TraceError::Limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a line of a text trace.
    pub line_bytes: u32,
    /// Files with a name.
    pub files: u32,
    /// Processes with a name.
    pub processes: u32,
    /// Bytes of all names together.
    pub name_bytes: u64,
    /// Distinct objects of a libCacheSim trace (about 20 bytes of memory each).
    pub objects: u32,
    /// Descriptors that are open at one time, over all processes of an strace recording.
    pub descriptors: u32,
    /// Bytes of the calls of an strace recording that are interrupted at one time.
    pub unfinished_bytes: u64,
}

impl Default for Limits {
    /// What fits a machine with a few gigabytes of memory.
    fn default() -> Limits {
        Limits {
            line_bytes: 1 << 20,
            files: 1 << 22,
            processes: 1 << 20,
            name_bytes: 1 << 29,
            objects: 1 << 27,
            descriptors: 1 << 20,
            unfinished_bytes: 1 << 26,
        }
    }
}

/// A table is full; the reader adds where it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitReached {
    pub(crate) limit: u64,
    pub(crate) what: &'static str,
}
