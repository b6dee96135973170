//! The state of a client in one process, and its dealings with services that come and go.
//!
//! There is a session or there is none. Without one the program's directives are kept in the client's own copy
//! and hints are dropped, and when it is time, a call tries to connect. A new session is told everything:
//! the policies, the files with a priority, and what the session before was told and did not get done. With a
//! session, what is new goes into its ring; directives that found no room are told again by later calls, from
//! the copy, until all have found room.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use foretell_protocol::Entry;
use rustix::time::{ClockId, clock_gettime};

use crate::directives::Levels;
use crate::error::Error;
use crate::files::{CANDIDATES, Files, Found, RecordId, handle, record_of};
use crate::options::{Fallback, Options};
use crate::session::{Session, SocketNumber};
use crate::undone::Undone;

/// First time between two attempts to connect, doubled after each.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Longest time between two attempts.
const RETRY_LAST: Duration = Duration::from_secs(10);
/// Calls between two looks at the socket.
const CHECK_CALLS: u32 = 256;
/// Time between two looks at the socket.
const CHECK_TIME: Duration = Duration::from_millis(100);
/// A session that lasted this long is worth being begun again at once.
const SETTLED: Duration = Duration::from_secs(1);
/// Files that a service surely takes, until it has said how many.
const FILES_UNTIL_WELCOME: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    options: Options,
    number: SocketNumber,
    pub(crate) session: Option<Session>,
    pub(crate) files: Files,
    pub(crate) levels: Levels,
    /// How far all directives have been told again: a position among the levels, then among the files. `None`
    /// when the service knows everything.
    retelling: Option<usize>,
    /// A withdrawal that found no room. Until it is told, hints wait, as it would withdraw them, too.
    pub(crate) cancelling: bool,
    undone: Undone,
    retry_at: Duration,
    retry_after: Duration,
    calls: u32,
    checked: Duration,
    connected_at: Duration,
    /// Entries sent in earlier sessions.
    sent_before: u64,
    /// Hints dropped so far.
    pub(crate) dropped: u64,
}

impl State {
    pub(crate) fn new(options: &Options, number: SocketNumber) -> State {
        State {
            options: options.clone(),
            number,
            session: None,
            files: Files::default(),
            levels: Levels::default(),
            retelling: None,
            cancelling: false,
            undone: Undone::default(),
            retry_at: Duration::ZERO,
            retry_after: RETRY_FIRST,
            calls: 0,
            checked: Duration::ZERO,
            connected_at: Duration::ZERO,
            sent_before: 0,
            dropped: 0,
        }
    }

    /// Does what is due, at the beginning of each call.
    pub(crate) fn tend(&mut self) {
        let now = now();
        self.files.begin_call(now);
        if let Some(session) = &mut self.session {
            session.pass_time(now);
            self.calls += 1;
            if self.calls >= CHECK_CALLS || now.saturating_sub(self.checked) >= CHECK_TIME {
                self.check();
            }
        }
        if self.session.is_none() && now >= self.retry_at {
            self.connect(now);
        }
        self.retell();
    }

    /// Looks whether the session is still there.
    pub(crate) fn check(&mut self) {
        let now = now();
        (self.calls, self.checked) = (0, now);
        let Some(session) = &mut self.session else { return };
        session.check();
        for refused in session.take_refused() {
            if let Some(record) = self.files.get_mut(record_of(refused)) {
                record.refused = true;
            }
        }
        if session.is_lost() {
            self.sent_before += session.position();
            self.undone = Undone::of(session, &self.files, now);
            self.session = None;
            // At once, as it may have been restarted; but not in a circle with one that does not want us.
            if now.saturating_sub(self.connected_at) >= SETTLED {
                (self.retry_at, self.retry_after) = (now, RETRY_FIRST);
            }
        }
    }

    fn connect(&mut self, now: Duration) {
        self.retry_at = now + self.retry_after;
        self.retry_after = (self.retry_after * 2).min(RETRY_LAST);
        let Ok(session) = Session::open(&self.options.socket, &self.number, now) else { return };
        self.session = Some(session);
        (self.calls, self.checked, self.connected_at) = (0, now, now);
        self.files.begin_session();
        self.cancelling = false;
        self.retelling = Some(0);
        self.retell();
        let undone = std::mem::take(&mut self.undone);
        for (id, entry) in undone.take(now) {
            if !self.introduce(id) || !self.push_hint(id, &entry) {
                self.count_dropped();
            }
        }
        self.publish();
    }

    /// Tells the directives again, as far as there is room.
    fn retell(&mut self) {
        if self.retelling.is_none() && !self.cancelling {
            return;
        }
        let Some(session) = &mut self.session else { return };
        if self.cancelling && session.push_directive(&Entry::Cancel) {
            self.cancelling = false;
        }
        while let Some(at) = self.retelling {
            let told = match (self.levels.directive(at), at.checked_sub(self.levels.len())) {
                (Some(directive), _) => self.push_directive(None, &directive),
                (None, Some(id)) if id < self.files.ids() => self.retell_file(id),
                _ => {
                    self.retelling = None;
                    break;
                }
            };
            if !told {
                break;
            }
            self.retelling = Some(at + 1);
        }
        self.publish();
    }

    /// Tells the priority of a file again. True also when there is nothing to tell, or nobody who could show
    /// the file any more.
    fn retell_file(&mut self, id: RecordId) -> bool {
        let Some(record) = self.files.get(id).filter(|record| !record.refused) else { return true };
        let (Some(priority), Some(file)) = (record.priority, handle(id)) else { return true };
        if !record.known && (self.files.descriptor(id).is_none() || !self.make_room(0)) {
            return true;
        }
        self.introduce(id) && self.push_directive(Some(id), &Entry::SetPriority { file, priority })
    }

    /// Makes sure that the service knows a file. Returns whether it does.
    pub(crate) fn introduce(&mut self, id: RecordId) -> bool {
        let Some((record, file)) = self.files.get(id).zip(handle(id)) else { return false };
        if record.known {
            return true;
        }
        let Some((descriptor, _)) = self.files.descriptor(id) else { return false };
        if !self.make_room(0) {
            return false;
        }
        let Some(session) = &mut self.session else { return false };
        let sent = session.send_files(&[(file, descriptor)]);
        if let Some(record) = self.files.get_mut(id) {
            record.known = sent;
        }
        sent
    }

    /// Makes room for one more file in the session beside `coming` others, if need be by withdrawing one that
    /// nothing hangs on. Returns whether there is room.
    pub(crate) fn make_room(&mut self, coming: usize) -> bool {
        let Some(session) = &mut self.session else { return false };
        let most = session.welcome().map_or(FILES_UNTIL_WELCOME, |limits| limits.files as usize);
        if session.files() + coming < most {
            return true;
        }
        let consumed = session.consumed();
        let victim = self.files.victim(CANDIDATES, |record| record.known && record.may_go(consumed));
        let Some((id, file)) = victim.and_then(|id| Some((id, handle(id)?))) else { return false };
        if !session.forget(file) {
            return false;
        }
        if let Some(record) = self.files.get_mut(id) {
            record.known = false;
        }
        true
    }

    /// The record of a file, added if need be. `None` when there are too many, and among `candidates` of them
    /// none could be forgotten. `midway` as in [`Files::find`].
    pub(crate) fn record(
        &mut self,
        descriptor: BorrowedFd<'_>,
        candidates: usize,
        midway: bool,
    ) -> Result<Option<RecordId>, Error> {
        let seen = match self.files.find(descriptor, midway)? {
            Found::Known(id) => return Ok(Some(id)),
            Found::Unknown(seen) => seen,
        };
        if self.files.is_full() {
            let consumed = self.session.as_ref().map_or(u64::MAX, Session::consumed);
            let Some(victim) = self.files.victim(candidates, |record| record.may_go(consumed)) else {
                return Ok(None);
            };
            if let Some(session) = &mut self.session
                && self.files.get(victim).is_some_and(|record| record.known)
                && !handle(victim).is_some_and(|file| session.forget(file))
            {
                return Ok(None);
            }
            self.files.remove(victim);
        }
        Ok(Some(self.files.add(descriptor, seen)))
    }

    /// Are hints of use to anybody?
    pub(crate) fn hints_matter(&self) -> bool {
        self.session.is_some() || self.undone.is_open(now())
    }

    /// Writes a hint about a file. Returns whether there was room.
    pub(crate) fn push_hint(&mut self, id: RecordId, entry: &Entry) -> bool {
        let Some(session) = &mut self.session else {
            self.undone.add(id, entry);
            return true;
        };
        if self.cancelling || !session.push_hint(entry) {
            return false;
        }
        if let Some(record) = self.files.get_mut(id) {
            record.position = session.position();
        }
        true
    }

    /// Counts a hint that was dropped.
    pub(crate) fn count_dropped(&mut self) {
        self.dropped += 1;
        if let Some(session) = &self.session {
            session.count_dropped(1);
        }
    }

    /// Writes a directive. Returns whether there was room.
    pub(crate) fn push_directive(&mut self, id: Option<RecordId>, entry: &Entry) -> bool {
        let Some(session) = &mut self.session else { return false };
        let told = session.push_directive(entry);
        if let Some(record) = id.filter(|_| told).and_then(|id| self.files.get_mut(id)) {
            record.position = session.position();
        }
        told
    }

    /// Notes that a directive found no room: all are told again.
    pub(crate) fn tell_later(&mut self) {
        self.retelling = Some(0);
    }

    /// Withdraws what was disclosed.
    pub(crate) fn cancel(&mut self) {
        self.undone = Undone::default();
        self.cancelling = self.session.is_some();
        self.retell();
    }

    /// Shows the service what was written.
    pub(crate) fn publish(&mut self) {
        if let Some(session) = &mut self.session {
            session.publish();
        }
    }

    /// Entries sent so far, to all services.
    pub(crate) fn sent(&self) -> u64 {
        self.sent_before + self.session.as_ref().map_or(0, Session::position)
    }

    /// What to do without a session.
    pub(crate) fn fallback(&self) -> Fallback {
        match self.session {
            Some(_) => Fallback::Nothing,
            None => self.options.fallback,
        }
    }
}

/// The clock, to the tick (some milliseconds), which costs less than asking for the exact time.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
