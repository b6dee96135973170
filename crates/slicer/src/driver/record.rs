//! How an object file remembers its source: a few bytes behind the end of what the compiler has written, which say what was
//! compiled, where, with which flags, and what it was preprocessed to.
//!
//! They are no section: linkers, their maps, `ld -r`, objcopy and strip see nothing of them, and archives keep them with the
//! object. Only objects in ELF have them, which says itself where its parts lie (elf(5)). They hold no time, so that the
//! same sources give the same bytes again.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The last bytes of an object with a record. Before them stands JSON, and its length in four bytes, least first.
const MAGIC: &[u8] = b"\x7fforetell object record\x03\n";
const ELF: &[u8] = b"\x7fELF";
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
    /// A number of what it was preprocessed to when it was compiled; `None` if that is done later.
    pub(super) text: Option<u128>,
}

impl Record {
    /// `None` if a flag is not text.
    pub(super) fn new(source: &Path, folder: &Path, flags: &[OsString]) -> Option<Self> {
        let named = source.to_owned();
        let source = folder.join(source);
        let flags = flags.iter().map(|flag| flag.to_str().map(str::to_owned)).collect::<Option<_>>()?;
        Some(Self { source, named, folder: folder.to_owned(), flags, text: None })
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        let json = serde_json::to_vec(self).ok()?;
        let length = u32::try_from(json.len()).ok()?;
        Some([&json, &length.to_le_bytes()[..], MAGIC].concat())
    }

    /// Puts the record behind an object file. What is no object in ELF stays without.
    ///
    /// # Errors
    /// When the object cannot be written; it is as it was then.
    pub(super) fn attach(&self, object: &Path) -> io::Result<()> {
        let Some(record) = self.to_bytes() else { return Ok(()) };
        let bytes = fs::read(object)?;
        if !bytes.starts_with(ELF) {
            return Ok(());
        }
        let own = content(&bytes);
        let metadata = fs::metadata(object)?;
        // A cache of objects may have it under another name.
        if own.len() == bytes.len() && metadata.nlink() == 1 {
            let mut file = OpenOptions::new().append(true).open(object)?;
            return file.write_all(&record).inspect_err(|_| _ = file.set_len(bytes.len() as u64));
        }
        let object = &fs::canonicalize(object)?;
        let beside = object.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(beside)?;
        file.write_all(own)?;
        file.write_all(&record)?;
        file.as_file().set_permissions(metadata.permissions())?;
        file.persist(object).map(drop).map_err(|e| e.error)
    }
}

/// An object without its record, and the JSON of that.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // An archive may end with an object.
    let whole = Some(bytes).filter(|bytes| bytes.starts_with(ELF))?;
    let (rest, length) = whole.strip_suffix(MAGIC)?.split_last_chunk::<4>()?;
    let length = Some(u32::from_le_bytes(*length) as usize).filter(|length| *length <= MOST_BYTES)?;
    rest.split_at_checked(rest.len().checked_sub(length)?)
}

/// What the compiler has written of an object file.
pub(super) fn content(bytes: &[u8]) -> &[u8] {
    split(bytes).map_or(bytes, |(own, _)| own)
}

/// The record of an object file of these bytes.
pub(super) fn find(bytes: &[u8]) -> Option<Record> {
    serde_json::from_slice(split(bytes)?.1).ok()
}

/// Has a member of this archive a record, or is it a thin one, whose members lie elsewhere?
pub(super) fn may_hold_records(archive: &[u8]) -> bool {
    let last = MAGIC.last().copied().unwrap_or_default();
    archive.starts_with(b"!<thin>\n")
        || (archive.starts_with(b"!<arch>\n")
            && archive.split_inclusive(|byte| *byte == last).any(|line| line.ends_with(MAGIC)))
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
        let folder = Path::new("/folder");
        let record = Record::new(Path::new("a.c"), folder, &["-O2".into(), "-DX=\"a b\"".into()]).unwrap();
        Record { text: Some(u128::MAX), ..record }
    }

    #[test]
    fn a_record_stands_behind_its_object() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.o");
        fs::write(&path, b"\x7fELF...").unwrap();
        for _ in 0..2 {
            record().attach(&path).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!((content(&bytes), find(&bytes)), (&b"\x7fELF..."[..], Some(record())));
        }
        let archived = [&b"!<arch>\n"[..], &record().to_bytes().unwrap()[..]].concat();
        for damaged in
            [&archived[..], &b"\x7fELF nothing here"[..], MAGIC, &[b"\xff\xff\xff\xff", MAGIC].concat(), b""]
        {
            assert_eq!((content(damaged), find(damaged)), (damaged, None));
        }
    }

    /// As a cache of objects has them that links them to their places.
    #[test]
    fn an_object_of_two_names_is_changed_under_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.o"), folder.path().join("cached"));
        fs::write(&other, b"\x7fELF...").unwrap();
        fs::hard_link(&other, &path).unwrap();
        record().attach(&path).unwrap();
        assert_eq!(find(&fs::read(&path).unwrap()), Some(record()));
        assert_eq!(fs::read(&other).unwrap(), b"\x7fELF...");
    }

    #[test]
    fn what_is_no_object_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.o");
        fs::write(&path, b"BC\xc0\xde").unwrap();
        record().attach(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"BC\xc0\xde");
        assert!(record().attach(&folder.path().join("missing.o")).is_err());
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
        assert!(!may_hold_records(archive.as_bytes()));
        let with = [archive.as_bytes(), &record().to_bytes().unwrap()].concat();
        assert!(may_hold_records(&with) && may_hold_records(b"!<thin>\n"));
    }
}
