//! What this process was started with, and what its runtime changes of that before `main`: a program that we start finds it as
//! it was.
//!
//! The runtime of Rust opens `/dev/null` where standard input, output or error are closed, and ignores `SIGPIPE`; we give
//! `SIGCHLD` its default action (`children.rs`). All of that a program would inherit, or would not, and behave otherwise: one
//! whose output is closed is to see that. So this is looked at before the runtime does anything.

#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::going_first;

/// Bit `n` is set when descriptor `n` was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);
/// Bit `n` is set when signal `n` was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// The signals that were blocked, as the kernel has them.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// What we, or the runtime, do otherwise than before.
const CHANGED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGCHLD];
/// The kernel's set of signals (rt_sigprocmask(2)).
const SET_BYTES: usize = size_of::<u64>();

/// Called by the C library before the runtime begins (`.init_array`, elf(5)).
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let mut blocked = 0_u64;
    // SAFETY: plain system calls; what they write to is valid for that, and a structure of plain numbers may be all zeroes.
    unsafe {
        for descriptor in 0..3 {
            if libc::fcntl(descriptor, libc::F_GETFD) < 0 {
                CLOSED.fetch_or(1 << descriptor, Relaxed);
            }
        }
        for signal in CHANGED {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                IGNORED.fetch_or(1 << signal, Relaxed);
            }
        }
        let nothing = std::ptr::null::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, nothing, &raw mut blocked, SET_BYTES);
    }
    BLOCKED.store(blocked, Relaxed);
}

/// What was closed when this process began is closed in the programs that it starts.
pub(crate) fn leave_closed() {
    let closed = CLOSED.load(Relaxed);
    for descriptor in (0..3).filter(|descriptor| closed & (1 << descriptor) != 0) {
        // SAFETY: no memory is involved.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// The program that a command starts, or becomes, ignores what this process was started to ignore.
pub fn hand_on(command: &mut Command) {
    if IGNORED.load(Relaxed) != 0 {
        // SAFETY: it makes plain system calls only.
        unsafe {
            command.pre_exec(|| {
                restore_ignored();
                Ok(())
            });
        }
    }
}

fn restore_ignored() {
    let ignored = IGNORED.load(Relaxed);
    for signal in CHANGED {
        let action = if ignored & (1 << signal) != 0 { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: neither action calls anything of ours.
        unsafe { libc::signal(signal, action) };
    }
}

/// The signals of this thread, the way it is scheduled, and how likely it is to be ended when memory is short, as they were
/// at the beginning. Makes plain system calls only.
pub(crate) fn restore() {
    restore_ignored();
    going_first::restore();
    let blocked = BLOCKED.load(Relaxed);
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: what is read is valid, and nothing is written.
    unsafe {
        let nothing = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const blocked, nothing, SET_BYTES);
        // That is set by us alone (`schedule.rs`).
        if libc::sched_getscheduler(0) & libc::SCHED_RESET_ON_FORK != 0 {
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters);
        }
    }
}
