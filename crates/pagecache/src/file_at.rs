//! What lies at a path, or is open: what can be told of it without asking its file system.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::file_key::FileKey;
use crate::filesystems;
use crate::identity::{self, Identity};
use crate::own_mounts;
use crate::reach::{self, Seen};

impl FileKey {
    /// The key of an open file, as the page cache knows it: that of the inode which has its pages.
    ///
    /// # Errors
    /// What `statx(2)` says.
    pub fn of(file: &File) -> std::io::Result<FileKey> {
        Ok(look_at(file)?.key)
    }
}

/// What can be told of a file without asking its file system (but an overlay, see [`identity`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Who it is to the page cache.
    pub(crate) key: FileKey,
    /// A regular file.
    pub(crate) is_file: bool,
    /// What statx(2) says: another device, and perhaps another number, on an overlay.
    pub(crate) stat: FileKey,
    /// What the kernel says that it is, if it had to be asked.
    pub(crate) identity: Option<Identity>,
}

impl Looks {
    /// With what a path or a descriptor leads to open as `there`, by which it can be found out who it is.
    pub(crate) fn of(seen: &Seen, there: Option<impl AsFd>) -> Looks {
        let Seen { stat, is_file, .. } = *seen;
        let identity = if seen.is_plain() { None } else { there.and_then(identity::of) };
        Looks { key: identity.and_then(|identity| identity.key).unwrap_or(stat), is_file, stat, identity }
    }

    /// Whether it is this regular file.
    pub(crate) fn is(&self, key: FileKey) -> bool {
        self.is_file && self.key == key
    }

    /// Whether its pages come from a disk of this machine. Device numbers without a major one stand for none, but for
    /// btrfs, which may have several.
    pub(crate) fn is_on_disk(&self) -> bool {
        let told =
            |identity: Identity| filesystems::of_magic(identity.magic).on_disk && identity.key.is_some();
        self.key.dev >> 20 != 0 || self.identity.is_some_and(told)
    }

    /// Whether its pages belong to a file below the one that was opened.
    pub(crate) fn is_layered(&self) -> bool {
        self.key != self.stat
    }

    /// Why it cannot be steered whoever asks for it, if that can be told without asking its file system.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        let identity = self.identity?;
        identity.obstacle().or_else(|| filesystems::of_magic(identity.magic).never)
    }

    /// Generation of the inode that has its pages, as far as told.
    pub(crate) fn generation(&self) -> u32 {
        self.identity.map_or(0, |identity| identity.generation)
    }

    /// Under which device and inode `/proc/PID/maps` may show it besides its key.
    pub(crate) fn shown(&self) -> FileKey {
        self.identity.map_or(self.key, |identity| identity.shown)
    }
}

/// Looks at what a path leads to, with what the kernel knows of it at hand (`AT_STATX_DONT_SYNC`): among the
/// files that a stranger's process has open may be some whose file system, a program of the same stranger's,
/// never answers. What lies on a server in the network is not looked at ([`crate::network`]).
pub(crate) fn look(path: &Path) -> io::Result<Looks> {
    let seen = reach::look(path, false)?;
    Ok(Looks::of(&seen, seen.there.as_ref()))
}

/// The same for an open file.
pub(crate) fn look_at(file: impl AsFd) -> io::Result<Looks> {
    Ok(Looks::of(&reach::look_at(&file)?, Some(file)))
}

/// Opens what a path leads to for reading, if it is the regular file `key`. What else may have come to lie
/// there is looked at and never opened: opening a device can have effects.
pub(crate) fn open_same(path: &Path, key: FileKey) -> io::Result<File> {
    let seen = reach::look(path, true)?;
    let there = seen.there.as_ref().filter(|there| Looks::of(&seen, Some(there)).is(key));
    open_again(there.ok_or(io::ErrorKind::NotFound)?)
}

/// A regular file on a disk, open for reading.
#[derive(Debug)]
pub(crate) struct OnDisk {
    pub(crate) file: File,
    /// Its canonical path.
    pub(crate) path: PathBuf,
    pub(crate) looks: Looks,
}

/// Opens what lies at a path for reading, if it is a regular file on a disk; else says what it is. Nothing else is opened,
/// whatever comes to lie there meanwhile: to open a device has effects, and a file of a file system that a program serves
/// may never be open.
pub(crate) fn open_on_disk(path: &Path) -> io::Result<Result<OnDisk, &'static str>> {
    let seen = reach::look(path, true)?;
    let Some(there) = &seen.there else { return Ok(Err("not a regular file")) };
    let looks = Looks::of(&seen, Some(there));
    if !looks.is_on_disk() {
        let unknown = looks.identity.and_then(|identity| identity.obstacle());
        return Ok(Err(unknown.unwrap_or("on no disk of this machine")));
    }
    if own_mounts::is_new(there) {
        return Ok(Err(own_mounts::NEW));
    }
    let canonical = if seen.is_canonical { Some(path.to_owned()) } else { path_of(there) };
    let canonical = canonical.ok_or(io::ErrorKind::NotFound)?;
    Ok(Ok(OnDisk { file: open_again(there)?, path: canonical, looks }))
}

/// Opens what lies at a path for reading, if it is a regular file on a disk, and nothing else: to open a device has
/// effects. `None` otherwise.
#[must_use]
pub fn open_regular(path: &Path) -> Option<File> {
    open_on_disk(path).ok()?.ok().map(|found| found.file)
}

/// A second open file on the same inode: what is done to it does not show on the first.
pub(crate) fn open_again(file: impl AsFd) -> io::Result<File> {
    reach::open_again(file)
}

/// What a link of procfs says, without the mark of deleted files.
fn link_target(link: &Path) -> Option<PathBuf> {
    let target = fs::read_link(link).ok()?;
    match target.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        // A living file may be called so as well.
        Some(name) if fs::symlink_metadata(&target).is_err() => {
            Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
        }
        _ => Some(target),
    }
}

/// The present path of an open file.
pub(crate) fn path_of(file: impl AsFd) -> Option<PathBuf> {
    let path = link_target(Path::new(&format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())))?;
    Some(own_mounts::as_others_see(file, path))
}

/// What keeps a file out of our control, if anything: `None` for regular files on a disk.
pub(crate) fn obstacle(file: &File) -> io::Result<Option<&'static str>> {
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Ok(Some("a directory"));
    }
    if !kind.is_file() {
        return Ok(Some("not a regular file"));
    }
    obstacle_of(look_at(file)?, file)
}

/// The same of a regular file that was looked at.
pub(crate) fn obstacle_of(looks: Looks, file: &File) -> io::Result<Option<&'static str>> {
    // What counts is the file system that has the pages.
    if looks.identity.is_some() {
        return Ok(looks.obstacle());
    }
    Ok(filesystems::under(file)?.never)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_on_disks_are_opened() {
        let of = |path: &str| open_on_disk(Path::new(path)).unwrap().err();
        assert_eq!(of(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")), None);
        for path in ["/dev/null", "/dev/ptmx", "/"] {
            assert_eq!(of(path), Some("not a regular file"), "{path}");
        }
        assert_eq!(of("/proc/self/stat"), Some("on no disk of this machine"));
        assert!(open_on_disk(Path::new("/no/such/file")).is_err());
    }

    #[test]
    fn what_is_not_on_a_disk_is_told() {
        let of = |path: &str| obstacle(&File::open(path).unwrap()).unwrap();
        assert_eq!(of("/proc/self/stat"), Some("a file of the kernel's"));
        assert_eq!(of("/"), Some("a directory"));
        assert_eq!(of(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")), None);
    }
}
