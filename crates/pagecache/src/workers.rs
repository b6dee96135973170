//! The threads that touch the page cache, so that the loop which steers never waits for it.
//!
//! One thread evicts: an eviction takes 3 to 200 us and needs no company. Like the thread that steers it runs
//! at `SCHED_FIFO` within a share ([`crate::schedule`]): while it waits for a processor, a program that reads
//! from a fast device fills the memory beyond the budget. What processes have mapped another thread evicts, at
//! the usual priority: it has to look through the mappings of strangers ([`crate::mappings`]), which may take it
//! some milliseconds for each, so nobody else's evictions stand behind those. A few threads prefetch: each
//! takes a batch, in the order in which the policy gave it, joins blocks that lie next to each other into
//! one `readahead(2)` (which returns at once), and then waits for each in turn by reading the last byte of
//! it. All requests under way, over all threads, stay below half of the device's queue, so that a demand
//! read always finds room in it.
//!
//! Results come back through a channel, with an `eventfd(2)` to wake the loop.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foretell_policy::{Block, FileId, ManagerId};

use crate::folios::Folio;
use crate::kernel::PageCache;
use crate::observe::FileKey;
use crate::schedule::Schedule;

/// Prefetches that may wait to be started, in blocks; one more is refused (the policy asks again).
pub(crate) const PREFETCH_QUEUE_BLOCKS: usize = 4096;
/// Evictions that may wait to be done, in runs of folios; what is more waits in the loop.
pub(crate) const EVICT_QUEUE_RUNS: usize = 256;
/// What the mappings of strangers may take of one eviction; pages that further processes have mapped stay.
const MAPPINGS_TIME: Duration = Duration::from_millis(4);
/// Largest `readahead(2)`: one request of most devices, and no more than the kernel's smallest window.
const REQUEST_BYTES: u64 = 128 << 10;

/// Folios next to each other, to be evicted.
#[derive(Debug)]
pub(crate) struct Eviction {
    /// Number of the file's registration.
    pub(crate) serial: u32,
    pub(crate) id: FileId,
    pub(crate) key: FileKey,
    pub(crate) file: Arc<File>,
    pub(crate) folios: Vec<Folio>,
    /// Processes that have mapped the file.
    pub(crate) mapped_by: Vec<u32>,
    /// It has failed once before.
    pub(crate) again: bool,
}

impl Eviction {
    /// Has a process mapped the file?
    pub(crate) fn is_mapped(&self) -> bool {
        !self.mapped_by.is_empty()
    }
}

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
}

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The eviction has been tried; `unclean` are the folios that stay for now, because they are not written back.
    Evicted { eviction: Eviction, unclean: Vec<Folio> },
    /// The block is there, or will not be; `access_ns` is what its disk took for it, without queueing.
    Fetched { serial: u32, block: Block, ok: bool, access_ns: u64 },
}

/// A device's share of requests.
#[derive(Debug)]
pub(crate) struct Disk {
    limit: usize,
    under_way: Mutex<usize>,
    freed: Condvar,
    /// When the last request ended.
    ended: Mutex<Option<Instant>>,
}

impl Disk {
    /// At most `limit` requests (1 at least) at a time.
    pub(crate) fn new(limit: usize) -> Disk {
        Disk { limit: limit.max(1), under_way: Mutex::new(0), freed: Condvar::new(), ended: Mutex::new(None) }
    }

    /// Takes a place in the queue; when there is none, waits if `wait`, else says no.
    fn enter(&self, wait: bool) -> bool {
        let mut under_way = lock(&self.under_way);
        while *under_way >= self.limit {
            if !wait {
                return false;
            }
            under_way = self.freed.wait(under_way).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *under_way += 1;
        true
    }

    /// Gives the place of a request that was started at `started` back. Says how long the disk worked on
    /// it: since it was started, or since the request before it ended. A disk that serves several at a time
    /// so appears as one that is as many times as quick.
    fn leave(&self, started: Instant) -> Duration {
        *lock(&self.under_way) -= 1;
        self.freed.notify_one();
        let now = Instant::now();
        let before = lock(&self.ended).replace(now);
        now.saturating_duration_since(before.map_or(started, |before| before.max(started)))
    }
}

/// The queue of prefetches.
#[derive(Debug, Default)]
struct FetchQueue {
    state: Mutex<FetchState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct FetchState {
    waiting: VecDeque<Fetch>,
    closed: bool,
}

/// The threads and the way back from them.
#[derive(Debug)]
pub(crate) struct Workers {
    evictions: Option<SyncSender<Eviction>>,
    /// Of files that processes have mapped.
    mapped: Option<SyncSender<Eviction>>,
    fetches: Arc<FetchQueue>,
    outcomes: Option<Receiver<Outcome>>,
    bell: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts one thread that evicts, scheduled by `schedule`, one for what is mapped, and `prefetch_threads` that
    /// prefetch up to `batch` blocks at a time.
    ///
    /// # Errors
    /// When a thread or the `eventfd` cannot be made.
    pub(crate) fn start(
        cache: &Arc<dyn PageCache>,
        mut schedule: Schedule,
        prefetch_threads: usize,
        batch: usize,
    ) -> io::Result<Workers> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = Arc::new(rustix::event::eventfd(0, flags)?);
        // Room for all that can be under way: a thread never waits for the loop.
        let room = PREFETCH_QUEUE_BLOCKS + 2 * (EVICT_QUEUE_RUNS + 2) + prefetch_threads * batch;
        let (done, outcomes) = sync_channel(room);
        let (evictions, to_evict) = sync_channel(EVICT_QUEUE_RUNS);
        let (mapped, mapped_to_evict) = sync_channel(EVICT_QUEUE_RUNS);
        let mut workers = Workers {
            evictions: Some(evictions),
            mapped: Some(mapped),
            fetches: Arc::default(),
            outcomes: Some(outcomes),
            bell,
            threads: Vec::new(),
        };
        let (sender, bell, kernel) = (done.clone(), Arc::clone(&workers.bell), Arc::clone(cache));
        workers.spawn("foretell-evict", move || {
            for eviction in to_evict {
                schedule.check(true);
                let unclean = evict(&*kernel, &eviction);
                post(&sender, &bell, Outcome::Evicted { eviction, unclean });
            }
        })?;
        let (sender, bell, kernel) = (done.clone(), Arc::clone(&workers.bell), Arc::clone(cache));
        workers.spawn("foretell-mapped", move || {
            for eviction in mapped_to_evict {
                let unclean = evict(&*kernel, &eviction);
                post(&sender, &bell, Outcome::Evicted { eviction, unclean });
            }
        })?;
        for _ in 0..prefetch_threads {
            let (sender, bell, kernel) = (done.clone(), Arc::clone(&workers.bell), Arc::clone(cache));
            let queue = Arc::clone(&workers.fetches);
            workers.spawn("foretell-fetch", move || {
                while let Some(batch) = queue.next(batch) {
                    fetch_batch(&*kernel, &batch, &mut |outcome| post(&sender, &bell, outcome));
                }
            })?;
        }
        Ok(workers)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(body)?);
        Ok(())
    }

    /// Readable when an outcome has come.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The outcomes so far. Silences the bell.
    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        // Not readable means silent already.
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        self.outcomes.iter().flat_map(Receiver::try_iter).collect()
    }

    /// Queues an eviction; gives it back when the queue is full.
    pub(crate) fn evict(&self, eviction: Eviction) -> Result<(), Eviction> {
        let queue = if eviction.is_mapped() { &self.mapped } else { &self.evictions };
        let Some(queue) = queue else { return Err(eviction) };
        queue.try_send(eviction).map_err(|full| match full {
            std::sync::mpsc::TrySendError::Full(e) | std::sync::mpsc::TrySendError::Disconnected(e) => e,
        })
    }

    /// Queues prefetches in their order; returns those for which there was no room.
    pub(crate) fn fetch(&self, fetches: Vec<Fetch>) -> Vec<Fetch> {
        let mut state = lock(&self.fetches.state);
        let room = PREFETCH_QUEUE_BLOCKS.saturating_sub(state.waiting.len()).min(fetches.len());
        let mut fetches = fetches.into_iter();
        state.waiting.extend(fetches.by_ref().take(room));
        drop(state);
        self.fetches.changed.notify_all();
        fetches.collect()
    }

    /// Drops the prefetches that `drop_it` says and that have not been started; returns them.
    pub(crate) fn cancel(&self, drop_it: impl Fn(&Fetch) -> bool) -> Vec<Fetch> {
        let mut state = lock(&self.fetches.state);
        let (dropped, kept) = state.waiting.drain(..).partition(drop_it);
        state.waiting = kept;
        dropped.into()
    }

    /// Have all threads ended although nobody told them to?
    pub(crate) fn are_dead(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        (self.evictions, self.mapped) = (None, None);
        // No thread waits for room in a channel that nobody listens to.
        self.outcomes = None;
        let mut state = lock(&self.fetches.state);
        state.closed = true;
        state.waiting.clear();
        drop(state);
        self.fetches.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

impl FetchQueue {
    /// Up to `limit` prefetches; `None` when there will be no more.
    fn next(&self, limit: usize) -> Option<Vec<Fetch>> {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        let count = limit.max(1).min(state.waiting.len());
        Some(state.waiting.drain(..count).collect())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn post(sender: &SyncSender<Outcome>, bell: &OwnedFd, outcome: Outcome) {
    // A plane that is gone wants no outcomes; a bell that overflows rings all the same.
    let _ = sender.send(outcome);
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Evicts what is clean; of the rest it starts the write-back, as `POSIX_FADV_DONTNEED` does, and returns it. That
/// is what the kernel does with dirty pages that it wants to reclaim, and without it what a program writes would
/// stay beyond the budget for half a minute.
fn evict(cache: &dyn PageCache, eviction: &Eviction) -> Vec<Folio> {
    let is_unclean = |folios: &[Folio]| {
        let (offset, length) = bytes(folios);
        // Without cachestat(2), before Linux 6.5, nothing is known to be unclean.
        cache.status(&eviction.file, offset, length).is_ok_and(|status| status.unclean > 0)
    };
    let unclean = if is_unclean(&eviction.folios) {
        let folios = eviction.folios.iter().copied();
        folios.filter(|folio| is_unclean(std::slice::from_ref(folio))).collect()
    } else {
        Vec::new()
    };
    let (offset, length) = bytes(&eviction.folios);
    let start = Instant::now();
    for &pid in &eviction.mapped_by {
        if start.elapsed() > MAPPINGS_TIME {
            break;
        }
        // Refused, or the process is gone: seen from what stays cached.
        let _ = cache.page_out(pid, eviction.key, offset, length);
    }
    // The same.
    let _ = cache.drop_range(&eviction.file, offset, length);
    unclean
}

/// Offset and length of folios that lie next to each other.
fn bytes(folios: &[Folio]) -> (u64, u64) {
    let page = crate::kernel::page_bytes();
    let start = folios.first().map_or(0, |folio| folio.head);
    let end = folios.last().map_or(start, |folio| folio.range().end);
    (start * page, (end - start) * page)
}

/// Blocks next to each other, read with one call.
struct Request<'a> {
    blocks: &'a [Fetch],
    end: u64,
    started_at: Instant,
    started: bool,
}

fn fetch_batch(cache: &dyn PageCache, batch: &[Fetch], post: &mut dyn FnMut(Outcome)) {
    let mut requests: VecDeque<Request<'_>> = VecDeque::new();
    let mut rest = batch;
    while let Some(first) = rest.first() {
        let run = run_length(rest);
        let (blocks, after) = rest.split_at(run);
        rest = after;
        // With the queue full, finish what is ours before waiting for others to finish theirs.
        while !first.disk.enter(requests.is_empty()) {
            if let Some(oldest) = requests.pop_front() {
                finish(cache, &oldest, post);
            }
        }
        let end = blocks.last().map_or(first.offset, |last| last.offset + last.length);
        let started_at = Instant::now();
        let started = cache.start_read(&first.file, first.offset, end - first.offset).is_ok();
        requests.push_back(Request { blocks, end, started_at, started });
    }
    requests.iter().for_each(|request| finish(cache, request, post));
}

fn finish(cache: &dyn PageCache, request: &Request<'_>, post: &mut dyn FnMut(Outcome)) {
    let Some(first) = request.blocks.first() else { return };
    let ok = request.started
        && request.end > first.offset
        && cache.await_page(&first.file, request.end - 1).unwrap_or(false);
    let access =
        first.disk.leave(request.started_at) / u32::try_from(request.blocks.len()).unwrap_or(u32::MAX);
    let access_ns = u64::try_from(access.as_nanos()).unwrap_or(u64::MAX);
    for fetch in request.blocks {
        post(Outcome::Fetched { serial: fetch.serial, block: fetch.block, ok, access_ns });
    }
}

/// How many of the first fetches can be asked for in one request.
fn run_length(fetches: &[Fetch]) -> usize {
    let Some(first) = fetches.first() else { return 0 };
    let mut end = first.offset + first.length;
    let next = |fetch: &&Fetch| {
        let fits = fetch.serial == first.serial
            && fetch.offset == end
            && fetch.offset + fetch.length - first.offset <= REQUEST_BYTES;
        end = fetch.offset + fetch.length;
        fits
    };
    1 + fetches[1..].iter().take_while(next).count()
}
