//! How to read a trace.

use std::num::NonZeroU32;

use crate::blocks::DEFAULT_BLOCK_BYTES;
use crate::format::Format;
use crate::limits::Limits;

/// How to read a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format; `None` tells it from the file's name and beginning.
    pub format: Option<Format>,
    /// Size of a block, for the formats that number blocks (LIRS) or objects (libCacheSim, where every
    /// object counts as one block, whatever its size).
    pub block_bytes: NonZeroU32,
    /// What of a blkparse trace is a reference: `Q` (queued by the file system), `D` (sent to the device)
    /// or `C` (completed).
    pub blkparse_action: u8,
    /// What to keep in memory at most.
    pub limits: Limits,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            format: None,
            block_bytes: DEFAULT_BLOCK_BYTES,
            blkparse_action: b'Q',
            limits: Limits::default(),
        }
    }
}
