//! The runtime as an object file, compiled once for a compiler and its flags and kept in the user's cache.
//!
//! An object is found by what it was made from: the runtime's text, the compiler's words, the size and the time of
//! change of each word that is a program, and the flags. Its first bytes in the cache are a hash of the rest, so that one
//! that was cut short or damaged is made again. It is written under a temporary name and renamed, as links of one
//! `make -j` come here together.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::headers::cache;
use super::{Compiler, link::run_quietly};
use crate::runtime::{RUNTIME_SOURCE, hash_runtime};

/// Most objects that are kept; with more the whole folder is emptied. A user has a handful of compilers.
const MOST_OBJECTS: usize = 64;
/// Bytes of the hash at the head of a kept object.
const HASH_BYTES: usize = 8;

/// Makes the runtime's object at `object` from the sources in the folder `sources`, or takes it from the cache.
pub(super) fn make(
    compiler: &Compiler,
    flags: &[OsString],
    sources: &Path,
    object: &Path,
) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", object.display());
    let kept = cache(|name| std::env::var_os(name), "runtime").map(|folder| {
        let key = key(&compiler.words, flags);
        folder.join(format!("{key:016x}.o"))
    });
    if let Some(bytes) = kept.as_deref().and_then(read) {
        return fs::write(object, bytes).map_err(failed);
    }
    let mut arguments = flags.to_vec();
    arguments.extend(["-O2", "-w", "-fPIC", "-pthread", "-c", "-o"].map(OsString::from));
    arguments.extend([object.into(), sources.join(RUNTIME_SOURCE).into()]);
    run_quietly(compiler, None, &arguments, "the runtime does not compile")?;
    if let Some(kept) = kept {
        // A cache that cannot be written is no cache.
        let _ = keep(&kept, object);
    }
    Ok(())
}

/// What the object is made from.
fn key(words: &[OsString], flags: &[OsString]) -> u64 {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    hash_runtime(&mut hasher);
    for word in words {
        word.hash(&mut hasher);
        let stamp = program(word).and_then(|path| fs::metadata(path).ok());
        stamp.map(|m| (m.len(), m.modified().ok())).hash(&mut hasher);
    }
    flags.hash(&mut hasher);
    hasher.finish()
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

/// The object in the cache, if it is whole.
fn read(kept: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(kept).ok()?;
    let (head, object) = bytes.split_at_checked(HASH_BYTES)?;
    (head == hash(object)).then(|| object.to_vec())
}

fn keep(kept: &Path, object: &Path) -> std::io::Result<()> {
    let folder = kept.parent().unwrap_or(Path::new("."));
    let bytes = fs::read(object)?;
    fs::create_dir_all(folder)?;
    let others: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    if others.len() >= MOST_OBJECTS {
        for other in others.iter().filter(|path| path.extension() == Some(OsStr::new("o"))) {
            let _ = fs::remove_file(other);
        }
    }
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&hash(&bytes))?;
    file.write_all(&bytes)?;
    file.persist(kept).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_object_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (object, kept) = (folder.path().join("a.o"), folder.path().join("cache/key.o"));
        fs::write(&object, b"\x7fELF and more").unwrap();
        keep(&kept, &object).unwrap();
        assert_eq!(read(&kept).unwrap(), b"\x7fELF and more");
        let mut bytes = fs::read(&kept).unwrap();
        for damaged in [bytes[..bytes.len() - 1].to_vec(), bytes[..3].to_vec(), Vec::new()] {
            fs::write(&kept, damaged).unwrap();
            assert_eq!(read(&kept), None);
        }
        bytes[HASH_BYTES] ^= 1;
        fs::write(&kept, bytes).unwrap();
        assert_eq!(read(&kept), None);
    }

    #[test]
    fn the_cache_does_not_grow() {
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("a.o");
        fs::write(&object, b"object").unwrap();
        let cache = folder.path().join("cache");
        for number in 0..2 * MOST_OBJECTS {
            keep(&cache.join(format!("{number}.o")), &object).unwrap();
        }
        assert!(fs::read_dir(&cache).unwrap().count() <= MOST_OBJECTS);
    }

    #[test]
    fn another_compiler_or_flag_is_another_object() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let plain = key(&words(&["cc"]), &[]);
        assert_eq!(plain, key(&words(&["cc"]), &[]));
        assert_ne!(plain, key(&words(&["gcc"]), &[]));
        assert_ne!(plain, key(&words(&["cc"]), &words(&["-m32"])));
        // A compiler that was replaced.
        let folder = tempfile::tempdir().unwrap();
        let compiler = folder.path().join("cc");
        fs::write(&compiler, "one").unwrap();
        let before = key(&[compiler.clone().into()], &[]);
        fs::write(&compiler, "another").unwrap();
        assert_ne!(before, key(&[compiler.into()], &[]));
    }
}
