//! The runtime as an object file, compiled once for a compiler and its flags and kept in the user's cache.
//!
//! An object is found by what it was made from: the runtime's text, the compiler's words, the size and the time of
//! change of each word that is a program, and the flags.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::compiler::Compiler;
use super::headers::cache;
use crate::runtime::{RUNTIME_SOURCE, hash_runtime};
use crate::store::{self, Store};

/// Most bytes of objects that are kept. A user has a handful of compilers, and an object has some 100 KB.
const MOST_BYTES: u64 = 8 << 20;

/// Makes the runtime's object at `object` from the sources in the folder `sources`, or takes it from the cache.
pub(super) fn make(
    compiler: &Compiler,
    flags: &[OsString],
    sources: &Path,
    object: &Path,
) -> Result<(), String> {
    compile(compiler, flags, &sources.join(RUNTIME_SOURCE), object, "object")
}

/// The same of any source of the runtime, which is kept under the name `what`.
pub(super) fn compile(
    compiler: &Compiler,
    flags: &[OsString],
    source: &Path,
    object: &Path,
    what: &str,
) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", object.display());
    let store = store();
    let key = key(&compiler.words, flags, what);
    if let Some(bytes) = store.as_ref().and_then(|store| store.get(key)) {
        return fs::write(object, bytes).map_err(failed);
    }
    let mut arguments = flags.to_vec();
    arguments.extend(
        ["-O1", "-foptimize-sibling-calls", "-w", "-fPIC", "-pthread", "-c", "-o"].map(OsString::from),
    );
    // By its bare name, which may get into the object: the folder is another one each time.
    arguments.extend([object.into(), source.file_name().unwrap_or_default().into()]);
    compiler.run_quietly(source.parent(), &arguments, "the runtime does not compile")?;
    if let Some(store) = store {
        store.put(key, &fs::read(object).map_err(failed)?);
        store.trim();
    }
    Ok(())
}

/// Where what is made from the runtime is kept.
pub(super) fn store() -> Option<Store> {
    cache(|name| std::env::var_os(name), "runtime").map(|folder| Store::new(folder, MOST_BYTES))
}

/// The key of what is made from the runtime by a compiler and its flags.
pub(super) fn key(words: &[OsString], flags: &[OsString], what: &str) -> u128 {
    let stamps: Vec<_> = words.iter().map(|word| store::stamp(word)).collect();
    store::key((what, RuntimeText, words, stamps, flags))
}

struct RuntimeText;

impl std::hash::Hash for RuntimeText {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        hash_runtime(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_compiler_or_flag_is_another_object() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let plain = key(&words(&["cc"]), &[], "object");
        assert_eq!(plain, key(&words(&["cc"]), &[], "object"));
        assert_ne!(plain, key(&words(&["gcc"]), &[], "object"));
        assert_ne!(plain, key(&words(&["cc"]), &words(&["-m32"]), "object"));
        // A compiler that was replaced.
        let folder = tempfile::tempdir().unwrap();
        let compiler = folder.path().join("cc");
        fs::write(&compiler, "one").unwrap();
        let before = key(&[compiler.clone().into()], &[], "object");
        fs::write(&compiler, "another").unwrap();
        assert_ne!(before, key(&[compiler.into()], &[], "object"));
    }
}
