//! What both ends keep while they go through a recording: what differences are taken to, and what was told.

use crate::format::fact;
use crate::{Fact, limits};

/// The state behind each event. Writer and reader have the same.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Of the access before.
    pub(crate) role: u32,
    /// Of the access before.
    pub(crate) file: u32,
    /// Of the access before.
    pub(crate) at_ns: u64,
    /// Of the file before.
    pub(crate) dev: u64,
    /// Of the file before.
    pub(crate) ino: u64,
    /// Of the file before.
    pub(crate) mtime_ns: i64,
    /// Of each file.
    pub(crate) files: Vec<FileState>,
    /// Of each role whether its end was told.
    pub(crate) ended: Vec<bool>,
    /// Bytes of all paths.
    pub(crate) paths_bytes: usize,
}

/// What is remembered of a file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FileState {
    /// The page behind the last access.
    pub(crate) next_page: u32,
    /// The facts that were told, a bit a kind.
    told: u8,
}

impl State {
    /// Notes a fact of a known file or role; `false` if it was told before.
    pub(crate) fn is_news(&mut self, fact: Fact) -> bool {
        let (kind, number) = fact_numbers(fact);
        if kind == fact::ENDED {
            return !std::mem::replace(&mut self.ended[number as usize], true);
        }
        let told = &mut self.files[number as usize].told;
        let before = std::mem::replace(told, *told | 1 << kind);
        before != *told
    }
}

/// The kind of a fact, and the number of its file or role.
pub(crate) fn fact_numbers(fact: Fact) -> (u8, u32) {
    match fact {
        Fact::Written(file) => (fact::WRITTEN, file.0),
        Fact::Executed(file) => (fact::EXECUTED, file.0),
        Fact::Deleted(file) => (fact::DELETED, file.0),
        Fact::Truncated(file) => (fact::TRUNCATED, file.0),
        Fact::Ended { role, .. } => (fact::ENDED, role.0),
    }
}

/// The limits that both ends keep to: [`limits`], smaller in tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) accesses: usize,
    pub(crate) roles: usize,
    pub(crate) files: usize,
    pub(crate) paths_bytes: usize,
    pub(crate) uncompressed_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            accesses: limits::ACCESSES,
            roles: limits::ROLES,
            files: limits::FILES,
            paths_bytes: limits::PATHS_BYTES,
            uncompressed_bytes: limits::UNCOMPRESSED_BYTES,
        }
    }
}
