//! Logs of what a policy was told, and the policy told it all again.
//!
//! Everything that changes an [`foretell_policy::Engine`] goes through [`foretell_policy::Engine::tell`], and the
//! engine has no clock, no randomness and no I/O. So a log of its inputs is all it takes to run again what happened
//! in a simulation or on a live machine, to see where a changed policy first does something else, and to cut a
//! defect down to the few inputs that it takes.
//!
//! ```text
//!  plane ──► Engine ──► tap: Writer ──► NAME.partial ──► NAME
//!                                                          │ Reader
//!                                                          ▼
//!                             outcome, shrunk log  ◄──  replay, shrink  ──► another Engine
//! ```
//!
//! # The format
//!
//! Eight bytes of magic, two of version (little endian), then one zstd stream: the program's version, the engine's
//! whole [`foretell_policy::Config`], and records. A record is an input, a group of actions that went out (how many,
//! and 16 bits of the running sum over all actions so far), a check (the number of inputs and actions and the whole
//! sum, every [`CHECK_INPUTS`] inputs) or the end. Numbers are LEB128; times are differences to the time before,
//! blocks differences to the block before, so that an access takes 3 to 6 bytes before compression.
//!
//! The sum is 64-bit FNV-1a (Fowler, Noll, Vo; RFC 9923) over a fixed encoding of every action. It tells accidents
//! and changed behaviour, not forgeries.

mod config;
mod decode;
mod encode;
mod error;
mod input;
mod reader;
mod replaying;
mod shrinking;
mod sum;
mod writer;

pub use error::LogError;
pub use input::OwnedInput;
pub use reader::{Header, Reader, Record};
pub use replaying::{Difference, End, Event, Outcome, Panicked, replay, replay_with};
pub use shrinking::{Criterion, SHRINK_RUNS, Shrunk, UnknownCriterion, recorded, shrink, shrink_log};
pub use sum::Sum;
pub use writer::{DEFAULT_LIMIT_BYTES, Log, Writer, Written};

/// The first bytes of a log.
pub const MAGIC: [u8; 8] = *b"FTLINPUT";

/// The version of the format that is written.
pub const VERSION: u16 = 5;

/// The oldest one that is read: it lacks [`Input::DiskArm`](foretell_policy::Input::DiskArm) and
/// [`Config::late_positions`](foretell_policy::Config::late_positions).
pub const OLDEST_VERSION: u16 = 4;

/// Inputs between two checks of the whole sum. A page of them costs 0.01 bytes an input.
pub const CHECK_INPUTS: u64 = 4096;

/// Blocks of one disclosure at most: what `foretell sim` keeps in memory at most, 128 MiB of blocks here. A log ends
/// as cut before a longer one.
pub const MAX_DISCLOSED: usize = 1 << 24;

/// Extents of one file at most, 32 MiB of them: a file in more pieces is logged no further.
pub const MAX_EXTENTS: usize = 1 << 20;

/// Bytes of a name at most (the program's version, a planner).
pub const MAX_NAME_BYTES: usize = 64;

/// The most memory that the zstd stream of a log may ask for, as a power of two: 128 MiB, what its own command
/// allows.
const WINDOW_LOG: u32 = 27;
