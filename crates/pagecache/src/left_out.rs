//! Files that rules match and that cannot be steered: kept for the report, so that nobody wonders in silence why a rule
//! does nothing.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::options::SessionId;

/// Reasons that are kept, of all sessions; of further ones nothing is said.
const REASONS: usize = 1024;

/// The reason when it is no property of the file.
pub(crate) const UNDER_ANOTHERS_RULE: &str = "under another policy by a rule of another program's";

/// Files that are left alone for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The first of them.
    #[serde(serialize_with = "crate::report::readable_path")]
    pub path: PathBuf,
    /// What it is, which keeps it from being steered: "a file in memory".
    pub what: String,
    /// There are others.
    pub and_others: bool,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let others = if self.and_others { ", as others are that it matches" } else { "" };
        let left = if self.what == UNDER_ANOTHERS_RULE { "" } else { ", which is left to the kernel" };
        let (path, what) = (self.path.display(), &self.what);
        write!(f, "the rule for {path} has no effect: it is {what}{left}{others}")
    }
}

/// What was left out in each session.
#[derive(Debug, Default)]
pub(crate) struct LeftOuts {
    noted: Vec<(SessionId, &'static str, LeftOut)>,
}

impl LeftOuts {
    /// A file that a session's rules match is left out.
    pub(crate) fn note(&mut self, session: SessionId, path: &Path, what: &'static str) {
        let room = self.noted.len() < REASONS;
        match self.noted.iter_mut().find(|(of, why, _)| (*of, *why) == (session, what)) {
            Some((.., noted)) => noted.and_others |= noted.path != path,
            None if room => {
                let left_out = LeftOut { path: path.to_owned(), what: what.to_owned(), and_others: false };
                self.noted.push((session, what, left_out));
            }
            None => {}
        }
    }

    /// Those of a session.
    pub(crate) fn of(&self, session: SessionId) -> Vec<LeftOut> {
        self.noted.iter().filter(|(of, ..)| *of == session).map(|(.., noted)| noted.clone()).collect()
    }

    /// Those of all sessions.
    pub(crate) fn all(&self) -> Vec<LeftOut> {
        self.noted.iter().map(|(.., noted)| noted.clone()).collect()
    }

    /// The session has ended and will not be asked for.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.noted.retain(|(of, ..)| *of != session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once_with_the_first_file() {
        let mut left_outs = LeftOuts::default();
        let (one, other) = (SessionId(1), SessionId(2));
        left_outs.note(one, Path::new("/a"), "a file in memory");
        left_outs.note(one, Path::new("/a"), "a file in memory");
        assert_eq!(
            left_outs.of(one)[0].to_string(),
            "the rule for /a has no effect: it is a file in memory, which is left to the kernel"
        );
        left_outs.note(one, Path::new("/b"), "a file in memory");
        left_outs.note(other, Path::new("/c"), "a file on bcachefs");
        assert!(left_outs.of(one)[0].to_string().ends_with(", as others are that it matches"));
        assert_eq!((left_outs.of(one).len(), left_outs.all().len()), (1, 2));
        left_outs.forget(one);
        assert_eq!(left_outs.all(), left_outs.of(other));
    }

    #[test]
    fn so_many_reasons_are_kept() {
        let mut left_outs = LeftOuts::default();
        (0..=REASONS as u32)
            .for_each(|session| left_outs.note(SessionId(session), Path::new("/a"), "a file in memory"));
        assert_eq!(left_outs.all().len(), REASONS);
    }
}
