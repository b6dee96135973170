//! What the linker took: whether there is a program, and which files and members of archives went into it.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};

use super::arguments::{Argument, Invocation};
use super::record;

/// Makes the linker list its files. Twice: with the members of archives.
pub(super) const TRACE: &str = "-Wl,--trace,--trace";

/// What was linked and is no input of its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Member {
    /// A file that an archive or a script of the linker names.
    File(PathBuf),
    /// An archive, and its member.
    Of(PathBuf, String),
}

impl Member {
    /// Its bytes.
    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::File(path) => fs::read(path).ok(),
            Self::Of(archive, name) => {
                let bytes = fs::read(archive).ok()?;
                if bytes.starts_with(b"!<thin>\n") {
                    // The members are named from where the archive lies.
                    return fs::read(archive.parent().unwrap_or(Path::new("")).join(name)).ok();
                }
                record::member(&bytes, name).map(<[u8]>::to_vec)
            }
        }
    }

    /// The archive that it lies in.
    pub(super) fn archive(&self) -> Option<&Path> {
        match self {
            Self::File(_) => None,
            Self::Of(archive, _) => Some(archive),
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Of(archive, name) => write!(f, "{}({name})", archive.display()),
        }
    }
}

/// What the linker's list has beside the inputs that are given. Of files only objects count, and not those that a
/// compiler adds to each program.
pub(super) fn members(listed: &str, invocation: &Invocation) -> Vec<Member> {
    let is_input = |path: &Path| {
        invocation.arguments.iter().any(
            |argument| matches!(argument, Argument::Source(input) | Argument::File(input) if input == path),
        )
    };
    let wanted = |member: &Member| match member {
        Member::File(path) => {
            let is_start = path.file_name().is_some_and(|name| name.to_string_lossy().contains("crt"));
            path.extension().is_some_and(|end| end == "o") && !is_start && !is_input(path)
        }
        Member::Of(..) => true,
    };
    listed.lines().filter_map(linked_file).filter(wanted).collect()
}

/// A line of the linker's `--trace`: `FILE`, `ARCHIVE(MEMBER)`, or, in older versions, `(ARCHIVE)MEMBER`.
fn linked_file(line: &str) -> Option<Member> {
    let member = |archive: &str, name: &str| {
        Path::new(archive).is_file().then(|| Member::Of(PathBuf::from(archive), name.to_owned()))
    };
    if Path::new(line).is_file() {
        return Some(Member::File(PathBuf::from(line)));
    }
    if let Some((archive, name)) = line.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        return member(archive, name);
    }
    let (archive, name) = line.strip_suffix(')')?.rsplit_once('(')?;
    member(archive, name)
}

/// Is this file a program, and no library, object or image of memory?
pub(super) fn is_program(path: &Path) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    let found = match bytes.get(4) {
        Some(&elf::ELFCLASS64) => is_program_of::<FileHeader64<Endianness>>(&bytes),
        Some(&elf::ELFCLASS32) => is_program_of::<FileHeader32<Endianness>>(&bytes),
        _ => None,
    };
    found.unwrap_or(false)
}

/// A program that may lie anywhere is a shared object by its type; it names the dynamic linker, or says in so many words that it is
/// a program.
fn is_program_of<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<bool> {
    let header = H::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    if header.e_type(endian) != elf::ET_DYN {
        return Some(header.e_type(endian) == elf::ET_EXEC);
    }
    let parts = header.program_headers(endian, bytes).ok()?;
    let says_so = |part: &H::ProgramHeader| {
        let entries = part.dynamic(endian, bytes).ok().flatten().unwrap_or_default();
        entries.iter().any(|entry| {
            let flags: u64 = entry.d_val(endian).into();
            entry.d_tag(endian).into() == elf::DT_FLAGS_1 && flags & u64::from(elf::DF_1_PIE) != 0
        })
    };
    Some(parts.iter().any(|part| part.p_type(endian) == elf::PT_INTERP || says_so(part)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::process::Command;

    use super::*;

    #[test]
    fn lines_of_the_linkers_trace() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("lib (x).a");
        fs::write(&archive, "!<arch>\n").unwrap();
        let path = archive.display();
        for line in [format!("{path}(a.o)"), format!("({path})a.o")] {
            // An archive with brackets in its name is only found in the newer form.
            if let Some(found) = linked_file(&line) {
                assert_eq!(found, Member::Of(archive.clone(), "a.o".to_owned()));
            } else {
                assert!(line.starts_with('('));
            }
        }
        assert_eq!(linked_file(&path.to_string()), Some(Member::File(archive.clone())));
        assert!(linked_file("a message of the linker (or not)").is_none());
        assert!(linked_file("").is_none());
    }

    #[test]
    fn what_is_given_or_is_part_of_every_program_is_no_member() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["given.o", "named.o", "crt1.o", "lib.so"] {
            fs::write(path(name), "").unwrap();
        }
        let listed: String = ["given.o", "named.o", "crt1.o", "lib.so"]
            .map(|name| format!("{}\n", path(name).display()))
            .concat();
        let invocation = Invocation::parse(&[OsString::from(path("given.o"))]);
        assert_eq!(members(&listed, &invocation), [Member::File(path("named.o"))]);
    }

    #[test]
    fn a_program_is_told_from_what_else_a_linker_makes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.c"), "int main(void) { return 0; }\n").unwrap();
        for (flags, expected) in [
            (&[][..], true),
            (&["-no-pie"], true),
            (&["-fPIC", "-Wl,-shared"], false),
            (&["-c"], false),
            (&["-S"], false),
        ] {
            let made = Command::new("cc").args(flags).arg(path("a.c")).arg("-o").arg(path("made")).status();
            assert!(made.unwrap().success());
            assert_eq!(is_program(&path("made")), expected, "{flags:?}");
            let bytes = fs::read(path("made")).unwrap();
            for length in (0..bytes.len()).step_by(509) {
                fs::write(path("cut"), &bytes[..length]).unwrap();
                is_program(&path("cut"));
            }
        }
    }
}
