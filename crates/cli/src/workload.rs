//! Workloads as they are written on the command line: `sequential,bytes=1G,request=8K,streams=4,think_us=100`.
//!
//! The pattern, then `key=value` in any order. Sizes take units as in [`crate::size`].

use foretell_analytic::workload::{Layout, Pattern, Prefetching, Workload};
use foretell_nearest::suggestion;
use thiserror::Error;

use crate::size::{Size, SizeError};

/// The patterns.
pub const PATTERNS: &[&str] = &["sequential", "strided", "random", "hinted"];
/// The keys.
pub const KEYS: &[&str] = &[
    "bytes",
    "request",
    "streams",
    "layout",
    "think_us",
    "cpus",
    "driver_us",
    "stride",
    "span",
    "horizon",
    "fs",
    "read_ahead",
    "split",
    "memory",
];
/// The file systems.
const FILE_SYSTEMS: &[&str] = &["linux", "ffs", "direct"];
/// How files lie to each other.
const LAYOUTS: &[&str] = &["unknown", "adjacent"];

/// Bytes of a read if nothing is said: the block of foretell.
const REQUEST_BYTES: u64 = 8 << 10;
/// Linux's `read_ahead_kb` if nothing is said: VM_READAHEAD_PAGES of the kernel, 128 KB.
const READ_AHEAD_BYTES: u64 = 128 << 10;
/// H if nothing is said: the default of Kimbrel et al. 1996, section 3.
const HORIZON: u32 = 62;

/// What is wrong with a workload's text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WorkloadTextError {
    /// The first word.
    #[error("unknown pattern '{name}'{hint}")]
    Pattern {
        /// What was given.
        name: String,
        /// What would do.
        hint: String,
    },
    /// A part without `=`.
    #[error("'{0}' is not KEY=VALUE; write for example 'sequential,bytes=1G,request=8K'")]
    NotAPair(String),
    /// A key that does not exist.
    #[error("unknown key '{name}'{hint}")]
    Key {
        /// What was given.
        name: String,
        /// What would do.
        hint: String,
    },
    /// A key given twice.
    #[error("'{0}' is given twice; give it once")]
    Twice(String),
    /// A key that must be there.
    #[error("'{0}' is missing; add {0}=SIZE")]
    Missing(&'static str),
    /// A key that means nothing with this pattern.
    #[error("'{key}' has no meaning for {pattern} reads; leave it out")]
    Meaningless {
        /// The key.
        key: String,
        /// The pattern.
        pattern: String,
    },
    /// A value that is no size.
    #[error("{key}: {why}")]
    Size {
        /// The key.
        key: String,
        /// What is wrong with it.
        why: SizeError,
    },
    /// A value that is no number.
    #[error("{key}: '{value}' is no number of {what}")]
    Number {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// Of what.
        what: &'static str,
    },
    /// No way in which files can lie.
    #[error("unknown layout '{name}'{hint}")]
    Layout {
        /// What was given.
        name: String,
        /// What would do.
        hint: String,
    },
    /// A file system that the model does not know.
    #[error("unknown file system '{name}'{hint}")]
    FileSystem {
        /// What was given.
        name: String,
        /// What would do.
        hint: String,
    },
}

/// Reads a workload; `memory_bytes` is what there is if the text does not say.
///
/// # Errors
///
/// [`WorkloadTextError`] for the first part that is wrong. The numbers themselves are checked by
/// [`Workload::check`].
pub fn parse(text: &str, memory_bytes: u64) -> Result<Workload, WorkloadTextError> {
    let mut parts = text.split(',').map(str::trim);
    let pattern = parts.next().unwrap_or_default();
    if !PATTERNS.contains(&pattern) {
        return Err(WorkloadTextError::Pattern { name: pattern.to_owned(), hint: hint(pattern, PATTERNS) });
    }
    let given = Given { pairs: pairs(pattern, parts)?, memory_bytes };
    let bytes = given.size("bytes")?.ok_or(WorkloadTextError::Missing("bytes"))?;
    let request_bytes = given.size("request")?.unwrap_or(REQUEST_BYTES);
    let pattern = given.pattern(pattern)?;
    let span_bytes = match (pattern, given.size("span")?) {
        // The last request begins a stride after the one before it.
        (Pattern::Strided { stride_bytes }, _) => bytes
            .div_ceil(request_bytes)
            .saturating_sub(1)
            .saturating_mul(stride_bytes)
            .saturating_add(request_bytes),
        (_, span_bytes) => span_bytes.unwrap_or(bytes),
    };
    Ok(Workload {
        pattern,
        bytes,
        span_bytes,
        request_bytes,
        streams: given.number("streams", "streams")?.unwrap_or(1),
        layout: given.layout()?,
        think_us: given.microseconds("think_us")?,
        processors: given.number("cpus", "processors")?.unwrap_or(u32::MAX),
        driver_us: given.microseconds("driver_us")?,
        split_bytes: given.size("split")?.unwrap_or(u64::MAX),
        prefetching: given.prefetching()?,
        memory_bytes: given.size("memory")?.unwrap_or(memory_bytes),
    })
}

/// The keys and values behind a pattern: known ones, each once, and none that means nothing there.
fn pairs<'a>(
    pattern: &str,
    parts: impl Iterator<Item = &'a str>,
) -> Result<Vec<(&'a str, &'a str)>, WorkloadTextError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for part in parts {
        let (key, value) =
            part.split_once('=').ok_or_else(|| WorkloadTextError::NotAPair(part.to_owned()))?;
        let (key, value) = (key.trim(), value.trim());
        if !KEYS.contains(&key) {
            return Err(WorkloadTextError::Key { name: key.to_owned(), hint: hint(key, KEYS) });
        }
        if pairs.iter().any(|(k, _)| *k == key) {
            return Err(WorkloadTextError::Twice(key.to_owned()));
        }
        let meaningless = match key {
            "stride" => pattern != "strided",
            "horizon" => pattern != "hinted",
            "span" => !matches!(pattern, "random" | "hinted"),
            // Other reads may pass the page cache by, but FFS is modelled for sequential ones only.
            "fs" => pattern != "sequential" && value == "ffs",
            "read_ahead" | "split" => pattern != "sequential",
            _ => false,
        };
        if meaningless {
            return Err(WorkloadTextError::Meaningless { key: key.to_owned(), pattern: pattern.to_owned() });
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// What was written, to be asked for by key.
struct Given<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    memory_bytes: u64,
}

impl Given<'_> {
    fn value(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|(_, value)| *value)
    }

    fn size(&self, key: &str) -> Result<Option<u64>, WorkloadTextError> {
        let parsed = |text: &str| match Size::parse(text) {
            Ok(size) => Ok(size.bytes(self.memory_bytes)),
            Err(why) => Err(WorkloadTextError::Size { key: key.to_owned(), why }),
        };
        self.value(key).map(parsed).transpose()
    }

    fn number(&self, key: &str, what: &'static str) -> Result<Option<u32>, WorkloadTextError> {
        let parsed = |text: &str| text.parse().map_err(|_| not_a_number(key, text, what));
        self.value(key).map(parsed).transpose()
    }

    fn microseconds(&self, key: &str) -> Result<f64, WorkloadTextError> {
        let parsed = |text: &str| text.parse().map_err(|_| not_a_number(key, text, "microseconds"));
        self.value(key).map_or(Ok(0.0), parsed)
    }

    fn pattern(&self, name: &str) -> Result<Pattern, WorkloadTextError> {
        Ok(match name {
            "strided" => Pattern::Strided {
                stride_bytes: self.size("stride")?.ok_or(WorkloadTextError::Missing("stride"))?,
            },
            "random" => Pattern::Random,
            "hinted" => Pattern::Hinted { horizon: self.number("horizon", "references")?.unwrap_or(HORIZON) },
            _ => Pattern::Sequential,
        })
    }

    fn prefetching(&self) -> Result<Prefetching, WorkloadTextError> {
        // Nothing read ahead is a setting of the kernel; a size of 0 is none anywhere else.
        let read_ahead_bytes = match self.value("read_ahead") {
            Some("0") => 0,
            _ => self.size("read_ahead")?.unwrap_or(READ_AHEAD_BYTES),
        };
        match self.value("fs").unwrap_or("linux") {
            "linux" => Ok(Prefetching::Linux { read_ahead_bytes }),
            "ffs" => Ok(Prefetching::Ffs),
            "direct" => Ok(Prefetching::Off),
            other => {
                Err(WorkloadTextError::FileSystem { name: other.to_owned(), hint: hint(other, FILE_SYSTEMS) })
            }
        }
    }

    fn layout(&self) -> Result<Layout, WorkloadTextError> {
        match self.value("layout").unwrap_or("unknown") {
            "unknown" => Ok(Layout::Unknown),
            "adjacent" => Ok(Layout::Adjacent),
            other => Err(WorkloadTextError::Layout { name: other.to_owned(), hint: hint(other, LAYOUTS) }),
        }
    }
}

fn hint(name: &str, known: &[&'static str]) -> String {
    suggestion(name, known.iter().copied())
}

fn not_a_number(key: &str, value: &str, what: &'static str) -> WorkloadTextError {
    WorkloadTextError::Number { key: key.to_owned(), value: value.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn says(text: &str) -> String {
        parse(text, 1 << 30).unwrap_err().to_string()
    }

    #[test]
    fn workloads_are_read() {
        let text = "sequential, bytes=1G, request=64K, streams=4, think_us=2.5, read_ahead=1M, memory=50%";
        let workload = parse(text, 1 << 30).unwrap();
        let expected = Workload {
            request_bytes: 64 << 10,
            streams: 4,
            think_us: 2.5,
            prefetching: Prefetching::Linux { read_ahead_bytes: 1 << 20 },
            memory_bytes: 1 << 29,
            ..Workload::sequential(1 << 30)
        };
        assert_eq!(workload, expected);
        let strided = parse("strided,bytes=16K,stride=1M", 1).unwrap();
        assert_eq!(
            (strided.pattern, strided.span_bytes),
            (Pattern::Strided { stride_bytes: 1 << 20 }, (1 << 20) + 8192)
        );
        let zero = parse("sequential,bytes=1M,read_ahead=0", 1).unwrap();
        assert_eq!(zero.prefetching, Prefetching::Linux { read_ahead_bytes: 0 });
        assert_eq!(parse("random,bytes=1M,fs=direct", 1).unwrap().prefetching, Prefetching::Off);
    }

    #[test]
    fn mistakes_are_named_with_what_would_do() {
        assert_eq!(says("sequentail,bytes=1G"), "unknown pattern 'sequentail'; did you mean 'sequential'?");
        assert_eq!(says("random"), "'bytes' is missing; add bytes=SIZE");
        assert_eq!(says("random,bytes=1G,steams=2"), "unknown key 'steams'; did you mean 'streams'?");
        assert_eq!(says("random,bytes=1G,bytes=2G"), "'bytes' is given twice; give it once");
        assert_eq!(
            says("random,bytes=1G,horizon=4"),
            "'horizon' has no meaning for random reads; leave it out"
        );
        assert_eq!(
            says("random,bytes=-5"),
            "bytes: '-5' is not a size; write bytes or a unit as in 64M, 1.5G or 50%"
        );
        assert_eq!(says("random,bytes=1G,streams=-1"), "streams: '-1' is no number of streams");
        assert_eq!(
            says("sequential,bytes=1G,fs=linus"),
            "unknown file system 'linus'; did you mean 'linux'?"
        );
        assert!(says("sequential,1G").starts_with("'1G' is not KEY=VALUE"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(sequential|strided|random|hinted)(,(bytes|stride|span|think_us|x)=[0-9.a-zA-Z-]{0,8}){0,4}") {
            let _ = parse(&text, 1 << 30);
        }
    }
}
