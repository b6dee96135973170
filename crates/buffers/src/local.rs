//! Files of this machine: read past the page cache, by the pool's ring.
//!
//! What the page cache has is taken from there: it is asked without waiting (preadv2(2), `RWF_NOWAIT`), and what it has not
//! got is read from the disk into memory of our own (`O_DIRECT`), a few pieces at a time, so that a file that is read through a
//! pool is not kept twice. Where its file system has no direct reads, or the page cache is asked in vain, the ring reads through it.
//!
//! Only regular files and block devices are opened, and all that may wait for a file system is done aside
//! ([`crate::aside`]), so that a file that never answers costs its readers the time-out and nobody else anything.
//!
//! The state of a file is what `object_store` makes of it (number, time of modification, length): it is looked at before
//! the first byte is read and after the last one.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::{Errno, ReadWriteFlags};

use crate::aside::{Aside, Opened};
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
    /// Who lists files, and reads them where there is no ring.
    store: Arc<Store>,
    ring: Option<Arc<Ring>>,
    aside: Aside,
}

/// A read that has begun: its memory, and how much was read.
type Begun = BoxFuture<'static, io::Result<(Pages, usize)>>;

/// A file, open twice.
struct File {
    cached: Opened,
    /// Past the page cache, if that can be.
    direct: Option<Opened>,
}

impl Local {
    /// # Errors
    /// When there are no threads to be had.
    pub(crate) fn new(store: Store, ring: Option<Arc<Ring>>) -> io::Result<Local> {
        Ok(Local { store: Arc::new(store), ring, aside: Aside::start()? })
    }

    /// Opens the file at a path, and says in which state it is.
    async fn open(&self, path: &str) -> Result<(File, Stamp), Fault> {
        let path = Path::new("/").join(path);
        let (name, guard) = (path.clone(), self.aside.guards());
        let opened = self.aside.at(&path, move || {
            let found = find(&name)?;
            let cached = open(&found, &name, OFlags::empty())?;
            let stamp = stamp_of(&cached)?;
            let may = asks_for(&cached).is_none_or(|bytes| ALIGNED_BYTES.is_multiple_of(bytes));
            let direct = may.then(|| open(&found, &name, OFlags::DIRECT).ok()).flatten();
            Ok((File { cached: guard(cached), direct: direct.map(guard) }, stamp))
        });
        opened.await.map_err(|error| fault(&error))
    }

    /// In which state an open file is.
    async fn stamp(&self, path: &str, file: &Opened) -> io::Result<Stamp> {
        match file {
            Opened::Here(file) => stamp_of(&**file),
            Opened::Served(_) => {
                let file = file.clone();
                self.aside.at(&Path::new("/").join(path), move || stamp_of(&file)).await
            }
        }
    }

    /// Begins to read a piece, by the ring; by a thread of its mount, where there is a server that may never answer.
    fn begin(&self, path: &Path, file: &Opened, at: u64, mut pages: Pages, length: usize) -> Begun {
        if let (Opened::Here(_), Some(ring)) = (file, &self.ring) {
            let begun = ring.begin(file, Way::Read, at, length, Region::Own(pages));
            return async move {
                match begun.end().await? {
                    (Region::Own(pages), read) => Ok((pages, read)),
                    _ => Err(io::ErrorKind::InvalidInput.into()),
                }
            }
            .boxed();
        }
        let file = file.clone();
        let read = move || {
            let bytes = &mut pages.bytes_mut()[..length];
            let read = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut *bytes, at))?;
            Ok((pages, read))
        };
        self.aside.at(path, read).boxed()
    }

    /// Reads a range, from a multiple of what direct reads ask for on, and shows it from `range.start` on.
    async fn read(
        &self,
        path: &Path,
        file: &Opened,
        range: Range<u64>,
        sink: &mut Sink<'_>,
    ) -> io::Result<()> {
        let aligned = range.start / ALIGNED_BYTES as u64 * ALIGNED_BYTES as u64;
        let end = range.end.next_multiple_of(ALIGNED_BYTES as u64);
        let mut places = (aligned..range.end).step_by(PIECE_BYTES);
        // Memory that was read into is read into again: new memory costs more than the copy out of it.
        let begin = |at: u64, pages: Option<Pages>| {
            let length = (end - at).min(PIECE_BYTES as u64) as usize;
            let pages = pages.unwrap_or_else(|| Pages::new(length));
            (at, length, self.begin(path, file, at, pages, length))
        };
        let mut under_way: VecDeque<_> = places.by_ref().take(PIECES).map(|at| begin(at, None)).collect();
        let mut spare = None;
        while let Some((at, length, begun)) = under_way.pop_front() {
            let (pages, read) = begun.await?;
            under_way.extend(places.next().map(|at| begin(at, spare.take())));
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

impl File {
    /// Shows what the page cache has, up to the first byte that it has not got: gives where that is, `None` when nothing more is
    /// wanted.
    fn read_cached(&self, mut range: Range<u64>, sink: &mut Sink<'_>) -> Option<u64> {
        let mut piece = vec![0; PIECE_BYTES.min((range.end - range.start) as usize)];
        while range.start < range.end {
            let length = piece.len().min((range.end - range.start) as usize);
            let mut parts = [io::IoSliceMut::new(&mut piece[..length])];
            let read = rustix::io::preadv2(&self.cached, &mut parts, range.start, ReadWriteFlags::NOWAIT);
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

/// Finds what lies at a path without opening it: that would wait for a writer of a pipe, and do things with a device.
///
/// # Errors
/// When it is neither a regular file nor a block device.
fn find(path: &Path) -> io::Result<OwnedFd> {
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    is_object(&found)?;
    Ok(found)
}

fn is_object(file: impl AsFd) -> io::Result<()> {
    let what = match FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) {
        FileType::RegularFile | FileType::BlockDevice => return Ok(()),
        // As of other stores.
        FileType::Directory => return Err(io::Error::new(io::ErrorKind::NotFound, "it is a folder")),
        FileType::Fifo => "a pipe",
        FileType::CharacterDevice => "a character device",
        FileType::Socket => "a socket",
        _ => "something else",
    };
    let why = format!("it is {what}; only regular files and block devices are read");
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Opens what was found, whatever lies at its path by now.
fn open(found: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::open(format!("/proc/self/fd/{}", found.as_raw_fd()), flags, Mode::empty()) {
        Ok(file) => Ok(file),
        // Without `/proc` by its name, which may lead to a pipe by now.
        Err(Errno::NOENT) => {
            let file = rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::empty())?;
            is_object(&file)?;
            // The ring would not wait for its bytes.
            rustix::fs::fcntl_setfl(&file, flags)?;
            Ok(file)
        }
        Err(error) => Err(error.into()),
    }
}

fn stamp_of(file: impl AsFd) -> io::Result<Stamp> {
    let found = rustix::fs::fstat(&file)?;
    let is_device = FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice;
    let length = if is_device { rustix::fs::seek(&file, SeekFrom::End(0))? } else { found.st_size as u64 };
    Ok(stamp(&found, length))
}

/// What `object_store` says of a file.
fn stamp(found: &Stat, length: u64) -> Stamp {
    let since = u64::try_from(found.st_mtime).unwrap_or_default();
    let since = Duration::new(since, u32::try_from(found.st_mtime_nsec).unwrap_or_default());
    let etag = format!("\"{:x}-{:x}-{length:x}\"", found.st_ino, since.as_micros());
    Stamp { length, etag: Some(etag), modified: Some(UNIX_EPOCH + since), ..Stamp::default() }
}

fn fault(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound => Fault::NotFound,
        io::ErrorKind::PermissionDenied => Fault::Denied(error.to_string()),
        io::ErrorKind::InvalidInput => Fault::Unfit(error.to_string()),
        _ => Fault::Failed(error.to_string()),
    }
}

impl Source for Local {
    fn head<'a>(&'a self, path: &'a str) -> Answer<'a, Stamp> {
        Box::pin(async move { self.open(path).await.map(|(_, stamp)| stamp) })
    }

    fn get<'a>(
        &'a self,
        path: &'a str,
        pinned: &'a Stamp,
        range: Range<u64>,
        sink: &'a mut Sink<'_>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let (opened, found) = self.open(path).await?;
            if !pinned.is_same(&found) {
                return Err(Fault::Changed);
            }
            if self.ring.is_none() && matches!(opened.cached, Opened::Here(_)) {
                return self.store.get(path, pinned, range, sink).await;
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
            // Of a server's mount nothing is known to be there without a wait.
            let cached = match &opened.cached {
                Opened::Here(_) => opened.read_cached(range.clone(), &mut hold),
                Opened::Served(_) => Some(range.start),
            };
            let Some(at) = cached else { return Ok(()) };
            if at < range.end {
                let rest = at..range.end;
                let file = opened.direct.as_ref().unwrap_or(&opened.cached);
                let read = self.read(&Path::new("/").join(path), file, rest, &mut hold).await;
                read.map_err(|error| fault(&error))?;
            }
            let now = self.stamp(path, &opened.cached).await.map_err(|error| fault(&error))?;
            if !pinned.is_same(&now) {
                return Err(Fault::Changed);
            }
            if !held.is_empty() {
                sink(&held);
            }
            Ok(())
        })
    }

    fn list<'a>(&'a self, path: &'a str, deep: bool, most: usize) -> Answer<'a, Vec<Entry>> {
        Box::pin(async move {
            let (store, name) = (Arc::clone(&self.store), path.to_owned());
            // In a thread that is none of a runtime's the library waits by itself.
            let list = move || Ok(store.list(&name, deep, most).now_or_never());
            let listed = self.aside.at(&Path::new("/").join(path).join("_"), list).await;
            let listed = listed.map_err(|error| fault(&error))?;
            listed.unwrap_or_else(|| Err(Fault::Failed("its listing did not end".to_owned())))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use object_store::local::LocalFileSystem;

    use super::*;

    fn local(test: &str) -> Option<Local> {
        let ring = Ring::new().map_err(|error| println!("skipped: {test}: io_uring: {error}")).ok()?;
        Some(Local::new(files(), Some(Arc::new(ring))).unwrap())
    }

    fn files() -> Store {
        Store::new(Box::new(LocalFileSystem::new()))
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
        let theirs = runtime().block_on(files().head(name)).unwrap();
        assert!(stamp == theirs && stamp.is_same(&theirs), "as object_store has it");
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
