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

mod error;
mod files;
mod guard;
mod names;
mod options;

use std::path::Path;

use foretell_buffers::Pool;
use fuser::{BackgroundSession, Config, MountOption, Session};

pub use error::Error;
pub use guard::{Guard, guard_main};
pub use options::Options;

/// Requests that wait for the store at a time.
const THREADS: usize = 16;

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
