//! Reading a recording: all of it, or not at all.
//!
//! Nothing of a file is believed. Bytes are decompressed a buffer at a time, each event is checked when it has
//! been read (its numbers in range, what it names known), and tables grow with the events that are really
//! there, up to the limits. So a small file that claims to be a large one costs what the limits allow at most.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foretell_numbers::{NumberError, Numbers, unfold};

use crate::error::ReadError;
use crate::format::{
    FOLLOWS, KIND, MAGIC, OLDEST_VERSION, SAME_FILE, SAME_ROLE, Sum, VERSION, WAY, WAY_SHIFT, WINDOW_LOG_MAX,
    fact, kind,
};
use crate::state::{Bounds, FileState, State};
use crate::{Access, Fact, FileNumber, FileRecord, Recording, Role, RoleId, Summary, Way, limits};

/// Bytes that are decompressed at a time.
const BUFFER_BYTES: usize = 64 << 10;

impl Recording {
    /// Reads a recording whole.
    ///
    /// # Errors
    /// See [`ReadError`]: the file cannot be read, is no recording, of another version, cut short, damaged, or
    /// larger than a recording can be.
    pub fn read(path: impl AsRef<Path>) -> Result<Recording, ReadError> {
        Recording::read_within(path, limits::ACCESSES)
    }

    /// The same for one with so many accesses at most (40 bytes each in memory): of a longer one no more is read.
    ///
    /// # Errors
    /// As [`Recording::read`], and when it is longer.
    pub fn read_within(path: impl AsRef<Path>, most_accesses: usize) -> Result<Recording, ReadError> {
        let path = path.as_ref();
        let io_error = |source| ReadError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io_error)?;
        if file.metadata().map_err(io_error)?.is_dir() {
            return Err(io_error(io::ErrorKind::IsADirectory.into()));
        }
        let bounds = Bounds { accesses: most_accesses.min(limits::ACCESSES), ..Bounds::default() };
        read(path, BufReader::with_capacity(BUFFER_BYTES, file), bounds)
    }

    /// Reads a recording from its bytes; `path` is for the errors.
    ///
    /// # Errors
    /// As [`Recording::read`].
    pub fn read_from(path: &Path, bytes: impl BufRead) -> Result<Recording, ReadError> {
        read(path, bytes, Bounds::default())
    }
}

fn read(path: &Path, bytes: impl BufRead, bounds: Bounds) -> Result<Recording, ReadError> {
    let fail = |reason: Failure| reason.of(path);
    let mut summed = Summed { inner: bytes, sum: Sum::default() };
    let mut magic = [0; MAGIC.len()];
    let found = fill(&mut summed, &mut magic).map_err(|e| fail(Failure::Io(e)))?;
    if magic[..found] != MAGIC[..found] || found == 0 {
        return Err(ReadError::NotARecording { path: path.to_owned() });
    }
    if found < MAGIC.len() {
        return Err(fail(Failure::CutShort));
    }
    let mut version = [0; 2];
    summed.exactly(&mut version).map_err(fail)?;
    let version = u16::from_le_bytes(version);
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(ReadError::OtherVersion { path: path.to_owned(), found: version });
    }
    let mut decoder =
        zstd::stream::read::Decoder::with_buffer(&mut summed).map_err(|e| fail(Failure::Io(e)))?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(|e| fail(Failure::Io(e)))?;
    let mut contents = Contents::new(decoder.single_frame(), bounds);
    let recording = contents.recording().map_err(fail)?;
    let end = contents.numbers.position();
    let damaged = |what| fail(Failure::Damaged { byte: end, what });
    if contents.numbers.next_byte().map_err(|e| fail(e.into()))?.is_some() {
        return Err(damaged("something follows the summary"));
    }
    drop(contents);
    let expected = summed.sum.0;
    let mut sum = [0; 8];
    summed.exactly(&mut sum).map_err(fail)?;
    if u64::from_le_bytes(sum) != expected {
        return Err(damaged("its sum is another"));
    }
    match fill(&mut summed, &mut [0]) {
        Ok(0) => Ok(recording),
        Ok(_) => Err(damaged("something follows its end")),
        Err(e) => Err(fail(Failure::Io(e))),
    }
}

/// What is wrong, before it is said with which file.
#[derive(Debug)]
enum Failure {
    Io(io::Error),
    CutShort,
    Damaged { byte: u64, what: &'static str },
    Limit { limit: u64, what: &'static str },
}

impl From<NumberError> for Failure {
    fn from(error: NumberError) -> Failure {
        match error {
            NumberError::Io(error) => Failure::Io(error),
            NumberError::Ended { byte } => Failure::Damaged { byte, what: "it ends without a summary" },
            NumberError::Damaged { byte, what } => Failure::Damaged { byte, what },
            NumberError::Limit { bytes } => Failure::Limit { limit: bytes, what: "bytes" },
            _ => Failure::CutShort,
        }
    }
}

impl Failure {
    fn of(self, path: &Path) -> ReadError {
        let path = path.to_owned();
        match self {
            Failure::Io(source) => ReadError::Io { path, source },
            Failure::CutShort => ReadError::CutShort { path },
            Failure::Damaged { byte, what } => ReadError::Damaged { path, byte, what },
            Failure::Limit { limit, what } => ReadError::Limit { path, limit, what },
        }
    }
}

/// Sums up the bytes that are used.
struct Summed<R> {
    inner: R,
    sum: Sum,
}

impl<R: BufRead> Summed<R> {
    fn exactly(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        match fill(self, bytes) {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(_) => Err(Failure::CutShort),
            Err(e) => Err(Failure::Io(e)),
        }
    }
}

/// Reads until `bytes` is full or the file ends.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match from.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

impl<R: BufRead> Read for Summed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(bytes)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Summed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // The bytes are still in the buffer: asking for it again reads nothing.
        if let Ok(buffer) = self.inner.fill_buf() {
            self.sum.add(&buffer[..amount.min(buffer.len())]);
        }
        self.inner.consume(amount);
    }
}

/// The uncompressed stream, and what may be in it.
struct Contents<R> {
    numbers: Numbers<R>,
    bounds: Bounds,
}

impl<R: Read> Contents<R> {
    fn new(inner: R, bounds: Bounds) -> Contents<R> {
        Contents { numbers: Numbers::new(inner, BUFFER_BYTES, bounds.uncompressed_bytes), bounds }
    }

    /// A failure at the byte read last.
    fn damaged(&self, what: &'static str) -> Failure {
        Failure::Damaged { byte: self.numbers.last_byte(), what }
    }

    fn bytes(&mut self, limit: usize, what: &'static str) -> Result<Vec<u8>, Failure> {
        let length = self.numbers.number()?;
        if length > limit as u64 {
            return Err(Failure::Limit { limit: limit as u64, what });
        }
        let mut bytes = Vec::with_capacity(length as usize);
        for _ in 0..length {
            bytes.push(self.numbers.byte()?);
        }
        Ok(bytes)
    }

    fn recording(&mut self) -> Result<Recording, Failure> {
        let mut recording = Recording::default();
        let mut state = State::default();
        let bounds = self.bounds;
        loop {
            let head = self.numbers.byte()?;
            if head & KIND != kind::ACCESS && head & !KIND != 0 {
                return Err(self.damaged("an event of no known kind"));
            }
            match head & KIND {
                kind::ROLE => {
                    let role = self.role(&mut state)?;
                    push(&mut recording.roles, role, bounds.roles, "roles")?;
                }
                kind::FILE => {
                    let file = self.file(&mut state)?;
                    push(&mut recording.files, file, bounds.files, "files")?;
                }
                kind::ACCESS => {
                    let access = self.access(head, &mut state)?;
                    push(&mut recording.accesses, access, bounds.accesses, "accesses")?;
                }
                // As each is told once, there are no more of them than files and roles allow.
                kind::FACT => recording.facts.push(self.fact(&mut state)?),
                kind::SUMMARY => {
                    recording.summary = self.summary()?;
                    return Ok(recording);
                }
                _ => return Err(self.damaged("an event of no known kind")),
            }
        }
    }

    fn role(&mut self, state: &mut State) -> Result<Role, Failure> {
        let parent = self.numbers.u32()?.checked_sub(1).map(RoleId);
        if parent.is_some_and(|parent| parent.0 as usize >= state.ended.len()) {
            return Err(self.damaged("a parent that is no earlier role"));
        }
        let name = self.bytes(limits::NAME_BYTES, "bytes in a command name")?;
        let name = String::from_utf8(name).map_err(|_| self.damaged("a command name that is not UTF-8"))?;
        state.ended.push(false);
        Ok(Role { parent, name, ordinal: self.numbers.u32()? })
    }

    fn file(&mut self, state: &mut State) -> Result<FileRecord, Failure> {
        let dev = self.numbers.after(state.dev)?;
        let ino = self.numbers.after(state.ino)?;
        let mtime_ns = self.numbers.after(state.mtime_ns.cast_unsigned())?.cast_signed();
        let size = self.numbers.number()?;
        let path = self.bytes(limits::PATH_BYTES, "bytes in a path")?;
        if path.contains(&0) {
            return Err(self.damaged("a path with a zero in it"));
        }
        state.paths_bytes += path.len();
        let limit = self.bounds.paths_bytes;
        if state.paths_bytes > limit {
            return Err(Failure::Limit { limit: limit as u64, what: "bytes of paths" });
        }
        (state.dev, state.ino, state.mtime_ns) = (dev, ino, mtime_ns);
        state.files.push(FileState::default());
        Ok(FileRecord { path: PathBuf::from(OsStr::from_bytes(&path)), dev, ino, size, mtime_ns })
    }

    fn access(&mut self, head: u8, state: &mut State) -> Result<Access, Failure> {
        let way = match (head & WAY) >> WAY_SHIFT {
            0 => Way::Read,
            1 => Way::Mapped,
            2 => Way::Written,
            _ => return Err(self.damaged("an access of no known kind")),
        };
        let role = if head & SAME_ROLE == 0 { self.numbers.u32_after(state.role)? } else { state.role };
        if role as usize >= state.ended.len() {
            return Err(self.damaged("a role that is not known"));
        }
        let file = if head & SAME_FILE == 0 { self.numbers.u32_after(state.file)? } else { state.file };
        let Some(FileState { next_page, .. }) = state.files.get_mut(file as usize) else {
            return Err(self.damaged("a file that is not known"));
        };
        let first_page = if head & FOLLOWS == 0 { self.numbers.u32_after(*next_page)? } else { *next_page };
        let pages = self.numbers.u32()?;
        *next_page = match first_page.checked_add(pages) {
            Some(end) if pages > 0 => end,
            _ => return Err(self.damaged("an access to pages that cannot be")),
        };
        let at_ns = self.numbers.after(state.at_ns)?;
        let waited_ns = self.numbers.number()?;
        (state.role, state.file, state.at_ns) = (role, file, at_ns);
        let (role, file) = (RoleId(role), FileNumber(file));
        Ok(Access { role, file, first_page, pages, at_ns, waited_ns, way })
    }

    fn fact(&mut self, state: &mut State) -> Result<Fact, Failure> {
        let kind = self.numbers.byte()?;
        let of = self.numbers.u32()?;
        let known = if kind == fact::ENDED { state.ended.len() } else { state.files.len() };
        if of as usize >= known {
            return Err(self.damaged("a fact of what is not known"));
        }
        let file = FileNumber(of);
        let fact = match kind {
            fact::WRITTEN => Fact::Written(file),
            fact::EXECUTED => Fact::Executed(file),
            fact::DELETED => Fact::Deleted(file),
            fact::TRUNCATED => Fact::Truncated(file),
            fact::ENDED => Fact::Ended { role: RoleId(of), at_ns: self.numbers.number()? },
            _ => return Err(self.damaged("a fact of no known kind")),
        };
        if !state.is_news(fact) {
            return Err(self.damaged("a fact that was told before"));
        }
        Ok(fact)
    }

    fn summary(&mut self) -> Result<Summary, Failure> {
        let elapsed_ns = self.numbers.number()?;
        let wait_ns = self.numbers.number()?;
        let device_read_bytes = self.numbers.number()?;
        let lost_events = self.numbers.number()?;
        let exit_code = match self.numbers.number()? {
            0 => None,
            1 => match i32::try_from(unfold(self.numbers.number()?)) {
                Ok(code) => Some(code),
                Err(_) => return Err(self.damaged("an exit code of more than 32 bits")),
            },
            _ => return Err(self.damaged("an exit code that is neither there nor absent")),
        };
        let left_out = self.numbers.number()?;
        Ok(Summary { elapsed_ns, wait_ns, device_read_bytes, lost_events, exit_code, left_out })
    }
}

fn push<T>(table: &mut Vec<T>, entry: T, limit: usize, what: &'static str) -> Result<(), Failure> {
    if table.len() == limit {
        return Err(Failure::Limit { limit: limit as u64, what });
    }
    table.push(entry);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two roles, two files, two accesses, and no summary.
    fn contents() -> Vec<u8> {
        let mut contents = Vec::new();
        for _ in 0..2 {
            contents.extend_from_slice(&[kind::ROLE, 0, 1, b'a', 0]);
            contents.extend_from_slice(&[kind::FILE, 2, 2, 0, 9, 2, b'/', b'a']);
            contents.extend_from_slice(&[kind::ACCESS | SAME_ROLE | SAME_FILE | FOLLOWS, 1, 2, 0]);
        }
        contents
    }

    #[test]
    fn each_limit_is_kept() {
        let fits = Bounds { accesses: 2, roles: 2, files: 2, paths_bytes: 4, uncompressed_bytes: 1000 };
        let read = |bounds| Contents::new(&contents()[..], bounds).recording();
        let Err(Failure::Damaged { what, .. }) = read(fits) else { panic!("there is no summary") };
        assert_eq!(what, "it ends without a summary");
        for (bounds, limited) in [
            (Bounds { accesses: 1, ..fits }, "accesses"),
            (Bounds { roles: 1, ..fits }, "roles"),
            (Bounds { files: 1, ..fits }, "files"),
            (Bounds { paths_bytes: 3, ..fits }, "bytes of paths"),
            (Bounds { uncompressed_bytes: 20, ..fits }, "bytes"),
        ] {
            let Err(Failure::Limit { what, .. }) = read(bounds) else { panic!("{limited}: no limit") };
            assert_eq!(what, limited);
        }
    }
}
