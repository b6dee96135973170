//! A part of an object in memory, and one that is on its way.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Error;

/// Bytes that the pool's buffers take, evicted ones that somebody still reads or leases among them.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    bytes: AtomicU64,
    peak: AtomicU64,
    pub(crate) leased: AtomicU64,
}

impl Memory {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

/// The bytes of one part, filled once from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    memory: Arc<Memory>,
}

impl Buffer {
    pub(crate) fn new(length: usize, memory: &Arc<Memory>) -> Buffer {
        let now = memory.bytes.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
        memory.peak.fetch_max(now, Ordering::Relaxed);
        Buffer { bytes: Vec::with_capacity(length), length, memory: memory.clone() }
    }

    /// Takes what fits of some bytes, and gives the rest.
    pub(crate) fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (mine, rest) = bytes.split_at(bytes.len().min(self.length - self.bytes.len()));
        self.bytes.extend_from_slice(mine);
        rest
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() == self.length
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.memory.bytes.fetch_sub(self.length as u64, Ordering::Relaxed);
    }
}

/// What readers of a part that is not there yet wait for. They get its bytes from here, so that it may have been replaced
/// again before they run.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    outcome: Mutex<Option<Result<Arc<Buffer>, Error>>>,
    settled: Condvar,
}

impl Pending {
    /// The part is there, or will not come. Only the first outcome counts.
    pub(crate) fn settle(&self, outcome: Result<Arc<Buffer>, Error>) {
        let mut slot = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.is_none() {
            *slot = Some(outcome);
        }
        self.settled.notify_all();
    }

    /// Waits so long at most; `None` if nothing happened in time.
    pub(crate) fn wait(&self, longest: Duration) -> Option<Result<Arc<Buffer>, Error>> {
        let slot = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.settled.wait_timeout_while(slot, longest, |slot| slot.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// A lease of a part: its bytes without a copy. They stay in memory as long as it is held, also when the pool has given
/// the part up meanwhile.
#[derive(Debug)]
pub struct View {
    buffer: Arc<Buffer>,
}

impl View {
    /// `None` when that would be more than `most` bytes in leases.
    pub(crate) fn new(buffer: Arc<Buffer>, most: u64) -> Option<View> {
        let length = buffer.length as u64;
        let leased = buffer.memory.leased.fetch_add(length, Ordering::Relaxed) + length;
        let view = View { buffer };
        (leased <= most).then_some(view)
    }
}

impl Deref for View {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.buffer.memory.leased.fetch_sub(self.buffer.length as u64, Ordering::Relaxed);
    }
}
