//! The reads that Linux makes of a file read from its start: mm/readahead.c, checked on 6.18.
//!
//! The first read of n pages loads a window of n rounded up to a power of two, times 4 if that is at most
//! max/32, times 2 if at most max/4, else max (`get_init_ra_size`). A marker sits behind the n pages that
//! were asked for; whoever reads it starts the next window, and so on: each later window carries its marker
//! on its first page, so one window is always in flight while the one before it is consumed. Windows grow
//! by 4 below max/16, by 2 up to max/2, then stay at max (`get_next_ra_size`). max is `read_ahead_kb`.
//!
//! ```text
//! read_ahead_kb 128, reads of 8 KB:   |16|32  |64      |128             |128             | ...
//! ```
//!
//! Measured on 6.18 with `read_ahead_kb` 8192 and reads of 4 KB: 16, 64, 240, 960 KB. The last two are 256 and
//! 1024 KB cut to end on a multiple of a large folio, which newer kernels do and this does not count.
//!
//! A read larger than max is loaded as it is. With `read_ahead_kb` 0 each page is read by itself. Reads
//! that are not sequential are loaded as they are (`page_cache_sync_ra`, the small random read).

/// Bytes in a page.
pub const PAGE_BYTES: u64 = 4096;

/// The disk requests that read a file in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    /// The first requests, in bytes, while their size changes.
    pub head_bytes: Vec<u64>,
    /// Size of all later ones but the last, in bytes.
    pub steady_bytes: u64,
    /// How many of those there are.
    pub steady: u64,
    /// What is left for the last one, in bytes; 0 if nothing is.
    pub last_bytes: u64,
    /// Further requests of one block that have to be waited for: indirect blocks.
    pub indirect: u64,
}

impl Windows {
    /// Requests that fetch data.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.head_bytes.len() as u64 + self.steady + u64::from(self.last_bytes > 0)
    }

    /// `bytes` in requests of `request_bytes`.
    #[must_use]
    pub fn uniform(bytes: u64, request_bytes: u64) -> Windows {
        Windows {
            head_bytes: Vec::new(),
            steady_bytes: request_bytes,
            steady: bytes / request_bytes,
            last_bytes: bytes % request_bytes,
            indirect: 0,
        }
    }
}

/// `get_init_ra_size`, in pages.
#[must_use]
pub fn first_window_pages(request_pages: u64, max_pages: u64) -> u64 {
    let size = request_pages.next_power_of_two();
    if size <= max_pages / 32 {
        size * 4
    } else if size <= max_pages / 4 {
        size * 2
    } else {
        max_pages
    }
}

/// `get_next_ra_size`, in pages.
#[must_use]
pub fn next_window_pages(pages: u64, max_pages: u64) -> u64 {
    if pages < max_pages / 16 {
        pages * 4
    } else if pages <= max_pages / 2 {
        pages * 2
    } else {
        max_pages
    }
}

/// The windows in which Linux loads a file of `bytes` that is read from its start in requests of
/// `request_bytes`, both at least 1.
#[must_use]
pub fn windows(bytes: u64, request_bytes: u64, read_ahead_bytes: u64) -> Windows {
    let max_pages = read_ahead_bytes / PAGE_BYTES;
    let request_pages = request_bytes.div_ceil(PAGE_BYTES);
    if max_pages == 0 {
        return Windows::uniform(bytes, PAGE_BYTES);
    }
    if request_pages > max_pages {
        return Windows::uniform(bytes, request_bytes);
    }
    let mut pages = first_window_pages(request_pages, max_pages);
    let (mut left_bytes, mut head_bytes) = (bytes, Vec::new());
    while pages < max_pages && left_bytes > 0 {
        let window_bytes = (pages * PAGE_BYTES).min(left_bytes);
        head_bytes.push(window_bytes);
        left_bytes -= window_bytes;
        pages = next_window_pages(pages, max_pages);
    }
    Windows { head_bytes, ..Windows::uniform(left_bytes, max_pages * PAGE_BYTES) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_to_read_ahead_kb() {
        let w = windows(1 << 20, 8 << 10, 128 << 10);
        assert_eq!(w.head_bytes, [16 << 10, 32 << 10, 64 << 10]);
        // 1024 - 112 = 912 KB are seven windows and a rest.
        assert_eq!((w.steady_bytes, w.steady, w.last_bytes, w.count()), (128 << 10, 7, 16 << 10, 11));
        // As measured with 8192 KB, but for the last window, which ends on a large folio there.
        assert_eq!(windows(1 << 20, 4 << 10, 8192 << 10).head_bytes[..3], [16 << 10, 64 << 10, 256 << 10]);
    }

    #[test]
    fn the_ends_of_the_range_of_read_ahead() {
        assert_eq!(windows(1 << 20, 8 << 10, 0), Windows::uniform(1 << 20, 4096));
        assert_eq!(windows(1 << 20, 256 << 10, 128 << 10), Windows::uniform(1 << 20, 256 << 10));
        assert_eq!(windows(5000, 8 << 10, 128 << 10).head_bytes, [5000]);
    }
}
