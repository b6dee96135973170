//! What is done for a program when a defect of ours, or want of memory, ends us: it runs, and its exit code is told.
//!
//! Where memory is short an allocation that fails ends the process (`SIGABRT`), and no error can be returned. So before
//! anything is done for a program, what it takes to become it is made ready ([`prepare`]). A handler of the signals that end a
//! process for what it did itself
//!
//! - becomes the program, if that has not begun: in place of us, with nothing of ours left;
//! - and otherwise becomes this executable anew, as `foretell wait-for PID`. All threads end at once and all that we have open
//!   is closed, so that a program which is held begins, and what we have changed is put back by who outlives us. The new one
//!   passes signals on, waits, and ends with the program's exit code.
//!
//! The same is done after a panic ([`after_a_defect`]), and where there is no process, thread or descriptor to be had for
//! anything else ([`become_program`]).

#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::SeqCst};

use crate::inherited;

/// What ends a process for what it did itself.
const FAULTS: [libc::c_int; 5] = [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
const SAID: &[u8] = b"foretell: memory is short, or foretell has a defect; the program runs uncontrolled\n";
/// Exit code when nothing can be done.
const FAILED: libc::c_int = 125;
/// The hidden subcommand of who waits instead of us; the number of the program's process follows.
pub const WAIT_FOR: &str = "wait-for";

/// How often, and how long apart, is looked whether a program that is being started is there.
const LOOKS: u32 = 200;
static LOOK_EVERY: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// No program has been started, or one that never began is gone.
const NONE: i32 = 0;
/// Whether there is a program is not known at this moment.
const STARTING: i32 = -1;

/// The program's process, or one of the above.
static PROGRAM: AtomicI32 = AtomicI32::new(NONE);
/// The signal that has ended the program, where this process is the one that is waited for; zero for none.
static ENDED_BY: AtomicI32 = AtomicI32::new(0);
/// The process that has made ready: its children do nothing of this.
static WHOSE: AtomicI32 = AtomicI32::new(0);
static READY: AtomicPtr<Ready> = AtomicPtr::new(std::ptr::null_mut());

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

/// Makes ready to become `program`, which lies at `path`, in place of this process, should this process fail. To be called
/// once, before there are threads.
///
/// # Errors
/// A word of it holds a zero.
pub fn prepare(path: &Path, program: &OsStr, arguments: &[OsString]) -> io::Result<()> {
    let ready = Box::new(Ready::new(path, program, arguments)?);
    READY.store(Box::into_raw(ready), SeqCst);
    // SAFETY: plain system calls. The handler has the signature that `SA_SIGINFO` asks for; a structure of plain numbers
    // may be all zeroes.
    unsafe {
        WHOSE.store(libc::getpid(), SeqCst);
        for signal in FAULTS {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = at_fault as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, &raw const action, &raw mut before) == 0
                && before.sa_sigaction == libc::SIG_IGN
            {
                // As it was: who has started us wants that.
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
        }
    }
    Ok(())
}

/// A process is about to be started for the program.
pub fn starting() {
    PROGRAM.store(STARTING, SeqCst);
}

/// The program is this process, or will be when the one that holds it lets go.
pub fn started(pid: u32) {
    PROGRAM.store(i32::try_from(pid).unwrap_or(STARTING), SeqCst);
}

/// There was none, or it was ended before it began.
pub fn not_started() {
    PROGRAM.store(NONE, SeqCst);
}

/// Has a process been started that is the program, or will be?
#[must_use]
pub fn is_started() -> bool {
    PROGRAM.load(SeqCst) != NONE
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

/// After a panic: becomes the program, if it has not begun and was made ready; else the exit code of the one that runs, when it
/// has ended. `None` when neither is possible.
#[must_use]
pub fn after_a_defect() -> Option<u8> {
    match PROGRAM.load(SeqCst) {
        NONE => become_ready(),
        STARTING => {}
        pid => return u8::try_from(wait_for(pid)?).ok(),
    }
    None
}

fn become_ready() {
    // SAFETY: what was made ready stays there for ever.
    if let Some(ready) = unsafe { READY.load(SeqCst).as_ref() } {
        ready.become_it();
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
    let child = i32::try_from(pid).unwrap_or(STARTING);
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

extern "C" fn at_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: plain system calls; `info` is the kernel's, of a signal that has a sender where its code is not positive.
    unsafe {
        let own = libc::getpid();
        let is_sent = (*info).si_code <= 0 && (*info).si_pid() != own;
        if is_sent {
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut now);
            if now.sa_sigaction != at_fault as *const () as libc::sighandler_t {
                // Somebody else has taken it over, and passes it on to the program.
                return;
            }
        }
        let mut program = PROGRAM.load(SeqCst);
        for _ in 0..LOOKS {
            if program != STARTING {
                break;
            }
            // Another thread starts it, unless it is this one.
            libc::nanosleep(&raw const LOOK_EVERY, std::ptr::null_mut());
            program = PROGRAM.load(SeqCst);
        }
        if !is_sent && WHOSE.load(SeqCst) == own && program != STARTING {
            libc::write(2, SAID.as_ptr().cast(), SAID.len());
            if program == NONE {
                become_ready();
                libc::_exit(FAILED);
            }
            become_waiter(program);
            // Without /proc, say.
            if let Some(code) = wait_for(program) {
                libc::_exit(code);
            }
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
