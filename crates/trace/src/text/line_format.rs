//! What a text format does with a line.

use crate::limits::LimitReached;
use crate::names::Names;
use crate::reference::Reference;

/// Bytes of a sector in traces of block devices.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Why a line gives no reference although it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    /// It does not look like this.
    Expected(&'static str),
    /// A table is full.
    Full(LimitReached),
}

impl From<LimitReached> for Problem {
    fn from(limit: LimitReached) -> Problem {
        Problem::Full(limit)
    }
}

/// A text format, and what it remembers from line to line.
pub(super) trait LineFormat: Send {
    /// The reference of a line that is not empty; `None` if it has none, as headers and comments do.
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem>;
}
