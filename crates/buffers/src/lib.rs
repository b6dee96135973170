//! Plane: a pool of buffers of our own, in front of object stores.
//!
//! Where the page cache is not in the way, foretell can hold exactly what its policy says. A pool has a budget in bytes
//! and gives it out in *parts* of one size, which are the blocks of [`foretell_policy::Engine`]:
//!
//! ```text
//!  read_at, view ──► Accessed ──►  engine  ──► Fetch ──► queues ──► requests ──► a store
//!  disclose ──────► Disclosed ──►          ──► Evict ──► the part's memory is free
//!                     Loaded  ◄── a part is full ◄── bytes as they come
//! ```
//!
//! 1. A read whose parts are all there is answered without a lock, and leaves a note of it for the engine (the module
//!    `memory` says how). Any other references the parts that it touches, up to 32 MiB of them before it waits for the first.
//!    What is there is copied (or leased: [`Object::view`]) under no lock.
//! 2. What is not there is fetched: what somebody waits for goes first; what the engine fetches ahead, because a disclosed
//!    list names it or because an object is read in order, goes as far as there is room. Neighbouring parts become one
//!    request of 8 MiB at most. How many requests are worth having under way is measured.
//! 3. The bytes of a request go into parts as they come, and readers go on as soon as their part is full. They get it from
//!    what they wait on, so that a part may be replaced again before they run, and each read references a part once.
//! 4. An object is pinned when it is opened: every request names its ETag (or version, or date), and every answer is
//!    compared with it. One that has changed is [`Error::Changed`], never a mix. Local files have no more than their time
//!    of modification and length to tell: who writes one in place in the same instant is not found out.
//! 5. Retries are the store's library's, and end with the pool's time-out. A reader waits for no part longer than that, and
//!    gets the error of the request that it waited for; the part may be asked for again. What fails ahead of its use is
//!    told to nobody but the statistics.
//! 6. Where a store gives checksums, they are compared as bytes come: that of an answer when its last bytes are there, which
//!    nobody gets before, and that of a whole object when the last request for some of it is (the module `running`). Who has read
//!    what came before then gets an error where he reads on ([`Error::Damaged`]), and the pool has forgotten it. With
//!    [`Options::strict`] no byte of an answer is given before all of it is compared.
//!
//! Memory: parts in the cache or on their way never take more than the budget. On top of it come parts that were replaced
//! while a read was copying them (32 MiB a thread at most, or half of the budget if that is less) and leases, which are
//! no more than the budget themselves.
//!
//! Beside memory there may be a second tier in a file on a local disk ([`Options::disk_dir`]): parts that were read are
//! written there, and come from there when memory has not got them any more.
//!
//! A forked child has neither the threads nor the lock: each call there is [`Error::Forked`]. But a pool may be shared
//! ([`Pool::share`]): other processes of the same user, children or not, attach to it ([`Guest`]), so that all of them
//! together fetch as much as one. They read what is there where it is, and ask for the rest by a socket. Who dies leaves
//! nothing behind; when it is the one that has the pool, the others get an error. Programs that are no relatives find their
//! user's pool at a [`Door`] ([`Guest::of_service`]).

mod access;
mod aside;
mod begun;
mod checksum;
mod directive;
mod directives;
mod disk;
mod error;
mod faults;
mod first;
mod flow;
mod guest;
mod guests;
mod held;
mod host;
mod listed;
mod local;
mod memory;
mod object;
mod opening;
mod options;
mod part;
mod pool;
mod pump;
mod readers;
mod recorder;
mod request;
mod ring;
mod running;
mod service;
mod shared;
mod silent;
mod source;
mod state;
mod statistics;
mod store;
mod tier;
mod who;
mod wire;

pub use access::Access;
pub use checksum::Checksum;
pub use directive::Directive;
pub use error::{Error, SCHEMES};
pub use first::First;
pub use foretell_policy::PoolPolicy;
pub use guest::{Guest, Remote};
// Linked for what they decide about other crates: TLS without a library of its own, names of hosts without tables.
use idna_adapter as _;
pub use object_store::ObjectStore;
pub use options::Options;
pub use part::View;
pub use pool::{Object, Pool};
pub use service::{Door, MOST_USERS, SOCKET_VARIABLE, announce, usual_socket};
pub use source::{Answer, Begun, Entry, Fault, Sink, Source, Stamp};
pub use statistics::Statistics;
pub use store::Store;
#[doc(hidden)]
pub use wire::understand;
