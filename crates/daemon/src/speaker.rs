//! Processes that speak for themselves: one session of the plane for each, shared by its connections.

use foretell_pagecache::{SessionError, SessionId};
use foretell_protocol::ErrorCode;

use crate::connection::{End, Speech};
use crate::owners::Speaker;
use crate::peer::Peer;
use crate::service::Service;

impl Service {
    /// The plane's session for a connection: the one that its process has, or a new one.
    pub(crate) fn speak(&mut self, id: u64) -> Result<SessionId, End> {
        let Some(connection) = self.connections.get(&id) else { return Err(End::Gone) };
        let Peer { pid, user, group, account, .. } = connection.peer;
        if let Some(speaker) = self.owners.speakers.get_mut(&pid) {
            let first = speaker.connections.first().and_then(|first| self.connections.get(first));
            let first = first.map(|first| &first.peer).filter(|first| first.is_alive());
            let is_same = first.is_some_and(|first| (first.user, first.group) == (user, group));
            if is_same {
                let most = self.limits.sessions_of_process;
                if speaker.connections.len() >= most as usize {
                    let text = format!("this process has {most} sessions; end one first");
                    return Err(End::Because(ErrorCode::SessionsOfProcess, text));
                }
                speaker.connections.push(id);
                return Ok(speaker.session);
            }
            // The number has come back for another process before we heard of the end of the first. Or the process runs with
            // other rights by now: as a set-user-ID program, say, while a child of what it was before has the first
            // connection, and would be told by it which files that program names.
            let is_another = first.is_some();
            for ended in speaker.connections.clone() {
                let text = "its process runs with the rights of another user now";
                let why = if is_another { End::because(ErrorCode::Process, text) } else { End::Gone };
                self.end(ended, why);
            }
        }
        let session = self.plane.add_client(pid, user, account).map_err(|error| {
            let code = match &error {
                SessionError::TooMany { .. } => ErrorCode::Sessions,
                SessionError::NoProcess { .. } | SessionError::Observe { .. } => ErrorCode::Process,
                _ => ErrorCode::Internal,
            };
            End::because(code, error)
        })?;
        if !self.connections.get(&id).is_some_and(|connection| connection.peer.is_alive()) {
            // Whoever has this number now is not who connected.
            self.plane.end_session(session);
            return Err(End::Gone);
        }
        self.owners.speakers.insert(pid, Speaker { session, connections: vec![id] });
        Ok(session)
    }

    /// A client's connection is gone; with the last one of its process, so is the session.
    pub(crate) fn silence(&mut self, id: u64, peer: &Peer, speech: &Speech) {
        for named in speech.files.values() {
            self.owners.forget_file(peer.account, named.weight);
        }
        let speaker = self.owners.speakers.get_mut(&peer.pid).filter(|s| s.session == speech.session);
        let others = speaker.map(|speaker| {
            speaker.connections.retain(|connection| *connection != id);
            !speaker.connections.is_empty()
        });
        match others {
            // Its files with it.
            Some(false) => {
                self.owners.speakers.remove(&peer.pid);
                self.plane.end_session(speech.session);
            }
            _ => {
                let files = speech.files.values().map(|named| named.file);
                self.plane.release_files(speech.session, files);
            }
        }
    }
}
