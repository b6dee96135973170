//! What is kept in the user's cache from one command to the next: it could all be made again.
//!
//! A file is found by a key of what it was made from. Its first bytes are a hash of the rest, so one that was cut short or
//! damaged is not taken. It is written under a temporary name and renamed, as the commands of one `make -j` come here
//! together. A folder holds so many bytes at most; beyond that the oldest files go.

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::process::geteuid;

/// Group and all others may write (chmod(2)).
const OTHERS_WRITE: u32 = 0o022;

/// Bytes of the hash at the head of a file.
const HASH_BYTES: usize = 8;

/// A folder of kept files.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    most_bytes: u64,
    /// What this command has written since it looked at the folder's size.
    written_bytes: AtomicU64,
}

impl Store {
    pub(crate) fn new(folder: PathBuf, most_bytes: u64) -> Self {
        Self { folder, most_bytes, written_bytes: AtomicU64::new(0) }
    }

    /// What was kept, if it is whole, and this user's own: under sudo(8) the cache may be another one's, who could have put
    /// anything into it.
    pub(crate) fn get(&self, key: u128) -> Option<Vec<u8>> {
        let mut file = fs::File::open(self.path(key)).ok()?;
        let metadata = file.metadata().ok()?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & OTHERS_WRITE != 0 {
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let (head, rest) = bytes.split_at_checked(HASH_BYTES)?;
        if head != hash(rest) {
            return None;
        }
        bytes.drain(..HASH_BYTES);
        Some(bytes)
    }

    /// Keeps something. A cache that cannot be written is no cache.
    pub(crate) fn put(&self, key: u128, bytes: &[u8]) {
        let size = (bytes.len() + HASH_BYTES) as u64;
        // The folder is looked at now and then: it may be that much larger for a while.
        let due = self.most_bytes / 4;
        if size > due || self.written_bytes.fetch_add(size, Ordering::Relaxed) + size > due && !self.trim() {
            return;
        }
        let _ = self.write(&self.path(key), bytes);
    }

    fn path(&self, key: u128) -> PathBuf {
        self.folder.join(format!("{key:032x}"))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&hash(bytes))?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    }

    /// Removes the oldest files, so that half of the room is free again; `false` if that cannot be done.
    pub(crate) fn trim(&self) -> bool {
        self.written_bytes.store(0, Ordering::Relaxed);
        let Ok(entries) = fs::read_dir(&self.folder) else { return true };
        let file = |entry: fs::DirEntry| {
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries.flatten().filter_map(file).collect();
        let mut held: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if held <= self.most_bytes {
            return true;
        }
        files.sort_unstable();
        for (_, bytes, path) in files {
            if held <= self.most_bytes / 2 {
                break;
            }
            if fs::remove_file(path).is_err_and(|e| e.kind() != io::ErrorKind::NotFound) {
                return false;
            }
            held -= bytes;
        }
        true
    }
}

/// The size and the time of change of a program, by which another one of its name is told.
pub(crate) fn stamp(word: &OsStr) -> Option<(u64, Option<SystemTime>)> {
    let metadata = fs::metadata(program(word)?).ok()?;
    Some((metadata.len(), metadata.modified().ok()))
}

/// The file of a program, as execvp(3) looks for it.
fn program(word: &OsStr) -> Option<PathBuf> {
    if Path::new(word).components().count() > 1 {
        return Some(PathBuf::from(word));
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(word)).find(|path| path.is_file())
}

fn hash(bytes: &[u8]) -> [u8; HASH_BYTES] {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

/// A key of all that something is made from.
pub(crate) fn key(parts: impl Hash) -> u128 {
    let half = |side: u8| {
        let mut hasher = DefaultHasher::new();
        (side, env!("CARGO_PKG_VERSION"), &parts).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn damaged_files_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().join("below"), 1 << 20);
        store.put(7, b"kept");
        assert_eq!(store.get(7).as_deref(), Some(&b"kept"[..]));
        assert_eq!(store.get(8), None);
        let path = store.path(7);
        let mut bytes = fs::read(&path).unwrap();
        for damaged in [bytes[..bytes.len() - 1].to_vec(), bytes[..3].to_vec(), Vec::new()] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(store.get(7), None);
        }
        bytes[HASH_BYTES] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(store.get(7), None);
    }

    #[test]
    fn what_others_could_have_written_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path().to_owned(), 1 << 20);
        store.put(7, b"kept");
        let path = store.path(7);
        for (mode, expected) in [(0o600, true), (0o644, true), (0o664, false), (0o602, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(store.get(7).is_some(), expected, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        match std::os::unix::fs::chown(&path, Some(1), None) {
            Ok(()) => assert_eq!(store.get(7), None),
            Err(e) => println!("skipped: what_others_could_have_written_is_not_taken: chown(2): {e}"),
        }
    }

    #[test]
    fn a_store_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let most = 10_000;
        for command in 0..20 {
            let store = Store::new(folder.path().to_owned(), most);
            for number in 0..50 {
                store.put(command * 50 + number, &[1; 100]);
            }
            assert_eq!(store.get(command * 50 + 49).as_deref(), Some(&[1; 100][..]), "what is newest stays");
            store.put(1_000_000, &[1; 10_000]);
            assert_eq!(store.get(1_000_000), None, "one file is not all there is");
            let sizes = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len());
            assert!(sizes.sum::<u64>() <= most + most / 4);
        }
    }

    #[test]
    fn keys_tell_parts_apart() {
        assert_eq!(key(("a", "b")), key(("a", "b")));
        assert_ne!(key(("a", "b")), key(("ab", "")));
    }
}
