//! A part of an object in memory, and one that is on its way.

use std::ops::Deref;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::memory::{Buffer, Lease};

/// What readers of a part that is not there yet wait for. They get its bytes from here, so that it may have been replaced
/// again before they run.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    outcome: Mutex<Option<Result<Buffer, Error>>>,
    settled: Condvar,
}

impl Pending {
    /// The part is there, or will not come. Only the first outcome counts.
    pub(crate) fn settle(&self, outcome: Result<Buffer, Error>) {
        let mut slot = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = Some(outcome);
        }
        self.settled.notify_all();
    }

    /// Waits so long at most; `None` if nothing happened in time.
    pub(crate) fn wait(&self, longest: Duration) -> Option<Result<Buffer, Error>> {
        let slot = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.settled.wait_timeout_while(slot, longest, |slot| slot.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// A lease of a part: its bytes without a copy. They stay in memory as long as it is held, also when the pool has given
/// the part up meanwhile. In a forked child it is empty, as the memory is the parent's.
#[derive(Debug)]
pub struct View {
    lease: Lease,
}

impl View {
    /// `None` when that would be more than `most` bytes in leases.
    #[inline]
    pub(crate) fn new(lease: Lease, most: u64) -> Option<View> {
        (lease.of_all() <= most).then_some(View { lease })
    }
}

impl Deref for View {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.lease
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
