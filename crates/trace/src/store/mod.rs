//! Our own trace format: Parquet, compressed with zstd.
//!
//! One row a reference, in order, in row groups of [`ROW_GROUP_ROWS`], so that both ends stream. Columns:
//!
//! ```text
//!  process       INT32 unsigned   index of a process name     dictionary
//!  file          INT32 unsigned   index of a file name        dictionary
//!  offset        INT64 unsigned   first byte                  delta, packed
//!  bytes         INT64 unsigned   length                      dictionary
//!  compute_ns    INT64 unsigned   compute time before it      delta, packed
//!  timestamp_ns  INT64 unsigned   optional                    delta, packed
//!  write         BOOLEAN                                      runs
//! ```
//!
//! The key-value metadata of the footer says what the file is (`foretell.trace`, the number of this
//! layout) and holds the [`crate::TraceMeta`] as JSON (`foretell.meta`): source, block size, seed, names
//! and sizes of files, names of processes. Other tools read the columns as they are.

mod reader;
mod writer;

pub use reader::StoreReader;
pub use writer::StoreWriter;

/// How a Parquet file begins and ends.
pub(crate) const MAGIC: [u8; 4] = *b"PAR1";

/// Rows of a row group: 2^20 keep a group's buffers near 50 MB, and page headers and dictionaries far
/// below a percent.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Metadata key whose value is [`LAYOUT`].
const LAYOUT_KEY: &str = "foretell.trace";
/// Metadata key of the description of the trace.
const META_KEY: &str = "foretell.meta";
/// Number of the layout of columns and metadata; another number is another layout.
const LAYOUT: &str = "1";

const SCHEMA: &str = "
message foretell_trace {
    REQUIRED INT32 process (INTEGER(32, false));
    REQUIRED INT32 file (INTEGER(32, false));
    REQUIRED INT64 offset (INTEGER(64, false));
    REQUIRED INT64 bytes (INTEGER(64, false));
    REQUIRED INT64 compute_ns (INTEGER(64, false));
    OPTIONAL INT64 timestamp_ns (INTEGER(64, false));
    REQUIRED BOOLEAN write;
}";

/// The number of columns of [`SCHEMA`].
const COLUMNS: usize = 7;
