//! From a device and inode number, as the kernel reports them, to a path and a descriptor of our own.
//!
//! Most file systems can open an inode by its number ([`crate::handles`]), which is quick. But of a file system that is
//! mounted twice, or lies below an overlay, it may give another path than the one that is used. There the process
//! that was seen to use the file has it open or mapped, most likely: its descriptors and mappings are looked through,
//! a microsecond each, and are of no use once it has closed the file.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::descriptors::{self, Descriptors, Search, Unknown};
use crate::file_at::{Looks, look, open_again, path_of};
use crate::file_key::FileKey;
use crate::handles::Mounts;
use crate::kernel;
use crate::own_mounts;
use crate::reach;

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

    /// Whether it lies on a disk that was mounted since we began, and is left alone. Nothing is opened.
    pub(crate) fn is_on_new_mount(&self) -> bool {
        match &self.via {
            Via::Path(there) => own_mounts::is_new(there),
            Via::Open(file) => own_mounts::is_new(file),
        }
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
    if own_mounts::is_new_disk(key.dev) {
        return Err(Unknown::NotOpen);
    }
    let mut numbered = if mounts.is_sole(key.dev) { by_number(key, generation, mounts) } else { None };
    if let Some(found) = numbered.take_if(|found| found.has_one_name()) {
        descriptors.look_for_obstacles(tgid);
        return Ok(found);
    }
    let number = descriptors.find(tgid, key, search);
    number
        .ok()
        .and_then(|number| found_at(&descriptors::link(tgid, number), key))
        .or_else(|| found_at(&descriptors.find_mapped(tgid, key, search)?, key))
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

/// Opens an inode by its number, if its path can be told. Without a generation it could be another one by now, but for those
/// that have none: of file systems that were written as a whole (`mke2fs -d`, as images of machines are) and such as are only
/// read. To ext4 none means any (`ext4_nfs_get_inode` of `fs/ext4/super.c`).
fn by_number(key: FileKey, generation: u32, mounts: &mut Mounts) -> Option<Found> {
    let file = mounts.open(key, generation)?;
    if generation == 0 && kernel::generation(&file) != 0 {
        return None;
    }
    let path = path_of(&file)?;
    // Opened by number, a file may not be connected to its directory: its path means nothing then.
    let looks = look(&path).ok().filter(|looks| looks.is(key))?;
    Some(Found { path, looks, via: Via::Open(file) })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::kernel::generation;

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
}
