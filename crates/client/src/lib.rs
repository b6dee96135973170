//! A program says how it wants to be cached, and what it will read next.
//!
//! ```no_run
//! use foretell_client::{Client, Policy};
//! use std::fs::File;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect();
//! let table = File::open("table")?;
//! // The table is scanned again and again, and is larger than the cache.
//! client.set_policy(0, Policy::Mru)?;
//! // These two parts come next, in this order.
//! client.disclose(&table, [1 << 20..2 << 20, 0..8192])?;
//! // The first block is not needed again.
//! client.done_with(&table, 0..8192)?;
//! # Ok(())
//! # }
//! ```
//!
//! The interface is that of application-controlled file caching (Cao, Felten, Li 1994, section 3; Cao et al.
//! 1996, section 4.1): priorities of files, policies of priority levels, temporary priorities of blocks, and
//! lists of what will be read; a program's blocks are its own to order, and how many it has is settled between
//! all programs by LRU-SP in the service, `foretelld`.
//!
//! **Nothing here can hurt the program.** No call waits for the service: what is said goes into memory that
//! the service reads when it likes. Without a service every call succeeds and does nothing (or what
//! [`Fallback`] says); a service that appears later is connected to, and one that was restarted is told again
//! what is still of use. What a call does report is a mistake of the caller: a descriptor that is none of a
//! file, a range that ends before it starts.
//!
//! **Threads and processes.** A [`Client`] may be used by all threads at once; it is one manager for all of
//! them. After `fork` the child has its own: it starts anew at its first call, with nothing set and nothing
//! disclosed. Until then it belongs to its parent's manager.

mod call;
mod client;
mod directives;
mod error;
mod fallback;
mod file_list;
mod files;
mod fork;
mod link;
mod options;
mod session;
mod slot;
mod stats;
mod undone;

pub use client::Client;
pub use error::Error;
pub use file_list::FileList;
pub use foretell_protocol::{Policy, Statistics};
pub use options::{Fallback, Options};
pub use stats::Stats;
