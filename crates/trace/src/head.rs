//! The beginning of a trace, for people.

use std::fmt;

use serde::Serialize;

use crate::error::TraceError;
use crate::reference::TraceReader;

/// The first references of a trace. Printed, it is a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Where the references come from.
    pub source: String,
    /// The references.
    pub references: Vec<HeadRow>,
}

/// A reference with its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeadRow {
    /// Who.
    pub process: String,
    /// Which file.
    pub file: String,
    /// First byte.
    pub offset: u64,
    /// Length.
    pub bytes: u64,
    /// Compute time since the process's previous reference.
    pub compute_ns: u64,
    /// When, if the trace says so.
    pub timestamp_ns: Option<u64>,
    /// Written, not read.
    pub write: bool,
}

/// The first `count` references of `reader`.
///
/// # Errors
/// Those of the reader.
pub fn head(reader: &mut dyn TraceReader, count: usize) -> Result<Head, TraceError> {
    let mut references = Vec::new();
    while references.len() < count {
        let Some(reference) = reader.next().transpose()? else { break };
        let meta = reader.meta();
        let file = meta.files.get(reference.file as usize).map(|file| file.name.clone());
        let process = meta.processes.get(reference.process as usize).cloned();
        references.push(HeadRow {
            process: process.unwrap_or_default(),
            file: file.unwrap_or_default(),
            offset: reference.offset,
            bytes: reference.bytes,
            compute_ns: reference.compute_ns,
            timestamp_ns: reference.timestamp_ns,
            write: reference.write,
        });
    }
    Ok(Head { source: reader.meta().source.clone(), references })
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} {:>14} {:>10} {:>5}  process  file", "compute ms", "offset", "bytes", "")?;
        for row in &self.references {
            let kind = if row.write { "write" } else { "read" };
            let compute_ms = row.compute_ns as f64 / 1e6;
            writeln!(
                f,
                "{compute_ms:>12.6} {:>14} {:>10} {kind:>5}  {:<7}  {}",
                row.offset,
                row.bytes,
                row.process.escape_debug(),
                row.file.escape_debug()
            )?;
        }
        Ok(())
    }
}
