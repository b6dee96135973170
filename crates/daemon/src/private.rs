//! A private host: the same as the service, in the process of a `foretell run` or `foretell learn` that has started a
//! program of its own.
//!
//! The process says the same things about its own program as others say about theirs, without a socket in between
//! ([`Service::begin`], [`Service::ask`]), and drives the loop itself ([`Service::round`]). Who may connect is its user
//! and root; they see all of it. When the own program ends the host does ([`Service::finish`]).

use std::collections::VecDeque;

use foretell_pagecache::{Casting, Plane, SessionId};
use foretell_protocol::ErrorCode;

use crate::connection::Role;
use crate::limits::{Limits, OUTBOX_BYTES_OF_ROOT};
use crate::listener::Listener;
use crate::places;
use crate::run::{self, Run, RunManager, RunRefused, RunReply, RunRequest};
use crate::service::{Service, ServiceError};
use crate::snapshot::SessionStatus;

/// Connections at a time: other runs, and who looks. Two descriptors each, of the 1,024 that a process usually has: the
/// limit is left as it is, since the program would inherit it.
const CONNECTIONS: u32 = 96;
/// Programs of other runs at a time.
const RUNS: u32 = 64;

/// The program that a private host's own process has started.
#[derive(Debug)]
pub(crate) struct Own {
    run: Run,
    /// Answers that nobody has taken yet: one for each message.
    replies: VecDeque<RunReply>,
}

impl Own {
    pub(crate) fn is_waiting(&self) -> bool {
        self.run.is_waiting()
    }

    /// Passes on the hints that wait.
    pub(crate) fn offer(&mut self, plane: &mut Plane) {
        if self.run.is_waiting() {
            self.replies.extend(self.run.offer(plane));
        }
    }
}

impl Service {
    /// A private host on a plane. It listens in its user's directory; when it cannot it says why, and serves nobody
    /// but its own process.
    ///
    /// # Errors
    /// When a descriptor to wait on is not to be had.
    pub fn private(plane: Plane) -> Result<(Service, Option<places::Unlisted>), ServiceError> {
        let (listener, why) = match places::listen() {
            Ok(listener) => (Some(listener), None),
            Err(why) => (None, Some(why)),
        };
        Ok((Service::private_on(plane, listener)?, why))
    }

    fn private_on(plane: Plane, listener: Option<Listener>) -> Result<Service, ServiceError> {
        let limits = Limits {
            sessions: CONNECTIONS,
            sessions_of_user: CONNECTIONS,
            runs: RUNS,
            outbox_bytes: OUTBOX_BYTES_OF_ROOT,
            ..Limits::default()
        };
        let owner = rustix::process::geteuid().as_raw();
        Service::on(plane, listener, limits, Some(owner))
    }

    /// Takes a program of this process under control. Its root and its managers are as in [`RunRequest::Start`];
    /// `casting` says which of its processes follows which list.
    ///
    /// # Errors
    /// What is wrong with them; nothing has changed then.
    pub fn begin(
        &mut self,
        root_pid: u32,
        managers: Vec<RunManager>,
        casting: Option<Casting>,
    ) -> Result<RunReply, RunRefused> {
        let (run, reply) = Run::start(&mut self.plane, root_pid, managers, casting)?;
        self.own = Some(Own { run, replies: VecDeque::new() });
        Ok(reply)
    }

    /// Says something about that program. The answer is had by [`Service::reply`].
    ///
    /// # Errors
    /// A refusal; nothing has changed then.
    pub fn ask(&mut self, request: RunRequest) -> Result<(), RunRefused> {
        let Some(own) = &mut self.own else {
            return Err((ErrorCode::BadSpecification, "start first".to_owned()));
        };
        own.replies.extend(own.run.answer(&mut self.plane, request)?);
        Ok(())
    }

    /// The next answer, if there is one.
    pub fn reply(&mut self) -> Option<RunReply> {
        self.own.as_mut()?.replies.pop_front()
    }

    /// The session of that program.
    #[must_use]
    pub fn own_session(&self) -> Option<SessionId> {
        self.own.as_ref().map(|own| own.run.session())
    }

    /// Hints for that program that could not be followed.
    #[must_use]
    pub fn own_skipped(&self) -> u64 {
        self.own.as_ref().map_or(0, |own| own.run.skipped())
    }

    /// The plane.
    #[must_use]
    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// The plane, for what no message says: lists by reader, recordings.
    pub fn plane_mut(&mut self) -> &mut Plane {
        &mut self.plane
    }

    /// The own program, as one session among the others.
    pub(crate) fn own_row(&self) -> Option<SessionStatus> {
        let session = self.own_session()?;
        Some(SessionStatus {
            session: session.0,
            pid: places::known_as(),
            user: self.owner.unwrap_or_default(),
            run: true,
            age_s: self.started.elapsed().as_secs_f64(),
            counts: self.plane.session_counts(session),
            ..SessionStatus::default()
        })
    }

    /// Tells a connection with a run unasked what was done for it, as far as the socket takes that at once.
    pub(crate) fn tell_report(&mut self, id: u64) {
        let Some(connection) = self.connections.get(&id) else { return };
        let Role::Command(Some(run)) = &connection.role else { return };
        let report = run::encode(&run.report(&self.plane));
        // Who cannot be told is ended by the caller anyway.
        let _ = self.reply_run(id, &report);
    }
}
