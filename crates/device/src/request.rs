//! What goes into a device and what comes out.

use thiserror::Error;

/// Whether somebody waits for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// Somebody waits.
    #[default]
    Demand,
    /// Nobody waits yet.
    Prefetch,
}

/// One transfer of consecutive sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it; handed back unchanged in [`Start`] and [`Completion`].
    pub id: u64,
    /// First sector, counted in the device's own sectors from 0.
    pub sector: u64,
    /// Number of sectors, at least 1.
    pub sectors: u32,
    /// Whether the sectors are written instead of read.
    pub write: bool,
    /// Whether somebody waits; told apart only by a queue with [`crate::DemandFirst`].
    pub class: Class,
}

impl Request {
    /// A read of `sectors` sectors from `sector` on, for which somebody waits.
    #[must_use]
    pub fn read(id: u64, sector: u64, sectors: u32) -> Request {
        Request { id, sector, sectors, write: false, class: Class::Demand }
    }

    /// A write of `sectors` sectors from `sector` on, for which somebody waits.
    #[must_use]
    pub fn write(id: u64, sector: u64, sectors: u32) -> Request {
        Request { id, sector, sectors, write: true, class: Class::Demand }
    }

    /// The same request in another class.
    #[must_use]
    pub fn of_class(self, class: Class) -> Request {
        Request { class, ..self }
    }

    /// The first sector after the request.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

/// The device began to serve a request: it left the driver's queue.
///
/// Kimbrel et al. (1996, section 3.1) charge 0.5 ms of processor time to a fetch; their published times
/// follow when it is charged at this instant, not when the request is queued and not when it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// [`Request::id`].
    pub id: u64,
    /// When, in nanoseconds.
    pub started_ns: u64,
}

/// A request is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// [`Request::id`].
    pub id: u64,
    /// The request's first sector.
    pub sector: u64,
    /// The request's sectors.
    pub sectors: u32,
    /// Whether it was a write.
    pub write: bool,
    /// When it was submitted.
    pub arrived_ns: u64,
    /// When the device began to serve it.
    pub started_ns: u64,
    /// When it was done.
    pub finished_ns: u64,
    /// Whether its first sector was already in the device's own cache, or just then read ahead into it.
    pub from_cache: bool,
}

impl Completion {
    /// Time in the device alone, without the driver's queue.
    #[must_use]
    pub fn service_ns(&self) -> u64 {
        self.finished_ns - self.started_ns
    }

    /// Time in the driver's queue and the device.
    #[must_use]
    pub fn response_ns(&self) -> u64 {
        self.finished_ns - self.arrived_ns
    }
}

/// What happened at a device, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceEvent {
    /// A request left the queue.
    Started(Start),
    /// A request is done.
    Completed(Completion),
}

/// Why a device does not take a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// The request ends behind the last sector.
    #[error("request for sectors {sector} to {end} on a device of {capacity_sectors} sectors")]
    BeyondEnd {
        /// First sector asked for.
        sector: u64,
        /// First sector after the request.
        end: u64,
        /// Sectors of the device.
        capacity_sectors: u64,
    },
    /// The request has no sectors.
    #[error("request {id} for no sectors")]
    Empty {
        /// [`Request::id`].
        id: u64,
    },
    /// The driver's queue is full; submit again after a completion.
    #[error("the device's queue is full at {limit} requests")]
    QueueFull {
        /// The queue's limit.
        limit: usize,
    },
}
