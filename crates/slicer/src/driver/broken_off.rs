//! A build that is broken off: the compiler hears of it, and nothing of ours is left.
//!
//! What is typed at the terminal the kernel sends to the compiler, too. What another process sends to us alone (kill(1), make(1)
//! when it is ended) is passed on while the compiler runs, so that it removes what it has half written; then we end in the
//! same way. Our folders are removed by a shell of its own process group, which waits for the end of a pipe: so it also sees
//! an end that no process can catch.

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::Cause;

/// By these a build is broken off.
const SIGNALS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Reads the names of folders, and removes them at the end of the pipe. A compiler that still runs may just have put
/// something into one.
const REMOVE: &str = "while IFS= read -r folder; do set -- \"$@\" \"$folder\"; done
    rm -rf -- \"$@\" || { sleep 1; rm -rf -- \"$@\"; }";

#[derive(Debug, Default)]
struct State {
    compiler: Option<Pid>,
    came: Option<i32>,
}

/// Signals that are passed on to a compiler.
#[derive(Debug, Clone)]
pub(super) struct PassedOn(Arc<Mutex<State>>);

impl PassedOn {
    /// Signals are caught from now on. `None` where that cannot be: they end this process then.
    pub(super) fn begin() -> Option<Self> {
        let state = Arc::new(Mutex::new(State::default()));
        let ignored = ignored_signals();
        let wanted = SIGNALS.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = SignalsInfo::<WithOrigin>::new(wanted).ok()?;
        let shared = Arc::clone(&state);
        let thread = thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in signals.forever() {
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(compiler) = state.compiler else {
                    let _ = emulate_default_handler(origin.signal);
                    continue;
                };
                state.came = Some(origin.signal);
                // What was typed has come to the compiler as well.
                if origin.cause != Cause::Kernel
                    && let Some(signal) = Signal::from_named_raw(origin.signal)
                {
                    let _ = kill_process(compiler, signal);
                }
            }
        });
        thread.ok().map(|_| Self(state))
    }

    /// The compiler that runs now.
    pub(super) fn to(&self, compiler: &Child) {
        let pid = i32::try_from(compiler.id()).ok().and_then(Pid::from_raw);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).compiler = pid;
    }

    /// The compiler has ended. If a signal came we end of it as well.
    pub(super) fn end(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.compiler = None;
        if let Some(signal) = state.came.take() {
            let _ = emulate_default_handler(signal);
        }
    }
}

/// Bit `n - 1` is set when signal `n` is ignored (proc_pid_status(5), `SigIgn`): a build under nohup(1) goes on.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Folders that are removed when this process ends without having done so.
#[derive(Debug)]
pub(super) struct Swept(Option<Child>);

impl Swept {
    pub(super) fn begin() -> Self {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", REMOVE, "sh"]).current_dir("/").process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().ok())
    }

    /// This one, too. A name that is no line stays without.
    pub(super) fn add(&mut self, folder: &Path) {
        let Ok(folder) = fs::canonicalize(folder) else { return };
        let name = folder.as_os_str().as_bytes();
        if let Some(pipe) = self.0.as_mut().and_then(|shell| shell.stdin.as_mut())
            && !name.contains(&b'\n')
        {
            let _ = pipe.write_all(&[name, b"\n"].concat());
        }
    }
}

impl Drop for Swept {
    /// All is removed: the shell has nothing to do any more.
    fn drop(&mut self) {
        if let Some(mut shell) = self.0.take() {
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}
