//! Functions of the C library that the runtime calls and the program does not are looked up when they are called first, as
//! runtime/foretell_late.c has it, so that the dynamic linker has no more to do at each start of the program.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{EM_X86_64, FileHeader64};
use object::read::elf::{ElfFile, FileHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _};

use super::compiler::Compiler;
use super::runtime_object;
use super::symbols;
use crate::runtime::{LATE_SOURCE, late_names};

/// Takes from the runtime's object the names that `program`, as it was linked without it, does not have. Gives the object
/// that has them, which is made beside it; `None` where there is no such way, and the object is as it was.
pub(super) fn bind(
    compiler: &Compiler,
    flags: &[OsString],
    sources: &Path,
    program: &Path,
    runtime: &Path,
) -> Option<PathBuf> {
    let imported = fs::read(program).ok()?;
    let imported = imports(&imported)?;
    let object = fs::read(runtime).ok()?;
    let wanted = symbols::undefined(&object)?;
    let late: Vec<(String, String)> = late_names()
        .filter(|name| wanted.contains(name) && !imported.contains(name))
        .map(|name| {
            // Where numbers have 64 bits, both are the same function.
            let plain = name.strip_suffix("64").filter(|plain| imported.contains(plain));
            (name.to_owned(), plain.map_or_else(|| format!("foretell_late_{name}"), str::to_owned))
        })
        .collect();
    let stubs = runtime.with_file_name("late.o");
    runtime_object::compile(compiler, flags, &sources.join(LATE_SOURCE), &stubs, "late").ok()?;
    symbols::redefine(runtime, &late).then_some(stubs)
}

/// What a program has from shared libraries. `None` if it has no dynamic linker, or is for another machine.
fn imports(program: &[u8]) -> Option<BTreeSet<&str>> {
    let file = ElfFile::<FileHeader64<LittleEndian>>::parse(program).ok()?;
    if file.elf_header().e_machine(LittleEndian) != EM_X86_64 {
        return None;
    }
    let names: BTreeSet<&str> =
        file.dynamic_symbols().filter(|s| s.is_undefined()).filter_map(|s| s.name().ok()).collect();
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_says_what_it_has_from_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.c"), "int puts(const char *);\nint main(void) { return puts(\"x\"); }\n").unwrap();
        let compiled = Command::new("cc").arg(path("a.c")).arg("-o").arg(path("a")).status();
        assert!(compiled.unwrap().success());
        let program = fs::read(path("a")).unwrap();
        if cfg!(target_arch = "x86_64") {
            let found = imports(&program).unwrap();
            assert!(found.contains("puts") && !found.contains("readahead"));
        }
        for length in (0..program.len()).step_by(997) {
            let _ = imports(&program[..length]);
        }
        assert!(imports(b"").is_none());
    }

    #[test]
    fn each_name_is_at_its_place() {
        let names: Vec<&str> = late_names().collect();
        assert!(names.contains(&"readahead"));
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
