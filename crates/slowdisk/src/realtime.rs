//! Punctuality: a device's answer comes by interrupt, whatever the programs on the CPUs do.
#![allow(unsafe_code)]

use std::num::NonZeroU64;

/// Real-time priority of the server: above the program that is measured and above a prefetcher that runs
/// in real time itself, since both would see a device's interrupt come first; below the kernel's own
/// threads that serve interrupts (50).
const PRIORITY: i32 = 40;

/// Makes this thread, and the threads it starts from now on, run as soon as its sleep is over.
///
/// Needs CAP_SYS_NICE. Without it the delays are as exact as the CPUs are idle, which
/// [`Counters::late_ns`](crate::Counters::late_ns) shows.
pub(crate) fn be_punctual() {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the call reads the parameters, which live until it returns; 0 is the calling thread. A
    // refusal is fine, see above.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    // Sleeps of other than real-time threads are rounded up by 50 us otherwise (prctl(2),
    // PR_SET_TIMERSLACK); threads inherit it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
