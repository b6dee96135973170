//! Why a file cannot be written.

use std::io;
use std::path::PathBuf;

/// Why a file cannot be written. Each message begins with the name that was given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The directory is not there.
    #[error("{}: there is no directory {}; make it first", path.display(), directory.display())]
    NoDirectory {
        /// The name that was given.
        path: PathBuf,
        /// The directory that it would be in.
        directory: PathBuf,
    },
    /// It is a directory.
    #[error("{}: is a directory; name a file", path.display())]
    IsDirectory {
        /// The name that was given.
        path: PathBuf,
    },
    /// What stands for standard output elsewhere, and would be a file here that is hard to remove.
    #[error("-: standard output is called /dev/stdout here, and a file of this name ./-")]
    Dash,
    /// It is something that foretell does not write to.
    #[error("{}: is {what}; name a file", path.display())]
    NotWritten {
        /// The name that was given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A pipe whose other end is closed.
    #[error("{}: nobody reads from this pipe; start its reader first", path.display())]
    NoReader {
        /// The name that was given.
        path: PathBuf,
    },
    /// Somebody else put it into a directory where everybody may write.
    #[error(
        "{}: {what} of somebody else in a directory that everybody may write to; give another name",
        path.display()
    )]
    Foreign {
        /// The name that was given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// More links than the kernel follows (path_resolution(7)).
    #[error("{}: too many links lead on from there", path.display())]
    Links {
        /// The name that was given.
        path: PathBuf,
    },
    /// The file that is there belongs to another user, and we may not give a new one to that user.
    #[error("{}: belongs to another user; remove it first, or give another name", path.display())]
    Owner {
        /// The name that was given.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("{}: cannot write there: {source}", path.display())]
    System {
        /// The name that was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
