//! Observation of the page cache by BPF programs (`src/bpf/`).

mod error;
mod event;
mod record;

pub use error::ObserveError;
pub use event::{FileKey, Observation};

/// How an observer is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObserverConfig {
    /// Size of the ring between kernel and us, bytes: a power of two and a multiple of the page size. At 40
    /// bytes a record the default of 16 MiB holds 419,430 records, a quarter of a second of one CPU's reads
    /// at full speed.
    pub ring_bytes: u32,
    /// Wake the reader after this many references on one CPU; 0: only for what calls for action.
    /// [`Observer::set_wake_every`] changes it later.
    pub wake_every: u32,
}

impl Default for ObserverConfig {
    fn default() -> ObserverConfig {
        ObserverConfig { ring_bytes: 16 << 20, wake_every: 0 }
    }
}

/// Through what buffered reads are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadHook {
    /// The tracepoint `mm_filemap_get_pages`: comes when the data is there, knows where the read ends.
    Tracepoint,
    /// `fentry` on `filemap_read`, on kernels without the tracepoint: comes before the data is there.
    Fentry,
}

impl std::fmt::Display for ReadHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReadHook::Tracepoint => "tp_btf/mm_filemap_get_pages",
            ReadHook::Fentry => "fentry/filemap_read",
        })
    }
}
