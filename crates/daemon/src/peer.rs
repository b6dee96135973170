//! Who is at the other end of a socket.
//!
//! The kernel notes the credentials of whoever connects (`SO_PEERCRED`, socket(7)) and, since Linux 6.5, a
//! pidfd (`SO_PEERPIDFD`), which stands for the very process: its number may be given to another one after
//! its end, the pidfd never is.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use foretell_protocol::credentials;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// `SO_PEERPIDFD` of `include/uapi/asm-generic/socket.h`; not in every libc.
const SO_PEERPIDFD: libc::c_int = 77;

/// The process that connected.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Whose limits count ([`crate::subordinate`]): the user, unless its number is lent to another one.
    pub(crate) account: u32,
    /// Readable when the process has ended.
    pub(crate) pidfd: OwnedFd,
}

impl Peer {
    /// Asks the kernel.
    ///
    /// # Errors
    /// When the process has ended, or lives where its number means nothing here.
    pub(crate) fn of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        let credentials = credentials(socket)?;
        let Some(number) = Pid::from_raw(credentials.pid.cast_signed()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let pidfd = match peer_pidfd(socket) {
            // Before Linux 6.5. Whoever connects and ends before this line leaves its number to another one;
            // that one cannot be told apart, and gets no more than a session that nobody speaks for.
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                pidfd_open(number, PidfdFlags::empty())?
            }
            other => other?,
        };
        let (user, group) = (credentials.user, credentials.group);
        let peer = Peer { pid: pid_of(pidfd.as_fd())?, user, group, account: user, pidfd };
        if peer.pid != credentials.pid {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(peer)
    }

    /// Has the process not ended yet?
    pub(crate) fn is_alive(&self) -> bool {
        is_alive(self.pidfd.as_fd())
    }
}

/// Has the process behind a pidfd not ended yet?
pub(crate) fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)) == Ok(0)
}

/// An option of a socket that is one number (getsockopt(2)).
fn option(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value has room for the `length` bytes that are written, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let descriptor = option(socket, SO_PEERPIDFD)?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The number of the process behind a pidfd (proc_pid_fdinfo(5), `Pid`).
///
/// # Errors
/// When it has ended, or has no number here, or the descriptor is none of a process.
pub(crate) fn pid_of(pidfd: BorrowedFd<'_>) -> io::Result<u32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    let pid = line.and_then(|pid| pid.trim().parse::<u32>().ok()).filter(|pid| *pid > 0);
    pid.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The parent of a process (proc_pid_stat(5): the fourth field, after the name in brackets).
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    std::str::from_utf8(&stat[behind..]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn who_connects_is_known_and_its_end_is_seen() {
        let (here, there) = UnixStream::pair().unwrap();
        let peer = Peer::of(here.as_fd()).unwrap();
        assert_eq!((peer.pid, peer.user), (std::process::id(), rustix::process::getuid().as_raw()));
        assert!(peer.is_alive());
        drop(there);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        assert!(!is_alive(pidfd.as_fd()));
        assert!(pid_of(pidfd.as_fd()).is_err(), "its number means nobody");
        assert!(pid_of(here.as_fd()).is_err(), "no pidfd");
    }
}
