//! Who is ended first when memory is short.
//!
//! Where no memory is to be had the kernel ends a process: the one that uses most, which is the job. What we do is less
//! important than any job, so we say that we are to be ended before (`oom_score_adj`, proc_pid_oom_score_adj(5)). Children
//! inherit that, and a job must not: while one is started the value is what it was ([`as_before`]).
//!
//! Where it cannot be said, or not be taken back, nothing is changed and the kernel chooses by itself.

#![allow(unsafe_code)]

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
    let written = with_file(libc::O_WRONLY, |file| unsafe { libc::write(file, text.as_ptr().cast(), text.len()) });
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
            println!("skipped: programs_that_are_started_are_as_they_were: nothing is less likely to be ended");
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
