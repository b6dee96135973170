//! Loading the observer beside a job that runs already.
//!
//! A thread loads it ([`Loading`]), in 10 to 30 ms, at the priority that the job has: at a lower one these become hundreds beside
//! other work, of which the job has what it costs all the same, and its first reads are not seen. Meanwhile [`Kin`] keeps the books of the job's processes, and what
//! they read is not seen. When the observer is there it is told of every process that lives ([`Loading::take_over`]).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use rustix::pipe::{PipeFlags, pipe_with};

use super::gather::Gather;
use super::kin::Kin;
use crate::observe::{Observation, ObserveError, Observer, ObserverConfig, load};

/// Rounds of telling the observer of processes that were forked while it was told of others. Each finds what was forked
/// in some microseconds; what is left after so many stays unseen.
const ROUNDS: usize = 16;

/// An observer that is being loaded.
#[derive(Debug)]
pub(super) struct Loading {
    kin: Kin,
    loader: JoinHandle<Result<Observer, ObserveError>>,
    /// Hung up when the thread ends.
    ended: OwnedFd,
}

impl Loading {
    /// Begins to load.
    ///
    /// # Errors
    /// No pipe or no thread can be had.
    pub(super) fn begin(kin: Kin, config: ObserverConfig) -> io::Result<Loading> {
        let (ended, held) = pipe_with(PipeFlags::CLOEXEC)?;
        let loader = load(move || {
            let loaded = Observer::open(config);
            drop(held);
            loaded
        })?;
        Ok(Loading { kin, loader, ended })
    }

    /// Readable when there is something to do: processes, or the end of loading.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.kin.fd(), self.ended.as_fd()]
    }

    /// Takes in what became of processes.
    pub(super) fn take_in(&mut self, gather: &mut Gather) {
        take_in(&mut self.kin, gather);
    }

    /// Whether the thread has ended.
    pub(super) fn is_over(&self) -> bool {
        self.loader.is_finished()
    }

    /// Hands the job's processes to the observer.
    ///
    /// # Errors
    /// It could not be loaded.
    pub(super) fn take_over(mut self, gather: &mut Gather) -> Result<Observer, ObserveError> {
        let mut observer = match self.loader.join() {
            Ok(loaded) => loaded?,
            Err(defect) => std::panic::resume_unwind(defect),
        };
        for _ in 0..ROUNDS {
            take_in(&mut self.kin, gather);
            let mut is_new = false;
            for tgid in gather.processes() {
                // One that is gone meanwhile is told of by the connector.
                if !observer.is_tracked(tgid) && observer.track(tgid).is_ok() {
                    self.kin.taken_over(tgid);
                    is_new = true;
                }
            }
            if !is_new {
                break;
            }
        }
        Ok(observer)
    }
}

fn take_in(kin: &mut Kin, gather: &mut Gather) {
    kin.drain(|seen| {
        let (Observation::Forked { parent: tgid, .. }
        | Observation::Exec { tgid, .. }
        | Observation::Exited { tgid, .. }) = *seen
        else {
            return;
        };
        // The connector tells of the whole machine, also that we have forked the job itself.
        if gather.knows(tgid) {
            gather.take(seen);
        }
    });
}
