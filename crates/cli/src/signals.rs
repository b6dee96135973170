//! Signals to us are meant for the program: they are passed on, once, and we go on until it ends.
//!
//! What is sent to the process group or to all of a control group the program hears itself; what is sent to our number it does
//! not. The process that stays passes on what it alone has heard, which it knows from what the one that works has heard
//! (`told_apart.rs`). Where there is one process only, all that is sent is passed on.
//!
//! What is typed at the terminal (Ctrl-C, Ctrl-\) the kernel sends to every process of the foreground group itself, so it is
//! not passed on. When a terminal is gone the kernel tells it to the leader of the session alone: if that is us, it is passed
//! on. Signals that were ignored when we were started (`nohup`) stay ignored, for the program too, and those that were blocked
//! are blocked in it.
//!
//! What stops a program at the terminal (`SIGTSTP`, `SIGTTIN`, `SIGTTOU`) does not stop us: we stop when the program has, by what
//! has stopped it, and go on with it (`stopping.rs` of `foretell_pagecache`). Before it is known to have begun, and when it has ended, it
//! stops us: a child that is stopped before it becomes the program is waited for, and we could not tell of it.
//!
//! Not passed on are: what cannot be caught (`SIGKILL`, `SIGSTOP`); what tells of a fault of our own (`SIGSEGV`, `SIGBUS`,
//! `SIGFPE`, `SIGILL`, `SIGSYS`); and `SIGCHLD`. Of a real-time signal the value that sigqueue(3) gave it is not passed on.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use foretell_pagecache::hearing::{self, Ear, Heard, Hearing};
use foretell_pagecache::{realtime_signals, send_signal};
use rustix::process::{Pid, Signal, getpgid, getpgrp, getpid, getsid, kill_process_group, test_kill_process};
use signal_hook::consts::signal::{
    SIGABRT, SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM, SIGTRAP, SIGTSTP,
    SIGTTIN, SIGTTOU, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};

use crate::told_apart::{Apart, Look};

/// What is passed on besides the real-time signals (signal(7)).
const PASSED_ON: [i32; 20] = [
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGPIPE, SIGIO, SIGURG,
    SIGXCPU, SIGXFSZ, SIGWINCH, SIGCONT, SIGTRAP, SIGABRT, SIGSTKFLT, SIGPWR,
];
/// Those that `signal_hook` does not name, by their numbers on all machines that Linux runs on but MIPS.
const SIGSTKFLT: i32 = 16;
const SIGPWR: i32 = 30;
/// What stops a program that does nothing else on it, and can be caught: passed on as well, as long as the program runs.
const STOPS: [i32; 3] = [SIGTSTP, SIGTTIN, SIGTTOU];
/// What is typed to end a program.
const TYPED: [i32; 2] = [SIGINT, SIGQUIT];

/// Signals that are kept for a program which has not begun; further ones are lost, as the kernel loses a second one of
/// a kind.
const KEPT: usize = 64;

/// Threads of a sender that are looked at.
const THREADS: usize = 64;

/// Whom signals are passed on to.
#[derive(Debug)]
enum Target {
    /// The process behind this pidfd, and its number.
    Program(OwnedFd, i32),
    /// A program that is about to begin: what has come for it so far.
    Later(Vec<i32>),
}

impl Target {
    /// Is this all that there is to a `SIGCONT`? Otherwise it is told apart as other signals are.
    fn takes_continue(&self, heard: Heard, hearing: Hearing) -> bool {
        let Target::Program(_, job) = *self else { return false };
        // The worker has said that the job goes on.
        if hearing.worker().map(u32::cast_signed) == Some(heard.sender) {
            return true;
        }
        let group = Pid::from_raw(job).and_then(|job| getpgid(Some(job)).ok());
        let group = group.filter(|group| *group != getpgrp() && is_stopped(job));
        // A shell that waits for us continues our group. Without us that would be the one that the job has made.
        group.is_some_and(|group| kill_process_group(group, Signal::CONT).is_ok())
    }

    fn pass_on(&mut self, signal: i32) {
        match self {
            // The program may have just ended: then nobody is left to be told.
            Target::Program(pidfd, _) => drop(send_signal(pidfd.as_fd(), signal)),
            // Of those that wait the kernel makes one, too.
            Target::Later(kept) if kept.len() < KEPT && !kept.contains(&signal) => kept.push(signal),
            Target::Later(_) => {}
        }
    }
}

/// Signals are caught from now on, for a program that is about to begin.
#[derive(Debug)]
pub(crate) struct Caught {
    hearing: Hearing,
    /// `None` where there is no thread that could pass anything on.
    target: Option<Arc<Mutex<Target>>>,
}

impl Caught {
    /// Catches them, in the process that stays: what the other one hears comes in `hearing` as well.
    pub(crate) fn for_later(hearing: Hearing) -> Result<Caught> {
        let heard = heard_signals();
        // The thread comes before what it waits for.
        let target = Arc::new(Mutex::new(Target::Later(Vec::new())));
        let shared = Arc::clone(&target);
        let unblocked = heard.clone();
        let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
            hearing::unblock(&unblocked);
            tell_apart(hearing, &shared)
        });
        hearing.hear(Ear::Keeper, &heard).context("cannot handle signals")?;
        Ok(Caught { hearing, target: thread.is_ok().then_some(target) })
    }

    /// The program has begun, as the process with this number: passes on what has come, and what comes.
    pub(crate) fn pass_on(self, pidfd: OwnedFd, pid: u32) {
        let Some(target) = self.target else {
            self.hearing.pass_on_at_once(pidfd);
            return;
        };
        // Until now they have stopped us and the program, and what is not heard stops us as before.
        let _ = self.hearing.hear(Ear::Keeper, &heard_of(STOPS));
        let mut target = lock(&target);
        let mut program = Target::Program(pidfd, pid.try_into().unwrap_or(0));
        if let Target::Later(kept) = &mut *target {
            kept.drain(..).for_each(|signal| program.pass_on(signal));
        }
        *target = program;
    }
}

/// Starts to pass signals on to a child, the process behind `pidfd`, which has this number. `caught` is for it, and there is no other
/// process of ours any more, or there never was one.
pub(crate) fn pass_on(caught: Option<Caught>, pidfd: OwnedFd, pid: u32) -> Result<()> {
    let caught = caught.map_or_else(|| Caught::for_later(Hearing::of_one()), Ok)?;
    let hearing = caught.hearing;
    caught.pass_on(pidfd, pid);
    hearing.tell_stops(pid, None);
    Ok(())
}

/// In the process that works: the job has begun, as this child. The process that stays stops with it, and this one does not.
pub(crate) fn stop_with(hearing: Hearing, pid: u32, keeper: u32) {
    // What is not heard stops us as before.
    let _ = hearing.hear(Ear::Worker, &heard_of(STOPS));
    hearing.tell_stops(pid, Some(keeper));
}

/// The job has ended: what stops a program stops this process.
pub(crate) fn stop_by_ourselves(hearing: Hearing) {
    hearing.hear_no_more(&STOPS);
}

/// In the process that works: it tells the other one what it hears, and does not end of it.
pub(crate) fn leave_to_the_keeper(hearing: Hearing) -> Result<()> {
    let heard = heard_signals();
    hearing.hear(Ear::Worker, &heard).context("cannot handle signals")?;
    let blocked = foretell_pagecache::blocked(&heard);
    if blocked.is_empty() {
        return Ok(());
    }
    // They stay blocked in all others, and in the program.
    let to_hear = blocked.clone();
    let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
        hearing::unblock(&to_hear);
        loop {
            std::thread::park();
        }
    });
    if thread.is_err() {
        hearing.miss(&blocked);
    }
    Ok(())
}

/// What is caught has its default action in a program that is executed (execve(2)), as it had before: what was ignored is
/// not caught.
fn heard_signals() -> Vec<i32> {
    heard_of(PASSED_ON.into_iter().chain(realtime_signals()))
}

fn heard_of(signals: impl IntoIterator<Item = i32>) -> Vec<i32> {
    let ignored = ignored_signals();
    // Rust's runtime ignores SIGPIPE in us; the program has its default action.
    signals.into_iter().filter(|s| *s == SIGPIPE || ignored & (1 << (s - 1)) == 0).collect()
}

/// What the thread does: passes on what the program has not heard itself.
fn tell_apart(hearing: Hearing, target: &Mutex<Target>) -> ! {
    let mut apart = Apart::new();
    let mut stops = 0;
    loop {
        let bell = hearing.bell();
        let notes = std::iter::from_fn(|| hearing.next(Ear::Worker)).filter(Heard::is_sent);
        notes.for_each(|note| apart.noted(note));
        while let Some(heard) = hearing.next(Ear::Keeper) {
            take_in(&mut apart, heard, hearing, &mut lock(target));
        }
        if hearing.stop_with_job(&mut stops) {
            // The job has heard what has stopped it, and would stop once more if it were told.
            apart.forget(&STOPS);
            apart.forget(&[SIGCONT]);
        }
        let job = match &*lock(target) {
            Target::Program(_, job) => *job,
            Target::Later(_) => 0,
        };
        // Not while the lock is held: the process that waits for us may be slow.
        let now_ns = hearing::now_ns();
        let mut passed_on = apart.decide(now_ns, job, &AsItIs(hearing));
        // A shell continues the group, and the job with it. Where nobody else hears that, one that is still stopped has not heard it.
        passed_on.retain(|signal| *signal != SIGCONT || has_worker(hearing) || is_stopped(job));
        passed_on.into_iter().for_each(|signal| lock(target).pass_on(signal));
        let due = apart.due_ns(now_ns).map(|due| Duration::from_nanos(due.saturating_sub(now_ns)));
        hearing.wait(bell, due);
    }
}

/// What the kernel tells.
struct AsItIs(Hearing);

impl Look for AsItIs {
    fn reached(&self, ear: Ear) -> u64 {
        self.0.waiting_for(ear)
    }

    fn is_being_noted(&self) -> bool {
        self.0.is_being_noted()
    }

    /// Any of its threads may be the one that sends.
    fn is_busy(&self, pid: i32) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.take(THREADS).any(|thread| state_in(&thread.path().join("stat")) == Some(b'R'))
    }

    fn would_end(&self, pid: i32, signal: i32) -> bool {
        would_end(pid, signal)
    }
}

/// Is the process there that works?
fn has_worker(hearing: Hearing) -> bool {
    let worker = hearing.worker().and_then(|worker| Pid::from_raw(worker.cast_signed()));
    worker.is_some_and(|worker| test_kill_process(worker).is_ok())
}

/// Is a process stopped?
fn is_stopped(pid: i32) -> bool {
    state_in(Path::new(&format!("/proc/{pid}/stat"))) == Some(b'T')
}

/// The state of a process or a thread, as this file tells it.
fn state_in(stat: &Path) -> Option<u8> {
    let text = std::fs::read(stat).ok()?;
    // Behind the name, in parentheses, which may hold anything (proc_pid_stat(5)).
    let behind = text.iter().rposition(|byte| *byte == b')')? + 2;
    text.get(behind).copied()
}

/// Is a process there that would end by a signal (proc_pid_status(5), signal(7))?
fn would_end(pid: i32, signal: i32) -> bool {
    if [SIGURG, SIGWINCH, SIGCONT].contains(&signal) || STOPS.contains(&signal) {
        return false;
    }
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let line = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let has = |name| {
        let mask = line(name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(u64::MAX);
        mask & (1 << (signal - 1).clamp(0, 63)) != 0
    };
    let is_there = line("State:").is_some_and(|state| !state.starts_with(['Z', 'X']));
    is_there && !has("SigCgt:") && !has("SigIgn:") && !has("SigBlk:")
}

/// Something was heard by the process that stays.
fn take_in(apart: &mut Apart, heard: Heard, hearing: Hearing, target: &mut Target) {
    if heard.signal == SIGCONT {
        apart.forget(&STOPS);
        if heard.is_sent() && target.takes_continue(heard, hearing) {
            apart.knows(heard);
            return;
        }
    } else if STOPS.contains(&heard.signal) {
        apart.forget(&[SIGCONT]);
    }
    // The worker says it before the job can hear anything, and the keeper comes to know who it is some time later.
    let is_later = matches!(target, Target::Later(_)) && !hearing.has_begun(heard.at_ns);
    let is_for_it = if heard.is_sent() && hearing.has_begun(heard.at_ns) {
        let ends = match target {
            Target::Program(_, job) => would_end(*job, heard.signal),
            // It has just begun, and does not do anything special yet.
            Target::Later(_) => true,
        };
        apart.heard(heard, ends).is_some()
    } else if heard.is_sent() {
        // A program that has not begun has heard nothing, or has ended of it; and one that the keeper has started has no worker.
        apart.knows(heard);
        true
    } else {
        let leads = || getsid(None).is_ok_and(|session| session == getpid());
        (heard.signal == SIGHUP && leads()) || (TYPED.contains(&heard.signal) && is_later)
    };
    if is_for_it {
        target.pass_on(heard.signal);
    }
}

fn lock(target: &Mutex<Target>) -> MutexGuard<'_, Target> {
    target.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bit `n - 1` is set when signal `n` is ignored (proc_pid_status(5), `SigIgn`).
pub(crate) fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
