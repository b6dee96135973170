//! The same, done by this process with what rights it has.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx, StatxFlags, open, openat2, statx};

use super::link::{Link, Links, Seen};
use crate::file_key::FileKey;
use crate::kernel::open_quietly;
use crate::network;
use crate::own_mounts;

impl Seen {
    pub(super) fn of(found: &Statx) -> Seen {
        let dev = (u64::from(found.stx_dev_major) << 20) | u64::from(found.stx_dev_minor);
        let is_file = rustix::fs::FileType::from_raw_mode(found.stx_mode.into()).is_file();
        Seen { stat: FileKey { dev, ino: found.stx_ino }, is_file, is_canonical: false, there: None }
    }

    /// Whether statx(2) says who it is to the page cache.
    pub(crate) fn is_plain(&self) -> bool {
        !self.is_file || self.stat.dev >> 20 != 0
    }
}

const WANTED: StatxFlags = StatxFlags::TYPE.union(StatxFlags::INO);

/// With what the kernel knows at hand (`AT_STATX_DONT_SYNC`): among the files that a stranger's process has open may be
/// some whose file system, a program of the same stranger's, never answers. A broker is `confined`: to it openat2(2) is
/// forbidden, whose flags are where a filter of system calls cannot see them.
pub(super) fn look(path: &Path, wants_it: bool, confined: bool) -> io::Result<Seen> {
    if network::leads_there(path) {
        return Err(io::ErrorKind::NotFound.into());
    }
    if !wants_it {
        let seen = Seen::of(&statx(CWD, path, AtFlags::STATX_DONT_SYNC, WANTED)?);
        if !seen.is_file || seen.is_plain() {
            return Ok(seen);
        }
    }
    // Nothing is opened by that, whatever lies there.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let direct = if !confined && is_spelt_out(path) {
        let here = || openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok();
        own_mounts::look_beside(path).or_else(here)
    } else {
        None
    };
    let is_canonical = direct.is_some();
    let there = direct.map_or_else(|| open(path, flags, Mode::empty()), Ok)?;
    let seen = look_at(&there)?;
    Ok(Seen { is_canonical, there: seen.is_file.then_some(there), ..seen })
}

/// Whether a path is its file's canonical one if there are no symbolic links on its way. To read that from procfs takes
/// longer than to open the file.
fn is_spelt_out(path: &Path) -> bool {
    let mut parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    let is_absolute = parts.next() == Some(b"");
    // The links of procfs are no names.
    is_absolute && !path.starts_with("/proc") && parts.all(|part| !matches!(part, b"" | b"." | b".."))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_canonical_without_links_on_its_way() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(dir.join("d")).unwrap();
        fs::write(dir.join("d/file"), "x").unwrap();
        std::os::unix::fs::symlink("d", dir.join("link")).unwrap();
        std::os::unix::fs::symlink("d/file", dir.join("last")).unwrap();
        let looks = |name: &str| {
            look(&dir.join(name), true, false).map(|seen| (seen.is_canonical, seen.there.is_some()))
        };
        assert_eq!(looks("d/file").unwrap(), (true, true));
        for name in ["link/file", "last", "d/../d/file", "d//file", "./d/file"] {
            assert_eq!(looks(name).unwrap(), (false, true), "{name}");
        }
        assert_eq!(looks("d").unwrap(), (true, false), "a directory");
        assert!(looks("none").is_err());
        assert!(
            !look(&dir.join("d/file"), true, true).unwrap().is_canonical,
            "a broker does not find that out"
        );
    }
}
