//! Status reports, made and written a piece at a time.
//!
//! What a service may have to tell is thousands of rows, which takes tens of milliseconds. So a report is made in its
//! user's turns, like any other work of that user's, and one at a time for a user: who asks on a second connection
//! waits for the first answer, and what is said on a connection behind the question waits for the answer.

use std::ops::Bound;

use foretell_pagecache::SessionId;

use crate::connection::Role;
use crate::places;
use crate::service::Service;
use crate::snapshot::{SessionStatus, Snapshot, Writing};
use crate::unfinished::{Making, Sessions, Stage, Telling};

/// Connections gone through in a piece.
const CONNECTIONS: usize = 64;

impl Service {
    /// Goes on with a report by a piece; gives it when it is whole.
    pub(crate) fn tell_on(&self, telling: &mut Telling) -> Option<String> {
        match std::mem::replace(&mut telling.stage, Stage::Written) {
            Stage::Making(mut making) => {
                telling.stage = match self.make_on(&mut making) {
                    false => Stage::Making(making),
                    true => {
                        let mut seen = self.made(*making).visible_to(telling.viewer);
                        if let Some(user) = telling.user {
                            seen = seen.of_user(user);
                        }
                        Stage::Writing(Box::new(Writing::new(seen)))
                    }
                };
                None
            }
            Stage::Writing(mut writing) => {
                if writing.write_on() {
                    return Some(writing.fit(telling.most_bytes));
                }
                telling.stage = Stage::Writing(writing);
                None
            }
            Stage::Written => Some(String::new()),
        }
    }

    /// Goes on with a snapshot by a piece; says whether that was the last one.
    pub(crate) fn make_on(&self, making: &mut Making) -> bool {
        if making.sessions.are_known {
            return self.plane.survey(&mut making.survey);
        }
        self.look_at_sessions(making.user, &mut making.sessions);
        false
    }

    /// The snapshot that was made.
    pub(crate) fn made(&self, making: Making) -> Snapshot {
        let Making { sessions: Sessions { rows, withheld, .. }, survey, .. } = making;
        let (cache, omitted) = survey.into_status();
        Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: places::known_as(),
            private: self.owner.is_some(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            sessions_open: self.owners.sessions() + u32::from(self.own.is_some()),
            sessions_opened: self.opened + u64::from(self.own.is_some()),
            sessions_refused: self.refused,
            sessions: rows,
            withheld,
            rows_omitted: omitted.files + omitted.processes,
            processes_omitted: omitted.processes,
            cache,
        }
    }

    /// Goes on with the rows of the sessions, or of those of one user.
    fn look_at_sessions(&self, user: Option<u32>, sessions: &mut Sessions) {
        let is_wanted = |of: u32| user.is_none_or(|wanted| wanted == of);
        if sessions.after.is_none()
            && let Some(own) = self.own_row().filter(|row| is_wanted(row.user))
        {
            sessions.note_withheld(self, own.session);
            sessions.rows.push(own);
        }
        let from = sessions.after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked_at = 0;
        for (id, connection) in self.connections.range((from, Bound::Unbounded)).take(CONNECTIONS) {
            looked_at += 1;
            sessions.after = Some(*id);
            let Some(session) = connection.session().filter(|_| is_wanted(connection.peer.user)) else {
                continue;
            };
            let mut row = SessionStatus {
                session: session.0,
                pid: connection.peer.pid,
                user: connection.peer.user,
                age_s: connection.since.elapsed().as_secs_f64(),
                connections: 1,
                ..SessionStatus::default()
            };
            match &connection.role {
                Role::Client(speech) => {
                    row.files = speech.files.len() as u32;
                    (row.entries_taken, row.entries_refused) = (speech.taken, speech.refused);
                    row.entries_dropped = speech.ring.dropped();
                }
                Role::Command(_) | Role::Unknown => row.run = true,
            }
            match sessions.places.get(&row.session).and_then(|place| sessions.rows.get_mut(*place)) {
                Some(other) => other.join(&row),
                None => {
                    row.counts = self.plane.session_counts(session);
                    sessions.note_withheld(self, row.session);
                    sessions.places.insert(row.session, sessions.rows.len());
                    sessions.rows.push(row);
                }
            }
        }
        sessions.are_known = looked_at < CONNECTIONS;
    }
}

impl Sessions {
    fn note_withheld(&mut self, service: &Service, session: u32) {
        if service.plane.is_withheld(SessionId(session)) {
            self.withheld.push(session);
        }
    }
}
