//! From any reader to our own format.

use std::path::Path;

use serde::Serialize;

use crate::error::TraceError;
use crate::reference::TraceReader;
use crate::store::StoreWriter;

/// What a conversion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Converted {
    /// References that were written.
    pub references: u64,
    /// Size of the file that was written.
    pub file_bytes: u64,
}

/// Stores all references of `reader` as `to`, which appears only when everything is written.
///
/// # Errors
/// Errors of the reader, and of writing; nothing is left behind then.
pub fn convert(reader: &mut dyn TraceReader, to: &Path) -> Result<Converted, TraceError> {
    let mut writer = StoreWriter::create(to)?;
    let mut references = 0;
    for reference in &mut *reader {
        writer.push(&reference?)?;
        references += 1;
    }
    let file_bytes = writer.finish(reader.meta())?;
    Ok(Converted { references, file_bytes })
}
