//! Who is ended first when memory is short.
//!
//! Where no memory is to be had the kernel ends a process: the one that uses most, which is the job. What we do is less
//! important than any job, so we say that we are to be ended before (`oom_score_adj`, proc_pid_oom_score_adj(5)). Children
//! inherit that, and a job must not: while one is started the value is what it was ([`as_before`]).
//!
//! Where it cannot be said, or not be taken back, nothing is changed and the kernel chooses by itself.
//!
//! What a process has in the kernel is given back some milliseconds after its end, what is loaded there later still (50 ms, as
//! programs are only removed when nobody can run them). The kernel does not wait for that and ends the next one. So in little
//! memory there is a process more that does nothing and is next ([`Spare`]).

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Ended before anything else.
const FIRST: i32 = 1000;
/// No value of this kind: they go from -1000 to 1000.
const UNCHANGED: i32 = i32::MIN;
/// The longest value, and the end of its line.
const MOST_BYTES: usize = 8;

/// The value that this process was started with, if it has another one.
static BEFORE: AtomicI32 = AtomicI32::new(UNCHANGED);

/// From now on the kernel ends this process before all others. Its children too, but for what is started [`as_before`].
pub fn go_first() {
    if BEFORE.load(Relaxed) != UNCHANGED {
        return;
    }
    let Some(before) = read() else { return };
    // What may be put back may be put back again: the kernel asks for the same rights each time.
    if before != FIRST && write(FIRST) {
        BEFORE.store(before, Relaxed);
    }
}

/// While this lives, programs that are started are as likely to be ended as if we had changed nothing, and so are we.
#[derive(Debug)]
#[must_use]
pub struct AsBefore(());

/// Puts the value back for programs that are started now, by this thread or another one.
pub fn as_before() -> AsBefore {
    restore();
    AsBefore(())
}

impl Drop for AsBefore {
    fn drop(&mut self) {
        if BEFORE.load(Relaxed) != UNCHANGED {
            write(FIRST);
        }
    }
}

/// The value of this process is what it was at the beginning. Makes plain system calls only.
pub(crate) fn restore() {
    let before = BEFORE.load(Relaxed);
    if before != UNCHANGED {
        write(before);
    }
}

/// What it is called (`PR_SET_NAME`).
pub(crate) const SPARE_NAME: &CStr = c"foretell-spare";
/// So long it is there when who has started it was ended.
static SPARE_TIME: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Descriptors that may be open where the kernel has no call that closes all.
const DESCRIPTORS: libc::c_int = 1024;

/// A process that is there to be ended in place of a program: a child of this process. Some 100 KB.
#[derive(Debug)]
pub struct Spare {
    _line: OwnedFd,
}

impl Spare {
    /// Forks it. To be called before there are threads, and after [`go_first`].
    ///
    /// # Errors
    /// There is no pipe or process to be had.
    pub fn start() -> io::Result<Spare> {
        let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // SAFETY: the child calls nothing but `wait_to_be_ended`, which makes plain system calls only and never returns.
        match unsafe { libc::fork() } {
            0 => wait_to_be_ended(theirs.as_raw_fd()),
            child if child < 0 => Err(io::Error::last_os_error()),
            _ => Ok(Spare { _line: ours }),
        }
    }
}

/// Waits until the other end of a pipe is closed, and some time more if another process has become this one's parent.
fn wait_to_be_ended(line: libc::c_int) -> ! {
    // SAFETY: plain system calls; what is read has room for it, and what they point to outlives them.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, SPARE_NAME.as_ptr());
        // Nobody who reads what a program writes waits for this process.
        libc::dup2(line, 0);
        if libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) != 0 {
            for other in 1..DESCRIPTORS {
                libc::close(other);
            }
        }
        let mut byte = 0_u8;
        while libc::read(0, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        // Who stays with the program: with its end all is over.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::nanosleep(&raw const SPARE_TIME, std::ptr::null_mut());
        libc::_exit(0)
    }
}

/// Does something with the file that has the value. Allocates nothing.
fn with_file(flags: libc::c_int, act: impl FnOnce(libc::c_int) -> isize) -> isize {
    // SAFETY: the path ends with a zero; the descriptor is fresh, and closed once.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), flags | libc::O_CLOEXEC);
        if file < 0 {
            return -1;
        }
        let done = act(file);
        libc::close(file);
        done
    }
}

fn read() -> Option<i32> {
    let mut text = [0_u8; MOST_BYTES];
    // SAFETY: the array is valid for writes of its length.
    let length =
        with_file(libc::O_RDONLY, |file| unsafe { libc::read(file, text.as_mut_ptr().cast(), text.len()) });
    std::str::from_utf8(text.get(..usize::try_from(length).ok()?)?).ok()?.trim().parse().ok()
}

fn write(value: i32) -> bool {
    let mut text = [0_u8; MOST_BYTES];
    let mut first = text.len();
    let mut rest = value.unsigned_abs();
    while first == text.len() || rest > 0 && first > 1 {
        first -= 1;
        text[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if value < 0 {
        first -= 1;
        text[first] = b'-';
    }
    let text = &text[first..];
    // SAFETY: the slice is valid for reads of its length.
    let written =
        with_file(libc::O_WRONLY, |file| unsafe { libc::write(file, text.as_ptr().cast(), text.len()) });
    usize::try_from(written) == Ok(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the value is the whole process's.
    #[test]
    fn programs_that_are_started_are_as_they_were() {
        let of_a_program = || {
            let _as_before = as_before();
            let said = std::process::Command::new("cat").arg("/proc/self/oom_score_adj").output().unwrap();
            String::from_utf8(said.stdout).unwrap().trim().parse::<i32>().unwrap()
        };
        let Some(before) = read().filter(|before| *before < FIRST) else {
            println!(
                "skipped: programs_that_are_started_are_as_they_were: nothing is less likely to be ended"
            );
            return;
        };
        assert_eq!(of_a_program(), before);
        assert_eq!(read(), Some(before), "nothing was changed");
        go_first();
        go_first();
        assert_eq!(read(), Some(FIRST));
        assert_eq!(of_a_program(), before);
        assert_eq!(read(), Some(FIRST));
        for value in [before, before + 1, 999, before] {
            assert!(write(value));
            assert_eq!(read(), Some(value));
        }
        restore();
        assert_eq!(read(), Some(before));
    }
}
