//! Who is let in, and who is put out: for making us wait with what they have sent.
//!
//! Connections are taken in by a thread of their own ([`crate::reception`]), and wait for the loop in its lobby.

use std::os::fd::AsFd;

use foretell_door::{Reception, Visitor, take_descriptors, takes_descriptors};
use foretell_pagecache::Meter;
use foretell_protocol::ErrorCode;
use rustix::event::epoll;

use crate::connection::{Connection, End};
use crate::limits::{ACCEPTING, CLOSING};
use crate::peer::Peer;
use crate::service::Service;

/// What a user is told who is put out.
const STUCK: &str = "a descriptor that this user has sent cannot be closed; end what keeps it";

impl Service {
    pub(crate) fn accept(&mut self) {
        let mut meter = Meter::start();
        let ends = meter.now() + ACCEPTING;
        while meter.now() < ends {
            let Some(visitor) = self.reception.as_ref().and_then(Reception::next) else { return };
            let user = visitor.account;
            self.let_in(visitor);
            self.shares.charge(user, meter.lap());
        }
    }

    /// Lets somebody in, or says why not.
    fn let_in(&mut self, visitor: Visitor) {
        let Visitor { socket, account: user, .. } = visitor;
        // Who has gone already, or lives in another world of process numbers, cannot be served.
        let Ok(mut peer) = Peer::of(socket.as_fd()) else {
            return socket.hang_up();
        };
        peer.account = user;
        let mut connection = Connection::new(socket, peer, &self.limits, self.plane.closer().clone());
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
            return;
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
            return;
        }
        self.greeting.insert((connection.since, id));
        self.connections.insert(id, connection);
        self.busy.insert(user, id);
    }

    /// Puts out the users who make closing what they have sent take long, until it is closed. Not root, who has
    /// other means, and a right to descriptors of a server that hangs.
    pub(crate) fn put_out_stuck(&mut self) {
        // Else what was known a moment ago holds: nobody waits for the threads that close.
        let Some((stuck, _)) = self.plane.closer().stuck(CLOSING) else { return };
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
