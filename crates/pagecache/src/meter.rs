//! How long work takes for which somebody is charged.
//!
//! By the clock a piece of work takes as long as this thread is kept off the processor by others in the middle of it: on
//! a busy machine that is a hundred times what the work takes, and whoever had the bad luck would pay for it with a
//! hundred turns. So what counts is processor time. But who makes this thread wait, for a disk or a lock, pays by the
//! clock: the kernel counts the times that a thread gave the processor up by itself (`ru_nvcsw` of getrusage(2)).

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

/// Measures one piece of work after the other, of the thread that has started it.
#[derive(Debug)]
pub struct Meter {
    at: Instant,
    cpu: Duration,
    waits: libc::c_long,
}

impl Meter {
    /// The first piece of work begins.
    #[must_use]
    pub fn start() -> Meter {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let cpu = Duration::new(cpu.tv_sec.cast_unsigned(), u32::try_from(cpu.tv_nsec).unwrap_or(0));
        Meter { at: Instant::now(), cpu, waits: thread_usage().ru_nvcsw }
    }

    /// When the piece of work that is under way has begun.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.at
    }

    /// It is done, and the next one begins: what it has taken.
    pub fn lap(&mut self) -> Duration {
        let before = std::mem::replace(self, Meter::start());
        let (passed, cpu) = (self.at - before.at, self.cpu.saturating_sub(before.cpu));
        if self.waits == before.waits { cpu.min(passed) } else { passed }
    }
}

/// Blocks that this thread has asked disks for, itself or by the kernel's readahead.
#[must_use]
pub fn blocks_read() -> i64 {
    thread_usage().ru_inblock
}

fn thread_usage() -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes at most the structure that is there; all zeroes are a valid one.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// Processor time of this process.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_counts_and_being_kept_off_the_processor_does_not() {
        let mut meter = Meter::start();
        let start = meter.now();
        std::thread::sleep(Duration::from_millis(5));
        let slept = meter.lap();
        assert!(slept >= Duration::from_millis(5) && slept == meter.now() - start);
        let start = meter.now();
        while start.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let spun = meter.lap();
        assert!(!spun.is_zero() && spun <= meter.now() - start);
    }
}
