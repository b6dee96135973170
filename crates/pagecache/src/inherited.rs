//! What this process was started with, and what its runtime changes of that before `main`: a program that we start finds it as
//! it was.
//!
//! The runtime of Rust opens `/dev/null` where standard input, output or error are closed, and ignores `SIGPIPE`; we give
//! `SIGCHLD` its default action (`children.rs`). All of that a program would inherit, or would not, and behave otherwise: one
//! whose output is closed is to see that. So this is looked at before the runtime does anything.
//!
//! Timers (setitimer(2), alarm(2)) stay when a program is executed and do not when a process is forked, as ours are; and who is
//! scheduled to be reset on fork (`chrt -R`) has another class in a child. Both are the program's, so it gets them
//! ([`hand_on`]), and we have none.

#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::{going_first, hearing, timers};

/// Bit `n` is set when descriptor `n` was closed.
static CLOSED: AtomicU32 = AtomicU32::new(0);
/// Bit `n` is set when signal `n` was ignored.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// Those of the C library's own signals that were ignored: bit 0 and 1.
static LIBRARYS_IGNORED: AtomicU32 = AtomicU32::new(0);
/// The signals that were blocked, as the kernel has them.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// What we, or the runtime, do otherwise than before.
const CHANGED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGCHLD];
/// The C library's own signals (nptl(7)), which it tells nobody of. Who starts a program by posix_spawn(3) has it ignore them.
const LIBRARYS: [libc::c_int; 2] = [32, 33];
/// The kernel's set of signals (rt_sigprocmask(2)).
const SET_BYTES: usize = size_of::<u64>();

/// Called by the C library before the runtime begins (`.init_array`, elf(5)).
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// What is done on a signal, as the kernel has it (rt_sigaction(2)): a handler, and what goes with it, which has other places
/// on other machines.
#[repr(C)]
#[derive(Default)]
struct KernelAction {
    handler: libc::sighandler_t,
    rest: [u64; 4],
}

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
        for (bit, signal) in LIBRARYS.into_iter().enumerate() {
            let mut action = KernelAction::default();
            let nothing = std::ptr::null::<KernelAction>();
            if libc::syscall(libc::SYS_rt_sigaction, signal, nothing, &raw mut action, SET_BYTES) == 0
                && action.handler == libc::SIG_IGN
            {
                LIBRARYS_IGNORED.fetch_or(1 << bit, Relaxed);
            }
        }
        let nothing = std::ptr::null::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, nothing, &raw mut blocked, SET_BYTES);
    }
    BLOCKED.store(blocked, Relaxed);
    timers::look();
    reset_on_fork::look();
}

/// Which of these signals were blocked when this process was started: no thread of ours hears them unless it
/// [unblocks](hearing::unblock) them, and a program is to find them blocked.
#[must_use]
pub fn blocked(signals: &[i32]) -> Vec<i32> {
    let blocked = blocked_set();
    let is_blocked = |signal: &i32| {
        u32::try_from(signal - 1)
            .ok()
            .and_then(|place| blocked.checked_shr(place))
            .is_some_and(|rest| rest & 1 != 0)
    };
    signals.iter().copied().filter(is_blocked).collect()
}

/// All of them: bit `n - 1` for signal `n`.
pub(crate) fn blocked_set() -> u64 {
    BLOCKED.load(Relaxed)
}

/// What was closed when this process began is closed in the programs that it starts.
pub(crate) fn leave_closed() {
    let closed = CLOSED.load(Relaxed);
    for descriptor in (0..3).filter(|descriptor| closed & (1 << descriptor) != 0) {
        // SAFETY: no memory is involved.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// The program that a command starts, or becomes, ignores what this process was started to ignore, has the timers that it had,
/// and is scheduled as it was. Whether it ignores the C library's own signals is left to how it is started.
pub fn hand_on(command: &mut Command) {
    if IGNORED.load(Relaxed) != 0 || timers::are_set() || reset_on_fork::was_set() {
        // SAFETY: they make plain system calls only.
        unsafe {
            command.pre_exec(|| {
                restore_in_child();
                Ok(())
            });
        }
    }
}

/// The same, and of the C library's own signals the program ignores these ([`librarys_ignored`]): it is not started by
/// posix_spawn(3).
pub fn hand_on_all(command: &mut Command, librarys: u32) {
    // SAFETY: they make plain system calls only.
    unsafe {
        command.pre_exec(move || {
            restore_in_child();
            ignore_librarys(librarys);
            Ok(())
        });
    }
}

/// In who is about to become a program. Makes plain system calls only.
fn restore_in_child() {
    reset_on_fork::restore();
    hearing::be_deaf();
    restore_ignored();
    hearing::hear_missed();
    timers::restore();
}

/// Which of the C library's own signals this process was started to ignore: bit 0 and 1.
#[must_use]
pub fn librarys_ignored() -> u32 {
    LIBRARYS_IGNORED.load(Relaxed)
}

/// The program that this process becomes ignores these of the C library's own signals, and no others. Where there are no threads.
fn ignore_librarys(ignored: u32) {
    for (bit, signal) in LIBRARYS.into_iter().enumerate() {
        let handler = if ignored & (1 << bit) == 0 { libc::SIG_DFL } else { libc::SIG_IGN };
        let action = KernelAction { handler, rest: [0; 4] };
        let nothing = std::ptr::null_mut::<KernelAction>();
        // SAFETY: the action is valid for reads of what the kernel reads, and calls nothing of ours.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, nothing, SET_BYTES) };
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
        // That is set by us (`schedule.rs`), or it was there before.
        if libc::sched_getscheduler(0) & libc::SCHED_RESET_ON_FORK != 0 {
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters);
        }
    }
    reset_on_fork::restore();
    timers::restore();
}

/// The class of a process that is to be reset on fork (`SCHED_FLAG_RESET_ON_FORK`, sched_setattr(2)).
mod reset_on_fork {
    use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

    /// `struct sched_attr` in its first size.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }

    const SIZE: u32 = size_of::<Attributes>() as u32;
    const RESET_ON_FORK: u64 = 1;

    /// Zero flags for a process that was not to be reset.
    static FLAGS: AtomicU64 = AtomicU64::new(0);
    static POLICY: AtomicU32 = AtomicU32::new(0);
    static NICE: AtomicI32 = AtomicI32::new(0);
    static PRIORITY: AtomicU32 = AtomicU32::new(0);

    pub(super) fn look() {
        let mut found = Attributes::default();
        // SAFETY: the structure is valid for writes of the size that is told.
        let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, SIZE, 0_u32) };
        // A deadline is not for who forks, and is refused then.
        let is_known = matches!(
            found.policy.cast_signed(),
            libc::SCHED_OTHER | libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_BATCH | libc::SCHED_IDLE
        );
        if done == 0 && is_known && found.flags & RESET_ON_FORK != 0 {
            POLICY.store(found.policy, Relaxed);
            NICE.store(found.nice, Relaxed);
            PRIORITY.store(found.priority, Relaxed);
            FLAGS.store(found.flags & RESET_ON_FORK, Relaxed);
        }
    }

    pub(super) fn was_set() -> bool {
        FLAGS.load(Relaxed) != 0
    }

    /// Makes plain system calls only. Where it is refused the class is that of any child.
    pub(super) fn restore() {
        if !was_set() {
            return;
        }
        let wanted = Attributes {
            size: SIZE,
            policy: POLICY.load(Relaxed),
            flags: FLAGS.load(Relaxed),
            nice: NICE.load(Relaxed),
            priority: PRIORITY.load(Relaxed),
            ..Attributes::default()
        };
        // SAFETY: the structure is valid for reads of the size that it has.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0_u32) };
    }
}
