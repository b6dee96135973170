//! Closing what others have given us, away from the loop that steers.
//!
//! close(2) may wait for as long as whoever made the open file likes: a TCP socket with `SO_LINGER` waits until
//! its data have been taken, a file of a FUSE file system until its server has answered `FLUSH`, which it need
//! not do at all. The same may come of closing a Unix socket in which such descriptors are under way. So a
//! descriptor that came from a stranger is a [`ForeignFd`] from the moment on that we have it. Wherever that is
//! dropped, it is closed by a thread of a [`Closer`].
//!
//! One thread at a time closes what came from one user, in order. So a user who makes us wait keeps one thread
//! waiting and hurts nobody else, as long as no more than [`THREADS`] users do so at a time. Who has kept a thread
//! waiting is told by [`Closer::stuck`]: whoever let that user in puts it out, and lets it in again later. This
//! is what bounds the descriptors that wait here.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads that close, at most. When all are kept waiting, what is to be closed waits too.
const THREADS: usize = 256;

/// Threads that stay although there is nothing to do.
const SPARE: usize = 2;

/// Descriptors of one user that wait to be closed. Behind one that takes [`BUSY`] there are no more of anybody who
/// means well.
const WAITING: usize = 512;
const BUSY: Duration = Duration::from_millis(10);

/// Bytes of a thread's stack: it calls close(2).
const STACK_BYTES: usize = 64 << 10;

/// Closes descriptors of others in threads of its own. Copies share the threads, which end with the last copy.
#[derive(Debug, Clone)]
pub struct Closer(Arc<Handle>);

/// What all copies share; its end is the threads' end.
#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    books: Mutex<Books>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Books {
    users: BTreeMap<u32, Waiting>,
    /// Users of whom something is to be closed and nothing is being closed.
    ready: VecDeque<u32>,
    /// Descriptors of all of them that nobody has begun to close.
    waiting: usize,
    threads: usize,
    idle: usize,
    ended: bool,
}

/// What is to be closed of one user.
#[derive(Debug, Default)]
struct Waiting {
    descriptors: VecDeque<OwnedFd>,
    /// Since when one of them is being closed.
    since: Option<Instant>,
}

impl Closer {
    /// Starts the first thread. It has the scheduling of whoever calls this.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start() -> io::Result<Closer> {
        let shared = Arc::new(Shared::default());
        lock(&shared).threads = 1;
        spawn(&shared)?;
        Ok(Closer(Arc::new(Handle(shared))))
    }

    /// Takes charge of a descriptor that came from a user.
    #[must_use]
    pub fn guard(&self, user: u32, descriptor: OwnedFd) -> ForeignFd {
        ForeignFd { descriptor: Some(descriptor), user, closer: self.clone() }
    }

    /// The users of whom one descriptor is being closed for longer than `patience`, or for some time while many others
    /// of theirs wait.
    #[must_use]
    pub fn stuck(&self, patience: Duration) -> Vec<u32> {
        let books = lock(&self.0.0);
        let is_stuck = |waiting: &Waiting| {
            let patience = if waiting.descriptors.len() > WAITING { BUSY.min(patience) } else { patience };
            waiting.since.is_some_and(|since| since.elapsed() > patience)
        };
        books.users.iter().filter(|(_, waiting)| is_stuck(waiting)).map(|(user, _)| *user).collect()
    }

    /// Descriptors that wait to be closed, of all users.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.0.0).waiting
    }

    fn close(&self, user: u32, descriptor: OwnedFd) {
        let mut books = lock(&self.0.0);
        books.waiting += 1;
        let waiting = books.users.entry(user).or_default();
        waiting.descriptors.push_back(descriptor);
        let is_first = waiting.descriptors.len() == 1 && waiting.since.is_none();
        if is_first {
            books.ready.push_back(user);
            drop(books);
            self.0.0.changed.notify_one();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The threads are not waited for: one of them may be waiting for a stranger.
        lock(&self.0).ended = true;
        self.0.changed.notify_all();
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Books> {
    shared.books.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread, which is counted already.
fn spawn(shared: &Arc<Shared>) -> io::Result<()> {
    let theirs = Arc::clone(shared);
    let builder = std::thread::Builder::new().name("foretell-close".into()).stack_size(STACK_BYTES);
    builder.spawn(move || work(&theirs)).map(drop)
}

/// What a thread does.
fn work(shared: &Arc<Shared>) {
    let mut books = lock(shared);
    loop {
        if let Some(user) = books.ready.pop_front() {
            books = close_one(shared, books, user);
        } else if books.ended || books.idle >= SPARE {
            books.threads -= 1;
            return;
        } else {
            books.idle += 1;
            books = shared.changed.wait(books).unwrap_or_else(PoisonError::into_inner);
            books.idle -= 1;
        }
    }
}

fn close_one<'a>(
    shared: &'a Arc<Shared>,
    mut books: MutexGuard<'a, Books>,
    user: u32,
) -> MutexGuard<'a, Books> {
    let Some(waiting) = books.users.get_mut(&user) else { return books };
    let Some(descriptor) = waiting.descriptors.pop_front() else { return books };
    waiting.since = Some(Instant::now());
    books.waiting -= 1;
    // Before this one may have to wait, there is another one for everybody else.
    if books.idle == 0 && books.threads < THREADS {
        books.threads += 1;
        if spawn(shared).is_err() {
            books.threads -= 1;
        }
    }
    drop(books);
    drop(descriptor);
    let mut books = lock(shared);
    if let Some(waiting) = books.users.get_mut(&user) {
        waiting.since = None;
        if waiting.descriptors.is_empty() {
            books.users.remove(&user);
        } else {
            books.ready.push_back(user);
        }
    }
    books
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
}

impl AsFd for ForeignFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("a descriptor until it is dropped").as_fd()
    }
}

impl Drop for ForeignFd {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.closer.close(self.user, descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use rustix::net::sockopt::set_socket_linger;

    use super::*;

    /// Closing the first waits until the second is read or closed, or for ten minutes.
    fn lingering() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        while sender.write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&sender, Some(Duration::from_secs(600))).unwrap();
        (sender, receiver)
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_makes_us_wait_is_known_and_nobody_else_waits() {
        let closer = Closer::start().unwrap();
        let (sender, receiver) = lingering();
        drop(closer.guard(7, sender.into()));
        until(|| closer.stuck(Duration::ZERO) == [7]);
        for user in [8, 9] {
            let (mut end, other) = io::pipe().unwrap();
            drop(closer.guard(user, other.into()));
            // Its end is seen when it has been closed, which is a moment before its thread says so.
            assert_eq!(end.read(&mut [0]).unwrap(), 0);
        }
        until(|| closer.stuck(Duration::ZERO) == [7]);
        // What comes from the same user waits its turn.
        let (end, other) = io::pipe().unwrap();
        drop(closer.guard(7, other.into()));
        assert_eq!(closer.stuck(Duration::from_secs(3600)), [0; 0]);
        drop(receiver);
        let mut end = end;
        assert_eq!(end.read(&mut [0]).unwrap(), 0);
        until(|| closer.stuck(Duration::ZERO).is_empty());
    }

    #[test]
    fn who_lets_many_wait_is_stuck_soon() {
        let closer = Closer::start().unwrap();
        let (sender, receiver) = lingering();
        drop(closer.guard(7, sender.into()));
        until(|| closer.waiting() == 0);
        let far = Duration::from_secs(3600);
        let null = std::fs::File::open("/dev/null").unwrap();
        let one_more = || drop(closer.guard(7, null.try_clone().unwrap().into()));
        (0..WAITING).for_each(|_| one_more());
        assert_eq!((closer.waiting(), closer.stuck(far)), (WAITING, Vec::new()));
        one_more();
        until(|| closer.stuck(far) == [7]);
        drop(receiver);
        until(|| closer.waiting() == 0 && closer.stuck(Duration::ZERO).is_empty());
    }

    #[test]
    fn threads_end_when_there_is_nothing_left_to_do() {
        let closer = Closer::start().unwrap();
        let stuck: Vec<TcpStream> = (0..8)
            .map(|user| {
                let (sender, receiver) = lingering();
                drop(closer.guard(user, sender.into()));
                receiver
            })
            .collect();
        until(|| closer.stuck(Duration::ZERO).len() == 8);
        drop(stuck);
        until(|| lock(&closer.0.0).threads <= SPARE);
        let shared = Arc::clone(&closer.0.0);
        drop(closer);
        until(|| lock(&shared).threads == 0);
    }
}
