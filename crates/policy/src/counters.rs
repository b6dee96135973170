//! What happened, counted in blocks: in all, by process and by file.

/// Counts of one process, one file, or everything. All in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// References to blocks.
    pub references: u64,
    /// References that found their block in the cache.
    pub hits: u64,
    /// Blocks fetched because a process read them (in an advisory plane with the kernel's own
    /// readahead: everything that the kernel loaded on the process's behalf).
    pub demand_fetches: u64,
    /// Blocks fetched ahead of their reference because the policy said so.
    pub prefetches: u64,
    /// Prefetched blocks that were referenced after they had arrived.
    pub prefetches_useful: u64,
    /// Prefetched blocks whose reference had to wait for the rest of the fetch.
    pub prefetches_late: u64,
    /// Prefetched blocks that left the cache without having been referenced.
    pub prefetches_wasted: u64,
    /// Evictions that the policy asked for.
    pub evictions: u64,
    /// Evictions that the plane could not do.
    pub evictions_refused: u64,
    /// Blocks that left the cache without our asking.
    pub foreign_evictions: u64,
}

/// What a manager's decisions were worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ManagerCounters {
    /// Times the manager was asked for a replacement.
    pub consulted: u64,
    /// Times it chose another block than the candidate.
    pub overruled: u64,
    /// Times a placeholder proved such a choice wrong.
    pub placeholders_used: u64,
    /// Times its control was revoked.
    pub revocations: u64,
    /// Times its control was given back.
    pub reinstatements: u64,
    /// References that its disclosed list had predicted.
    pub predicted: u64,
    /// References that it had not.
    pub unpredicted: u64,
    /// Predictions that were passed over.
    pub skipped: u64,
    /// Times a list of its was put aside for being wrong too often; it may come back.
    pub lists_discarded: u64,
}
