//! The policies by name, and what each means to the engine. The names are those of the tables of planners
//! ([`Prefetch`]) and of pools' policies ([`PoolPolicy`]).

use std::fmt;
use std::str::FromStr;

use foretell_policy::{PoolPolicy, Prefetch};
use serde::{Serialize, Serializer};
use thiserror::Error;

/// What stands before the names of those that fetch on demand.
const DEMAND: &str = "demand-";

/// A policy that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// Optimal replacement (Belady), fetching on demand: `demand-opt`.
    Optimal,
    /// A pool's policy, fetching on demand: `demand-` and its name.
    Demand(PoolPolicy),
    /// LRU, and a planner that fetches ahead: by its name.
    Planner(Prefetch),
}

/// A policy name that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown policy '{name}'; the policies are {}", names())]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
}

fn names() -> String {
    PolicyName::all().map(|policy| policy.to_string()).collect::<Vec<_>>().join(", ")
}

impl PolicyName {
    /// All policies.
    pub fn all() -> impl Iterator<Item = PolicyName> + Clone {
        let demand = PoolPolicy::all().iter().map(|&policy| PolicyName::Demand(policy));
        let planners = Prefetch::ALL.iter().filter(|&&planner| planner != Prefetch::None);
        [PolicyName::Optimal]
            .into_iter()
            .chain(demand)
            .chain(planners.map(|&planner| PolicyName::Planner(planner)))
    }

    /// Does it need the references to be disclosed?
    #[must_use]
    pub fn discloses(self) -> bool {
        self == PolicyName::Optimal || self.prefetch().needs_lists()
    }

    /// Does its planner ask for compute and access times?
    #[must_use]
    pub fn wants_times(self) -> bool {
        self.prefetch().wants_times()
    }

    pub(crate) fn prefetch(self) -> Prefetch {
        match self {
            PolicyName::Planner(planner) => planner,
            PolicyName::Optimal | PolicyName::Demand(_) => Prefetch::None,
        }
    }

    /// Does it only replace, and fetch on demand? Then its fetches can be counted without a device.
    #[must_use]
    pub fn fetches_on_demand(self) -> bool {
        self.prefetch() == Prefetch::None
    }

    /// The directive that it takes; LRU needs none.
    pub(crate) fn pool_policy(self) -> Option<PoolPolicy> {
        match self {
            PolicyName::Demand(policy) => Some(policy).filter(|&policy| policy != PoolPolicy::default()),
            PolicyName::Optimal | PolicyName::Planner(_) => None,
        }
    }
}

/// Without a planner it is LRU, fetching on demand.
impl From<Prefetch> for PolicyName {
    fn from(planner: Prefetch) -> PolicyName {
        match planner {
            Prefetch::None => PolicyName::Demand(PoolPolicy::default()),
            planner => PolicyName::Planner(planner),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyName::Optimal => f.pad("demand-opt"),
            PolicyName::Demand(policy) => f.pad(&format!("{DEMAND}{policy}")),
            PolicyName::Planner(planner) => planner.fmt(f),
        }
    }
}

/// As its name.
impl Serialize for PolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<PolicyName, UnknownPolicy> {
        let found = PolicyName::all().find(|policy| policy.to_string() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_is_unique() {
        let names: std::collections::BTreeSet<String> = PolicyName::all().map(|p| p.to_string()).collect();
        assert_eq!(names.len(), PolicyName::all().count());
        for policy in PolicyName::all() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let says = "none".parse::<PolicyName>().unwrap_err().to_string();
        assert!(says.contains("demand-opt, demand-lru, ") && says.contains(", one-block, "), "{says}");
    }

    #[test]
    fn every_replacement_and_every_planner_can_be_simulated() {
        for policy in PoolPolicy::all() {
            let name: PolicyName = format!("demand-{policy}").parse().unwrap();
            assert_eq!((name, name.fetches_on_demand()), (PolicyName::Demand(*policy), true));
        }
        for planner in Prefetch::ALL.iter().filter(|&&planner| planner != Prefetch::None) {
            assert_eq!(planner.name().parse(), Ok(PolicyName::from(*planner)));
        }
    }

    #[test]
    fn what_needs_the_future_says_so() {
        let needing = PolicyName::all().filter(|policy| policy.discloses()).map(|policy| policy.to_string());
        assert_eq!(
            needing.collect::<Vec<_>>(),
            [
                "demand-opt",
                "controlled-aggressive",
                "fixed-horizon",
                "aggressive",
                "forestall",
                "informed",
                "reverse-aggressive"
            ]
        );
    }
}
