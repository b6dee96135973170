//! What a process can do for itself without a service (posix_fadvise(2)).

use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

use foretell_protocol::Range;
use rustix::fs::{Advice, fadvise};

/// Bytes read ahead in one call at most. Nobody watches how far the program has come, so that more might be
/// dropped again before it is read.
const BYTES: u64 = 4 << 20;

/// Reads ahead what is disclosed, until [`BYTES`] of one call were asked for.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    left: u64,
}

impl ReadAhead {
    pub(crate) fn new() -> ReadAhead {
        ReadAhead { left: BYTES }
    }

    /// The range, or as much of it as is left to be asked for.
    pub(crate) fn range(&mut self, descriptor: BorrowedFd<'_>, range: Range) {
        self.bytes(descriptor, range.start(), range.length());
    }

    /// A file from its beginning.
    pub(crate) fn file(&mut self, descriptor: BorrowedFd<'_>, bytes: u64) {
        self.bytes(descriptor, 0, bytes);
    }

    fn bytes(&mut self, descriptor: BorrowedFd<'_>, start: u64, length: u64) {
        let length = length.min(self.left);
        // A length of 0 would mean the rest of the file.
        if let Some(length) = NonZeroU64::new(length) {
            self.left -= length.get();
            // Advice: a file that takes none is read all the same.
            let _ = fadvise(descriptor, start, Some(length), Advice::WillNeed);
        }
    }
}

/// Drops a range: the kernel keeps pages that are only in part within.
pub(crate) fn drop_range(descriptor: BorrowedFd<'_>, range: Range) {
    let _ = fadvise(descriptor, range.start(), NonZeroU64::new(range.length()), Advice::DontNeed);
}
