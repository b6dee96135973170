//! Where everything lies in the ring's memory.
//!
//! ```text
//! byte    0  tail        written by the producer
//!        64  head        written by the consumer
//!       128  sleeps      written by both
//!       192  dropped     written by the producer
//!       256  sequence    written by the consumer; the statistics follow at 264
//!      4096  entries, 32 bytes each
//! ```
//!
//! Words that different sides write lie 64 bytes apart, on cache lines of their own. The head, the tail and
//! the flag are numbers of the machine, as both sides run on it.

/// Bytes before the first entry: a page.
pub(super) const HEADER_BYTES: usize = 4096;
/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 32;
/// Words of an entry.
pub(super) const ENTRY_WORDS: usize = ENTRY_BYTES / 8;

/// The single words of the header.
#[derive(Debug, Clone, Copy)]
pub(super) enum Word {
    /// See [`super`].
    Tail = 0,
    /// See [`super`].
    Head = 64,
    /// See [`super`].
    Sleeps = 128,
    /// Entries that found no room.
    Dropped = 192,
    /// Of the statistics.
    Sequence = 256,
}

/// The first of the statistics.
pub(super) const STATISTICS: usize = Word::Sequence as usize + 8;

/// Bytes of the memory of a ring of `entries`.
#[must_use]
pub fn ring_bytes(entries: u32) -> usize {
    HEADER_BYTES + entries as usize * ENTRY_BYTES
}

/// The words of an entry.
pub(super) type Words = [u64; ENTRY_WORDS];
