//! Who is at the other end of a socket, as the kernel says it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whoever connected, or began to listen (`SO_PEERCRED`, unix(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// The process's number; 0 when it has none here, as its pid namespace is none of those below ours: from within a
    /// container whoever is outside.
    pub pid: u32,
    /// Its user.
    pub user: u32,
    /// Its group.
    pub group: u32,
}

/// Asks the kernel. (rustix's `socket_peercred` has no room for a process without a number.)
///
/// # Errors
/// It is no connected Unix socket.
pub fn credentials(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let mut told = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure has room for the `length` bytes that are written, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut told).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Credentials { pid: told.pid.cast_unsigned(), user: told.uid, group: told.gid })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn both_ends_of_a_pair_are_ours() {
        let (one, _other) = UnixStream::pair().unwrap();
        let told = credentials(one.as_fd()).unwrap();
        assert_eq!((told.pid, told.user), (std::process::id(), rustix::process::geteuid().as_raw()));
    }
}
