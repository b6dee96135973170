//! Reading the beginning of a file ahead, for whoever guesses that it will be read.

use std::path::Path;

use crate::kernel::{Linux, PageCache, page_bytes};
use crate::open_regular;

/// Reads the first `bytes` of a file into the page cache, or what there is of them, and waits for the last of them.
/// Returns whether any had to be read; `None` if there is no regular file on a disk, or it cannot be read.
#[must_use]
pub fn fetch_beginning(path: &Path, bytes: u64) -> Option<bool> {
    let file = open_regular(path)?;
    let bytes = bytes.min(file.metadata().ok()?.len());
    if bytes == 0 || Linux.status(&file, 0, bytes).ok()?.cached >= bytes.div_ceil(page_bytes()) {
        return Some(false);
    }
    Linux.start_read(&file, 0, bytes).ok()?;
    Linux.await_page(&file, bytes - 1).ok().map(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_not_cached_is_read_and_what_is_no_file_is_not() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert_eq!(fetch_beginning(file.path(), 1 << 20), Some(false), "an empty one");
        file.write_all(&vec![1; 100_000]).unwrap();
        file.as_file().sync_all().unwrap();
        assert_eq!(fetch_beginning(file.path(), 1 << 20), Some(false), "it has just been written");
        Linux.drop_range(file.as_file(), 0, 0).unwrap();
        assert_eq!(fetch_beginning(file.path(), 1 << 20), Some(true));
        assert_eq!(fetch_beginning(file.path(), 1 << 20), Some(false));
        assert_eq!(
            Linux.status(file.as_file(), 0, 100_000).unwrap().cached,
            100_000_u64.div_ceil(page_bytes())
        );
        for path in ["/dev/zero", "/no/such/file", "/"] {
            assert_eq!(fetch_beginning(Path::new(path), 4096), None, "{path}");
        }
    }
}
