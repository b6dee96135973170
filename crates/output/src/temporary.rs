//! A file without its name yet.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid, fchmod, fchown, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::OutputError;
use crate::place::Seen;

/// Tries at a name that is free: the names have 64 random bits.
const TRIES: usize = 16;

/// What the names of all of them begin with.
const PREFIX: &str = ".foretell-";

/// Is this the name of a file that was being written? Where nobody writes any more it is of no use to anybody.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(PREFIX))
        .is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// A new file in the directory where it will get its name; removed when it is dropped without one.
#[derive(Debug)]
pub(crate) struct Temporary {
    file: File,
    directory: OwnedFd,
    name: OsString,
    has_name: bool,
}

impl Temporary {
    /// Makes one with the owner and permissions of `existing`, or our owner and `new_mode`.
    pub(crate) fn new(
        path: &Path,
        directory: &OwnedFd,
        existing: Option<&Seen>,
        new_mode: u32,
    ) -> Result<Temporary, OutputError> {
        let system = |source: io::Error| OutputError::System { path: path.to_owned(), source };
        // What replaces a file is nobody else's to read until it has that file's owner and permissions.
        let mode = if existing.is_some() { 0o600 } else { new_mode };
        let (file, name) = create(directory, Mode::from_raw_mode(mode)).map_err(|e| system(e.into()))?;
        let directory = directory.try_clone().map_err(system)?;
        let temporary = Temporary { file, directory, name, has_name: false };
        if let Some(existing) = existing {
            let (user, group) = (Uid::from_raw(existing.st_uid), Gid::from_raw(existing.st_gid));
            match fchown(&temporary.file, Some(user), Some(group)) {
                Ok(()) => {}
                Err(Errno::PERM) => return Err(OutputError::Owner { path: path.to_owned() }),
                Err(error) => return Err(system(error.into())),
            }
            // Not the bits that make a program run as its owner.
            let permissions = Mode::from_raw_mode(existing.st_mode & 0o777);
            fchmod(&temporary.file, permissions).map_err(|e| system(e.into()))?;
        }
        Ok(temporary)
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name.
    pub(crate) fn rename(mut self, name: &OsStr) -> io::Result<()> {
        renameat(&self.directory, &self.name, &self.directory, name)?;
        self.has_name = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.has_name {
            // Nothing can be done about one that stays.
            let _ = unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

fn create(directory: &OwnedFd, mode: Mode) -> Result<(File, OsString), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = OsString::from(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)));
        match openat(directory, &name, flags, mode) {
            Ok(file) => return Ok((file.into(), name)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}
