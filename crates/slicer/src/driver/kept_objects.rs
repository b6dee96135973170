//! Translated units as objects, kept in the user's cache: programs of one project share units, and those of which their
//! slices need the same are translated to the same text.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::compiler::Compiler;
use super::headers::cache;
use crate::store::{self, Store};

/// Most bytes of objects that are kept.
const MOST_BYTES: u64 = 256 << 20;

/// How the flags begin with which a compiler reads the text and writes the object, and nothing else.
const PLAIN: &[&str] = &["-O", "-g", "-W", "-w", "-f", "-m", "-std=", "-ansi", "-pipe", "-pthread"];

/// How those of them begin that read or write something beside.
const NOT_PLAIN: &[&str] = &[
    "-gsplit",
    "-Wa,",
    "-Wp,",
    "-Wl,",
    "-fprofile",
    "-fbranch",
    "-fauto",
    "-fdump",
    "-fstack-usage",
    "-fcallgraph",
    "-fplugin",
    "-fopt-info",
    "-fsave",
    "-fsanitize-",
    "-ftest",
    "-fcrash",
    "-fmodule",
    "-frepo",
    "-fcompare",
    "-flto",
    "-foffload",
    "-fpch",
    "-fxray",
    "-finstrument",
];

/// The place of one object.
pub(super) struct Kept {
    store: Store,
    key: u128,
}

/// Where the object of a translated text is kept that is compiled with these flags in this folder; `None` if they may do
/// more than make it.
pub(super) fn of(compiler: &Compiler, flags: &[OsString], folder: &Path, text: &str) -> Option<Kept> {
    if !flags.iter().all(|flag| flag.to_str().is_some_and(is_plain)) {
        return None;
    }
    let store = Store::new(cache(|name| std::env::var_os(name), "objects")?, MOST_BYTES);
    let stamps: Vec<_> = compiler.words.iter().map(|word| store::stamp(word)).collect();
    let key = store::key(("object", &compiler.words, stamps, flags, folder, text));
    Some(Kept { store, key })
}

impl Kept {
    /// Puts what was kept at `object`; `false` if there is nothing.
    pub(super) fn take(&self, object: &Path) -> bool {
        self.store.get(self.key).is_some_and(|bytes| fs::write(object, bytes).is_ok())
    }

    pub(super) fn keep(&self, object: &Path) {
        if let Ok(bytes) = fs::read(object) {
            self.store.put(self.key, &bytes);
            self.store.trim();
        }
    }
}

fn is_plain(flag: &str) -> bool {
    let begins = |with: &[&str]| with.iter().any(|begin| flag.starts_with(begin));
    // A home may be shared by machines of several kinds.
    begins(PLAIN) && !begins(NOT_PLAIN) && !flag.ends_with("=native")
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn flags_that_write_something_else_are_not_plain() {
        for flag in
            ["-O2", "-g", "-ggdb3", "-Wall", "-fPIC", "-fstack-protector-strong", "-m32", "-std=gnu99"]
        {
            assert!(is_plain(flag), "{flag}");
        }
        for flag in [
            "-gsplit-dwarf",
            "-save-temps",
            "-fprofile-use",
            "-fdump-tree-all",
            "-specs=x",
            "x.h",
            "--coverage",
            "-march=native",
        ] {
            assert!(!is_plain(flag), "{flag}");
        }
    }
}
