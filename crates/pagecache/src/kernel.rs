//! Calls of the system that no library has as they are needed here, and what depends on the machine.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;

/// Pages of a range of a file, as `cachestat(2)` counts them, or mincore(2) in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CacheStatus {
    /// Cached.
    pub(crate) cached: u64,
    /// Not yet written back, or being written back; 0 where that is not told.
    pub(crate) unclean: u64,
    /// By mincore(2), where `cachestat(2)` is missing: pages that are being read count as absent, and what is dirty is not
    /// told.
    pub(crate) by_mincore: bool,
}

/// What is cached of a range of a file, by `cachestat(2)`.
pub(crate) fn cachestat(file: &File, offset: u64, length: u64) -> io::Result<CacheStatus> {
    /// `struct cachestat_range` of `include/uapi/linux/mman.h`.
    #[repr(C)]
    struct Range {
        off: u64,
        len: u64,
    }
    /// `struct cachestat` of the same.
    #[repr(C)]
    #[derive(Default)]
    struct Stat {
        nr_cache: u64,
        nr_dirty: u64,
        nr_writeback: u64,
        nr_evicted: u64,
        nr_recently_evicted: u64,
    }
    let (range, mut stat) = (Range { off: offset, len: length }, Stat::default());
    // SAFETY: both structures have the kernel's layout and outlive the call.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut stat, 0_u32) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let unclean = stat.nr_dirty + stat.nr_writeback;
    Ok(CacheStatus { cached: stat.nr_cache, unclean, by_mincore: false })
}

/// Whether an error of `cachestat(2)` says that there is no such call: before Linux 6.5, or in a container whose filter
/// of calls does not know it.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

/// Whether there is a `cachestat(2)`.
pub(crate) fn has_cachestat(file: &File) -> bool {
    !cachestat(file, 0, 1).is_err_and(|error| is_missing(&error))
}

/// What is cached of a range of a file, by mincore(2). A length of 0 stands for all up to the end.
pub(crate) fn mincore_status(file: &File, offset: u64, length: u64) -> io::Result<CacheStatus> {
    let size = file.metadata()?.len();
    let end = if length == 0 { size } else { size.min(offset.saturating_add(length)) };
    let mut status = CacheStatus { by_mincore: true, ..CacheStatus::default() };
    let mut at = offset / page_bytes() * page_bytes();
    while at < end {
        let part = (end - at).min(WINDOW_BYTES);
        status.cached += resident(file, at, part)?.into_iter().filter(|&there| there).count() as u64;
        at += part;
    }
    Ok(status)
}

/// Number of `cachestat(2)` (Linux 6.5), the same on every architecture; not in every libc.
const SYS_CACHESTAT: libc::c_long = 451;

/// `posix_fadvise(2)`.
pub(crate) fn advise(file: &File, offset: u64, length: u64, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: no memory of ours is involved.
    let error =
        unsafe { libc::posix_fadvise(file.as_raw_fd(), offset.cast_signed(), length.cast_signed(), advice) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// A handle on a process that no other process can come to stand for.
pub(crate) fn pidfd_open(pid: u32) -> io::Result<std::os::fd::OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Bytes of a page of this machine.
pub(crate) fn page_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| rustix::param::page_size() as u64)
}

/// Mapped at a time: 512 pages of 4 KiB take 25 us.
pub(crate) const WINDOW_BYTES: u64 = 2 << 20;

/// Which pages of a file are cached, in ascending order, and whether these are all: at most `windows` pieces
/// of 2 MiB are looked at closely. `cachestat(2)` finds them, by halves, so that the size of the file (which
/// may be one great hole) does not matter. Where that is missing the file is gone through, [`BLIND_WINDOWS`] at most.
///
/// # Errors
/// When the file cannot be mapped.
pub(crate) fn cached_pages(file: &File, size: u64, windows: usize) -> io::Result<(Vec<u64>, bool)> {
    let blind = !has_cachestat(file);
    let windows = if blind { windows.min(BLIND_WINDOWS) } else { windows };
    let page = page_bytes();
    let mut cached = Vec::new();
    let mut looked_at = 0;
    // Ranges to be looked at, the first one last; empty files have none.
    let mut ranges = vec![(0, size.next_multiple_of(WINDOW_BYTES))];
    while let Some((offset, span)) = ranges.pop() {
        let length = span.min(size.saturating_sub(offset));
        if length == 0 || !blind && cachestat(file, offset, length).is_ok_and(|status| status.cached == 0) {
            continue;
        }
        if looked_at == windows {
            return Ok((cached, false));
        }
        if span > WINDOW_BYTES {
            let half = (span / 2).next_multiple_of(WINDOW_BYTES);
            ranges.extend([(offset + half, span - half), (offset, half)]);
            continue;
        }
        looked_at += 1;
        let base = offset / page;
        let pages = resident(file, offset, length)?;
        cached.extend(pages.into_iter().zip(base..).filter(|(there, _)| *there).map(|(_, page)| page));
    }
    Ok((cached, true))
}

/// Pieces of 2 MiB that are looked at where `cachestat(2)` is missing: 8 GiB, 100 ms.
const BLIND_WINDOWS: usize = 4096;

/// Questions to `cachestat(2)` about a part of a file before it is mapped after all: a microsecond each.
const QUESTIONS: u32 = 32;

/// Which pages of a part of a file are cached. Where `cachestat(2)` tells, by halves: to map the file waits for all other
/// threads of the process that map something, start or end. Where it does not, or the pages lie scattered, as
/// [`resident`] does, and what is being read is asked for after all.
///
/// # Errors
/// When the file cannot be mapped.
pub(crate) fn there(file: &File, offset: u64, length: u64) -> io::Result<Vec<bool>> {
    let page = page_bytes();
    there_by(
        length.div_ceil(page),
        |pages| {
            let length = (pages.end - pages.start) * page;
            cachestat(file, offset + pages.start * page, length).ok().map(|status| status.cached)
        },
        || resident(file, offset, length),
    )
}

/// [`there`], by whoever tells how many of some pages are cached, and by a map of those that are read.
fn there_by(
    pages: u64,
    ask: impl Fn(Range<u64>) -> Option<u64>,
    map: impl FnOnce() -> io::Result<Vec<bool>>,
) -> io::Result<Vec<bool>> {
    let mut there = vec![false; pages as usize];
    if by_halves(0..pages, QUESTIONS, &ask, &mut there).is_some() {
        return Ok(there);
    }
    let mut there = map()?;
    let told = there.iter().filter(|&&there| there).count() as u64;
    if ask(0..pages).is_some_and(|cached| cached > told) {
        let absent: Vec<u64> = (0..pages).filter(|&page| !there[page as usize]).collect();
        for run in absent.chunk_by(|page, next| page + 1 == *next) {
            by_halves(run[0]..run[0] + run.len() as u64, u32::MAX, &ask, &mut there);
        }
    }
    Ok(there)
}

/// Finds the cached ones of some pages by asking how many of them are, of their halves if that is neither all nor none, and so
/// on. `None` if nobody tells, or after so many questions.
fn by_halves(
    pages: Range<u64>,
    questions: u32,
    ask: impl Fn(Range<u64>) -> Option<u64>,
    there: &mut [bool],
) -> Option<()> {
    let mut ranges = vec![pages];
    let mut asked = 0;
    while let Some(range) = ranges.pop() {
        if asked == questions {
            return None;
        }
        asked += 1;
        let (cached, count) = (ask(range.clone())?, range.end - range.start);
        if cached >= count {
            there[range.start as usize..range.end as usize].fill(true);
        } else if cached > 0 {
            let half = range.start + count / 2;
            ranges.extend([half..range.end, range.start..half]);
        }
    }
    Some(())
}

/// Which pages of a part of a file are cached and read (`mincore(2)`): those that are still being read count as absent.
///
/// # Errors
/// When the file cannot be mapped.
pub(crate) fn resident(file: &File, offset: u64, length: u64) -> io::Result<Vec<bool>> {
    let mut vector = vec![0_u8; length.div_ceil(page_bytes()) as usize];
    // SAFETY: a fresh mapping of `length` bytes at an address of the kernel's choice; only `mincore`
    // looks at it, writing one byte a page into `vector`, and it is unmapped before anything else.
    unsafe {
        let address = libc::mmap(
            std::ptr::null_mut(),
            length as usize,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset.cast_signed(),
        );
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let result = libc::mincore(address, length as usize, vector.as_mut_ptr());
        let error = io::Error::last_os_error();
        libc::munmap(address, length as usize);
        if result != 0 {
            return Err(error);
        }
    }
    Ok(vector.into_iter().map(|bits| bits & 1 != 0).collect())
}

/// Has each large table mapped by itself, so that it grows in its place (`mremap`) and its memory is given back
/// when it is freed. Left to itself, malloc(3) puts a table on the heap once one as large has been freed, and
/// leaves a hole there each time that it grows: half as much again as the tables take.
///
/// Nor does it keep small pieces that were freed in its fast bins, beyond the few of each thread: what is there it joins
/// all at once when it is next asked for a larger piece, which takes 40 ms after a list of half a million blocks.
pub(crate) fn adjust_allocator() {
    /// What malloc(3) begins with, before it adjusts itself.
    const THRESHOLD_BYTES: libc::c_int = 128 << 10;
    // SAFETY: takes no pointers, and glibc locks its own structures.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD_BYTES);
        libc::mallopt(libc::M_MXFAST, 0);
    }
}

/// Has all threads use one heap. That of another thread than the first is given back only in part: 18 MiB stay of the
/// kernel's types when one has read them.
pub(crate) fn use_one_heap() {
    // SAFETY: takes no pointers, and glibc locks its own structures.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Whether a fault on a mapped file maps the whole folio, of which only a part is told: since Linux 6.18 (`finish_fault` of
/// `mm/memory.c`, `filemap_map_pages` of `mm/filemap.c`). Before, it maps no more than is told.
pub(crate) fn maps_whole_folios() -> bool {
    static MAPS: OnceLock<bool> = OnceLock::new();
    *MAPS.get_or_init(|| {
        let name = rustix::system::uname();
        let release = name.release().to_string_lossy();
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
        matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6_u32, 18_u32))
    })
}

/// Gives memory that was freed in small pieces back to the system (malloc_trim(3)); it would count against
/// the memory that the program is granted together with us.
pub(crate) fn return_free_memory() {
    // SAFETY: takes no pointers, and glibc locks its own structures.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Frees what malloc(3) keeps for the next pieces of the calling thread: up to seven of each size below a kilobyte, each of
/// which keeps the page where it happens to lie. A thread that ends frees its own, so another one is given them all.
pub(crate) fn empty_own_cache() {
    const SIZES: usize = 64;
    const KEPT: usize = 7;
    let sizes = (1..=SIZES).flat_map(|size| std::iter::repeat_n(16 * size - 8, KEPT));
    let pieces: Vec<Vec<u8>> = sizes.map(Vec::with_capacity).collect();
    let thread = std::thread::Builder::new().name("foretell-free".to_owned()).stack_size(64 << 10);
    // Without a thread they are where they were.
    let _ = thread.spawn(move || drop(pieces));
}

/// The generation of an open file's inode, 0 where the file system does not tell.
pub(crate) fn generation(file: impl AsFd) -> u32 {
    /// `_IOR('v', 1, long)`; what it writes is an `int` (`Documentation/filesystems/ext4`, xfs the same).
    const FS_IOC_GETVERSION: libc::c_ulong = 0x8008_7601;
    let mut generation = 0_u64;
    // SAFETY: the kernel writes at most eight bytes, which are there.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), FS_IOC_GETVERSION, &raw mut generation) };
    if result == 0 { generation as u32 } else { 0 }
}

/// Opens for reading without changing the access time where that is allowed (owner or `CAP_FOWNER`), and
/// without blocking on what turns out to be a FIFO.
pub(crate) fn open_quietly(path: &Path) -> io::Result<File> {
    let open = |flags| OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = match open(libc::O_NOATIME | libc::O_NONBLOCK | libc::O_NOCTTY) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(libc::O_NONBLOCK | libc::O_NOCTTY)?,
        other => other?,
    };
    // The byte that we read to see a prefetch complete must not start the kernel's readahead.
    let _ = advise(&file, 0, 0, libc::POSIX_FADV_RANDOM);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use crate::page_cache::{Linux, PageCache};

    #[test]
    fn what_is_dropped_is_not_cached_and_what_is_read_is() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        let file = file.as_file();
        let dirty = Linux.status(file, 0, 1 << 20).unwrap();
        assert_eq!(dirty.cached * page_bytes(), 1 << 20);
        // Nothing tells before Linux 6.5.
        assert!(dirty.unclean > 0 || !has_cachestat(file));
        file.sync_all().unwrap();
        Linux.drop_range(file, 0, 1 << 20).unwrap();
        assert_eq!(cached_pages(file, 1 << 20, 9).unwrap(), (vec![], true));
        Linux.start_read(file, 16384, 8192).unwrap();
        assert!(Linux.await_page(file, 16384 + 8191).unwrap());
        let first = 16384 / page_bytes();
        let last = (16384 + 8191) / page_bytes();
        assert_eq!(cached_pages(file, 1 << 20, 9).unwrap().0, (first..=last).collect::<Vec<_>>());
        assert!(!Linux.await_page(file, 1 << 20).unwrap(), "beyond the end");
    }

    #[test]
    fn what_is_there_is_found_without_a_map_and_with_one() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; (3 << 20) + 1]).unwrap();
        let file = file.as_file();
        file.sync_all().unwrap();
        let page = page_bytes();
        let same = |what: &str| {
            for (offset, length) in [(0, 2 << 20), (2 << 20, (1 << 20) + 1), (3 << 20, 1), (1 << 20, page)] {
                let (halves, map) =
                    (there(file, offset, length).unwrap(), resident(file, offset, length).unwrap());
                assert_eq!(halves, map, "{what}: {offset} {length}");
            }
        };
        same("all");
        Linux.drop_range(file, 1 << 20, (3 << 19) + page).unwrap();
        same("a part");
        Linux.drop_range(file, 0, 0).unwrap();
        same("none");
        advise(file, 0, 0, libc::POSIX_FADV_RANDOM).unwrap();
        for at in (0..3 << 20).step_by(3 * page as usize) {
            file.read_at(&mut [0], at).unwrap();
        }
        same("scattered");
    }

    #[test]
    fn what_is_being_read_is_there_however_scattered_the_rest_lies() {
        let pages = 300;
        let read = |page: u64| page.is_multiple_of(3);
        let on_its_way = |page: u64| (100..150).contains(&page);
        let cached = |page: &u64| read(*page) || on_its_way(*page);
        let map = || Ok((0..pages).map(read).collect());
        let ask = |range: Range<u64>| Some(range.filter(cached).count() as u64);
        let there = there_by(pages, ask, map).unwrap();
        assert_eq!(there, (0..pages).map(|page| cached(&page)).collect::<Vec<_>>());
        // Before Linux 6.5 nobody tells.
        assert_eq!(there_by(pages, |_| None, map).unwrap(), map().unwrap());
    }

    #[test]
    fn mincore_counts_as_cachestat_does_where_nothing_is_being_read() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![1; (5 << 20) + 1]).unwrap();
        let file = file.as_file();
        file.sync_all().unwrap();
        Linux.drop_range(file, 1 << 20, 2 << 20).unwrap();
        let page = page_bytes();
        for (offset, length) in [(0, 0), (0, 1 << 20), (1 << 20, 3 << 20), (5 << 20, page), (9 << 20, page)] {
            let status = mincore_status(file, offset, length).unwrap();
            assert!(status.by_mincore);
            match cachestat(file, offset, length) {
                Ok(told) => assert_eq!(told.cached, status.cached, "{offset} {length}"),
                Err(error) => assert!(is_missing(&error), "{error}"),
            }
        }
    }

    #[test]
    fn in_a_great_hole_what_is_cached_is_found_and_the_number_of_pieces_is_limited() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = file.as_file();
        let size = 1_u64 << 40;
        file.set_len(size).unwrap();
        let offsets = [0, 5 << 20, (1 << 39) + 8192, size - page_bytes()];
        for offset in offsets {
            file.read_at(&mut [0], offset).unwrap();
        }
        let wanted = offsets.map(|offset| offset / page_bytes());
        let (found, all) = cached_pages(file, size, usize::MAX).unwrap();
        if !has_cachestat(file) {
            assert!(!all && wanted[..2].iter().all(|page| found.contains(page)), "{found:?}");
            return;
        }
        assert!(all && wanted.iter().all(|page| found.contains(page)), "{found:?}");
        assert!(found.is_sorted());
        let (found, all) = cached_pages(file, size, 2).unwrap();
        assert!(!all && found.contains(&wanted[1]) && !found.contains(&wanted[2]), "{found:?}");
    }
}
