//! Can the page cache be steered?
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use foretell_policy::DiskId;
use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::Mechanism;
use crate::extents;
use crate::file_at::look_at;
use crate::filesystems;
use crate::identity;
use crate::kernel::{self, page_bytes};
use crate::page_cache::{Linux, PageCache};
use crate::shown::Names;

/// Pages of the file on which things are tried: more than fault-around maps at once (16).
const PAGES: u64 = 32;

/// What to do when the scratch file cannot be made.
const NO_PLACE: &str = "set TMPDIR to a directory on a disk";
const OLD_KERNEL: &str = "use Linux 6.5 or later";

pub(super) fn examine() -> Vec<Mechanism> {
    let file = match scratch_file(PAGES) {
        Ok(file) => file,
        Err(error) => {
            return vec![Mechanism::fails("a file on a disk to try on", error.to_string(), NO_PLACE)];
        }
    };
    vec![
        cachestat(&file),
        eviction(&file),
        readahead(&file),
        page_out(&file),
        open_file(&file),
        fiemap(&file),
        inode(&file),
    ]
}

/// Without a file on a disk nothing that is done can be verified.
pub(super) fn missing_for_run() -> Option<String> {
    let file = match scratch_file(1) {
        Ok(file) => file,
        Err(error) => return Some(format!("no file to try evictions on: {error}; {NO_PLACE}")),
    };
    Linux.status(&file, 0, 0).err().map(|error| format!("neither cachestat(2) nor mincore(2) works: {error}"))
}

/// A nameless file of so many pages on a device, clean.
pub(super) fn scratch_file(pages: u64) -> io::Result<File> {
    let places = [Some(std::env::temp_dir()), Some(PathBuf::from("/var/tmp")), std::env::current_dir().ok()];
    for place in places.into_iter().flatten() {
        let Ok(mut file) = tempfile::tempfile_in(place) else { continue };
        if filesystems::under(&file).is_ok_and(|kind| kind.in_memory) {
            continue;
        }
        file.write_all(&vec![1; (pages * page_bytes()) as usize])?;
        file.sync_all()?;
        return Ok(file);
    }
    Err(io::Error::other(
        "no directory for temporary files is on a disk (tried TMPDIR, /var/tmp and the current one)",
    ))
}

/// Pages of the file that are cached.
fn cached(file: &File) -> io::Result<u64> {
    Linux.status(file, 0, 0).map(|status| status.cached)
}

fn load(file: &File) -> io::Result<()> {
    file.read_exact_at(&mut vec![0; (PAGES * page_bytes()) as usize], 0)
}

fn evict(file: &File) -> io::Result<()> {
    Linux.drop_range(file, 0, PAGES * page_bytes())
}

fn cachestat(file: &File) -> Mechanism {
    let name = "cachestat(2)";
    if !kernel::has_cachestat(file) {
        return Mechanism {
            name: name.to_owned(),
            works: false,
            detail: "not in this kernel; mincore(2) takes its place".to_owned(),
            used: false,
            remedy: None,
        };
    }
    match load(file).and_then(|()| cached(file)) {
        Ok(PAGES) => Mechanism::works(name, "counts the cached pages of a file"),
        Ok(pages) => {
            Mechanism::fails(name, format!("counts {pages} of {PAGES} pages that were just read"), OLD_KERNEL)
        }
        Err(error) => Mechanism::fails(name, error.to_string(), OLD_KERNEL),
    }
}

fn eviction(file: &File) -> Mechanism {
    let name = "eviction, posix_fadvise(DONTNEED)";
    match load(file).and_then(|()| evict(file)).and_then(|()| cached(file)) {
        Ok(0) => Mechanism::works(name, format!("{PAGES} pages gone")),
        Ok(pages) => {
            let remedy = "use a file system whose pages can be dropped (ext4, XFS, btrfs, F2FS)";
            Mechanism::fails(name, format!("{pages} of {PAGES} pages stayed"), remedy)
        }
        Err(error) => Mechanism::fails(name, error.to_string(), OLD_KERNEL),
    }
}

fn readahead(file: &File) -> Mechanism {
    let name = "prefetch, readahead(2)";
    let bytes = PAGES * page_bytes();
    let tried = || -> io::Result<u64> {
        evict(file)?;
        Linux.start_read(file, 0, bytes)?;
        if !kernel::has_cachestat(file) {
            // mincore(2) does not count what is still being read. All of it is in one request, with its first page.
            Linux.await_page(file, 0)?;
        }
        cached(file)
    };
    match tried() {
        Ok(0) => {
            let remedy = "use a file system with readahead; is read_ahead_kb of the device 0?";
            Mechanism::fails(name, "loaded nothing", remedy)
        }
        Ok(pages) => Mechanism::works(name, format!("{pages} of {PAGES} pages with one call")),
        Err(error) => Mechanism::fails(name, error.to_string(), "use a file system with readahead"),
    }
}

/// Evicts pages that this process has mapped, the way it is done to others.
fn page_out(file: &File) -> Mechanism {
    let name = "eviction of mapped pages, process_madvise(2)";
    let remedy = "use Linux 5.10 or later, with CAP_SYS_NICE and CAP_SYS_PTRACE";
    let bytes = (PAGES * page_bytes()) as usize;
    let tried = || -> io::Result<u64> {
        load(file)?;
        let mapped = Mapping::new(file, bytes)?;
        mapped.touch();
        evict(file)?;
        let before = cached(file)?;
        let looks = look_at(file)?;
        let names = Names { key: looks.key, shown: looks.shown() };
        Linux.page_out(std::process::id(), &names, 0, bytes as u64)?;
        Ok(before.saturating_sub(cached(file)?))
    };
    match tried() {
        Ok(0) => Mechanism::fails(name, "mapped pages stayed", remedy),
        Ok(pages) => Mechanism::works(name, format!("{pages} mapped pages gone")),
        Err(error) => Mechanism::fails(name, error.to_string(), remedy),
    }
}

/// Advises on a file that another process has open.
fn open_file(file: &File) -> Mechanism {
    let name = "readahead off from outside, pidfd_getfd(2)";
    let tried = || -> io::Result<()> {
        let child = Waiting::start(file)?;
        let pid = Pid::from_raw(child.0.id().cast_signed()).ok_or(io::ErrorKind::InvalidData)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let theirs = pidfd_getfd(&pidfd, 1, PidfdGetfdFlags::empty())?;
        fadvise(&theirs, 0, None, Advice::Random)?;
        Ok(())
    };
    match tried() {
        Ok(()) => Mechanism::works(name, "posix_fadvise(POSIX_FADV_RANDOM) on the open file of a child"),
        Err(error) => {
            let remedy = "needs Linux 5.6 and CAP_SYS_PTRACE; without it the kernel's own readahead stays on";
            Mechanism::fails(name, error.to_string(), remedy)
        }
    }
}

fn fiemap(file: &File) -> Mechanism {
    let name = "physical order, FIEMAP";
    match extents::extents(file, page_bytes(), DiskId(0), extents::EXTENTS_IN_ALL, 0) {
        extents if !extents.is_empty() => {
            Mechanism::works(name, format!("extents of the file: {}", extents.len()))
        }
        _ => {
            let remedy = "none needed: batches are ordered by place in the file instead";
            Mechanism::fails(name, "the file system does not say where blocks are", remedy)
        }
    }
}

/// Asks which inode has the pages of a file.
fn inode(file: &File) -> Mechanism {
    let name = "the inode behind a file, BPF_PROG_TEST_RUN";
    let remedy = "needs Linux 5.17 and the privileges for BPF; without it files on overlays and btrfs are left to the kernel";
    match identity::of(file) {
        Some(identity) if look_at(file).is_ok_and(|looks| Some(looks.key) == identity.key) => {
            Mechanism::works(name, "told, also of files on overlays and btrfs")
        }
        Some(_) => Mechanism::fails(
            name,
            "another inode than stat(2) describes",
            "report the file system and the kernel",
        ),
        None => Mechanism::fails(name, "the kernel does not tell", remedy),
    }
}

/// A child that has a file open as its standard output and does nothing, until its standard input is closed:
/// also when this process is killed.
struct Waiting(Child);

impl Waiting {
    fn start(file: &File) -> io::Result<Waiting> {
        Command::new("/bin/sh")
            .args(["-c", "read line"])
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(Stdio::null())
            .spawn()
            .map(Waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself now; that it is waited for is all that matters.
        let _ = self.0.wait();
    }
}

/// A file mapped into this process.
struct Mapping {
    at: *mut libc::c_void,
    bytes: usize,
}

impl Mapping {
    fn new(file: &File, bytes: usize) -> io::Result<Mapping> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a new mapping at an address that the kernel chooses; no memory of ours is touched.
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        Ok(Mapping { at, bytes })
    }

    /// Brings every page in.
    fn touch(&self) {
        for offset in (0..self.bytes).step_by(page_bytes() as usize) {
            // SAFETY: inside the mapping, of a file that is as long and that nobody else can name.
            unsafe { self.at.cast::<u8>().add(offset).read_volatile() };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and no reference into it exists.
        let _ = unsafe { rustix::mm::munmap(self.at, self.bytes) };
    }
}
