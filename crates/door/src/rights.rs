//! Whether descriptors can be sent to a socket (`SO_PASSRIGHTS`, Linux 6.16).
//!
//! What is sent to a socket that takes none fails with `EPERM`, at whoever sends it. So a connection to a listening socket
//! that takes none holds bytes alone until it is let in, and closing it waits for nobody.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SO_PASSRIGHTS` of `include/uapi/asm-generic/socket.h`. What connects to a listening socket has it from that.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Says whether descriptors can be sent to a socket; on, until it is said.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.16.
pub fn take_descriptors(socket: BorrowedFd<'_>, take: bool) -> io::Result<()> {
    let value = libc::c_int::from(take);
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value has the `length` bytes that are read, and outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Could descriptors be sent to a socket when it was connected?
#[must_use]
pub fn takes_descriptors(socket: BorrowedFd<'_>) -> bool {
    let mut value: libc::c_int = 1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value has room for the `length` bytes that are written, and both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    // Before Linux 6.16 they always can.
    result != 0 || value != 0
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_connects_to_a_socket_that_takes_no_descriptors_can_send_none_until_it_is_let_in() {
        let test = "who_connects_to_a_socket_that_takes_no_descriptors_can_send_none_until_it_is_let_in";
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        if take_descriptors(listener.as_fd(), false).is_err() {
            println!("skipped: {test}: before Linux 6.16");
            return;
        }
        let client = UnixStream::connect(&path).unwrap();
        let send = || foretell_protocol::socket::send(client.as_fd(), b"x", &[client.as_fd()]).unwrap();
        assert_eq!(send(), 0, "not now");
        let (server, _) = listener.accept().unwrap();
        assert!(!takes_descriptors(server.as_fd()));
        assert_eq!(send(), 0);
        take_descriptors(server.as_fd(), true).unwrap();
        assert_eq!(send(), 1);
        take_descriptors(listener.as_fd(), true).unwrap();
        let _other = UnixStream::connect(&path).unwrap();
        assert!(takes_descriptors(listener.accept().unwrap().0.as_fd()));
    }
}
