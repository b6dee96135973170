//! Opening a trace in any of the formats.

use std::num::NonZeroU32;
use std::path::Path;

use crate::blocks::DEFAULT_BLOCK_BYTES;
use crate::error::TraceError;
use crate::format::Format;
use crate::input::Input;
use crate::limits::Limits;
use crate::recorded;
use crate::reference::{TraceMeta, TraceReader};
use crate::store::StoreReader;
use crate::text;

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

/// Opens a trace, compressed with gzip or zstd or not.
///
/// # Errors
/// The file cannot be opened, or is in no known format, or not in the one that was asked for. What is
/// wrong further on is reported by the reader when it gets there; a recording is read whole here.
pub fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
    if options.format == Some(Format::Foretell) {
        return Ok(Box::new(StoreReader::open(path)?));
    }
    let input = Input::open(path)?;
    let format = match options.format {
        Some(format) => format,
        None => Format::detect(path, &input.beginning)?,
    };
    let block_bytes = matches!(format, Format::Lirs | Format::OracleGeneral | Format::LibCacheSimCsv)
        .then_some(options.block_bytes);
    let meta = TraceMeta { source: input.path.to_string(), block_bytes, ..TraceMeta::default() };
    Ok(match format {
        Format::Foretell => Box::new(StoreReader::open(path)?),
        Format::Recording => Box::new(recorded::Reader::new(input, meta, options)?),
        Format::OracleGeneral => Box::new(text::oracle_general::Reader::new(input, meta, options)?),
        _ => text::open(format, input, meta, options)?,
    })
}
