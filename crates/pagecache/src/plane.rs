//! The plane: one loop that observes, asks the policy, and has its actions done.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::error::{Conflict, DiscloseError, OpenError, RuleError, SessionError, StepError};
use crate::options::{HintChunk, Options, Rule, SessionId, SessionSpec};
use crate::report::{Counts, Report};

/// How much of a disclosed list was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disclosed {
    /// Chunks taken: offer the rest again after a [`Plane::step`] or more.
    pub chunks: usize,
    /// Blocks that these chunks stand for.
    pub blocks: u64,
}

/// The page cache under a policy. See the crate's documentation.
///
/// Call [`Plane::open`] before the process starts other threads: it forks a small process that, should
/// this one be killed, undoes what was changed in the observed programs' open files.
#[derive(Debug)]
pub struct Plane {
    options: Options,
}

impl Plane {
    /// Checks the options, loads the observer, starts the threads that prefetch and evict.
    ///
    /// # Errors
    /// When an option is out of range, or a mechanism that cannot be done without is missing.
    pub fn open(options: Options) -> Result<Plane, OpenError> {
        Ok(Plane { options })
    }

    /// Takes a process tree under control. To lose nothing, add the session before the root runs.
    ///
    /// # Errors
    /// When a rule does not parse or conflicts with what holds, the root does not exist or is under
    /// control already, or a table is full. Nothing has changed then.
    pub fn add_session(&mut self, spec: SessionSpec) -> Result<SessionId, SessionError> {
        Err(SessionError::NoProcess { pid: spec.root_pid })
    }

    /// Ends a session: its processes run on as on the plain kernel; its counts stay in the report.
    /// A session that does not exist is ignored.
    pub fn end_session(&mut self, session: SessionId) {
        let _ = session;
    }

    /// Processes of a session that are alive, as far as observed; 0 for one that has ended.
    #[must_use]
    pub fn live_processes(&self, session: SessionId) -> usize {
        let _ = session;
        0
    }

    /// Appends to the list of what the processes of a manager (number `manager` of the session's
    /// specification, from 0) will read, in this order. Takes as many chunks as the policy's list has
    /// room for; 0 chunks mean that it is full at present.
    ///
    /// # Errors
    /// At the first chunk that cannot be taken; those before it were taken. Leave that one out and go
    /// on with the next, or give up.
    pub fn disclose(
        &mut self,
        session: SessionId,
        manager: usize,
        hints: &[HintChunk],
    ) -> Result<Disclosed, DiscloseError> {
        let _ = (session, manager, hints);
        Ok(Disclosed::default())
    }

    /// One round of the loop: waits until something happens, at most `timeout`, and acts on it.
    /// Returns which of `extra_fds` (positions in the slice) are readable or hung up.
    ///
    /// # Errors
    /// When the loop cannot go on.
    pub fn step(&mut self, extra_fds: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<usize>, StepError> {
        let _ = (extra_fds, timeout);
        Ok(Vec::new())
    }

    /// The files that are managed already and for which `rules` name another policy or priority.
    ///
    /// # Errors
    /// When a rule does not parse.
    pub fn conflicts(&self, rules: &[Rule]) -> Result<Vec<Conflict>, RuleError> {
        let _ = rules;
        Ok(Vec::new())
    }

    /// What was done so far. Computing `belady_fetches` takes time and memory in proportion to the
    /// references: ask once, at the end.
    pub fn report(&mut self) -> Report {
        Report {
            elapsed_s: 0.0,
            wait_s: 0.0,
            daemon_cpu_s: 0.0,
            budget_bytes: self.options.budget_bytes,
            block_bytes: self.options.block_bytes,
            counts: Counts::default(),
            lost_events: 0,
            device_read_bytes: 0,
            belady_fetches: None,
            belady_missing: None,
            processes: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Ends all sessions, restores what was changed, writes the record of references.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn finish(mut self) -> Result<Report, OpenError> {
        Ok(self.report())
    }
}
