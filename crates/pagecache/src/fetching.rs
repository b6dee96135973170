//! The queue of prefetches, and the threads that work it off.
//!
//! Blocks come in the order of the policy, and go out in requests. A request begins with one block and takes along the
//! blocks after it in the same file, then those before it, that wait anywhere in the queue, up to the largest
//! request worth making on that device ([`crate::disk`]). Which block is next depends on the device:
//!
//! - Without an arm, it is the one that the policy gave first.
//! - With an arm, it is the next one along the disk; behind the last one the sweep begins anew at the first (C-SCAN,
//!   one-way elevator). A sweep ends after a bounded number of requests, however much comes in ahead of it, and a
//!   block that has seen two sweeps begin goes before all others: nothing waits for ever.
//!
//! Each device has a lane of its own, with as many requests under way as it serves in a short time. A device that has
//! enough to do is passed over, so no thread ever waits for room in one while another device has work.
//!
//! A thread takes one request, asks the kernel for it with `readahead(2)`, in as many calls as the kernel's window
//! makes necessary, and waits for the last byte of each. Threads are started when there is work that all the others are
//! too busy for. They have the lowest best-effort priority of I/O, for the schedulers that honour it.

#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use foretell_policy::{Block, FileId, ManagerId};

use crate::disk::{Disk, Room, Ticket};
use crate::kernel::PageCache;

/// Prefetches that may wait to be started, in blocks; one more is refused (the policy asks again).
pub(crate) const PREFETCH_QUEUE_BLOCKS: usize = 4096;
/// Requests of one sweep at most.
const SWEEP_REQUESTS: usize = PREFETCH_QUEUE_BLOCKS;
/// A block that has seen so many sweeps begin goes first.
const SWEEPS: u64 = 2;
/// Lanes of devices for which nothing waits that are kept: their place on the disk is worth remembering.
const IDLE_LANES: usize = 64;

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

/// Blocks next to each other, read together.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) serial: u32,
    pub(crate) id: FileId,
    pub(crate) blocks: Range<u32>,
    file: Arc<File>,
    disk: Arc<Disk>,
    offset: u64,
    length: u64,
    /// Bytes of each block but the last.
    block_bytes: u64,
    ticket: Ticket,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Number of the file's registration.
    pub(crate) serial: u32,
    pub(crate) id: FileId,
    pub(crate) blocks: Range<u32>,
    /// So many of them, from the first on, are there; the others will not be.
    pub(crate) there: u32,
    /// What the disk took for each block, without queueing.
    pub(crate) access_ns: u64,
}

/// What waits for one device.
#[derive(Debug)]
struct Lane {
    disk: Arc<Disk>,
    /// By order of arrival, with the sweep in which it came.
    waiting: BTreeMap<u64, (Fetch, u64)>,
    by_block: BTreeMap<(u32, u32), u64>,
    by_place: BTreeSet<(u64, u64)>,
    /// Where the sweep has come, and its number.
    head: u64,
    sweep: u64,
    /// Requests of this sweep.
    swept: usize,
    /// File and block after the last request.
    end: Option<(u32, u32)>,
}

impl Lane {
    fn new(disk: Arc<Disk>) -> Lane {
        Lane {
            disk,
            waiting: BTreeMap::new(),
            by_block: BTreeMap::new(),
            by_place: BTreeSet::new(),
            head: 0,
            sweep: 0,
            swept: 0,
            end: None,
        }
    }

    fn remove(&mut self, arrival: u64) -> Option<Fetch> {
        let (fetch, _) = self.waiting.remove(&arrival)?;
        self.by_block.remove(&(fetch.serial, fetch.block.index));
        self.by_place.remove(&(fetch.place, arrival));
        Some(fetch)
    }

    /// The block that the next request begins with.
    fn next(&mut self, has_arm: bool) -> Option<u64> {
        let (&oldest, &(_, sweep)) = self.waiting.first_key_value()?;
        if !has_arm || sweep + SWEEPS <= self.sweep {
            return Some(oldest);
        }
        let ahead = self.by_place.range((self.head, 0)..).next().filter(|_| self.swept < SWEEP_REQUESTS);
        if let Some(&(_, arrival)) = ahead {
            self.swept += 1;
            return Some(arrival);
        }
        (self.sweep, self.swept) = (self.sweep + 1, 1);
        self.by_place.first().map(|&(_, arrival)| arrival)
    }

    /// Takes a block out of the queue, if it waits there and goes with a request.
    fn neighbour(&mut self, serial: u32, index: u32, goes: impl Fn(&Fetch) -> bool) -> Option<Fetch> {
        let arrival = *self.by_block.get(&(serial, index))?;
        self.waiting.get(&arrival).filter(|(fetch, _)| goes(fetch))?;
        self.remove(arrival)
    }

    /// Takes the next request out of the queue, if the device has room for one.
    fn take(&mut self, now_ns: u64) -> Option<Request> {
        if self.waiting.is_empty() {
            return None;
        }
        let Room { bytes, has_arm } = self.disk.room()?;
        let arrival = self.next(has_arm)?;
        let first = self.remove(arrival)?;
        let (serial, index) = (first.serial, first.block.index);
        let (mut offset, mut end, mut blocks) =
            (first.offset, first.offset + first.length, index..index.saturating_add(1));
        self.head = first.place;
        let mut block_bytes = first.length;
        while let Some(next) = self.neighbour(serial, blocks.end, |next| {
            next.offset == end && next.offset + next.length - offset <= bytes
        }) {
            end = next.offset + next.length;
            blocks.end = blocks.end.saturating_add(1);
            block_bytes = block_bytes.max(next.length);
            self.head = next.place;
        }
        // On a disk what lies behind has been passed.
        while !has_arm
            && let Some(index) = blocks.start.checked_sub(1)
            && let Some(before) = self.neighbour(serial, index, |before| {
                before.offset + before.length == offset && end - before.offset <= bytes
            })
        {
            offset = before.offset;
            blocks.start = index;
            block_bytes = block_bytes.max(before.length);
        }
        self.head = self.head.saturating_add(1);
        let scattered = self.end != Some((serial, blocks.start));
        self.end = Some((serial, blocks.end));
        let ticket = self.disk.begin(now_ns, end - offset, scattered);
        Some(Request {
            serial,
            id: first.block.file,
            blocks,
            file: first.file,
            disk: first.disk,
            offset,
            length: end - offset,
            block_bytes,
            ticket,
        })
    }
}

/// What waits, by device.
#[derive(Debug, Default)]
struct Lanes {
    lanes: Vec<Lane>,
    /// Blocks that wait, in all.
    waiting: usize,
    arrivals: u64,
    /// The lane that is asked first next time.
    turn: usize,
}

impl Lanes {
    /// Takes in fetches in their order; returns those for which there was no room. A block that waits already is
    /// not taken in twice.
    fn push(&mut self, fetches: Vec<Fetch>) -> Vec<Fetch> {
        let mut fetches = fetches.into_iter();
        while self.waiting < PREFETCH_QUEUE_BLOCKS
            && let Some(fetch) = fetches.next()
        {
            let lane = self.lane(&fetch.disk);
            let block = (fetch.serial, fetch.block.index);
            if lane.by_block.contains_key(&block) {
                continue;
            }
            let arrival = self.arrivals;
            self.arrivals += 1;
            self.waiting += 1;
            let lane = self.lane(&fetch.disk);
            lane.by_block.insert(block, arrival);
            lane.by_place.insert((fetch.place, arrival));
            lane.waiting.insert(arrival, (fetch, lane.sweep));
        }
        fetches.collect()
    }

    fn lane(&mut self, disk: &Arc<Disk>) -> &mut Lane {
        let known = self.lanes.iter().position(|lane| Arc::ptr_eq(&lane.disk, disk));
        let at = known.unwrap_or_else(|| {
            if self.lanes.len() >= IDLE_LANES {
                self.lanes.retain(|lane| !lane.waiting.is_empty());
            }
            self.lanes.push(Lane::new(Arc::clone(disk)));
            self.lanes.len() - 1
        });
        &mut self.lanes[at]
    }

    /// The next request to a device that has room for one; the devices take turns.
    fn take(&mut self, now_ns: u64) -> Option<Request> {
        let count = self.lanes.len();
        let turn = self.turn;
        let (at, request) = (0..count)
            .map(|step| (turn + step) % count)
            .find_map(|at| self.lanes[at].take(now_ns).map(|request| (at, request)))?;
        self.turn = at + 1;
        self.waiting -= request.blocks.len();
        Some(request)
    }

    /// Is there a device with work and room for it?
    fn has_more(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.waiting.is_empty() && lane.disk.room().is_some())
    }

    /// The program has asked for a block itself. Is it one by itself, it need not be asked for again: what is left of it
    /// would cost a request of its own. In a run it stays.
    fn overtaken(&mut self, serial: u32, index: u32) {
        let next = index.checked_add(1);
        for lane in &mut self.lanes {
            let in_run = next.is_some_and(|next| lane.by_block.contains_key(&(serial, next)));
            if let Some(&arrival) = lane.by_block.get(&(serial, index)).filter(|_| !in_run) {
                lane.remove(arrival);
                self.waiting -= 1;
            }
        }
    }

    /// Drops what `drop_it` says; returns it in the order in which it came.
    fn cancel(&mut self, drop_it: impl Fn(&Fetch) -> bool) -> Vec<Fetch> {
        let mut dropped = Vec::new();
        for lane in &mut self.lanes {
            let arrivals: Vec<u64> = lane
                .waiting
                .iter()
                .filter(|(_, (fetch, _))| drop_it(fetch))
                .map(|(&arrival, _)| arrival)
                .collect();
            dropped.extend(arrivals.into_iter().filter_map(|arrival| lane.remove(arrival)));
        }
        self.waiting -= dropped.len();
        dropped
    }
}

/// What the threads share under a lock.
#[derive(Debug, Default)]
struct State {
    lanes: Lanes,
    /// Threads that wait for work.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

/// The queue and its threads.
pub(crate) struct Fetching {
    state: Mutex<State>,
    changed: Condvar,
    most_threads: usize,
    cache: Arc<dyn PageCache>,
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
            post: Box::new(post),
            start: Instant::now(),
        });
        fetching.spawn(&mut fetching.state())?;
        Ok(fetching)
    }

    /// Queues prefetches in their order; returns those for which there was no room.
    pub(crate) fn push(&self, fetches: Vec<Fetch>) -> Vec<Fetch> {
        let refused = self.state().lanes.push(fetches);
        // Whoever wakes up calls the next one.
        self.changed.notify_one();
        refused
    }

    /// The program has asked for a block itself: what waits for that alone is dropped.
    pub(crate) fn overtaken(&self, serial: u32, index: u32) {
        self.state().lanes.overtaken(serial, index);
    }

    /// Drops the prefetches that `drop_it` says and that have not been started; returns them.
    pub(crate) fn cancel(&self, drop_it: impl Fn(&Fetch) -> bool) -> Vec<Fetch> {
        self.state().lanes.cancel(drop_it)
    }

    /// Has a thread ended although nobody told it to?
    pub(crate) fn is_dead(&self) -> bool {
        self.state().threads.iter().any(JoinHandle::is_finished)
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

    fn spawn(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let fetching = Arc::clone(self);
        let thread = std::thread::Builder::new().name("foretell-fetch".to_owned());
        state.threads.push(thread.spawn(move || fetching.work())?);
        Ok(())
    }

    fn work(self: &Arc<Self>) {
        lower_priority();
        while let Some(request) = self.next() {
            let bytes = read(&*self.cache, &request);
            let access_ns = request.disk.end(self.now_ns(), request.ticket, bytes == request.length);
            let count = u32::try_from(request.blocks.len()).unwrap_or(u32::MAX);
            let there = match bytes {
                bytes if bytes == request.length => count,
                bytes => u32::try_from(bytes / request.block_bytes.max(1)).unwrap_or(0),
            };
            (self.post)(Fetched {
                serial: request.serial,
                id: request.id,
                blocks: request.blocks,
                there,
                access_ns: access_ns / u64::from(count.max(1)),
            });
        }
    }

    /// The next request; waits until there is one. `None` when there will be no more.
    fn next(self: &Arc<Self>) -> Option<Request> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(request) = state.lanes.take(self.now_ns()) {
                if state.lanes.has_more() {
                    if state.idle > 0 {
                        self.changed.notify_one();
                    } else if state.threads.len() < self.most_threads {
                        // When the system has no thread left, those that there are do it all.
                        let _ = self.spawn(&mut state);
                    }
                }
                return Some(request);
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

/// Reads a request into the cache; returns how many of its bytes, from the first on, are there.
fn read(cache: &dyn PageCache, request: &Request) -> u64 {
    let Request { file, offset, length, .. } = request;
    let window_bytes = request.disk.window_bytes();
    let mut asked = 0;
    while asked < *length {
        let part = window_bytes.min(length - asked);
        if cache.start_read(file, offset + asked, part).is_err() {
            break;
        }
        asked += part;
    }
    let mut there = 0;
    while there < asked {
        let end = asked.min(there + window_bytes);
        if !cache.await_page(file, offset + end - 1).unwrap_or(false) {
            break;
        }
        there = end;
    }
    there
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
