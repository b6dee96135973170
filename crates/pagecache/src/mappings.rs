//! Where a process has mapped a file: what `process_madvise(2)` needs to know to evict mapped pages.
//!
//! A process may have 65,530 mappings (`vm.max_map_count`) and as many as it likes of one file. The kernel takes a
//! microsecond or so to write a line about each. So only the first part of the list is read: what a process has
//! mapped behind that is not evicted.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Seek};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::file_at;
use crate::file_key::FileKey;
use crate::kernel::pidfd_open;
use crate::proc_text::{Mapped, mapped};
use crate::reach::Broker;
use crate::shown::Names;

/// The addresses at which process `pid` has mapped bytes of `offset..offset + length` of the file, as far as they
/// are found.
///
/// # Errors
/// When the process is gone or may not be looked at.
fn of_file(pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<Vec<Range<usize>>> {
    let maps = File::open(format!("/proc/{pid}/maps"))?;
    let bytes = offset..offset.saturating_add(length);
    let mut ranges: Vec<Mapped> = mapped(&maps, file.key, bytes.clone())?;
    if file.shown != file.key {
        let mut maps = maps;
        maps.rewind()?;
        let others = mapped(&maps, file.shown, bytes)?;
        // btrfs shows all its subvolumes under one device number.
        ranges.extend(others.into_iter().filter(|(_, whole)| is_mapped_at(pid, whole, file.key)));
    }
    Ok(ranges.into_iter().map(|(range, _)| range).collect())
}

/// Pages out what a process has mapped of a range of a file.
///
/// # Errors
/// When the process is gone, or the kernel refuses.
pub(crate) fn page_out(pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<()> {
    match Broker::of_process() {
        Some(broker) => broker.page_out(pid, file, offset, length),
        None => page_out_here(pid, file, offset, length),
    }
}

/// Drops the pages of a range of a file that a process has mapped, with this process's own rights.
///
/// # Errors
/// When the process is gone, may not be looked at, or the kernel refuses.
pub(crate) fn page_out_here(pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<()> {
    let ranges = of_file(pid, file, offset, length)?;
    if ranges.is_empty() {
        return Ok(());
    }
    let pidfd = pidfd_open(pid)?;
    for range in ranges {
        let vector =
            libc::iovec { iov_base: range.start as *mut libc::c_void, iov_len: range.end - range.start };
        // SAFETY: the vector describes memory of the other process, which the kernel checks; the
        // pointer to it is good for the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                pidfd.as_raw_fd(),
                &raw const vector,
                1_usize,
                libc::MADV_PAGEOUT,
                0_u32,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Is it this file that a process has mapped from and to these addresses?
fn is_mapped_at(pid: u32, whole: &Range<u64>, key: FileKey) -> bool {
    let link = format!("/proc/{pid}/map_files/{:x}-{:x}", whole.start, whole.end);
    file_at::look(Path::new(&link)).is_ok_and(|looks| looks.is(key))
}
