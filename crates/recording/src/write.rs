//! Writing a recording while the job runs.
//!
//! Events are encoded into a small buffer, compressed, summed and written at once. What is remembered is what
//! differences are taken to (one number a file) and which facts were told (four bits a file, one a role).
//! What is beyond a limit is counted and left out, so that a long run ends with a recording that is readable
//! and says what it lacks.

use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foretell_numbers::{fold, put, put_difference};
use foretell_output::{Output, Writing};

use crate::error::WriteError;
use crate::format::{FOLLOWS, LEVEL, MAGIC, SAME_FILE, SAME_ROLE, Sum, VERSION, WAY_SHIFT, kind};
use crate::state::{Bounds, FileState, State, fact_numbers};
use crate::{Access, Event, Fact, FileNumber, FileRecord, Role, RoleId, Summary, Way, limits};

/// Writes a recording. The file has its name after [`Writer::finish`]; a writer that is dropped before leaves
/// nothing behind. A new file is its owner's alone (mode 0600): names of files say much about a job.
pub struct Writer {
    path: PathBuf,
    encoder: zstd::stream::write::Encoder<'static, Summed>,
    buffer: Vec<u8>,
    state: State,
    accesses: usize,
    left_out: u64,
    bounds: Bounds,
}

/// Sums up what goes through it.
struct Summed {
    inner: BufWriter<Writing>,
    sum: Sum,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.path)
            .field("roles", &self.state.ended.len())
            .field("files", &self.state.files.len())
            .field("accesses", &self.accesses)
            .field("left_out", &self.left_out)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins a recording that will be called `path`.
    ///
    /// # Errors
    /// Nothing could be written under this name, or the system refuses.
    pub fn create(path: impl AsRef<Path>) -> Result<Writer, WriteError> {
        let path = path.as_ref();
        let io_error = |source| WriteError::Io { path: path.to_owned(), source };
        let writing = Output::open(path)?.begin_private()?;
        let mut summed = Summed { inner: BufWriter::new(writing), sum: Sum::default() };
        summed.write_all(&MAGIC).map_err(io_error)?;
        summed.write_all(&VERSION.to_le_bytes()).map_err(io_error)?;
        let encoder = zstd::stream::write::Encoder::new(summed, LEVEL).map_err(io_error)?;
        Ok(Writer {
            path: path.to_owned(),
            encoder,
            buffer: Vec::new(),
            state: State::default(),
            accesses: 0,
            left_out: 0,
            bounds: Bounds::default(),
        })
    }

    /// Writes one event. Roles and files come in the order of their numbers and before anything that names
    /// them. What is beyond a limit is left out and counted, and so is everything that names a role or a file
    /// which was left out. A fact that was written before is skipped.
    ///
    /// # Errors
    /// The event contradicts those before it or this description, or the system refuses.
    pub fn write(&mut self, event: &Event) -> Result<(), WriteError> {
        match event {
            Event::Role(id, role) => self.role(*id, role),
            Event::File(file, record) => self.file(*file, record),
            Event::Access(access) => self.access(access),
            Event::Fact(fact) => self.fact(*fact),
            Event::Summary(_) => Err(self.mistake("the summary is what `finish` writes")),
        }
    }

    /// Accesses and facts left out so far.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Ends the recording: it is on the disk, and has its name.
    ///
    /// # Errors
    /// The name has become something that is not replaced, or the system refuses. What was there before is
    /// still there then.
    pub fn finish(mut self, mut summary: Summary) -> Result<(), WriteError> {
        summary.left_out = summary.left_out.saturating_add(self.left_out);
        self.buffer.push(kind::SUMMARY);
        let Summary { elapsed_ns, wait_ns, device_read_bytes, lost_events, exit_code, left_out } = summary;
        for value in [elapsed_ns, wait_ns, device_read_bytes, lost_events] {
            put(&mut self.buffer, value);
        }
        put(&mut self.buffer, u64::from(exit_code.is_some()));
        if let Some(code) = exit_code {
            put(&mut self.buffer, fold(code.into()));
        }
        put(&mut self.buffer, left_out);
        self.flush_buffer()?;
        let path = self.path;
        let io_error = |source| WriteError::Io { path: path.clone(), source };
        let mut summed = self.encoder.finish().map_err(io_error)?;
        let sum = summed.sum.0.to_le_bytes();
        summed.write_all(&sum).map_err(io_error)?;
        let writing = summed.inner.into_inner().map_err(|e| io_error(e.into_error()))?;
        writing.sync().map_err(io_error)?;
        writing.finish()?;
        Ok(())
    }

    fn role(&mut self, id: RoleId, role: &Role) -> Result<(), WriteError> {
        if role.parent.is_some_and(|parent| parent >= id) {
            return Err(self.mistake("a parent is an earlier role"));
        }
        if role.name.len() > limits::NAME_BYTES {
            return Err(self.mistake("a command name has 15 bytes at most"));
        }
        let Writer { buffer, state, bounds, .. } = self;
        match id.0 as usize {
            n if n >= bounds.roles && state.ended.len() == bounds.roles => return Ok(()),
            n if n != state.ended.len() => {
                return Err(self.mistake("roles come in the order of their numbers"));
            }
            _ => state.ended.push(false),
        }
        buffer.push(kind::ROLE);
        put(buffer, role.parent.map_or(0, |parent| u64::from(parent.0) + 1));
        bytes(buffer, role.name.as_bytes());
        put(buffer, role.ordinal.into());
        self.flush_buffer()
    }

    fn file(&mut self, file: FileNumber, record: &FileRecord) -> Result<(), WriteError> {
        let Writer { buffer, state, bounds, .. } = self;
        match file.0 as usize {
            n if n >= bounds.files && state.files.len() == bounds.files => return Ok(()),
            n if n != state.files.len() => {
                return Err(self.mistake("files come in the order of their numbers"));
            }
            _ => state.files.push(FileState::default()),
        }
        let mut path = record.path.as_os_str().as_bytes();
        let is_written = path.len() <= limits::PATH_BYTES
            && state.paths_bytes + path.len() <= bounds.paths_bytes
            && !path.contains(&0);
        if !is_written {
            path = &[];
        }
        state.paths_bytes += path.len();
        buffer.push(kind::FILE);
        put_difference(buffer, state.dev, record.dev);
        put_difference(buffer, state.ino, record.ino);
        put_difference(buffer, state.mtime_ns.cast_unsigned(), record.mtime_ns.cast_unsigned());
        put(buffer, record.size);
        bytes(buffer, path);
        (state.dev, state.ino, state.mtime_ns) = (record.dev, record.ino, record.mtime_ns);
        self.flush_buffer()
    }

    fn access(&mut self, access: &Access) -> Result<(), WriteError> {
        let Access { role, file, first_page, pages, at_ns, waited_ns, way } = *access;
        let Some(next_page) = first_page.checked_add(pages).filter(|_| pages > 0) else {
            return Err(self.mistake("an access has a page at least, and all of them numbers of 32 bits"));
        };
        let is_known = self.knows_role(role)? && self.knows_file(file)?;
        if !is_known || self.accesses == self.bounds.accesses {
            self.left_out += 1;
            return Ok(());
        }
        self.accesses += 1;
        let Writer { buffer, state, .. } = self;
        let expected = &mut state.files[file.0 as usize].next_page;
        let mut head = kind::ACCESS | way_number(way) << WAY_SHIFT;
        for (flag, is_so) in [
            (SAME_ROLE, role.0 == state.role),
            (SAME_FILE, file.0 == state.file),
            (FOLLOWS, first_page == *expected),
        ] {
            head |= if is_so { flag } else { 0 };
        }
        buffer.push(head);
        if head & SAME_ROLE == 0 {
            put_difference(buffer, state.role.into(), role.0.into());
        }
        if head & SAME_FILE == 0 {
            put_difference(buffer, state.file.into(), file.0.into());
        }
        if head & FOLLOWS == 0 {
            put_difference(buffer, (*expected).into(), first_page.into());
        }
        put(buffer, pages.into());
        put_difference(buffer, state.at_ns, at_ns);
        put(buffer, waited_ns);
        *expected = next_page;
        (state.role, state.file, state.at_ns) = (role.0, file.0, at_ns);
        self.flush_buffer()
    }

    fn fact(&mut self, fact: Fact) -> Result<(), WriteError> {
        let (kind, of) = fact_numbers(fact);
        let is_known = match fact {
            Fact::Ended { role, .. } => self.knows_role(role)?,
            _ => self.knows_file(FileNumber(of))?,
        };
        if !is_known {
            self.left_out += 1;
            return Ok(());
        }
        if !self.state.is_news(fact) {
            return Ok(());
        }
        self.buffer.extend_from_slice(&[kind::FACT, kind]);
        put(&mut self.buffer, of.into());
        if let Fact::Ended { at_ns, .. } = fact {
            put(&mut self.buffer, at_ns);
        }
        self.flush_buffer()
    }

    /// Whether this role was written; not, if it was beyond the limit.
    fn knows_role(&self, role: RoleId) -> Result<bool, WriteError> {
        let known = self.state.ended.len();
        match (role.0 as usize) < known {
            false if known < self.bounds.roles => Err(self.mistake("a role comes before what names it")),
            is_known => Ok(is_known),
        }
    }

    /// Whether this file was written; not, if it was beyond the limit.
    fn knows_file(&self, file: FileNumber) -> Result<bool, WriteError> {
        let known = self.state.files.len();
        match (file.0 as usize) < known {
            false if known < self.bounds.files => Err(self.mistake("a file comes before what names it")),
            is_known => Ok(is_known),
        }
    }

    fn flush_buffer(&mut self) -> Result<(), WriteError> {
        let written = self.encoder.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|source| WriteError::Io { path: self.path.clone(), source })
    }

    fn mistake(&self, what: &'static str) -> WriteError {
        WriteError::NotAnEvent { path: self.path.clone(), what }
    }
}

fn bytes(buffer: &mut Vec<u8>, bytes: &[u8]) {
    put(buffer, bytes.len() as u64);
    buffer.extend_from_slice(bytes);
}

fn way_number(way: Way) -> u8 {
    match way {
        Way::Read => 0,
        Way::Mapped => 1,
        Way::Written => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;

    fn role(n: u32) -> Event {
        Event::Role(RoleId(n), Role { parent: None, name: "job".to_owned(), ordinal: n })
    }

    fn file(n: u32, path: &str) -> Event {
        let record = FileRecord { path: path.into(), dev: 1, ino: n.into(), size: 1, mtime_ns: 0 };
        Event::File(FileNumber(n), record)
    }

    fn access(role: u32, file: u32) -> Event {
        Event::Access(Access { at_ns: 3, ..Access::read(RoleId(role), FileNumber(file), 7, 1) })
    }

    #[test]
    fn what_is_beyond_a_limit_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("limited");
        let mut writer = Writer::create(&path).unwrap();
        writer.bounds = Bounds { accesses: 2, roles: 2, files: 2, paths_bytes: 3, ..Bounds::default() };
        let events = [
            role(0),
            role(1),
            role(2),
            file(0, "/a"),
            file(1, "/b"),
            file(2, "/c"),
            file(3, "/d"),
            access(2, 0),
            access(0, 3),
            access(0, 0),
            Event::Fact(Fact::Written(FileNumber(2))),
            Event::Fact(Fact::Ended { role: RoleId(2), at_ns: 1 }),
            Event::Fact(Fact::Written(FileNumber(1))),
            Event::Fact(Fact::Written(FileNumber(1))),
            access(1, 1),
            access(1, 1),
        ];
        for event in &events {
            writer.write(event).unwrap();
        }
        assert_eq!(writer.left_out(), 5);
        writer.finish(Summary { left_out: 10, ..Summary::default() }).unwrap();
        let recording = Recording::read(&path).unwrap();
        assert_eq!((recording.roles.len(), recording.files.len(), recording.accesses.len()), (2, 2, 2));
        assert_eq!(recording.facts, [Fact::Written(FileNumber(1))]);
        assert_eq!(recording.summary.left_out, 15);
        // Paths beyond their limit are empty: the file is still known by device and inode.
        assert_eq!((recording.files[0].path.as_path(), recording.files[1].path.as_path()), {
            (Path::new("/a"), Path::new(""))
        });
    }
}
