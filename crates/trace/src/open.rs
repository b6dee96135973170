//! Opening a trace in any of the formats.

use std::path::Path;

use crate::error::TraceError;
use crate::format::Format;
use crate::input::Input;
use crate::options::ReadOptions;
use crate::recorded;
use crate::reference::{TraceMeta, TraceReader};
use crate::store::StoreReader;
use crate::text;

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
