//! Sessions and processes that come and go.

use std::path::Path;

use foretell_policy::{Event, ManagerId, PoolPolicy};

use crate::error::{Conflict, SessionError};
use crate::options::{Rule, SessionId};
use crate::report::ProcessReport;
use crate::rules::RuleSet;
use crate::sessions::{Prepared, Process, SESSIONS, Session, name_of};
use crate::steering::Steering;

impl Steering {
    /// Adds a session without processes.
    pub(crate) fn begin_session(&mut self, prepared: Prepared) -> Result<SessionId, SessionError> {
        if self.sessions.len() >= SESSIONS {
            return Err(SessionError::TooMany { what: "sessions at a time", limit: SESSIONS as u32 });
        }
        if let Some(conflict) = prepared.rule_sets().flat_map(|rules| self.conflicts(rules)).next() {
            return Err(SessionError::Conflict(conflict));
        }
        let mut ids: Vec<ManagerId> = Vec::new();
        let added = prepared.rule_sets().try_for_each(|rules| {
            let id = self.engine.add_manager(true)?;
            ids.push(id);
            rules.levels().try_for_each(|(priority, policy)| match policy {
                // What a level is anyway; a manager without directives stays an oblivious one.
                PoolPolicy::Lru if priority == 0 => Ok(()),
                _ => self.engine.set_policy(id, priority, policy),
            })
        });
        if let Err(full) = added {
            ids.into_iter().for_each(|id| self.engine.remove_manager(id));
            self.act();
            return Err(SessionError::TooMany { what: full.what, limit: full.limit });
        }
        // New rules may match what no rule has matched so far.
        self.forget_ignored();
        Ok(self.sessions.add(prepared, &ids))
    }

    /// Files that are managed, and for which `rules` say something else.
    pub(crate) fn conflicts(&self, rules: &RuleSet) -> Vec<Conflict> {
        let conflict = |path: &Path, managed: (PoolPolicy, i32)| {
            let Rule { glob, policy, priority } = rules.find(path)?;
            let wanted = (*policy, *priority);
            (wanted != managed).then(|| Conflict {
                path: path.to_owned(),
                glob: glob.clone(),
                managed,
                wanted,
            })
        };
        let managed = self.files.iter().filter_map(|(_, file)| Some((&file.path, file.control?)));
        managed.filter_map(|(path, control)| conflict(path, control)).collect()
    }

    /// Ends a session; returns the processes that need be observed no more.
    pub(crate) fn end_session(&mut self, id: SessionId, usage: impl Fn(u32) -> (u64, u64)) -> Vec<u32> {
        let Some((session, processes)) = self.sessions.remove(id) else { return Vec::new() };
        let mut pids = Vec::new();
        for (pid, process) in processes {
            let (wait_ns, device_read_bytes) = usage(pid);
            self.leave(pid, process, &session, wait_ns, device_read_bytes);
            pids.push(pid);
        }
        for manager in &session.managers {
            self.readahead_off.restore(manager.id);
            self.engine.remove_manager(manager.id);
        }
        self.act();
        self.let_go();
        pids
    }

    /// Lets go of files that no session is interested in any more.
    fn let_go(&mut self) {
        let managers: Vec<ManagerId> = self.sessions.managers().map(|manager| manager.id).collect();
        let unwanted: Vec<_> = self
            .files
            .iter()
            .filter(|(_, file)| {
                !file.listed.iter().any(|id| managers.contains(id))
                    && self.sessions.rule_for(&file.path).is_none()
            })
            .map(|(id, _)| id)
            .collect();
        unwanted.into_iter().for_each(|id| self.retire(id));
    }

    /// A process belongs to a session from now on.
    pub(crate) fn enter_session(&mut self, pid: u32, session: SessionId, name: String) {
        let Some((manager, manager_id)) = self.sessions.manager_of(session, name.as_bytes()) else { return };
        let id = self.engine.add_process(manager_id);
        let process = Process { session, manager, manager_id, id, name };
        self.sessions.insert_process(pid, process);
    }

    pub(crate) fn forked(&mut self, parent: u32, child: u32) {
        let Some(process) = self.sessions.process(parent) else { return };
        let (session, name) = (process.session, process.name.clone());
        self.enter_session(child, session, name);
    }

    pub(crate) fn executed(&mut self, pid: u32, comm: &[u8]) {
        let end = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
        let name = String::from_utf8_lossy(&comm[..end]).into_owned();
        let Some(process) = self.sessions.process(pid) else { return };
        let (session, manager) = (process.session, process.manager);
        let wanted = self.sessions.manager_of(session, &comm[..end]).map(|(at, _)| at);
        if wanted == Some(manager) {
            self.sessions.rename_process(pid, name);
            return;
        }
        // Another program, another manager: for the policy and the report, another process. What the
        // kernel counts by process is told with the last of them.
        self.depart(pid, 0, 0);
        self.enter_session(pid, session, name);
    }

    pub(crate) fn exited(&mut self, pid: u32, device_read_bytes: u64, wait_ns: u64) {
        self.depart(pid, wait_ns, device_read_bytes);
        self.readahead_off.forget_process(pid);
    }

    fn depart(&mut self, pid: u32, wait_ns: u64, device_read_bytes: u64) {
        let Some(process) = self.sessions.remove_process(pid) else { return };
        self.tell(Event::ProcessExited { process: process.id });
        let report = self.process_report(
            pid,
            &process,
            self.sessions.get(process.session),
            wait_ns,
            device_read_bytes,
        );
        self.ledger.end_process(process.id.0, report);
    }

    fn leave(&mut self, pid: u32, process: Process, session: &Session, wait_ns: u64, read_bytes: u64) {
        self.tell(Event::ProcessExited { process: process.id });
        let report = self.process_report(pid, &process, Some(session), wait_ns, read_bytes);
        self.ledger.end_process(process.id.0, report);
    }

    /// What a process has done so far.
    pub(crate) fn process_report(
        &self,
        pid: u32,
        process: &Process,
        session: Option<&Session>,
        wait_ns: u64,
        device_read_bytes: u64,
    ) -> ProcessReport {
        let manager = session.and_then(|session| session.managers.get(process.manager));
        ProcessReport {
            pid: Some(pid),
            name: process.name.clone(),
            manager: manager.map(|manager| manager.name.clone()).unwrap_or_default(),
            wait_s: wait_ns as f64 / 1e9,
            device_read_bytes,
            counts: self.engine.process_counters(process.id).into(),
        }
    }

    /// Regular work, a few times a second: what became of files, and readahead that is no longer to be off.
    pub(crate) fn tend(&mut self, files: usize) {
        for id in self.files.sweep(files) {
            let Some(managed) = self.files.get(id) else { continue };
            if managed.unlinked && managed.folios.cached_pages() == 0 && managed.listed.is_empty() {
                self.retire(id);
            } else {
                let size = managed.size;
                self.resized(id, size);
            }
        }
        if let Some(id) = self.files.next_to_audit() {
            self.audit(id);
        }
        let mut exhausted = Vec::new();
        for manager in self.sessions.managers_mut() {
            let empty = manager.remainder.is_none() && self.engine.disclosed_ahead(manager.id) == 0;
            // Twice, so that a list that is being appended to is not taken for one that has ended.
            if std::mem::replace(&mut manager.list_was_empty, empty) && empty {
                exhausted.push(manager.id);
            }
        }
        for manager in exhausted {
            if self.readahead_off.any(manager) {
                self.readahead_off.restore(manager);
            }
        }
    }
}

/// The name of a process under which it enters a session.
pub(crate) fn present_name(pid: u32) -> Result<String, SessionError> {
    name_of(pid).ok_or(SessionError::NoProcess { pid })
}
