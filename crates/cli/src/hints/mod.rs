//! Hint files: what a program will read, in order.
//!
//! One hint a line, as text, gzip or zstd (told apart by their first bytes, not by their names):
//!
//! ```text
//! # a file, read from beginning to end
//! src/main.c
//! # bytes 65536 to 131071 of a file: path, offset, length
//! data.db 65536 65536
//! # a path with spaces or a quote in it
//! "a file" 0 8192
//! ```
//!
//! Or a recording of an earlier run, which names what it read without any text.
//!
//! [`mod@line`] reads and writes one line and touches nothing else; [`lines`] cuts a stream of any of the three kinds into
//! lines in bounded memory; [`check`] reads a whole file before the program starts, so that a bad line is
//! found then; [`feed`] hands hints over while the program runs, from a file that may grow, a FIFO or
//! standard input.

pub mod check;
pub mod feed;
pub mod line;
pub mod lines;

use std::path::Path;
use std::sync::Arc;

use foretelld::RunHint;

/// A range of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes, at least 1. `offset + length` does not overflow.
    pub length: u64,
}

impl ByteRange {
    /// The byte after the last one.
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset + self.length
    }
}

/// One disclosed read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// The file, absolute. Shared by the hints that follow each other on one file.
    pub path: Arc<Path>,
    /// What is read of it; `None` for all, from beginning to end.
    pub range: Option<ByteRange>,
}

impl Hint {
    /// The same for a host.
    #[must_use]
    pub fn to_run(&self) -> RunHint {
        RunHint {
            path: self.path.to_path_buf(),
            offset: self.range.map_or(0, |range| range.offset),
            length: self.range.map(|range| range.length),
        }
    }
}
