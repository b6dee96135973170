//! Reading a part of a file ahead, for whoever guesses that it will be read.

use std::ops::Range;
use std::path::Path;

use crate::kernel::page_bytes;
use crate::open_regular;
use crate::page_cache::{Linux, PageCache};

/// Reads these bytes of a file into the page cache, or what there is of them, and waits for the last of them. Returns
/// whether any had to be read; `None` if there is no regular file on a disk, or it cannot be read.
#[must_use]
pub fn fetch_part(path: &Path, bytes: Range<u64>) -> Option<bool> {
    let file = open_regular(path)?;
    let start = bytes.start / page_bytes() * page_bytes();
    let length = bytes.end.min(file.metadata().ok()?.len()).saturating_sub(start);
    if length == 0 || Linux.status(&file, start, length).ok()?.cached >= length.div_ceil(page_bytes()) {
        return Some(false);
    }
    Linux.start_read(&file, start, length).ok()?;
    Linux.await_page(&file, start + length - 1).ok().map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::cached_pages;
    use std::io::Write;

    #[test]
    fn what_is_not_cached_is_read_and_what_is_no_file_is_not() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert_eq!(fetch_part(file.path(), 0..1 << 20), Some(false), "an empty one");
        file.write_all(&vec![1; 100_000]).unwrap();
        file.as_file().sync_all().unwrap();
        assert_eq!(fetch_part(file.path(), 0..1 << 20), Some(false), "it has just been written");
        Linux.drop_range(file.as_file(), 0, 0).unwrap();
        assert_eq!(fetch_part(file.path(), 0..1 << 20), Some(true));
        assert_eq!(fetch_part(file.path(), 0..1 << 20), Some(false));
        assert_eq!(
            Linux.status(file.as_file(), 0, 100_000).unwrap().cached,
            100_000_u64.div_ceil(page_bytes())
        );
        Linux.drop_range(file.as_file(), 0, 0).unwrap();
        assert_eq!(fetch_part(file.path(), 50_000..60_000), Some(true));
        assert_eq!(fetch_part(file.path(), 50_000..60_000), Some(false));
        let middle = 50_000 / page_bytes()..=59_999 / page_bytes();
        assert_eq!(
            cached_pages(file.as_file(), 100_000, 9).unwrap().0,
            middle.collect::<Vec<_>>(),
            "no more than that"
        );
        assert_eq!(fetch_part(file.path(), 1 << 20..2 << 20), Some(false), "beyond its end");
        for path in ["/dev/zero", "/no/such/file", "/"] {
            assert_eq!(fetch_part(Path::new(path), 0..4096), None, "{path}");
        }
    }
}
