//! The replacement policies that a pool can have: one table of names and numbers, from which the
//! command, the configuration, the wire, C, Python and the reports take theirs.

use std::fmt;
use std::str::FromStr;

/// Which block of a pool is replaced first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PoolPolicy {
    /// The least recently used one.
    #[default]
    Lru,
    /// The most recently used one: right for cyclic scans of more than fits. What a reader behind is about to reference goes
    /// last.
    Mru,
    /// What was referenced at most once passes through a small queue (S3-FIFO; Yang et al., SOSP 2023).
    S3Fifo,
    /// The oldest one that was not referenced since a hand last passed it (SIEVE; Zhang et al., NSDI 2024).
    Sieve,
    /// What the kernel would replace: the end of the inactive list (Linux 6.x, `mm/vmscan.c` and
    /// `mm/workingset.c`).
    Linux,
    /// The one whose last two references were further apart than those of the rest (LIRS; Jiang and Zhang,
    /// SIGMETRICS 2002): right for mixtures of scans and locality.
    Lirs,
    /// What the one of the others would replace that does best on a sample of the pool's references; looked
    /// at all the time.
    Adaptive,
}

/// What the table says of a policy.
struct Row {
    policy: PoolPolicy,
    /// In rules, configurations, Python and reports.
    name: &'static str,
    /// In the ring's entries and in C. Never used for another policy.
    number: u8,
}

const fn row(policy: PoolPolicy, name: &'static str, number: u8) -> Row {
    Row { policy, name, number }
}

/// Every policy, in the order in which they are declared: a new one is added there and here.
const TABLE: &[Row] = &[
    row(PoolPolicy::Lru, "lru", 0),
    row(PoolPolicy::Mru, "mru", 1),
    row(PoolPolicy::S3Fifo, "s3-fifo", 2),
    row(PoolPolicy::Sieve, "sieve", 3),
    row(PoolPolicy::Linux, "linux", 4),
    row(PoolPolicy::Lirs, "lirs", 5),
    row(PoolPolicy::Adaptive, "adaptive", 6),
];

/// The policies out of the table, for those who want a slice of them.
const ALL: [PoolPolicy; TABLE.len()] = {
    let mut all = [PoolPolicy::Lru; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        // A row at another place than its policy's would give it another one's name.
        assert!(TABLE[at].policy as usize == at);
        all[at] = TABLE[at].policy;
        at += 1;
    }
    all
};

impl PoolPolicy {
    /// All policies.
    #[must_use]
    pub const fn all() -> &'static [PoolPolicy] {
        &ALL
    }

    /// The names of all policies, in the same order.
    pub fn names() -> impl ExactSizeIterator<Item = &'static str> + Clone {
        TABLE.iter().map(|row| row.name)
    }

    /// Its name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TABLE[self as usize].name
    }

    /// Its number on the wire and in C.
    #[must_use]
    pub const fn number(self) -> u8 {
        TABLE[self as usize].number
    }

    /// The policy of that number, `None` if no policy has it.
    #[must_use]
    pub fn from_number(number: u8) -> Option<PoolPolicy> {
        TABLE.iter().find(|row| row.number == number).map(|row| row.policy)
    }
}

impl fmt::Display for PoolPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no policy of a pool has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownPoolPolicy {
    /// What was given.
    pub name: String,
}

impl fmt::Display for UnknownPoolPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown policy '{}'; known are ", self.name)?;
        for (at, name) in PoolPolicy::names().enumerate() {
            write!(f, "{}{name}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPoolPolicy {}

impl FromStr for PoolPolicy {
    type Err = UnknownPoolPolicy;

    /// Upper and lower case are the same.
    fn from_str(name: &str) -> Result<PoolPolicy, UnknownPoolPolicy> {
        let found = TABLE.iter().find(|row| row.name.eq_ignore_ascii_case(name));
        found.map(|row| row.policy).ok_or_else(|| UnknownPoolPolicy { name: name.to_owned() })
    }
}

/// As its name.
#[cfg(feature = "serde")]
impl serde::Serialize for PoolPolicy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for PoolPolicy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<PoolPolicy, D::Error> {
        struct Name;
        impl serde::de::Visitor<'_> for Name {
            type Value = PoolPolicy;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a policy")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<PoolPolicy, E> {
                name.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_read_back_and_are_unique() {
        for &policy in PoolPolicy::all() {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.name().to_ascii_uppercase().parse(), Ok(policy));
            assert_eq!(PoolPolicy::from_number(policy.number()), Some(policy));
        }
        let beyond = PoolPolicy::all().iter().map(|p| p.number()).max().map_or(0, |n| n + 1);
        assert_eq!(PoolPolicy::from_number(beyond), None);
        assert_eq!(PoolPolicy::from_number(u8::MAX), None);
    }

    #[test]
    fn what_is_unknown_is_told_all_names() {
        let says = "clock".parse::<PoolPolicy>().unwrap_err().to_string();
        assert!(says.starts_with("unknown policy 'clock'; known are lru, mru"), "{says}");
        assert!(PoolPolicy::names().all(|name| says.contains(name)), "{says}");
    }
}
