//! The driver's queue before a device, and in which order it empties.
//!
//! | discipline | next request |
//! | --- | --- |
//! | FCFS | the oldest |
//! | SCAN | the next one in the direction of the sweep; at the last one the sweep turns round |
//! | CSCAN, CLOOK | the next one upwards; after the highest one, the lowest |
//! | SSTF | the one with the nearest first sector |
//! | SPTF | the one whose first sector can be under the head soonest, by seek and rotation |
//!
//! The sweeps go by sector number from the start of the request served last. A driver cannot send the arm
//! where no request is, so SCAN turns at the last request (which some call LOOK), and CSCAN and CLOOK are
//! the same order. Equal requests leave in order of arrival. SSTF and SPTF can starve far requests.
//!
//! The queue is kept in order of sectors (of arrival, for FCFS), so all but SPTF find the next request by
//! bisection. SPTF looks outwards from the arm on both sides and ends where the seek alone takes longer
//! than the best positioning found.

use std::collections::VecDeque;
use std::str::FromStr;

use thiserror::Error;

use crate::request::Request;

/// A queueing discipline; see the module's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discipline {
    /// First come, first served.
    Fcfs,
    /// Sweeps up and down.
    Scan,
    /// Sweeps up only.
    Cscan,
    /// The same order as CSCAN, by the name that drivers use.
    Clook,
    /// Shortest seek time first, by distance in sectors.
    Sstf,
    /// Shortest positioning time first.
    Sptf,
}

/// A name that is no discipline.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no scheduling discipline \"{name}\": use one of fcfs, scan, cscan, clook, sstf, sptf")]
pub struct UnknownDiscipline {
    /// The name given.
    pub name: String,
}

impl Discipline {
    /// All of them.
    pub const ALL: [Discipline; 6] = [
        Discipline::Fcfs,
        Discipline::Scan,
        Discipline::Cscan,
        Discipline::Clook,
        Discipline::Sstf,
        Discipline::Sptf,
    ];

    /// The name as [`FromStr`] takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Discipline::Fcfs => "fcfs",
            Discipline::Scan => "scan",
            Discipline::Cscan => "cscan",
            Discipline::Clook => "clook",
            Discipline::Sstf => "sstf",
            Discipline::Sptf => "sptf",
        }
    }
}

impl FromStr for Discipline {
    type Err = UnknownDiscipline;

    fn from_str(name: &str) -> Result<Discipline, UnknownDiscipline> {
        Discipline::ALL
            .into_iter()
            .find(|d| d.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownDiscipline { name: name.to_owned() })
    }
}

/// What SPTF asks the device.
pub trait Positioning {
    /// Time until the request's first sector is at hand, if it were started now.
    fn positioning_ns(&self, request: &Request) -> u64;

    /// The sector where the arm is.
    fn arm_sector(&self) -> u64;

    /// A lower bound of the positioning time of every request whose first sector is `sector`, or is
    /// further from [`Positioning::arm_sector`] on the same side.
    fn least_ns(&self, sector: u64) -> u64;
}

/// A device without an arm: every request is at hand at once, so SPTF serves the oldest.
#[derive(Debug, Clone, Copy)]
pub struct NoArm;

impl Positioning for NoArm {
    fn positioning_ns(&self, _: &Request) -> u64 {
        0
    }

    fn arm_sector(&self) -> u64 {
        0
    }

    fn least_ns(&self, _: u64) -> u64 {
        0
    }
}

/// A request in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// The request.
    pub request: Request,
    /// When it was submitted.
    pub arrived_ns: u64,
    /// How many requests were submitted before it.
    pub order: u64,
}

/// The queue of one device.
#[derive(Debug, Clone)]
pub struct Scheduler {
    discipline: Discipline,
    limit: usize,
    /// In order of (sector, order), or of order alone for FCFS.
    queue: VecDeque<Queued>,
    arrivals: u64,
    /// First sector of the request that left last.
    head: u64,
    downwards: bool,
}

impl Scheduler {
    /// An empty queue that holds at most `limit` requests, the head at sector 0.
    #[must_use]
    pub fn new(discipline: Discipline, limit: usize) -> Scheduler {
        Scheduler { discipline, limit, queue: VecDeque::new(), arrivals: 0, head: 0, downwards: false }
    }

    /// The discipline.
    #[must_use]
    pub fn discipline(&self) -> Discipline {
        self.discipline
    }

    /// The most requests that it holds.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Requests waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The requests waiting, by sector (by arrival for FCFS).
    pub fn iter(&self) -> impl Iterator<Item = &Queued> {
        self.queue.iter()
    }

    /// Takes a request in; `false`, and the request is not taken, if the queue is full.
    #[must_use]
    pub fn push(&mut self, request: Request, arrived_ns: u64) -> bool {
        if self.queue.len() >= self.limit {
            return false;
        }
        let queued = Queued { request, arrived_ns, order: self.arrivals };
        self.arrivals += 1;
        if self.discipline == Discipline::Fcfs {
            self.queue.push_back(queued);
        } else {
            let at = self.queue.partition_point(|q| q.request.sector <= request.sector);
            self.queue.insert(at, queued);
        }
        true
    }

    /// Takes the oldest request named `id` out again, if it still waits.
    pub fn cancel(&mut self, id: u64) -> Option<Queued> {
        let of_id = self.queue.iter().enumerate().filter(|(_, q)| q.request.id == id);
        let (at, _) = of_id.min_by_key(|(_, q)| q.order)?;
        self.queue.remove(at)
    }

    /// Takes the next request out.
    pub fn pop(&mut self, device: &impl Positioning) -> Option<Queued> {
        let next = match self.discipline {
            Discipline::Fcfs => 0,
            Discipline::Cscan | Discipline::Clook => self.upwards().unwrap_or(0),
            Discipline::Scan => self.next_of_sweep(),
            Discipline::Sstf => self.nearest()?,
            Discipline::Sptf => self.soonest(device)?,
        };
        let queued = self.queue.remove(next)?;
        self.head = queued.request.sector;
        Some(queued)
    }

    /// The first request at or above the head.
    fn upwards(&self) -> Option<usize> {
        let head = self.head;
        let at = self.queue.partition_point(|q| q.request.sector < head);
        (at < self.queue.len()).then_some(at)
    }

    /// The oldest request of the highest sector at or below the head.
    fn down(&self) -> Option<usize> {
        let head = self.head;
        let after = self.queue.partition_point(|q| q.request.sector <= head);
        let sector = self.queue.get(after.checked_sub(1)?)?.request.sector;
        Some(self.queue.partition_point(|q| q.request.sector < sector))
    }

    fn next_of_sweep(&mut self) -> usize {
        let (up, down) = (self.upwards(), self.down());
        let (onwards, back) = if self.downwards { (down, up) } else { (up, down) };
        if onwards.is_none() {
            self.downwards = !self.downwards;
        }
        onwards.or(back).unwrap_or(0)
    }

    fn nearest(&self) -> Option<usize> {
        let distance = |i: usize| self.queue[i].request.sector.abs_diff(self.head);
        match (self.down(), self.upwards()) {
            (Some(down), Some(up)) => Some(if distance(down) <= distance(up) { down } else { up }),
            (down, up) => down.or(up),
        }
    }

    fn soonest(&self, device: &impl Positioning) -> Option<usize> {
        let arm = device.arm_sector();
        let from = self.queue.partition_point(|q| q.request.sector < arm);
        let mut best: Option<(u64, u64, usize)> = None;
        let mut consider = |i: usize| {
            let queued = &self.queue[i];
            if best.is_some_and(|(ns, ..)| device.least_ns(queued.request.sector) > ns) {
                return false;
            }
            let candidate = (device.positioning_ns(&queued.request), queued.order, i);
            if best.is_none_or(|b| candidate < b) {
                best = Some(candidate);
            }
            true
        };
        let (mut up, mut down) = (from..self.queue.len(), (0..from).rev());
        let (mut up_open, mut down_open) = (true, true);
        while up_open || down_open {
            up_open = up_open && up.next().is_some_and(&mut consider);
            down_open = down_open && down.next().is_some_and(&mut consider);
        }
        best.map(|(.., i)| i)
    }
}
