//! What a client may know of how it fares.

/// Counts of one session's manager, all in blocks unless said otherwise. They only grow, except where said.
///
/// The service keeps them up to date in the ring's header ([`crate::Consumer::publish`]), so that a client
/// reads them without asking ([`crate::Producer::statistics`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Entries of the ring that the service has taken, those that it refused included.
    pub entries_taken: u64,
    /// Entries that it refused: a limit was reached, or the file is unknown.
    pub entries_refused: u64,
    /// Blocks disclosed.
    pub disclosed: u64,
    /// Disclosed blocks that are yet to be referenced, at present. May shrink.
    pub disclosed_ahead: u64,
    /// Blocks in the cache that the manager owns, at present. May shrink.
    pub owned: u64,
    /// References to blocks of files under control.
    pub references: u64,
    /// References that found their block cached.
    pub hits: u64,
    /// Blocks that were read because a process waited for them.
    pub demand_fetches: u64,
    /// Blocks fetched ahead of their reference.
    pub prefetches: u64,
    /// Prefetched blocks that were referenced after they had arrived.
    pub prefetches_useful: u64,
    /// Prefetched blocks whose reference had to wait for the rest of the fetch.
    pub prefetches_late: u64,
    /// Prefetched blocks that left the cache unreferenced.
    pub prefetches_wasted: u64,
    /// Blocks dropped because the policy said so.
    pub evictions: u64,
    /// Times that allocation asked the manager for a block to replace.
    pub consulted: u64,
    /// Times that it chose another block than the proposed one.
    pub overruled: u64,
    /// Times that a placeholder proved such a choice wrong.
    pub placeholders_used: u64,
    /// 1 while the manager's right to overrule is revoked, else 0. May shrink.
    pub revoked: u64,
}

/// Numbers in a [`Statistics`].
pub(crate) const WORDS: usize = 17;

impl Statistics {
    /// The numbers in the order of the wire.
    #[must_use]
    pub(crate) fn to_words(self) -> [u64; WORDS] {
        [
            self.entries_taken,
            self.entries_refused,
            self.disclosed,
            self.disclosed_ahead,
            self.owned,
            self.references,
            self.hits,
            self.demand_fetches,
            self.prefetches,
            self.prefetches_useful,
            self.prefetches_late,
            self.prefetches_wasted,
            self.evictions,
            self.consulted,
            self.overruled,
            self.placeholders_used,
            self.revoked,
        ]
    }

    /// From the numbers in the order of the wire.
    #[must_use]
    pub(crate) fn from_words(words: [u64; WORDS]) -> Statistics {
        let [
            entries_taken,
            entries_refused,
            disclosed,
            disclosed_ahead,
            owned,
            references,
            hits,
            demand_fetches,
            prefetches,
            prefetches_useful,
            prefetches_late,
            prefetches_wasted,
            evictions,
            consulted,
            overruled,
            placeholders_used,
            revoked,
        ] = words;
        Statistics {
            entries_taken,
            entries_refused,
            disclosed,
            disclosed_ahead,
            owned,
            references,
            hits,
            demand_fetches,
            prefetches,
            prefetches_useful,
            prefetches_late,
            prefetches_wasted,
            evictions,
            consulted,
            overruled,
            placeholders_used,
            revoked,
        }
    }
}
