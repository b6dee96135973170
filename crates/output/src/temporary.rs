//! A file without its name yet.
//!
//! Where the file system can, it has no name at all until it is whole (`O_TMPFILE`, open(2)): nothing is left of it when we are
//! killed. Elsewhere it has one that shows what it is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    Access, AtFlags, CWD, Gid, Mode, OFlags, Uid, fchmod, fchown, linkat, openat, renameat, unlinkat,
};
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
    /// What it is called meanwhile, if it needs a name.
    name: Option<OsString>,
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
        let temporary = Temporary { file, directory, name };
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
        let meanwhile = match self.name.take() {
            Some(name) => name,
            // A link takes nobody's place, so it cannot be the name itself.
            None => {
                with_free_name(|free| {
                    let flags = AtFlags::SYMLINK_FOLLOW;
                    linkat(CWD, of_process(&self.file), &self.directory, free, flags)
                })?
                .1
            }
        };
        let meanwhile = self.name.insert(meanwhile);
        renameat(&self.directory, &*meanwhile, &self.directory, name)?;
        self.name = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Nothing can be done about one that stays.
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

fn create(directory: &OwnedFd, mode: Mode) -> Result<(File, Option<OsString>), Errno> {
    let nameless = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    if let Ok(file) = openat(directory, ".", nameless, mode) {
        let file = File::from(file);
        // It gets its name by that way.
        if rustix::fs::access(of_process(&file), Access::EXISTS).is_ok() {
            return Ok((file, None));
        }
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (file, name) = with_free_name(|name| openat(directory, name, flags, mode))?;
    Ok((file.into(), Some(name)))
}

/// The way to an open file of this process, also to one without a name (proc_pid_fd(5)).
fn of_process(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Does something with a name that nobody has.
fn with_free_name<T>(mut act: impl FnMut(&OsStr) -> Result<T, Errno>) -> Result<(T, OsString), Errno> {
    for _ in 0..TRIES {
        let mut random = [0; 8];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let name = OsString::from(format!("{PREFIX}{:016x}", u64::from_ne_bytes(random)));
        match act(&name) {
            Ok(done) => return Ok((done, name)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::EXIST)
}
