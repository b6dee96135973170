//! What the kernel has cached of files.

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// How many pages of a file are in the page cache, as mincore(2) tells it. Reads nothing, and is no read to who observes.
///
/// # Panics
///
/// When the file cannot be opened or mapped.
#[must_use]
pub fn cached_pages(path: &Path) -> usize {
    let file = File::open(path).expect("a file to look at");
    let length = file.metadata().expect("its length").len();
    let length = usize::try_from(length).expect("a file that can be mapped");
    if length == 0 {
        return 0;
    }
    // SAFETY: asks for a number.
    let page_bytes =
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("the size of a page");
    let mut pages = vec![0_u8; length.div_ceil(page_bytes)];
    // SAFETY: a mapping of our own that only `mincore` looks at, and room for one byte a page of it.
    unsafe {
        let address =
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(address, libc::MAP_FAILED, "{} can be mapped", path.display());
        let looked = libc::mincore(address, length, pages.as_mut_ptr());
        libc::munmap(address, length);
        assert_eq!(looked, 0, "it can be asked about {}", path.display());
    }
    pages.into_iter().filter(|bits| bits & 1 != 0).count()
}
