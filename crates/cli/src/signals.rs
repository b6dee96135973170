//! Signals that ask us to end are meant for the program: they are passed on, and we go on until it ends.
//!
//! What is typed at the terminal (Ctrl-C, Ctrl-\, a hang-up) the kernel sends to every process of the
//! foreground group itself: passing it on would deliver it twice, and programs take a second Ctrl-C for
//! "at once". So only signals that another process sent are passed on. Signals that were ignored when we
//! were started (`nohup`) stay ignored, for the program too.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// Starts the thread that passes signals on to the process behind `pidfd`. To be called after the program
/// was started: a handler of ours would have become the default action in it.
pub(crate) fn pass_on(pidfd: OwnedFd) -> Result<()> {
    let ignored = ignored_signals();
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|s| ignored & (1 << (s - 1)) == 0);
    let mut signals = SignalsInfo::<WithOrigin>::new(wanted).context("cannot handle signals")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for origin in signals.forever() {
                let typed = origin.cause == Cause::Kernel;
                if let (false, Some(signal)) = (typed, Signal::from_named_raw(origin.signal)) {
                    // The program may have just ended: then nobody is left to be told.
                    let _ = pidfd_send_signal(&pidfd, signal);
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// Bit `n - 1` is set when signal `n` is ignored (proc_pid_status(5), `SigIgn`).
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
