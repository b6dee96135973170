//! Evictions of what processes have mapped, which may take long: whoever has mapped a file has a say in that.
//!
//! To page out what a process has mapped its mappings are read ([`crate::mappings`]) and its memory is gone through. Both
//! wait for a lock of that process's, which it can hold for long: while it forks with much memory, say. So each user has
//! a lane. The evictions of one lane are done one after the other, by one thread at a time; lanes do not wait for each
//! other as long as no more than [`THREADS`] of them are slow at a time. What users have mapped together has a lane of
//! its own: it may be as slow as the slowest of them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::steering::Steering;

/// Threads at most.
const THREADS: usize = 16;
/// Threads that stay although there is nothing to do.
const SPARE: usize = 1;
/// Jobs that wait in one lane, and in all; further ones are given back.
pub(crate) const LANE_JOBS: usize = 1 << 14;
const ALL_JOBS: usize = 1 << 16;
/// The lane of what several users have mapped: -1, which is nobody's number (setreuid(2)).
pub(crate) const SHARED: u32 = u32::MAX;

/// The lanes, and the threads that work on them. The threads end with it, and are not waited for.
#[derive(Debug)]
pub(crate) struct Lanes<J: Send + 'static>(Arc<Shared<J>>);

struct Shared<J> {
    books: Mutex<Books<J>>,
    changed: Condvar,
    work: Box<dyn Fn(J) + Send + Sync>,
}

impl<J> std::fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

struct Books<J> {
    /// Those with jobs that wait, and those on which a thread is at work.
    lanes: BTreeMap<u32, VecDeque<J>>,
    /// Lanes with jobs on which nobody is at work.
    ready: VecDeque<u32>,
    waiting: usize,
    threads: usize,
    idle: usize,
    ended: bool,
    /// A thread has ended that should not have.
    is_dead: bool,
}

impl<J: Send + 'static> Lanes<J> {
    /// Starts the first thread, which like those that follow has the scheduling of whoever calls this.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start(work: impl Fn(J) + Send + Sync + 'static) -> io::Result<Lanes<J>> {
        let books = Books {
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            threads: 1,
            idle: 0,
            ended: false,
            is_dead: false,
        };
        let shared =
            Arc::new(Shared { books: Mutex::new(books), changed: Condvar::new(), work: Box::new(work) });
        spawn(&shared)?;
        Ok(Lanes(shared))
    }

    /// Puts a job at the end of a lane; gives it back when too many wait.
    pub(crate) fn push(&self, lane: u32, job: J) -> Result<(), J> {
        let mut books = lock(&self.0);
        let is_new = !books.lanes.contains_key(&lane);
        if books.waiting >= ALL_JOBS || books.lanes.get(&lane).is_some_and(|jobs| jobs.len() >= LANE_JOBS) {
            return Err(job);
        }
        books.waiting += 1;
        books.lanes.entry(lane).or_default().push_back(job);
        if is_new {
            books.ready.push_back(lane);
            drop(books);
            self.0.changed.notify_one();
        }
        Ok(())
    }

    /// Has a thread ended although nobody told it to?
    pub(crate) fn are_dead(&self) -> bool {
        lock(&self.0).is_dead
    }
}

impl<J: Send + 'static> Drop for Lanes<J> {
    fn drop(&mut self) {
        let mut books = lock(&self.0);
        books.ended = true;
        books.lanes.clear();
        books.ready.clear();
        drop(books);
        self.0.changed.notify_all();
    }
}

fn lock<J>(shared: &Shared<J>) -> MutexGuard<'_, Books<J>> {
    shared.books.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread, which is counted already.
fn spawn<J: Send + 'static>(shared: &Arc<Shared<J>>) -> io::Result<()> {
    let theirs = Arc::clone(shared);
    std::thread::Builder::new()
        .name("foretell-lane".into())
        .spawn(move || {
            let _told = Told(&theirs);
            serve(&theirs);
        })
        .map(drop)
}

/// Notes when a thread ends by a panic.
struct Told<'a, J>(&'a Shared<J>);

impl<J> Drop for Told<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.0).is_dead = true;
        }
    }
}

/// What a thread does.
fn serve<J: Send + 'static>(shared: &Arc<Shared<J>>) {
    let mut books = lock(shared);
    loop {
        if books.ended || books.ready.is_empty() && books.idle >= SPARE {
            books.threads -= 1;
            return;
        }
        let Some(lane) = books.ready.pop_front() else {
            books.idle += 1;
            books = shared.changed.wait(books).unwrap_or_else(PoisonError::into_inner);
            books.idle -= 1;
            continue;
        };
        let Some(job) = books.lanes.get_mut(&lane).and_then(VecDeque::pop_front) else { continue };
        books.waiting -= 1;
        // Before this one may take long, there is another one for everybody else.
        if books.idle == 0 && books.threads < THREADS {
            books.threads += 1;
            if spawn(shared).is_err() {
                books.threads -= 1;
            }
        }
        drop(books);
        (shared.work)(job);
        books = lock(shared);
        match books.lanes.get(&lane) {
            Some(jobs) if jobs.is_empty() => drop(books.lanes.remove(&lane)),
            Some(_) => books.ready.push_back(lane),
            None => {}
        }
    }
}

impl Steering {
    /// The lane of what these processes have mapped: that of the one whose limits count for all of them.
    pub(crate) fn lane_of(&self, pids: &[u32]) -> u32 {
        let sessions = pids.iter().filter_map(|pid| self.sessions.process(*pid));
        let mut accounts =
            sessions.filter_map(|process| Some(self.sessions.get(process.session)?.origin.account));
        let Some(first) = accounts.next() else { return SHARED };
        if accounts.all(|account| account == first) { first } else { SHARED }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A job: its name, and what it waits for.
    type Job = (u32, Option<Receiver<()>>);

    fn lanes() -> (Lanes<Job>, Receiver<u32>) {
        let (done, names) = channel();
        let done: Mutex<Sender<u32>> = Mutex::new(done);
        let work = move |(name, waits): Job| {
            if let Some(waits) = waits {
                let _ = waits.recv();
            }
            let _ = done.lock().unwrap().send(name);
        };
        (Lanes::start(work).unwrap(), names)
    }

    #[test]
    fn a_slow_lane_keeps_nobody_else_waiting() {
        let (lanes, done) = lanes();
        let (go, waits) = channel();
        lanes.push(7, (70, Some(waits))).unwrap();
        lanes.push(7, (71, None)).unwrap();
        for name in [80, 81] {
            lanes.push(8, (name, None)).unwrap();
            assert_eq!(done.recv(), Ok(name));
        }
        go.send(()).unwrap();
        assert_eq!([done.recv(), done.recv()], [Ok(70), Ok(71)], "in its order");
        assert!(!lanes.are_dead());
    }

    #[test]
    fn lanes_are_limited_and_their_threads_are() {
        let (lanes, done) = lanes();
        let gates: Vec<Sender<()>> = (0..THREADS as u32 + 4)
            .map(|lane| {
                let (go, waits) = channel();
                lanes.push(lane, (lane, Some(waits))).unwrap();
                go
            })
            .collect();
        while lock(&lanes.0).waiting > 4 {
            std::thread::yield_now();
        }
        assert_eq!(lock(&lanes.0).threads, THREADS);
        (0..LANE_JOBS as u32).for_each(|name| lanes.push(0, (name, None)).unwrap());
        assert_eq!(lanes.push(0, (5, None)).map_err(|job| job.0), Err(5));
        lanes.push(1, (1, None)).unwrap();
        drop(gates);
        assert_eq!(done.iter().take(THREADS + 4 + LANE_JOBS + 1).count(), THREADS + 4 + LANE_JOBS + 1);
        while lock(&lanes.0).threads > SPARE || !lock(&lanes.0).lanes.is_empty() {
            std::thread::yield_now();
        }
        let shared = Arc::clone(&lanes.0);
        drop(lanes);
        while lock(&shared).threads > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_ends_by_itself_is_noticed() {
        let lanes = Lanes::start(|(): ()| panic!("on purpose")).unwrap();
        lanes.push(1, ()).unwrap();
        while !lanes.are_dead() {
            std::thread::yield_now();
        }
    }
}
