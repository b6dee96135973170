//! Watching a job: what it reads is written down, and nothing else is done.
//!
//! A [`Watcher`] loads the observer without the part that tells of removals, follows one process tree, and hands
//! what it sees to a [`Gather`]. It drops nothing from the cache, fetches nothing, changes no readahead and forks
//! no helper: should it die, the kernel removes what it has loaded, and the job does not notice.
//!
//! To load the observer takes 10 to 30 ms, for which a job need not wait: [`Beside::listen`] before it begins,
//! and [`Beside::follow`] when it has, loads it meanwhile (`loading.rs`). What the job reads until then is not seen. A
//! job that ends sooner was not observed at all ([`Watcher::is_observing`]). Where that cannot be done
//! [`Watcher::start`] takes a job that is held until it is watched.
//!
//! Under control the same [`Gather`] can listen to the plane ([`crate::Plane::listen`]), so that a job that is steered
//! is learnt on without a second observer.

mod gather;
mod kin;
mod large;
mod left_out;
mod loading;
mod memory;
mod overlap;
mod programs;
mod reads;
mod run;
mod tally;
mod visits;
mod waited;
mod whereabouts;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use foretell_recording::WriteError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub use gather::{Gather, Totals};
pub use visits::{Left, Piece, Visit};
pub use whereabouts::Place;

use kin::Kin;
use loading::Loading;

use crate::meter::cpu_time;
use crate::observe::{Coming, ObserveError, Observer, ObserverConfig};
use crate::own_mounts;
use crate::report::Report;
use crate::sessions::tree_without_us;

/// Bytes of the ring: 50,000 records, as many as four processors write in 10 ms when each reads 1.2 million blocks a
/// second. It is charged to the memory cgroup of the job.
const RING_BYTES: u32 = 2 << 20;
/// Bytes of the shortest record.
const RECORD_BYTES: usize = 32;
/// Observations taken in at a time.
const OBSERVATIONS_A_TIME: usize = 4096;
/// Longest sleep: as exact as the times in the recording are. What wakes us besides is a ring that fills up, and
/// processes that come and go.
const SLEEP: Duration = Duration::from_millis(10);
/// The same while somebody guesses for a job that reads: on a quick disk half a MiB comes in that time.
const SHORT_SLEEP: Duration = Duration::from_millis(2);
/// A page that comes wakes us no sooner after the last one: woken for each, we double the system time of a program that
/// reads and writes without waiting, and a guess is no better for being made a millisecond sooner.
const WAKE_SPACING: Duration = Duration::from_millis(1);

/// What is needed to watch a job that begins before the observer is there.
#[derive(Debug)]
pub struct Beside {
    kin: Kin,
}

impl Beside {
    /// Listens to what processes do, on the whole machine.
    ///
    /// # Errors
    /// The kernel has no process connector, or does not let us use it.
    pub fn listen() -> Result<Beside, WatchError> {
        Ok(Beside { kin: Kin::open().map_err(WatchError::Listen)? })
    }

    /// Watches the process `root`, which was started after [`Beside::listen`], as soon as the observer is there. The
    /// recording will be called `path`.
    ///
    /// # Errors
    /// The file cannot be written, or no thread can be had.
    pub fn follow(self, root: u32, path: &Path) -> Result<Watcher, WatchError> {
        let gather = Gather::create(path, root)?;
        let loading = Loading::begin(self.kin, config()).map_err(WatchError::Listen)?;
        Ok(Watcher::new(Sight::Loading(loading), gather))
    }
}

/// A job that is watched.
#[derive(Debug)]
pub struct Watcher {
    sight: Sight,
    gather: Gather,
    begun: Begun,
    sleep: Duration,
    /// The time until it is looked again where the job's processes are.
    next_look: Option<Duration>,
}

/// What there was when the job began.
#[derive(Debug, Clone, Copy, Default)]
struct Begun {
    wait_ns: u64,
    device_read_bytes: u64,
    cpu: Duration,
}

/// Where what is seen comes from.
#[derive(Debug)]
enum Sight {
    /// The observer is on its way.
    Loading(Loading),
    /// It is there.
    Observing(Box<Observer>),
    /// It could not be loaded.
    Blind,
}

/// Files of which a job that is only watched need not be told any more.
const SETTLED_FILES: u32 = 1 << 12;

fn config() -> ObserverConfig {
    ObserverConfig {
        watch_only: true,
        files: SETTLED_FILES,
        processes: SETTLED_FILES,
        wake_spacing_ns: WAKE_SPACING.subsec_nanos(),
        ..ObserverConfig::with_ring(RING_BYTES)
    }
    .fitting()
}

/// What a [`Watcher`] sees with, on its way: a thread loads it while the job is started; without a thread it comes later.
#[derive(Debug)]
pub struct Watching(Coming);

/// The same when it is there.
#[derive(Debug)]
pub struct Loaded(Observer);

impl Watching {
    /// Begins to load.
    #[must_use]
    pub fn load() -> Watching {
        Watching(Coming::begin(config()))
    }

    /// Waits for it.
    ///
    /// # Errors
    /// When the kernel's side cannot be loaded.
    pub fn wait(self) -> Result<Loaded, WatchError> {
        Ok(Loaded(self.0.wait().map_err(|e| WatchError::Observe(Box::new(e)))?))
    }
}

impl Loaded {
    /// As [`Watcher::start`].
    ///
    /// # Errors
    /// When there is no such process, or the file cannot be written.
    pub fn start(self, root: u32, path: Option<&Path>) -> Result<Watcher, WatchError> {
        let Loaded(mut observer) = self;
        observer.track(root).map_err(|e| WatchError::Observe(Box::new(e)))?;
        let mut gather = match path {
            Some(path) => Gather::create(path, root)?,
            None => Gather::without_recording(root),
        };
        gather.hold(root);
        Ok(Watcher::new(Sight::Observing(Box::new(observer)), gather))
    }
}

impl Watcher {
    /// Watches the process `root`, which is held and has not executed the job yet, and all that it starts from now on.
    /// The recording will be called `path`; without one nothing is recorded, and what is seen is only counted.
    ///
    /// # Errors
    /// When the kernel's side cannot be loaded, there is no such process, or the file cannot be written.
    pub fn start(root: u32, path: Option<&Path>) -> Result<Watcher, WatchError> {
        let observer = Observer::open(config()).map_err(|e| WatchError::Observe(Box::new(e)))?;
        Loaded(observer).start(root, path)
    }

    /// Watches a job that runs already: the process `root`, and what it has started and will start.
    ///
    /// # Errors
    /// As [`Watcher::start`].
    pub fn attach_to(root: u32, path: Option<&Path>) -> Result<Watcher, WatchError> {
        let mut observer = Observer::open(config()).map_err(|e| WatchError::Observe(Box::new(e)))?;
        observer.track(root).map_err(|e| WatchError::Observe(Box::new(e)))?;
        let gather = match path {
            Some(path) => Gather::create(path, root)?,
            None => Gather::without_recording(root),
        };
        let mut watcher = Watcher::new(Sight::Observing(Box::new(observer)), gather);
        watcher.attach(root);
        Ok(watcher)
    }

    /// Another process that runs already belongs to the job as well, with what it has started.
    pub fn attach(&mut self, pid: u32) {
        let Sight::Observing(observer) = &mut self.sight else { return };
        // What is started while the tree is gone through is found in the second round.
        for _ in 0..2 {
            for pid in tree_without_us(pid, usize::MAX) {
                // One that cannot be tracked has ended.
                let _ = observer.track(pid);
            }
        }
        self.gather.attach_tree(pid);
    }

    fn new(sight: Sight, gather: Gather) -> Watcher {
        let begun = Begun { cpu: cpu_time(), ..Begun::default() };
        Watcher { sight, gather, begun, sleep: SLEEP, next_look: None }
    }

    /// The job begins now.
    pub fn begin(&mut self) {
        self.begun = Begun::default();
        let Totals { wait_ns, device_read_bytes, .. } = self.totals();
        self.begun = Begun { wait_ns, device_read_bytes, cpu: cpu_time() };
        self.gather.begin();
    }

    /// From now on [`Watcher::take_visits`] tells which files the job begins to read. What this process reads counts as read
    /// for the job.
    pub fn tell_visits(&mut self) {
        self.gather.tell_visits();
    }

    /// The files that the job has begun to read since this was asked the last time, in order; at most 4,096.
    pub fn take_visits(&mut self) -> Vec<Visit> {
        self.gather.take_visits()
    }

    /// The pieces of files that the job has read since this was asked the last time, in order for each process; at most
    /// 4,096. None are told before [`Watcher::tell_visits`].
    pub fn take_pieces(&mut self) -> Vec<Piece> {
        let pieces = self.gather.take_pieces();
        self.sleep = if pieces.is_empty() { SLEEP } else { SHORT_SLEEP };
        pieces
    }

    /// In which directories the job's processes were since this was asked the last time; at most 4,096. None are told before
    /// [`Watcher::tell_visits`], nor of a job that waits for little else than what it reads of files.
    pub fn take_places(&mut self) -> Vec<Place> {
        self.gather.take_places()
    }

    /// Whether what the job reads is seen by now.
    #[must_use]
    pub fn is_observing(&self) -> bool {
        matches!(self.sight, Sight::Observing(_))
    }

    /// Waits until something happens, at most a short while, and takes in what was seen. Returns which of
    /// `descriptors` (positions in the slice) are readable.
    ///
    /// # Errors
    /// When `poll(2)` fails, or the observer could not be loaded.
    pub fn step(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<Vec<usize>, WatchError> {
        let own = match &self.sight {
            Sight::Loading(loading) => loading.descriptors().to_vec(),
            Sight::Observing(observer) => vec![observer.fd()],
            Sight::Blind => Vec::new(),
        };
        let all = own.iter().chain(descriptors);
        let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        let mounts_at = fds.len();
        fds.extend(own_mounts::changes().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::PRI)));
        let sleep = self.next_look.map_or(self.sleep, |next| next.min(self.sleep));
        let sleep = rustix::event::Timespec { tv_sec: 0, tv_nsec: sleep.subsec_nanos().into() };
        match poll(&mut fds, Some(&sleep)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(WatchError::Wait(error.into())),
        }
        let have_changed = fds.get(mounts_at).is_some_and(|fd| !fd.revents().is_empty());
        let ready = fds[own.len()..mounts_at].iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
        let ready = ready.map(|(at, _)| at).collect();
        drop(fds);
        if have_changed {
            own_mounts::have_changed();
            // What is read ahead is open for a moment only.
            own_mounts::gone();
        }
        self.take_in()?;
        self.next_look = self.gather.look_where_they_are();
        self.gather.look_at_memory();
        Ok(ready)
    }

    fn take_in(&mut self) -> Result<(), WatchError> {
        let Watcher { sight, gather, .. } = self;
        if let Sight::Loading(loading) = sight {
            loading.take_in(gather);
            if loading.is_over()
                && let Sight::Loading(loading) = std::mem::replace(sight, Sight::Blind)
            {
                let observer = loading.take_over(gather).map_err(|e| WatchError::Observe(Box::new(e)))?;
                *sight = Sight::Observing(Box::new(observer));
            }
        }
        let Sight::Observing(observer) = sight else { return Ok(()) };
        // What is in the ring now, and not what comes meanwhile for ever.
        for _ in 0..=RING_BYTES as usize / RECORD_BYTES / OBSERVATIONS_A_TIME {
            let taken = observer.drain(OBSERVATIONS_A_TIME, |seen| gather.take(&seen));
            for settled in gather.take_settled() {
                // Refused only when the table is full: then it is told of on.
                let _ = observer.ignore(settled);
            }
            if taken < OBSERVATIONS_A_TIME {
                break;
            }
        }
        gather.looked();
        Ok(())
    }

    /// See [`Gather::left_out`].
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        self.gather.left_out()
    }

    /// What the job has waited for and read since it is observed; `elapsed` and the exit code are the caller's to fill in.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let Sight::Observing(observer) = &self.sight else { return Totals::default() };
        // Less than what we read ourselves, unless it is read ahead for the job.
        let own_bytes = if self.gather.tells_visits() {
            0
        } else {
            observer.device_read_bytes(std::process::id()).unwrap_or(0)
        };
        Totals {
            wait_ns: observer.total_wait_ns().saturating_sub(self.begun.wait_ns),
            device_read_bytes: observer
                .total_device_read_bytes()
                .saturating_sub(own_bytes)
                .saturating_sub(self.begun.device_read_bytes),
            lost_events: observer.lost_events(),
            ..Totals::default()
        }
    }

    /// What all threads of the job together have slept for I/O for what they read of files, nanoseconds.
    #[must_use]
    pub fn file_wait_ns(&self) -> u64 {
        self.gather.file_wait_ns()
    }

    /// Threads of the job that have slept for I/O at a time, in the mean; `None` where none was seen to.
    #[must_use]
    pub fn threads_waiting(&self) -> Option<f64> {
        self.gather.threads_waiting()
    }

    /// What the job has done up to now. There is no budget, nothing is evicted, and all that was fetched was fetched on
    /// demand; `elapsed` is the caller's to know.
    pub fn report(&mut self, elapsed: Duration) -> Report {
        // What cannot be taken in any more is not counted.
        let _ = self.is_observing().then(|| self.take_in());
        let Totals { wait_ns, device_read_bytes, lost_events, .. } = self.totals();
        let observer = match &self.sight {
            Sight::Observing(observer) => Some(&**observer),
            Sight::Loading(_) | Sight::Blind => None,
        };
        let (counts, processes, files) = self.gather.counted(observer);
        Report {
            elapsed_s: elapsed.as_secs_f64(),
            wait_s: wait_ns as f64 / 1e9,
            daemon_cpu_s: cpu_time().saturating_sub(self.begun.cpu).as_secs_f64(),
            block_bytes: foretell_policy::DEFAULT_BLOCK_BYTES,
            counts,
            lost_events,
            device_read_bytes,
            processes,
            files,
            ..Report::default()
        }
    }

    /// See [`Gather::memory_bytes`].
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.gather.memory_bytes()
    }

    /// See [`Gather::files`].
    #[must_use]
    pub fn files(&self) -> u64 {
        self.gather.files()
    }

    /// Ends the recording, if there is one.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn finish(mut self, totals: Totals) -> Result<(), WatchError> {
        // An observer that comes too late has nothing to add.
        if self.is_observing() {
            self.take_in()?;
        }
        Ok(self.gather.finish(totals)?)
    }

    /// Gives the recording up: nothing of it stays.
    pub fn discard(self) {}
}

/// Why a job cannot be watched, or not any longer.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The kernel's side.
    #[error(transparent)]
    Observe(Box<ObserveError>),
    /// The recording.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The processes of a job that runs already.
    #[error("cannot follow what processes do: {0}")]
    Listen(std::io::Error),
    /// Waiting for what happens next.
    #[error("cannot wait for what the job does: {0}")]
    Wait(std::io::Error),
}
