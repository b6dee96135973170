//! Jobs that may wait for whoever caused them, done by threads: those of one user in their order, one at a time.
//!
//! Each user has a lane. A thread takes a lane that has jobs and on which nobody is at work, does its first job, and puts
//! the lane back behind the others. So a user whose job waits keeps one thread waiting, and hurts nobody else as long as no
//! more than [`Shape::threads`] users do so at a time. Threads are started as they are needed: before one begins a job
//! there is another one for everybody else. Those that find nothing to do end.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who has not been able to look into the books so often waits for them.
const MISSES: u32 = 16;

/// How many of everything.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// What the threads are called.
    pub name: &'static str,
    /// Threads at most.
    pub threads: usize,
    /// Threads that stay although there is nothing to do.
    pub spare: usize,
    /// Bytes of a thread's stack.
    pub stack_bytes: usize,
    /// Jobs that wait in one lane; further ones are given back.
    pub lane_jobs: usize,
    /// The same in all lanes.
    pub all_jobs: usize,
}

/// The lanes, and the threads that work on them. They end with it, when they have done what waits, and are not waited
/// for.
#[derive(Debug)]
pub struct ByUser<J: Send + 'static>(Arc<Shared<J>>);

struct Shared<J> {
    shape: Shape,
    books: Mutex<Books<J>>,
    handed: Mutex<Handed<J>>,
    /// The bell was rung.
    changed: Condvar,
    /// How often in a row nobody could look into them.
    missed: AtomicU32,
    work: Box<dyn Fn(J) + Send + Sync>,
}

impl<J> std::fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// What is handed over to the threads without a look into the books. No work is done under this lock.
struct Handed<J> {
    /// Jobs by user, which whoever has the books enters.
    jobs: Vec<(u32, J)>,
    /// How often the bell was rung. A thread that has found nothing to do sleeps only if it was not rung since it looked: there
    /// is no moment in which it goes unheard.
    rung: u64,
}

struct Books<J> {
    /// Those with jobs that wait, and those on which a thread is at work.
    lanes: BTreeMap<u32, Lane<J>>,
    /// Lanes with jobs on which nobody is at work.
    ready: VecDeque<u32>,
    waiting: usize,
    threads: usize,
    idle: usize,
    ended: bool,
    /// A job has panicked.
    has_failed: bool,
}

struct Lane<J> {
    jobs: VecDeque<J>,
    /// Since when a job of it is being done.
    since: Option<Instant>,
}

impl<J: Send + 'static> ByUser<J> {
    /// Starts the first thread, which like those that follow has the scheduling of whoever calls this.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(shape: Shape, work: impl Fn(J) + Send + Sync + 'static) -> io::Result<ByUser<J>> {
        let books = Books {
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            waiting: 0,
            threads: 1,
            idle: 0,
            ended: false,
            has_failed: false,
        };
        let work = Box::new(work);
        let (books, handed) = (Mutex::new(books), Mutex::new(Handed { jobs: Vec::new(), rung: 0 }));
        let (changed, missed) = (Condvar::new(), AtomicU32::new(0));
        let shared = Arc::new(Shared { shape, books, handed, changed, missed, work });
        spawn(&shared)?;
        Ok(ByUser(shared))
    }

    /// Puts a job at the end of a user's lane; gives it back when too many wait.
    pub fn push(&self, user: u32, job: J) -> Result<(), J> {
        let mut books = lock(&self.0);
        self.0.enter(&mut books, user, job)
    }

    /// The same for who must not wait, of lanes without a limit. Of many threads that have the books one after the other each
    /// may have to wait for a processor first: 110 ms in all were seen.
    pub fn hand_over(&self, user: u32, job: J) {
        self.0.handed().jobs.push((user, job));
        self.0.ring();
    }

    /// Users of whom a job is being done, and `says` so of how many more wait and for how long it has taken; and the jobs of
    /// all users that nobody has begun. `None` while a thread has the books, but not for ever.
    pub fn busy(&self, says: impl Fn(usize, Duration) -> bool) -> Option<(Vec<u32>, usize)> {
        let mut books = match self.0.books.try_lock() {
            Ok(books) => books,
            Err(_) if self.0.missed.fetch_add(1, Ordering::Relaxed) < MISSES => return None,
            Err(_) => lock(&self.0),
        };
        self.0.missed.store(0, Ordering::Relaxed);
        self.0.enter_handed(&mut books);
        let is_it = |lane: &Lane<J>| lane.since.is_some_and(|since| says(lane.jobs.len(), since.elapsed()));
        let users = books.lanes.iter().filter(|(_, lane)| is_it(lane)).map(|(user, _)| *user).collect();
        Some((users, books.waiting))
    }

    /// Has a job panicked? The others go on.
    pub fn has_failed(&self) -> bool {
        lock(&self.0).has_failed
    }

    /// Drops what nobody has begun.
    pub fn clear(&self) {
        let mut books = lock(&self.0);
        let jobs: Vec<J> = books.lanes.values_mut().flat_map(|lane| lane.jobs.drain(..)).collect();
        books.lanes.retain(|_, lane| lane.since.is_some());
        books.ready.clear();
        books.waiting = 0;
        drop(books);
        drop(jobs);
    }
}

impl<J> Shared<J> {
    /// Puts a job at the end of a user's lane; gives it back when too many wait.
    fn enter(&self, books: &mut Books<J>, user: u32, job: J) -> Result<(), J> {
        let waiting = books.lanes.get(&user).map(|lane| lane.jobs.len());
        let is_full = waiting.is_some_and(|jobs| jobs >= self.shape.lane_jobs);
        if is_full || books.waiting >= self.shape.all_jobs {
            return Err(job);
        }
        books.waiting += 1;
        let lane = books.lanes.entry(user).or_insert_with(|| Lane { jobs: VecDeque::new(), since: None });
        lane.jobs.push_back(job);
        if waiting.is_none() {
            books.ready.push_back(user);
            self.ring();
        }
        Ok(())
    }

    /// Enters what was handed over. Returns how often the bell had been rung by then.
    fn enter_handed(&self, books: &mut Books<J>) -> u64 {
        let mut handed = self.handed();
        let (jobs, rung) = (std::mem::take(&mut handed.jobs), handed.rung);
        drop(handed);
        for (user, job) in jobs {
            // Nothing is given back where there is no limit.
            let _ = self.enter(books, user, job);
        }
        rung
    }

    fn handed(&self) -> MutexGuard<'_, Handed<J>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a thread.
    fn ring(&self) {
        self.handed().rung += 1;
        self.changed.notify_one();
    }

    /// Sleeps until the bell is rung, unless it was rung more often than that already.
    fn sleep(&self, rung: u64) {
        let mut handed = self.handed();
        while handed.rung == rung {
            handed = self.changed.wait(handed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<J: Send + 'static> Drop for ByUser<J> {
    fn drop(&mut self) {
        lock(&self.0).ended = true;
        self.0.handed().rung += 1;
        self.0.changed.notify_all();
    }
}

fn lock<J>(shared: &Shared<J>) -> MutexGuard<'_, Books<J>> {
    shared.books.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread, which is counted already.
fn spawn<J: Send + 'static>(shared: &Arc<Shared<J>>) -> io::Result<()> {
    let theirs = Arc::clone(shared);
    let Shape { name, stack_bytes, .. } = shared.shape;
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    builder.spawn(move || serve(&theirs)).map(drop)
}

/// What a thread does.
fn serve<J: Send + 'static>(shared: &Arc<Shared<J>>) {
    let mut books = lock(shared);
    loop {
        let rung = shared.enter_handed(&mut books);
        let Some(user) = books.ready.pop_front() else {
            if books.ended || books.idle >= shared.shape.spare {
                books.threads -= 1;
                return;
            }
            books.idle += 1;
            drop(books);
            shared.sleep(rung);
            books = lock(shared);
            books.idle -= 1;
            continue;
        };
        let Some(lane) = books.lanes.get_mut(&user) else { continue };
        let Some(job) = lane.jobs.pop_front() else { continue };
        lane.since = Some(Instant::now());
        books.waiting -= 1;
        // Before this one may take long, there is another one for everybody else.
        let starts = books.idle == 0 && books.threads < shared.shape.threads;
        books.threads += usize::from(starts);
        // To start a thread takes its time, and the loop wants the lock.
        drop(books);
        if starts && spawn(shared).is_err() {
            lock(shared).threads -= 1;
        }
        let done = catch_unwind(AssertUnwindSafe(|| (shared.work)(job)));
        books = lock(shared);
        books.has_failed |= done.is_err();
        if let Some(lane) = books.lanes.get_mut(&user) {
            lane.since = None;
            if lane.jobs.is_empty() {
                books.lanes.remove(&user);
            } else {
                books.ready.push_back(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const SHAPE: Shape =
        Shape { name: "test", threads: 4, spare: 1, stack_bytes: 64 << 10, lane_jobs: 20, all_jobs: 30 };

    /// A job: its name, and what it waits for.
    type Job = (u32, Option<Receiver<()>>);

    fn lanes() -> (ByUser<Job>, Receiver<u32>) {
        let (done, names) = channel();
        let done: Mutex<Sender<u32>> = Mutex::new(done);
        let work = move |(name, waits): Job| {
            if let Some(waits) = waits {
                let _ = waits.recv();
            }
            let _ = done.lock().unwrap().send(name);
        };
        (ByUser::start(SHAPE, work).unwrap(), names)
    }

    fn waiting(lanes: &ByUser<Job>) -> usize {
        lock(&lanes.0).waiting
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
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
        until(|| lanes.busy(|waiting, _| waiting == 1).is_some_and(|(users, _)| users == [7]));
        until(|| lanes.busy(|_, time| time > Duration::from_secs(3600)) == Some((Vec::new(), 1)));
        go.send(()).unwrap();
        assert_eq!([done.recv(), done.recv()], [Ok(70), Ok(71)], "in its order");
        assert!(!lanes.has_failed());
    }

    #[test]
    fn lanes_are_limited_and_their_threads_are() {
        let (lanes, done) = lanes();
        let gates: Vec<Sender<()>> = (0..SHAPE.threads as u32 + 2)
            .map(|lane| {
                let (go, waits) = channel();
                lanes.push(lane, (lane, Some(waits))).unwrap();
                go
            })
            .collect();
        until(|| waiting(&lanes) == 2);
        assert_eq!(lock(&lanes.0).threads, SHAPE.threads);
        (0..SHAPE.lane_jobs as u32).for_each(|name| lanes.push(0, (name, None)).unwrap());
        assert_eq!(lanes.push(0, (5, None)).map_err(|job| job.0), Err(5), "in the lane");
        let more = SHAPE.all_jobs - SHAPE.lane_jobs - 2;
        (0..more as u32).for_each(|name| lanes.push(1, (name, None)).unwrap());
        assert_eq!(lanes.push(2, (6, None)).map_err(|job| job.0), Err(6), "in all");
        drop(gates);
        assert_eq!(done.iter().take(SHAPE.threads + SHAPE.all_jobs).count(), SHAPE.threads + SHAPE.all_jobs);
        until(|| lock(&lanes.0).threads <= SHAPE.spare && lock(&lanes.0).lanes.is_empty());
    }

    #[test]
    fn what_waits_is_done_after_the_end_unless_it_was_cleared() {
        for (clears, left) in [(false, 2), (true, 0)] {
            let (lanes, done) = lanes();
            let (go, waits) = channel();
            lanes.push(7, (70, Some(waits))).unwrap();
            until(|| waiting(&lanes) == 0);
            lanes.push(7, (71, None)).unwrap();
            lanes.push(7, (72, None)).unwrap();
            if clears {
                lanes.clear();
            }
            assert_eq!(waiting(&lanes), left);
            let shared = Arc::clone(&lanes.0);
            drop(lanes);
            go.send(()).unwrap();
            assert_eq!(done.iter().take(1 + left).count(), 1 + left);
            until(|| lock(&shared).threads == 0);
        }
    }

    #[test]
    fn who_hands_over_does_not_wait_for_a_thread_that_has_the_books() {
        let (lanes, done) = lanes();
        until(|| lock(&lanes.0).idle == 1);
        let busy = lock(&lanes.0);
        // This very thread would wait for itself.
        (70..73).for_each(|name| lanes.hand_over(7, (name, None)));
        assert_eq!(lanes.busy(|_, _| true), None);
        drop(busy);
        // Nobody else comes by.
        let name = || done.recv_timeout(Duration::from_secs(5));
        assert_eq!([name(), name(), name()], [Ok(70), Ok(71), Ok(72)], "in their order");
    }

    #[test]
    fn a_job_that_panics_is_noticed_and_its_lane_goes_on() {
        let lanes = ByUser::start(SHAPE, |(): ()| panic!("on purpose")).unwrap();
        lanes.push(1, ()).unwrap();
        until(|| lanes.has_failed());
        lanes.push(1, ()).unwrap();
        until(|| lock(&lanes.0).lanes.is_empty());
    }
}
