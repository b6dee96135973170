//! Where clients knock: one socket, one service.
//!
//! Beside the socket lies a lock file that only the service's user may open. Who holds its lock is the
//! service, so that of two that start at the same moment one gives way, and a socket whose lock nobody holds
//! was left behind by a service that was killed: it is replaced. Both go when the service ends.
//!
//! A service that was killed while one of its threads waits in the kernel, for a file of somebody who wants it to,
//! stays there as a zombie and keeps its lock. Its number is in the lock file: when that process is a zombie, the
//! lock file is replaced as well.
//!
//! The directory may be one where others write. So everything has its permissions from the moment on that it
//! has a name, and nothing is changed by its name afterwards: the name might lead elsewhere by then.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::umask;

/// Bytes of a path that a Unix socket can have (unix(7)), less the zero at its end.
const PATH_BYTES: usize = 107;

/// Permissions of a socket that everybody may connect to.
pub(crate) const EVERYBODY: u32 = 0o666;
/// Permissions of one that only its user and root may connect to.
pub(crate) const OWNER: u32 = 0o600;

/// Connections that may wait to be let in.
const BACKLOG: i32 = 4096;

/// Tries at a lock file that a service which is ending removes under our hands.
const LOCK_TRIES: usize = 100;

/// Why the service cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another service listens there.
    #[error("a service listens on {} already; stop it first, or give another --socket", path.display())]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// Something else than a socket has this name.
    #[error("{} exists and is no socket; give another --socket", path.display())]
    NotASocket {
        /// The name.
        path: PathBuf,
    },
    /// The path does not fit into a socket's address.
    #[error("{} is longer than the {PATH_BYTES} bytes that a socket's path may have", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The system refuses.
    #[error("cannot listen on {}: {source}; run as root, or give a --socket where this user may write", path.display())]
    System {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The listening socket; it and its lock file are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the socket's name: only what is ours is removed.
    identity: (u64, u64),
    lock_path: PathBuf,
    _lock: File,
}

impl Listener {
    /// Listens at a path, whose directory is made if it is missing. The socket has these permissions: of who may write
    /// to it may connect.
    ///
    /// # Errors
    /// See [`ListenError`].
    pub(crate) fn bind(path: &Path, mode: u32) -> Result<Listener, ListenError> {
        if path.as_os_str().as_bytes().len() > PATH_BYTES {
            return Err(ListenError::TooLong { path: path.to_owned() });
        }
        let system = |source: io::Error| ListenError::System { path: path.to_owned(), source };
        if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) {
            let _open = NoCreationMask::begin();
            fs::DirBuilder::new().mode(0o755).create(directory).map_err(system)?;
        }
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let lock = lock(&lock_path).map_err(system)?;
        let lock = lock.ok_or_else(|| ListenError::InUse { path: path.to_owned() })?;
        let (socket, identity) = listen(path, mode).inspect_err(|_| drop(fs::remove_file(&lock_path)))?;
        Ok(Listener { socket, path: path.to_owned(), identity, lock_path, _lock: lock })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
        // While it is still locked: whoever opens it now finds that it has no name any more.
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// The mask is the whole process's: one changes it at a time.
static MASK: Mutex<()> = Mutex::new(());

/// While this lives, what is made has the permissions that it is made with.
struct NoCreationMask {
    before: Mode,
    _turn: MutexGuard<'static, ()>,
}

impl NoCreationMask {
    fn begin() -> NoCreationMask {
        let turn = MASK.lock().unwrap_or_else(PoisonError::into_inner);
        NoCreationMask { before: umask(Mode::empty()), _turn: turn }
    }
}

impl Drop for NoCreationMask {
    fn drop(&mut self) {
        umask(self.before);
    }
}

/// The socket, and device and inode of its name. Whoever calls this holds the lock.
fn listen(path: &Path, mode: u32) -> Result<(OwnedFd, (u64, u64)), ListenError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(ListenError::NotASocket { path: path.to_owned() });
        }
        _ => {}
    }
    let attempt = || -> io::Result<(OwnedFd, (u64, u64))> {
        // Left behind by a service that was killed.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The name gets the permissions of the socket, less the creation mask (`unix_bind` of the kernel's
        // `net/unix/af_unix.c`).
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
        let bound = {
            let _open = NoCreationMask::begin();
            rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)
        };
        bound?;
        rustix::net::listen(&socket, BACKLOG)?;
        let metadata = fs::symlink_metadata(path)?;
        Ok((socket, (metadata.dev(), metadata.ino())))
    };
    attempt().map_err(|source| ListenError::System { path: path.to_owned(), source })
}

/// Removes a socket and its lock file if whoever listened there has ended without doing so.
pub(crate) fn remove_dead(path: &Path, lock_path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(lock_path)?;
    // Who listens, or has begun to, has the lock.
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket {
        fs::remove_file(path)?;
    }
    remove_same(lock_path, &file)
}

/// Takes the lock; `None` when another one has it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    for _ in 0..LOCK_TRIES {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                if !is_dead(holder(&file)) {
                    return Ok(None);
                }
                // It will never need its name again. Of several that find it so, one gets the next file's lock.
                remove_same(path, &file)?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        // Removed between opening and locking: the lock of a nameless file keeps nobody out.
        let named = fs::symlink_metadata(path);
        let own = file.metadata()?;
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
            file.set_len(0)?;
            file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The process that holds the lock, as it has noted itself.
fn holder(lock: &File) -> Option<u32> {
    let mut text = [0; 16];
    let length = lock.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
}

/// Has a process ended, but for threads that cannot, or has it been killed and cannot? Its number is not given to
/// another one while it holds a lock.
fn is_dead(process: Option<u32>) -> bool {
    let Some(pid) = process else { return false };
    let stat = fs::read(format!("/proc/{pid}/stat"));
    let state = stat.ok().as_deref().and_then(foretell_pagecache::proc_text::state);
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    matches!(state, Some(b'Z' | b'X')) || status.is_ok_and(|status| is_killed(&status))
}

/// Is `SIGKILL` on its way to a process, by what `/proc/PID/status` says? It does nothing any more then.
fn is_killed(status: &str) -> bool {
    let pending = ["SigPnd:", "ShdPnd:"].map(|name| {
        let text = status.lines().find_map(|line| line.strip_prefix(name));
        text.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
    });
    pending.iter().any(|signals| signals & 1 << (libc::SIGKILL - 1) != 0)
}

/// Removes a lock file's name, if it is still that file's.
fn remove_same(path: &Path, file: &File) -> io::Result<()> {
    let own = file.metadata()?;
    let named = fs::symlink_metadata(path);
    if named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
        fs::remove_file(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use rustix::fs::inotify;

    #[test]
    fn no_permissions_are_changed_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let watch = inotify::init(flags).unwrap();
        inotify::add_watch(&watch, directory.path(), inotify::WatchFlags::ATTRIB).unwrap();
        let set_mask = |mode| {
            let _turn = MASK.lock().unwrap();
            umask(mode)
        };
        let before = set_mask(Mode::from_raw_mode(0o077));
        let listener = Listener::bind(&path, EVERYBODY);
        let made = Listener::bind(&directory.path().join("new/s"), EVERYBODY);
        assert_eq!(set_mask(before), Mode::from_raw_mode(0o077), "the mask is as it was");
        let (_listener, _made) = (listener.unwrap(), made.unwrap());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o666);
        assert_eq!(mode(&directory.path().join("s.lock")), 0o600);
        assert_eq!(mode(&directory.path().join("new")), 0o755);
        // A change by name would have been announced.
        let mut space = [MaybeUninit::uninit(); 4096];
        let announced = inotify::Reader::new(&watch, &mut space).next().map(drop);
        assert_eq!(announced.unwrap_err(), Errno::AGAIN);
    }

    #[test]
    fn one_service_a_socket_and_nothing_is_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/s.sock");
        let listener = Listener::bind(&path, EVERYBODY).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        let second = Listener::bind(&path, EVERYBODY).unwrap_err().to_string();
        assert_eq!(
            second,
            format!(
                "a service listens on {} already; stop it first, or give another --socket",
                path.display()
            )
        );
        let _client = UnixStream::connect(&path).unwrap();
        assert!(rustix::net::accept(&listener).is_ok());
        assert_eq!(rustix::net::accept(&listener).unwrap_err(), Errno::AGAIN);
        drop(listener);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn the_lock_of_a_service_that_cannot_end_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let lock_path = directory.path().join("s.lock");
        // A zombie, as is whoever waits in the kernel after it was killed.
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        let state = || is_dead(Some(dead.id()));
        while !state() {
            std::thread::yield_now();
        }
        let held = OpenOptions::new().write(true).create_new(true).open(&lock_path).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let note = |holder: String| {
            held.set_len(0).unwrap();
            held.write_all_at(holder.as_bytes(), 0).unwrap();
        };
        for holder in [String::new(), format!("{}\n", std::process::id())] {
            note(holder);
            assert!(matches!(Listener::bind(&path, EVERYBODY), Err(ListenError::InUse { .. })));
        }
        note(format!("{}\n", dead.id()));
        let listener = Listener::bind(&path, EVERYBODY).unwrap();
        assert!(matches!(Listener::bind(&path, EVERYBODY), Err(ListenError::InUse { .. })));
        dead.wait().unwrap();
        drop(listener);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn who_was_killed_and_cannot_end_is_known() {
        let status =
            |own: &str, shared: &str| format!("Name:\tx\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t0\n");
        let (none, kill, others) = ("0000000000000000", "0000000000000100", "0000000000004003");
        assert!(is_killed(&status(kill, none)) && is_killed(&status(none, kill)));
        assert!(!is_killed(&status(none, others)) && !is_killed(""));
        assert!(!is_dead(Some(std::process::id())));
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_another_file_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        fs::write(directory.path().join("s.lock"), "").unwrap();
        drop(Listener::bind(&path, EVERYBODY).unwrap());
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::bind(&path, EVERYBODY), Err(ListenError::NotASocket { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no lock is left");
        let long = directory.path().join("x".repeat(PATH_BYTES));
        assert!(matches!(Listener::bind(&long, EVERYBODY), Err(ListenError::TooLong { .. })));
    }
}
