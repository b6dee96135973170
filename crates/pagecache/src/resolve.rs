//! From a device and inode number, as the kernel reports them, to a path and a descriptor of our own.
//!
//! Most file systems can open an inode by its number ([`crate::handles`]), which is quick. But of a file system that is
//! mounted twice, or lies below an overlay, it may give another path than the one that is used. There the process
//! that was seen to use the file has it open or mapped, most likely: its descriptors and mappings are looked through,
//! a microsecond each, and are of no use once it has closed the file.

#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::descriptors::{self, Descriptors, Search, Unknown};
use crate::handles::Mounts;
use crate::identity::{self, Identity};
use crate::observe::FileKey;
use crate::reach::{self, Links, Seen};

/// Mappings of a process that are looked at, 2 ms; a file mapped beyond is looked for by its inode number.
const MAPPINGS: usize = 1024;

/// A file that was found, and stays what it is whatever the process does to its descriptor meanwhile.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its canonical path, or the last one it had before it was deleted.
    pub(crate) path: PathBuf,
    looks: Looks,
    via: Via,
}

/// What leads to it.
#[derive(Debug)]
enum Via {
    /// A descriptor that is open as a path only: its file system was not asked.
    Path(OwnedFd),
    /// It could be opened by its number only.
    Open(File),
}

impl Found {
    /// Whether its pages come from a disk of this machine. Nothing is opened.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.looks.is_on_disk()
    }

    fn has_one_name(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        matches!(&self.via, Via::Open(file) if file.metadata().is_ok_and(|metadata| metadata.nlink() == 1))
    }

    /// A descriptor of our own on the file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn open(self) -> io::Result<File> {
        match self.via {
            Via::Path(there) => open_again(there),
            Via::Open(file) => Ok(file),
        }
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
        let on_btrfs = |identity: Identity| identity.magic == identity::BTRFS && identity.key.is_some();
        self.key.dev >> 20 != 0 || self.identity.is_some_and(on_btrfs)
    }

    /// Whether its pages belong to a file below the one that was opened.
    pub(crate) fn is_layered(&self) -> bool {
        self.key != self.stat
    }

    /// Why it cannot be steered whoever asks for it, if that can be told without asking its file system.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        let identity = self.identity?;
        identity.obstacle().or_else(|| never_steered(identity.magic))
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

/// Opens what lies at a path for reading, if it is a regular file on a disk, with its canonical path; else says what it is.
/// Nothing else is opened, whatever comes to lie there meanwhile: to open a device has effects, and a file of a file system
/// that a program serves may never be open.
pub(crate) fn open_on_disk(path: &Path) -> io::Result<Result<(File, PathBuf), &'static str>> {
    let seen = reach::look(path, true)?;
    let Some(there) = &seen.there else { return Ok(Err("not a regular file")) };
    let looks = Looks::of(&seen, Some(there));
    if !looks.is_on_disk() {
        let unknown = looks.identity.and_then(|identity| identity.obstacle());
        return Ok(Err(unknown.unwrap_or("on no disk of this machine")));
    }
    let canonical = path_of(there).ok_or(io::ErrorKind::NotFound)?;
    Ok(Ok((open_again(there)?, canonical)))
}

/// Opens what lies at a path for reading, if it is a regular file on a disk, and nothing else: to open a device has
/// effects. `None` otherwise.
#[must_use]
pub fn open_regular(path: &Path) -> Option<File> {
    open_on_disk(path).ok()?.ok().map(|(file, _)| file)
}

/// A second open file on the same inode: what is done to it does not show on the first.
pub(crate) fn open_again(file: impl AsFd) -> io::Result<File> {
    reach::open_again(file)
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

/// Looks for the file by its inode number, which takes some microseconds, if its path is sure to be the one by which it is
/// used; then among those that process `tgid` has open or mapped, and by its number come what may.
///
/// # Errors
/// When it is not found. It may still be open if there was [`Unknown::NoTime`] to look.
pub(crate) fn find(
    tgid: u32,
    key: FileKey,
    generation: u32,
    (descriptors, mounts): (&mut Descriptors, &mut Mounts),
    search: Search,
) -> Result<Found, Unknown> {
    let mut numbered = if mounts.is_sole(key.dev) { by_number(key, generation, mounts) } else { None };
    if let Some(found) = numbered.take_if(|found| found.has_one_name()) {
        return Ok(found);
    }
    let number = descriptors.find(tgid, key, search);
    number
        .ok()
        .and_then(|number| found_at(&descriptors::link(tgid, number), key))
        .or_else(|| among_mappings(tgid, key))
        .or(numbered)
        .or_else(|| by_number(key, generation, mounts))
        .ok_or(number.err().unwrap_or(Unknown::NotOpen))
}

/// The file that a link of procfs leads to, if it is that one: a program may have closed it since it was seen there, and
/// may have another one open under its number.
fn found_at(link: &Path, key: FileKey) -> Option<Found> {
    let mut seen = reach::look(link, true).ok()?;
    let there = seen.there.take()?;
    let looks = Some(Looks::of(&seen, Some(&there))).filter(|looks| looks.is(key))?;
    Some(Found { path: path_of(&there)?, looks, via: Via::Path(there) })
}

fn among_mappings(tgid: u32, key: FileKey) -> Option<Found> {
    let mappings = reach::links(tgid, Links::Mapped, MAPPINGS).ok()?;
    let seen = reach::look_at_links(tgid, Links::Mapped, &mappings);
    let is_it = |seen: &Seen| Looks::of(seen, seen.there.as_ref()).is(key);
    let it = mappings.iter().zip(&seen).filter(|(_, seen)| seen.as_ref().is_some_and(is_it));
    it.into_iter().find_map(|(link, _)| found_at(&Links::Mapped.path(tgid, *link), key))
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
    link_target(Path::new(&format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())))
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
    let _ = crate::kernel::advise(&file, 0, 0, libc::POSIX_FADV_RANDOM);
    Ok(file)
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
    // What counts is the file system that has the pages.
    let looks = look_at(file)?;
    if looks.identity.is_some() {
        return Ok(looks.obstacle());
    }
    Ok(never_steered(rustix::fs::fstatfs(file)?.f_type.cast_unsigned() as u32))
}

/// What lies in `/proc` and its like: made when it is read, and never in the page cache.
pub(crate) const OF_THE_KERNEL: &str = "a file of the kernel's";

/// Why the pages of a file system cannot be steered, if they cannot (`include/uapi/linux/magic.h`).
fn never_steered(magic: u32) -> Option<&'static str> {
    match magic {
        identity::OVERLAY => Some("a file on an overlay file system"),
        0x0102_1994 | 0x8584_58f6 | 0x9584_58f6 => Some("a file in memory"),
        0x9fa0 | 0x6265_6572 | 0x6462_6720 | 0x7472_6163 | 0x6367_7270 | 0x0027_e0eb => Some(OF_THE_KERNEL),
        // Inode numbers repeat in its snapshots, and nothing tells which of them a page belongs to.
        0xca45_1a4e => Some("a file on bcachefs"),
        _ => None,
    }
}

/// Opens an inode by its number, if its path can be told. Without a generation it could be another one by now.
fn by_number(key: FileKey, generation: u32, mounts: &mut Mounts) -> Option<Found> {
    let file = (generation != 0).then(|| mounts.open(key, generation)).flatten()?;
    let path = path_of(&file)?;
    // Opened by number, a file may not be connected to its directory: its path means nothing then.
    let looks = look(&path).ok().filter(|looks| looks.is(key))?;
    Some(Found { path, looks, via: Via::Open(file) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_open_is_found_by_its_key_even_when_deleted() {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let key = FileKey::of(file.as_file()).unwrap();
        let path = fs::canonicalize(file.path()).unwrap();
        let mut descriptors = Descriptors::new();
        let mut mounts = Mounts::default();
        let mut find =
            || super::find(std::process::id(), key, 0, (&mut descriptors, &mut mounts), Search::Certain);
        let found = find().unwrap();
        assert_eq!(found.path, path);
        assert_eq!(FileKey::of(&found.open().unwrap()).unwrap(), key);
        fs::remove_file(&path).unwrap();
        let found = find().unwrap();
        assert_eq!(found.path, path, "the last path it had");
        assert!(found.open().is_ok());
    }

    #[test]
    fn a_file_that_is_closed_is_found_by_its_number_and_one_of_several_names_where_it_is_open() {
        let test = "a_file_that_is_closed_is_found_by_its_number_and_one_of_several_names_where_it_is_open";
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let [first, second] =
            ["first", "second"].map(|name| fs::canonicalize(dir.path()).unwrap().join(name));
        let file = File::create(&first).unwrap();
        let (key, generation) = (FileKey::of(&file).unwrap(), generation(&file));
        if generation == 0 {
            println!("skipped: {test}: this file system does not tell generations");
            return;
        }
        let (mut descriptors, mut mounts) = (Descriptors::new(), Mounts::default());
        let mut find = || {
            let lists = (&mut descriptors, &mut mounts);
            super::find(std::process::id(), key, generation, lists, Search::Certain).unwrap()
        };
        drop(file);
        assert_eq!(find().path, first);
        fs::hard_link(&first, &second).unwrap();
        for name in [&first, &second] {
            let _open = File::open(name).unwrap();
            assert_eq!(&find().path, name);
        }
        assert!([&first, &second].contains(&&find().path));
    }

    #[test]
    fn a_file_is_found_though_its_number_has_come_to_mean_another_one() {
        let [file, other] =
            [(); 2].map(|()| tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap());
        let key = FileKey::of(file.as_file()).unwrap();
        let of = |number: i32| descriptors::link(std::process::id(), number);
        assert!(found_at(&of(file.as_file().as_raw_fd()), key).is_some());
        assert!(found_at(&of(other.as_file().as_raw_fd()), key).is_none());
        // Found once, it may be closed.
        let found = found_at(&of(file.as_file().as_raw_fd()), key).unwrap();
        let (_, path) = file.into_parts();
        assert!(found.is_on_disk());
        assert_eq!(found.path, fs::canonicalize(&path).unwrap());
        assert_eq!(FileKey::of(&found.open().unwrap()).unwrap(), key);
    }

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
