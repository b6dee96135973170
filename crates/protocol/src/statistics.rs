//! What a client may know of how it fares.

/// A table of numbers: a struct, and how it lies on the wire, in the order of the table.
macro_rules! statistics {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[$about])* pub $field: u64,)*
        }

        /// Numbers in it.
        pub(crate) const WORDS: usize = [$(stringify!($field)),*].len();

        impl $name {
            /// The numbers in the order of the wire.
            #[must_use]
            pub(crate) fn to_words(self) -> [u64; WORDS] {
                [$(self.$field),*]
            }

            /// From the numbers in the order of the wire.
            #[must_use]
            pub(crate) fn from_words(words: [u64; WORDS]) -> $name {
                let [$($field),*] = words;
                $name { $($field),* }
            }
        }
    };
}

statistics! {
    /// Counts of one session's manager, all in blocks unless said otherwise. They only grow, except where said.
    ///
    /// The service keeps them up to date in the ring's header ([`crate::Consumer::publish`]), so that a client
    /// reads them without asking ([`crate::Producer::statistics`]).
    ///
    /// Both sides must have the same order: a new number goes to the end, with another version of the ring.
    Statistics {
        /// Entries of the ring that the service has taken, those that it refused included.
        entries_taken,
        /// Entries that it refused: a limit was reached, or the file is unknown.
        entries_refused,
        /// Blocks disclosed.
        disclosed,
        /// Disclosed blocks that are yet to be referenced, at present. May shrink.
        disclosed_ahead,
        /// Blocks in the cache that the manager owns, at present. May shrink.
        owned,
        /// References to blocks of files under control.
        references,
        /// References that found their block cached.
        hits,
        /// Blocks that were read because a process waited for them.
        demand_fetches,
        /// Blocks fetched ahead of their reference.
        prefetches,
        /// Prefetched blocks that were referenced after they had arrived.
        prefetches_useful,
        /// Prefetched blocks whose reference had to wait for the rest of the fetch.
        prefetches_late,
        /// Prefetched blocks that left the cache unreferenced.
        prefetches_wasted,
        /// Blocks dropped because the policy said so.
        evictions,
        /// Times that allocation asked the manager for a block to replace.
        consulted,
        /// Times that it chose another block than the proposed one.
        overruled,
        /// Times that a placeholder proved such a choice wrong.
        placeholders_used,
        /// 1 while the manager's right to overrule is revoked, else 0. May shrink.
        revoked,
    }
}
