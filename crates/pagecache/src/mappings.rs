//! Where a process has mapped a file: what `process_madvise(2)` needs to know to evict mapped pages.
//!
//! A process may have 65,530 mappings (`vm.max_map_count`) and as many as it likes of one file. The kernel takes a
//! microsecond or so to write a line about each. So only the first part of the list is read: what a process has
//! mapped behind that is not evicted.

use std::fs::File;
use std::io;
use std::ops::Range;

use crate::observe::FileKey;
use crate::proc_text;

/// The addresses at which process `pid` has mapped bytes of `offset..offset + length` of the file, as far as they
/// are found.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub(crate) fn of_file(pid: u32, key: FileKey, offset: u64, length: u64) -> io::Result<Vec<Range<usize>>> {
    let maps = File::open(format!("/proc/{pid}/maps"))?;
    proc_text::mapped(maps, key, offset..offset.saturating_add(length))
}
