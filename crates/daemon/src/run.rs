//! Programs under rules: what `foretell run` asks of a host, be it the service, another run (`--join`) or its own.
//!
//! The command starts its program held back, sends a pidfd of it together with its rules, asks the other hosts which
//! rules are older, has its program yield to those, lets it begin, and sends what it will read. Rules are patterns of
//! paths and hints are paths, which the host follows with all of its rights: only root may do this with the service,
//! and with a private host its user and root.

use std::collections::BTreeSet;
use std::path::PathBuf;

use foretell_door::ForeignFd;
use foretell_pagecache::{
    Backlog, Casting, HintChunk, ManagerSpec, Plane, PoolPolicy, Report, Rule, SessionId, SessionSpec,
};
use foretell_protocol::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::peer::{parent_of, pid_of};

/// Hints that wait for room in the list; more are refused until these are taken.
const HINTS_WAITING: usize = 1 << 16;
/// Bytes of rules that are told at most; later ones are left out. What is said must fit into
/// [`foretell_protocol::limits::TEXT_BYTES`].
pub const RULES_BYTES: usize = 2 << 20;

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
    /// Leave files alone for which rules that hold elsewhere say something else. To be sent before the program begins.
    /// Answered with [`RunReply::Yielding`].
    YieldTo {
        /// A list for each manager elsewhere.
        rules: Vec<Vec<RunRule>>,
    },
    /// Which rules held here before a time, and is a file managed by them to which these would give another policy?
    /// Takes no program. Answered with [`RunReply::Rules`].
    Rules {
        /// Those of whoever asks.
        rules: Vec<RunRule>,
        /// By `CLOCK_MONOTONIC`: when the session began for which they are.
        before_ns: u64,
    },
    /// What the processes of a manager will read. Answered with [`RunReply::Taken`] when the list had room for
    /// all; no more hints for this manager may be sent until then.
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
        /// When its session began, by `CLOCK_MONOTONIC`.
        began_ns: u64,
        /// A file that a rule matches and that is under another one already, in words: such files are left alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflict: Option<String>,
    },
    /// It leaves to the others what it was to leave to them.
    Yielding,
    /// The rules that hold here, at most [`RULES_BYTES`] of them.
    Rules {
        /// A list for each manager.
        rules: Vec<Vec<RunRule>>,
        /// A file that is managed by one of them and would get another policy, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conflict: Option<String>,
    },
    /// The hints were taken.
    Taken {
        /// Those of this manager.
        manager: usize,
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
pub(crate) struct Run {
    session: SessionId,
    /// Hints that wait for room, by manager.
    backlogs: Vec<Backlog>,
    /// For which managers an answer is due when they are taken.
    unanswered: BTreeSet<usize>,
}

/// A refusal and its reason.
pub type RunRefused = (ErrorCode, String);

fn wrong(text: impl Into<String>) -> RunRefused {
    (ErrorCode::BadSpecification, text.into())
}

impl Run {
    /// Takes the program under control that a pidfd stands for. With a `parent` it must be a child of that process.
    pub(crate) fn start_behind(
        plane: &mut Plane,
        root: &ForeignFd,
        parent: Option<u32>,
        managers: Vec<RunManager>,
    ) -> Result<(Run, RunReply), RunRefused> {
        use std::os::fd::AsFd;
        let gone =
            |_| (ErrorCode::Process, "the program has ended, or the descriptor is no pidfd".to_owned());
        let pid = pid_of(root.as_fd()).map_err(gone)?;
        if let Some(parent) = parent
            && parent_of(pid) != Some(parent)
        {
            let text = format!("process {pid} is not a child of process {parent}, which asks for it");
            return Err((ErrorCode::NotPermitted, text));
        }
        Run::start(plane, pid, managers, None)
    }

    /// Takes a program under control, and says so.
    pub(crate) fn start(
        plane: &mut Plane,
        root_pid: u32,
        managers: Vec<RunManager>,
        casting: Option<Casting>,
    ) -> Result<(Run, RunReply), RunRefused> {
        let specs = managers.into_iter().map(|manager| ManagerSpec {
            name: manager.name,
            rules: plain(manager.rules),
            process_names: manager.process.into_iter().collect(),
        });
        let specs: Vec<ManagerSpec> = specs.collect();
        let backlogs = (0..specs.len()).map(Backlog::new).collect();
        let conflicts =
            specs.iter().flat_map(|spec| plane.conflicts(&spec.rules, u64::MAX).unwrap_or_default());
        let conflict = conflicts.map(|conflict| conflict.to_string()).next();
        let spec = SessionSpec { casting, ..SessionSpec::new(root_pid, specs) };
        let session = plane.add_session(spec).map_err(|error| {
            use foretell_pagecache::SessionError as E;
            let code = match &error {
                E::Observe { .. } | E::Unreadable { .. } => ErrorCode::Internal,
                E::NoProcess { .. } | E::AlreadyManaged { .. } => ErrorCode::Process,
                E::TooMany { .. } => ErrorCode::Sessions,
                _ => ErrorCode::BadSpecification,
            };
            (code, error.to_string())
        })?;
        let (budget_bytes, began_ns) = (plane.options().budget_bytes, plane.began_ns(session));
        let reply = RunReply::Started { budget_bytes, began_ns, conflict };
        Ok((Run { session, backlogs, unanswered: BTreeSet::new() }, reply))
    }

    /// Does what is asked about a program that has been started; what there is to answer at once.
    pub(crate) fn answer(
        &mut self,
        plane: &mut Plane,
        request: RunRequest,
    ) -> Result<Vec<RunReply>, RunRefused> {
        match request {
            RunRequest::Start { .. } => {
                Err(wrong("this connection has started one already; open another one for another program"))
            }
            RunRequest::Rules { rules, before_ns } => Ok(vec![rules_here(plane, rules, before_ns)?]),
            RunRequest::YieldTo { rules } => {
                for rules in rules {
                    plane.yield_to(self.session, &plain(rules)).map_err(|error| wrong(error.to_string()))?;
                }
                Ok(vec![RunReply::Yielding])
            }
            RunRequest::Hints { manager, hints } => {
                self.hint(manager, hints)?;
                Ok(self.offer(plane))
            }
            RunRequest::Report => {
                // What the program read before it ended may still be in the ring.
                plane.take_in_all();
                Ok(vec![self.report(plane)])
            }
        }
    }

    /// Its session.
    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Takes hints in; they are passed on by [`Run::offer`].
    fn hint(&mut self, manager: usize, hints: Vec<RunHint>) -> Result<(), RunRefused> {
        let Some(backlog) = self.backlogs.get_mut(manager) else {
            return Err(wrong(format!("there is no manager {manager}")));
        };
        if self.unanswered.contains(&manager) {
            return Err(wrong("the last hints are not all taken; wait for the answer before sending more"));
        }
        if hints.len() > HINTS_WAITING {
            return Err(wrong(format!("no more than {HINTS_WAITING} hints at a time")));
        }
        let chunk = |hint: RunHint| HintChunk { path: hint.path, offset: hint.offset, length: hint.length };
        backlog.extend(hints.into_iter().map(chunk));
        self.unanswered.insert(manager);
        Ok(())
    }

    /// Passes hints on as far as the lists have room; the answers for those that are all taken.
    pub(crate) fn offer(&mut self, plane: &mut Plane) -> Vec<RunReply> {
        let mut replies = Vec::new();
        for manager in self.unanswered.clone() {
            let Some(backlog) = self.backlogs.get_mut(manager) else { continue };
            backlog.offer(plane, self.session);
            if backlog.is_empty() {
                self.unanswered.remove(&manager);
                let problem = backlog.take_problem();
                replies.push(RunReply::Taken { manager, skipped: self.skipped(), problem });
            }
        }
        replies
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.backlogs.iter().map(Backlog::skipped).sum()
    }

    /// Do hints wait for room?
    pub(crate) fn is_waiting(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// What was done.
    pub(crate) fn report(&self, plane: &Plane) -> RunReply {
        let report = plane.session_report(self.session).unwrap_or_default();
        RunReply::Report { report: Box::new(report), skipped: self.skipped() }
    }
}

/// The rules that held here before a time, and the first file for which `rules` say something else than they.
pub(crate) fn rules_here(plane: &Plane, rules: Vec<RunRule>, before_ns: u64) -> Result<RunReply, RunRefused> {
    let here = plane.rules_before(before_ns);
    let conflicts = plane.conflicts(&plain(rules), before_ns).map_err(|error| wrong(error.to_string()))?;
    let conflict = conflicts.first().map(ToString::to_string);
    Ok(RunReply::Rules { rules: told(here), conflict })
}

/// The first of these, as many as are told.
fn told(rules: Vec<Vec<Rule>>) -> Vec<Vec<RunRule>> {
    let mut left = RULES_BYTES;
    let told = rules.into_iter().map_while(|rules| {
        // A byte of a pattern takes up to six in JSON, and a rule about 50 besides.
        let bytes: usize = rules.iter().map(|rule| 6 * rule.glob.len() + 64).sum();
        left = left.checked_sub(bytes)?;
        Some(rules.into_iter().map(RunRule::from).collect())
    });
    told.collect()
}

fn plain(rules: Vec<RunRule>) -> Vec<Rule> {
    rules.into_iter().map(Rule::from).collect()
}

impl From<Rule> for RunRule {
    fn from(rule: Rule) -> RunRule {
        let Rule { glob, policy, priority } = rule;
        RunRule { glob, policy, priority }
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
    fn the_parent_is_read() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        assert_eq!(parent_of(child.id()), Some(std::process::id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent_of(u32::MAX), None);
    }

    #[test]
    fn hints_are_limited_in_a_request_and_until_they_are_taken() {
        let mut run = Run {
            session: SessionId(1),
            backlogs: vec![Backlog::new(0), Backlog::new(1)],
            unanswered: BTreeSet::new(),
        };
        let hints = |count| vec![RunHint { path: "/a".into(), offset: 0, length: None }; count];
        let code = |answer: Result<(), RunRefused>| answer.err().map(|(code, _)| code);
        assert_eq!(code(run.hint(0, hints(HINTS_WAITING + 1))), Some(ErrorCode::BadSpecification));
        assert_eq!(code(run.hint(0, hints(HINTS_WAITING))), None);
        assert_eq!(code(run.hint(0, hints(1))), Some(ErrorCode::BadSpecification), "not taken yet");
        assert_eq!(code(run.hint(1, hints(1))), None, "another manager's");
        assert_eq!(code(run.hint(2, hints(1))), Some(ErrorCode::BadSpecification), "of none");
    }

    #[test]
    fn of_many_rules_as_many_are_told_as_one_answer_holds() {
        // What takes most in JSON.
        let rule = Rule { glob: "\u{1}".repeat(1000), policy: PoolPolicy::Lru, priority: i32::MIN };
        let told = told(vec![vec![rule; 10]; 1000]);
        assert!((30..1000).contains(&told.len()), "{}", told.len());
        let text = encode(&RunReply::Rules { rules: told, conflict: None });
        assert!(text.len() <= RULES_BYTES && RULES_BYTES < foretell_protocol::limits::TEXT_BYTES);
    }

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
