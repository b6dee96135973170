//! Writing a recording while the job runs.
//!
//! Events are encoded into a small buffer, compressed, summed and written at once. What is remembered is what
//! differences are taken to (one number a file) and which facts were told (four bits a file, one a role).
//! What is beyond a limit is counted and left out, so that a long run ends with a recording that is readable
//! and says what it lacks.

use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foretell_output::{Output, Writing};

use crate::error::WriteError;
use crate::format::{
    FOLLOWS, LEVEL, MAGIC, SAME_FILE, SAME_ROLE, Sum, VERSION, WAY_SHIFT, difference, fact, fold, kind,
    number,
};
use crate::{Access, Event, Fact, FileRecord, Role, RoleId, Summary, Way, limits};

/// Writes a recording. The file has its name after [`Writer::finish`]; a writer that is dropped before leaves
/// nothing behind. A new file is its owner's alone (mode 0600): names of files say much about a job.
pub struct Writer {
    path: PathBuf,
    encoder: zstd::stream::write::Encoder<'static, Summed>,
    buffer: Vec<u8>,
    before: Before,
    roles: u32,
    files: Vec<FileState>,
    /// The roles whose end was told.
    ended: Vec<bool>,
    paths_bytes: usize,
    accesses: usize,
    left_out: u64,
    limits: Limits,
}

/// The limits, smaller in tests.
#[derive(Debug, Clone, Copy)]
struct Limits {
    accesses: usize,
    roles: usize,
    files: usize,
    paths_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            accesses: limits::ACCESSES,
            roles: limits::ROLES,
            files: limits::FILES,
            paths_bytes: limits::PATHS_BYTES,
        }
    }
}

/// What is remembered of a file.
#[derive(Debug, Clone, Copy, Default)]
struct FileState {
    /// The page behind the last access.
    next_page: u32,
    /// The facts that were told, a bit a kind.
    facts: u8,
}

/// What differences are taken to. A reader keeps the same.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) role: u32,
    pub(crate) file: u32,
    pub(crate) at_ns: u64,
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) mtime_ns: i64,
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
            .field("roles", &self.roles)
            .field("files", &self.files.len())
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
            before: Before::default(),
            roles: 0,
            files: Vec::new(),
            ended: Vec::new(),
            paths_bytes: 0,
            accesses: 0,
            left_out: 0,
            limits: Limits::default(),
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
            Event::File(file, record) => self.file(file.0, record),
            Event::Access(access) => self.access(access),
            Event::Fact(fact) => self.fact(fact),
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
            number(&mut self.buffer, value);
        }
        number(&mut self.buffer, u64::from(exit_code.is_some()));
        if let Some(code) = exit_code {
            number(&mut self.buffer, fold(code.into()));
        }
        number(&mut self.buffer, left_out);
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
        if id.0 != self.roles {
            return Err(self.mistake("roles come in the order of their numbers"));
        }
        if role.parent.is_some_and(|parent| parent >= id) {
            return Err(self.mistake("a parent is an earlier role"));
        }
        if role.name.len() > limits::NAME_BYTES {
            return Err(self.mistake("a command name has 15 bytes at most"));
        }
        if self.roles as usize == self.limits.roles {
            return Ok(());
        }
        self.roles += 1;
        self.ended.push(false);
        let Writer { buffer, .. } = self;
        buffer.push(kind::ROLE);
        number(buffer, role.parent.map_or(0, |parent| u64::from(parent.0) + 1));
        bytes(buffer, role.name.as_bytes());
        number(buffer, role.ordinal.into());
        self.flush_buffer()
    }

    fn file(&mut self, file: u32, record: &FileRecord) -> Result<(), WriteError> {
        if self.files.len() == self.limits.files && file as usize >= self.limits.files {
            return Ok(());
        }
        if file as usize != self.files.len() {
            return Err(self.mistake("files come in the order of their numbers"));
        }
        self.files.push(FileState::default());
        let mut path = record.path.as_os_str().as_bytes();
        if path.len() > limits::PATH_BYTES || self.paths_bytes + path.len() > self.limits.paths_bytes {
            path = &[];
        }
        self.paths_bytes += path.len();
        let Writer { buffer, before, .. } = self;
        buffer.push(kind::FILE);
        difference(buffer, record.dev, before.dev);
        difference(buffer, record.ino, before.ino);
        difference(buffer, record.mtime_ns.cast_unsigned(), before.mtime_ns.cast_unsigned());
        number(buffer, record.size);
        bytes(buffer, path);
        (before.dev, before.ino, before.mtime_ns) = (record.dev, record.ino, record.mtime_ns);
        self.flush_buffer()
    }

    fn access(&mut self, access: &Access) -> Result<(), WriteError> {
        let Access { role, file, first_page, pages, at_ns, waited_ns, way } = *access;
        let Some(next_page) = first_page.checked_add(pages).filter(|_| pages > 0) else {
            return Err(self.mistake("an access has a page at least, and all of them numbers of 32 bits"));
        };
        let is_known = self.knows_role(role.0)? && self.knows_file(file.0)?;
        if !is_known || self.accesses == self.limits.accesses {
            self.left_out += 1;
            return Ok(());
        }
        self.accesses += 1;
        let Writer { buffer, before, files, .. } = self;
        let expected = &mut files[file.0 as usize].next_page;
        let mut head = kind::ACCESS | way_number(way) << WAY_SHIFT;
        for (flag, is_so) in [
            (SAME_ROLE, role.0 == before.role),
            (SAME_FILE, file.0 == before.file),
            (FOLLOWS, first_page == *expected),
        ] {
            head |= if is_so { flag } else { 0 };
        }
        buffer.push(head);
        if head & SAME_ROLE == 0 {
            difference(buffer, role.0.into(), before.role.into());
        }
        if head & SAME_FILE == 0 {
            difference(buffer, file.0.into(), before.file.into());
        }
        if head & FOLLOWS == 0 {
            difference(buffer, first_page.into(), (*expected).into());
        }
        number(buffer, pages.into());
        difference(buffer, at_ns, before.at_ns);
        number(buffer, waited_ns);
        *expected = next_page;
        (before.role, before.file, before.at_ns) = (role.0, file.0, at_ns);
        self.flush_buffer()
    }

    fn fact(&mut self, fact: &Fact) -> Result<(), WriteError> {
        let (fact, file) = match *fact {
            Fact::Ended { role, at_ns } => {
                if !self.knows_role(role.0)? {
                    self.left_out += 1;
                    return Ok(());
                }
                if std::mem::replace(&mut self.ended[role.0 as usize], true) {
                    return Ok(());
                }
                self.buffer.extend_from_slice(&[kind::FACT, fact::ENDED]);
                number(&mut self.buffer, role.0.into());
                number(&mut self.buffer, at_ns);
                return self.flush_buffer();
            }
            Fact::Written(file) => (fact::WRITTEN, file.0),
            Fact::Executed(file) => (fact::EXECUTED, file.0),
            Fact::Deleted(file) => (fact::DELETED, file.0),
            Fact::Truncated(file) => (fact::TRUNCATED, file.0),
        };
        if !self.knows_file(file)? {
            self.left_out += 1;
            return Ok(());
        }
        let told = &mut self.files[file as usize].facts;
        if *told & 1 << fact != 0 {
            return Ok(());
        }
        *told |= 1 << fact;
        self.buffer.extend_from_slice(&[kind::FACT, fact]);
        number(&mut self.buffer, file.into());
        self.flush_buffer()
    }

    /// Whether this role was written; not, if it was beyond the limit.
    fn knows_role(&self, role: u32) -> Result<bool, WriteError> {
        let is_full = self.roles as usize == self.limits.roles;
        match role < self.roles {
            false if !is_full => Err(self.mistake("a role comes before what names it")),
            is_known => Ok(is_known),
        }
    }

    fn knows_file(&self, file: u32) -> Result<bool, WriteError> {
        let is_full = self.files.len() == self.limits.files;
        match (file as usize) < self.files.len() {
            false if !is_full => Err(self.mistake("a file comes before what names it")),
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
    number(buffer, bytes.len() as u64);
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
    use crate::{FileNumber, Recording};

    fn role(n: u32) -> Event {
        Event::Role(RoleId(n), Role { parent: None, name: "job".to_owned(), ordinal: n })
    }

    fn file(n: u32, path: &str) -> Event {
        let record = FileRecord { path: path.into(), dev: 1, ino: n.into(), size: 1, mtime_ns: 0 };
        Event::File(FileNumber(n), record)
    }

    fn access(role: u32, file: u32) -> Event {
        let (role, file) = (RoleId(role), FileNumber(file));
        Event::Access(Access { role, file, first_page: 7, pages: 1, at_ns: 3, waited_ns: 0, way: Way::Read })
    }

    #[test]
    fn what_is_beyond_a_limit_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("limited");
        let mut writer = Writer::create(&path).unwrap();
        writer.limits = Limits { accesses: 2, roles: 2, files: 2, paths_bytes: 3 };
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
