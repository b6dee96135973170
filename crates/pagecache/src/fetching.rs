//! The queue of prefetches, and the threads that work it off.
//!
//! Blocks come in the order of the policy, and go out in requests, which are made up in [`lanes`].
//!
//! A thread takes one request, or a train of them, asks the kernel for it with `readahead(2)`, in as many calls as the
//! kernel's window makes necessary, and waits for the last byte of each. Threads are started when there is work that all
//! the others are too busy for. They have the lowest best-effort priority of I/O, for the schedulers that honour it.
//!
//! A request to a disk with an arm may hold *gaps*: blocks that nobody wants, read because the disk passes over them
//! no quicker than it reads them. Their pages are dropped as soon as they are there, unless all files have room
//! ([`Fetching::keep_gaps`]): who looks up other records tonight finds them. Until what became of the request
//! has been taken in, [`Fetching::is_in_gap`] tells them from what was fetched. A gap of which something is cached is
//! left out: who had it cached must not lose it. What lies between two files of a train is read past the page cache
//! ([`Disk::pass`]).

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Instant;

use foretell_policy::{Block, FileId, ManagerId};

use self::lanes::Lanes;
use crate::disk::{Disk, Passed, Ticket};
use crate::page_cache::PageCache;

mod lanes;

/// Prefetches that may wait to be started for one device, in blocks; what is more waits in the loop.
pub(crate) const PREFETCH_QUEUE_BLOCKS: usize = 4096;

/// A block to be prefetched.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    pub(crate) serial: u32,
    pub(crate) block: Block,
    pub(crate) manager: ManagerId,
    pub(crate) file: Arc<File>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) offset: u64,
    /// The block's bytes, less at the end of the file.
    pub(crate) length: u64,
    /// Where it is on its device, as a number that grows along it.
    pub(crate) place: u64,
}

/// Blocks next to each other that are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) blocks: Range<u32>,
    offset: u64,
    length: u64,
}

impl Run {
    fn of(fetch: &Fetch) -> Run {
        let index = fetch.block.index;
        Run { blocks: index..index.saturating_add(1), offset: fetch.offset, length: fetch.length }
    }

    fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// Blocks of one file, read together.
#[derive(Debug)]
pub(crate) struct Request {
    /// What lies on the device between the request before it in a train and this one, and is read along with them
    /// ([`Disk::pass`]).
    passed: Range<u64>,
    pub(crate) serial: u32,
    pub(crate) id: FileId,
    /// What is wanted, in the order of the file: one run at least. Between two there is a gap.
    pub(crate) runs: Vec<Run>,
    file: Arc<File>,
    /// Bytes of each block but the last.
    block_bytes: u64,
}

impl Request {
    /// Blocks that are wanted.
    fn wanted(&self) -> usize {
        self.runs.iter().map(|run| run.blocks.len()).sum()
    }

    fn gaps(&self) -> impl Iterator<Item = (&Run, &Run)> {
        self.runs.iter().zip(self.runs.iter().skip(1))
    }
}

/// Requests that are asked for at once: one, or on a disk with an arm several of files that lie one behind the other. It
/// moves once for them if nobody else's requests come between.
#[derive(Debug)]
pub(crate) struct Train {
    requests: Vec<Request>,
    disk: Arc<Disk>,
    ticket: Ticket,
}

impl Train {
    /// Blocks that are wanted.
    fn wanted(&self) -> usize {
        self.requests.iter().map(Request::wanted).sum()
    }
}

/// What the loop wants to be done to the queue. A thread that has the lock may have to wait for a processor, on a busy
/// machine for some tens of milliseconds, and the loop does not wait for that: it does what it wants later, and before anything
/// else enters the queue.
#[derive(Debug, Default)]
struct Left {
    /// Blocks that a program has asked for itself, by the number of the file's registration.
    overtaken: Vec<(u32, u32)>,
    /// Managers whose prefetches are withdrawn.
    cancelled: Vec<ManagerId>,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.overtaken.is_empty() && self.cancelled.is_empty()
    }
}

/// Of more than so many the loop waits for the lock.
const LEFT: usize = 1 << 12;

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Number of the file's registration.
    pub(crate) serial: u32,
    pub(crate) id: FileId,
    /// The blocks that were wanted, and how many of each run, from its first on, are there; the others will not be.
    pub(crate) runs: Vec<(Range<u32>, u32)>,
    /// The blocks of gaps that were read to be dropped. [`Fetching::is_in_gap`] knows them until [`Fetching::take_in`].
    pub(crate) gaps: Vec<Range<u32>>,
    /// What the disk took for each block, without queueing.
    pub(crate) access_ns: u64,
}

/// What the threads share under a lock.
#[derive(Debug, Default)]
struct State {
    lanes: Lanes,
    /// Threads that wait for work.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    /// Threads that are being started.
    starting: usize,
    /// So many of those that wait are to end.
    ending: usize,
    closed: bool,
}

/// The queue and its threads.
pub(crate) struct Fetching {
    state: Mutex<State>,
    changed: Condvar,
    most_threads: usize,
    cache: Arc<dyn PageCache>,
    /// Ends of the gaps that are read, by the number of the file's registration and the first block.
    gaps: Mutex<BTreeMap<(u32, u32), u32>>,
    /// How many there are: where there is none nobody waits for the lock.
    gap_count: AtomicUsize,
    keeps_gaps: AtomicBool,
    /// What waits until the queue is free to be looked at. Only the loop takes this lock.
    left: Mutex<Left>,
    /// Takes what became of a request; must not wait.
    post: Box<dyn Fn(Fetched) + Send + Sync>,
    start: Instant,
}

impl std::fmt::Debug for Fetching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetching").field("most_threads", &self.most_threads).finish_non_exhaustive()
    }
}

impl Fetching {
    /// Starts the first thread; as many as `most_threads` (1 at least) when there is work for them.
    ///
    /// # Errors
    /// When the first thread cannot be started.
    pub(crate) fn start(
        cache: Arc<dyn PageCache>,
        most_threads: usize,
        post: impl Fn(Fetched) + Send + Sync + 'static,
    ) -> io::Result<Arc<Fetching>> {
        let fetching = Arc::new(Fetching {
            state: Mutex::default(),
            changed: Condvar::new(),
            most_threads: most_threads.max(1),
            cache,
            gaps: Mutex::default(),
            gap_count: AtomicUsize::new(0),
            keeps_gaps: AtomicBool::new(false),
            left: Mutex::default(),
            post: Box::new(post),
            start: Instant::now(),
        });
        let first = fetching.spawn()?;
        fetching.state().threads.push(first);
        Ok(fetching)
    }

    /// Queues prefetches in their order; returns those for which there was no room. What was to be done before has been done
    /// then ([`Fetching::settle`]).
    ///
    /// # Errors
    /// A thread is just looking at the queue: all of them, to be pushed a moment later.
    pub(crate) fn push(&self, fetches: Vec<Fetch>) -> Result<Vec<Fetch>, Vec<Fetch>> {
        if !self.left().is_empty() {
            return Err(fetches);
        }
        let Some(mut state) = self.state_if_free() else { return Err(fetches) };
        let refused = state.lanes.push(fetches);
        drop(state);
        // Whoever wakes up calls the next one.
        self.changed.notify_one();
        Ok(refused)
    }

    /// The program has asked for a block itself: what waits for that alone is dropped, by [`Fetching::settle`].
    pub(crate) fn overtaken(&self, serial: u32, index: u32) {
        self.left().overtaken.push((serial, index));
    }

    /// The prefetches of a manager that have not been started are to be dropped, by [`Fetching::settle`].
    pub(crate) fn cancel(&self, manager: ManagerId) {
        let mut left = self.left();
        if !left.cancelled.contains(&manager) {
            left.cancelled.push(manager);
        }
    }

    /// Does what was left to be done to the queue; the prefetches that were dropped as their manager's were withdrawn. `None`
    /// if a thread is just looking at it.
    pub(crate) fn settle(&self) -> Option<Vec<Fetch>> {
        let mut left = self.left();
        if left.is_empty() {
            return Some(Vec::new());
        }
        let mut state = if left.overtaken.len() < LEFT { self.state_if_free()? } else { self.state() };
        for (serial, index) in left.overtaken.drain(..) {
            state.lanes.overtaken(serial, index);
        }
        let cancelled = std::mem::take(&mut left.cancelled);
        if cancelled.is_empty() {
            return Some(Vec::new());
        }
        Some(state.lanes.cancel(|fetch| cancelled.contains(&fetch.manager)))
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is room for what is read between what is wanted. It counts for requests that are begun from now on.
    pub(crate) fn keep_gaps(&self, keep: bool) {
        self.keeps_gaps.store(keep, Ordering::Relaxed);
    }

    /// Whether a block is read only because what is wanted lies on both sides of it.
    pub(crate) fn is_in_gap(&self, serial: u32, index: u32) -> bool {
        if self.gap_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        let before = gaps.range((serial, 0)..=(serial, index)).next_back();
        before.is_some_and(|(_, &end)| index < end)
    }

    /// What became of a request has been taken in.
    pub(crate) fn take_in(&self, fetched: &Fetched) {
        if fetched.gaps.is_empty() {
            return;
        }
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        for gap in &fetched.gaps {
            gaps.remove(&(fetched.serial, gap.start));
        }
        self.gap_count.store(gaps.len(), Ordering::Release);
    }

    /// Has a thread ended although nobody told it to? Not known while a thread is looking at the queue.
    pub(crate) fn is_dead(&self) -> bool {
        self.state_if_free().is_some_and(|state| state.threads.iter().any(JoinHandle::is_finished))
    }

    /// Ends the threads that wait for work, but for one. They are started again when there is work for them. Does nothing
    /// while a thread is looking at the queue.
    pub(crate) fn end_idle_threads(&self) {
        let Some(mut state) = self.state_if_free() else { return };
        state.ending = state.idle.min(state.threads.len().saturating_sub(1));
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the threads, each after the request that it works on.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.lanes = Lanes::default();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.changed.notify_all();
        for thread in threads {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody has it.
    fn state_if_free(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn spawn(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let fetching = Arc::clone(self);
        let thread = std::thread::Builder::new().name("foretell-fetch".to_owned());
        thread.spawn(move || fetching.work())
    }

    fn work(self: &Arc<Self>) {
        lower_priority();
        while let Some(train) = self.next() {
            let asked: Vec<Asked> = train.requests.iter().map(|request| self.plan(request)).collect();
            let window_bytes = train.disk.window_bytes();
            let mut passed = Passed::default();
            let started = train.requests.iter().zip(&asked).map(|(request, asked)| {
                train.disk.pass(&request.passed, &mut passed);
                asked.spans.iter().map(|span| start(&*self.cache, request, span, window_bytes)).collect()
            });
            let started: Vec<Vec<usize>> = started.collect();
            let there =
                train.requests.iter().zip(asked.iter().zip(started)).map(|(request, (asked, started))| {
                    let spans = asked.spans.iter().zip(started);
                    spans
                        .map(|(span, parts)| wait(&*self.cache, request, span, window_bytes, parts))
                        .collect()
                });
            let there: Vec<Vec<u64>> = there.collect();
            let is_whole = |(asked, there): (&Asked, &Vec<u64>)| {
                asked.spans.iter().zip(there).all(|(span, &there)| there == span.end)
            };
            // What was read in several pieces says little of how the disk does with one.
            let counts =
                asked.iter().all(|asked| asked.spans.len() == 1) && asked.iter().zip(&there).all(is_whole);
            let access_ns = train.disk.end(self.now_ns(), train.ticket, counts);
            let access_ns = access_ns / (train.wanted() as u64).max(1);
            for ((request, asked), there) in train.requests.into_iter().zip(asked).zip(there) {
                self.end(&request, asked, &there, access_ns);
            }
        }
    }

    /// Tells what became of a request: up to where each of its spans is there.
    fn end(&self, request: &Request, asked: Asked, there: &[u64], access_ns: u64) {
        for (first, second) in request.gaps().filter(|(first, _)| asked.is_read_behind(first)) {
            // What stays is found when the outcome is taken in.
            let _ = self.cache.drop_range(&request.file, first.end(), second.offset - first.end());
        }
        let runs = request.runs.iter().map(|run| {
            let at = asked.spans.partition_point(|span| span.end <= run.offset);
            let bytes = there.get(at).map_or(0, |there| there.saturating_sub(run.offset)).min(run.length);
            let whole = u32::try_from(run.blocks.len()).unwrap_or(u32::MAX);
            let blocks = match bytes {
                bytes if bytes == run.length => whole,
                bytes => u32::try_from(bytes / request.block_bytes.max(1)).unwrap_or(0).min(whole),
            };
            (run.blocks.clone(), blocks)
        });
        let (serial, id, runs) = (request.serial, request.id, runs.collect());
        (self.post)(Fetched { serial, id, runs, gaps: asked.gaps, access_ns });
    }

    /// What is read for a request: all of it at once, but for gaps of which something is cached.
    fn plan(&self, request: &Request) -> Asked {
        let mut asked = Asked { spans: Vec::new(), gaps: Vec::new() };
        let mut span = request.runs.first().map_or(0..0, |run| run.offset..run.end());
        let are_kept = self.keeps_gaps.load(Ordering::Relaxed);
        for (first, second) in request.gaps() {
            let status = self.cache.status(&request.file, first.end(), second.offset - first.end());
            // mincore(2), before cachestat(2), takes what somebody is just reading for absent: then gaps are left out.
            if status.is_ok_and(|status| status.cached == 0 && !status.by_mincore) {
                if !are_kept {
                    asked.gaps.push(first.blocks.end..second.blocks.start);
                }
                span.end = second.end();
            } else {
                asked.spans.push(std::mem::replace(&mut span, second.offset..second.end()));
            }
        }
        asked.spans.push(span);
        if asked.gaps.is_empty() {
            return asked;
        }
        let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        gaps.extend(asked.gaps.iter().map(|gap| ((request.serial, gap.start), gap.end)));
        self.gap_count.store(gaps.len(), Ordering::Release);
        asked
    }

    /// The next requests; waits until there is one. `None` when there will be no more.
    fn next(self: &Arc<Self>) -> Option<Train> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(train) = state.lanes.take(self.now_ns()) {
                if state.lanes.has_more() {
                    if state.idle > 0 {
                        self.changed.notify_one();
                    } else if state.threads.len() + state.starting < self.most_threads {
                        state.starting += 1;
                        drop(state);
                        // When the system has no thread left, those that there are do it all.
                        let started = self.spawn();
                        let mut state = self.state();
                        state.starting -= 1;
                        state.threads.extend(started);
                    }
                }
                return Some(train);
            }
            if state.ending > 0 {
                state.ending -= 1;
                // One that ends and is still on the list is taken for dead: whoever has started it may not have entered it yet.
                let own = std::thread::current().id();
                if let Some(at) = state.threads.iter().position(|thread| thread.thread().id() == own) {
                    state.threads.swap_remove(at);
                    return None;
                }
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What of a request is read.
struct Asked {
    /// Bytes, in the order of the file.
    spans: Vec<Range<u64>>,
    /// Blocks among them that nobody wants and that are not kept.
    gaps: Vec<Range<u32>>,
}

impl Asked {
    fn is_read_behind(&self, run: &Run) -> bool {
        self.gaps.iter().any(|gap| gap.start == run.blocks.end)
    }
}

/// The pieces of a span that one `readahead(2)` reads.
fn parts(span: &Range<u64>, window_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let end = span.end;
    let starts = std::iter::successors(Some(span.start), move |at| Some(at + window_bytes));
    starts.take_while(move |&at| at < end).map(move |at| at..end.min(at + window_bytes))
}

/// Begins to read a span of a request's file into the cache; returns how many pieces were begun.
fn start(cache: &dyn PageCache, request: &Request, span: &Range<u64>, window_bytes: u64) -> usize {
    parts(span, window_bytes)
        .take_while(|part| cache.start_read(&request.file, part.start, part.end - part.start).is_ok())
        .count()
}

/// Waits for the pieces of a span that were begun; returns up to where it is there.
fn wait(cache: &dyn PageCache, request: &Request, span: &Range<u64>, window_bytes: u64, begun: usize) -> u64 {
    parts(span, window_bytes)
        .take(begun)
        .take_while(|part| cache.await_page(&request.file, part.end - 1).unwrap_or(false))
        .last()
        .map_or(span.start, |part| part.end)
}

/// Gives the calling thread the lowest best-effort priority of I/O. What a scheduler makes of it is its own affair.
fn lower_priority() {
    // `include/uapi/linux/ioprio.h`.
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const IOPRIO_CLASS_BE: libc::c_int = 2;
    const IOPRIO_CLASS_SHIFT: libc::c_int = 13;
    const LOWEST: libc::c_int = 7;
    let priority = (IOPRIO_CLASS_BE << IOPRIO_CLASS_SHIFT) | LOWEST;
    // SAFETY: takes numbers only; 0 stands for the calling thread. Refused, the priority stays what it is.
    unsafe {
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority);
    }
}

#[cfg(test)]
mod tests;
