//! Knowledge: streams of predicted references, and where their readers are in them.
//!
//! A *stream* is what one *reader* (a process role) referenced before, in order: a list of *positions*, each naming a
//! block. *Alignment* says which position a live reference is. A job never does exactly the same again, so:
//!
//! 1. A reference is matched *within its own file*. Of the positions that name its block, the nearest to where this
//!    file's part of the stream has come is taken, counted in positions of this file: files that interleave
//!    differently do not disturb each other. A file has two such places, so that a stray reference does not lose the
//!    good one.
//! 2. A position that is further off is taken only inside the *window* around the *frontier* (see `frontier`).
//!    Positions are used up one by one, in any order. What falls behind the window is *given up*.
//! 3. To go further takes evidence (see `place`): the runs that came last must be found together at another place,
//!    so that chance does not explain it, and better than the present one explains them. A jump can go back. Nothing is
//!    discarded: after a jump, what lies from there on is live again.
//! 4. A stream that explained nothing for a while sleeps: of each run it looks at the first block alone, and wakes
//!    when it finds that where it is expected, or enough evidence for another place.
//! 5. A reader that is not known is compared with all streams by its first runs (see `readers`).
//!
//! ```text
//!  list        positions, links between those of a block, files       17 bytes a position
//!  runs        the runs referenced last: one piece of evidence each
//!  belonging   where a reference belongs that is not the next one
//!  frontier    where the stream has come
//!  sleep       when a stream explains nothing
//!  place       which far place explains the last runs
//!  confidence  how often predictions came true
//!  visits      whether the next file is the one that the list names
//!  stream      all of them together
//!  readers     which reader is on which stream
//! ```
//!
//! Pure, deterministic, and without failure: any sequence of calls is fine. Blocks and files are dense ids that the
//! caller hands out; an id must mean the same block as long as a stream lists it.

mod belonging;
mod bits;
mod confidence;
mod frontier;
mod list;
mod paged;
mod place;
mod readers;
mod runs;
mod sleep;
mod stream;
mod visits;

use std::ops::Range;

pub use confidence::Class;
pub(crate) use list::{NONE, RELEASED};
pub(crate) use paged::Paged;
pub use readers::Readers;
pub use stream::Stream;

/// One reference, predicted or live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The block's dense id.
    pub block: u32,
    /// The dense id of its file.
    pub file: u32,
    /// Which block of the file it is.
    pub index: u32,
}

/// How a live reference met a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It is this position, which is used up with it. It may lie behind the window, where a file was left.
    At(u32),
    /// It was predicted, and its position is used up: the block was referenced again.
    Again,
    /// It was not predicted.
    Unpredicted,
}

/// Positions whose state changed all at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// They fell behind the window; those that are not used up will not be waited for.
    GivenUp(Range<u32>),
    /// They may have become live again. The next use of a block that they name is to be asked for anew.
    Resumed(Range<u32>),
}

/// What references found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// References in all.
    pub references: u64,
    /// Those that used up a position.
    pub matched: u64,
    /// Those of a block whose position was used up already.
    pub again: u64,
    /// Jumps to a place that was found by evidence.
    pub jumps: u64,
    /// Positions of the list that were looked for and were not at their file's place.
    pub out_of_order: u64,
}

/// How much a stream, and all of them together, may hold and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Positions on each side of the frontier in which references may come in any order: as many as the cache has
    /// blocks.
    pub window: u32,
    /// Positions of one stream that are held. More are not taken before older ones are released.
    pub positions: u32,
    /// Positions behind the frontier that are held at least, if there is room, for a reader that goes back. What lies
    /// further behind can be released.
    pub behind: u32,
    /// Ids of blocks and files are below this. Others are not taken.
    pub ids: u32,
    /// Streams. More are not taken.
    pub streams: u32,
    /// Readers at the same time. One more has no stream.
    pub readers: u32,
}

impl Default for Limits {
    /// A cache of 128 MiB, lists of 512 GiB of references, 2 GiB of them behind the reader, at 8 KiB a block.
    fn default() -> Limits {
        Limits {
            window: 16_384,
            positions: 1 << 26,
            behind: 1 << 18,
            ids: 1 << 26,
            streams: 64,
            readers: 256,
        }
    }
}
