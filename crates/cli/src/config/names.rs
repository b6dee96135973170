//! The names under which the policy's choices are known in flags and files.

use foretell_policy::{Allocation, Order, Prefetch};

/// Prefetching algorithms. Those that imitate a kernel's own readahead, or need a schedule made offline,
/// are for the simulator only.
pub const PREFETCHES: &[(&str, Prefetch)] = &[
    ("none", Prefetch::None),
    ("one-block", Prefetch::OneBlock),
    ("controlled-aggressive", Prefetch::ControlledAggressive),
    ("fixed-horizon", Prefetch::FixedHorizon),
    ("aggressive", Prefetch::Aggressive),
    ("forestall", Prefetch::Forestall),
    ("informed", Prefetch::Informed),
];

/// Orders of the fetches of one batch.
pub const ORDERS: &[(&str, Order)] = &[("ascending", Order::Ascending), ("fcfs", Order::Fcfs)];

/// Allocation policies.
pub const ALLOCATIONS: &[(&str, Allocation)] = &[
    ("lru-sp", Allocation::LruSp),
    ("lru-s", Allocation::LruS),
    ("alloc-lru", Allocation::AllocLru),
    ("global-lru", Allocation::GlobalLru),
];

/// The value that `name` stands for.
pub fn value_of<T: Copy>(table: &[(&'static str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name of `value`; empty for a value that has none.
pub fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, known)| known == value).map_or("", |(name, _)| *name)
}
