//! Traces of references: what programs read, in which order, and how long they computed in between.
//!
//! Everything that can be replayed is a [`TraceReader`]: a stream of [`Reference`]s, never all in memory,
//! beside a [`TraceMeta`] with the names of files and processes. A reader is either
//!
//! - a file in one of many formats, opened by [`open`], or
//! - a [`Workload`] by name: the ten traces of Kimbrel et al. (OSDI 1996), rebuilt or modelled, and
//!   zipf, loop and ReadN.
//!
//! [`Blocks`] turns the byte ranges of a reader into references to blocks, which is what caches and
//! policies see. [`convert`] stores a reader as Parquet (our own format), [`info()`] summarises one,
//! [`head`] lists its beginning, [`PatternSurvey`] counts where in its files it reads and writes, against time.
//!
//! Of foretell, the crate knows how files are written and how recordings are read.

mod blocks;
mod convert;
mod detecting;
mod error;
mod format;
mod head;
mod info;
mod input;
mod limits;
mod names;
mod open;
mod options;
mod pattern;
mod recorded;
mod reference;
mod store;
mod text;
mod workload;

pub use blocks::{Blocks, DEFAULT_BLOCK_BYTES};
pub use convert::{Converted, convert};
pub use error::TraceError;
pub use format::Format;
pub use head::{Head, HeadRow, head};
pub use info::{Info, info};
pub use limits::Limits;
pub use open::open;
pub use options::ReadOptions;
pub use pattern::{Cell, FilePattern, GRID_SIDE, GRIDS, Pattern, PatternShape, PatternSurvey};
pub use reference::{BlockReference, FileEntry, Reference, TraceMeta, TraceReader};
pub use store::{StoreReader, StoreWriter};
pub use workload::{Generator, LirsTrace, Published, Workload, WorkloadError};
