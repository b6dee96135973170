//! A status that is made a piece at a time.
//!
//! A plane may have a quarter of a million files and thousands of sessions. To go through them takes tens of
//! milliseconds, for which nobody is to wait. So whoever drives the loop has a [`Survey`] made in pieces of some ten
//! microseconds each ([`Plane::survey`]), and sees to others between them. A row is as things were when its piece was
//! made, the sums are those at the end; what has come and gone in between may be missing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use foretell_policy::{FileId, ProcessId};

use crate::options::SessionId;
use crate::plane::Plane;
use crate::sessions::Session;
use crate::status::{FileStatus, ProcessStatus, Scope, Status};

/// Sessions gone through in a piece, unless their files are as many as below.
const SESSIONS: usize = 64;
/// Files or processes looked at in a piece, to choose those that are told of.
const LOOKED_AT: usize = 2048;
/// Files told of in a piece.
const FILES: usize = 64;
/// Processes told of in a piece: the kernel is asked about each.
const PROCESSES: usize = 16;

/// What is known so far.
#[derive(Debug)]
pub struct Survey {
    scope: Scope,
    stage: Stage,
    /// Files that were looked at already: several sessions name the same.
    seen: HashSet<FileId>,
    files: Most<FileId>,
    /// Numbers of the files' registrations, in the order of the rows.
    serials: Vec<u32>,
    status: Status,
    processes_omitted: u64,
}

/// What comes next.
#[derive(Debug)]
enum Stage {
    /// The files that sessions after this one have named.
    Named(Option<SessionId>),
    /// The files from this place in the table on.
    Slots(usize),
    /// The rows of the files from this one on.
    Files(Vec<(u32, FileId)>, usize),
    /// Managers of the sessions after this one, and who names the files.
    Holders(Option<SessionId>),
    /// Which processes are told of, from this one on.
    Processes(Vec<(ProcessId, u32)>, usize, Most<(ProcessId, u32)>),
    /// Their rows from this one on.
    ProcessRows(Vec<(ProcessId, u32)>, usize),
    Done,
}

/// Those with the highest numbers, no more than are wanted; of equals the first.
#[derive(Debug)]
struct Most<T> {
    wanted: usize,
    omitted: u64,
    kept: BinaryHeap<Reverse<(u64, Reverse<T>)>>,
}

impl<T: Ord> Most<T> {
    fn new(wanted: usize) -> Most<T> {
        Most { wanted, omitted: 0, kept: BinaryHeap::new() }
    }

    fn add(&mut self, number: u64, what: T) {
        self.kept.push(Reverse((number, Reverse(what))));
        if self.kept.len() > self.wanted {
            self.kept.pop();
            self.omitted += 1;
        }
    }

    /// In no order.
    fn into_kept(self) -> impl Iterator<Item = T> {
        self.kept.into_iter().map(|Reverse((_, Reverse(what)))| what)
    }
}

impl Survey {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(scope: Scope) -> Survey {
        let stage = if scope.user.is_some() { Stage::Named(None) } else { Stage::Slots(0) };
        Survey {
            scope,
            stage,
            seen: HashSet::new(),
            files: Most::new(scope.rows),
            serials: Vec::new(),
            status: Status::default(),
            processes_omitted: 0,
        }
    }

    /// What there is, and what was left out because there was so much of it.
    #[must_use]
    pub fn into_status(self) -> (Status, Omitted) {
        (self.status, Omitted { files: self.files.omitted, processes: self.processes_omitted })
    }
}

/// Rows that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Omitted {
    /// Files with few references.
    pub files: u64,
    /// Processes with few references.
    pub processes: u64,
}

impl Plane {
    /// Makes another piece of a survey; says whether that was the last one.
    pub fn survey(&self, survey: &mut Survey) -> bool {
        match std::mem::replace(&mut survey.stage, Stage::Done) {
            Stage::Named(after) => self.look_for_named(survey, after),
            Stage::Slots(at) => self.look_for_files(survey, at),
            Stage::Files(chosen, at) => self.tell_files(survey, chosen, at),
            Stage::Holders(after) => self.tell_holders(survey, after),
            Stage::Processes(all, at, most) => self.look_for_processes(survey, all, at, most),
            Stage::ProcessRows(chosen, at) => self.tell_processes(survey, chosen, at),
            Stage::Done => {}
        }
        if !matches!(survey.stage, Stage::Done) {
            return false;
        }
        self.tell_sums(&mut survey.status);
        true
    }

    /// What is going on, as far as it is asked for, all at once.
    #[must_use]
    pub fn status_of(&self, scope: Scope) -> (Status, Omitted) {
        let mut survey = Survey::new(scope);
        while !self.survey(&mut survey) {}
        survey.into_status()
    }

    fn look_for_named(&self, survey: &mut Survey, after: Option<SessionId>) {
        let (engine, scope) = (&self.steering.engine, survey.scope);
        let last = self.some_sessions(after, |_, session| {
            if scope.has(session.origin.user) {
                for file in session.held.keys().filter(|file| survey.seen.insert(**file)) {
                    survey.files.add(engine.file_counters(*file).references, *file);
                }
            }
        });
        match last {
            Some(last) => survey.stage = Stage::Named(Some(last)),
            None => self.choose(survey),
        }
    }

    fn look_for_files(&self, survey: &mut Survey, at: usize) {
        let steering = &self.steering;
        for (file, _) in steering.files.between(at, LOOKED_AT) {
            survey.files.add(steering.engine.file_counters(file).references, file);
        }
        if at + LOOKED_AT < steering.files.slots() {
            survey.stage = Stage::Slots(at + LOOKED_AT);
        } else {
            self.choose(survey);
        }
    }

    /// Which files are told of, in the order of their registration.
    fn choose(&self, survey: &mut Survey) {
        let omitted = survey.files.omitted;
        let all = std::mem::replace(&mut survey.files, Most::new(0));
        survey.files.omitted = omitted;
        survey.seen = HashSet::new();
        let serial = |file| Some((self.steering.files.get(file)?.serial, file));
        let mut chosen: Vec<_> = all.into_kept().filter_map(serial).collect();
        chosen.sort_unstable();
        survey.stage = Stage::Files(chosen, 0);
    }

    fn tell_files(&self, survey: &mut Survey, chosen: Vec<(u32, FileId)>, at: usize) {
        let steering = &self.steering;
        for &(serial, id) in chosen.iter().skip(at).take(FILES) {
            let file = steering.files.get(id).filter(|file| file.serial == serial);
            let Some(file) = file else { continue };
            survey.serials.push(serial);
            survey.status.files.push(FileStatus {
                path: file.path.clone(),
                size_bytes: file.size,
                cached_bytes: file.folios.cached_pages() * crate::kernel::page_bytes(),
                sessions_that_may_look: Vec::new(),
                sessions: Vec::new(),
                user: file.used_by.filter(|_| !file.used_by_others),
                counts: steering.engine.file_counters(id),
            });
        }
        let next = at + FILES;
        survey.stage = if next < chosen.len() { Stage::Files(chosen, next) } else { Stage::Holders(None) };
    }

    fn tell_holders(&self, survey: &mut Survey, after: Option<SessionId>) {
        let Survey { scope, serials, status, .. } = survey;
        let last = self.some_sessions(after, |id, session| {
            if !scope.has(session.origin.user) {
                return;
            }
            status.managers.extend(self.steering.managers_of(id));
            for holding in session.held.values() {
                let row = serials.binary_search(&holding.serial).ok();
                let Some(file) = row.and_then(|row| status.files.get_mut(row)) else { continue };
                file.sessions.push(id.0);
                if holding.may_look {
                    file.sessions_that_may_look.push(id.0);
                }
            }
        });
        survey.stage = match last {
            Some(last) => Stage::Holders(Some(last)),
            None => {
                let processes = self.steering.sessions.processes().into_iter();
                let of_scope = processes.filter(|(_, process)| survey.scope.has(process.user));
                let all = of_scope.map(|(pid, process)| (process.id, pid)).collect();
                Stage::Processes(all, 0, Most::new(survey.scope.rows))
            }
        };
    }

    /// Goes through the sessions after one, some at a time; which was the last, if there may be more.
    fn some_sessions(
        &self,
        after: Option<SessionId>,
        mut visit: impl FnMut(SessionId, &Session),
    ) -> Option<SessionId> {
        let mut files = 0;
        let mut last = None;
        for (id, session) in self.steering.sessions.after(after).take(SESSIONS) {
            visit(id, session);
            last = Some(id);
            files += session.held.len();
            if files >= LOOKED_AT {
                break;
            }
        }
        last
    }

    fn look_for_processes(
        &self,
        survey: &mut Survey,
        all: Vec<(ProcessId, u32)>,
        at: usize,
        mut most: Most<(ProcessId, u32)>,
    ) {
        for &(id, pid) in all.iter().skip(at).take(LOOKED_AT) {
            most.add(self.steering.engine.process_counters(id).references, (id, pid));
        }
        let next = at + LOOKED_AT;
        survey.stage = if next < all.len() {
            Stage::Processes(all, next, most)
        } else {
            survey.processes_omitted = most.omitted;
            let mut chosen: Vec<_> = most.into_kept().collect();
            chosen.sort_unstable();
            Stage::ProcessRows(chosen, 0)
        };
    }

    fn tell_processes(&self, survey: &mut Survey, chosen: Vec<(ProcessId, u32)>, at: usize) {
        for &(id, pid) in chosen.iter().skip(at).take(PROCESSES) {
            // Its number may have come back for another one.
            let process = self.steering.sessions.process(pid).filter(|process| process.id == id);
            let Some(process) = process.filter(|process| survey.scope.has(process.user)) else { continue };
            survey.status.processes.push(ProcessStatus {
                pid,
                name: process.name.clone(),
                user: process.user,
                foreign: process.foreign,
                session: process.session.0,
                manager: process.manager as u32,
                wait_s: self.observer.wait_ns(pid).unwrap_or(0) as f64 / 1e9,
                device_read_bytes: self.observer.device_read_bytes(pid).unwrap_or(0),
                counts: self.steering.engine.process_counters(id),
            });
        }
        let next = at + PROCESSES;
        survey.stage = if next < chosen.len() { Stage::ProcessRows(chosen, next) } else { Stage::Done };
    }

    fn tell_sums(&self, status: &mut Status) {
        let (observer, steering) = (&self.observer, &self.steering);
        let engine = &steering.engine;
        status.budget_bytes = steering.options.budget_bytes;
        status.block_bytes = steering.options.block_bytes;
        status.used_blocks = engine.used_blocks();
        status.placeholders = engine.placeholders();
        status.counts = engine.counters();
        status.lost_events = observer.lost_events();
        status.device_read_bytes = self.device_read_bytes();
        status.wait_s = observer.total_wait_ns() as f64 / 1e9;
        status.cpu_s = self.cpu_s();
        status.works = self.timing.works();
        status.longest_round = self.timing.longest_round();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_the_highest_numbers_are_kept_and_of_equals_the_first() {
        let mut most = Most::new(3);
        for (number, what) in [(5, 1), (1, 2), (9, 3), (5, 4), (5, 5), (2, 6)] {
            most.add(number, what);
        }
        assert_eq!((most.omitted, most.kept.len()), (3, 3));
        let mut kept: Vec<i32> = most.into_kept().collect();
        kept.sort_unstable();
        assert_eq!(kept, [1, 3, 4]);
        let mut none = Most::new(0);
        none.add(7, 1);
        assert_eq!((none.omitted, none.into_kept().count()), (1, 0));
    }
}
