//! What happened, counted: in all, by process and by file; and what a manager's decisions were worth.
//!
//! A counter is one line in a table here. What sums, compares, lists or names all of them (reports, metrics, `foretell top`,
//! criteria of `foretell replay`, the tests of what is written) goes by the table; what shows some of them names those.

/// One counter of a struct of them.
#[derive(Debug, Clone, Copy)]
pub struct Counter<T: 'static> {
    /// Its name: that of the field, and in JSON and metrics.
    pub name: &'static str,
    /// What it counts, in one line without a full stop.
    pub help: &'static str,
    /// Its value.
    pub of: fn(&T) -> u64,
}

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $help:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name {
            $(#[doc = concat!($help, ".")] pub $field: u64,)*
        }

        impl $name {
            /// All of them, in the order in which they are written.
            pub const TABLE: &'static [Counter<$name>] =
                &[$(Counter { name: stringify!($field), help: $help, of: |counters| counters.$field },)*];

            /// What was added since; `None` if one has become less, so that it is not the same thing's.
            #[must_use]
            pub fn since(self, before: $name) -> Option<$name> {
                Some($name { $($field: self.$field.checked_sub(before.$field)?,)* })
            }
        }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counters! {
    /// Counts of one process, one file, or everything. All in blocks.
    Counters {
        references: "Blocks read by programs",
        hits: "References that found their block cached",
        // In an advisory plane with the kernel's own readahead: everything that the kernel loaded on the process's behalf.
        demand_fetches: "Blocks fetched when a program asked for them",
        prefetches: "Blocks fetched before a program asked for them",
        prefetches_useful: "Prefetched blocks that were there when they were referenced",
        prefetches_late: "Prefetched blocks that were still on their way when they were referenced",
        prefetches_wasted: "Prefetched blocks that went before they were referenced",
        evictions: "Blocks dropped because the policy said so",
        evictions_refused: "Evictions that the kernel did not make",
        foreign_evictions: "Blocks dropped by the kernel without being asked",
    }
}

counters! {
    /// What a manager's decisions were worth.
    ManagerCounters {
        consulted: "Times the manager was asked for a replacement",
        overruled: "Times it chose another block than the candidate",
        placeholders_used: "Times a placeholder proved such a choice wrong",
        revocations: "Times its control was revoked",
        reinstatements: "Times its control was given back",
        predicted: "References that its disclosed list had predicted",
        unpredicted: "References that it had not",
        skipped: "Predictions that were passed over",
        lists_discarded: "Times a list of its was put aside for being wrong too often; it may come back",
    }
}

impl Counters {
    /// Blocks brought in, for whatever reason.
    #[must_use]
    pub fn fetches(&self) -> u64 {
        self.demand_fetches + self.prefetches
    }

    /// The same without what tells how much of the disclosed blocks was cached before.
    #[must_use]
    pub fn without_prefetches(self) -> Counters {
        let Counters { references, hits, demand_fetches, .. } = self;
        Counters { references, hits, demand_fetches, ..Counters::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_and_what_was_added_go_by_all_of_them() {
        let mut sum = Counters { references: 7, foreign_evictions: 1, ..Counters::default() };
        let more = Counters { references: 3, evictions: 2, ..Counters::default() };
        let before = sum;
        sum += more;
        assert_eq!(sum.since(before), Some(more));
        assert_eq!(before.since(sum), None);
        let values: Vec<u64> = Counters::TABLE.iter().map(|counter| (counter.of)(&sum)).collect();
        assert_eq!(values, [10, 0, 0, 0, 0, 0, 0, 2, 0, 1]);
    }
}
