//! The scheduling class of the threads that steer and evict: `SCHED_FIFO` when they may, never more than a
//! share.
//!
//! At `SCHED_FIFO` an event reaches a thread in microseconds even while all processors are busy. It must not
//! starve the programs that it serves, so it measures its own processor time and falls back to the normal
//! class for a while when it has used up its share.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use crate::meter::thread_cpu_time;

/// The span over which the share is taken.
pub(crate) const WINDOW: Duration = Duration::from_millis(100);

/// Watches the processor time of the thread that calls it.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// Largest part of a window to be used at `SCHED_FIFO`; `None` when it is not wanted or not allowed.
    share: Option<f64>,
    realtime: bool,
    window_start: Instant,
    cpu_at_start: Duration,
}

impl Schedule {
    /// Nothing changes before [`Schedule::check`] is called, by the thread to be scheduled.
    pub(crate) fn new(share: Option<f64>) -> Schedule {
        Schedule { share, realtime: false, window_start: Instant::now(), cpu_at_start: Duration::ZERO }
    }

    /// To be called often: raises or lowers the class of the calling thread. It is raised only while it is
    /// `wanted`: the kernel wakes a `SCHED_FIFO` thread where it ran last, in the middle of whatever program
    /// runs there, though another processor be idle.
    pub(crate) fn check(&mut self, wanted: bool) {
        let Some(share) = self.share else { return };
        if !wanted {
            self.set(false);
            // Raised at once when it is wanted again.
            self.cpu_at_start = Duration::ZERO;
            return;
        }
        let elapsed = self.window_start.elapsed();
        if self.realtime {
            let cpu = thread_cpu_time().saturating_sub(self.cpu_at_start);
            if over_share(cpu, share) {
                self.set(false);
                self.begin_window();
            } else if elapsed >= WINDOW {
                self.begin_window();
            }
        } else if elapsed >= WINDOW || self.cpu_at_start.is_zero() {
            self.begin_window();
            self.set(true);
        }
    }

    fn begin_window(&mut self) {
        self.window_start = Instant::now();
        self.cpu_at_start = thread_cpu_time();
    }

    fn set(&mut self, realtime: bool) {
        if self.realtime != realtime {
            match set_class(realtime) {
                Ok(()) => self.realtime = realtime,
                // Not allowed: the plane works without, only later.
                Err(_) => self.share = None,
            }
        }
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Has the share of a window been used up?
fn over_share(cpu: Duration, share: f64) -> bool {
    cpu > WINDOW.mul_f64(share)
}

/// Puts the calling thread in `SCHED_FIFO` at the lowest priority, or back; a program that it starts does
/// not inherit the class.
fn set_class(realtime: bool) -> std::io::Result<()> {
    let (policy, priority) = if realtime { (libc::SCHED_FIFO, 1) } else { (libc::SCHED_OTHER, 0) };
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters are only read; 0 stands for the calling thread.
    let result =
        unsafe { libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_window_is_the_limit_at_one_half() {
        assert!(!over_share(Duration::from_millis(50), 0.5));
        assert!(over_share(Duration::from_millis(51), 0.5));
    }

    #[test]
    fn the_class_is_raised_and_lowered_again() {
        if set_class(true).is_err() {
            println!("skipped: the_class_is_raised_and_lowered_again: no right to use SCHED_FIFO");
            return;
        }
        set_class(false).unwrap();
        // SAFETY: 0 stands for the calling thread; no memory is involved.
        let class = |()| unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
        let mut schedule = Schedule::new(Some(0.5));
        schedule.check(true);
        assert_eq!(class(()), libc::SCHED_FIFO);
        schedule.check(false);
        assert_eq!(class(()), libc::SCHED_OTHER);
        schedule.check(true);
        assert_eq!(class(()), libc::SCHED_FIFO);
        drop(schedule);
        assert_eq!(class(()), libc::SCHED_OTHER);
    }

    #[test]
    fn a_thread_that_uses_all_of_a_processor_is_lowered() {
        if set_class(true).is_err() {
            println!("skipped: a_thread_that_uses_all_of_a_processor_is_lowered: no right to use SCHED_FIFO");
            return;
        }
        set_class(false).unwrap();
        let mut schedule = Schedule::new(Some(0.1));
        schedule.check(true);
        // 20 ms of processor time at most before the 10 ms of the share are used up.
        let start = thread_cpu_time();
        while schedule.realtime && thread_cpu_time() - start < Duration::from_millis(500) {
            schedule.check(true);
        }
        assert!(!schedule.realtime);
    }
}
