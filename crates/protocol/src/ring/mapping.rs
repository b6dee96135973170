//! The memory of a ring: made and sealed, or received and checked, and seen as atomic words.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::layout::{ENTRY_BYTES, ENTRY_WORDS, HEADER_BYTES, STATISTICS, Word, Words, ring_bytes};
use crate::limits::{RING_ENTRIES_LEAST, RING_ENTRIES_MOST};
use crate::message::is_ring_size;
use crate::statistics::WORDS;

/// A ring cannot be made, is not to be trusted, or has gone wrong.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The number of entries is not permitted.
    #[error(
        "a ring of {0} entries; it must be a power of two from {RING_ENTRIES_LEAST} to {RING_ENTRIES_MOST}"
    )]
    Size(u32),
    /// The memory could still be shrunk or grown.
    #[error("the ring's memory is not sealed against shrinking and growing")]
    NotSealed,
    /// The memory has another size than its entries need.
    #[error("the ring's memory has {found} bytes, not {wanted}")]
    Length {
        /// Bytes found.
        found: u64,
        /// Bytes that the entries need.
        wanted: usize,
    },
    /// Not plain memory (huge pages can run out and fault).
    #[error("the ring's memory is of a kind that may fault")]
    Kind,
    /// The positions contradict each other.
    #[error("the ring's tail {tail} cannot be, with its head at {head}")]
    Corrupt {
        /// The consumer's own position.
        head: u64,
        /// What the producer wrote.
        tail: u64,
    },
    /// The system refuses.
    #[error("the ring's memory: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for RingError {
    fn from(error: rustix::io::Errno) -> RingError {
        RingError::System(error.into())
    }
}

/// The seals that keep every access from faulting, and keep themselves.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// `TMPFS_MAGIC` of linux/magic.h: the file system of memory files without huge pages.
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// A shared mapping of `ring_bytes(entries)` bytes, readable and writable, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    entries: u32,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed through atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above; everything that goes through `&Mapping` is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Makes sealed memory and maps it.
    pub(super) fn create(entries: u32) -> Result<(Mapping, OwnedFd), RingError> {
        if !is_ring_size(entries) {
            return Err(RingError::Size(entries));
        }
        let memory =
            rustix::fs::memfd_create(c"foretell-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, ring_bytes(entries) as u64)?;
        rustix::fs::fcntl_add_seals(&memory, SEALS)?;
        let mapping = Mapping::open(std::os::fd::AsFd::as_fd(&memory), entries)?;
        // SAFETY: the range is the one that was just mapped. A child of fork does not get it at all and so
        // cannot write into its parent's ring.
        unsafe {
            let range = mapping.start.as_ptr().cast();
            rustix::mm::madvise(range, ring_bytes(entries), Advice::LinuxDontFork)?;
        }
        Ok((mapping, memory))
    }

    /// Checks memory that somebody made, and maps it.
    pub(super) fn open(memory: BorrowedFd<'_>, entries: u32) -> Result<Mapping, RingError> {
        if !is_ring_size(entries) {
            return Err(RingError::Size(entries));
        }
        // What is no memory file has no seals.
        let seals = rustix::fs::fcntl_get_seals(memory).map_err(|_| RingError::NotSealed)?;
        if !seals.contains(SEALS) || seals.intersects(SealFlags::WRITE) {
            return Err(RingError::NotSealed);
        }
        if rustix::fs::fstatfs(memory)?.f_type != TMPFS {
            return Err(RingError::Kind);
        }
        let (found, wanted) = (rustix::fs::fstat(memory)?.st_size.cast_unsigned(), ring_bytes(entries));
        if found != wanted as u64 {
            return Err(RingError::Length { found, wanted });
        }
        // SAFETY: a new mapping at an address of the kernel's choice; no memory in use is touched.
        let start = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), wanted, protection, MapFlags::SHARED, memory, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(RingError::Kind)?;
        Ok(Mapping { start, entries })
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// `N` words from byte `at`, a multiple of 8.
    fn words<const N: usize>(&self, at: usize) -> &[AtomicU64; N] {
        assert!(at.is_multiple_of(8) && at + 8 * N <= ring_bytes(self.entries));
        // SAFETY: the range lies within the mapping, which lives as long as `self` and, being sealed, has
        // memory behind every byte; it is aligned, as mappings begin on a page. Everybody in this process
        // sees it as atomics only. That another process may write at the same time is what atomics are for:
        // any bit pattern is a valid u64.
        unsafe { self.start.add(at).cast::<[AtomicU64; N]>().as_ref() }
    }

    pub(super) fn word(&self, word: Word) -> &AtomicU64 {
        let [word] = self.words::<1>(word as usize);
        word
    }

    pub(super) fn statistics(&self) -> &[AtomicU64; WORDS] {
        self.words(STATISTICS)
    }

    /// The slot of a position.
    pub(super) fn slot(&self, position: u64) -> &[AtomicU64; ENTRY_WORDS] {
        let slot = position % u64::from(self.entries);
        self.words(HEADER_BYTES + slot as usize * ENTRY_BYTES)
    }

    /// What is in the slot of a position, each word read once.
    pub(super) fn load(&self, position: u64) -> Words {
        self.slot(position).each_ref().map(|word| u64::from_le(word.load(Relaxed)))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and nobody can refer to it any longer. Failing to
        // unmap a whole mapping is impossible (mmap(2)); it would leak.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), ring_bytes(self.entries)) };
    }
}
