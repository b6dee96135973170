//! What the device has served, readable while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Totals since the device was started. The difference of two readings is what happened in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Read requests served.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// Reads that did not begin where the last request on their channel ended.
    pub read_seeks: u64,
    /// Write requests served.
    pub writes: u64,
    /// Bytes of these.
    pub written_bytes: u64,
    /// Writes that were charged a seek (none unless writes are slow).
    pub write_seeks: u64,
    /// Time that the channels were serving requests, all channels together, in nanoseconds: what the
    /// model charged, not what a clock saw.
    pub busy_ns: u64,
    /// Most requests that were inside the device at one time.
    pub depth_max: u64,
    /// Time by which answers came later than the model says, in nanoseconds, summed over the requests:
    /// the server's own inaccuracy.
    pub late_ns: u64,
    /// The worst of these.
    pub late_max_ns: u64,
}

impl Counters {
    /// What happened since an `earlier` reading. The two maxima stay those of the whole life.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            read_seeks: self.read_seeks.saturating_sub(earlier.read_seeks),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            write_seeks: self.write_seeks.saturating_sub(earlier.write_seeks),
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            late_ns: self.late_ns.saturating_sub(earlier.late_ns),
            depth_max: self.depth_max,
            late_max_ns: self.late_max_ns,
        }
    }
}

/// The direction of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// The live counters, written by the server's threads.
#[derive(Debug, Default)]
pub(crate) struct LiveCounters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    read_seeks: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    write_seeks: AtomicU64,
    busy_ns: AtomicU64,
    inside: AtomicU64,
    depth_max: AtomicU64,
    late_ns: AtomicU64,
    late_max_ns: AtomicU64,
}

impl LiveCounters {
    /// A request has come in.
    pub(crate) fn enter(&self) {
        let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
        self.depth_max.fetch_max(inside, Ordering::Relaxed);
    }

    /// A request has been answered.
    pub(crate) fn leave(&self, late_ns: u64) {
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.late_ns.fetch_add(late_ns, Ordering::Relaxed);
        self.late_max_ns.fetch_max(late_ns, Ordering::Relaxed);
    }

    /// A request was charged.
    pub(crate) fn charge(&self, direction: Direction, length: u64, sought: bool, busy_ns: u64) {
        let (requests, bytes, seeks) = match direction {
            Direction::Read => (&self.reads, &self.read_bytes, &self.read_seeks),
            Direction::Write => (&self.writes, &self.written_bytes, &self.write_seeks),
        };
        requests.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(length, Ordering::Relaxed);
        seeks.fetch_add(u64::from(sought), Ordering::Relaxed);
        self.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            read_seeks: get(&self.read_seeks),
            writes: get(&self.writes),
            written_bytes: get(&self.written_bytes),
            write_seeks: get(&self.write_seeks),
            busy_ns: get(&self.busy_ns),
            depth_max: get(&self.depth_max),
            late_ns: get(&self.late_ns),
            late_max_ns: get(&self.late_max_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_subtract() {
        let live = LiveCounters::default();
        live.enter();
        live.enter();
        live.charge(Direction::Read, 8192, true, 100);
        live.leave(7);
        live.leave(3);
        let first = live.read();
        assert_eq!((first.reads, first.read_bytes, first.read_seeks), (1, 8192, 1));
        assert_eq!((first.depth_max, first.late_ns, first.late_max_ns), (2, 10, 7));
        live.charge(Direction::Write, 4096, false, 0);
        let difference = live.read().since(&first);
        assert_eq!((difference.reads, difference.writes, difference.written_bytes), (0, 1, 4096));
    }
}
