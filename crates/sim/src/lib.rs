//! The plane of simulated devices and simulated time: what would each policy do to a trace?
//!
//! ```text
//!  trace ──► Input ──► Machine: one processor, processes, D disks ──► Outcome
//!                        │  Accessed, Loaded  ▲
//!                        ▼                    │ Fetch, Evict
//!                      foretell_policy::Engine (the same code as in the live planes)
//! ```
//!
//! The plane is *exact*: what the engine says is cached is cached. With [`Advisory`] it is the kernel that holds the
//! blocks, as in the live plane, with its own readahead and its faults. Elapsed time is divided into compute
//! time of the processes, driver time (processor time of every fetch) and stall time, and the three add
//! up exactly.
//!
//! Source: Kimbrel et al., "A Trace-Driven Comparison of Algorithms for Parallel Prefetching and Caching"
//! (OSDI 1996), section 3.

// A trace's blocks are those of the policy.
const _: () = assert!(foretell_trace::DEFAULT_BLOCK_BYTES.get() == foretell_policy::DEFAULT_BLOCK_BYTES);

mod advised;
mod agenda;
mod cell;
mod control;
mod error;
mod hints;
mod input;
mod kernel;
mod machine;
mod outcome;
mod policy;
mod replacement;
pub mod reproduce;
mod reverse;
mod run;
mod sweep;

pub use cell::{Advisory, Batch, Cell, DRIVER_NS, LINUX_READAHEAD_BYTES, Reverse};
pub use control::Control;
pub use error::SimError;
pub use hints::Hints;
pub use input::{Input, InputReference, Optimum, Survey};
pub use kernel::Advised;
pub use outcome::Outcome;
pub use policy::{PolicyName, UnknownPolicy};
pub use replacement::{NO_DEVICE, replace_only, replace_only_streamed};
pub use run::{configure, simulate, simulate_streamed, simulate_tapped};
pub use sweep::in_parallel;
