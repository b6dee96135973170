//! What is left to do where no other process is to be had: this one becomes the program, or one that only waits for it; and
//! how we end when the program has.
//!
//! - Where there is no process, thread or descriptor to be had for anything else this process becomes the program
//!   ([`become_program`]), with nothing of ours left.
//! - Where that comes out when the program has begun this process becomes this executable anew, as `foretell wait-for PID`
//!   ([`wait_in_place`]). All threads end at once and all that we have open is closed, so that what we have changed is put back
//!   by who outlives us. The new one passes signals on, waits, and ends with the program's exit code.
//! - We end by the signal that has ended the program ([`end_likewise`]).
//!
//! Who stays with a program when a defect of ours, or want of memory, ends us is another process (`keeper.rs`).

#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

use crate::inherited;

/// Exit code when nothing can be done.
const FAILED: libc::c_int = 125;
/// The hidden subcommand of who waits instead of us; the number of the program's process follows.
pub const WAIT_FOR: &str = "wait-for";

/// A program has been started, or one that is held.
static IS_STARTED: AtomicBool = AtomicBool::new(false);
/// The signal that has ended the program, where this process is the one that is waited for; zero for none.
static ENDED_BY: AtomicI32 = AtomicI32::new(0);

/// What execve(2) takes.
struct Ready {
    path: CString,
    arguments: Vec<*const libc::c_char>,
    /// With the shell in front, for a script that does not say what it is for, as execvp(3) has it.
    by_shell: Vec<*const libc::c_char>,
    /// What the pointers point to.
    _words: Vec<CString>,
}

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

impl Ready {
    fn new(path: &Path, program: &OsStr, arguments: &[OsString]) -> io::Result<Ready> {
        let words = std::iter::once(program).chain(arguments.iter().map(OsString::as_os_str));
        let words: Vec<CString> =
            words.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let pointers = || words.iter().map(|word| word.as_ptr());
        let end = || std::iter::once(std::ptr::null());
        let shell = [c"/bin/sh".as_ptr(), path.as_ptr()];
        let by_shell = shell.into_iter().chain(pointers().skip(1)).chain(end()).collect();
        Ok(Ready { arguments: pointers().chain(end()).collect(), by_shell, path, _words: words })
    }

    /// Becomes the program. Returns when that fails. Makes plain system calls only.
    fn become_it(&self) {
        inherited::restore();
        // SAFETY: the vectors end with a null pointer, and what they point to is owned by `self`.
        unsafe {
            libc::execve(self.path.as_ptr(), self.arguments.as_ptr(), environ);
            if *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(c"/bin/sh".as_ptr(), self.by_shell.as_ptr(), environ);
            }
        }
    }
}

/// A process is about to be started for the program.
pub fn starting() {
    IS_STARTED.store(true, SeqCst);
}

/// There is none after all, or it was ended before it began.
pub fn not_started() {
    IS_STARTED.store(false, SeqCst);
}

/// Has a process been started that is the program, or will be?
#[must_use]
pub fn is_started() -> bool {
    IS_STARTED.load(SeqCst)
}

/// Becomes a program in place of this process: where there is neither process nor descriptor to be had for another one.
/// Returns when that fails.
#[must_use]
pub fn become_program(path: &Path, program: &OsStr, arguments: &[OsString]) -> io::Error {
    match Ready::new(path, program, arguments) {
        Ok(ready) => {
            ready.become_it();
            io::Error::last_os_error()
        }
        Err(error) => error,
    }
}

/// Becomes who waits for a process. Returns when that fails. Makes plain system calls only.
fn become_waiter(pid: i32) {
    let mut digits = [0_u8; 12];
    let mut first = digits.len() - 1;
    let mut rest = pid.unsigned_abs();
    while rest > 0 && first > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let pid = digits[first..].as_ptr().cast();
    let arguments = [c"foretell".as_ptr(), c"wait-for".as_ptr(), pid, std::ptr::null()];
    inherited::restore();
    // SAFETY: the words end with a zero and their vector with a null pointer.
    unsafe { libc::execve(c"/proc/self/exe".as_ptr(), arguments.as_ptr(), environ) };
}

/// Gives up everything but waiting for a child, and ends with its exit code: where a descriptor of it is not to be had.
pub fn wait_in_place(pid: u32) -> ! {
    let child = i32::try_from(pid).unwrap_or(-1);
    become_waiter(child);
    std::process::exit(wait_for(child).unwrap_or(FAILED))
}

/// Waits instead of the process that this one was before: the exit code of its child, or 128 and the signal.
#[must_use]
pub fn wait_instead(pid: u32) -> Option<u8> {
    u8::try_from(wait_for(i32::try_from(pid).ok()?)? & 0xff).ok()
}

/// The exit code of a child when it has ended, or 128 and the signal. It can still be waited for. Makes plain system calls only.
fn wait_for(pid: i32) -> Option<libc::c_int> {
    // SAFETY: the structure is valid for writes, and may be all zeroes; it is of a child when the call succeeds.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        loop {
            let flags = libc::WEXITED | libc::WNOWAIT;
            if libc::waitid(libc::P_PID, pid.cast_unsigned(), &raw mut info, flags) == 0 {
                let status = info.si_status();
                return Some(if info.si_code == libc::CLD_EXITED { status } else { 128 + status });
            }
            if *libc::__errno_location() != libc::EINTR {
                return None;
            }
        }
    }
}

/// The program was ended by this signal.
pub fn ended_by(signal: i32) {
    ENDED_BY.store(signal, SeqCst);
}

/// Ends this process by the signal that has ended the program, if that is what an exit code stands for: a shell ends a loop on
/// Ctrl-C only if what it ran was ended by that, and systemd takes an end by `SIGTERM` for one in good order. No core is dumped,
/// which would be of us. Returns where there was no signal, or none can end this process: the first one of a PID namespace.
pub fn end_likewise(code: u8) {
    let signal = ENDED_BY.load(SeqCst);
    if signal == 0 || i32::from(code) != 128 + signal {
        return;
    }
    // SAFETY: plain system calls; the set may be all zeroes before it is made empty, and outlives the calls.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
}
