//! Rules, compiled, and what they leave to the rules of others.
//!
//! A file has one policy and one priority, whoever reads it: that of the rules that were there first. A later set of
//! rules *yields*: it does not match a file for which the first matching rule of an earlier set says something else.

use std::path::Path;
use std::sync::Arc;

use foretell_policy::PoolPolicy;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::RuleError;
use crate::options::Rule;

/// Rules of one manager: more make every new file slow to place.
pub(crate) const RULES: usize = 1024;

/// Rules in their order, ready to match.
#[derive(Debug)]
pub(crate) struct Compiled {
    rules: Vec<Rule>,
    globs: GlobSet,
}

impl Compiled {
    /// Compiles rules.
    ///
    /// # Errors
    /// When a pattern does not parse.
    pub(crate) fn new(rules: &[Rule]) -> Result<Compiled, RuleError> {
        let pattern = |glob: &str, error: &globset::Error| RuleError::Pattern {
            glob: glob.to_owned(),
            reason: error.kind().to_string(),
        };
        let mut builder = GlobSetBuilder::new();
        for rule in rules {
            let glob = GlobBuilder::new(&rule.glob).literal_separator(true).build();
            builder.add(glob.map_err(|error| pattern(&rule.glob, &error))?);
        }
        let globs = builder.build().map_err(|error| pattern(error.glob().unwrap_or_default(), &error))?;
        Ok(Compiled { rules: rules.to_vec(), globs })
    }

    /// The first rule that matches the path.
    fn find(&self, path: &Path) -> Option<&Rule> {
        // Matches come in ascending order of the patterns.
        self.globs.matches(path).first().map(|&at| &self.rules[at])
    }
}

/// The rules of one manager.
#[derive(Debug)]
pub(crate) struct RuleSet {
    own: Arc<Compiled>,
    /// Those that were there first.
    others: Vec<Arc<Compiled>>,
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
        for (at, rule) in rules.iter().enumerate() {
            let same_level = |other: &&Rule| other.priority == rule.priority && other.policy != rule.policy;
            if let Some(other) = rules[..at].iter().find(same_level) {
                return Err(RuleError::LevelPolicy {
                    first: other.glob.clone(),
                    second: rule.glob.clone(),
                    priority: rule.priority,
                });
            }
        }
        Ok(RuleSet { own: Arc::new(Compiled::new(rules)?), others: Vec::new() })
    }

    /// Leaves to `other` the files for which that says something else.
    pub(crate) fn yield_to(&mut self, other: Arc<Compiled>) {
        self.others.push(other);
    }

    /// The rules alone, for others to yield to.
    pub(crate) fn compiled(&self) -> Arc<Compiled> {
        Arc::clone(&self.own)
    }

    /// The rules themselves.
    pub(crate) fn own(&self) -> &[Rule] {
        &self.own.rules
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.own.rules.is_empty()
    }

    /// The first rule that matches the path, unless it yields.
    pub(crate) fn find(&self, path: &Path) -> Option<&Rule> {
        self.own.find(path).filter(|rule| !self.yields_for(path, rule))
    }

    /// Whether a rule matches the path and yields.
    pub(crate) fn yields(&self, path: &Path) -> bool {
        !self.others.is_empty() && self.own.find(path).is_some_and(|rule| self.yields_for(path, rule))
    }

    fn yields_for(&self, path: &Path, rule: &Rule) -> bool {
        let differs = |other: &Rule| (other.policy, other.priority) != (rule.policy, rule.priority);
        self.others.iter().any(|others| others.find(path).is_some_and(differs))
    }

    /// The levels that the rules name, with their policies.
    pub(crate) fn levels(&self) -> impl Iterator<Item = (i32, PoolPolicy)> + '_ {
        self.own.rules.iter().map(|rule| (rule.priority, rule.policy))
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
    fn later_rules_yield_where_earlier_ones_say_something_else() {
        let first = [rule("/data/same", PoolPolicy::Lru, 0), rule("/data/**", PoolPolicy::Mru, 1)];
        let mut later = RuleSet::new(&[rule("/**", PoolPolicy::Lru, 0)]).unwrap();
        assert!(later.find(Path::new("/data/a")).is_some() && !later.yields(Path::new("/data/a")));
        later.yield_to(RuleSet::new(&first).unwrap().compiled());
        for (path, found, yields) in
            [("/data/a", false, true), ("/data/same", true, false), ("/other", true, false)]
        {
            let path = Path::new(path);
            assert_eq!(
                (later.find(path).is_some(), later.yields(path)),
                (found, yields),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn rules_are_limited() {
        let rules = vec![rule("/a", PoolPolicy::Lru, 0); RULES + 1];
        assert!(matches!(RuleSet::new(&rules), Err(RuleError::TooMany { limit: 1024, .. })));
    }
}
