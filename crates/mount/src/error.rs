//! Why there is no file system.

use std::path::PathBuf;

/// Why there is no file system.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pool, or what is to be mounted.
    #[error(transparent)]
    Pool(#[from] foretell_buffers::Error),
    /// Where it is to be mounted.
    #[error("{}: {why}", .directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The kernel's FUSE.
    #[error("/dev/fuse: {why}; load the kernel's FUSE driver (modprobe fuse)")]
    NoFuse {
        /// What the kernel says.
        why: String,
    },
    /// The profile.
    #[error("{why}")]
    Profile {
        /// What is wrong with it.
        why: String,
    },
    /// A process that unmounts what this one leaves.
    #[error("no process could be started that unmounts when this one is killed: {why}")]
    Guard {
        /// Why.
        why: String,
    },
}
