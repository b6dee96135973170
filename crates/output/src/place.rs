//! What a name stands for, step by step, each relative to a directory that is held open.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, accessat, fcntl_getfl, fcntl_setfl,
    fstat, fstatfs, openat, readlinkat, statat,
};
use rustix::io::Errno;

use crate::OutputError;

/// Links followed from one name: the kernel's own number (`MAXSYMLINKS`, path_resolution(7)).
const LINKS: usize = 40;

/// Where a name leads.
#[derive(Debug)]
pub(crate) enum Place {
    /// A device or a pipe, open for writing.
    Special(File),
    /// A regular file, or nothing yet, of this name in this directory.
    Named {
        /// Open as a place only (`O_PATH`).
        directory: OwnedFd,
        /// One part of a path.
        name: OsString,
    },
}

/// A regular file that has the name already: its owner and permissions are kept.
pub(crate) type Seen = Stat;

/// Follows a name to its place.
pub(crate) fn resolve(path: &Path) -> Result<Place, OutputError> {
    let system = |e: Errno| OutputError::System { path: path.to_owned(), source: e.into() };
    if path == Path::new("-") {
        return Err(OutputError::Dash);
    }
    let mut directory: Option<OwnedFd> = None;
    let mut rest = path.to_owned();
    for _ in 0..=LINKS {
        let Some(name) = file_name(&rest).map(OsStr::to_owned) else {
            return Err(OutputError::IsDirectory { path: path.to_owned() });
        };
        let parent = rest.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let base = directory.as_ref().map_or(CWD, std::os::fd::AsFd::as_fd);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(base, parent, flags, Mode::empty()).map_err(|e| match e {
            Errno::NOENT | Errno::NOTDIR => {
                OutputError::NoDirectory { path: path.to_owned(), directory: parent.to_owned() }
            }
            e => system(e),
        })?;
        let Some(found) = stat(&opened, &name).map_err(system)? else {
            return Ok(Place::Named { directory: opened, name });
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Symlink => {
                // A descriptor's link is no path: the kernel leads from it to the open file itself.
                if fstatfs(&opened).map_err(system)?.f_type == PROC_SUPER_MAGIC {
                    return special(path, &opened, &name, OFlags::APPEND).map(Place::Special);
                }
                check_owner(path, &opened, &found, "a link")?;
                let target = readlinkat(&opened, &name, Vec::new()).map_err(system)?;
                rest = PathBuf::from(OsString::from_vec(target.into_bytes()));
                directory = Some(opened);
            }
            FileType::RegularFile => return Ok(Place::Named { directory: opened, name }),
            FileType::Fifo => {
                check_owner(path, &opened, &found, "a pipe")?;
                return special(path, &opened, &name, OFlags::NOFOLLOW).map(Place::Special);
            }
            FileType::CharacterDevice => {
                return special(path, &opened, &name, OFlags::NOFOLLOW).map(Place::Special);
            }
            other => return Err(not_written(path, other)),
        }
    }
    Err(OutputError::Links { path: path.to_owned() })
}

/// The regular file of this name; `None` when the name is free.
pub(crate) fn look(path: &Path, directory: &OwnedFd, name: &OsStr) -> Result<Option<Seen>, OutputError> {
    let system = |e: Errno| OutputError::System { path: path.to_owned(), source: e.into() };
    let Some(found) = stat(directory, name).map_err(system)? else { return Ok(None) };
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink | FileType::Fifo | FileType::CharacterDevice => {
            let what = "no longer what it was when it was looked at";
            return Err(OutputError::NotWritten { path: path.to_owned(), what });
        }
        other => return Err(not_written(path, other)),
    }
    check_owner(path, directory, &found, "a file")?;
    // Whoever may not write to a file does not replace it either.
    accessat(directory, name, Access::WRITE_OK, AtFlags::EACCESS).map_err(system)?;
    Ok(Some(found))
}

fn stat(directory: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// In a directory with the sticky bit that everybody may write to, what is there must be ours or belong to
/// the directory's owner (`may_follow_link` and `may_create_in_sticky` of the kernel's `fs/namei.c`).
fn check_owner(
    path: &Path,
    directory: &OwnedFd,
    found: &Stat,
    what: &'static str,
) -> Result<(), OutputError> {
    let around =
        fstat(directory).map_err(|e| OutputError::System { path: path.to_owned(), source: e.into() })?;
    let is_shared = Mode::from_raw_mode(around.st_mode).contains(Mode::SVTX | Mode::WOTH);
    let is_ours = found.st_uid == rustix::process::geteuid().as_raw();
    if is_shared && !is_ours && found.st_uid != around.st_uid {
        return Err(OutputError::Foreign { path: path.to_owned(), what });
    }
    Ok(())
}

/// Opens what is not replaced.
fn special(path: &Path, directory: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<File, OutputError> {
    let system = |e: Errno| OutputError::System { path: path.to_owned(), source: e.into() };
    // A pipe that nobody reads would keep us waiting, before the job or, worse, behind it.
    let always = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(directory, name, always | flags, Mode::empty()).map_err(|e| match e {
        Errno::NXIO => OutputError::NoReader { path: path.to_owned() },
        e => system(e),
    })?;
    let found = fstat(&file).map_err(system)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice | FileType::Fifo | FileType::RegularFile => {}
        other => return Err(not_written(path, other)),
    }
    let open = fcntl_getfl(&file).map_err(system)?;
    fcntl_setfl(&file, open - OFlags::NONBLOCK).map_err(system)?;
    Ok(file.into())
}

fn not_written(path: &Path, kind: FileType) -> OutputError {
    let path = path.to_owned();
    let what = match kind {
        FileType::Directory => return OutputError::IsDirectory { path },
        FileType::BlockDevice => "a disk, which foretell never writes to",
        FileType::Socket => "a socket, which cannot be written to as a file",
        _ => "of an unknown kind",
    };
    OutputError::NotWritten { path, what }
}

/// The name of a file as a part of a path: neither `..` nor anything with a slash in it.
pub(crate) fn file_name(path: &Path) -> Option<&OsStr> {
    let ends_in_slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    path.file_name().filter(|_| !ends_in_slash)
}
