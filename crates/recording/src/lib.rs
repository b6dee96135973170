//! What one run of a job referenced: written while it runs, read whole or refused.
//!
//! A recording is a stream of [`Event`]s. *Roles* are the processes of a job by their place in its tree
//! (the third `cc1` that `make` started), so that two runs of one job can be compared although their process
//! numbers differ; [`Lineage`] makes them from what processes do. *Files* are numbered in the order in which
//! they were first seen. *Accesses* name a role, a file, a range of pages and a time. *Facts* are what else is
//! known of files and roles, and the *summary* is what the run as a whole was.
//!
//! - [`Writer`] writes events as they come. It keeps a few bytes for every file and nothing for accesses. The
//!   file has its name when it is whole, and not before.
//! - [`Recording::read`] gives all of it, or says in one line why not: see [`ReadError`]. The format is
//!   described in the module `format` of the sources.
//! - [`lanes`] joins roles that ran one after the other, so that one list runs across them.
//! - [`agreement`] tells how far one run repeats another.

mod error;
mod format;
mod lanes;
mod lineage;
mod read;
mod similar;
mod state;
mod turns;
mod write;

use std::path::PathBuf;

pub use error::{ReadError, WriteError};
pub use format::{OLDEST_VERSION, VERSION, is_recording};
pub use lanes::{LANES, Lane, lanes, lanes_of};
pub use lineage::Lineage;
pub use similar::{agreement, agreement_in_order};
pub use turns::joined_lanes_of;
pub use write::Writer;

/// Bytes of the unit in which places in files are given: the page of the page cache.
pub const PAGE_BYTES: u64 = 4096;

/// How much a recording holds at most. A writer leaves out what is beyond ([`Summary::left_out`]), a reader
/// refuses it.
pub mod limits {
    /// Accesses. In memory they are 335 MB.
    pub const ACCESSES: usize = 1 << 23;
    /// Roles. The processes of a run that has more share the last one.
    pub const ROLES: usize = 1 << 16;
    /// Files. Accesses to further ones are left out.
    pub const FILES: usize = 1 << 17;
    /// Bytes of one path, `PATH_MAX` of Linux (limits.h). A longer one is written as an empty one.
    pub const PATH_BYTES: usize = 4096;
    /// Bytes of all paths together: files of 512 bytes of path on average. Further ones are written as empty
    /// ones.
    pub const PATHS_BYTES: usize = FILES * 512;
    /// Bytes of a command name: `TASK_COMM_LEN` of Linux (sched.h) without its last zero.
    pub const NAME_BYTES: usize = 15;
    /// Facts: each kind once a file, and one end for every role.
    pub const FACTS: usize = 4 * FILES + ROLES;

    // Longest records: a byte for the kind, up to 10 for a number of 64 bits, up to 5 for one of 32.
    const ROLE_BYTES: usize = 1 + 5 + 1 + NAME_BYTES + 5;
    const FILE_BYTES: usize = 1 + 4 * 10 + 5;
    const ACCESS_BYTES: usize = 1 + 4 * 5 + 2 * 10;
    const FACT_BYTES: usize = 1 + 1 + 5 + 10;
    const SUMMARY_BYTES: usize = 1 + 5 * 10 + 6;

    /// Bytes of the uncompressed stream: as many as the longest records within the other limits have.
    pub const UNCOMPRESSED_BYTES: u64 = (ROLES * ROLE_BYTES
        + FILES * FILE_BYTES
        + PATHS_BYTES
        + ACCESSES * ACCESS_BYTES
        + FACTS * FACT_BYTES
        + SUMMARY_BYTES) as u64;
}

/// Number of a role: dense, in the order in which roles appeared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RoleId(pub u32);

/// Number of a file: dense, in the order in which files were first seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileNumber(pub u32);

/// One process of a job by its place in the job's tree: what it runs, who started it, and which of that one's
/// children it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Role {
    /// Who started it; always an earlier role. `None` for what the job began with.
    pub parent: Option<RoleId>,
    /// Its command name, at most [`limits::NAME_BYTES`] bytes; what is not UTF-8 is replaced.
    pub name: String,
    /// Which of its parent's children it is, from 0: see [`Lineage`] for what is counted.
    pub ordinal: u32,
}

/// A file as it was when the run first touched it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileRecord {
    /// Its path; empty if that is not known or beyond a limit.
    pub path: PathBuf,
    /// Number of its device, as in `st_dev` of stat(2).
    pub dev: u64,
    /// Number of its inode on the device.
    pub ino: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When its contents were last changed: nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// How pages were referenced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Way {
    /// A system call read them.
    Read,
    /// Through a mapping.
    Mapped,
    /// A system call wrote them.
    Written,
}

/// One reference of a role to a range of pages of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Who.
    pub role: RoleId,
    /// Which file.
    pub file: FileNumber,
    /// First page of the range, in units of [`PAGE_BYTES`].
    pub first_page: u32,
    /// Pages, at least one; `first_page + pages` fits in 32 bits.
    pub pages: u32,
    /// When it began, in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// How long the process slept for it.
    pub waited_ns: u64,
    /// How.
    pub way: Way,
}

impl Access {
    /// A read of so many pages at the start of the run, that nobody waited for: what an access is unless more is said of
    /// it (`Access { at_ns, ..Access::read(…) }`).
    #[must_use]
    pub const fn read(role: RoleId, file: FileNumber, first_page: u32, pages: u32) -> Access {
        Access { role, file, first_page, pages, at_ns: 0, waited_ns: 0, way: Way::Read }
    }
}

/// What else is known of a file or a role. Each is recorded once: a writer skips what it was told before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fact {
    /// The run wrote to the file.
    Written(FileNumber),
    /// The file is a program or a library: it was mapped to be executed.
    Executed(FileNumber),
    /// The run deleted the file.
    Deleted(FileNumber),
    /// The run cut the file short.
    Truncated(FileNumber),
    /// The last process of a role ended.
    Ended {
        /// The role.
        role: RoleId,
        /// When, in nanoseconds since the start of the run.
        at_ns: u64,
    },
}

/// The run as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// From its start to the end of its last process.
    pub elapsed_ns: u64,
    /// What its processes slept for reads, all together.
    pub wait_ns: u64,
    /// Bytes that were read from devices for it.
    pub device_read_bytes: u64,
    /// Events that the kernel could not deliver.
    pub lost_events: u64,
    /// The exit code of the job; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// Accesses and facts beyond a limit, which the recording does not hold. A writer adds what it left out to
    /// what it is given.
    pub left_out: u64,
}

/// One entry of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A role, in the order of their numbers, before anything that names it.
    Role(RoleId, Role),
    /// A file, in the order of their numbers, before anything that names it.
    File(FileNumber, FileRecord),
    /// A reference.
    Access(Access),
    /// What else is known.
    Fact(Fact),
    /// The end; [`Writer::finish`] writes it.
    Summary(Summary),
}

/// A whole recording in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// The roles, by their number.
    pub roles: Vec<Role>,
    /// The files, by their number.
    pub files: Vec<FileRecord>,
    /// The references, in the order in which they were written.
    pub accesses: Vec<Access>,
    /// What else is known, in the order in which it was written.
    pub facts: Vec<Fact>,
    /// The run as a whole.
    pub summary: Summary,
}

impl Recording {
    /// The role of this number.
    #[must_use]
    pub fn role(&self, role: RoleId) -> Option<&Role> {
        self.roles.get(role.0 as usize)
    }

    /// The file of this number.
    #[must_use]
    pub fn file(&self, file: FileNumber) -> Option<&FileRecord> {
        self.files.get(file.0 as usize)
    }
}
