//! Files of this machine: read past the page cache, by the pool's ring.
//!
//! What the page cache has is taken from there: it is asked without waiting (preadv2(2), `RWF_NOWAIT`), and what it has not
//! got is read from the disk into memory of our own (`O_DIRECT`), a few pieces at a time, so that a file that is read through a
//! pool is not kept twice. Where its file system has no direct reads, or the page cache is asked in vain, the ring reads through it.
//!
//! The state of a file is what `object_store` makes of it (number, time of modification, length): it is looked at before
//! the first byte is read and after the last one.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::disk::asks_for;
use crate::ring::{Pages, Region, Ring, Way};
use crate::source::{Answer, Entry, Fault, Sink, Source, Stamp};
use crate::store::Store;

/// Bytes of one read of the disk: from there on disks gain nothing by larger ones.
const PIECE_BYTES: usize = 256 << 10;
/// Reads of one request under way. Requests are several at a time already, as many as the pool finds worth it.
const PIECES: usize = 2;
/// The largest alignment that is seen to; where more is asked for, the page cache is in between.
const ALIGNED_BYTES: usize = 4096;

/// Local files as a [`Source`].
pub(crate) struct Local {
    /// Who lists and looks at files.
    store: Store,
    ring: Arc<Ring>,
}

/// A file, open twice.
struct Opened {
    cached: Arc<File>,
    /// Past the page cache, if that can be.
    direct: Option<Arc<File>>,
}

impl Local {
    pub(crate) fn new(store: Store, ring: Arc<Ring>) -> Local {
        Local { store, ring }
    }

    /// Reads a range that begins at a multiple of what direct reads ask for, and shows it from `range.start` on.
    async fn read(&self, file: &Arc<File>, range: Range<u64>, sink: &mut Sink<'_>) -> io::Result<()> {
        let aligned = range.start / ALIGNED_BYTES as u64 * ALIGNED_BYTES as u64;
        let end = range.end.next_multiple_of(ALIGNED_BYTES as u64);
        let mut places = (aligned..range.end).step_by(PIECE_BYTES);
        // Memory that was read into is read into again: new memory costs more than the copy out of it.
        let begin = |at: u64, pages: Option<Pages>| {
            let length = (end - at).min(PIECE_BYTES as u64) as usize;
            let pages = pages.unwrap_or_else(|| Pages::new(length));
            (at, length, self.ring.begin(file, Way::Read, at, length, Region::Own(pages)))
        };
        let mut under_way: VecDeque<_> = places.by_ref().take(PIECES).map(|at| begin(at, None)).collect();
        let mut spare = None;
        while let Some((at, length, begun)) = under_way.pop_front() {
            let (region, read) = begun.end().await?;
            under_way.extend(places.next().map(|at| begin(at, spare.take())));
            let Region::Own(pages) = region else { return Err(io::ErrorKind::InvalidInput.into()) };
            let wanted_to = (range.end - at).min(length as u64) as usize;
            if read < wanted_to {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let before = range.start.saturating_sub(at) as usize;
            if !sink(&pages.bytes()[before..wanted_to]) {
                return Ok(());
            }
            // The first ones are the longest.
            spare = Some(pages);
        }
        Ok(())
    }
}

impl Opened {
    fn open(path: &str) -> io::Result<(Opened, Metadata)> {
        let path = PathBuf::from("/").join(path);
        let cached = File::open(&path)?;
        let metadata = cached.metadata()?;
        let may = asks_for(&cached).is_none_or(|bytes| ALIGNED_BYTES.is_multiple_of(bytes));
        let flags = OFlags::DIRECT.bits().cast_signed();
        let direct = may.then(|| File::options().read(true).custom_flags(flags).open(&path).ok()).flatten();
        // The same file under this name?
        let is_same = |direct: &File| {
            direct.metadata().is_ok_and(|its| (its.dev(), its.ino()) == (metadata.dev(), metadata.ino()))
        };
        let direct = direct.filter(is_same).map(Arc::new);
        Ok((Opened { cached: Arc::new(cached), direct }, metadata))
    }

    /// Shows what the page cache has, up to the first byte that it has not got: gives where that is, `None` when nothing more is
    /// wanted.
    fn read_cached(&self, mut range: Range<u64>, sink: &mut Sink<'_>) -> Option<u64> {
        let mut piece = vec![0; PIECE_BYTES.min((range.end - range.start) as usize)];
        while range.start < range.end {
            let length = piece.len().min((range.end - range.start) as usize);
            let mut parts = [io::IoSliceMut::new(&mut piece[..length])];
            let read = rustix::io::preadv2(&*self.cached, &mut parts, range.start, ReadWriteFlags::NOWAIT);
            let read = match read {
                Ok(0) | Err(Errno::AGAIN | Errno::OPNOTSUPP) => break,
                Ok(read) => read,
                // Whatever it is, the other way tells it as well.
                Err(_) => break,
            };
            if !sink(&piece[..read]) {
                return None;
            }
            range.start += read as u64;
        }
        Some(range.start)
    }
}

/// What `object_store` says of a file.
pub(crate) fn stamp(metadata: &Metadata) -> Stamp {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let (number, length) = (metadata.ino(), metadata.len());
    let etag = format!("\"{number:x}-{:x}-{length:x}\"", since.as_micros());
    Stamp { length, etag: Some(etag), version: None, modified }
}

fn fault(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => Fault::NotFound,
        io::ErrorKind::PermissionDenied => Fault::Denied(error.to_string()),
        _ => Fault::Failed(error.to_string()),
    }
}

impl Source for Local {
    fn head<'a>(&'a self, path: &'a str) -> Answer<'a, Stamp> {
        self.store.head(path)
    }

    fn get<'a>(
        &'a self,
        path: &'a str,
        pinned: &'a Stamp,
        range: Range<u64>,
        sink: &'a mut Sink<'_>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let name = path.to_owned();
            let opened = tokio::task::spawn_blocking(move || Opened::open(&name)).await;
            let opened = opened.map_err(io::Error::other).and_then(|opened| opened);
            let (opened, metadata) = opened.map_err(|error| fault(&error))?;
            if !pinned.is_same(&stamp(&metadata)) {
                return Err(Fault::Changed);
            }
            // The last byte goes to nobody before it is known that they are all of one state.
            let (mut sent, mut held) = (0, Vec::new());
            let all = range.end - range.start;
            let mut hold = |bytes: &[u8]| {
                sent += bytes.len() as u64;
                if sent < all {
                    return sink(bytes);
                }
                held.extend_from_slice(bytes);
                true
            };
            let Some(at) = opened.read_cached(range.clone(), &mut hold) else { return Ok(()) };
            if at < range.end {
                let rest = at..range.end;
                let file = opened.direct.as_ref().unwrap_or(&opened.cached);
                let read = self.read(file, rest, &mut hold).await;
                read.map_err(|error| fault(&error))?;
            }
            let now = opened.cached.metadata().map_err(|error| fault(&error))?;
            if !pinned.is_same(&stamp(&now)) {
                return Err(Fault::Changed);
            }
            if !held.is_empty() {
                sink(&held);
            }
            Ok(())
        })
    }

    fn list<'a>(&'a self, path: &'a str, deep: bool, most: usize) -> Answer<'a, Vec<Entry>> {
        self.store.list(path, deep, most)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use object_store::local::LocalFileSystem;

    use super::*;

    fn local(test: &str) -> Option<Local> {
        let ring = Ring::new().map_err(|error| println!("skipped: {test}: io_uring: {error}")).ok()?;
        Some(Local::new(Store::new(Box::new(LocalFileSystem::new())), Arc::new(ring)))
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
    }

    fn got(local: &Local, path: &str, stamp: &Stamp, range: Range<u64>) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        let mut sink = |bytes: &[u8]| {
            assert!(!bytes.is_empty());
            all.extend_from_slice(bytes);
            true
        };
        runtime().block_on(local.get(path, stamp, range, &mut sink))?;
        Ok(all)
    }

    /// Beside a read of all of it, cached and not.
    #[test]
    fn any_range_is_what_is_there_whether_it_is_cached_or_not() {
        let Some(local) = local("any_range_is_what_is_there_whether_it_is_cached_or_not") else { return };
        // On a disk, if the tests are.
        let this = std::env::current_exe().unwrap();
        let folder = tempfile::tempdir_in(this.parent().unwrap()).unwrap();
        let path = folder.path().join("a");
        let content: Vec<u8> = (0..2_000_003_u32).map(|at| (at / 3 * 7) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let name = path.to_str().unwrap().trim_start_matches('/');
        let stamp = runtime().block_on(local.head(name)).unwrap();
        assert_eq!(stamp, super::stamp(&file.metadata().unwrap()), "as object_store has it");
        let length = content.len() as u64;
        let ranges = [
            (0, length),
            (1, 5),
            (4095, 2),
            (8192, 4096),
            (777, 1_500_000),
            (length - 1, 1),
            (500_000, 262_144),
        ];
        for cached in [true, false] {
            for (start, count) in ranges {
                if !cached {
                    let all = rustix::fs::Advice::DontNeed;
                    rustix::fs::fadvise(&file, 0, None, all).unwrap();
                }
                let bytes = got(&local, name, &stamp, start..start + count).unwrap();
                assert!(bytes == content[start as usize..(start + count) as usize], "{count} from {start}");
            }
        }
    }

    #[test]
    fn a_file_that_is_gone_or_another_one_or_shorter_is_no_file_of_this_state() {
        let test = "a_file_that_is_gone_or_another_one_or_shorter_is_no_file_of_this_state";
        let Some(local) = local(test) else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [1; 10_000]).unwrap();
        let name = path.to_str().unwrap().trim_start_matches('/').to_owned();
        let stamp = runtime().block_on(local.head(&name)).unwrap();
        assert_eq!(got(&local, &name, &stamp, 5..10).unwrap(), [1; 5]);
        std::fs::write(folder.path().join("b"), [2; 10_000]).unwrap();
        std::fs::rename(folder.path().join("b"), &path).unwrap();
        assert_eq!(got(&local, &name, &stamp, 5..10), Err(Fault::Changed));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(got(&local, &name, &stamp, 5..10), Err(Fault::NotFound));
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_not_given_whole() {
        let Some(local) = local("a_file_that_changes_while_it_is_read_is_not_given_whole") else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, vec![1; 3 * PIECE_BYTES]).unwrap();
        let name = path.to_str().unwrap().trim_start_matches('/').to_owned();
        let stamp = runtime().block_on(local.head(&name)).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let mut came = 0;
        let mut sink = |bytes: &[u8]| {
            file.write_all_at(&[2], 0).unwrap();
            // However coarse the clock of the file system is.
            let times = std::fs::FileTimes::new().set_modified(UNIX_EPOCH);
            file.set_times(times).unwrap();
            came += bytes.len();
            true
        };
        let range = 0..3 * PIECE_BYTES as u64;
        let outcome = runtime().block_on(local.get(&name, &stamp, range, &mut sink));
        assert_eq!(outcome, Err(Fault::Changed));
        assert!(came < 3 * PIECE_BYTES);
    }
}
