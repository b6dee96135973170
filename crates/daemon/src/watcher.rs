//! Snapshots for other threads of the service's process: the metrics.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::snapshot::Snapshot;

/// How long a snapshot may take: the loop answers between two of its rounds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a running service how it is. Any thread may have one.
#[derive(Debug, Clone)]
pub struct Watcher {
    requests: Sender<SyncSender<Snapshot>>,
    bell: Arc<OwnedFd>,
}

impl Watcher {
    /// The present state, everything in it, as root sees it. `None` when the service has ended or does not
    /// answer for five seconds.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let (answer, snapshot) = sync_channel(1);
        self.requests.send(answer).ok()?;
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok()?;
        snapshot.recv_timeout(PATIENCE).ok()
    }
}

/// The loop's end.
#[derive(Debug)]
pub(crate) struct Watched {
    requests: Receiver<SyncSender<Snapshot>>,
    watcher: Watcher,
}

impl Watched {
    pub(crate) fn new() -> std::io::Result<Watched> {
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (sender, requests) = channel();
        Ok(Watched { requests, watcher: Watcher { requests: sender, bell } })
    }

    pub(crate) fn watcher(&self) -> Watcher {
        self.watcher.clone()
    }

    /// Readable when somebody asks.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.watcher.bell.as_fd()
    }

    /// Everybody who has asked by now.
    pub(crate) fn waiting(&self) -> Waiting {
        let _ = rustix::io::read(&self.watcher.bell, &mut [0; 8]);
        Waiting(self.requests.try_iter().collect())
    }
}

/// Those who wait for the same snapshot.
#[derive(Debug)]
pub(crate) struct Waiting(Vec<SyncSender<Snapshot>>);

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Answers them all.
    pub(crate) fn answer(self, snapshot: &Snapshot) {
        for answer in self.0 {
            // Who has given up waiting is not waited for either.
            let _ = answer.try_send(snapshot.clone());
        }
    }
}
