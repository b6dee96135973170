//! The reading side of the BPF ring buffer (`kernel/bpf/ringbuf.c`), and when to sleep on it.
//!
//! Two positions grow for ever: the kernel's, up to where records are reserved, and ours, up to where they
//! are consumed. Each record has a header of 8 bytes: the length, a bit while it is being written, a bit if
//! it was given up. The data area is mapped twice in a row, so that a record never wraps.
//!
//! Our position is published once for many records: it is a cache line that the kernel reads for every
//! record, on other CPUs.
//!
//! Sleeping: most records are written without a wake-up, so the ring's descriptor says *readable* as soon as
//! there is anything, which would keep a reader spinning beside a busy program. An edge-triggered epoll
//! descriptor around it becomes readable only by a real wake-up.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use aya::maps::MapData;
use rustix::event::epoll;

use crate::kernel::page_bytes;

/// Bytes of a record's header (`BPF_RINGBUF_HDR_SZ`).
const HEADER_BYTES: u64 = 8;
/// In the header's length: the record is being written (`BPF_RINGBUF_BUSY_BIT`).
const BUSY: u32 = 1 << 31;
/// In the header's length: the record was given up (`BPF_RINGBUF_DISCARD_BIT`).
const DISCARDED: u32 = 1 << 30;
/// Records after which our position is published.
const PUBLISH_EVERY: usize = 1024;

/// A mapping of a part of the ring.
struct Pages {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread; what is read through it is atomics, or records that the kernel
// does not touch until our position says that they are consumed.
unsafe impl Send for Pages {}

impl Pages {
    fn new(fd: BorrowedFd<'_>, offset: usize, bytes: usize, protection: i32) -> io::Result<Pages> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address that the kernel chooses; no memory of ours is touched.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd.as_raw_fd(), offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        Ok(Pages { at, bytes })
    }

    /// The position that lies at the beginning of these pages.
    fn position(&self) -> &AtomicU64 {
        // SAFETY: page-aligned, mapped until drop, and the kernel writes it atomically (`unsigned long`, which
        // has 64 bits on every machine that BPF's programs run natively on).
        unsafe { self.at.cast::<AtomicU64>().as_ref() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range is the one that was mapped, and no reference outlives `self`.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// The reading side of a ring.
pub(super) struct Ring {
    consumer: Pages,
    producer: Pages,
    page_bytes: usize,
    mask: u64,
    epoll: OwnedFd,
    _map: MapData,
}

impl Ring {
    /// Maps the ring `map` of `ring_bytes` bytes, a power of two.
    pub(super) fn new(map: MapData, ring_bytes: u32) -> io::Result<Ring> {
        let page_bytes = page_bytes() as usize;
        let fd = map.fd().as_fd();
        let consumer = Pages::new(fd, 0, page_bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        let producer = Pages::new(fd, page_bytes, page_bytes + 2 * ring_bytes as usize, libc::PROT_READ)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, fd, epoll::EventData::new_u64(0), interest)?;
        Ok(Ring { consumer, producer, page_bytes, mask: u64::from(ring_bytes) - 1, epoll, _map: map })
    }

    /// Readable once the kernel has woken the reader, until [`Ring::acknowledge`].
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Takes note of a wake-up.
    pub(super) fn acknowledge(&self) {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
        // With a timeout of zero and room for the one event there is nothing that can fail.
        let _ = epoll::wait(
            &self.epoll,
            &mut events[..],
            Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }),
        );
    }

    /// Whether no record is there or being written.
    pub(super) fn is_empty(&self) -> bool {
        let consumed = self.consumer.position().load(Ordering::Relaxed);
        self.producer.position().load(Ordering::SeqCst) == consumed
    }

    /// Hands at most `limit` complete records to `take`, oldest first; returns how many there were.
    pub(super) fn consume(&mut self, limit: usize, mut take: impl FnMut(&[u8])) -> usize {
        let mut position = self.consumer.position().load(Ordering::Relaxed);
        let mut reserved = self.producer.position().load(Ordering::Acquire);
        let mut taken = 0;
        while taken < limit {
            if position == reserved {
                reserved = self.producer.position().load(Ordering::Acquire);
                if position == reserved {
                    break;
                }
            }
            let at = self.page_bytes + (position & self.mask) as usize;
            // SAFETY: the record begins inside the first copy of the data area, at a multiple of 8. The
            // kernel sets the length with a full barrier when it commits the record, paired with Acquire.
            let length =
                unsafe { self.producer.at.add(at).cast::<AtomicU32>().as_ref() }.load(Ordering::Acquire);
            if length & BUSY != 0 {
                break;
            }
            let bytes = u64::from(length & !DISCARDED);
            if length & DISCARDED == 0 {
                // SAFETY: a record is not longer than the ring, so it ends inside the second copy at the
                // latest; the kernel leaves it alone until our position is beyond it.
                let record = unsafe {
                    std::slice::from_raw_parts(
                        self.producer.at.add(at + HEADER_BYTES as usize).as_ptr(),
                        bytes as usize,
                    )
                };
                take(record);
                taken += 1;
            }
            position += (HEADER_BYTES + bytes).next_multiple_of(8);
            if taken % PUBLISH_EVERY == 0 {
                self.consumer.position().store(position, Ordering::Release);
            }
        }
        self.consumer.position().store(position, Ordering::Release);
        taken
    }
}
