//! How an object file remembers its source: a section of its own, `.foretell.source`, which says what was
//! compiled, where and with which flags. Linkers leave it out of programs; archives keep it.
//!
//! The section is found by its first bytes, not by the format of the file around it: so objects of every
//! format, and archives, are searched by the same few lines.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// The first bytes of a record; its length in four bytes, least first, and JSON follow.
const MAGIC: &[u8] = b"\x7fforetell object record\x02\n";
const SECTION: &str = ".foretell.source";
/// Longest record that is believed: a longer one is damage.
const MOST_BYTES: usize = 1 << 20;

/// One translation unit: all that is needed to translate and compile it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The source, as an absolute path.
    pub(super) source: PathBuf,
    /// The source as it was named, which `__FILE__` and debuggers tell.
    pub(super) named: PathBuf,
    /// The folder in which the compiler ran.
    pub(super) folder: PathBuf,
    /// Its flags.
    pub(super) flags: Vec<String>,
    /// The source's time of change and size when it was compiled.
    stamp: (u128, u64),
}

impl Record {
    /// `None` if the source cannot be read, or a flag is not text.
    pub(super) fn new(source: &Path, folder: &Path, flags: &[OsString]) -> Option<Self> {
        let named = source.to_owned();
        let source = folder.join(source);
        let stamp = stamp(&source)?;
        let flags = flags.iter().map(|flag| flag.to_str().map(str::to_owned)).collect::<Option<_>>()?;
        Some(Self { source, named, folder: folder.to_owned(), flags, stamp })
    }

    /// Is the source what was compiled?
    pub(super) fn is_current(&self) -> bool {
        stamp(&self.source) == Some(self.stamp)
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        let json = serde_json::to_vec(self).ok()?;
        let length = u32::try_from(json.len()).ok()?;
        Some([MAGIC, &length.to_le_bytes(), &json].concat())
    }

    /// Puts the record into an object file; `false` if that could not be done, and the object is as it was.
    pub(super) fn attach(&self, object: &Path) -> bool {
        let Some(bytes) = self.to_bytes() else { return false };
        let Ok(mut file) = tempfile::NamedTempFile::new() else { return false };
        if file.write_all(&bytes).and_then(|()| file.flush()).is_err() {
            return false;
        }
        let section = format!("{SECTION}={}", file.path().display());
        ["objcopy", "llvm-objcopy"].iter().any(|tool| {
            Command::new(tool)
                .args(["--remove-section", SECTION, "--add-section", &section])
                .args(["--set-section-flags", &format!("{SECTION}=readonly,exclude")])
                .arg(object)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
        })
    }
}

fn stamp(path: &Path) -> Option<(u128, u64)> {
    let metadata = fs::metadata(path).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((changed.as_nanos(), metadata.len()))
}

/// The record in the bytes of an object file.
pub(super) fn find(bytes: &[u8]) -> Option<Record> {
    let mut from = 0;
    while let Some(at) = bytes[from..].windows(MAGIC.len()).position(|window| window == MAGIC) {
        let rest = &bytes[from + at + MAGIC.len()..];
        let length = rest.first_chunk::<4>().map(|l| u32::from_le_bytes(*l) as usize);
        if let Some(length) = length.filter(|length| *length <= MOST_BYTES)
            && let Some(json) = rest.get(4..4 + length)
            && let Ok(record) = serde_json::from_slice(json)
        {
            return Some(record);
        }
        from += at + 1;
    }
    None
}

/// The bytes of a member of an archive (ar(5)): `None` if there is none of this name, or it lies elsewhere
/// (thin archives).
pub(super) fn member<'a>(archive: &'a [u8], name: &str) -> Option<&'a [u8]> {
    const HEADER: usize = 60;
    let mut at = archive.strip_prefix(b"!<arch>\n").map(|_| 8)?;
    let mut long_names: &[u8] = &[];
    while let Some(header) = archive.get(at..at + HEADER) {
        let text =
            |range: std::ops::Range<usize>| std::str::from_utf8(&header[range]).ok().map(str::trim_end);
        let size: usize = text(48..58)?.parse().ok()?;
        let content = archive.get(at + HEADER..at + HEADER + size)?;
        let title = text(0..16)?;
        if title == "//" {
            long_names = content;
        } else {
            // "/123" is a name at that place of the long names; names end with "/".
            let long = title.strip_prefix('/').and_then(|place| place.parse::<usize>().ok());
            let full = match long.and_then(|place| long_names.get(place..)) {
                Some(names) => names.split(|byte| *byte == b'\n').next()?,
                None => title.as_bytes(),
            };
            if full.strip_suffix(b"/").unwrap_or(full) == name.as_bytes() {
                return Some(content);
            }
        }
        at += HEADER + size + size % 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.c"), "int main(void) { return 0; }\n").unwrap();
        Record::new(Path::new("a.c"), folder.path(), &["-O2".into(), "-DX=\"a b\"".into()]).unwrap()
    }

    #[test]
    fn a_record_is_found_among_other_bytes() {
        let record = record();
        let bytes =
            [b"\x7fELF...", MAGIC, b"\xff\xff\xff\xff?", &record.to_bytes().unwrap()[..], b"tail"].concat();
        assert_eq!(find(&bytes), Some(record));
        assert_eq!(find(b"\x7fELF nothing here"), None);
        assert_eq!(find(MAGIC), None);
    }

    #[test]
    fn a_source_that_changed_is_not_current() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        fs::write(&path, "int x;\n").unwrap();
        let record = Record::new(Path::new("a.c"), folder.path(), &[]).unwrap();
        assert!(record.is_current());
        fs::write(&path, "int longer;\n").unwrap();
        assert!(!record.is_current());
    }

    #[test]
    fn members_of_archives() {
        let entry = |name: &str, content: &str| {
            let padding = if content.len() % 2 == 1 { "\n" } else { "" };
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n{content}{padding}", 0, 0, 0, 644, content.len())
        };
        let archive = format!(
            "!<arch>\n{}{}{}{}",
            entry("/", "symbols"),
            entry("//", "a_rather_long_name.o/\nanother_long_name.o/\n"),
            entry("short.o/", "one"),
            entry("/22", "two!"),
        );
        assert_eq!(member(archive.as_bytes(), "short.o"), Some(&b"one"[..]));
        assert_eq!(member(archive.as_bytes(), "another_long_name.o"), Some(&b"two!"[..]));
        assert_eq!(member(archive.as_bytes(), "a_rather_long_name.o"), None);
        assert_eq!(member(b"not an archive", "short.o"), None);
    }
}
