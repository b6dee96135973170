//! The names under which the policy's choices are known in flags and files.

use foretell_policy::{Allocation, Order, Prefetch};

/// The planners that a run can have.
pub fn prefetches() -> Vec<(&'static str, Prefetch)> {
    Prefetch::live().map(|planner| (planner.name(), planner)).collect()
}

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
pub(super) fn value_of<T: Copy>(table: &[(&'static str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// The name of `value`; empty for a value that has none.
pub(super) fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, known)| known == value).map_or("", |(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use foretell_policy::PoolPolicy;

    use super::*;

    /// The tables of names in `docs/` are written by hand.
    #[test]
    fn the_documentation_has_all_planners() {
        let configuration = include_str!("../../../../docs/configuration.md");
        let row = configuration.lines().find(|line| line.starts_with("| `prefetch` |")).unwrap();
        let simulator = include_str!("../../../../docs/simulator.md");
        for planner in Prefetch::ALL {
            assert_eq!(
                row.contains(&format!("`{planner}`,")) || row.contains(&format!("`{planner}` |")),
                planner.is_live(),
                "{planner}"
            );
            let is_simulated = simulator.lines().any(|line| line.starts_with(&format!("| `{planner}` |")));
            assert_eq!(is_simulated, *planner != Prefetch::None, "{planner}");
        }
        for policy in PoolPolicy::all() {
            assert!(simulator.contains(&format!("`demand-{policy}`")), "{policy}");
        }
    }
}
