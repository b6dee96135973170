//! The symbols of an object: which functions it calls by their names, and which of these get other names.
//!
//! Only what Linux has on 64-bit machines is read (elf(5)); of everything else nothing is known, and it is compiled again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{LittleEndian, Object as _, ObjectKind, ObjectSection as _, ObjectSymbol as _};

/// The names of an object's symbols.
struct Symbols<'o> {
    undefined: BTreeSet<&'o str>,
    defined: BTreeSet<&'o str>,
}

impl<'o> Symbols<'o> {
    fn read(object: &'o [u8]) -> Option<Self> {
        let file = ElfFile::<FileHeader64<LittleEndian>>::parse(object).ok()?;
        // What is compiled when it is linked, keeps its names.
        let is_for_later = file.sections().any(|s| s.name().is_ok_and(|name| name.starts_with(".gnu.lto_")));
        if file.kind() != ObjectKind::Relocatable || is_for_later {
            return None;
        }
        let mut symbols = Self { undefined: BTreeSet::new(), defined: BTreeSet::new() };
        for symbol in file.symbols() {
            let name = symbol.name().ok()?;
            if symbol.is_undefined() {
                symbols.undefined.insert(name)
            } else {
                symbols.defined.insert(name)
            };
        }
        Some(symbols)
    }

    /// What the object calls this function of another one. `None` if it has several names for it, or none.
    fn of(&self, function: &str) -> Option<String> {
        if self.defined.contains(function) {
            return None;
        }
        // With large files, and with checks of sizes.
        let large = format!("{function}64");
        let is_variant = |name: &&&str| {
            let inner = name.strip_prefix("__").and_then(|name| name.strip_prefix(function));
            inner.is_some_and(|rest| rest.starts_with('_') || rest.starts_with("64"))
        };
        let plain = [function, &large].into_iter().filter(|name| self.undefined.contains(name));
        let mut found = plain.chain(self.undefined.iter().filter(is_variant).copied());
        let name = found.next().filter(|name| !name.starts_with("__"))?;
        found.next().is_none().then(|| name.to_owned())
    }
}

/// Gives symbols of the object at `path`, whose bytes these are, other names; `false` if it has not just these, or does not
/// define `main` where it `is_main`.
pub(super) fn rename(path: &Path, object: &[u8], names: &[(String, String)], is_main: bool) -> bool {
    let Some(symbols) = Symbols::read(object) else { return false };
    if is_main && !symbols.defined.contains("main") {
        return false;
    }
    let found = names.iter().map(|(name, other)| Some((symbols.of(name)?, other.clone())));
    let Some(found) = found.collect::<Option<Vec<_>>>() else { return false };
    std::fs::write(path, object).is_ok() && redefine(path, &found)
}

/// The names that an object has from elsewhere.
pub(super) fn undefined(object: &[u8]) -> Option<BTreeSet<&str>> {
    Symbols::read(object).map(|symbols| symbols.undefined)
}

/// Gives symbols of an object other names.
pub(super) fn redefine(path: &Path, names: &[(String, String)]) -> bool {
    ["objcopy", "llvm-objcopy"].iter().any(|tool| {
        let mut command = Command::new(tool);
        for (name, other) in names {
            command.arg("--redefine-sym").arg(format!("{name}={other}"));
        }
        command.arg(path).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_says_what_it_calls() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = "int isatty(int); int read64(int); int __close_2(int);\nint close(int);\n\
                    int main(void) { return isatty(0) + read64(1) + close(2) + __close_2(3); }\n";
        std::fs::write(path("a.c"), text).unwrap();
        let compiled = Command::new("cc").arg("-c").arg(path("a.c")).arg("-o").arg(path("a.o")).status();
        assert!(compiled.unwrap().success());
        let bytes = std::fs::read(path("a.o")).unwrap();
        let symbols = Symbols::read(&bytes).unwrap();
        let called = ["isatty", "read", "close", "open", "main"].map(|name| symbols.of(name));
        let expected = [Some("isatty"), Some("read64"), None, None, None];
        assert_eq!(called.each_ref().map(Option::as_deref), expected);
        let pair = |name: &str, other: &str| (name.to_owned(), other.to_owned());
        assert!(!rename(&path("b.o"), &bytes, &[pair("close", "x")], true));
        assert!(rename(&path("b.o"), &bytes, &[pair("read", "x")], true));
        let renamed = std::fs::read(path("b.o")).unwrap();
        let symbols = Symbols::read(&renamed).unwrap();
        assert!(symbols.defined.contains("main") && symbols.undefined.contains("x"));
        assert!(!symbols.undefined.contains("read64"));
        std::fs::write(path("c.c"), "int read(int); int other(void) { return read(0); }\n").unwrap();
        let compiled = Command::new("cc").arg("-c").arg(path("c.c")).arg("-o").arg(path("c.o")).status();
        assert!(compiled.unwrap().success());
        let bytes = std::fs::read(path("c.o")).unwrap();
        let renamed =
            [true, false].map(|is_main| rename(&path("d.o"), &bytes, &[pair("read", "x")], is_main));
        assert_eq!(renamed, [false, true]);
    }

    #[test]
    fn damage_is_no_object() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let object = folder.path().join("a.o");
        assert!(Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&object).status().unwrap().success());
        let bytes = std::fs::read(&object).unwrap();
        for length in 0..bytes.len() {
            let _ = Symbols::read(&bytes[..length]);
        }
        for at in 0..64 {
            let mut damaged = bytes.clone();
            damaged[at] = 0xff;
            let _ = Symbols::read(&damaged);
        }
        assert!(Symbols::read(b"").is_none() && Symbols::read(&[0; 100]).is_none());
    }
}
