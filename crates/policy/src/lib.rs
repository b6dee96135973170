//! The policy of foretell: which blocks to keep, which to fetch ahead, in which order.
//!
//! A pure state machine: [`Engine::handle`] takes events in, [`Engine::poll_action`] gives actions out,
//! [`Engine::poll_timeout`] says when to call again. No I/O, no clock, no threads, no randomness and no
//! result that depends on hash order: the simulator and the live planes run the same code, and the same
//! events always give the same actions.
//!
//! ```text
//!  Accessed, Loaded, Gone, …  ──►  Engine  ──►  Fetch, Evict
//!      allocation   which manager gives up a block        (LRU-SP)
//!      control      which block that manager gives up     (priorities, pools, temporary priorities)
//!      disclosure   what it will reference, in order      (lists, cursor, next use)
//!      prefetch     what to fetch before it is referenced (one file an algorithm)
//!      order        in which order a batch is asked for
//! ```
//!
//! Sources: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching"
//! (OSDI 1994) and Cao, Felten, Karlin, Li, "Implementation and Performance of Integrated
//! Application-Controlled File Caching, Prefetching, and Disk Scheduling" (TOCS 1996).

mod allocation;
mod blocks;
mod config;
mod control;
mod counters;
mod disclosure;
mod engine;
mod event;
mod fetches;
mod ids;
mod layout;
mod optimal;
mod pool_policy;
mod prefetch;
mod recency;
mod replacement;
mod residency;
mod shadow;

pub use config::{Allocation, Config, Distrust, Limits, Order, Prefetch, Residency, Revocation};
pub use counters::{Counters, ManagerCounters};
pub use engine::Engine;
pub use event::{Access, Action, Event, LimitReached, Reason};
pub use ids::{Block, DiskId, FileId, ManagerId, Nanos, ProcessId};
pub use layout::{Extent, Layout};
pub use optimal::belady_fetches;
pub use pool_policy::{PoolPolicy, UnknownPoolPolicy};
pub use shadow::ShadowReport;
