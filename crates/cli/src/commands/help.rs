//! Help texts that name what can be chosen: from the tables in which the names are declared.

use foretell_policy::{PoolPolicy, Prefetch};

use crate::config::{ALLOCATIONS, ORDERS, prefetches};

fn names<T>(table: &[(&'static str, T)]) -> String {
    table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Of `--rule`.
pub(super) fn rule() -> String {
    let policies = PoolPolicy::names().collect::<Vec<_>>().join(", ");
    format!(
        "Keep files that match under a policy: 'GLOB=POLICY[,priority=N]', POLICY one of {policies}; repeatable, the first \
         that matches decides"
    )
}

/// Of `--prefetch` of a run.
pub(super) fn prefetch() -> String {
    format!(
        "How to prefetch: {} [default: {} with hints, none without]",
        names(&prefetches()),
        Prefetch::FOR_LISTS
    )
}

/// Of `--prefetch` of the service.
pub(super) fn prefetch_disclosed() -> String {
    format!("How to prefetch what is disclosed, as for 'foretell run' [default: {}]", Prefetch::FOR_LISTS)
}

/// Of `--order`.
pub(super) fn order() -> String {
    format!("Order of the fetches of a batch: {} [default: ascending]", names(ORDERS))
}

/// Of `--allocation`.
pub(super) fn allocation() -> String {
    format!("How blocks are shared between processes: {} [default: lru-sp]", names(ALLOCATIONS))
}
