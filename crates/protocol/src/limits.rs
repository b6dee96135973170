//! How much of everything the protocol itself allows. (What a service allows on top, sessions and files and
//! rates, is its own configuration; a client learns its part of it from [`crate::Welcome`].)

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 8;

/// Bytes of a frame's body at most. A longer text goes in parts ([`crate::Part`]).
pub const BODY_BYTES: usize = 64 << 10;

/// Bytes of the text of an [`crate::Reply::Error`] or [`crate::Reply::Ended`] at most: one line.
pub const REASON_BYTES: usize = 1024;

/// Bytes of a text that came in parts at most: the status of some thousand processes.
pub const TEXT_BYTES: usize = 4 << 20;

/// Descriptors that one `sendmsg` may carry, and that may wait for their frames at a receiver.
pub const DESCRIPTORS: usize = 64;

/// The kernel's own limit for one `sendmsg` (`SCM_MAX_FD`, unix(7)).
pub const DESCRIPTORS_OF_KERNEL: usize = 253;

/// Bytes read from a socket at a time.
pub const RECEIVE_BYTES: usize = 16 << 10;

/// Entries of the smallest ring.
pub const RING_ENTRIES_LEAST: u32 = 64;

/// Entries of the largest ring: 2 MiB.
pub const RING_ENTRIES_MOST: u32 = 1 << 16;

/// Entries of a ring that nobody asked to be larger: 256 KiB of address space, of which only what has been
/// used is memory.
pub const RING_ENTRIES: u32 = 1 << 13;

/// Messages a second that a client sends on average at most. A program that goes through thousands of small files needs two for
/// each; what there is no room for is not said.
pub const MESSAGES_PER_S: u32 = 3072;

/// Messages that a client sends at once after a pause at most.
pub const MESSAGES_BURST: u32 = 8192;

/// Last byte that a file can have (`off_t`); no range ends behind it.
pub const FILE_BYTES: u64 = i64::MAX as u64;
