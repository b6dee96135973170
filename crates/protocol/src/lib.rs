//! What the service and its clients say to each other.
//!
//! Two channels lead from a program to the service. The *socket* (Unix, stream) carries what happens
//! rarely: a greeting, the descriptor of each file, errors back. The *ring*, a piece of memory that both
//! have mapped, carries what happens often: directives and disclosures, 32 bytes each, without a system
//! call. `docs/protocol.md` gives the format byte by byte and says what every message means.
//!
//! - [`frame`]: a stream of bytes and descriptors, cut into frames.
//! - [`message`]: what a frame says: [`Request`] to the service, [`Reply`] from it.
//! - [`ring`]: the [`Producer`] (a client's half) and the [`Consumer`] (the service's half).
//! - [`socket`]: sending and receiving with descriptors, never waiting.
//! - [`limits`]: how much of everything.
//!
//! This crate trusts nobody. Whatever arrives, on the socket or in the ring, is either a message that is
//! valid to its last bit or a typed error; no length, index or position that came from outside is used
//! before it was checked; and what is allocated is bounded before it is.
//!
//! There is no clock, no thread and no policy in here, and nothing ever waits.

mod bucket;
mod code;
mod credentials;
pub mod frame;
pub mod limits;
pub mod message;
pub mod ring;
pub mod socket;
mod statistics;

pub use bucket::Bucket;
pub use code::ErrorCode;
pub use credentials::{Credentials, credentials};
pub use frame::{Frame, FrameError, Outbox, Reader};
pub use message::{Handle, MessageError, Part, Parts, Reply, Request, Welcome};
pub use ring::{Consumer, Entry, EntryError, Policy, Producer, Range, RingError};
pub use statistics::Statistics;

/// What both sides speak. The service refuses another one with [`ErrorCode::Version`].
pub const PROTOCOL: u32 = 2;

/// The environment variable that names the service's socket.
pub const SOCKET_VARIABLE: &str = "FORETELL_SOCKET";

/// Where the service listens unless [`SOCKET_VARIABLE`] says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/foretell/foretelld.sock";
