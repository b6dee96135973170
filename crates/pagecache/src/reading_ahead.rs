//! Reading files and parts of them ahead, for whoever guesses that they will be read.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::kernel::page_bytes;
use crate::page_cache::{Linux, PageCache};
use crate::{extents, open_regular};

/// Reads these bytes of a file into the page cache, or what there is of them, and waits for the last of them. Returns
/// whether any had to be read; `None` if there is no regular file on a disk, or it cannot be read.
#[must_use]
pub fn fetch_part(path: &Path, bytes: Range<u64>) -> Option<bool> {
    begin(path, bytes)?.end()
}

/// Reads the beginnings of files, all at once: to a disk with an arm requests that follow each other there are one, if
/// nobody else's come between. Returns of each what [`fetch_part`] does. No more than some hundred, as all are open meanwhile.
#[must_use]
pub fn fetch_together(files: &[(PathBuf, u64)]) -> Vec<Option<bool>> {
    let begun: Vec<_> = files.iter().map(|(path, bytes)| begin(path, 0..*bytes)).collect();
    begun.into_iter().map(|begun| begun?.end()).collect()
}

/// A read that is under way.
struct Begun {
    file: File,
    /// Its last byte, unless all was cached.
    last: Option<u64>,
}

impl Begun {
    fn end(self) -> Option<bool> {
        let Some(last) = self.last else { return Some(false) };
        Linux.await_page(&self.file, last).ok().map(|_| true)
    }
}

fn begin(path: &Path, bytes: Range<u64>) -> Option<Begun> {
    let file = open_regular(path)?;
    let start = bytes.start / page_bytes() * page_bytes();
    let length = bytes.end.min(file.metadata().ok()?.len()).saturating_sub(start);
    if length == 0 || Linux.status(&file, start, length).ok()?.cached >= length.div_ceil(page_bytes()) {
        return Some(Begun { file, last: None });
    }
    Linux.start_read(&file, start, length).ok()?;
    Some(Begun { file, last: Some(start + length - 1) })
}

/// Where the first bytes of a file lie: the number of the file system's device, and bytes from its beginning. `None` if
/// they are not in one piece, or that is not told. Asks the disk for the inode if it is not known.
#[must_use]
pub fn beginning_on_disk(path: &Path, bytes: u64) -> Option<(u64, Range<u64>)> {
    let file = open_regular(path)?;
    Some((file.metadata().ok()?.dev(), extents::beginning(&file, bytes)?))
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
