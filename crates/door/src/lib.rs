//! Strangers at a socket: letting them in, and closing what they send, without ever waiting for them.
//!
//! - [`Porter`]: the thread that lets in whoever connects, and turns away who may not.
//! - [`Reception`]: the same with a lobby behind it, where some of each user wait and users are served in turns.
//! - [`ByUser`]: jobs that may wait for whoever caused them, done by threads, one user's one at a time.
//! - [`Closer`]: such threads that close descriptors of others ([`ForeignFd`]).
//! - [`take_descriptors`]: sockets to which nobody can send descriptors.
//!
//! Nothing here knows what is said on a connection.

mod by_user;
mod closing;
mod lobby;
mod porter;
mod reception;
mod rights;

pub use by_user::{ByUser, Shape};
pub use closing::{Closer, ForeignFd};
pub use foretell_protocol::Credentials;
pub use lobby::Room;
pub use porter::{Descriptors, Keeping, NOBODY, Porter, Visitor};
pub use reception::Reception;
pub use rights::{take_descriptors, takes_descriptors};
