//! Timers that were set before this program was executed (setitimer(2), alarm(2)): a program keeps them over execve(2), and a
//! child does not have them. They are the job's: it has them when it begins, with what is left of them, and we have none from
//! then on. One that runs out before ends us, as it would have ended the job.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const US_NS: u64 = 1_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The kinds: one counts time, the other ones what a process uses of a processor.
const KINDS: [libc::c_int; 3] = [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF];

/// A timer. Zero is left of one that is not set.
struct Timer {
    left_ns: AtomicU64,
    every_ns: AtomicU64,
}

static TIMERS: [Timer; 3] = [const { Timer { left_ns: AtomicU64::new(0), every_ns: AtomicU64::new(0) } }; 3];
/// When that was left.
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);

/// Remembers what is set.
pub(crate) fn look() {
    for (kind, timer) in KINDS.into_iter().zip(&TIMERS) {
        // SAFETY: the structure is plain numbers, and valid for writes.
        let found = unsafe {
            let mut found: libc::itimerval = std::mem::zeroed();
            (libc::getitimer(number(kind), &raw mut found) == 0).then_some(found)
        };
        if let Some(found) = found {
            timer.left_ns.store(ns(found.it_value), Relaxed);
            timer.every_ns.store(ns(found.it_interval), Relaxed);
        }
    }
    LOOKED_NS.store(now_ns(), Relaxed);
}

/// Is there one?
pub(crate) fn are_set() -> bool {
    TIMERS.iter().any(|timer| timer.left_ns.load(Relaxed) != 0)
}

/// Sets what is left of them in this process. Makes plain system calls only.
pub(crate) fn restore() {
    let passed_ns = now_ns().saturating_sub(LOOKED_NS.load(Relaxed));
    for (kind, timer) in KINDS.into_iter().zip(&TIMERS) {
        let (left_ns, every_ns) = (timer.left_ns.load(Relaxed), timer.every_ns.load(Relaxed));
        if left_ns != 0 {
            let passed_ns = if kind == libc::ITIMER_REAL { passed_ns } else { 0 };
            // One that has run out meanwhile does so at once, and from then on at its times.
            set(kind, left_ns.saturating_sub(passed_ns).max(US_NS), every_ns);
        }
    }
}

/// This process has none any more: they are the job's.
pub fn leave_timers_to_the_job() {
    for (kind, timer) in KINDS.into_iter().zip(&TIMERS) {
        if timer.left_ns.load(Relaxed) != 0 {
            set(kind, 0, 0);
        }
    }
}

/// The monotonic clock, in nanoseconds; makes plain system calls only.
#[must_use]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn set(kind: libc::c_int, left_ns: u64, every_ns: u64) {
    let wanted = libc::itimerval { it_interval: time(every_ns), it_value: time(left_ns) };
    // SAFETY: the structure is valid for reads.
    unsafe { libc::setitimer(number(kind), &raw const wanted, std::ptr::null_mut()) };
}

/// The C libraries have it in different types.
fn number<T: TryFrom<libc::c_int> + Default>(kind: libc::c_int) -> T {
    T::try_from(kind).unwrap_or_default()
}

fn ns(time: libc::timeval) -> u64 {
    time.tv_sec.unsigned_abs() * SECOND_NS + time.tv_usec.unsigned_abs() * US_NS
}

fn time(ns: u64) -> libc::timeval {
    libc::timeval {
        tv_sec: libc::time_t::try_from(ns / SECOND_NS).unwrap_or(libc::time_t::MAX),
        tv_usec: (ns % SECOND_NS / US_NS).cast_signed(),
    }
}
