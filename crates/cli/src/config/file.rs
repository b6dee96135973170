//! The configuration file: TOML, every key optional, unknown keys refused with the nearest known one.

use std::ops::Range;
use std::path::{Path, PathBuf};

use foretell_nearest::suggestion;
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};

use super::number::Number;

/// The largest configuration file, in bytes; a thousand long rules are far below it.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// What a configuration file may say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct File {
    /// Page cache that the files under control may occupy, as `"64M"` or `"50%"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<String>,
    /// Size of a block, as `"8K"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    /// Prefetching algorithm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<String>,
    /// Prefetches issued together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<Number>,
    /// References ahead that may be prefetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Number>,
    /// Device file of the volume, or a built-in device: what `auto` is chosen by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
    /// Order of the fetches of one batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Allocation policy between managers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    /// Threads that prefetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch_threads: Option<u32>,
    /// Steer at real-time priority where allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime: Option<bool>,
    /// Hint file of the processes that no `[[process]]` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<PathBuf>,
    /// Rules of the processes that no `[[process]]` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleEntry>,
    /// Where the service listens; for `foretell daemon` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// How much of everything the service's clients may have; for `foretell daemon` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<foretelld::Limits>,
    /// A pool of buffers a user beside the page cache; for `foretell daemon` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffers: Option<BuffersTable>,
    /// When to take control from a manager that is often wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation: Option<RevocationTable>,
    /// Processes with rules of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process: Vec<ProcessTable>,
}

/// A rule: `"GLOB=POLICY[,priority=N]"` or a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a rule is \"GLOB=POLICY[,priority=N]\" or { glob = \"…\", policy = \"…\", priority = N }"
)]
pub enum RuleEntry {
    /// As on the command line.
    Text(String),
    /// In parts.
    Table {
        /// Which files.
        glob: String,
        /// The name of a policy, `lru` for example.
        policy: String,
        /// The priority level.
        #[serde(default)]
        priority: i32,
    },
}

/// `[revocation]`; missing keys have the policy's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RevocationTable {
    /// Replacements that the share of wrong decisions is taken over.
    pub window: Option<u32>,
    /// Revoked above this share.
    pub revoke_above: Option<f64>,
    /// Given back below this share.
    pub reinstate_below: Option<f64>,
}

/// `[buffers]`: the flags of `foretell buffers`, whose defaults missing keys have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BuffersTable {
    /// Memory of a pool.
    pub budget: Option<String>,
    /// What is fetched as one.
    pub part: Option<String>,
    /// Where parts are kept that memory has no room for.
    pub disk_dir: Option<PathBuf>,
    /// How much of it.
    pub disk: Option<String>,
    /// Seconds that a read waits.
    pub timeout: Option<u64>,
    /// Seconds after which a pool goes that nobody uses.
    pub idle: Option<u64>,
    /// Users with a pool.
    pub users: Option<u64>,
    /// Where it listens.
    pub socket: Option<PathBuf>,
}

/// `[[process]]`: the processes with one executable name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessTable {
    /// The executable's name, as in `/proc/PID/comm`.
    pub name: String,
    /// Their hint file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<PathBuf>,
    /// Their rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleEntry>,
}

/// Why a configuration file is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{}: cannot read the configuration ({why}); give an existing, readable file", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// It is larger than any configuration.
    #[error("{}: larger than {MAX_FILE_BYTES} bytes; give a TOML configuration file", .0.display())]
    TooLarge(PathBuf),
    /// A line is wrong.
    #[error("{}:{line}: {what}", .file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

const TOP_KEYS: &[&str] = &[
    "budget",
    "block",
    "prefetch",
    "batch",
    "horizon",
    "device",
    "order",
    "allocation",
    "prefetch-threads",
    "realtime",
    "hints",
    "socket",
    "rules",
    "limits",
    "buffers",
    "revocation",
    "process",
];
const RULE_KEYS: &[&str] = &["glob", "policy", "priority"];
const LIMITS_KEYS: &[&str] = &[
    "sessions",
    "sessions-of-user",
    "sessions-of-process",
    "files",
    "files-of-user",
    "file-bytes-of-user",
    "ring-bytes-of-user",
    "queues",
    "list-blocks",
    "list-blocks-in-all",
    "list-blocks-of-user",
    "messages-per-s",
    "messages-burst",
    "runs",
    "greeting-ms",
    "outbox-bytes",
    "buffer-bytes-of-user",
    "name-bytes-of-user",
];
const BUFFERS_KEYS: &[&str] = &["budget", "part", "disk-dir", "disk", "timeout", "idle", "users", "socket"];
const QUEUES_KEYS: &[&str] = &["session", "user", "all"];
const PROCESS_KEYS: &[&str] = &["name", "hints", "rules"];
const REVOCATION_KEYS: &[&str] = &["window", "revoke-above", "reinstate-below"];

impl File {
    /// Reads a configuration file.
    pub fn read(path: &Path) -> Result<File, ConfigError> {
        let read = |why| ConfigError::Read { file: path.to_owned(), why };
        if path.metadata().map_err(read)?.len() > MAX_FILE_BYTES {
            return Err(ConfigError::TooLarge(path.to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(read)?;
        File::parse(&text).map_err(|Wrong { at, what }| ConfigError::Line {
            file: path.to_owned(),
            line: text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1,
            what,
        })
    }

    fn parse(text: &str) -> Result<File, Wrong> {
        let tree = DeTable::parse(text).map_err(|e| Wrong::toml(&e))?;
        check_keys(tree.get_ref(), TOP_KEYS, "")?;
        for (key, value) in tree.get_ref().iter() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("rules", rules) => check_rules(rules)?,
                ("revocation", DeValue::Table(table)) => {
                    check_keys(table, REVOCATION_KEYS, " in [revocation]")?
                }
                ("buffers", DeValue::Table(table)) => check_keys(table, BUFFERS_KEYS, " in [buffers]")?,
                ("limits", DeValue::Table(table)) => {
                    check_keys(table, LIMITS_KEYS, " in [limits]")?;
                    if let Some(DeValue::Table(queues)) = table.get("queues").map(|value| value.get_ref()) {
                        check_keys(queues, QUEUES_KEYS, " in queues")?;
                    }
                }
                ("process", DeValue::Array(processes)) => {
                    for process in processes.iter() {
                        let DeValue::Table(table) = process.get_ref() else { continue };
                        check_keys(table, PROCESS_KEYS, " in [[process]]")?;
                        if let Some(rules) = table.get("rules") {
                            check_rules(rules.get_ref())?;
                        }
                    }
                }
                _ => {}
            }
        }
        toml::from_str(text).map_err(|e| Wrong::toml(&e))
    }
}

/// Something wrong at a byte offset.
struct Wrong {
    at: usize,
    what: String,
}

impl Wrong {
    fn toml(error: &toml::de::Error) -> Wrong {
        // The parser's messages may have several lines; ours have one.
        let what = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Wrong { at: error.span().map_or(0, |span: Range<usize>| span.start), what }
    }
}

fn check_rules(rules: &DeValue<'_>) -> Result<(), Wrong> {
    let DeValue::Array(rules) = rules else { return Ok(()) };
    for rule in rules.iter() {
        if let DeValue::Table(table) = rule.get_ref() {
            check_keys(table, RULE_KEYS, " in a rule")?;
        }
    }
    Ok(())
}

fn check_keys(table: &DeTable<'_>, known: &'static [&'static str], place: &str) -> Result<(), Wrong> {
    let unknown = table.iter().map(|(key, _)| key).find(|key| !known.contains(&key.get_ref().as_ref()));
    match unknown {
        None => Ok(()),
        Some(key) => {
            let name: &str = key.get_ref();
            let what = format!(
                "unknown key '{}'{place}{}",
                name.escape_debug(),
                suggestion(name, known.iter().copied())
            );
            Err(Wrong { at: key.span().start, what })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy.toml");
        std::fs::write(&file, text).unwrap();
        let error = File::read(&file).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn a_full_file_is_read() {
        let file = File::parse(
            r#"
            budget = "64M"
            prefetch = "none"
            batch = 8
            horizon = 100
            hints = "reads.txt"
            rules = ["/d/**=mru", { glob = "*.db", policy = "lru", priority = 1 }]
            [revocation]
            window = 64
            [[process]]
            name = "cscope"
            rules = ["cscope.out=mru"]
            "#,
        )
        .unwrap_or_else(|wrong| panic!("{}", wrong.what));
        assert_eq!((file.batch, file.rules.len(), file.process.len()), (Some(Number::Is(8)), 2, 1));
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        assert_eq!(
            says("batch = 1\nbudgte = 2"),
            "policy.toml:2: unknown key 'budgte'; did you mean 'budget'?"
        );
        assert!(
            says("rules = [{glob='a', polcy='lru'}]").contains("'polcy' in a rule; did you mean 'policy'?")
        );
        assert!(says("[[process]]\nnam='x'").starts_with("policy.toml:2: unknown key 'nam' in [[process]]"));
        assert_eq!(says("\"bat\\nch\" = 1"), "policy.toml:1: unknown key 'bat\\nch'; did you mean 'batch'?");
        assert!(says("[revocation]\nwindows=1").contains("did you mean 'window'?"));
        assert!(says("[buffers]\nbugdet='1G'").contains("did you mean 'budget'?"));
    }

    #[test]
    fn every_limit_can_be_set_and_no_other() {
        let limits = toml::Table::try_from(foretelld::Limits::default()).unwrap();
        let mut keys: Vec<&str> = limits.keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut known = LIMITS_KEYS.to_vec();
        known.sort_unstable();
        assert_eq!(keys, known);
        let said = says("[limits]\nsesions = 1");
        assert_eq!(said, "policy.toml:2: unknown key 'sesions' in [limits]; did you mean 'sessions'?");
        let file =
            File::parse("[limits]\nfiles = 9\nqueues = { all = 5 }").unwrap_or_else(|w| panic!("{}", w.what));
        assert_eq!(
            file.limits.map(|limits| (limits.files, limits.queues.all, limits.runs)),
            Some((9, 5, 64))
        );
    }

    #[test]
    fn wrong_values_name_the_line() {
        assert!(says("budget = \"1M\"\nprefetch-threads = \"x\"").starts_with("policy.toml:2: invalid type"));
        assert!(says("budget = \"1M\"\nbatch = \"x\"").starts_with("policy.toml:2: give a number"));
        assert_eq!(File::parse("horizon = \"auto\"").ok().and_then(|f| f.horizon), Some(Number::AUTO));
        assert!(says("budget = ").starts_with("policy.toml:1: "));
        assert!(says("rules = [1]").contains("a rule is"));
        assert!(says("[[process]]\nrules=[]").contains("missing field `name`"));
        assert!(says("batch = -1").starts_with("policy.toml:1: "));
    }
}
