//! What is going on at present: managers, processes and files, for whoever watches.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use foretell_policy::Counters;

use crate::options::SessionId;
use crate::plane::Plane;
use crate::report::Report;
use crate::steering::Steering;
use crate::timing::{Piece, Work};

/// The state of a plane ([`Plane::status`], and in pieces [`Plane::survey`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Status {
    /// The budget.
    pub budget_bytes: u64,
    /// The size of a block.
    pub block_bytes: u32,
    /// Blocks of the budget in use: cached, or on their way.
    pub used_blocks: u32,
    /// Placeholders in use.
    pub placeholders: u32,
    /// The counts of all since the plane was opened.
    #[serde(flatten)]
    pub counts: Counters,
    /// Observations that were lost because the ring was full or the kernel passed the observer over (Linux 7.0 and later); residency was corrected after each.
    pub lost_events: u64,
    /// Bytes that the block layer read for the observed processes and for our prefetches.
    pub device_read_bytes: u64,
    /// Time that the observed processes waited for pages to be read, summed over their threads.
    pub wait_s: f64,
    /// Processor time of our own process (user and system) since the first session began.
    pub cpu_s: f64,
    /// How long the pieces of the loop's work took. Empty in what a service of an earlier version says.
    #[serde(default)]
    pub works: Vec<Work>,
    /// The pieces of the round of the loop that took longest, the longest ones first.
    #[serde(default)]
    pub longest_round: Vec<Piece>,
    /// The managers, by session and in the order of its specification.
    pub managers: Vec<ManagerStatus>,
    /// The processes under control, in order of their appearance.
    pub processes: Vec<ProcessStatus>,
    /// The files under control, in order of their appearance.
    pub files: Vec<FileStatus>,
}

/// A manager: who owns blocks and decides on their replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ManagerStatus {
    /// Its session.
    pub session: u32,
    /// Which manager of the session, from 0.
    pub index: u32,
    /// Its name: that of the process which speaks for itself, or the one in the rules.
    pub name: String,
    /// The user of its session.
    pub user: u32,
    /// The process at the root of its session.
    pub root_pid: u32,
    /// Blocks that it owns.
    pub owned_blocks: u32,
    /// Blocks that were taken into its disclosed list, ever.
    pub disclosed: u64,
    /// Blocks that its disclosed list names ahead of the cursor.
    pub disclosed_ahead: u64,
    /// Disclosed ranges that wait for room in the list.
    pub queued: u64,
    /// Times it was asked for a replacement.
    pub consulted: u64,
    /// Times it chose another block than the candidate.
    pub overruled: u64,
    /// Times a placeholder proved such a choice wrong.
    pub placeholders_used: u64,
    /// Is its right to overrule revoked?
    pub revoked: bool,
    /// Times it was revoked.
    pub revocations: u64,
    /// References that its list had predicted.
    pub predicted: u64,
    /// References that it had not, while there was one.
    pub unpredicted: u64,
    /// Predictions that were passed over.
    pub skipped: u64,
    /// Lists that were put aside for being wrong too often.
    pub lists_discarded: u64,
}

/// A process under control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ProcessStatus {
    /// Its number.
    pub pid: u32,
    /// Its name (`/proc/PID/comm`).
    pub name: String,
    /// The user of its session.
    pub user: u32,
    /// It runs with other rights than that user has: what it does is told to root alone. Not told to anybody.
    #[serde(skip)]
    pub foreign: bool,
    /// Session and index of its manager.
    pub session: u32,
    /// See there.
    pub manager: u32,
    /// Time that it waited for pages to be read.
    pub wait_s: f64,
    /// Bytes that the block layer read for it.
    pub device_read_bytes: u64,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counters,
}

/// A file under control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct FileStatus {
    /// Its path when it was last looked at.
    #[serde(serialize_with = "crate::report::readable_path")]
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// How much of it is cached.
    pub cached_bytes: u64,
    /// Sessions that named it by a descriptor.
    pub sessions: Vec<u32>,
    /// Those of them whose user may know what is cached of it: who owns it, or has it open for writing. (The kernel
    /// answers mincore(2) to the same.) Not told to anybody.
    #[serde(skip)]
    pub sessions_that_may_look: Vec<u32>,
    /// The user whose processes have read it; `None` when nobody has, or those of several users.
    pub user: Option<u32>,
    /// Its counts.
    #[serde(flatten)]
    pub counts: Counters,
}

/// What of the state is asked for: a plane may have a quarter of a million files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Only the managers, processes and files of the sessions of this user; of the files' sessions only those.
    pub user: Option<u32>,
    /// So many files and so many processes at most: those with the most references.
    pub rows: usize,
}

impl Scope {
    /// Everything.
    pub const ALL: Scope = Scope { user: None, rows: usize::MAX };

    pub(crate) fn has(&self, user: u32) -> bool {
        self.user.is_none_or(|wanted| wanted == user)
    }
}

impl Plane {
    /// What is going on.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status_of(Scope::ALL).0
    }

    /// The counts of all since the plane was opened.
    #[must_use]
    pub fn counts(&self) -> Counters {
        self.steering.engine.counters()
    }

    /// The share, from 0 to 1, of a manager's references that one of its lists had predicted, of those that came while
    /// there was something left in them; `None` before the first.
    #[must_use]
    pub fn predicted(&self, session: SessionId, manager: usize) -> Option<f64> {
        let manager = self.steering.sessions.manager(session, manager)?.id;
        let counters = self.steering.engine.manager_counters(manager);
        let all = counters.predicted + counters.unpredicted;
        (all > 0).then(|| counters.predicted as f64 / all as f64)
    }

    /// See [`foretell_policy::Engine::known_share`].
    #[must_use]
    pub fn known_share(&self, session: SessionId, manager: usize) -> Option<f64> {
        let manager = self.steering.sessions.manager(session, manager)?.id;
        self.steering.engine.known_share(manager)
    }

    /// What was done for one session and those nested in it, files excepted: whatever else reads them counts
    /// there too. `None` when the session has ended.
    #[must_use]
    pub fn session_report(&self, session: SessionId) -> Option<Report> {
        let steering = &self.steering;
        let own = steering.sessions.get(session)?;
        let mut processes = own.ended.clone();
        for (pid, process) in steering.sessions.processes() {
            if steering.sessions.is_within(process.session, session) {
                let wait_ns = self.observer.wait_ns(pid).unwrap_or(0);
                let bytes = self.observer.device_read_bytes(pid).unwrap_or(0);
                let session = steering.sessions.get(process.session);
                processes.push(steering.process_report(pid, process, session, wait_ns, bytes));
            }
        }
        processes.extend(own.others_ended.clone());
        let missing = if steering.options.compare_with_optimum {
            "the budget is shared with another run, whose report has it"
        } else {
            "a service that runs for long does not keep the references"
        };
        let mut report = Report {
            daemon_cpu_s: self.cpu_s(),
            budget_bytes: steering.options.budget_bytes,
            block_bytes: steering.options.block_bytes,
            lost_events: self.observer.lost_events(),
            belady_missing: Some(missing.to_owned()),
            ..Report::default()
        };
        for process in &processes {
            report.counts += process.counts;
            report.wait_s += process.wait_s;
            report.device_read_bytes += process.device_read_bytes;
        }
        report.processes = processes;
        report.left_out = steering.left_out.of(session);
        Some(report)
    }

    /// The managers of one session; none when it has ended.
    #[must_use]
    pub fn managers(&self, session: SessionId) -> Vec<ManagerStatus> {
        self.steering.managers_of(session)
    }

    /// Has a session named a file of which its user may not know what is cached? Then it is not to be told how much
    /// of what it disclosed had to be fetched.
    #[must_use]
    pub fn is_withheld(&self, session: SessionId) -> bool {
        self.steering.sessions.get(session).is_some_and(|session| session.withheld)
    }

    /// The counts of the processes of one session in all, those included that have left it, but for those that run
    /// with other rights than its user has.
    #[must_use]
    pub fn session_counts(&self, session: SessionId) -> Counters {
        let mut sum = self.steering.sessions.get(session).map_or(Counters::default(), |session| session.past);
        for process in self.steering.sessions.processes_of(session).filter(|process| !process.foreign) {
            sum += self.steering.engine.process_counters(process.id);
        }
        sum
    }
}

impl Steering {
    pub(crate) fn managers_of(&self, id: SessionId) -> Vec<ManagerStatus> {
        let Some(session) = self.sessions.get(id) else { return Vec::new() };
        let managers = session.managers.iter().enumerate().map(|(index, manager)| {
            let counters = self.engine.manager_counters(manager.id);
            ManagerStatus {
                session: id.0,
                index: index as u32,
                name: manager.name.clone(),
                user: session.origin.user,
                root_pid: session.origin.root,
                owned_blocks: self.engine.owned_blocks(manager.id),
                disclosed: manager.disclosed,
                disclosed_ahead: self.engine.disclosed_ahead(manager.id) as u64,
                queued: manager.queue.len() as u64,
                consulted: counters.consulted,
                overruled: counters.overruled,
                placeholders_used: counters.placeholders_used,
                revoked: self.engine.is_revoked(manager.id),
                revocations: counters.revocations,
                predicted: counters.predicted,
                unpredicted: counters.unpredicted,
                skipped: counters.skipped,
                lists_discarded: counters.lists_discarded,
            }
        });
        managers.collect()
    }
}
