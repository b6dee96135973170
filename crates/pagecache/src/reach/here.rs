//! The same, done by this process with what rights it has.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, statx};

use super::link::{Link, Links, Seen};
use crate::file_key::FileKey;
use crate::kernel::open_quietly;
use crate::network;

impl Seen {
    pub(super) fn of(found: &Statx) -> Seen {
        let dev = (u64::from(found.stx_dev_major) << 20) | u64::from(found.stx_dev_minor);
        let is_file = rustix::fs::FileType::from_raw_mode(found.stx_mode.into()).is_file();
        Seen { stat: FileKey { dev, ino: found.stx_ino }, is_file, there: None }
    }

    /// Whether statx(2) says who it is to the page cache.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_file || self.stat.dev >> 20 != 0
    }
}

const WANTED: StatxFlags = StatxFlags::TYPE.union(StatxFlags::INO);

/// With what the kernel knows at hand (`AT_STATX_DONT_SYNC`): among the files that a stranger's process has open may be
/// some whose file system, a program of the same stranger's, never answers.
pub(super) fn look(path: &Path, wants_it: bool) -> io::Result<Seen> {
    if network::leads_there(path) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut seen = Seen::of(&statx(CWD, path, AtFlags::STATX_DONT_SYNC, WANTED)?);
    if seen.is_file && (wants_it || !seen.is_plain()) {
        let there = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        // Something else may lie there by now.
        seen = look_at(&there)?;
        seen.there = seen.is_file.then_some(there);
    }
    Ok(seen)
}

/// The same for something that is open.
pub(super) fn look_at(file: impl AsFd) -> io::Result<Seen> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::EMPTY_PATH;
    Ok(Seen::of(&statx(file, "", flags, WANTED)?))
}

pub(super) fn links(pid: u32, links: Links, most: usize) -> io::Result<Vec<Link>> {
    let entries = fs::read_dir(links.directory(pid))?;
    let found = entries.filter_map(|entry| links.parse(entry.ok()?.file_name().to_str()?));
    Ok(found.take(most).collect())
}

pub(super) fn open_again(file: impl AsFd) -> io::Result<File> {
    open_quietly(Path::new(&format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())))
}
