//! What can go wrong, in words that say what to do instead.

use std::io;
use std::path::PathBuf;

use foretell_policy::PoolPolicy;

use crate::options::SessionId;

/// Why a plane could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The block size is not a power of two, or out of range.
    #[error("block size {block_bytes} is not a power of two from {page_bytes} to 1048576")]
    BlockSize {
        /// The size asked for.
        block_bytes: u32,
        /// The size of a page here.
        page_bytes: u32,
    },
    /// The budget does not hold one batch of blocks.
    #[error("a budget of {budget_bytes} bytes is smaller than one batch; give at least {least_bytes} bytes")]
    BudgetTooSmall {
        /// The budget asked for.
        budget_bytes: u64,
        /// The smallest that works with the block size and batch.
        least_bytes: u64,
    },
    /// The budget is larger than the machine's memory (or a 32-bit number of blocks).
    #[error(
        "a budget of {budget_bytes} bytes is more than can be cached here; give at most {most_bytes} bytes"
    )]
    BudgetTooLarge {
        /// The budget asked for.
        budget_bytes: u64,
        /// The largest that is accepted.
        most_bytes: u64,
    },
    /// An option is out of its range.
    #[error("option {option} is {value}; it must be {range}")]
    OutOfRange {
        /// Its name.
        option: &'static str,
        /// What was given.
        value: String,
        /// What is accepted.
        range: &'static str,
    },
    /// The program that observes the page cache cannot be loaded.
    #[error(transparent)]
    Observe(Box<dyn std::error::Error + Send + Sync>),
    /// A thread, a pipe or the like could not be made.
    #[error("cannot {what}: {source}")]
    System {
        /// What failed, as "start a thread".
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// Why rules are not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The pattern does not parse.
    #[error("pattern '{glob}': {reason}")]
    Pattern {
        /// The pattern.
        glob: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Two rules of a manager give one priority level two policies.
    #[error(
        "rules '{first}' and '{second}' give priority level {priority} two policies; \
         give one of them another priority"
    )]
    LevelPolicy {
        /// Pattern of the earlier rule.
        first: String,
        /// Pattern of the later one.
        second: String,
        /// The level.
        priority: i32,
    },
    /// More rules or levels than one manager may have.
    #[error("no more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
}

/// Why a session could not be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The rules of a manager are not accepted.
    #[error("manager '{manager}': {source}")]
    Rules {
        /// Its name.
        manager: String,
        /// What is wrong.
        source: RuleError,
    },
    /// There is no such process.
    #[error("process {pid} does not exist")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// What there is to know of the process cannot be read.
    #[error("what process {pid} is cannot be read: {source}")]
    Unreadable {
        /// Its number.
        pid: u32,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The process is under control already.
    #[error("process {pid} is under control already, in session {}", session.0)]
    AlreadyManaged {
        /// Its number.
        pid: u32,
        /// The session that it belongs to.
        session: SessionId,
    },
    /// Two managers of the session want the processes that no other one names.
    #[error("managers '{first}' and '{second}' both name no process; only one may take all the others")]
    TwoDefaults {
        /// The one manager.
        first: String,
        /// The other.
        second: String,
    },
    /// A table is full.
    #[error("no more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// The observer refused the process.
    #[error("cannot observe process {pid}: {source}")]
    Observe {
        /// Its number.
        pid: u32,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A file that is managed already and for which a new rule names something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} is managed already as {}, priority {}; rule '{glob}' asks for {}, priority {}",
    path.display(), managed.0, managed.1, wanted.0, wanted.1
)]
pub struct Conflict {
    /// The file.
    pub path: PathBuf,
    /// The new rule.
    pub glob: String,
    /// Policy and priority that hold.
    pub managed: (PoolPolicy, i32),
    /// Policy and priority that the new rule names.
    pub wanted: (PoolPolicy, i32),
}

/// Why a chunk of a disclosed list was not taken. The chunks before it were.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub struct DiscloseError {
    /// Which chunk of the call, from 0.
    pub chunk: usize,
    /// What is wrong with it.
    pub problem: DiscloseProblem,
}

/// What is wrong with a chunk of a disclosed list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscloseProblem {
    /// The session has ended or has no such manager.
    #[error("there is no manager {manager} in session {}", session.0)]
    NoManager {
        /// The session.
        session: SessionId,
        /// Which of its managers, from 0.
        manager: usize,
    },
    /// The file cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file has no pages on a disk: a directory, a device, a file in memory.
    #[error("{} is {what}, which cannot be prefetched", path.display())]
    NotOnDisk {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The chunk goes beyond the end of the file (the part within it was not taken either).
    #[error("{}: bytes {offset} to {end} go beyond the end of the file at {size}", path.display())]
    PastEnd {
        /// The file.
        path: PathBuf,
        /// First byte of the chunk.
        offset: u64,
        /// The byte after its last.
        end: u64,
        /// Size of the file.
        size: u64,
    },
    /// The table of files is full.
    #[error("no more than {limit} files can be managed at a time")]
    TooManyFiles {
        /// The limit.
        limit: u32,
    },
}

/// Why a file was not taken from its descriptor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// The session has ended.
    #[error("session {} has ended", session.0)]
    NoSession {
        /// The session.
        session: SessionId,
    },
    /// A directory, a pipe, a socket, a device.
    #[error("the descriptor is not of a regular file; give one that is")]
    NotAFile,
    /// Opened for writing only, or as a path only.
    #[error("the descriptor was not opened for reading, which would prove that the file may be read")]
    NotReadable,
    /// The file has no pages on a disk.
    #[error("the file is {what}, where its pages cannot be steered")]
    NotOnDisk {
        /// Where it is.
        what: &'static str,
    },
    /// The table of files is full.
    #[error("no more than {limit} files can be managed at a time")]
    TooManyFiles {
        /// The limit.
        limit: u32,
    },
    /// The descriptor cannot be looked at.
    #[error("the descriptor cannot be looked at: {0}")]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for HoldError {
    fn from(error: rustix::io::Errno) -> HoldError {
        HoldError::System(error.into())
    }
}

/// Why a directive or a disclosure had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The session has ended.
    #[error("session {} has ended", session.0)]
    NoSession {
        /// The session.
        session: SessionId,
    },
    /// The session does not hold the file, or the file is gone.
    #[error("the session does not hold this file")]
    NoFile,
    /// A table of the policy is full.
    #[error("no more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: u32,
    },
    /// As much of this session or this user waits to be taken into the list as may.
    #[error("no more than {limit} disclosed ranges may wait; disclose more when some have been read")]
    Queue {
        /// The limit.
        limit: u64,
    },
    /// As much waits in all as may.
    #[error("no more than {limit} disclosed ranges of all sessions may wait; disclose more later")]
    QueueInAll {
        /// The limit.
        limit: u64,
    },
}

/// Why the loop cannot go on. The programs run on as on the plain kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Waiting for something to happen failed.
    #[error("cannot wait for events: {0}")]
    Wait(#[source] io::Error),
    /// The observer failed.
    #[error(transparent)]
    Observe(Box<dyn std::error::Error + Send + Sync>),
    /// The threads that prefetch or evict have ended.
    #[error("the threads that prefetch and evict have ended")]
    Workers,
}
