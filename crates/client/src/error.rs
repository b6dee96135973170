//! What a caller can do wrong.

use std::io;

/// A mistake of the caller. Never that there is no service, or that it is busy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The descriptor cannot be looked at: it is not open.
    #[error("not an open descriptor: {0}")]
    Descriptor(#[source] io::Error),
    /// The descriptor is of a directory, pipe, socket or device.
    #[error("not a regular file: only those are cached in blocks")]
    NotAFile,
    /// The descriptor was not opened for reading.
    #[error("the file is not open for reading, which shows that it may be read")]
    NotReadable,
    /// A range ends before it starts, or behind the last byte that a file can have.
    #[error("bytes {start} to {end} are no range of a file")]
    Range {
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
    /// More priority levels than a program may have.
    #[error("more than {0} priority levels: use fewer different priorities")]
    Levels(usize),
    /// More files with a priority than a program may have.
    #[error("more than {0} files with a priority: set that of files no longer needed to 0")]
    Files(usize),
}
