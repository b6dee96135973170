//! Cold starts: no page of a file is in memory.
//!
//! Only the benchmark's own files are dropped, not everything (`/proc/sys/vm/drop_caches`): that would slow
//! down whatever else runs here, and say nothing about whether it worked.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::Advice;

/// `cachestat(2)` has the same number on every architecture (Linux 6.5).
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`; a length of 0 is to the end.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Writes back and drops every page of the file, and makes sure of it.
pub(crate) fn evict(path: &Path) -> Result<()> {
    /// How often pages that are just in use are tried, 10 ms apart.
    const TRIES: usize = 100;
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.sync_all().with_context(|| format!("cannot write back {}", path.display()))?;
    let mut left = 0;
    for _ in 0..TRIES {
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
            .with_context(|| format!("cannot drop {} from memory", path.display()))?;
        left = cached_pages(&file)?;
        if left == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("{left} pages of {} stay in memory; is it mapped by a program?", path.display())
}

/// Pages of the file in memory.
pub(crate) fn cached_pages(file: &File) -> Result<u64> {
    let range = Range { offset: 0, length: 0 };
    let mut pages = Pages::default();
    // SAFETY: cachestat reads one `struct cachestat_range` and writes one `struct cachestat`; both
    // structures here are laid out so (repr(C)) and live until the call returns.
    let outcome =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, 0u32) };
    match outcome {
        0 => Ok(pages.cached),
        _ => Err(std::io::Error::last_os_error()).context("cachestat (needs Linux 6.5)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicted_file_is_not_in_memory() {
        // Not in the temporary directory, which may be memory itself.
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        assert!(cached_pages(&File::open(&path).unwrap()).unwrap() > 0);
        evict(&path).unwrap();
        assert_eq!(cached_pages(&File::open(&path).unwrap()).unwrap(), 0);
    }
}
