//! Signals to us are meant for the program: they are passed on, and we go on until it ends.
//!
//! What is typed at the terminal (Ctrl-C, Ctrl-\, a hang-up) the kernel sends to every process of the
//! foreground group itself: passing it on would deliver it twice, and programs take a second Ctrl-C for
//! "at once". So only signals that another process sent are passed on. Signals that were ignored when we
//! were started (`nohup`) stay ignored, for the program too.
//!
//! Not passed on are: what cannot be caught (`SIGKILL`, `SIGSTOP`); what stops us at the terminal together with
//! the program (`SIGTSTP`, `SIGTTIN`, `SIGTTOU`); what tells of a fault of our own (`SIGSEGV`, `SIGBUS`,
//! `SIGFPE`, `SIGILL`, `SIGSYS`); `SIGCHLD`; and real-time signals, which have their usual effect on us.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::signal::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGTRAP, SIGURG,
    SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// What is passed on (signal(7)).
const PASSED_ON: [i32; 20] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPIPE, SIGIO, SIGURG,
    SIGXCPU, SIGXFSZ, SIGWINCH, SIGCONT, SIGTRAP, SIGABRT, SIGSTKFLT, SIGPWR,
];
/// Those that `signal_hook` does not name, by their numbers on all machines that Linux runs on but MIPS.
const SIGSTKFLT: i32 = 16;
const SIGPWR: i32 = 30;

/// Starts the thread that passes signals on to the process behind `pidfd`. To be called after the program
/// was started: a handler of ours would have become the default action in it.
pub(crate) fn pass_on(pidfd: OwnedFd) -> Result<()> {
    handle(Some(pidfd))
}

/// The same where another process of ours passes them on: they do not end this one.
pub(crate) fn leave_to_the_keeper() -> Result<()> {
    handle(None)
}

fn handle(pidfd: Option<OwnedFd>) -> Result<()> {
    let ignored = ignored_signals();
    // Rust's runtime ignores SIGPIPE in us; the program has its default action.
    let wanted = PASSED_ON.into_iter().filter(|s| *s == SIGPIPE || ignored & (1 << (s - 1)) == 0);
    let mut signals = SignalsInfo::<WithOrigin>::new(wanted).context("cannot handle signals")?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for origin in signals.forever() {
                // Typed, or about something that we did: a pipe of ours that broke.
                let is_sent = origin.cause != Cause::Kernel && origin.process.is_none_or(|p| p.pid != own);
                if let (true, Some(pidfd)) = (is_sent, &pidfd)
                    && let Some(signal) = Signal::from_named_raw(origin.signal)
                {
                    // The program may have just ended: then nobody is left to be told.
                    let _ = pidfd_send_signal(pidfd, signal);
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// Bit `n - 1` is set when signal `n` is ignored (proc_pid_status(5), `SigIgn`).
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
