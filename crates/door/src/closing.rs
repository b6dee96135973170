//! Closing what others have given us, away from the loop that steers.
//!
//! close(2) may wait for as long as whoever made the open file likes: a TCP socket with `SO_LINGER` waits until
//! its data have been taken, a file of a FUSE file system until its server has answered `FLUSH`, which it need
//! not do at all. The same may come of closing a Unix socket in which such descriptors are under way. So a
//! descriptor that came from a stranger is a [`ForeignFd`] from the moment on that we have it. Wherever that is
//! dropped, it is closed by a thread of a [`Closer`].
//!
//! That is done by user ([`crate::by_user`]). Who has kept a thread waiting is told by [`Closer::stuck`]: whoever let that
//! user in puts it out, and lets it in again later. This is what bounds the descriptors that wait here.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::by_user::{ByUser, Shape};
use crate::rights::takes_descriptors;

/// The threads that close. When all are kept waiting, what is to be closed waits too. Nothing is given back: that would be
/// closed by whoever must not wait.
const CLOSING: Shape = Shape {
    name: "foretell-close",
    threads: 256,
    spare: 2,
    // It calls close(2).
    stack_bytes: 64 << 10,
    lane_jobs: usize::MAX,
    all_jobs: usize::MAX,
};

/// Descriptors of one user that wait to be closed. Behind one that takes [`BUSY`] there are no more of anybody who
/// means well.
const WAITING: usize = 512;
const BUSY: Duration = Duration::from_millis(10);

/// Closes descriptors of others in threads of its own. Copies share the threads, which end with the last copy.
#[derive(Debug, Clone)]
pub struct Closer(Arc<ByUser<OwnedFd>>);

impl Closer {
    /// Starts the first thread. It has the scheduling of whoever calls this.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start() -> io::Result<Closer> {
        ByUser::start(CLOSING, drop::<OwnedFd>).map(|threads| Closer(Arc::new(threads)))
    }

    /// Takes charge of a descriptor that came from a user.
    #[must_use]
    pub fn guard(&self, user: u32, descriptor: OwnedFd) -> ForeignFd {
        ForeignFd { descriptor: Some(descriptor), user, closer: self.clone() }
    }

    /// The users of whom one descriptor is being closed for longer than `patience`, or for some time while many others
    /// of theirs wait; and how many wait to be closed, of all users. `None` when that is not known at this moment.
    #[must_use]
    pub fn stuck(&self, patience: Duration) -> Option<(Vec<u32>, usize)> {
        let many = BUSY.min(patience);
        self.0.busy(|waiting, time| time > if waiting > WAITING { many } else { patience })
    }

    /// Descriptors that wait to be closed, of all users. `None` when that is not known at this moment.
    #[must_use]
    pub fn waiting(&self) -> Option<usize> {
        self.0.busy(|_, _| false).map(|(_, waiting)| waiting)
    }
}

/// A descriptor that came from a stranger. Dropping it never waits.
#[derive(Debug)]
pub struct ForeignFd {
    /// `None` only while it is being dropped or taken.
    descriptor: Option<OwnedFd>,
    user: u32,
    closer: Closer,
}

impl ForeignFd {
    /// The descriptor, for whoever looks after it from here on.
    ///
    /// # Panics
    /// Never: it is taken with the value itself.
    #[must_use]
    pub fn into_inner(mut self) -> OwnedFd {
        self.descriptor.take().expect("a descriptor until it is dropped")
    }

    /// Ends a connection. The other side sees that at once, also when closing takes long.
    pub fn hang_up(self) {
        // It may have ended already.
        let _ = rustix::net::shutdown(&self, rustix::net::Shutdown::Both);
        // From here on nothing can be sent to us. With nothing in it that was sent before, no descriptor either,
        // closing the socket waits for nobody.
        if rustix::io::ioctl_fionread(&self) == Ok(0) || !takes_descriptors(self.as_fd()) {
            drop(self.into_inner());
        }
    }
}

impl AsFd for ForeignFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("a descriptor until it is dropped").as_fd()
    }
}

impl Drop for ForeignFd {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.closer.0.hand_over(self.user, descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use foretell_testkit::sockets::lingering;

    use super::*;

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    fn known(closer: &Closer, patience: Duration) -> (Vec<u32>, usize) {
        std::iter::repeat_with(|| closer.stuck(patience)).flatten().next().unwrap()
    }

    fn stuck(closer: &Closer, patience: Duration) -> Vec<u32> {
        known(closer, patience).0
    }

    #[test]
    fn who_makes_us_wait_is_known_and_nobody_else_waits() {
        let closer = Closer::start().unwrap();
        let (sender, receiver) = lingering();
        drop(closer.guard(7, sender.into()));
        until(|| stuck(&closer, Duration::ZERO) == [7]);
        for user in [8, 9] {
            let (mut end, other) = io::pipe().unwrap();
            drop(closer.guard(user, other.into()));
            // Its end is seen when it has been closed, which is a moment before its thread says so.
            assert_eq!(end.read(&mut [0]).unwrap(), 0);
        }
        until(|| stuck(&closer, Duration::ZERO) == [7]);
        // What comes from the same user waits its turn.
        let (end, other) = io::pipe().unwrap();
        drop(closer.guard(7, other.into()));
        assert_eq!(stuck(&closer, Duration::from_secs(3600)), [0; 0]);
        drop(receiver);
        let mut end = end;
        assert_eq!(end.read(&mut [0]).unwrap(), 0);
        until(|| stuck(&closer, Duration::ZERO).is_empty());
    }

    #[test]
    fn who_lets_many_wait_is_stuck_soon() {
        let closer = Closer::start().unwrap();
        let (sender, receiver) = lingering();
        drop(closer.guard(7, sender.into()));
        until(|| known(&closer, Duration::ZERO).1 == 0);
        let far = Duration::from_secs(3600);
        let null = std::fs::File::open("/dev/null").unwrap();
        let one_more = || drop(closer.guard(7, null.try_clone().unwrap().into()));
        (0..WAITING).for_each(|_| one_more());
        assert_eq!(known(&closer, far), (Vec::new(), WAITING));
        one_more();
        until(|| stuck(&closer, far) == [7]);
        drop(receiver);
        until(|| known(&closer, Duration::ZERO) == (Vec::new(), 0));
    }
}
