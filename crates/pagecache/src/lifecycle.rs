//! Sessions and processes that come and go.

use std::path::Path;

use foretell_policy::{FileId, Input, ManagerId, PoolPolicy};

use crate::casting::Casting;
use crate::error::{Conflict, SessionError};
use crate::ledger::add_process;
use crate::options::{Rule, SessionId};
use crate::report::{ProcessReport, REPORTED_PROCESSES};
use crate::rules::RuleSet;
use crate::sessions::{Origin, Prepared, Process, SESSIONS, Session, name_of};
use crate::steering::Steering;

impl Steering {
    /// Adds a session without processes.
    pub(crate) fn begin_session(
        &mut self,
        mut prepared: Prepared,
        origin: Origin,
    ) -> Result<SessionId, SessionError> {
        if self.sessions.len() >= SESSIONS {
            return Err(SessionError::TooMany { what: "sessions at a time", limit: SESSIONS as u32 });
        }
        if prepared.rule_sets().any(|rules| !rules.is_empty()) {
            self.sessions.all_rules().iter().for_each(|earlier| prepared.yield_to(earlier));
        }
        let mut ids: Vec<ManagerId> = Vec::new();
        let added = prepared.rule_sets().try_for_each(|rules| {
            let id = self.engine.add_manager(true)?;
            ids.push(id);
            rules.levels().try_for_each(|(priority, policy)| match (priority, policy) {
                // What a level is anyway; a manager without directives stays an oblivious one.
                (0, policy) if policy == PoolPolicy::default() => Ok(()),
                _ => self.engine.set_policy(id, priority, policy),
            })
        });
        if let Err(full) = added {
            ids.into_iter().for_each(|id| self.engine.remove_manager(id));
            self.act();
            return Err(SessionError::TooMany { what: full.what, limit: full.limit });
        }
        let has_rules = prepared.rule_sets().any(|rules| !rules.is_empty());
        let session = self.sessions.add(prepared, &ids, origin);
        if has_rules {
            // New rules may match what no rule has matched so far.
            self.forget_ignored();
            self.claim_by_rules();
        }
        Ok(session)
    }

    /// Files that are managed by rules of sessions that had begun before `ns`, and for which `rules` say something else.
    pub(crate) fn conflicts(&self, rules: &RuleSet, ns: u64) -> Vec<Conflict> {
        let conflict = |path: &Path| {
            let Rule { glob, policy, priority } = rules.find(path)?;
            let wanted = (*policy, *priority);
            let managed = self.sessions.rule_before(path, ns).map(|rule| (rule.policy, rule.priority))?;
            (wanted != managed).then(|| Conflict {
                path: path.to_owned(),
                glob: glob.clone(),
                managed,
                wanted,
            })
        };
        let managed = self.files.iter().filter(|(_, file)| file.control.is_some());
        managed.filter_map(|(_, file)| conflict(&file.path)).collect()
    }

    /// Ends a session; returns the processes that need be observed no more. Those of a session nested in
    /// another one go back to that.
    pub(crate) fn end_session(&mut self, id: SessionId, usage: impl Fn(u32) -> (u64, u64)) -> Vec<u32> {
        let Some((session, processes)) = self.sessions.remove(id) else { return Vec::new() };
        if !self.options.list_ended {
            self.left_out.forget(id);
        }
        let mut pids = Vec::new();
        for (pid, process) in processes {
            let (wait_ns, device_read_bytes) = usage(pid);
            let name = process.name.clone();
            self.leave(pid, process, &session, wait_ns, device_read_bytes);
            match session.origin.enclosing {
                Some(enclosing) => self.enter_session(pid, enclosing, name),
                None => pids.push(pid),
            }
        }
        let ended: Vec<ManagerId> = session.managers.iter().map(|manager| manager.id).collect();
        for manager in &session.managers {
            self.readahead_off.restore(manager.id);
            self.engine.remove_manager(manager.id);
        }
        self.act();
        for (&file, holding) in &session.held {
            if let Some(managed) = self.files.get_serial(file, holding.serial) {
                managed.holders -= 1;
            }
        }
        // A session without rules has no files but those that it named, unless lists named some by path.
        let files: Vec<FileId> = if session.origin.by_descriptors {
            session.held.keys().copied().collect()
        } else {
            self.files.iter().map(|(id, _)| id).collect()
        };
        self.let_go(files, &ended);
        if self.sessions.len() == 0 {
            self.let_all_orphans_lie();
        }
        pids
    }

    /// Forgets what managers that have ended wanted of some files. Those that nobody is interested in any more are
    /// abandoned by and by.
    pub(crate) fn let_go(&mut self, files: Vec<FileId>, ended: &[ManagerId]) {
        for id in files {
            let Some(managed) = self.files.get_mut(id) else { continue };
            // The numbers of managers are given out again.
            managed.listed.retain(|manager| !ended.contains(manager));
            managed.placed.retain(|manager| !ended.contains(manager));
            if managed.holders == 0 && managed.listed.is_empty() {
                self.let_lie(id);
            }
        }
    }

    /// A process belongs to a session from now on.
    pub(crate) fn enter_session(&mut self, pid: u32, session: SessionId, name: String) {
        let foreign = self.sessions.is_foreign(session, pid);
        self.enter_as(pid, session, name, foreign);
    }

    /// The same where it is known whether it has other rights than the session's user.
    fn enter_as(&mut self, pid: u32, session: SessionId, name: String, foreign: bool) {
        let Some((manager, manager_id)) = self.sessions.manager_of(session, name.as_bytes()) else { return };
        let Some(user) = self.sessions.get(session).map(|session| session.origin.user) else { return };
        let id = self.engine.add_process(manager_id);
        let process = Process { session, manager, manager_id, id, user, name, foreign, cast: false };
        self.sessions.insert_process(pid, process);
    }

    pub(crate) fn forked(&mut self, parent: u32, child: u32) {
        let Some(process) = self.sessions.process(parent) else { return };
        let (session, name, foreign) = (process.session, process.name.clone(), process.foreign);
        if let Some(casting) = self.casting(session) {
            casting.forked(parent, child);
        }
        self.enter_as(child, session, name, foreign);
    }

    fn casting(&mut self, session: SessionId) -> Option<&mut Casting> {
        self.sessions.get_mut(session)?.casting.as_mut()
    }

    /// Puts a process on the list of its role, once.
    pub(crate) fn cast(&mut self, pid: u32) {
        let Some(process) = self.sessions.process_mut(pid).filter(|process| !process.cast) else { return };
        process.cast = true;
        let (session, process) = (process.session, process.id);
        if let Some(list) = self.casting(session).and_then(|casting| casting.list(pid)) {
            self.tell(Input::ReaderAssigned { process, list });
        }
    }

    /// The session that a process belongs to at present and that a session of its own would be nested in.
    ///
    /// # Errors
    /// When it is the root of that, and the two are of the same kind.
    pub(crate) fn enclosing(
        &self,
        pid: u32,
        by_descriptors: bool,
    ) -> Result<Option<SessionId>, SessionError> {
        let present = self.sessions.process(pid).map(|process| process.session);
        let same = |id: &SessionId| {
            let origin = self.sessions.get(*id).map(|session| session.origin);
            origin.is_some_and(|origin| origin.root == pid && origin.by_descriptors == by_descriptors)
        };
        match present.filter(same) {
            Some(session) => Err(SessionError::AlreadyManaged { pid, session }),
            None => Ok(present),
        }
    }

    /// A process leaves the session that it belongs to for one of its own.
    pub(crate) fn move_to_session(&mut self, pid: u32, session: SessionId) {
        let Some(name) = self.sessions.process(pid).map(|process| process.name.clone()) else { return };
        self.depart(pid, 0, 0);
        self.enter_session(pid, session, name);
    }

    pub(crate) fn executed(&mut self, pid: u32, comm: &[u8]) {
        let end = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
        let name = String::from_utf8_lossy(&comm[..end]).into_owned();
        let Some(process) = self.sessions.process(pid) else { return };
        let (session, manager) = (process.session, process.manager);
        if let Some(casting) = self.casting(session) {
            casting.executed(pid, &name);
        }
        let wanted = self.sessions.manager_of(session, &comm[..end]).map(|(at, _)| at);
        let foreign = self.sessions.is_foreign(session, pid);
        if wanted == Some(manager) {
            self.sessions.rename_process(pid, name, foreign);
            return;
        }
        // Another program, another manager: for the policy and the report, another process. What the
        // kernel counts by process is told with the last of them.
        self.depart(pid, 0, 0);
        self.enter_as(pid, session, name, foreign);
    }

    pub(crate) fn exited(&mut self, pid: u32, device_read_bytes: u64, wait_ns: u64) {
        if let Some(session) = self.sessions.process(pid).map(|process| process.session)
            && let Some(casting) = self.casting(session)
        {
            casting.exited(pid);
        }
        self.depart(pid, wait_ns, device_read_bytes);
        self.readahead_off.forget_process(pid);
        self.files.descriptors.forget_process(pid);
    }

    fn depart(&mut self, pid: u32, wait_ns: u64, device_read_bytes: u64) {
        let Some(process) = self.sessions.remove_process(pid) else { return };
        self.tell(Input::ProcessExited { process: process.id });
        let report = self.process_report(
            pid,
            &process,
            self.sessions.get(process.session),
            wait_ns,
            device_read_bytes,
        );
        if !process.foreign {
            self.remember(process.session, &report);
        }
        self.ledger.end_process(process.id.0, report);
    }

    fn leave(&mut self, pid: u32, process: Process, session: &Session, wait_ns: u64, read_bytes: u64) {
        self.tell(Input::ProcessExited { process: process.id });
        let report = self.process_report(pid, &process, Some(session), wait_ns, read_bytes);
        if let Some(enclosing) = session.origin.enclosing
            && !process.foreign
        {
            self.remember(enclosing, &report);
        }
        self.ledger.end_process(process.id.0, report);
    }

    /// Keeps what a process of a session has done, for the session's own report.
    fn remember(&mut self, session: SessionId, report: &ProcessReport) {
        let Some(session) = self.sessions.get_mut(session) else { return };
        session.past += report.counts;
        if !session.origin.by_descriptors {
            if session.ended.len() < REPORTED_PROCESSES {
                session.ended.push(report.clone());
            } else {
                add_process(&mut session.others_ended, report);
            }
        }
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
            counts: self.engine.process_counters(process.id),
        }
    }

    /// A file has another size or name, or none any more.
    pub(crate) fn has_changed(&mut self, id: FileId) {
        // What is cached of it is told when the observer knows of it.
        self.follow_copy(id);
        let Some(managed) = self.files.get(id) else { return };
        let named = managed.holders > 0 || !managed.listed.is_empty();
        let forgotten = managed.unlinked || managed.is_orphan();
        if forgotten && managed.folios.cached_pages() == 0 && !named {
            self.retire(id);
        } else {
            let size = managed.size;
            self.resized(id, size);
        }
    }

    /// Regular work, a few times a second: what became of files, and readahead that is no longer to be off.
    pub(crate) fn tend(&mut self, files: usize) {
        for id in self.files.sweep(files) {
            self.has_changed(id);
        }
        if let Some((id, at)) = self.files.next_to_audit() {
            let next = self.audit(id, at);
            self.files.audit_on(next);
        }
        let mut exhausted = Vec::new();
        for (session, at) in self.sessions.listing.clone() {
            let Some(manager) = self.sessions.manager_mut(session, at) else { continue };
            let empty = manager.queue.is_empty() && self.engine.disclosed_ahead(manager.id) == 0;
            // Twice, so that a list that is being appended to is not taken for one that has ended.
            if std::mem::replace(&mut manager.list_was_empty, empty) && empty {
                exhausted.push(manager.id);
                self.sessions.listing.remove(&(session, at));
            }
        }
        for manager in exhausted {
            self.readahead_off.restore(manager);
        }
    }
}

/// The name of a process under which it enters a session.
pub(crate) fn present_name(pid: u32) -> Result<String, SessionError> {
    name_of(pid).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => SessionError::NoProcess { pid },
        _ => SessionError::Unreadable { pid, source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_sessions_there_are_at_a_time() {
        let mut steering = Steering::idle();
        let mut begin = || {
            let origin = Origin { root: 1, user: 7, account: 7, enclosing: None, by_descriptors: true };
            steering.begin_session(Prepared::new(&[]).unwrap(), origin)
        };
        assert_eq!((0..SESSIONS).filter(|_| begin().is_err()).count(), 0);
        let refused = begin().map_err(|error| error.to_string());
        assert!(matches!(&refused, Err(why) if why.contains("8192")), "{refused:?}");
    }
}
