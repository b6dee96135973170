//! The processes that this one has started: that they can be waited for, what they have used, and signals to them.

#![allow(unsafe_code)]

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Makes that children can be waited for. Who started us may have had SIGCHLD ignored, which is inherited: the kernel
/// then takes leave of a child by itself, and its exit code is lost (waitpid(2), notes). timeout(1) does the same. To be
/// called before the first child is started. A child that is to find all that as it was is started by way of
/// [`hand_on`](crate::hand_on); what was closed is closed there in any case.
pub fn expect_children() {
    crate::inherited::leave_closed();
    // SAFETY: the default action calls nothing of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// The real-time signals, as the C library leaves them to programs (signal(7)).
#[must_use]
pub fn realtime_signals() -> RangeInclusive<i32> {
    libc::SIGRTMIN()..=libc::SIGRTMAX()
}

/// Sends any signal to the process behind a pidfd (pidfd_send_signal(2)).
///
/// # Errors
/// When the process has ended, is somebody else's, or there is no such signal.
pub fn send_signal(process: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    let nothing = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: no memory of ours is involved: without particulars the kernel makes them up.
    let result =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), number, nothing, 0_u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What all children that have ended used (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildrenUsage {
    /// Bytes that were read from devices for them.
    pub read_bytes: u64,
    /// The largest resident set among them, bytes; 0 when it is no larger than our own: a child is a copy of us before
    /// it executes its program, and that counts too.
    pub resident_bytes: u64,
    /// Time that they were on a processor, their own and the kernel's on their behalf.
    pub processor: Duration,
}

/// What all children that have ended used.
#[must_use]
pub fn children_usage() -> ChildrenUsage {
    let usage = |who| {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes at most the structure that is there; all zeroes are a valid one.
        unsafe {
            libc::getrusage(who, usage.as_mut_ptr());
            usage.assume_init()
        }
    };
    let (own, children) = (usage(libc::RUSAGE_SELF), usage(libc::RUSAGE_CHILDREN));
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    // Blocks of 512 bytes, and KiB.
    let resident_kib = if children.ru_maxrss > own.ru_maxrss { children.ru_maxrss } else { 0 };
    ChildrenUsage {
        read_bytes: children.ru_inblock.unsigned_abs().saturating_mul(512),
        resident_bytes: resident_kib.unsigned_abs().saturating_mul(1024),
        processor: of(children.ru_utime) + of(children.ru_stime),
    }
}
