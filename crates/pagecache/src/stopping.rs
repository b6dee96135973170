//! A job that stops is seen to stop, and to go on, by whoever waits for us.
//!
//! A shell waits for the process that it has started, which is the keeper (`keeper.rs`), and not for the job. A job that stops
//! by itself (`kill -STOP $$`, Ctrl-Z in an editor, a read of the terminal in the background) would leave the shell waiting. So
//! the keeper stops when the job has, by the same signal, and goes on with it:
//!
//! ```text
//!  worker: thread waits for the job ──► stopped by, in the shared page ──► keeper's thread stops the keeper
//!                                  └──► goes on: SIGCONT to the keeper
//! ```
//!
//! Until then neither stops: both hear what is typed (`hearing.rs`), and the job may take its time, to give the terminal its
//! screen back, or not stop at all. Who continues the group continues all.
//!
//! The keeper may be about to stop when the job goes on already. It says so before it looks whether the job is stopped, and the
//! worker looks at that after it has said that the job goes on: one of the two sees the other one.

#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// So often the keeper is told that the job goes on, until it does too: at first, and at most.
const TELL_EVERY: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// What both processes see of a job that stops. All zeroes are a job that runs.
#[derive(Debug)]
pub(crate) struct Stopping {
    /// The signal by which the job has stopped; zero while it runs.
    signal: AtomicU32,
    /// How often it has.
    times: AtomicU32,
    /// Not zero while the keeper stops, or is about to.
    is_following: AtomicU32,
}

impl Stopping {
    pub(crate) const fn new() -> Stopping {
        Stopping { signal: AtomicU32::new(0), times: AtomicU32::new(0), is_following: AtomicU32::new(0) }
    }

    fn stops(&self, signal: i32) {
        self.signal.store(signal.unsigned_abs(), SeqCst);
        self.times.fetch_add(1, SeqCst);
    }

    /// Returns when who waits goes on, too, or is seen not to stop.
    fn goes_on(&self, waits: Option<u32>) {
        self.signal.store(0, SeqCst);
        let Some(waits) = waits else { return };
        let mut pause = TELL_EVERY[0];
        while self.is_following.load(SeqCst) != 0 {
            // SAFETY: no memory is involved.
            if unsafe { libc::kill(waits.cast_signed(), libc::SIGCONT) } != 0 {
                return;
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(TELL_EVERY[1]);
        }
    }

    /// Stops this process if the job has stopped since `seen`, until it is continued. Whether it has.
    pub(crate) fn follow(&self, seen: &mut u32) -> bool {
        let times = self.times.load(SeqCst);
        if times == std::mem::replace(seen, times) {
            return false;
        }
        self.is_following.store(1, SeqCst);
        let signal = self.signal.load(SeqCst);
        if signal != 0 {
            stop_by(signal.cast_signed());
        }
        self.is_following.store(0, SeqCst);
        signal != 0
    }
}

/// Stops this process by a signal, whatever else it does on it, as long as nobody continues it. Where the kernel stops nobody by
/// it, as nobody could continue it (an orphaned group, setpgid(2)), it returns at once.
fn stop_by(signal: i32) {
    // SAFETY: the structures may be all zeroes, are valid for what is read and written, and outlive the calls; the default action
    // calls nothing of ours. To this thread, so that it is stopped when the call returns.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let default: libc::sigaction = std::mem::zeroed();
        let is_set = libc::sigaction(signal, &raw const default, &raw mut before) == 0;
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, &raw mut blocked);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut());
        if is_set {
            libc::sigaction(signal, &raw const before, std::ptr::null_mut());
        }
    }
}

/// What has become of a child.
enum Change {
    Stopped(i32),
    GoesOn,
    Ended,
}

/// Waits for what becomes of a child. Only stops are taken leave of: how it ends is somebody else's.
fn next_change(child: u32) -> Change {
    let take = |how| {
        // SAFETY: the structure may be all zeroes, and is filled by a call that succeeds: with a PID of 0 if there is nothing.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let done = libc::waitid(libc::P_PID, child, &raw mut info, how);
            let is_interrupted = done != 0 && *libc::__errno_location() == libc::EINTR;
            (done == 0 || is_interrupted)
                .then(|| (info.si_pid() != 0).then(|| (info.si_code, info.si_status())))
        }
    };
    loop {
        let any = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
        match take(any | libc::WNOWAIT) {
            Some(None) => {}
            Some(Some((libc::CLD_STOPPED | libc::CLD_CONTINUED, _))) => {
                match take(libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG) {
                    Some(Some((libc::CLD_STOPPED, signal))) => return Change::Stopped(signal),
                    Some(Some((libc::CLD_CONTINUED, _))) => return Change::GoesOn,
                    // It has changed once more.
                    _ => {}
                }
            }
            _ => return Change::Ended,
        }
    }
}

/// Says of a job, a child of this process, when it stops and goes on, until it has ended; `ring` wakes who is to stop. That is
/// another process if `waits` names one. In a thread of its own, where there is one to be had.
pub(crate) fn tell(
    stopping: &'static Stopping,
    job: u32,
    waits: Option<u32>,
    ring: impl Fn() + Send + 'static,
) {
    let tell = move || {
        loop {
            match next_change(job) {
                Change::Stopped(signal) => {
                    stopping.stops(signal);
                    ring();
                }
                Change::GoesOn => stopping.goes_on(waits),
                Change::Ended => return stopping.goes_on(waits),
            }
        }
    };
    let thread = std::thread::Builder::new().name("job-stops".to_owned()).stack_size(64 << 10);
    // Without it who waits sees the job run, as long as it is stopped.
    let _ = thread.spawn(tell);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that does something and ends; it makes plain system calls only.
    fn child(does: impl FnOnce()) -> u32 {
        // SAFETY: the child ends without running anything of the test's.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                does();
                libc::_exit(0);
            }
            child.unsigned_abs()
        }
    }

    fn send(to: u32, signal: i32) {
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::kill(to.cast_signed(), signal) }, 0);
    }

    /// How a child that has been waited for stopped, went on or ended: what waitpid(2) says.
    fn status(of: u32) -> i32 {
        let mut status = 0;
        let how = libc::WUNTRACED | libc::WCONTINUED;
        // SAFETY: the number is valid for writes.
        assert_eq!(unsafe { libc::waitpid(of.cast_signed(), &raw mut status, how) }, of.cast_signed());
        status
    }

    #[test]
    fn stops_are_told_in_their_order_and_the_end_is_left() {
        let stops = child(|| {
            for _ in 0..2 {
                // SAFETY: no memory is involved.
                unsafe { libc::raise(libc::SIGSTOP) };
            }
        });
        for _ in 0..2 {
            assert!(matches!(next_change(stops), Change::Stopped(libc::SIGSTOP)));
            send(stops, libc::SIGCONT);
            // It may have stopped again before it was seen to go on.
            if !matches!(next_change(stops), Change::GoesOn) {
                send(stops, libc::SIGCONT);
                break;
            }
        }
        assert!(matches!(next_change(stops), Change::Ended));
        assert_eq!(status(stops), 0, "it can still be waited for");
    }

    /// However quickly the job goes on: who follows does not stay behind.
    #[test]
    fn who_follows_goes_on_with_the_job() {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: fresh memory, all zeroes, which is a job that runs; it is never unmapped.
        let stopping: &'static Stopping = unsafe {
            let page = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            &*page.cast()
        };
        let follows = child(|| {
            let mut seen = 0;
            loop {
                stopping.follow(&mut seen);
            }
        });
        for round in 0..300 {
            stopping.stops(libc::SIGSTOP);
            if round % 3 == 0 {
                while !libc::WIFSTOPPED(status(follows)) {}
            } else {
                (0..50 * round).for_each(|_| std::hint::spin_loop());
            }
            stopping.goes_on(Some(follows));
            assert_eq!(stopping.is_following.load(SeqCst), 0);
        }
        send(follows, libc::SIGKILL);
        while !libc::WIFSIGNALED(status(follows)) {}
    }
}
