//! Rules, compiled.

use std::path::Path;

use foretell_policy::PoolPolicy;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::RuleError;
use crate::options::Rule;

/// Rules of one manager: more make every new file slow to place.
pub(crate) const RULES: usize = 1024;

/// The rules of one manager, ready to match.
#[derive(Debug)]
pub(crate) struct RuleSet {
    rules: Vec<Rule>,
    globs: GlobSet,
}

impl RuleSet {
    /// Compiles rules.
    ///
    /// # Errors
    /// When a pattern does not parse, when two rules give one level two policies, or when there are more
    /// rules than [`RULES`].
    pub(crate) fn new(rules: &[Rule]) -> Result<RuleSet, RuleError> {
        if rules.len() > RULES {
            return Err(RuleError::TooMany { what: "rules of one manager", limit: RULES as u32 });
        }
        let mut builder = GlobSetBuilder::new();
        for (at, rule) in rules.iter().enumerate() {
            let pattern = |error: globset::Error| RuleError::Pattern {
                glob: rule.glob.clone(),
                reason: error.kind().to_string(),
            };
            builder.add(GlobBuilder::new(&rule.glob).literal_separator(true).build().map_err(pattern)?);
            let same_level = |other: &&Rule| other.priority == rule.priority && other.policy != rule.policy;
            if let Some(other) = rules[..at].iter().find(same_level) {
                return Err(RuleError::LevelPolicy {
                    first: other.glob.clone(),
                    second: rule.glob.clone(),
                    priority: rule.priority,
                });
            }
        }
        let globs = builder.build().map_err(|error| RuleError::Pattern {
            glob: error.glob().unwrap_or_default().to_owned(),
            reason: error.kind().to_string(),
        })?;
        Ok(RuleSet { rules: rules.to_vec(), globs })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The first rule that matches the path.
    pub(crate) fn find(&self, path: &Path) -> Option<&Rule> {
        // Matches come in ascending order of the patterns.
        self.globs.matches(path).first().map(|&at| &self.rules[at])
    }

    /// The levels that the rules name, with their policies.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (i32, PoolPolicy)> + '_ {
        self.rules.iter().map(|rule| (rule.priority, rule.policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(glob: &str, policy: PoolPolicy, priority: i32) -> Rule {
        Rule { glob: glob.to_owned(), policy, priority }
    }

    #[test]
    fn the_first_rule_that_matches_holds() {
        let rules = [rule("/data/*.idx", PoolPolicy::Lru, 1), rule("/data/**", PoolPolicy::Mru, 0)];
        let set = RuleSet::new(&rules).unwrap();
        let priority = |path: &str| set.find(Path::new(path)).map(|rule| rule.priority);
        assert_eq!(priority("/data/a.idx"), Some(1));
        assert_eq!(priority("/data/deep/a.idx"), Some(0), "`*` does not match `/`");
        assert_eq!(priority("/other"), None);
    }

    #[test]
    fn one_level_has_one_policy() {
        let rules = [rule("/a", PoolPolicy::Lru, 0), rule("/b", PoolPolicy::Mru, 0)];
        let error = RuleSet::new(&rules).unwrap_err().to_string();
        assert_eq!(
            error,
            "rules '/a' and '/b' give priority level 0 two policies; give one of them another priority"
        );
    }

    #[test]
    fn a_pattern_that_does_not_parse_is_named() {
        let error = RuleSet::new(&[rule("/a/[", PoolPolicy::Lru, 0)]).unwrap_err().to_string();
        assert!(error.starts_with("pattern '/a/[': "), "{error}");
    }

    #[test]
    fn rules_are_limited() {
        let rules = vec![rule("/a", PoolPolicy::Lru, 0); RULES + 1];
        assert!(matches!(RuleSet::new(&rules), Err(RuleError::TooMany { limit: 1024, .. })));
    }
}
