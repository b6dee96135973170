//! The policy of foretell: which blocks to keep, which to fetch ahead, in which order.
//!
//! A pure state machine: [`Engine::tell`] takes inputs in, [`Engine::poll_action`] gives actions out,
//! [`Engine::poll_timeout`] says when to call again. No I/O, no clock, no threads, no randomness and no
//! result that depends on hash order: the simulator and the live planes run the same code, and the same
//! inputs always give the same actions.
//!
//! ```text
//!  Input  ──►  engine ──► books: blocks, frames, fetches, accounts
//!                │          placeholders  what overruling the allocation cost      (LRU-SP)
//!                │          control       which block a manager gives up           (priorities, pools)
//!                │          knowledge     what it will reference, in order         (lists, next use)
//!                └──────► planner         what to fetch before it is referenced    (one file an algorithm)
//!  Action ◄──  order        in which order a batch is asked for
//! ```
//!
//! Each part is a struct with private fields. The parts know nothing of each other; `books` says what an event does
//! to several of them, `engine` says when the planner is asked.
//!
//! Sources: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching"
//! (OSDI 1994) and Cao, Felten, Karlin, Li, "Implementation and Performance of Integrated
//! Application-Controlled File Caching, Prefetching, and Disk Scheduling" (TOCS 1996).

mod accounts;
mod action;
/// Alignment of live references to predicted ones.
pub mod alignment;
mod blocks;
mod books;
mod config;
mod control;
mod counterfactual;
mod counters;
mod engine;
mod fetches;
mod frames;
mod ghosts;
mod ids;
mod input;
mod knowledge;
mod layout;
mod optimal;
mod order;
mod placeholders;
mod planner;
mod pool_policy;
mod prefetch;
mod recency;
mod replacement;
mod shadow;

pub use action::{Access, Action, Reason};
pub use config::{Allocation, Beside, Config, DEFAULT_BLOCK_BYTES, Limits, Order, Residency, Revocation};
pub use counterfactual::Counterfactual;
pub use counters::{Counter, Counters, ManagerCounters};
pub use engine::{Engine, Tap};
pub use ids::{Block, DiskId, FileId, ManagerId, Nanos, ProcessId};
pub use input::{Answer, Input, LimitReached};
pub use knowledge::CACHES_AHEAD;
pub use layout::{Extent, Layout};
pub use optimal::belady_fetches;
pub use planner::KernelReadahead;
pub use pool_policy::{PoolPolicy, UnknownPoolPolicy};
pub use prefetch::{Prefetch, UnknownPrefetch};
pub use shadow::ShadowReport;
