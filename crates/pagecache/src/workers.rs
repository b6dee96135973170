//! The threads that touch the page cache, so that the loop which steers never waits for it.
//!
//! One thread evicts: an eviction takes 3 to 200 us and needs no company. Like the thread that steers it runs
//! at `SCHED_FIFO` within a share ([`crate::schedule`]): while it waits for a processor, a program that reads
//! from a fast device fills the memory beyond the budget. What processes have mapped other threads evict, at
//! the usual priority, each for one user at a time ([`crate::mapped`]): to look through the mappings of strangers may
//! take long, so nobody else's evictions stand behind those. Further threads prefetch ([`crate::fetching`]).
//!
//! Results come back through a mailbox, with an `eventfd(2)` to wake the loop.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foretell_policy::{FileId, ManagerId};

use crate::fetching::{Fetch, Fetched, Fetching};
use crate::folios::Folio;
use crate::kernel::CacheStatus;
use crate::mailbox::Mailbox;
use crate::mapped::MAPPED;
use crate::page_cache::PageCache;
use crate::put_off::Try;
use crate::schedule::Schedule;
use crate::shown::Names;
use foretell_door::ByUser;

/// Evictions that may wait to be done, in runs of folios; what is more waits in the loop.
pub(crate) const EVICT_QUEUE_RUNS: usize = 256;
/// What the mappings of strangers may take of one eviction; pages that further processes have mapped stay.
const MAPPINGS_TIME: Duration = Duration::from_millis(4);

/// Folios next to each other, to be evicted.
#[derive(Debug)]
pub(crate) struct Eviction {
    /// Number of the file's registration.
    pub(crate) serial: u32,
    pub(crate) id: FileId,
    pub(crate) names: Names,
    pub(crate) file: Arc<File>,
    pub(crate) folios: Vec<Folio>,
    /// Processes that have mapped the file.
    pub(crate) mapped_by: Vec<u32>,
    /// How often it has failed before.
    pub(crate) tried: Tried,
    /// Where it waits, if processes have mapped the file ([`crate::mapped`]).
    pub(crate) lane: Option<u32>,
}

/// What has been tried of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Nothing.
    Never,
    /// Once, a moment ago.
    Once,
    /// It was put off then; should this fail as well, this comes next.
    PutOff(Try),
}

impl Eviction {
    pub(crate) fn pages(&self) -> u64 {
        self.folios.iter().map(|folio| folio.pages).sum()
    }

    /// Has a process mapped the file?
    pub(crate) fn is_mapped(&self) -> bool {
        !self.mapped_by.is_empty()
    }
}

/// What became of a job.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The eviction has been tried; `unclean` are the folios that stay for now, because they are not written back.
    Evicted { eviction: Eviction, unclean: Vec<Folio> },
    /// The blocks of a request are there, or will not be.
    Fetched(Fetched),
}

/// The threads and the way back from them.
#[derive(Debug)]
pub(crate) struct Workers {
    evictions: Arc<Mailbox<Eviction>>,
    /// Of files that processes have mapped.
    mapped: ByUser<Eviction>,
    fetching: Arc<Fetching>,
    outcomes: Arc<Mailbox<Outcome>>,
    bell: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts one thread that evicts, scheduled by `schedule`, and, as they are needed, those for what is mapped and up
    /// to `prefetch_threads` that prefetch.
    ///
    /// # Errors
    /// When a thread or the `eventfd` cannot be made.
    pub(crate) fn start(
        cache: &Arc<dyn PageCache>,
        mut schedule: Schedule,
        prefetch_threads: usize,
    ) -> io::Result<Workers> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = Arc::new(rustix::event::eventfd(0, flags)?);
        // A thread never waits for the loop; there are no more outcomes than there was room for jobs.
        let outcomes = Arc::new(Mailbox::new(usize::MAX));
        let evictions = Arc::new(Mailbox::new(EVICT_QUEUE_RUNS));
        let (done, rung, kernel) = (Arc::clone(&outcomes), Arc::clone(&bell), Arc::clone(cache));
        let mapped = ByUser::start(MAPPED, move |eviction: Eviction| {
            let unclean = evict(&*kernel, &eviction);
            post(&done, &rung, Outcome::Evicted { eviction, unclean });
        })?;
        let (done, rung) = (Arc::clone(&outcomes), Arc::clone(&bell));
        let tell = move |fetched| post(&done, &rung, Outcome::Fetched(fetched));
        let mut workers = Workers {
            evictions: Arc::clone(&evictions),
            mapped,
            fetching: Fetching::start(Arc::clone(cache), prefetch_threads, tell)?,
            outcomes: Arc::clone(&outcomes),
            bell,
            threads: Vec::new(),
        };
        let (bell, kernel) = (Arc::clone(&workers.bell), Arc::clone(cache));
        workers.spawn("foretell-evict", move || {
            while let Some(eviction) = evictions.wait() {
                schedule.check(true);
                let unclean = evict(&*kernel, &eviction);
                post(&outcomes, &bell, Outcome::Evicted { eviction, unclean });
            }
        })?;
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

    /// The outcomes so far; none if a thread is just adding one. Silences the bell.
    pub(crate) fn outcomes(&self) -> Option<VecDeque<Outcome>> {
        // Not readable means silent already.
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        self.outcomes.take()
    }

    /// Queues an eviction of what nobody has mapped; gives it back when the queue is full, or the thread just looks at it.
    pub(crate) fn evict(&self, eviction: Eviction) -> Result<(), Eviction> {
        self.evictions.try_put(eviction)
    }

    /// The same of what processes have mapped, in the lane of their user.
    pub(crate) fn evict_mapped(&self, lane: u32, eviction: Eviction) -> Result<(), Eviction> {
        self.mapped.push(lane, eviction)
    }

    /// Queues prefetches in their order; returns those for which there was no room.
    ///
    /// # Errors
    /// See [`Fetching::push`].
    pub(crate) fn fetch(&self, fetches: Vec<Fetch>) -> Result<Vec<Fetch>, Vec<Fetch>> {
        self.fetching.push(fetches)
    }

    /// The program has asked for a block itself: what waits for that alone is dropped.
    pub(crate) fn overtaken(&self, serial: u32, index: u32) {
        self.fetching.overtaken(serial, index);
    }

    /// Whether there is room for what is read between what is wanted.
    pub(crate) fn keep_gaps(&self, keep: bool) {
        self.fetching.keep_gaps(keep);
    }

    /// Whether a block is read only because what is wanted lies on both sides of it.
    pub(crate) fn is_in_gap(&self, serial: u32, index: u32) -> bool {
        self.fetching.is_in_gap(serial, index)
    }

    /// What became of a request has been taken in.
    pub(crate) fn take_in(&self, fetched: &Fetched) {
        self.fetching.take_in(fetched);
    }

    /// Ends threads that wait for work, and with them the memory that each keeps for its next pieces.
    pub(crate) fn end_idle_threads(&self) {
        self.fetching.end_idle_threads();
    }

    /// The prefetches of a manager that have not been started are to be dropped, by [`Workers::settle`].
    pub(crate) fn cancel(&self, manager: ManagerId) {
        self.fetching.cancel(manager);
    }

    /// Does what was left to be done to the queue of prefetches: those that were dropped, `None` if a thread is just looking
    /// at it.
    pub(crate) fn settle(&self) -> Option<Vec<Fetch>> {
        self.fetching.settle()
    }

    /// Has a thread ended although nobody told it to?
    pub(crate) fn are_dead(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
            || self.fetching.is_dead()
            || self.mapped.has_failed()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.evictions.close();
        self.mapped.clear();
        self.outcomes.close();
        self.fetching.close();
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported already.
            let _ = thread.join();
        }
    }
}

fn post(outcomes: &Mailbox<Outcome>, bell: &OwnedFd, outcome: Outcome) {
    // A plane that is gone wants no outcomes; a bell that overflows rings all the same.
    outcomes.put(outcome);
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

/// Evicts what is clean; of the rest it starts the write-back, as `POSIX_FADV_DONTNEED` does, and returns it. That
/// is what the kernel does with dirty pages that it wants to reclaim, and without it what a program writes would
/// stay beyond the budget for half a minute.
fn evict(cache: &dyn PageCache, eviction: &Eviction) -> Vec<Folio> {
    let status = |folios: &[Folio]| {
        let (offset, length) = bytes(folios);
        cache.status(&eviction.file, offset, length).unwrap_or_default()
    };
    let before = status(&eviction.folios);
    let each = |of: &dyn Fn(CacheStatus) -> bool| -> Vec<Folio> {
        let folios = eviction.folios.iter().copied();
        folios.filter(|folio| of(status(std::slice::from_ref(folio)))).collect()
    };
    let mut unclean = if before.unclean > 0 { each(&|status| status.unclean > 0) } else { Vec::new() };
    let (offset, length) = bytes(&eviction.folios);
    let start = Instant::now();
    for &pid in &eviction.mapped_by {
        if start.elapsed() > MAPPINGS_TIME {
            break;
        }
        // Refused, or the process is gone: seen from what stays cached.
        let _ = cache.page_out(pid, &eviction.names, offset, length);
    }
    // The same.
    let _ = cache.drop_range(&eviction.file, offset, length);
    if before.by_mincore && !eviction.is_mapped() && status(&eviction.folios).cached > 0 {
        // Before Linux 6.5 nothing tells what is dirty. What stays was, most likely: it is being written back by now.
        unclean = each(&|status| status.cached > 0);
    }
    unclean
}

/// Offset and length of folios that lie next to each other.
fn bytes(folios: &[Folio]) -> (u64, u64) {
    let page = crate::kernel::page_bytes();
    let start = folios.first().map_or(0, |folio| folio.head);
    let end = folios.last().map_or(start, |folio| folio.range().end);
    (start * page, (end - start) * page)
}
