//! Reads a whole hint file before the program starts, and counts what cannot be followed: a list that is a little out of
//! date must not keep a program from running. Streaming; what is kept is the sizes of the files seen last.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use foretell_recording::is_recording;

use super::line::{self, LineError};
use super::lines::{Line, Lines, MAX_LINE_BYTES, unpack};
use super::{ByteRange, Hint};

/// Files whose size is remembered; the table is emptied when it is full, so only time is lost.
const REMEMBERED_SIZES: usize = 1 << 16;

/// The first bytes of a file that tell whether it is a recording.
const MAGIC_BYTES: u64 = 19;

/// What is wrong with a hint file. Every message says where, what, and what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum HintsError {
    /// The file cannot be opened.
    #[error("{}: cannot open the hints ({why}); give an existing, readable file, or '-' for standard input", .file.display())]
    Open {
        /// The hint file.
        file: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A directory, say.
    #[error("{}: not a file, a FIFO or a character device; give a file with one hint a line", .0.display())]
    Kind(PathBuf),
    /// Reading or unpacking failed.
    #[error("{}:{line}: cannot read on ({why}); is the file damaged or cut off?", .file.display())]
    Read {
        /// The hint file.
        file: PathBuf,
        /// The line that could not be read.
        line: u64,
        /// Why.
        why: io::Error,
    },
    /// A line is wrong.
    #[error("{}:{line}: {why}", .file.display())]
    Line {
        /// The hint file.
        file: PathBuf,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong.
        why: BadHint,
    },
}

/// Why one hint cannot be followed: what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadHint {
    /// The line does not parse.
    #[error("{0}")]
    Syntax(#[from] LineError),
    /// The line is longer than [`MAX_LINE_BYTES`].
    #[error("longer than {MAX_LINE_BYTES} bytes; is this a list of paths, one a line?")]
    TooLong,
    /// Part of the range is beyond the end of the file.
    #[error("bytes {first} to {last} are past the end of '{}' ({size_bytes} bytes); shorten the range", .path.display())]
    PastEnd {
        /// The hinted file.
        path: PathBuf,
        /// First byte of the range.
        first: u64,
        /// Last byte of the range.
        last: u64,
        /// What the file has.
        size_bytes: u64,
    },
    /// The path names something without contents to cache.
    #[error("'{}' is not a regular file; name the files themselves", .0.display())]
    NotAFile(PathBuf),
}

/// What a hint file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Lines with a hint, or with what was meant to be one.
    pub hints: u64,
    /// Those of them that are no hint, or name what cannot be followed: left out.
    pub wrong: u64,
    /// Those that reach beyond the end of their file: cut there.
    pub cut: u64,
    /// The first that is wrong or cut, with its line.
    pub first_bad: Option<(BadHint, u64)>,
    /// Hints for files that do not exist (yet).
    pub absent: u64,
    /// The first of them, with its line.
    pub first_absent: Option<(PathBuf, u64)>,
}

/// Where hints come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file: checked as a whole before the start; it may grow while the program runs.
    Regular,
    /// A FIFO, a terminal, standard input: read while the program runs.
    Stream,
    /// A recording: what a run of the program read.
    Recording,
}

/// Tells a list, a recording and a stream from each other. `-` is standard input, always a stream.
pub fn kind(file: &Path) -> Result<Kind, HintsError> {
    if file == Path::new("-") {
        return Ok(Kind::Stream);
    }
    let open = |why| HintsError::Open { file: file.to_owned(), why };
    let kind = file.metadata().map_err(open)?.file_type();
    if kind.is_fifo() || kind.is_char_device() {
        // Opening it would wait for the writer: the right to read is all that can be checked.
        rustix::fs::access(file, rustix::fs::Access::READ_OK).map_err(|e| open(e.into()))?;
        Ok(Kind::Stream)
    } else if kind.is_file() {
        let mut first = Vec::new();
        let opened = File::open(file).map_err(open)?;
        opened.take(MAGIC_BYTES).read_to_end(&mut first).map_err(open)?;
        Ok(if is_recording(&first) { Kind::Recording } else { Kind::Regular })
    } else {
        Err(HintsError::Kind(file.to_owned()))
    }
}

/// Reads a regular hint file from beginning to end. Relative paths in it start at `base`.
///
/// # Errors
/// The file cannot be read, or none of its lines is a hint.
pub fn check(file: &Path, base: &Path) -> Result<Summary, HintsError> {
    let raw = File::open(file).map_err(|why| HintsError::Open { file: file.to_owned(), why })?;
    let unreadable = |line, why| HintsError::Read { file: file.to_owned(), line, why };
    let (_, stream) = unpack(raw).map_err(|e| unreadable(1, e))?;
    let mut lines = Lines::new(stream);
    let mut reader = HintReader::new(base);
    let mut summary = Summary::default();
    let mut parsed = false;
    loop {
        let next = lines.number() + 1;
        let found = match lines.next_line().map_err(|e| unreadable(next, e))? {
            None => break,
            Some(found) => found,
        };
        let mut bad = |why| {
            summary.first_bad.get_or_insert((why, next));
        };
        match reader.read(&found) {
            Ok(None) => {}
            Ok(Some((hint, Presence::Present))) => {
                debug_assert!(hint.path.is_absolute());
                (summary.hints, parsed) = (summary.hints + 1, true);
            }
            Ok(Some((_, Presence::Cut(why)))) => {
                bad(why);
                (summary.hints, summary.cut, parsed) = (summary.hints + 1, summary.cut + 1, true);
            }
            Ok(Some((hint, Presence::Absent))) => {
                (summary.hints, summary.absent, parsed) = (summary.hints + 1, summary.absent + 1, true);
                summary.first_absent.get_or_insert_with(|| (hint.path.to_path_buf(), next));
            }
            Err(why) => {
                parsed |= matches!(why, BadHint::PastEnd { .. } | BadHint::NotAFile(_));
                bad(why);
                (summary.hints, summary.wrong) = (summary.hints + 1, summary.wrong + 1);
            }
        }
    }
    match summary.first_bad {
        Some((why, line)) if !parsed => Err(HintsError::Line { file: file.to_owned(), line, why }),
        first_bad => Ok(Summary { first_bad, ..summary }),
    }
}

impl Summary {
    /// What is not as it should be, in a line.
    #[must_use]
    pub fn trouble(&self, file: &Path) -> Option<String> {
        let Summary { hints, wrong, cut, absent, first_bad, first_absent } = self;
        let mut parts = Vec::new();
        if *absent > 0 {
            parts.push(format!(
                "{absent} of {hints} hints name files that do not exist and are skipped unless they do when their turn comes"
            ));
        }
        if *cut > 0 {
            parts.push(format!("{cut} of {hints} reach past the end of their files and are cut there"));
        }
        if *wrong > 0 {
            parts.push(format!("{wrong} of {hints} cannot be followed and are left out"));
        }
        let first = match (first_bad, first_absent) {
            (None, None) => return None,
            (Some((why, line)), _) => format!("line {line}: {why}"),
            (None, Some((path, line))) => format!("'{}', line {line}", path.display()),
        };
        Some(format!("{}: {} (the first: {first})", file.display(), parts.join("; ")))
    }
}

/// Does the hinted file exist now?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Yes.
    Present,
    /// Yes, and it ends within the range, which was cut there.
    Cut(BadHint),
    /// No; the program may be about to make it.
    Absent,
}

/// Turns lines into hints and checks them against the files they name.
pub struct HintReader {
    base: PathBuf,
    last: Option<Known>,
    sizes: HashMap<Box<Path>, Option<FileSize>>,
}

/// The file of the last hint: lists name one file many times in a row.
struct Known {
    written: Vec<u8>,
    path: std::sync::Arc<Path>,
    size: Option<FileSize>,
}

/// What matters about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSize {
    Bytes(u64),
    NotAFile,
}

impl HintReader {
    /// Relative paths start at `base`, which is absolute.
    #[must_use]
    pub fn new(base: &Path) -> HintReader {
        HintReader { base: base.to_owned(), last: None, sizes: HashMap::new() }
    }

    /// The hint of a line, if it has one, and whether its file exists.
    pub fn read(&mut self, line: &Line<'_>) -> Result<Option<(Hint, Presence)>, BadHint> {
        let text = match line {
            Line::Whole(text) | Line::Unended(text) => text,
            Line::TooLong => return Err(BadHint::TooLong),
        };
        let Some(hint) = line::parse(text)? else { return Ok(None) };
        let known = match self.last.take_if(|known| *known.written == *hint.path) {
            Some(known) => known,
            None => {
                let path: std::sync::Arc<Path> =
                    self.base.join(std::ffi::OsStr::from_bytes(&hint.path)).into();
                Known { written: hint.path.to_vec(), size: self.size(&path), path }
            }
        };
        let known = self.last.insert(known);
        let presence = match (known.size, hint.range) {
            (Some(FileSize::NotAFile), _) => return Err(BadHint::NotAFile(known.path.to_path_buf())),
            (Some(FileSize::Bytes(size)), Some(range)) if range.end() > size => {
                // The file may have grown since it was looked at.
                let now = look(&known.path);
                known.size = now;
                match now {
                    Some(FileSize::Bytes(size)) if range.end() > size => {
                        let why = past_end(&known.path, range, size);
                        if range.offset >= size {
                            return Err(why);
                        }
                        let range = ByteRange { length: size - range.offset, ..range };
                        let hint = Hint { path: known.path.clone(), range: Some(range) };
                        return Ok(Some((hint, Presence::Cut(why))));
                    }
                    Some(_) => Presence::Present,
                    None => Presence::Absent,
                }
            }
            (Some(_), _) => Presence::Present,
            (None, _) => Presence::Absent,
        };
        Ok(Some((Hint { path: known.path.clone(), range: hint.range }, presence)))
    }

    fn size(&mut self, path: &Path) -> Option<FileSize> {
        if let Some(size) = self.sizes.get(path) {
            return *size;
        }
        if self.sizes.len() >= REMEMBERED_SIZES {
            self.sizes.clear();
        }
        let size = look(path);
        self.sizes.insert(path.into(), size);
        size
    }
}

fn look(path: &Path) -> Option<FileSize> {
    let found = path.metadata().ok()?;
    Some(if found.is_file() { FileSize::Bytes(found.size()) } else { FileSize::NotAFile })
}

fn past_end(path: &Path, range: ByteRange, size_bytes: u64) -> BadHint {
    BadHint::PastEnd { path: path.to_owned(), first: range.offset, last: range.end() - 1, size_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> Result<Summary, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("data"), [0; 100]).unwrap();
        std::fs::write(dir.path().join("list"), text).unwrap();
        check(&dir.path().join("list"), dir.path())
            .map_err(|e| e.to_string().replace(&dir.path().display().to_string(), ""))
    }

    #[test]
    fn good_lists_are_counted() {
        let summary = check_text("# two\ndata\n\ndata 0 100\nnew 0 5").unwrap();
        assert_eq!((summary.hints, summary.absent), (3, 1));
        assert_eq!(summary.first_absent.unwrap().1, 5);
    }

    #[test]
    fn bad_lists_name_file_and_line() {
        let trouble = |text: &str| check_text(text).unwrap().trouble(Path::new("list")).unwrap();
        let cut = trouble("data\ndata 50 51\n");
        assert!(cut.starts_with("list: 1 of 2 reach past the end of their files and are cut there (the first: line 2: bytes 50 to 100 are past"), "{cut}");
        let mixed = trouble("data\nx y\n.\nnew\ndata 100 1\n");
        let says = "list: 1 of 5 hints name files that do not exist and are skipped unless they do when their turn comes; \
                    3 of 5 cannot be followed and are left out (the first: line 2: neither 'path' nor";
        assert!(mixed.starts_with(says), "{mixed}");
        assert!(trouble(".\n").contains("is not a regular file"));
        assert_eq!(check_text("data\n").unwrap().trouble(Path::new("list")), None);
        assert!(
            check_text("x y\n").unwrap_err().starts_with("/list:1: neither 'path' nor"),
            "no list at all"
        );
    }

    #[test]
    fn cut_off_gzip_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("list");
        std::fs::write(&list, [0x1f, 0x8b, 8, 0]).unwrap();
        assert!(check(&list, dir.path()).unwrap_err().to_string().contains("damaged or cut off"));
    }

    #[test]
    fn directories_and_missing_files_hold_no_hints() {
        assert!(matches!(kind(Path::new("/")), Err(HintsError::Kind(_))));
        assert!(matches!(kind(Path::new("/nowhere/x")), Err(HintsError::Open { .. })));
    }
}
