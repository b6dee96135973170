//! The service: one page cache under one budget, shared by all programs that speak for themselves.
//!
//! ```text
//!  clients ── socket, ring ──►  connection: who is it, what does it say, may it
//!                                    │ directives, disclosures            ▲ errors, statistics
//!                                    ▼                                    │
//!                              foretell_pagecache::Plane  (one for all, LRU-SP between them)
//! ```
//!
//! One thread does everything: it waits in the plane's own loop, where all sockets hang on one epoll
//! descriptor, and between two rounds of it takes from each client a little of what it has to say, in turns.
//! Nothing that a client does makes it wait. A connection is a session; the sessions of one process share a
//! manager of the policy; a process that connects out of the tree of another session's gets a manager of its
//! own (see [`foretell_pagecache::Plane::add_client`]).
//!
//! A `foretell run` or `foretell learn` without a service has the same in its own process, for its own program and for those
//! that others join to it: a *private host* (`private.rs`), which its user and root find by its socket (`places.rs`).
//!
//! Authority comes from the kernel alone: from the credentials of the socket, with a pidfd so that a process
//! number which is used again means nobody, and from the descriptors that a client passes. `docs/service.md`
//! says how to run it, `docs/limits.md` what happens at each limit, `docs/protocol.md` what is said.

mod confine;
mod connection;
mod descriptors;
mod door;
mod entries;
mod limits;
mod listener;
pub mod metrics;
mod owners;
mod peer;
mod places;
mod private;
mod reception;
mod run;
mod service;
mod shares;
mod snapshot;
mod speaker;
mod stop;
mod subordinate;
mod telling;
mod turn;
mod unfinished;
mod watcher;

pub use confine::{ConfineError, Confinement, NEEDED as NEEDED_CAPABILITIES};
pub use foretell_pagecache::{
    Counters, FileStatus, ManagerStatus, Piece, ProcessStatus, ROUNDS, Status, Work,
};
pub use limits::Limits;
pub use listener::ListenError;
pub use places::{Place, Unlisted, be_known_as, own_places, place_of, places};
pub use run::{RULES_BYTES, RunHint, RunManager, RunRefused, RunReply, RunRequest, RunRule};
pub use service::{Configuration, Service, ServiceError};
pub use snapshot::{SessionStatus, Snapshot, StatusRequest};
pub use stop::Stop;
pub use watcher::Watcher;
