//! A device with its driver's queue, stepped by an event queue of the caller's.
//!
//! ```
//! use foretell_device::{catalogue, Device, DeviceEvent, Discipline, Request};
//!
//! let disk = catalogue::find("hp97560").unwrap();
//! let mut device = Device::new(&disk, Discipline::Cscan);
//! device.submit(0, Request::read(1, 16_000, 16)).unwrap();
//! device.submit(0, Request::read(2, 16, 16)).unwrap();
//! let mut done = Vec::new();
//! while let Some(now_ns) = device.next_event_ns() {
//!     device.advance(now_ns);
//!     while let Some(event) = device.poll() {
//!         if let DeviceEvent::Completed(completion) = event {
//!             done.push(completion.id);
//!         }
//!     }
//! }
//! assert_eq!(done, [2, 1]); // the sweep starts at sector 0
//! ```
//!
//! [`Device::submit`] only queues. A request *starts* when the device has a free place for it and the
//! clock has come to [`Device::advance`]: all that is submitted at one instant is therefore scheduled
//! together, unless the caller advances in between.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::parameters::DeviceParameters;
use crate::request::{Completion, DeviceEvent, Request, Start, SubmitError};
use crate::schedule::{DemandFirst, Discipline, Queued, Scheduler};
use crate::server::Server;

/// How many requests may wait in a device's queue unless [`Options`] say otherwise: more than any policy
/// here keeps in flight, and small enough that a runaway caller is noticed.
pub const DEFAULT_QUEUE_LIMIT: usize = 65_536;

/// How a device is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// In which order the queue empties.
    pub discipline: Discipline,
    /// Whether what somebody waits for overtakes what nobody does.
    pub demand_first: DemandFirst,
    /// The most requests that wait; [`Device::submit`] refuses the next one.
    pub queue_limit: usize,
    /// Seed of the devices with random times ([`crate::Model::ObjectStore`]); the others ignore it.
    pub seed: u64,
}

impl Default for Options {
    /// CSCAN in one class, as in Kimbrel et al. (1996, section 3.2), [`DEFAULT_QUEUE_LIMIT`], seed 0.
    fn default() -> Options {
        Options {
            discipline: Discipline::Cscan,
            demand_first: DemandFirst::Never,
            queue_limit: DEFAULT_QUEUE_LIMIT,
            seed: 0,
        }
    }
}

/// A request in service, ordered by when it is done and then by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InService {
    finished_ns: u64,
    start_order: u64,
    id: u64,
    sector: u64,
    sectors: u32,
    write: bool,
    arrived_ns: u64,
    started_ns: u64,
    from_cache: bool,
}

/// One device and its queue.
#[derive(Debug, Clone)]
pub struct Device {
    queue: Scheduler,
    server: Server,
    slots: usize,
    capacity_sectors: u64,
    sector_bytes: u32,
    in_service: BinaryHeap<Reverse<InService>>,
    events: VecDeque<DeviceEvent>,
    /// The last instant at which something was submitted, started or completed.
    clock_ns: u64,
    starts: u64,
    /// Since when at least one request is in service.
    busy_since_ns: u64,
    busy_ns: u64,
}

impl Device {
    /// An idle device with parameters that have been checked ([`DeviceParameters::check`]), otherwise with
    /// default [`Options`].
    #[must_use]
    pub fn new(parameters: &DeviceParameters, discipline: Discipline) -> Device {
        Device::with_options(parameters, Options { discipline, ..Options::default() })
    }

    /// An idle device with parameters that have been checked.
    #[must_use]
    pub fn with_options(parameters: &DeviceParameters, options: Options) -> Device {
        let server = Server::new(&parameters.model, options.seed);
        Device {
            queue: Scheduler::new(options.discipline, options.demand_first, options.queue_limit),
            slots: server.slots(),
            server,
            capacity_sectors: parameters.capacity_sectors(),
            sector_bytes: parameters.sector_bytes(),
            in_service: BinaryHeap::new(),
            events: VecDeque::new(),
            clock_ns: 0,
            starts: 0,
            busy_since_ns: 0,
            busy_ns: 0,
        }
    }

    /// Queues a request at `now_ns`. An earlier instant than in the call before is taken for that one.
    ///
    /// # Errors
    ///
    /// [`SubmitError`] if the request has no sectors, ends behind the device, or the queue is full; the
    /// device is as before.
    pub fn submit(&mut self, now_ns: u64, request: Request) -> Result<(), SubmitError> {
        if request.sectors == 0 {
            return Err(SubmitError::Empty { id: request.id });
        }
        let end = request.sector.saturating_add(u64::from(request.sectors));
        if end > self.capacity_sectors {
            let capacity_sectors = self.capacity_sectors;
            return Err(SubmitError::BeyondEnd { sector: request.sector, end, capacity_sectors });
        }
        if let Some(before_ns) = now_ns.checked_sub(1) {
            self.advance(before_ns);
        }
        self.clock_ns = self.clock_ns.max(now_ns);
        if self.queue.push(request, self.clock_ns) {
            Ok(())
        } else {
            Err(SubmitError::QueueFull { limit: self.queue.limit() })
        }
    }

    /// Takes the request named `id` out of the queue; `false` if it has started or was never there.
    pub fn cancel(&mut self, id: u64) -> bool {
        self.queue.cancel(id).is_some()
    }

    /// Somebody has come to wait for the queued prefetch named `id`: where the queue promotes
    /// ([`DemandFirst::Promote`]), it is served with what others wait for. `false` if nothing changes.
    pub fn promote(&mut self, id: u64) -> bool {
        self.queue.promote(id)
    }

    /// The next instant at which a request starts or completes, in ns; `None` when idle.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        if self.can_start() {
            return Some(self.clock_ns);
        }
        self.in_service.peek().map(|Reverse(next)| next.finished_ns)
    }

    /// Carries out everything up to and including `now_ns`; [`Device::poll`] then says what happened.
    pub fn advance(&mut self, now_ns: u64) {
        loop {
            if self.can_start() && self.clock_ns <= now_ns {
                self.start();
            } else if self.in_service.peek().is_some_and(|Reverse(next)| next.finished_ns <= now_ns) {
                self.complete();
            } else {
                return;
            }
        }
    }

    /// What happened, the oldest first.
    pub fn poll(&mut self) -> Option<DeviceEvent> {
        self.events.pop_front()
    }

    /// Requests in the queue, without those in service.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The requests in the queue.
    pub fn queue(&self) -> impl Iterator<Item = &Queued> {
        self.queue.iter()
    }

    /// Requests in service.
    #[must_use]
    pub fn in_service(&self) -> usize {
        self.in_service.len()
    }

    /// Whether nothing is queued or in service.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_service.is_empty()
    }

    /// How many requests it serves at a time.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Sectors that hold data.
    #[must_use]
    pub fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    /// Bytes in a sector.
    #[must_use]
    pub fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// Time up to `now_ns` (not before the last [`Device::advance`]) with at least one request in service:
    /// divided by the elapsed time, the utilization.
    #[must_use]
    pub fn busy_ns(&self, now_ns: u64) -> u64 {
        let running_ns =
            if self.in_service.is_empty() { 0 } else { now_ns.saturating_sub(self.busy_since_ns) };
        self.busy_ns + running_ns
    }

    fn can_start(&self) -> bool {
        !self.queue.is_empty() && self.in_service.len() < self.slots
    }

    fn start(&mut self) {
        let started_ns = self.clock_ns;
        let Some(Queued { request, arrived_ns, .. }) = self.server.choose(&mut self.queue, started_ns) else {
            return;
        };
        let bytes = u64::from(request.sectors) * u64::from(self.sector_bytes);
        let service = self.server.service(started_ns, &request, bytes);
        if self.in_service.is_empty() {
            self.busy_since_ns = started_ns;
        }
        let Request { id, sector, sectors, write, .. } = request;
        self.in_service.push(Reverse(InService {
            finished_ns: service.finished_ns,
            start_order: self.starts,
            id,
            sector,
            sectors,
            write,
            arrived_ns,
            started_ns,
            from_cache: service.from_cache,
        }));
        self.starts += 1;
        self.events.push_back(DeviceEvent::Started(Start { id, started_ns }));
    }

    fn complete(&mut self) {
        let Some(Reverse(done)) = self.in_service.pop() else { return };
        self.clock_ns = self.clock_ns.max(done.finished_ns);
        if self.in_service.is_empty() {
            self.busy_ns += done.finished_ns - self.busy_since_ns;
        }
        let InService { id, sector, sectors, write, arrived_ns, started_ns, finished_ns, from_cache, .. } =
            done;
        let completion =
            Completion { id, sector, sectors, write, arrived_ns, started_ns, finished_ns, from_cache };
        self.events.push_back(DeviceEvent::Completed(completion));
    }
}
