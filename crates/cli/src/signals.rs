//! Signals to us are meant for the program: they are passed on, and we go on until it ends.
//!
//! What is typed at the terminal (Ctrl-C, Ctrl-\, a hang-up) the kernel sends to every process of the
//! foreground group itself: passing it on would deliver it twice, and programs take a second Ctrl-C for
//! "at once". So only signals that another process sent are passed on. Signals that were ignored when we
//! were started (`nohup`) stay ignored, for the program too.
//!
//! Not passed on are: what cannot be caught (`SIGKILL`, `SIGSTOP`); what stops us at the terminal together with
//! the program (`SIGTSTP`, `SIGTTIN`, `SIGTTOU`); what tells of a fault of our own (`SIGSEGV`, `SIGBUS`,
//! `SIGFPE`, `SIGILL`, `SIGSYS`); and `SIGCHLD`. Of a real-time signal the value that sigqueue(3) gave it is not passed on.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use anyhow::{Context, Result};
use foretell_pagecache::{realtime_signals, send_signal};
use signal_hook::consts::signal::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGTRAP, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// What is passed on besides the real-time signals (signal(7)).
const PASSED_ON: [i32; 20] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPIPE, SIGIO, SIGURG,
    SIGXCPU, SIGXFSZ, SIGWINCH, SIGCONT, SIGTRAP, SIGABRT, SIGSTKFLT, SIGPWR,
];
/// Those that `signal_hook` does not name, by their numbers on all machines that Linux runs on but MIPS.
const SIGSTKFLT: i32 = 16;
const SIGPWR: i32 = 30;

/// Signals that are kept for a program which has not begun; further ones are lost, as the kernel loses a second one of
/// a kind.
const KEPT: usize = 64;

/// Whom signals are passed on to.
#[derive(Debug)]
enum Target {
    /// The process behind this pidfd.
    Program(OwnedFd),
    /// A program that is about to begin: what has come for it so far.
    Later(Vec<i32>),
    /// Nobody: another process of ours sees to it.
    Nobody,
}

impl Target {
    fn pass_on(&mut self, signal: i32) {
        match self {
            // The program may have just ended: then nobody is left to be told.
            Target::Program(pidfd) => drop(send_signal(pidfd.as_fd(), signal)),
            Target::Later(kept) if kept.len() < KEPT => kept.push(signal),
            Target::Later(_) | Target::Nobody => {}
        }
    }
}

/// Signals are caught from now on, for a program that is about to begin.
#[derive(Debug)]
pub(crate) struct Caught(Arc<Mutex<Target>>);

impl Caught {
    /// Catches them.
    pub(crate) fn for_later() -> Result<Caught> {
        handle(Target::Later(Vec::new())).map(Caught)
    }

    /// The program has begun: passes on what has come, and what comes.
    pub(crate) fn pass_on(self, pidfd: OwnedFd) {
        let mut target = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut program = Target::Program(pidfd);
        if let Target::Later(kept) = &mut *target {
            kept.drain(..).for_each(|signal| program.pass_on(signal));
        }
        *target = program;
    }
}

/// Starts the thread that passes signals on to the process behind `pidfd`.
pub(crate) fn pass_on(pidfd: OwnedFd) -> Result<()> {
    handle(Target::Program(pidfd)).map(drop)
}

/// The same where another process of ours passes them on: they do not end this one.
pub(crate) fn leave_to_the_keeper() -> Result<()> {
    handle(Target::Nobody).map(drop)
}

/// What is caught has its default action in a program that is executed (execve(2)), as it had before: what was ignored is
/// not caught.
fn handle(target: Target) -> Result<Arc<Mutex<Target>>> {
    let target = Arc::new(Mutex::new(target));
    let shared = Arc::clone(&target);
    let ignored = ignored_signals();
    // Rust's runtime ignores SIGPIPE in us; the program has its default action.
    let all = PASSED_ON.into_iter().chain(realtime_signals());
    let wanted = all.filter(|s| *s == SIGPIPE || ignored & (1 << (s - 1)) == 0);
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // The thread comes first: without it what catches signals would be dropped, which waits until no handler runs. One of
    // SIGPIPE writes to the pipe that has just been closed, so the signal comes again, for ever.
    let (to_thread, from_us) = mpsc::channel::<SignalsInfo<WithOrigin>>();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let Ok(mut signals) = from_us.recv() else { return };
            for origin in signals.forever() {
                // Typed, or about something that we did: a pipe of ours that broke.
                let is_sent = origin.cause != Cause::Kernel && origin.process.is_none_or(|p| p.pid != own);
                if is_sent {
                    shared.lock().unwrap_or_else(PoisonError::into_inner).pass_on(origin.signal);
                }
            }
        })
        .context("cannot start a thread")?;
    let signals = SignalsInfo::<WithOrigin>::new(wanted).context("cannot handle signals")?;
    // The thread waits for this and for nothing else, so it is there to take it.
    let _ = to_thread.send(signals);
    Ok(target)
}

/// Bit `n - 1` is set when signal `n` is ignored (proc_pid_status(5), `SigIgn`).
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
