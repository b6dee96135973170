//! Watching a job: what it reads is written down, and nothing else is done.
//!
//! A [`Watcher`] loads the observer without the part that tells of removals, follows one process tree, and hands
//! what it sees to a [`Gather`]. It drops nothing from the cache, fetches nothing, changes no readahead and forks
//! no helper: should it die, the kernel removes what it has loaded, and the job does not notice.
//!
//! Under control the same [`Gather`] can listen to the plane ([`crate::Plane::listen`]), so that a job that is steered
//! is learnt on without a second observer.

mod gather;
mod programs;
mod reads;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use foretell_recording::WriteError;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub use gather::{Gather, Totals};

use crate::observe::{ObserveError, Observer, ObserverConfig};

/// The name of the job's first process before it executes anything: the same for every run.
pub(crate) const ROOT_NAME: &str = "job";
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

/// A job that is watched.
#[derive(Debug)]
pub struct Watcher {
    observer: Observer,
    gather: Gather,
}

impl Watcher {
    /// Watches the process `root` and all that it starts from now on. The recording will be called `path`.
    ///
    /// # Errors
    /// When the kernel's side cannot be loaded, there is no such process, or the file cannot be written.
    pub fn start(root: u32, path: &Path) -> Result<Watcher, WatchError> {
        let config = ObserverConfig { watch_only: true, ..ObserverConfig::with_ring(RING_BYTES) };
        let mut observer = Observer::open(config).map_err(|e| WatchError::Observe(Box::new(e)))?;
        observer.track(root).map_err(|e| WatchError::Observe(Box::new(e)))?;
        let gather = Gather::create(path, root)?;
        Ok(Watcher { observer, gather })
    }

    /// The job begins now.
    pub fn begin(&mut self) {
        self.gather.begin();
    }

    /// Waits until something happens, at most a short while, and takes in what was seen. Returns which of
    /// `descriptors` (positions in the slice) are readable.
    ///
    /// # Errors
    /// When `poll(2)` fails.
    pub fn step(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<Vec<usize>, WatchError> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.observer.fd(), PollFlags::IN)];
        fds.extend(descriptors.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        let sleep = rustix::event::Timespec { tv_sec: 0, tv_nsec: SLEEP.subsec_nanos().into() };
        match poll(&mut fds, Some(&sleep)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(WatchError::Wait(error.into())),
        }
        let ready = fds[1..].iter().enumerate().filter(|(_, fd)| !fd.revents().is_empty());
        let ready = ready.map(|(at, _)| at).collect();
        self.take_in();
        Ok(ready)
    }

    fn take_in(&mut self) {
        // What is in the ring now, and not what comes meanwhile for ever.
        for _ in 0..=RING_BYTES as usize / RECORD_BYTES / OBSERVATIONS_A_TIME {
            let gather = &mut self.gather;
            let taken = self.observer.drain(OBSERVATIONS_A_TIME, |seen| gather.take(&seen));
            for settled in gather.take_settled() {
                // Refused only when the table is full: then it is told of on.
                let _ = self.observer.ignore(settled);
            }
            if taken < OBSERVATIONS_A_TIME {
                return;
            }
        }
    }

    /// See [`Gather::left_out`].
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        self.gather.left_out()
    }

    /// What the job has waited for and read so far; `elapsed` and the exit code are the caller's to fill in.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            wait_ns: self.observer.total_wait_ns(),
            // Less than what we read ourselves, which is next to nothing: names and directories.
            device_read_bytes: self
                .observer
                .total_device_read_bytes()
                .saturating_sub(self.observer.device_read_bytes(std::process::id()).unwrap_or(0)),
            lost_events: self.observer.lost_events(),
            ..Totals::default()
        }
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn finish(mut self, totals: Totals) -> Result<(), WatchError> {
        self.take_in();
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
    /// Waiting for what happens next.
    #[error("cannot wait for what the job does: {0}")]
    Wait(std::io::Error),
}
