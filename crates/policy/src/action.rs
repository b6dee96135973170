//! What the policy asks of the plane, and how a reference found its block.

use crate::ids::{Block, ManagerId};

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
    /// Bring the block in; answer with [`crate::Input::Loaded`] or [`crate::Input::FetchFailed`]. The fetches of one
    /// batch follow each other in the order in which they should be asked for.
    Fetch {
        /// What.
        block: Block,
        /// Why.
        reason: Reason,
        /// For whom: the manager whose list or whose process wants it.
        manager: ManagerId,
    },
    /// Drop the block; an advisory plane answers with [`crate::Input::Gone`] or [`crate::Input::EvictRefused`], an
    /// exact one need not answer.
    Evict {
        /// What.
        block: Block,
    },
    /// The manager's list was discarded: prefetches of its that have not started need not be done
    /// (answer with [`crate::Input::FetchFailed`] for those dropped).
    CancelPrefetches {
        /// Whose.
        manager: ManagerId,
    },
}
