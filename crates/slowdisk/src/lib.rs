//! A slow block device for tests and benchmarks.
//!
//! Fast disks hide what caching and prefetching are worth, and throttling by cgroup gives bursts instead
//! of latency. This crate makes a block device that is slow in a chosen way and exact about it:
//!
//! ```text
//!   ext4            mounted where you say
//!   /dev/loopN      direct I/O: not cached twice; mq-deadline before a short queue   (loopdev, queue)
//!   FUSE file       answers each request when the model says it is done              (server, model)
//!   memory          or a file
//! ```
//!
//! Two processes keep it: a *server*, which answers the FUSE requests, and a *guard*, which puts the parts
//! together and takes them apart. Each watches the other through a pipe, and the guard also watches the
//! process that started it, unless told to stay: whichever of them is killed, the others remove
//! everything. Only if all are killed at once does something stay behind, and the next [`up`], [`down`] or
//! [`cleanup_stale`] removes that, from the notes in `/run/foretell/slowdisk`.
//!
//! They are processes and not threads of the caller because a process that waits for its own FUSE server
//! in an uninterruptible sleep cannot be killed.
//!
//! # Use
//!
//! ```no_run
//! use foretell_slowdisk::{Helper, Options, Timing, up};
//!
//! # fn main() -> foretell_slowdisk::Result<()> {
//! // The program must call `helper_main` when it is started with these arguments.
//! let helper = Helper::current_exe(["slowdisk", "helper"])?;
//! let options = Options::new("disk", "/mnt/disk", 1 << 30, Timing::disk_8ms());
//! let disk = up(&options, &helper)?;
//! let before = disk.counters()?;
//! // ... read files under /mnt/disk ...
//! println!("{} blocks read", disk.counters()?.since(&before).read_bytes / 8192);
//! disk.down()?;
//! # Ok(())
//! # }
//! ```

mod counters;
mod error;
mod guard;
mod handle;
mod loopdev;
mod model;
mod mounts;
mod options;
mod queue;
mod realtime;
mod removal;
mod server;
mod state;

pub use counters::Counters;
pub use error::{Error, Result};
pub use guard::helper_main;
pub use handle::{Helper, Info, Slowdisk, cleanup_stale, counters, down, list, up};
pub use model::{Model, Service};
pub use options::{Backing, Options, Timing};
