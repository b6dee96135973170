//! Who is let in, and who is put out: for making us wait with what they have sent.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use foretell_pagecache::Meter;
use foretell_protocol::ErrorCode;
use rustix::event::epoll;

use crate::connection::{Connection, End};
use crate::limits::{ACCEPTING, CLOSING, WAITING_DESCRIPTORS};
use crate::peer::{Peer, take_descriptors, takes_descriptors};
use crate::service::{Service, ServiceError};

/// Time without letting anybody in after there was no descriptor to be had.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The user of a connection whose peer cannot be told: -1, which is nobody's number (setreuid(2)).
const NOBODY: u32 = u32::MAX;
/// What a user is told who is put out.
const STUCK: &str = "a descriptor that this user has sent cannot be closed; end what keeps it";

impl Service {
    pub(crate) fn accept(&mut self) -> Result<(), ServiceError> {
        let mut meter = Meter::start();
        let ends = meter.now() + ACCEPTING;
        while meter.now() < ends {
            let Some(listener) = &self.listener else { return Ok(()) };
            match listener.accept() {
                Ok(Some(socket)) => {
                    let user = self.let_in(socket);
                    self.shares.charge(user, meter.lap());
                }
                Ok(None) => return Ok(()),
                // Nobody can be let in for want of descriptors or memory.
                Err(_) => return self.pause(),
            }
        }
        Ok(())
    }

    /// Knocking is not listened to for a while: it would keep the loop awake.
    fn pause(&mut self) -> Result<(), ServiceError> {
        if let (None, Some(listener)) = (self.accept_again, &self.listener) {
            epoll::delete(&self.epoll, listener)?;
        }
        self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
        Ok(())
    }

    /// While many descriptors wait to be closed, no more are to come from those whom nobody has let in: they would wait
    /// in the sockets, and with those fill our table.
    pub(crate) fn guard_the_door(&mut self) -> Result<(), ServiceError> {
        let open =
            self.to_be_closed <= if self.is_open { WAITING_DESCRIPTORS } else { WAITING_DESCRIPTORS / 2 };
        if let (true, Some(listener)) = (open != self.is_open, &self.listener) {
            if take_descriptors(listener.as_fd(), open).is_err() {
                return self.pause();
            }
            self.is_open = open;
        }
        Ok(())
    }

    /// Lets somebody in, or says why not; gives whose doing that is.
    fn let_in(&mut self, socket: OwnedFd) -> u32 {
        // Who has gone already, or lives in another world of process numbers, cannot be served.
        let Ok(mut peer) = Peer::of(socket.as_fd()) else {
            let account = match foretell_protocol::credentials(socket.as_fd()) {
                Ok(gone) => self.subordinates.account(gone.user, gone.group),
                Err(_) => NOBODY,
            };
            drop(self.plane.closer().guard(account, socket));
            return account;
        };
        peer.account = self.subordinates.account(peer.user, peer.group);
        let user = peer.account;
        let closer = self.plane.closer().clone();
        let socket = closer.guard(user, socket);
        let mut connection = Connection::new(socket, peer, &self.limits, closer);
        let stranger = self.owner.is_some_and(|owner| ![0, owner].contains(&connection.peer.user));
        let refused = if stranger {
            let text = "this run belongs to another user; only that user and root may talk to it";
            Err((ErrorCode::NotPermitted, text.to_owned()))
        } else if self.put_out.contains(&user) {
            Err((ErrorCode::SlowClient, STUCK.to_owned()))
        } else {
            self.owners.enter(user, &self.limits)
        };
        if let Err((code, text)) = refused {
            self.refused += 1;
            connection.farewell(code, text);
            connection.shut();
            return user;
        }
        if !takes_descriptors(connection.socket()) {
            // It cannot fail where the other way has not.
            let _ = take_descriptors(connection.socket(), true);
        }
        self.last_connection += 1;
        let id = self.last_connection;
        let watch = |descriptor, number| {
            epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
        };
        let watched = watch(connection.socket(), 2 * id)
            .and_then(|()| watch(connection.peer.pidfd.as_fd(), 2 * id + 1));
        if watched.is_err() {
            self.owners.leave(user);
            return user;
        }
        self.greeting.insert((connection.since, id));
        self.connections.insert(id, connection);
        self.busy.insert(user, id);
        user
    }

    /// Puts out the users who make closing what they have sent take long, until it is closed. Not root, who has
    /// other means, and a right to descriptors of a server that hangs.
    pub(crate) fn put_out_stuck(&mut self) {
        // Else what was known a moment ago holds: nobody waits for the threads that close.
        let Some((stuck, waiting)) = self.plane.closer().stuck(CLOSING) else { return };
        self.to_be_closed = waiting;
        self.put_out = stuck.into_iter().filter(|user| *user != 0).collect();
        if self.put_out.is_empty() {
            return;
        }
        let theirs = |(_, connection): &(&u64, &Connection)| self.put_out.contains(&connection.peer.account);
        let theirs: Vec<u64> = self.connections.iter().filter(theirs).map(|(id, _)| *id).collect();
        for id in theirs {
            self.end_in_turn(id, || End::because(ErrorCode::SlowClient, STUCK));
        }
    }
}
