//! Who opens the door: a thread that does nothing else, so that who knocks is let in at once, whatever the service does.
//!
//! What waits in a listening socket waits there by nobody's order, and when as many wait as may everybody is refused. So
//! the thread takes them out at once, asks the kernel who it is, and hands them on.
//!
//! Who is not known yet may have sent descriptors that hurt whoever closes them. So a connection is a [`ForeignFd`] from the
//! beginning on, and where the kernel can (Linux 6.16) nobody can send any before it is let in: never, or not while many
//! wait to be closed ([`Descriptors`]).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use foretell_protocol::{Credentials, credentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::closing::{Closer, ForeignFd};
use crate::rights::take_descriptors;

/// The user of a connection whose peer cannot be told: -1, which is nobody's number (setreuid(2)).
pub const NOBODY: u32 = u32::MAX;
/// Time without letting anybody in where there is no descriptor for it, or too many wait to be closed; and between two
/// looks whether descriptors may be sent again.
const PAUSE: Duration = Duration::from_millis(100);
/// Descriptors that wait to be closed, of all users. Beyond it nobody can send any before it is let in, or, before Linux 6.16,
/// nobody is let in for a while; with half as many left it is as before.
const WAITING_DESCRIPTORS: usize = 1024;
/// The thread's niceness where it may have one: it works for microseconds, and others wait for it.
const NICE: i32 = -20;

/// Whether who connects can send descriptors before it is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// Nobody can, now or later.
    Never,
    /// As long as no more than 1,024 wait to be closed, and again when half of them are.
    UnlessManyWait,
}

/// How a door is kept.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// What its thread is called.
    pub name: &'static str,
    /// What may be sent to it.
    pub descriptors: Descriptors,
    /// Closes what has come.
    pub closer: Closer,
    /// Its thread has the highest priority of its class that it may have. Threads that it starts would have it, too.
    pub goes_first: bool,
}

/// One that was let in, and what the kernel says of it.
#[derive(Debug)]
pub struct Visitor {
    /// The connection. It does not wait (`O_NONBLOCK`).
    pub socket: ForeignFd,
    /// Who has made it; `None` when that is not known.
    pub credentials: Option<Credentials>,
    /// Whose limits count.
    pub account: u32,
}

/// The thread at the door. It ends with this: the socket takes no more connections then, whoever else has it.
#[derive(Debug)]
pub struct Porter(OwnedFd);

impl Porter {
    /// Lets in whoever connects to a listening socket, which must not wait (`O_NONBLOCK`). `account` says whose limits count
    /// for whom; `None` is turned away. Of the others the thread itself does what `welcome` says. Its scheduling is that of
    /// whoever calls this.
    ///
    /// # Errors
    /// When there is no descriptor or thread to be had.
    pub fn start(
        keeping: Keeping,
        listener: OwnedFd,
        account: impl FnMut(Credentials) -> Option<u32> + Send + 'static,
        welcome: impl FnMut(Visitor) + Send + 'static,
    ) -> io::Result<Porter> {
        let own = listener.as_fd().try_clone_to_owned()?;
        let Keeping { name, descriptors, closer, goes_first } = keeping;
        let is_open =
            descriptors == Descriptors::UnlessManyWait || take_descriptors(own.as_fd(), false).is_err();
        let door = Door { listener: own, descriptors, is_open, closer, account, welcome };
        let (begun, begins) = sync_channel(0);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if goes_first {
                // Of the calling thread (setpriority(2)). Refused, it is as others are.
                let _ = rustix::process::setpriority_process(None, NICE);
            }
            let _ = begun.send(());
            door.keep();
        })?;
        // A filter of system calls may come next.
        let _ = begins.recv();
        Ok(Porter(listener))
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        // Its thread wakes, and ends when all that waited are let in.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

struct Door<A, W> {
    listener: OwnedFd,
    descriptors: Descriptors,
    /// Descriptors can be sent before one is let in.
    is_open: bool,
    closer: Closer,
    account: A,
    welcome: W,
}

impl<A: FnMut(Credentials) -> Option<u32>, W: FnMut(Visitor)> Door<A, W> {
    fn keep(mut self) {
        let pause = Timespec::try_from(PAUSE).ok();
        loop {
            let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
            // It is opened again although nobody knocks.
            let timeout = if self.is_open { None } else { pause.as_ref() };
            match poll(&mut polled, timeout) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => std::thread::sleep(PAUSE),
            }
            // Hung up: the socket takes no more connections.
            let is_shut = polled[0].revents().contains(PollFlags::HUP);
            if !self.let_in() || is_shut {
                return;
            }
        }
    }

    /// Lets in all that wait; `false` when no more can come.
    fn let_in(&mut self) -> bool {
        loop {
            if !self.guard() {
                std::thread::sleep(PAUSE);
                continue;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => self.welcome(socket),
                Err(Errno::AGAIN) => return true,
                Err(Errno::INVAL | Errno::BADF | Errno::NOTSOCK) => return false,
                // Gone again before it was let in.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // Nobody can be let in for want of descriptors or memory.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn welcome(&mut self, socket: OwnedFd) {
        let credentials = credentials(socket.as_fd()).ok();
        let account = credentials.map_or(Some(NOBODY), &mut self.account);
        let whose = account.or(credentials.map(|who| who.user)).unwrap_or(NOBODY);
        let socket = self.closer.guard(whose, socket);
        match account {
            Some(account) => (self.welcome)(Visitor { socket, credentials, account }),
            None => socket.hang_up(),
        }
    }

    /// While many descriptors wait to be closed, no more are to come from those whom nobody has let in: they would wait
    /// in the sockets, and with those fill our table. `false` when that cannot be had but by letting nobody in.
    fn guard(&mut self) -> bool {
        if self.descriptors == Descriptors::Never && !self.is_open {
            return true;
        }
        // Else what was known a moment ago holds: nobody waits for the threads that close.
        let Some(waiting) = self.closer.waiting() else { return true };
        let open = waiting <= if self.is_open { WAITING_DESCRIPTORS } else { WAITING_DESCRIPTORS / 2 };
        if open != self.is_open {
            if take_descriptors(self.listener.as_fd(), open).is_err() {
                return open;
            }
            self.is_open = open;
        }
        true
    }
}
