//! Objects of stores as files: a read-only FUSE file system over a pool of buffers.
//!
//! ```text
//!  a program ──► page cache ──► FUSE ──► this ──► a pool (foretell-buffers) ──► a store
//! ```
//!
//! The kernel keeps what it reads in its page cache, so that what is read again costs no call. A directory is what its
//! objects' keys have in common up to a slash. What is known of a name or a listing is believed for a chosen time; after
//! that, and when a file is opened whose state is older, the store is asked again. An open file is one state of its object: when
//! that has changed reads fail with `EIO`, never with bytes of two states.
//!
//! The kernel's number of a file is a place in a table (`names.rs`) as long as the kernel knows it. Listings are kept for
//! so many names together, those that were used longest ago are forgotten. Requests are answered by as many threads as may
//! wait for the store.

mod files;
mod guard;
mod names;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use foretell_buffers::Pool;
use fuser::{BackgroundSession, Config, MountOption, Session};

pub use guard::{Guard, guard_main};

/// Requests that wait for the store at a time.
const THREADS: usize = 16;

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
    /// A process that unmounts what this one leaves.
    #[error("no process could be started that unmounts when this one is killed: {why}")]
    Guard {
        /// Why.
        why: String,
    },
}

/// What is mounted, and how.
pub struct Options {
    /// A bucket, or what lies under a path in it: `s3://bucket/path`.
    pub url: String,
    /// How long what was listed or asked for is believed.
    pub believed: Duration,
    /// Other users may read, too; the kernel must permit it (`user_allow_other` of fuse.conf(5), or root).
    pub allow_other: bool,
    /// Told what goes wrong, one line each.
    pub complain: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A mounted file system.
pub struct Mounted {
    session: BackgroundSession,
}

impl Mounted {
    /// Mounts.
    ///
    /// # Errors
    /// When there is nothing at the URL, the directory is none, or the kernel refuses.
    pub fn new(pool: &Pool, directory: &Path, options: Options) -> Result<Mounted, Error> {
        let wrong = |why: String| Error::Directory { directory: directory.to_owned(), why };
        match std::fs::metadata(directory) {
            Err(error) => return Err(wrong(error.to_string())),
            Ok(found) if !found.is_dir() => return Err(wrong("not a directory".to_owned())),
            Ok(_) => {}
        }
        let mut config = Config::default();
        config.n_threads = Some(THREADS);
        config.mount_options = vec![
            MountOption::FSName(options.url.clone()),
            MountOption::Subtype("foretell".to_owned()),
            MountOption::RO,
            MountOption::NoAtime,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::DefaultPermissions,
        ];
        if options.allow_other {
            config.acl = fuser::SessionACL::All;
        }
        let files = files::Files::new(pool.clone(), options)?;
        let kernel = files.kernel();
        let session = Session::new(files, directory, &config).and_then(Session::spawn);
        let session = session.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NoFuse { why: error.to_string() },
            _ => wrong(format!("cannot be mounted on: {error}")),
        })?;
        let _ = kernel.set(session.notifier());
        Ok(Mounted { session })
    }

    /// Unmounts. Programs that still have files open get errors from then on.
    pub fn unmount(self) {
        // Also when somebody else was faster.
        let _ = self.session.umount_and_join();
    }

    /// Is it unmounted, by somebody else?
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }
}
