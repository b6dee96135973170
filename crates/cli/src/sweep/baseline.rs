//! What every result is compared with: plain Linux, LRU with its own readahead (a window of 128 KiB), on the
//! same array with the same cache.

use std::collections::BTreeMap;

use foretell_policy::Prefetch;
use foretell_sim::{Outcome, PolicyName};

/// Sets [`Outcome::vs_linux`] where Linux was run on the same array with the same cache.
pub fn compare(outcomes: &mut [Outcome]) {
    let linux: BTreeMap<(u16, u32), f64> = outcomes
        .iter()
        .filter(|o| o.policy == PolicyName::Planner(Prefetch::Linux) && o.elapsed_s > 0.0)
        .map(|o| ((o.disks, o.cache_blocks), o.elapsed_s))
        .collect();
    for o in outcomes {
        o.vs_linux = linux.get(&(o.disks, o.cache_blocks)).map(|linux_s| o.elapsed_s / linux_s);
    }
}

/// The ratio as it is shown: `0.63`.
#[must_use]
pub fn ratio(outcome: &Outcome) -> String {
    outcome.vs_linux.map_or(String::new(), |ratio| format!("{ratio:.2}"))
}
