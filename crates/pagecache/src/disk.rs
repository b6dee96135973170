//! A device that is asked for blocks: what the system says of it, and the estimate of how it serves ([`service`]), shared by the
//! threads that ask.

mod line;
mod passing;
mod service;

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use self::passing::Passing;
use self::service::{MOST_ARM_BYTES, Service};

pub(crate) use self::passing::{GAP_BYTES, Passed};
pub(crate) use self::service::Ticket;

/// A device, shared by those who ask it for something.
#[derive(Debug)]
pub(crate) struct Disk {
    /// Places of its queue that prefetches may take.
    queue: usize,
    /// Most that one `readahead(2)` reads, in bytes.
    window_bytes: u64,
    /// What the device is busy with, in sysfs. `None` if it is several devices, or the network.
    inflight: Option<File>,
    passing: Passing,
    service: Mutex<Service>,
}

/// What a device has room for at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes of the next request at most.
    pub(crate) bytes: u64,
    /// Does the order of places matter?
    pub(crate) has_arm: bool,
    /// Bytes that are read no slower than the arm passes over them,
    pub(crate) gap_bytes: u64,
    /// and of those between two files, which are read from the device itself.
    pub(crate) passed_bytes: u64,
}

impl Disk {
    /// A device whose queue has `queue` places for us, and of which one `readahead(2)` reads at most `window_bytes`.
    pub(crate) fn new(queue: usize, window_bytes: u64) -> Disk {
        let window_bytes = window_bytes.clamp(crate::kernel::page_bytes(), MOST_ARM_BYTES);
        let (passing, service) = (Passing::none(), Mutex::new(Service::new()));
        Disk { queue: queue.max(1), window_bytes, inflight: None, passing, service }
    }

    /// The same, of which gaps are read from this node.
    #[cfg(test)]
    pub(crate) fn with_node(self, path: &str) -> Disk {
        Disk { passing: Passing::of_node(path.into(), 0), ..self }
    }

    /// The device with a number, as the system describes it. If it rotates, a movement of its arm is said to take so long; 0 if
    /// nobody knows.
    pub(crate) fn of_device(dev: u64, movement_ns: u64) -> Disk {
        let queue = queue_requests(dev).map_or(REQUESTS, |requests| requests / 2);
        let rotates = movement_ns > 0 && queue_number(dev, "rotational") == Some(1);
        let service = if rotates { Service::with_arm(movement_ns) } else { Service::new() };
        Disk {
            inflight: File::open(format!("{}/inflight", sysfs(dev))).ok(),
            passing: Passing::of_device(&sysfs(dev), dev),
            service: Mutex::new(service),
            ..Disk::new(queue, window_bytes(dev))
        }
    }

    /// Is the device busy? Requests of ours count as well.
    fn is_busy(&self) -> bool {
        let mut text = [0_u8; 64];
        let read = self.inflight.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        // Reads and writes that are under way, two numbers: Documentation/ABI/stable/sysfs-block.
        read.is_some_and(|bytes| text[..bytes].iter().any(|digit| (b'1'..=b'9').contains(digit)))
    }

    /// Most that one `readahead(2)` reads, in bytes.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// May another request begin now, and how large?
    pub(crate) fn room(&self) -> Option<Room> {
        let service = self.service();
        let parts = service.largest_bytes().div_ceil(self.window_bytes).max(1);
        let places = self.queue / usize::try_from(parts).unwrap_or(usize::MAX);
        let room = service.under_way() < service.requests().min(places.max(1));
        let gap_bytes = service.gap_bytes();
        room.then(|| Room {
            bytes: service.next_bytes(),
            has_arm: service.has_arm(),
            gap_bytes,
            passed_bytes: if self.passing.is_possible() { gap_bytes.min(GAP_BYTES) } else { 0 },
        })
    }

    /// See [`Passing::begin`].
    pub(crate) fn pass(&self, gap: &Range<u64>, under_way: &mut Passed) {
        self.passing.begin(gap, under_way);
    }

    /// See [`Service::has_arm`].
    pub(crate) fn has_arm(&self) -> bool {
        self.service().has_arm()
    }

    /// See [`Service::reach_bytes`].
    pub(crate) fn reach_bytes(&self) -> u64 {
        self.service().reach_bytes()
    }

    /// Bytes of gaps that were asked for so far.
    pub(crate) fn passed_bytes(&self) -> u64 {
        self.passing.asked_bytes()
    }

    /// See [`Service::moving_share`].
    pub(crate) fn moving_share(&self) -> f64 {
        self.service().moving_share()
    }

    /// See [`Service::begin`].
    pub(crate) fn begin(&self, now_ns: u64, bytes: u64, scattered: bool) -> Ticket {
        let mut service = self.service();
        let delayed = service.under_way() == 0 && self.is_busy();
        service.begin(now_ns, bytes, scattered, delayed)
    }

    /// See [`Service::end`].
    pub(crate) fn end(&self, now_ns: u64, ticket: Ticket, ok: bool) -> u64 {
        self.service().end(now_ns, ticket, ok)
    }

    fn service(&self) -> std::sync::MutexGuard<'_, Service> {
        self.service.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests under way per device where its queue's size cannot be read: half of the usual 128.
const REQUESTS: usize = 64;
/// What one `readahead(2)` reads at least wherever nobody has made it less: `VM_READAHEAD_PAGES` of `include/linux/mm.h`.
const WINDOW_BYTES: u64 = 128 << 10;

fn sysfs(dev: u64) -> String {
    format!("/sys/dev/block/{}:{}", dev >> 20, dev & 0xf_ffff)
}

/// What the queue of a block device says; that of the whole disk for a partition.
fn queue_number(dev: u64, name: &str) -> Option<u64> {
    let device = sysfs(dev);
    ["queue", "../queue"].iter().find_map(|queue| number(&format!("{device}/{queue}/{name}")))
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Requests that a block device queues (`nr_requests`).
fn queue_requests(dev: u64) -> Option<usize> {
    queue_number(dev, "nr_requests").and_then(|requests| usize::try_from(requests).ok())
}

/// Most that one `readahead(2)` reads: the larger of the device's readahead and its largest request, to which
/// `force_page_cache_ra` of `mm/readahead.c` cuts it.
fn window_bytes(dev: u64) -> u64 {
    let kib = match queue_number(dev, "max_sectors_kb") {
        Some(request) => Some(request.max(queue_number(dev, "read_ahead_kb").unwrap_or(0))),
        // Several devices, or the network.
        None => number(&format!("/sys/class/bdi/{}:{}/read_ahead_kb", dev >> 20, dev & 0xf_ffff)),
    };
    kib.filter(|&kib| kib > 0).map_or(WINDOW_BYTES, |kib| kib.saturating_mul(1 << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_asked_for_than_half_of_the_queue_holds() {
        let disk = Disk::new(4, 128 << 10);
        for round in 0..8 {
            let room = disk.room().unwrap();
            let ticket = disk.begin(round * 1_000_000, room.bytes, true);
            disk.end(round * 1_000_000 + 200_000, ticket, true);
        }
        // 128 KiB at least, thus 4 parts at most.
        let mut begun = 0;
        while let Some(room) = disk.room() {
            disk.begin(10_000_000, room.bytes, true);
            begun += 1;
        }
        assert!((1..=4).contains(&begun), "{begun}");
        assert_eq!(Disk::new(0, 0).queue, 1);
        assert!(Disk::new(1, 0).window_bytes() >= 4096);
    }

    #[test]
    fn the_window_of_a_device_that_does_not_exist_is_the_kernels_own() {
        assert_eq!((window_bytes(u64::MAX), queue_requests(u64::MAX)), (WINDOW_BYTES, None));
    }
}
