//! Sockets that hurt whoever closes them.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Two ends of a connection. Closing the first waits until the second is read or closed, or for ten minutes.
///
/// # Panics
/// When this machine has no loopback.
#[must_use]
pub fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket on the loopback");
    let address = listener.local_addr().expect("an address");
    let mut sender = TcpStream::connect(address).expect("a connection on the loopback");
    let (receiver, _) = listener.accept().expect("its other end");
    sender.set_nonblocking(true).expect("a socket that does not wait");
    while sender.write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&sender, Some(Duration::from_secs(600))).expect("a socket that lingers");
    (sender, receiver)
}
