//! The policies by name, and what each means to the engine.

use std::fmt;
use std::str::FromStr;

use foretell_policy::{PoolPolicy, Prefetch};
use serde::Serialize;
use thiserror::Error;

/// A policy that can be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Optimal replacement (Belady), fetching on demand.
    DemandOpt,
    /// The least recently used block is replaced, fetching on demand.
    DemandLru,
    /// The most recently used block is replaced, fetching on demand.
    DemandMru,
    /// S3-FIFO replacement, fetching on demand.
    DemandS3Fifo,
    /// SIEVE replacement, fetching on demand.
    DemandSieve,
    /// The kernel's replacement, fetching on demand.
    DemandLinux,
    /// LIRS replacement, fetching on demand.
    DemandLirs,
    /// The replacement that does best on a sample of the references, fetching on demand.
    DemandAdaptive,
    /// LRU with one-block look-ahead.
    OneBlock,
    /// LRU with the doubling clusters of 4.4BSD.
    Bsd,
    /// LRU with Linux's readahead.
    Linux,
    /// Fixed horizon.
    FixedHorizon,
    /// Aggressive on several disks.
    Aggressive,
    /// Reverse aggressive, the offline yardstick.
    ReverseAggressive,
    /// Forestall.
    Forestall,
    /// Forestall for hints that may be partly wrong.
    Informed,
    /// Controlled-aggressive of ACFS: aggressive with one batch at a time and a margin of free blocks.
    ControlledAggressive,
}

/// A policy name that is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown policy '{name}'; the policies are {}", names())]
pub struct UnknownPolicy {
    /// What was asked for.
    pub name: String,
}

const ALL: [PolicyName; 17] = [
    PolicyName::DemandOpt,
    PolicyName::DemandLru,
    PolicyName::DemandMru,
    PolicyName::DemandS3Fifo,
    PolicyName::DemandSieve,
    PolicyName::DemandLinux,
    PolicyName::DemandLirs,
    PolicyName::DemandAdaptive,
    PolicyName::OneBlock,
    PolicyName::Bsd,
    PolicyName::Linux,
    PolicyName::FixedHorizon,
    PolicyName::Aggressive,
    PolicyName::ReverseAggressive,
    PolicyName::Forestall,
    PolicyName::Informed,
    PolicyName::ControlledAggressive,
];

fn names() -> String {
    ALL.map(PolicyName::name).join(", ")
}

impl PolicyName {
    /// All policies.
    #[must_use]
    pub fn all() -> &'static [PolicyName] {
        &ALL
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PolicyName::DemandOpt => "demand-opt",
            PolicyName::DemandLru => "demand-lru",
            PolicyName::DemandMru => "demand-mru",
            PolicyName::DemandS3Fifo => "demand-s3-fifo",
            PolicyName::DemandSieve => "demand-sieve",
            PolicyName::DemandLinux => "demand-linux",
            PolicyName::DemandLirs => "demand-lirs",
            PolicyName::DemandAdaptive => "demand-adaptive",
            PolicyName::OneBlock => "one-block",
            PolicyName::Bsd => "bsd",
            PolicyName::Linux => "linux",
            PolicyName::FixedHorizon => "fixed-horizon",
            PolicyName::Aggressive => "aggressive",
            PolicyName::ReverseAggressive => "reverse-aggressive",
            PolicyName::Forestall => "forestall",
            PolicyName::Informed => "informed",
            PolicyName::ControlledAggressive => "controlled-aggressive",
        }
    }

    /// Does it need the references to be disclosed?
    #[must_use]
    pub fn discloses(self) -> bool {
        matches!(self, PolicyName::DemandOpt) || self.prefetches_by_list()
    }

    /// Does it prefetch what was disclosed?
    #[must_use]
    pub fn prefetches_by_list(self) -> bool {
        matches!(
            self,
            PolicyName::FixedHorizon
                | PolicyName::Aggressive
                | PolicyName::ReverseAggressive
                | PolicyName::Forestall
                | PolicyName::Informed
                | PolicyName::ControlledAggressive
        )
    }

    /// Does its planner ask for compute and access times?
    #[must_use]
    pub fn wants_times(self) -> bool {
        self.prefetch().wants_times()
    }

    pub(crate) fn prefetch(self) -> Prefetch {
        match self {
            _ if self.fetches_on_demand() => Prefetch::None,
            PolicyName::OneBlock => Prefetch::OneBlock,
            PolicyName::Bsd => Prefetch::Bsd,
            PolicyName::Linux => Prefetch::Linux,
            PolicyName::FixedHorizon => Prefetch::FixedHorizon,
            PolicyName::Aggressive => Prefetch::Aggressive,
            PolicyName::ReverseAggressive => Prefetch::ReverseAggressive,
            PolicyName::Forestall => Prefetch::Forestall,
            PolicyName::Informed => Prefetch::Informed,
            // What is left prefetches by list.
            _ => Prefetch::ControlledAggressive,
        }
    }

    /// Does it only replace, and fetch on demand? Then its fetches can be counted without a device.
    #[must_use]
    pub fn fetches_on_demand(self) -> bool {
        self == PolicyName::DemandOpt || self.replacement().is_some()
    }

    /// The replacement of which it counts the demand fetches, `None` for one that prefetches or knows the
    /// future.
    #[must_use]
    pub fn replacement(self) -> Option<PoolPolicy> {
        self.name().strip_prefix("demand-")?.parse().ok()
    }

    /// The directive that it takes; LRU needs none.
    pub(crate) fn pool_policy(self) -> Option<PoolPolicy> {
        self.replacement().filter(|policy| *policy != PoolPolicy::default())
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<PolicyName, UnknownPolicy> {
        let found = ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replacement_can_be_simulated() {
        for policy in PoolPolicy::all() {
            let name: PolicyName = format!("demand-{policy}").parse().unwrap();
            assert_eq!((name.replacement(), name.fetches_on_demand()), (Some(*policy), true));
        }
        assert_eq!(PolicyName::DemandOpt.replacement(), None);
        assert_eq!(PolicyName::Linux.replacement(), None);
    }
}
