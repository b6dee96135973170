//! What a plane tells the policy, and what the policy asks of the plane.

use crate::ids::{Block, DiskId, ManagerId, Nanos, ProcessId};

/// Something that happened. Fed to [`crate::Engine::handle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A process referenced a block. In an advisory plane it comes after the data was there.
    Accessed {
        /// Who.
        process: ProcessId,
        /// What.
        block: Block,
        /// The process had to wait for the data although it was on its way (advisory planes measure
        /// it; exact planes leave it `false`, the policy knows).
        stalled: bool,
    },
    /// The block is in the cache now: a fetch of ours completed, or the kernel loaded it by itself.
    Loaded {
        /// What.
        block: Block,
        /// The process whose read (or whose kernel readahead) loaded it; `None` when a fetch that the
        /// policy asked for completed, or when somebody outside our control loaded it.
        by: Option<ProcessId>,
    },
    /// A fetch that the policy asked for will not complete.
    FetchFailed {
        /// What.
        block: Block,
    },
    /// The block left the cache: the answer to [`Action::Evict`], or somebody else's doing.
    Gone {
        /// What.
        block: Block,
    },
    /// The block left the cache because the plane could not drop another one without it (a folio of
    /// several blocks): neither asked for nor foreign. Counted as an eviction.
    TakenAlong {
        /// What.
        block: Block,
    },
    /// An eviction that the policy asked for did not happen; the block is still cached.
    EvictRefused {
        /// What.
        block: Block,
    },
    /// The process ended. When a manager's last process ends, its blocks have no owner
    /// (unless the manager is persistent).
    ProcessExited {
        /// Who.
        process: ProcessId,
    },
    /// A disk took this long for one request, without queueing. Only forestall asks for it.
    Served {
        /// Which disk.
        disk: DiskId,
        /// The time of the access.
        access: Nanos,
    },
    /// A process computed this long between two references. Only forestall asks for it.
    Computed {
        /// Which process.
        process: ProcessId,
        /// The time between the references, without waiting for data.
        compute: Nanos,
    },
    /// The manager's disclosed list is withdrawn.
    Cancelled {
        /// Whose list.
        manager: ManagerId,
    },
}

/// How a reference found its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// In the cache.
    Hit,
    /// Already on its way: the process waits for the rest of the fetch.
    InFlight,
    /// Absent: a demand fetch.
    Miss,
}

/// Why a block is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A process waits for it.
    Demand,
    /// It is expected to be referenced.
    Prefetch,
}

/// Something that the plane should do. Drained from [`crate::Engine::poll_action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Bring the block in; answer with [`Event::Loaded`] or [`Event::FetchFailed`]. The fetches of one
    /// batch follow each other in the order in which they should be asked for.
    Fetch {
        /// What.
        block: Block,
        /// Why.
        reason: Reason,
        /// For whom: the manager whose list or whose process wants it.
        manager: ManagerId,
    },
    /// Drop the block; an advisory plane answers with [`Event::Gone`] or [`Event::EvictRefused`], an
    /// exact one need not answer.
    Evict {
        /// What.
        block: Block,
    },
    /// The manager's list was discarded: prefetches of its that have not started need not be done
    /// (answer with [`Event::FetchFailed`] for those dropped).
    CancelPrefetches {
        /// Whose.
        manager: ManagerId,
    },
}

/// A directive or an addition was refused because a limit of [`crate::Limits`] is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitReached {
    /// Which table is full, in words.
    pub what: &'static str,
    /// Its limit.
    pub limit: u32,
}

impl std::fmt::Display for LimitReached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no more than {} {}", self.limit, self.what)
    }
}

impl std::error::Error for LimitReached {}
