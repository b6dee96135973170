//! The plane of the Linux page cache: unmodified programs under a caching and prefetching policy.
//!
//! ```text
//!  observe (eBPF)  ──►  steer: Observation → Event  ──►  foretell_policy::Engine
//!                                                              │ Fetch, Evict
//!  the page cache  ◄──  prefetch (readahead), evict (fadvise)  ◄──┘
//! ```
//!
//! The plane is *advisory*: the kernel may add and drop pages by itself, so what is cached is learnt
//! from observations and never assumed, and whatever is asked of the kernel may be refused, late or
//! undone without harm. When our side dies, the programs run on as on the plain kernel.

mod abandoning;
mod acting;
mod advice;
mod aside;
mod backlog;
mod casting;
mod check;
mod children;
mod clients;
#[cfg(test)]
mod conformance;
mod deletions;
mod descriptors;
mod disclosing;
mod disk;
mod disks;
pub mod doctor;
mod error;
mod eviction;
mod extents;
#[cfg(test)]
mod faults;
mod fetching;
mod file_at;
mod file_key;
mod files;
mod filesystems;
mod folios;
mod going_first;
mod guard;
mod handles;
pub mod hearing;
mod identity;
mod idle;
mod inherited;
pub mod keeper;
mod kernel;
pub mod lastly;
mod ledger;
mod left_out;
mod lifecycle;
mod listed_runs;
mod looking;
mod looks;
mod losses;
mod mailbox;
mod mapped;
mod mappings;
mod meter;
mod naming;
mod network;
pub mod observe;
mod opening;
mod options;
mod orphans;
mod own_mounts;
mod own_pages;
mod page_cache;
mod parts;
mod plane;
mod pressure;
pub mod proc_text;
mod put_off;
mod reach;
mod read_starts;
mod reading_ahead;
mod recorder;
mod report;
mod reporting;
mod resolve;
mod returning;
mod rules;
mod schedule;
mod session_id;
mod sessions;
mod shown;
mod status;
mod steering;
mod stopping;
mod streams;
mod survey;
mod takeover;
mod timers;
mod timing;
mod unfound;
pub mod watch;
mod workers;
mod yielding;

pub use backlog::Backlog;
pub use casting::Casting;
pub use children::{ChildrenUsage, children_usage, expect_children, realtime_signals, send_signal};
pub use clients::ByteRange;
pub use error::{
    Conflict, ControlError, DiscloseError, DiscloseProblem, HoldError, OpenError, RuleError, SessionError,
    StepError,
};
pub use file_at::open_regular;
pub use file_key::FileKey;
pub use going_first::{AsBefore, Spare, as_before, go_first};
pub use inherited::{blocked, hand_on, hand_on_all, librarys_ignored};
pub use left_out::LeftOut;
pub use meter::{Meter, blocks_read};
pub use naming::{HeldFile, Hold, Taking};
pub use observe::{Observation, ObserveError, Observer, ObserverConfig, ReadHook, fit_into};
pub use opening::Opening;
pub use options::{
    HintChunk, ManagerSpec, Options, QueueLimits, Rule, SessionSpec, default_batch, default_files,
    default_ring_bytes,
};
pub use own_mounts::{beside, let_go_at_once};
pub use own_pages::{give_memory_back, hold_program, unmap_program};
pub use parts::Rest;
pub use plane::{Disclosed, Plane};
pub use reach::Broker;
pub use reading_ahead::{beginning_on_disk, fetch_part, fetch_together};
pub use report::{FileReport, ProcessReport, REPORTED_FILES, REPORTED_PROCESSES, Report, readable_path};
pub use session_id::SessionId;
pub use status::{FileStatus, ManagerStatus, ProcessStatus, Scope, Status};
pub use survey::{Omitted, Survey};
pub use timers::leave_timers_to_the_job;
pub use timing::{CLASSES_US, Piece, ROUNDS, Timing, Work};

pub use foretell_policy::{Allocation, Counters, Order, PoolPolicy, Prefetch, Revocation};
