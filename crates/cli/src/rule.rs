//! Rules: which files are under control, under which policy, at which priority.
//!
//! Written `GLOB=POLICY[,priority=N]`. The policy is a property of a priority level, not of a file (Cao,
//! Felten, Li 1994, section 3: `set_policy(prio, policy)`), so all rules of one process that share a
//! priority must name the same policy; [`check`] refuses others. The first rule that matches a file
//! decides.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use foretell_nearest::suggestion;
use foretell_policy::PoolPolicy;
use globset::GlobBuilder;

/// The most rules of one process. Each file that is opened is tried against all of them.
pub const MAX_RULES: usize = 1024;

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which files: `*` and `?` stay within a directory, `**` crosses directories, `{a,b}` and `[a-z]`.
    pub glob: String,
    /// Which block of the priority level is replaced first.
    pub policy: PoolPolicy,
    /// The priority of the files; blocks of lower priorities are replaced first. 0 by default.
    pub priority: i32,
}

/// Why a rule was refused. The message names the rule and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No `=`, or nothing on one side of it.
    #[error("rule '{0}' is not GLOB=POLICY[,priority=N]; write for example '/data/**=mru'")]
    Syntax(String),
    /// The policy has no known name.
    #[error("rule '{rule}': unknown policy '{policy}'{}", suggestion(.policy, PoolPolicy::names()))]
    UnknownPolicy {
        /// The whole rule.
        rule: String,
        /// The name that is not known.
        policy: String,
    },
    /// An option after the policy that is not `priority=N`.
    #[error("rule '{rule}': '{option}' is not an option; only ',priority=N' may follow the policy")]
    UnknownOption {
        /// The whole rule.
        rule: String,
        /// The text after the comma.
        option: String,
    },
    /// The priority is no whole number of 32 bits.
    #[error("rule '{rule}': '{priority}' is not a priority; write a whole number such as -1, 0 or 2")]
    Priority {
        /// The whole rule.
        rule: String,
        /// What stands after `priority=`.
        priority: String,
    },
    /// The glob does not parse.
    #[error("rule '{rule}': bad pattern ({why}); correct it, or escape special characters with '\\'")]
    Glob {
        /// The whole rule.
        rule: String,
        /// What is wrong with it.
        why: String,
    },
    /// Two rules of one process give one priority level two policies.
    #[error(
        "rules '{first}' and '{second}' give priority {priority} two policies; \
         a priority has one policy: give one of them another, as in '{second},priority={}'",
        priority.saturating_add(1)
    )]
    TwoPolicies {
        /// The earlier rule.
        first: String,
        /// The later rule.
        second: String,
        /// Their priority.
        priority: i32,
    },
    /// More than [`MAX_RULES`].
    #[error("{0} rules for one process; use at most {MAX_RULES}, with wider patterns")]
    TooMany(usize),
}

impl Rule {
    /// Reads `GLOB=POLICY[,priority=N]`. The last `=` before the options divides, so globs may contain `=`.
    pub fn parse(text: &str) -> Result<Rule, RuleError> {
        let syntax = || RuleError::Syntax(text.to_owned());
        // A priority also contains '=': cut the options off first. A comma may be part of the glob
        // ('{a,b}'), so only what follows the policy counts.
        let (body, priority) = match text.rfind(",priority=") {
            Some(at) => (&text[..at], Some(&text[at + ",priority=".len()..])),
            None => (text, None),
        };
        let (glob, policy) = body.rsplit_once('=').ok_or_else(syntax)?;
        if glob.is_empty() || policy.is_empty() {
            return Err(syntax());
        }
        if let Some(option) = unknown_option(body) {
            return Err(RuleError::UnknownOption { rule: text.to_owned(), option: option.to_owned() });
        }
        let priority = match priority {
            None => 0,
            Some(n) => n
                .trim()
                .parse()
                .map_err(|_| RuleError::Priority { rule: text.to_owned(), priority: n.to_owned() })?,
        };
        Rule::new(glob, policy, priority)
    }

    /// A rule from its parts, as a table of the configuration file gives them.
    pub fn new(glob: &str, policy: &str, priority: i32) -> Result<Rule, RuleError> {
        let written = || write(glob, policy, priority);
        let policy: PoolPolicy = policy
            .trim()
            .parse()
            .map_err(|_| RuleError::UnknownPolicy { rule: written(), policy: policy.trim().to_owned() })?;
        if glob.is_empty() {
            return Err(RuleError::Syntax(written()));
        }
        if let Err(e) = GlobBuilder::new(glob).literal_separator(true).build() {
            return Err(RuleError::Glob { rule: written(), why: e.kind().to_string() });
        }
        // Rules are printed, and sent to other runs, as text that must read back.
        if unknown_option(glob).is_some() {
            let why = format!("'={policy},' and the like end a pattern; write the sign as '[=]'");
            return Err(RuleError::Glob { rule: written(), why });
        }
        Ok(Rule { glob: glob.to_owned(), policy, priority })
    }

    /// The rule with an absolute glob: a relative one is taken from `base`, and links in the part before
    /// the first special character are followed, because the kernel knows files by their real paths.
    #[must_use]
    pub fn absolute(mut self, base: &Path) -> Rule {
        let start = if self.glob.starts_with('/') { Path::new("/") } else { base };
        let glob: PathBuf = Path::new(&self.glob).components().collect();
        let joined = start.join(without_escape_at_end(&glob.to_string_lossy()));
        let mut literal = PathBuf::new();
        let mut rest = PathBuf::new();
        for component in joined.components() {
            let special = component.as_os_str().to_string_lossy().contains(['*', '?', '[', '{', '\\']);
            match component {
                Component::CurDir => {}
                Component::ParentDir if rest.as_os_str().is_empty() => literal.push(".."),
                _ if special || !rest.as_os_str().is_empty() => rest.push(component),
                _ => literal.push(component),
            }
        }
        let literal = canonical_prefix(&literal);
        let mut escaped = globset::escape(&literal.to_string_lossy());
        if unknown_option(&escaped).is_some() {
            escaped = escaped.replace('=', "[=]");
        }
        self.glob = match rest.as_os_str().is_empty() {
            true => escaped,
            false => format!("{}/{}", escaped.trim_end_matches('/'), rest.to_string_lossy()),
        };
        self
    }

    /// The directory that holds all files the rule can match: its absolute glob up to the first special
    /// character. For a glob without one, the file itself.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        let mut root = PathBuf::new();
        for component in Path::new(&self.glob).components() {
            let text = component.as_os_str().to_string_lossy();
            // `escape` writes a literal special character as a class of one, `[*]`.
            match unescape(&text) {
                Some(literal) => root.push(literal),
                None => break,
            }
        }
        root
    }
}

impl From<&Rule> for foretelld::RunRule {
    fn from(rule: &Rule) -> foretelld::RunRule {
        foretelld::RunRule { glob: rule.glob.clone(), policy: rule.policy, priority: rule.priority }
    }
}

impl TryFrom<foretelld::RunRule> for Rule {
    type Error = RuleError;

    fn try_from(rule: foretelld::RunRule) -> Result<Rule, RuleError> {
        Rule::new(&rule.glob, rule.policy.name(), rule.priority)
    }
}

/// What stands after `=POLICY,` in a rule without its priority: an option that does not exist.
fn unknown_option(body: &str) -> Option<&str> {
    body.match_indices('=').find_map(|(at, _)| {
        let (policy, option) = body[at + 1..].split_once(',')?;
        policy.trim().parse::<PoolPolicy>().ok().map(|_| option)
    })
}

/// `glob` without the backslash that is left of a `\/` at its end, where a path loses its last slash.
fn without_escape_at_end(mut glob: &str) -> &str {
    while glob.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
        glob = glob[..glob.len() - 1].trim_end_matches('/');
    }
    glob
}

/// `text` without the escapes of [`globset::escape`], `None` if it matches more than one name.
fn unescape(text: &str) -> Option<String> {
    let mut literal = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' | '?' | '{' | '}' | ']' => return None,
            '\\' => literal.push(chars.next()?),
            '[' => {
                literal.push(chars.next()?);
                if chars.next() != Some(']') {
                    return None;
                }
            }
            c => literal.push(c),
        }
    }
    Some(literal)
}

/// `path` with links followed as far as it exists; the rest as it is.
fn canonical_prefix(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        if let Ok(real) = existing.canonicalize() {
            return missing.iter().rev().fold(real, |p, name| p.join(name));
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                existing = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

fn write(glob: &str, policy: &str, priority: i32) -> String {
    match priority {
        // Without it, the glob's own end would be taken for the option.
        0 if glob.contains(",priority=") || glob.ends_with(",priority") => {
            format!("{glob}={policy},priority=0")
        }
        0 => format!("{glob}={policy}"),
        n => format!("{glob}={policy},priority={n}"),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(&self.glob, self.policy.name(), self.priority))
    }
}

/// Checks the rules of one process against each other: their number, and one policy for each priority.
pub fn check(rules: &[Rule]) -> Result<(), RuleError> {
    if rules.len() > MAX_RULES {
        return Err(RuleError::TooMany(rules.len()));
    }
    let mut levels: BTreeMap<i32, &Rule> = BTreeMap::new();
    for rule in rules {
        let first = levels.entry(rule.priority).or_insert(rule);
        if first.policy != rule.policy {
            return Err(RuleError::TwoPolicies {
                first: first.to_string(),
                second: format!("{}={}", rule.glob, rule.policy),
                priority: rule.priority,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(glob: &str, policy: PoolPolicy, priority: i32) -> Rule {
        Rule { glob: glob.into(), policy, priority }
    }

    #[test]
    fn rules_are_read() {
        assert_eq!(Rule::parse("/d/**=mru"), Ok(rule("/d/**", PoolPolicy::Mru, 0)));
        assert_eq!(Rule::parse("*.db=LRU,priority=-2"), Ok(rule("*.db", PoolPolicy::Lru, -2)));
        assert_eq!(Rule::parse("a=b/{x,y}=mru"), Ok(rule("a=b/{x,y}", PoolPolicy::Mru, 0)));
    }

    #[test]
    fn bad_rules_say_what_to_do() {
        let says = |text: &str| Rule::parse(text).map_err(|e| e.to_string()).unwrap_err();
        assert_eq!(says("/d/**=mur"), "rule '/d/**=mur': unknown policy 'mur'; did you mean 'mru'?");
        assert!(says("/d/**=clock").contains("unknown policy 'clock'; known are lru, mru"));
        assert!(says("/d/**").contains("is not GLOB=POLICY"));
        assert!(says("=mru").contains("is not GLOB=POLICY"));
        assert!(says("/d=mru,prio=1").contains("'prio=1' is not an option"));
        assert!(says("/d=mru,priority=x").contains("'x' is not a priority"));
        assert!(says("/d/[a=mru").contains("bad pattern"));
    }

    #[test]
    fn a_priority_has_one_policy() {
        let two = [Rule::parse("a=mru").unwrap(), Rule::parse("b=lru").unwrap()];
        let says = check(&two).unwrap_err().to_string();
        assert!(
            says.contains("give priority 0 two policies") && says.contains("'b=lru,priority=1'"),
            "{says}"
        );
        let apart = [Rule::parse("a=mru").unwrap(), Rule::parse("b=lru,priority=1").unwrap()];
        assert_eq!(check(&apart), Ok(()));
        assert!(check(&vec![two[0].clone(); MAX_RULES + 1]).is_err());
    }

    #[test]
    fn relative_globs_start_at_the_base_and_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("data")).unwrap();
        std::os::unix::fs::symlink(real.join("data"), real.join("link")).unwrap();
        let absolute = |text: &str| Rule::parse(text).unwrap().absolute(&real).glob;
        assert_eq!(absolute("data/*.db=mru"), format!("{}/data/*.db", real.display()));
        assert_eq!(absolute("./link/**=mru"), format!("{}/data/**", real.display()));
        assert_eq!(absolute("link/../data/x=mru"), format!("{}/data/x", real.display()));
        assert_eq!(absolute("/nowhere/at/all/*=mru"), "/nowhere/at/all/*");
    }

    #[test]
    fn an_escaped_slash_at_the_end_leaves_a_glob() {
        let absolute = |glob: &str| rule(glob, PoolPolicy::Mru, 0).absolute(Path::new("/nowhere")).glob;
        assert_eq!(absolute("a*\\/"), "/nowhere/a*");
        assert_eq!(absolute("a*\\/\\//."), "/nowhere/a*");
        assert_eq!(absolute("\\/"), "/nowhere");
        assert_eq!(absolute("/\\/"), "/");
        assert_eq!(absolute("/]\\/"), "/[]]");
        assert_eq!(absolute("a\\\\/"), "/nowhere/a\\\\");
    }

    #[test]
    fn globs_that_look_like_options_read_back() {
        for rule in [
            rule("a=b,priority=*", PoolPolicy::Mru, 0),
            rule("a=b,priority", PoolPolicy::Mru, 0),
            rule("x", PoolPolicy::Mru, 0).absolute(Path::new("/nowhere/a=lru,b")),
        ] {
            assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
        }
        let says = Rule::new("a=lru,b", "mru", 0).unwrap_err().to_string();
        assert!(says.contains("write the sign as '[=]'"), "{says}");
        assert!(Rule::new("a[=]lru,b", "mru", 0).is_ok());
    }

    #[test]
    fn the_root_ends_before_the_first_special_character() {
        assert_eq!(rule("/a/b/*.c", PoolPolicy::Mru, 0).root(), Path::new("/a/b"));
        assert_eq!(rule("/a/b", PoolPolicy::Mru, 0).root(), Path::new("/a/b"));
        assert_eq!(rule("/a/[*]b/**", PoolPolicy::Mru, 0).root(), Path::new("/a/*b"));
        assert_eq!(rule("/{a,b}/c", PoolPolicy::Mru, 0).root(), Path::new("/"));
    }

    proptest! {
        #[test]
        fn written_rules_read_back(glob in "/[a-z*/=,]{1,12}", mru in any::<bool>(), priority in any::<i32>()) {
            let policy = if mru { PoolPolicy::Mru } else { PoolPolicy::Lru };
            let rule = Rule { glob, policy, priority };
            prop_assert_eq!(Rule::parse(&rule.to_string()), Ok(rule));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            if let Ok(rule) = Rule::parse(&text) {
                let _ = rule.absolute(Path::new("/")).root();
            }
        }
    }
}
