//! What can go wrong, each in one line: where, what, and what to do.

use std::time::Duration;

/// Schemes of URLs that [`crate::Pool::open`] knows.
pub const SCHEMES: &str = "file, s3, s3a, gs, az, adl, azure, abfs, abfss, http, https";

/// An error of a pool. Cheap to clone: several readers may wait for one part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The budget holds no part.
    #[error(
        "budget: {budget_bytes} bytes hold no part of {part_bytes} bytes; give more, or make parts smaller"
    )]
    BudgetBelowPart {
        /// The budget.
        budget_bytes: u64,
        /// The size of a part.
        part_bytes: u32,
    },
    /// An option of the pool is outside of what is possible.
    #[error("{name}: {given} is not within {least} and {most}")]
    Outside {
        /// The option.
        name: &'static str,
        /// What was given.
        given: u64,
        /// The least that is possible.
        least: u64,
        /// The most.
        most: u64,
    },
    /// What was to be opened is no URL.
    #[error("{url}: no URL ({why}); SCHEME://STORE/KEY is needed")]
    NotAUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// No store has this scheme.
    #[error("{url}: unknown scheme; there are {SCHEMES}")]
    UnknownScheme {
        /// What was given.
        url: String,
    },
    /// An option that the store of a URL does not have.
    #[error("{url}: its store has no option '{name}'")]
    UnknownOption {
        /// What was to be opened.
        url: String,
        /// The option.
        name: String,
    },
    /// The store cannot be reached with these options.
    #[error("{url}: its store cannot be used: {why}")]
    Store {
        /// What was to be opened.
        url: String,
        /// What the library says.
        why: String,
    },
    /// There is no such object.
    #[error("{url}: no such object")]
    NotFound {
        /// Which.
        url: String,
    },
    /// The store refuses: no credentials, or not the right ones.
    #[error("{url}: access denied, check the credentials: {why}")]
    Denied {
        /// Which.
        url: String,
        /// What the store says.
        why: String,
    },
    /// The object is another one than when it was opened.
    #[error("{url}: it was changed since it was opened; open it again")]
    Changed {
        /// Which.
        url: String,
    },
    /// The store failed, and did so again when it was asked again.
    #[error("{url}: the store failed: {why}")]
    Failed {
        /// Which.
        url: String,
        /// What the library says.
        why: String,
    },
    /// What came is not what was stored: its checksum is another one.
    #[error("{url}: wrong bytes came from the store: {why}")]
    Damaged {
        /// Which.
        url: String,
        /// Which of its bytes, and what is wrong with them.
        why: String,
    },
    /// The store sent less than was asked for.
    #[error("{url}: the store sent {sent} of {asked} bytes")]
    Short {
        /// Which.
        url: String,
        /// What came.
        sent: u64,
        /// What was asked for.
        asked: u64,
    },
    /// Nothing came in time.
    #[error("{url}: no answer within {} s", .after.as_secs_f64())]
    TimedOut {
        /// Which.
        url: String,
        /// How long was waited.
        after: Duration,
    },
    /// A range that the object does not have.
    #[error("{url}: {length} bytes from {offset} on reach behind its end, it has {object_bytes}")]
    PastEnd {
        /// Which.
        url: String,
        /// Where the range begins.
        offset: u64,
        /// How long it is.
        length: u64,
        /// How long the object is.
        object_bytes: u64,
    },
    /// The object is one of another pool's.
    #[error("{url}: it was opened in another pool; open it in this one")]
    OtherPool {
        /// Which.
        url: String,
    },
    /// A limit is reached.
    #[error("no more than {limit} {what}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many.
        limit: u64,
    },
    /// [`crate::Options::keep_waiting`] said so.
    #[error("the wait was interrupted")]
    Interrupted,
    /// The pool was made by the process that this one was forked from.
    #[error("the pool belongs to the process that made it; after fork() make one in the child")]
    Forked,
    /// The pool is another process's, and that one is gone, or does not do what it is asked for.
    #[error("the shared pool: {why}")]
    Host {
        /// What is wrong.
        why: String,
    },
    /// The disk that parts are to be kept on cannot be used.
    #[error("{folder}: parts cannot be kept on this disk: {why}")]
    Disk {
        /// The folder.
        folder: String,
        /// Why.
        why: String,
    },
    /// A folder without a size, or a size without a folder.
    #[error("disk: a folder and a number of bytes are needed, both or neither")]
    HalfADisk,
    /// There is no memory for the pool.
    #[error("the pool has no memory: {why}")]
    NoMemory {
        /// Why.
        why: String,
    },
    /// The pool's threads are gone, or could not be started.
    #[error("the pool has no threads: {why}")]
    NoThreads {
        /// Why.
        why: String,
    },
}
