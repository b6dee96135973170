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
//!
//! Objects stay open in the pool when programs have closed their files (`kept.rs`), as rules give some of them
//! priority over others. With a profile it is noted what each run of a job reads, and disclosed when it comes again
//! (`profile.rs`, `runs.rs`). Of a job that is not known it is guessed what comes when it goes through a directory (`walks.rs`).

mod error;
mod files;
mod guard;
mod kept;
mod names;
mod options;
mod profile;
mod runs;
mod walks;

use std::path::Path;
use std::sync::Arc;

use foretell_buffers::Pool;
use foretell_recording::ReadError;
use fuser::{BackgroundSession, Config, MountOption, Session};

pub use error::Error;
pub use guard::{Guard, guard_main};
pub use options::{Options, PriorityOf};

use files::{Files, Served};
use profile::Profile;
use runs::Runs;

/// Requests that wait for the store at a time.
const THREADS: usize = 16;

/// The runs that a profile has, if there is to be one. One that is damaged is made anew; what is something else is not
/// overwritten.
fn runs_of(options: &Options) -> Result<Option<Runs>, Error> {
    let Some(file) = &options.profile else { return Ok(None) };
    let profile = match Profile::read(file) {
        Ok(profile) => profile,
        Err(ReadError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Profile::default()
        }
        Err(
            error @ (ReadError::CutShort { .. } | ReadError::Damaged { .. } | ReadError::OtherVersion { .. }),
        ) => {
            (options.complain)(&error.to_string());
            Profile::default()
        }
        Err(error) => return Err(Error::Profile { why: error.to_string() }),
    };
    // Whether it can be written is known before the job and not after it.
    foretell_output::Output::open(file).map_err(|error| Error::Profile { why: error.to_string() })?;
    Ok(Some(Runs::new(file.clone(), profile, options.idle)))
}

/// A mounted file system.
pub struct Mounted {
    session: BackgroundSession,
    /// What is noted of runs, and of what.
    runs: Option<(Arc<Runs>, Arc<Files>)>,
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
        let runs = runs_of(&options)?.map(Arc::new);
        let mut entries = std::fs::read_dir(directory).map_err(|error| wrong(error.to_string()))?;
        if entries.next().is_some() {
            let why = "not empty, and what is in it would be hidden; name an empty directory";
            return Err(wrong(why.to_owned()));
        }
        let files = Arc::new(Files::new(pool.clone(), options, runs.clone())?);
        let kernel = files.kernel();
        let session = Session::new(Served(files.clone()), directory, &config).and_then(Session::spawn);
        let session = session.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NoFuse { why: error.to_string() },
            _ => wrong(format!("cannot be mounted on: {error}")),
        })?;
        let _ = kernel.set(session.notifier());
        let Some(runs) = runs else { return Ok(Mounted { session, runs: None }) };
        let (following, its) = (runs.clone(), files.clone());
        let thread = std::thread::Builder::new().name("runs".to_owned());
        match thread.spawn(move || following.follow(&its)) {
            Ok(_) => Ok(Mounted { session, runs: Some((runs, files)) }),
            Err(error) => {
                let _ = session.umount_and_join();
                Err(wrong(format!("nobody can follow the profile: {error}")))
            }
        }
    }

    /// Unmounts, and writes the profile. Programs that still have files open get errors from then on.
    pub fn unmount(self) {
        // Also when somebody else was faster.
        let _ = self.session.umount_and_join();
        if let Some((runs, files)) = self.runs {
            runs.end(&files);
        }
    }

    /// Is it unmounted, by somebody else?
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }
}
