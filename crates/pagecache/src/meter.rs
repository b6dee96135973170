//! How long work takes for which somebody is charged.
//!
//! By the clock a piece of work takes as long as this thread is kept off the processor by others in the middle of it: on
//! a busy machine that is a hundred times what the work takes, and whoever had the bad luck would pay for it with a
//! hundred turns. But who makes this thread wait, for a disk or a lock, pays by the clock. The kernel counts how long a
//! thread was ready to run and did not: the second number of `/proc/PID/task/TID/schedstat`. What passes less that is what
//! counts.
//!
//! A kernel may be built without that number. Then what counts is processor time, or the time by the clock if the thread
//! has given the processor up by itself (`ru_nvcsw` of getrusage(2)).

#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

thread_local! {
    /// What the kernel counts of this thread.
    static COUNTED: Option<File> = File::open("/proc/thread-self/schedstat").ok();
}

/// Measures one piece of work after the other, of the thread that has started it.
#[derive(Debug)]
pub struct Meter {
    at: Instant,
    counted: Counted,
}

/// What tells the time that passed from the time that was taken.
#[derive(Debug, Clone, Copy)]
enum Counted {
    /// How long it was kept off the processor, ever.
    KeptOff(Duration),
    /// Its processor time, and how often it gave the processor up.
    Guessed { cpu: Duration, waits: libc::c_long },
}

impl Counted {
    fn now() -> Counted {
        kept_off().map_or_else(Counted::guessed, Counted::KeptOff)
    }

    fn guessed() -> Counted {
        Counted::Guessed { cpu: thread_cpu_time(), waits: thread_usage().ru_nvcsw }
    }

    /// How much was taken of what has passed since `before`.
    fn of(self, before: Counted, passed: Duration) -> Duration {
        match (before, self) {
            (Counted::KeptOff(before), Counted::KeptOff(now)) => {
                passed.saturating_sub(now.saturating_sub(before))
            }
            (Counted::Guessed { cpu: before, waits }, Counted::Guessed { cpu, waits: waits_now })
                if waits == waits_now =>
            {
                passed.min(cpu.saturating_sub(before))
            }
            _ => passed,
        }
    }
}

impl Meter {
    /// The first piece of work begins.
    #[must_use]
    pub fn start() -> Meter {
        Meter { at: Instant::now(), counted: Counted::now() }
    }

    /// When the piece of work that is under way has begun.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.at
    }

    /// It is done, and the next one begins: what it has taken.
    pub fn lap(&mut self) -> Duration {
        let before = std::mem::replace(self, Meter::start());
        self.counted.of(before.counted, self.at - before.at)
    }
}

/// How long this thread has been ready to run without a processor; `None` where the kernel does not count it.
fn kept_off() -> Option<Duration> {
    // Three numbers of 20 digits.
    let mut text = [0; 64];
    let length = COUNTED.with(|counted| counted.as_ref()?.read_at(&mut text, 0).ok())?;
    let mut numbers = text[..length].split(|byte| *byte == b' ');
    let cpu = numbers.next()?;
    // Of a thread that has run never so long: then nothing is counted.
    if cpu == b"0" {
        return None;
    }
    std::str::from_utf8(numbers.next()?).ok()?.parse().ok().map(Duration::from_nanos)
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

/// Processor time of this thread.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
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
        assert!(slept >= Duration::from_millis(5) && slept <= meter.now() - start);
        let start = meter.now();
        while start.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let spun = meter.lap();
        assert!(!spun.is_zero() && spun <= meter.now() - start);
    }

    #[test]
    fn what_is_taken_is_what_passes_without_waits_for_a_processor() {
        const fn ms(n: u64) -> Duration {
            Duration::from_millis(n)
        }
        let kept_off = |n| Counted::KeptOff(ms(n));
        assert_eq!(kept_off(12).of(kept_off(5), ms(10)), ms(3));
        assert_eq!(kept_off(30).of(kept_off(5), ms(10)), Duration::ZERO, "counted a moment later");
        let guessed = |cpu, waits| Counted::Guessed { cpu: ms(cpu), waits };
        assert_eq!(guessed(7, 3).of(guessed(5, 3), ms(10)), ms(2), "it has not given the processor up");
        assert_eq!(guessed(7, 4).of(guessed(5, 3), ms(10)), ms(10), "it has");
        assert_eq!(guessed(7, 4).of(kept_off(5), ms(10)), ms(10));
    }
}
