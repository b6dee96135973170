//! Memory files, mapped: made and sealed, or received and checked.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The seals that keep every access from faulting, and keep themselves.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A shared mapping, unmapped when dropped. Memory is taken where something was written.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread. Its words are atomics; what its bytes are, whoever asks for
// them answers for.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory of so many bytes, all of them 0, and its file.
    pub(super) fn create(name: &CStr, bytes: usize) -> io::Result<(Mapping, OwnedFd)> {
        let memory = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&memory, SEALS)?;
        let mapping = Mapping::map(memory.as_fd(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok((mapping, memory))
    }

    /// Memory of another process, if it is sealed and of this length.
    pub(super) fn open(memory: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> io::Result<Mapping> {
        let is_sealed = rustix::fs::fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(SEALS));
        let length = rustix::fs::fstat(memory)?.st_size.cast_unsigned();
        if !is_sealed || length != bytes as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its memory is not what it should be"));
        }
        Mapping::map(memory, bytes, protection)
    }

    fn map(memory: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> io::Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice; no memory in use is touched.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, memory, 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, bytes })
    }

    /// Memory of this process alone.
    pub(super) fn private(bytes: usize) -> io::Result<Mapping> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as in `map`.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)?
        };
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, bytes })
    }

    /// `N` words from word `at` on.
    #[inline]
    pub(super) fn words<const N: usize>(&self, at: usize) -> &[AtomicU64; N] {
        assert!((at + N) * 8 <= self.bytes, "word {at} is outside of the mapping");
        // SAFETY: the range lies within the mapping, which lives as long as `self` and, being sealed, has memory behind
        // every byte; mappings begin on a page. What is seen as words is seen so by everybody: nobody asks for bytes of the
        // same mapping. That other processes write at the same time is what atomics are for.
        unsafe { self.start.add(at * 8).cast::<[AtomicU64; N]>().as_ref() }
    }

    /// Where some bytes lie.
    #[inline]
    pub(super) fn pointer(&self, at: usize, bytes: usize) -> NonNull<u8> {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "byte {at} is outside of the mapping");
        // SAFETY: within the mapping.
        unsafe { self.start.add(at) }
    }

    /// Gives all memory back to the system; what is read later is 0. Nobody may be reading.
    pub(super) fn give_back(&self) {
        // SAFETY: the range is the whole of a shared mapping of a memory file; the caller says that nobody reads it.
        let _ = unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxRemove) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and nobody can refer to it any longer.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_another_length_and_what_is_not_sealed_are_refused() {
        let (_mapping, memory) = Mapping::create(c"test", 8192).unwrap();
        assert!(Mapping::open(memory.as_fd(), 8192, ProtFlags::READ).is_ok());
        assert!(Mapping::open(memory.as_fd(), 4096, ProtFlags::READ).is_err());
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        assert!(Mapping::open(file.as_fd(), 8192, ProtFlags::READ).is_err());
    }
}
