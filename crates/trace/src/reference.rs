//! The typed record of a trace and the interface of everything that yields such records.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::error::TraceError;

/// One reference of a process to a range of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Reference {
    /// Who: an index into [`TraceMeta::processes`].
    pub process: u32,
    /// Which file: an index into [`TraceMeta::files`].
    pub file: u32,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range.
    pub bytes: u64,
    /// Time for which the process computed since its previous reference, without waiting for data.
    pub compute_ns: u64,
    /// When the reference was made, on the clock of the trace, if the trace says so.
    pub timestamp_ns: Option<u64>,
    /// The range was written, not read.
    pub write: bool,
}

/// One reference of a process to one block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct BlockReference {
    /// Who: an index into [`TraceMeta::processes`].
    pub process: u32,
    /// Which file: an index into [`TraceMeta::files`].
    pub file: u32,
    /// Which block of the file, from 0.
    pub block: u32,
    /// Time for which the process computed since its previous reference, without waiting for data.
    pub compute_ns: u64,
    /// When the reference was made, on the clock of the trace, if the trace says so.
    pub timestamp_ns: Option<u64>,
    /// The block was written, not read.
    pub write: bool,
}

/// A file that a trace refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name: a path, a device, or whatever the trace calls it.
    pub name: String,
    /// How many bytes it has, as far as the references show; `None` before anybody has looked.
    pub bytes: Option<u64>,
}

/// What a trace says about itself. Readers that meet names on their way add them as they go, so that a
/// number in a [`Reference`] is always a valid index of what was there when it was yielded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TraceMeta {
    /// Where the references come from: a path, or a workload and its parameters.
    pub source: String,
    /// The block size that the trace was made for, if any; byte ranges are multiples of it then.
    pub block_bytes: Option<NonZeroU32>,
    /// The seed of a generated trace.
    pub seed: Option<u64>,
    /// Files, indexed by [`Reference::file`].
    pub files: Vec<FileEntry>,
    /// Names of processes, indexed by [`Reference::process`].
    pub processes: Vec<String>,
}

/// A stream of references in the order in which they were made.
///
/// [`Iterator::size_hint`] is exact where the number of references is known beforehand (generated
/// workloads, our own format, uncompressed fixed-size records). After an error the stream is over.
pub trait TraceReader: Iterator<Item = Result<Reference, TraceError>> + Send {
    /// What is known of the trace so far.
    fn meta(&self) -> &TraceMeta;
}

impl<R: TraceReader + ?Sized> TraceReader for Box<R> {
    fn meta(&self) -> &TraceMeta {
        (**self).meta()
    }
}

impl<R: TraceReader + ?Sized> TraceReader for &mut R {
    fn meta(&self) -> &TraceMeta {
        (**self).meta()
    }
}
