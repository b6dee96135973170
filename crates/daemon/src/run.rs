//! Programs under rules: `foretell run` through the service, or through another run (`--join`), which is asked the same.
//!
//! The command starts its program held back, sends a pidfd of it together with its rules, lets it begin, and
//! sends what it will read. Rules are patterns of paths and hints are paths, which the service follows with
//! all of its rights: only root may do this.

use std::path::PathBuf;

use foretell_pagecache::{
    Backlog, ForeignFd, HintChunk, ManagerSpec, Plane, PoolPolicy, Report, Rule, SessionId, SessionSpec,
};
use foretell_protocol::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::peer::pid_of;

/// Hints that wait for room in the list; more are refused until these are taken.
const HINTS_WAITING: usize = 1 << 16;

/// What the command asks, as JSON in the frames of kind `Run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RunRequest {
    /// Take the process whose pidfd comes along, and all that it starts, under these rules. Once a connection.
    /// Answered with [`RunReply::Started`].
    Start {
        /// Under whose rules its processes are.
        managers: Vec<RunManager>,
    },
    /// What the processes of a manager will read. Answered with [`RunReply::Taken`] when the list had room for
    /// all; no more hints may be sent until then.
    Hints {
        /// Which of the managers, from 0.
        manager: usize,
        /// In this order.
        hints: Vec<RunHint>,
    },
    /// What has been done for this program. Answered with [`RunReply::Report`].
    Report,
}

/// A manager of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunManager {
    /// A name for reports.
    pub name: String,
    /// The executable's name of its processes; none for all that no other one names.
    pub process: Option<String>,
    /// Its rules; the first that matches holds.
    pub rules: Vec<RunRule>,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRule {
    /// Pattern of absolute paths.
    pub glob: String,
    /// Which block of its priority level is replaced first.
    pub policy: PoolPolicy,
    /// The priority level.
    pub priority: i32,
}

/// A part of a file that will be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHint {
    /// Absolute.
    #[serde(with = "any_path")]
    pub path: PathBuf,
    /// First byte.
    pub offset: u64,
    /// Bytes; none for all up to the end.
    pub length: Option<u64>,
}

/// Paths of any bytes in JSON: as text where they are text, else as the list of their bytes.
mod any_path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match path.to_str() {
            Some(text) => Written::Text(text.to_owned()),
            None => Written::Bytes(path.as_os_str().as_bytes().to_owned()),
        };
        written.serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

/// What the service answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum RunReply {
    /// The program is under control.
    Started {
        /// The service's budget, which it shares.
        budget_bytes: u64,
        /// A file that a rule matches and that is under another one already, in words: such files are left alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflict: Option<String>,
    },
    /// The hints were taken.
    Taken {
        /// How many could not be followed, in all.
        skipped: u64,
        /// The first reason, once.
        problem: Option<String>,
    },
    /// What was done for the program.
    Report {
        /// Without files and without the comparison with the optimum.
        report: Box<Report>,
        /// Hints that could not be followed.
        skipped: u64,
    },
}

/// A program under rules.
#[derive(Debug)]
pub struct Run {
    session: SessionId,
    /// Hints that wait for room, by manager.
    backlogs: Vec<Backlog>,
    /// For which manager an answer is due when they are taken.
    unanswered: Option<usize>,
}

/// A refusal and its reason.
pub type RunRefused = (ErrorCode, String);

fn wrong(text: impl Into<String>) -> RunRefused {
    (ErrorCode::BadSpecification, text.into())
}

impl Run {
    /// Takes the program under control that a pidfd stands for.
    pub(crate) fn start_behind(
        plane: &mut Plane,
        root: &ForeignFd,
        managers: Vec<RunManager>,
    ) -> Result<(Run, RunReply), RunRefused> {
        use std::os::fd::AsFd;
        let gone =
            |_| (ErrorCode::Process, "the program has ended, or the descriptor is no pidfd".to_owned());
        Run::start(plane, pid_of(root.as_fd()).map_err(gone)?, managers)
    }

    /// Takes a program under control, and says so.
    ///
    /// # Errors
    /// What is wrong with the managers or the process; nothing has changed then.
    pub fn start(
        plane: &mut Plane,
        root_pid: u32,
        managers: Vec<RunManager>,
    ) -> Result<(Run, RunReply), RunRefused> {
        let specs = managers.into_iter().map(|manager| ManagerSpec {
            name: manager.name,
            rules: manager.rules.into_iter().map(Rule::from).collect(),
            process_names: manager.process.into_iter().collect(),
        });
        let specs: Vec<ManagerSpec> = specs.collect();
        let backlogs = (0..specs.len()).map(Backlog::new).collect();
        let conflicts = specs.iter().flat_map(|spec| plane.conflicts(&spec.rules).unwrap_or_default());
        let conflict = conflicts.map(|conflict| conflict.to_string()).next();
        let session = plane.add_session(SessionSpec::new(root_pid, specs)).map_err(|error| {
            use foretell_pagecache::SessionError as E;
            let code = match &error {
                E::NoProcess { .. } | E::AlreadyManaged { .. } | E::Observe { .. } => ErrorCode::Process,
                E::TooMany { .. } => ErrorCode::Sessions,
                _ => ErrorCode::BadSpecification,
            };
            (code, error.to_string())
        })?;
        let reply = RunReply::Started { budget_bytes: plane.options().budget_bytes, conflict };
        Ok((Run { session, backlogs, unanswered: None }, reply))
    }

    /// Its session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Takes hints in; they are passed on by [`Run::offer`].
    ///
    /// # Errors
    /// There is no such manager, the last hints are not all taken, or these are too many.
    pub fn hint(&mut self, manager: usize, hints: Vec<RunHint>) -> Result<(), RunRefused> {
        let Some(backlog) = self.backlogs.get_mut(manager) else {
            return Err(wrong(format!("there is no manager {manager}")));
        };
        if self.unanswered.is_some() {
            return Err(wrong("the last hints are not all taken; wait for the answer before sending more"));
        }
        if hints.len() > HINTS_WAITING {
            return Err(wrong(format!("no more than {HINTS_WAITING} hints at a time")));
        }
        let chunk = |hint: RunHint| HintChunk { path: hint.path, offset: hint.offset, length: hint.length };
        backlog.extend(hints.into_iter().map(chunk));
        self.unanswered = Some(manager);
        Ok(())
    }

    /// Passes hints on as far as the list has room; the answer when all are taken.
    pub fn offer(&mut self, plane: &mut Plane) -> Option<RunReply> {
        let backlog = self.backlogs.get_mut(self.unanswered?)?;
        backlog.offer(plane, self.session);
        if !backlog.is_empty() {
            return None;
        }
        self.unanswered = None;
        let problem = backlog.take_problem();
        Some(RunReply::Taken { skipped: self.skipped(), problem })
    }

    fn skipped(&self) -> u64 {
        self.backlogs.iter().map(Backlog::skipped).sum()
    }

    /// Do hints wait for room?
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.unanswered.is_some()
    }

    /// What was done.
    #[must_use]
    pub fn report(&self, plane: &Plane) -> RunReply {
        let report = plane.session_report(self.session).unwrap_or_default();
        RunReply::Report { report: Box::new(report), skipped: self.skipped() }
    }
}

impl From<RunRule> for Rule {
    fn from(rule: RunRule) -> Rule {
        let RunRule { glob, policy, priority } = rule;
        Rule { glob, policy, priority }
    }
}

/// Reads a request.
pub(crate) fn parse(text: &str) -> Result<RunRequest, RunRefused> {
    serde_json::from_str(text).map_err(|error| wrong(format!("not a request: {error}")))
}

/// Writes a reply.
pub(crate) fn encode(reply: &RunReply) -> String {
    serde_json::to_string(reply).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn hints_name_files_of_any_name() {
        let names =
            [b"/plain".to_vec(), b"/a \"b\n".to_vec(), (1..=255).filter(|byte| *byte != b'/').collect()];
        let hint = |name: Vec<u8>| RunHint {
            path: std::ffi::OsString::from_vec(name).into(),
            offset: 3,
            length: Some(4),
        };
        let request = RunRequest::Hints { manager: 0, hints: names.map(hint).into() };
        assert_eq!(parse(&serde_json::to_string(&request).unwrap()).unwrap(), request);
    }
}
