//! Sending and receiving with descriptors, never waiting.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::credentials::credentials;
use crate::limits::{DESCRIPTORS, DESCRIPTORS_OF_KERNEL};

/// Where the service listens: what the environment says, or [`crate::DEFAULT_SOCKET`].
#[must_use]
pub fn path() -> PathBuf {
    let named = std::env::var_os(crate::SOCKET_VARIABLE).filter(|value| !value.is_empty());
    named.map_or_else(|| PathBuf::from(crate::DEFAULT_SOCKET), PathBuf::from)
}

/// Connects to the service without waiting, and looks whose it is before anything is said: what a client sends
/// are open files of its.
///
/// The service must be root's or our own user's (`SO_PEERCRED`, unix(7): whoever began to listen). At
/// [`crate::DEFAULT_SOCKET`] it may also be of the user that its directory belongs to: that directory lies in
/// one of root's, and systemd makes it for a service with a user of its own.
///
/// # Errors
/// When nobody listens there, when as many clients wait to be let in as may
/// ([`io::ErrorKind::WouldBlock`]), or when it is somebody else who listens
/// ([`io::ErrorKind::PermissionDenied`]).
pub fn connect(to: &Path) -> io::Result<OwnedFd> {
    let socket = connect_to_anybody(to)?;
    let server = credentials(socket.as_fd())?.user;
    if server == 0 || server == rustix::process::geteuid().as_raw() || is_usual_owner(to, server) {
        return Ok(socket);
    }
    let whose = format!("user {server} listens there, neither root nor this user");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, whose))
}

/// Connects to a process of a user without waiting, and looks that it is this one which began to listen there
/// (`SO_PEERCRED`) before anything is said.
///
/// # Errors
/// As [`connect`]; [`io::ErrorKind::PermissionDenied`] when another process listens there, or one of another user.
pub fn connect_to_process(to: &Path, is_meant: impl FnOnce(u32) -> bool, user: u32) -> io::Result<OwnedFd> {
    let socket = connect_to_anybody(to)?;
    let server = credentials(socket.as_fd())?;
    if server.user == user && is_meant(server.pid) {
        return Ok(socket);
    }
    let whose = format!("process {} of user {} listens there", server.pid, server.user);
    Err(io::Error::new(io::ErrorKind::PermissionDenied, whose))
}

/// Never waits: a server that lets nobody in refuses at once.
fn connect_to_anybody(to: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(to)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Is this the usual place, and the user the owner of its directory?
fn is_usual_owner(socket: &Path, user: u32) -> bool {
    let directory = Path::new(crate::DEFAULT_SOCKET).parent();
    let owner = directory.and_then(|directory| std::fs::symlink_metadata(directory).ok());
    socket == Path::new(crate::DEFAULT_SOCKET)
        && owner.is_some_and(|owner| owner.is_dir() && owner.uid() == user)
}

/// Sends once, without waiting and without a signal when the other side has closed. The descriptors go with
/// the first byte. Returns the number of bytes sent: 0 when there is no room for any at present.
///
/// # Errors
/// The connection is over, or one of the descriptors is none.
pub fn send(to: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags) {
            Ok(sent) => return Ok(sent),
            Err(Errno::INTR) => {}
            // The last one: more descriptors of this user are on their way than may be (unix(7)).
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS) => return Ok(0),
            // The other side takes no descriptors at present (`SO_PASSRIGHTS`, Linux 6.16): a service that is being
            // attacked takes them from those alone whom it has let in.
            Err(Errno::PERM) if !descriptors.is_empty() => return Ok(0),
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a [`receive`] found.
#[derive(Debug)]
pub enum Received {
    /// Nothing at present.
    Nothing,
    /// The other side has closed.
    Closed,
    /// Something.
    Some {
        /// Bytes received.
        length: usize,
        /// Descriptors received; closed on `exec`.
        descriptors: Vec<OwnedFd>,
        /// There were more descriptors than may come at a time ([`DESCRIPTORS`]).
        cut: bool,
    },
}

/// Receives once, without waiting.
///
/// # Errors
/// The connection is over.
pub fn receive(from: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<Received> {
    // Room for all that may come. What found none the kernel would close before it returns, and that may wait for
    // whoever sent it.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_OF_KERNEL))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let message = loop {
        match rustix::net::recvmsg(from, &mut [IoSliceMut::new(to)], &mut control, flags) {
            Ok(message) => break message,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Received::Nothing),
            Err(error) => return Err(error.into()),
        }
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if message.bytes == 0 && descriptors.is_empty() {
        return Ok(Received::Closed);
    }
    let cut = message.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > DESCRIPTORS;
    Ok(Received::Some { length: message.bytes, descriptors, cut })
}
