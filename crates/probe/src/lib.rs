//! Timed reads of real things, for [`foretell_analytic::calibrate`]: that module says which requests to make
//! and what their times mean; this crate makes them.
//!
//! - [`target`]: a file or a block device, opened for direct reads.
//! - [`requests`]: the requests of a plan, one thread for each in flight.
//! - [`processor`]: the processor's part of reads through the page cache.
//!
//! Nothing is written. Reading drops the file's clean pages from memory where a read must miss.

pub mod processor;
pub mod requests;
pub mod target;

mod buffer;

pub use buffer::AlignedBuffer;
pub use requests::run;
pub use target::{Target, TargetError};
