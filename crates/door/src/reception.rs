//! A door with a lobby behind it: connections of all users, for a service that takes them in its own time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foretell_protocol::Credentials;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::lobby::{Lobby, Room};
use crate::porter::{Keeping, Porter, Visitor};

/// Who waits to be served. It ends with this, as [`Porter`] says; who waits then is hung up on.
#[derive(Debug)]
pub struct Reception {
    shared: Arc<Shared>,
    _porter: Porter,
}

#[derive(Debug)]
struct Shared {
    lobby: Mutex<Lobby<Visitor>>,
    /// Readable as long as somebody waits. It changes with the lobby, under its lock.
    bell: OwnedFd,
}

impl Reception {
    /// Opens the door; the first words are those of [`Porter::start`].
    ///
    /// # Errors
    /// When there is no descriptor or thread to be had.
    pub fn open(
        keeping: Keeping,
        listener: OwnedFd,
        account: impl FnMut(Credentials) -> Option<u32> + Send + 'static,
        room: Room,
    ) -> io::Result<Reception> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { lobby: Mutex::new(Lobby::new(room)), bell });
        let theirs = Arc::clone(&shared);
        let welcome = move |visitor| theirs.enter(visitor);
        let porter = Porter::start(keeping, listener, account, welcome)?;
        Ok(Reception { shared, _porter: porter })
    }

    /// Readable as long as somebody waits.
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Who is next, if somebody waits: the oldest of the user whose turn it is.
    #[must_use]
    pub fn next(&self) -> Option<Visitor> {
        let mut lobby = self.shared.lobby();
        let visitor = lobby.next();
        if lobby.is_empty() {
            // Nothing to read is as good.
            let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
        }
        visitor
    }

    /// Who is next, and waits until somebody is.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(&self) -> io::Result<Visitor> {
        loop {
            if let Some(visitor) = self.next() {
                return Ok(visitor);
            }
            match poll(&mut [PollFd::new(&self.shared.bell, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Shared {
    fn lobby(&self) -> MutexGuard<'_, Lobby<Visitor>> {
        self.lobby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, visitor: Visitor) {
        let mut lobby = self.lobby();
        let rings = lobby.is_empty();
        let goes = lobby.enter(visitor.account, visitor);
        if rings {
            // It is empty, and takes a one.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
        drop(lobby);
        if let Some(goes) = goes {
            goes.socket.hang_up();
        }
    }
}
