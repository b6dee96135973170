//! What the plane asks of the kernel's page cache, behind one trait, so that tests can put delays and
//! refusals between the plane and the kernel.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::kernel::{CacheStatus, advise, cachestat, is_missing, mincore_status};
use crate::mappings;
use crate::shown::Names;

/// The operations on the page cache. None of them is relied on to have an effect.
pub(crate) trait PageCache: Send + Sync {
    /// Starts to read a range of a file into the cache, without waiting: `readahead(2)`.
    fn start_read(&self, file: &File, offset: u64, length: u64) -> io::Result<()>;

    /// Waits until the page at `offset` is there; `false` when the file ends before it.
    fn await_page(&self, file: &File, offset: u64) -> io::Result<bool>;

    /// Drops the folios that lie in a range of a file and are clean, unmapped and not in use.
    fn drop_range(&self, file: &File, offset: u64, length: u64) -> io::Result<()>;

    /// Drops the pages of a range of a file that a process has mapped.
    fn page_out(&self, pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<()>;

    /// What is cached of a range of a file.
    fn status(&self, file: &File, offset: u64, length: u64) -> io::Result<CacheStatus>;
}

/// The kernel itself.
#[derive(Debug)]
pub(crate) struct Linux;

impl PageCache for Linux {
    fn start_read(&self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // SAFETY: no memory of ours is involved.
        let result = unsafe { libc::readahead(file.as_raw_fd(), offset.cast_signed(), length) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn await_page(&self, file: &File, offset: u64) -> io::Result<bool> {
        file.read_at(&mut [0], offset).map(|bytes| bytes == 1)
    }

    fn drop_range(&self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        advise(file, offset, length, libc::POSIX_FADV_DONTNEED)
    }

    fn page_out(&self, pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<()> {
        mappings::page_out(pid, file, offset, length)
    }

    fn status(&self, file: &File, offset: u64, length: u64) -> io::Result<CacheStatus> {
        match cachestat(file, offset, length) {
            Err(error) if is_missing(&error) => mincore_status(file, offset, length),
            told => told,
        }
    }
}
