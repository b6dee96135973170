//! The thread that lets clients in, and the lobby where they wait for the loop: [`foretell_door::Reception`], as the service
//! needs it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use foretell_door::{Credentials, Descriptors, Keeping, Reception, Room};
use foretell_pagecache::Plane;
use rustix::process::{Resource, getrlimit};

use crate::listener::Listener;
use crate::subordinate::Subordinates;

/// A door for whoever connects to a socket, with a lobby of that room behind it.
///
/// # Errors
/// When there is no descriptor or thread to be had.
pub(crate) fn open(listener: &Listener, plane: &Plane, room: Room) -> io::Result<Reception> {
    let keeping = Keeping {
        name: "foretell-door",
        // A greeting comes with a ring, maybe before anybody is let in.
        descriptors: Descriptors::UnlessManyWait,
        closer: plane.closer().clone(),
        goes_first: true,
    };
    let mut subordinates = Subordinates::new(Path::new("/etc"));
    let account = move |peer: Credentials| Some(subordinates.account(peer.user, peer.group));
    let socket = listener.as_fd().try_clone_to_owned()?;
    // No more than an eighth of the descriptors that there may be.
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = room.most.min(usize::try_from(descriptors / 8).unwrap_or(usize::MAX));
    let room = Room { most, most_of_user: room.most_of_user.min(most / 2) };
    Reception::open(keeping, socket, account, room)
}
