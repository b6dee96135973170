//! The one way in which foretell writes a file that somebody named.
//!
//! A job may run for hours before its result is written, and it may run as root on a name in a directory
//! where others write. So a name is looked at twice:
//!
//! 1. [`Output::open`], before the job: the directory is opened and kept, so that what happens to its path
//!    later does not matter. The name is looked up in it, and whether a file can be made there is tried.
//! 2. [`Output::begin`], when there is something to write, looks at the name again.
//!
//! What is there decides what happens:
//!
//! | the name is | what happens |
//! | --- | --- |
//! | free | a file is made with the permissions of any new file, or for its owner alone |
//! | a regular file | a new file takes its name, with the same permissions and owner |
//! | a link | the same is done to what it leads to; the link stays |
//! | a character device, a pipe, or a descriptor in `/proc/PID/fd` | it is written to |
//! | a directory, a disk, a socket | an error |
//!
//! A regular file is written under a temporary name in the same directory and then renamed: the name shows
//! the old contents or the new ones, never a part. Its other hard links keep the old contents. Access control
//! lists are not carried over.
//!
//! In a directory that everybody may write to and that has the sticky bit (`/tmp`), a link, a file or a pipe
//! counts only if it belongs to us or to the directory's owner. This is the rule of the kernel's
//! `protected_symlinks`, `protected_regular` and `protected_fifos` (proc_sys_fs(5)). It is applied here
//! because the kernel applies it to `open`, and `rename` does not open.

mod error;
mod place;
mod temporary;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub use error::OutputError;
use place::Place;
use temporary::Temporary;
pub use temporary::is_temporary;

/// Permissions of any new file, less what the process's mask takes away.
const ANYBODY: u32 = 0o666;
/// Permissions of a new file that is its owner's alone.
const OWNER: u32 = 0o600;

/// A name that was found fit to be written to.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    place: Place,
}

impl Output {
    /// Looks at a name before the work is done. A device or a pipe is opened here and stays open; nothing is
    /// left in a directory.
    ///
    /// # Errors
    /// When nothing could be written under this name: see [`OutputError`].
    pub fn open(path: &Path) -> Result<Output, OutputError> {
        let place = place::resolve(path)?;
        if let Place::Named { directory, name } = &place {
            let existing = place::look(path, directory, name)?;
            drop(Temporary::new(path, directory, existing.as_ref(), ANYBODY)?);
        }
        Ok(Output { path: path.to_owned(), place })
    }

    /// The name that was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins to write. A regular file appears under its name with [`Writing::finish`].
    ///
    /// # Errors
    /// When the name has become something else meanwhile, or the system refuses.
    pub fn begin(self) -> Result<Writing, OutputError> {
        self.begin_with(ANYBODY)
    }

    /// As [`Output::begin`], for what may be nobody else's business: a new file is readable and writable for its
    /// owner alone (mode 0600). One that replaces another has that one's permissions, as always.
    ///
    /// # Errors
    /// As [`Output::begin`].
    pub fn begin_private(self) -> Result<Writing, OutputError> {
        self.begin_with(OWNER)
    }

    fn begin_with(self, mode: u32) -> Result<Writing, OutputError> {
        let Output { path, place } = self;
        let target = match place {
            Place::Special(file) => Target::Special(file),
            Place::Named { directory, name } => {
                let existing = place::look(&path, &directory, &name)?;
                let temporary = Temporary::new(&path, &directory, existing.as_ref(), mode)?;
                Target::Regular { temporary, directory, name }
            }
        };
        Ok(Writing { path, target, written_bytes: 0 })
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// As [`Output::begin`]. A regular file is as it was before then.
    pub fn write(self, bytes: &[u8]) -> Result<(), OutputError> {
        let mut writing = self.begin()?;
        match writing.write_all(bytes) {
            Ok(()) => writing.finish().map(drop),
            Err(source) => Err(OutputError::System { path: writing.path.clone(), source }),
        }
    }
}

/// Looks at a name and writes to it at once.
///
/// # Errors
/// As [`Output::open`] and [`Output::write`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    Output::open(path)?.write(bytes)
}

/// A file that is being written. When this is dropped before [`Writing::finish`], a regular file is as it was
/// before; what a device or a pipe was sent cannot be taken back.
#[derive(Debug)]
pub struct Writing {
    path: PathBuf,
    target: Target,
    written_bytes: u64,
}

#[derive(Debug)]
enum Target {
    Special(File),
    Regular { temporary: Temporary, directory: OwnedFd, name: OsString },
}

impl Writing {
    /// Ends it: a regular file takes its name. Returns the bytes that were written.
    ///
    /// # Errors
    /// When the name has become something that is not replaced, or the system refuses.
    pub fn finish(self) -> Result<u64, OutputError> {
        if let Target::Regular { temporary, directory, name } = self.target {
            place::look(&self.path, &directory, &name)?;
            let system = |source| OutputError::System { path: self.path.clone(), source };
            temporary.rename(&name).map_err(system)?;
        }
        Ok(self.written_bytes)
    }

    /// Brings what was written to the disk, if it goes to one, so that it outlives a crash of the machine.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        match &self.target {
            // Pipes and devices have nothing to be brought anywhere.
            Target::Special(_) => Ok(()),
            Target::Regular { temporary, .. } => temporary.file().sync_all(),
        }
    }
}

impl Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.target {
            Target::Special(file) => file.write(bytes),
            Target::Regular { temporary, .. } => temporary.file().write(bytes),
        }?;
        self.written_bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
