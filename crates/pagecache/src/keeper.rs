//! Who stays when the kernel ends us for want of memory.
//!
//! A program may need nearly all the memory of its group. What we need beside it can then be too much, and the kernel ends a
//! process: the largest one, which is the program. So we are two processes:
//!
//! ```text
//!  keeper ──fork──► worker ──► job        the keeper has next to no memory, and waits
//!     ▲                │ about to begin; PID of the job, or that none can be started; its exit code
//!     └─── socket ─────┘
//! ```
//!
//! A signal that comes when the job has begun is meant for the job, and the keeper must not end of it. So the worker says
//! that it is about to begin the job, and does not before the keeper has heard that ([`Follow::about`]). A keeper that ended
//! before takes the worker along: the job never begins.
//!
//! The worker does all the work, and is ended before anything else when memory is short (`going_first.rs`). If the kernel ends
//! the worker, or a defect of ours does, the job becomes a child of the
//! keeper (`PR_SET_CHILD_SUBREAPER`, prctl(2)), which waits for it and knows its exit code. If the keeper is killed,
//! the worker ends as well (`PR_SET_PDEATHSIG`), and the job runs on.
//!
//! A worker whose memory the job needs ends by itself, and says how it has seen that ([`Worker::leave`]). What is left to do is
//! the keeper's: to start the job if it has not begun, and to wait for it.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, wait, waitpid,
};

use crate::{going_first, guard, lastly};

/// Other children of the job that have lost their parent are taken leave of this often.
const REAP_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// What the worker tells: a kind and a number, written at once.
const MESSAGE_BYTES: usize = 5;
/// The longest message: a kind, what the worker did and why it leaves. Words that are longer are cut off.
const LONGEST_BYTES: usize = 512;
const ABOUT: u8 = b'A';
const BEGUN: u8 = b'B';
const CANNOT: u8 = b'C';
const ENDED: u8 = b'E';
const LEAVES: u8 = b'L';
/// What the worker is called: not as we are, so that who ends us by name (pkill(1), killall(1)) tells the keeper and nobody else
/// of us. What both hear was told to the job as well (`hearing.rs`).
const WORKER_NAME: &CStr = c"foretel-worker";

/// Which of the two this process has become.
#[derive(Debug)]
pub enum Split {
    /// The one that does the work.
    Worker(Worker),
    /// The one that has waited, and how it went.
    Keeper(Kept),
}

/// How it went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// The worker has done its work, or has said why not: the job's exit code, or the worker's own.
    Done(u8),
    /// The worker was lost while the job ran or after it: the job's exit code, if it could be known.
    Job {
        /// How the worker ended.
        lost: Lost,
        /// The exit code, or 128 and the signal.
        code: Option<u8>,
    },
    /// The worker was lost before the job had begun.
    NotBegun(Lost),
    /// The worker has left, and the job has ended.
    Left {
        /// What it has said.
        last_words: LastWords,
        /// The exit code, or 128 and the signal, if it could be known.
        code: Option<u8>,
    },
    /// The worker has left, and the job has not begun.
    LeftToBegin(LastWords),
}

/// What a worker says that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWords {
    /// How it has seen that the job needs the memory.
    pub why: String,
    /// What it did for the job until then: a number that only the command knows the meaning of.
    pub did: u8,
}

/// How a worker ended that had not done its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The signal that ended it.
    Signal(i32),
    /// By a defect, with this exit code.
    Defect(u8),
    /// It has said that there is neither process nor descriptor to be had for the job.
    Means,
}

/// The exit code of a program of ours that has panicked.
const PANICKED: u8 = 101;

/// The worker's line to its keeper.
#[derive(Debug)]
pub struct Worker {
    line: OwnedFd,
    keeper: Pid,
}

/// What the process that waits is to do meanwhile.
pub trait Follow {
    /// The job is about to begin: from now on signals are meant for it.
    fn about(&mut self);

    /// It has begun, as this process.
    fn begun(&mut self, pid: u32);

    /// The worker is lost, and the job has become a child of this process.
    fn is_ours(&mut self, pid: u32);

    /// It has ended, and the worker has not.
    fn ended(&mut self);
}

impl Worker {
    /// The process number of the keeper: the one that whoever has started us knows.
    #[must_use]
    pub fn keeper(&self) -> u32 {
        self.keeper.as_raw_nonzero().get().unsigned_abs()
    }

    /// The job is about to begin; returns when the keeper has heard it. Where the keeper is gone this process ends: whoever
    /// has ended it has ended a job that had not begun.
    pub fn about(&self) {
        self.tell(ABOUT, 0);
        if !self.is_heard() {
            std::process::exit(1);
        }
    }

    /// Does the keeper answer? It does so at once unless it is stopped, and then the job is to wait as well.
    fn is_heard(&self) -> bool {
        loop {
            match rustix::io::read(&self.line, &mut [0]) {
                Err(rustix::io::Errno::INTR) => {}
                answered => return answered == Ok(1),
            }
        }
    }

    /// There is neither process nor descriptor to be had for the job: the keeper is to see to it when this process has ended.
    pub fn cannot(&self) {
        self.tell(CANNOT, 0);
    }

    /// The job has begun as the process `pid`, or is held and will; returns when the keeper has passed on what had come for it. A job
    /// that is let go before may have ended by then.
    pub fn begun(&self, pid: u32) {
        self.tell(BEGUN, pid);
        // A keeper that is gone takes us with it.
        let _ = self.is_heard();
    }

    /// The job has ended with this exit code, by a signal or not.
    pub fn ended(&self, code: u8, signal: Option<i32>) {
        let signal = signal.and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0);
        self.tell(ENDED, u32::from_le_bytes([code, signal, 0, 0]));
    }

    /// Ends this process, as the job needs its memory; in words, how that was seen, and a number for what it `did` until then
    /// ([`LastWords`]). The rest is the keeper's. Nothing is done before
    /// but to say so: where memory is short each page of our program is a wait for it. What was changed for the job is undone by
    /// the guard (`guard.rs`).
    pub fn leave(&self, why: &str, did: u8) -> ! {
        let mut message = vec![LEAVES, did];
        message.extend(why.bytes().take(LONGEST_BYTES - 2));
        message.resize(message.len().max(MESSAGE_BYTES), b' ');
        let _ = rustix::io::write(&self.line, &message);
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) }
    }

    fn tell(&self, kind: u8, number: u32) {
        let mut message = [kind; MESSAGE_BYTES];
        message[1..].copy_from_slice(&number.to_ne_bytes());
        // A keeper that is gone takes us with it.
        let _ = rustix::io::write(&self.line, &message);
    }
}

/// Becomes two processes. In the one that waits it returns when the worker has ended, and the job too; `follow` is told
/// of the job there. To be called before there are threads.
///
/// # Errors
/// No pipe or no process is to be had. Then this is one process as before.
pub fn split(follow: &mut impl Follow) -> io::Result<Split> {
    let flags = SocketFlags::CLOEXEC;
    let (keepers_end, workers_end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::fs::fcntl_setfl(&keepers_end, rustix::fs::OFlags::NONBLOCK)?;
    let keeper = rustix::process::getpid();
    let inherited = children().unwrap_or_default();
    // SAFETY: there is one thread, which goes on in both processes.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(keepers_end);
        let _ = rustix::thread::set_name(WORKER_NAME);
        // It may have ended before it was asked for.
        let bound = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        if bound.is_ok() && rustix::process::getppid() != Some(keeper) {
            std::process::exit(1);
        }
        going_first::go_first();
        return Ok(Split::Worker(Worker { line: workers_end, keeper }));
    }
    let worker = (child > 0).then(|| Pid::from_raw(child)).flatten().ok_or_else(io::Error::last_os_error)?;
    drop(workers_end);
    // Without it the job is lost sight of when the worker is killed, and runs on.
    let _ = rustix::process::set_child_subreaper(Some(keeper));
    let kept = keep(worker, inherited, &keepers_end, follow);
    end_spare();
    if matches!(kept, Kept::NotBegun(_) | Kept::LeftToBegin(_)) {
        // What a job leaves behind that was started here is nobody's, as it would be without us.
        let _ = rustix::process::set_child_subreaper(None);
    }
    Ok(Split::Keeper(kept))
}

/// What the keeper knows.
#[derive(Debug, Default)]
struct Known {
    worker: Option<WaitStatus>,
    /// Who was a child already when there was no worker yet: of a shell that has become us.
    inherited: Vec<Pid>,
    /// The worker has said that the job is about to begin.
    is_about: bool,
    /// It has said that it cannot start the job.
    cannot: bool,
    /// It has said that it leaves, and why.
    leaves: Option<LastWords>,
    job: Option<Pid>,
    /// Its exit code, as the worker has told it or as we have seen it.
    code: Option<u8>,
    has_no_children: bool,
    /// The worker's end of the line is closed.
    has_heard_all: bool,
    /// The job is a child of this process, and whoever follows it knows.
    is_ours: bool,
}

fn keep(worker: Pid, inherited: Vec<Pid>, told: &OwnedFd, follow: &mut impl Follow) -> Kept {
    let mut known = Known { inherited, ..Known::default() };
    let mut watched = pidfd_open(worker, PidfdFlags::empty()).ok();
    loop {
        if known.worker.is_none() {
            let mut fds: Vec<PollFd<'_>> =
                watched.iter().map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
            fds.extend((!known.has_heard_all).then(|| PollFd::new(told, PollFlags::IN)));
            // A signal is no reason to stop waiting.
            let _ = poll(&mut fds, Some(&REAP_EVERY));
        } else if let Some(job) = &watched {
            let _ = poll(&mut [PollFd::new(job, PollFlags::IN)], Some(&REAP_EVERY));
        }
        known.listen(told, follow);
        known.reap(worker, told, follow);
        let Some(ended) = known.worker else {
            if known.has_no_children {
                // Somebody else has taken leave of it. What it said is all that can be known.
                known.listen(told, follow);
                return Kept::Done(known.code.unwrap_or(1));
            }
            continue;
        };
        // Whoever is there to be ended stays for its time also where the worker has left: what the worker had is not all back yet.
        let lost = match ended.terminating_signal() {
            Some(signal) => Lost::Signal(signal),
            None => Lost::Defect(exit_code(ended)),
        };
        let job = match (known.job, known.code, lost) {
            (Some(_), Some(_), _) if known.leaves.is_some() => return known.end(lost),
            (None, None, lost) if known.leaves.is_some() => {
                return known.leaves.map_or(Kept::NotBegun(lost), Kept::LeftToBegin);
            }
            // What it found out after the job had ended is not the job's.
            (_, Some(code), Lost::Defect(_)) => return Kept::Done(code),
            (None, _, Lost::Defect(_)) if known.cannot => return Kept::NotBegun(Lost::Means),
            (None, _, Lost::Defect(code)) if code != PANICKED => return Kept::Done(code),
            (None, _, lost) => return Kept::NotBegun(lost),
            (Some(job), _, _) => job,
        };
        if known.code.is_some() || known.has_no_children {
            return known.end(lost);
        }
        watched = pidfd_open(job, PidfdFlags::empty()).ok();
        if watched.is_none() {
            // It is a child that has ended, or none of ours, or there is no descriptor to be had.
            known.wait_for(job);
            return known.end(lost);
        }
        if !std::mem::replace(&mut known.is_ours, true) {
            follow.is_ours(job.as_raw_nonzero().get().unsigned_abs());
        }
    }
}

impl Known {
    /// The job has ended; its worker before it.
    fn end(self, lost: Lost) -> Kept {
        match self.leaves {
            Some(last_words) => Kept::Left { last_words, code: self.code },
            None => Kept::Job { lost, code: self.code },
        }
    }

    /// Takes in what the worker has said.
    fn listen(&mut self, told: &OwnedFd, follow: &mut impl Follow) {
        let mut message = [0; LONGEST_BYTES];
        loop {
            let length = match rustix::io::read(told, &mut message) {
                Ok(length) if length >= MESSAGE_BYTES => length,
                Ok(_) => {
                    self.has_heard_all = true;
                    return;
                }
                Err(_) => return,
            };
            let number = u32::from_ne_bytes([message[1], message[2], message[3], message[4]]);
            match message[0] {
                ABOUT => {
                    self.is_about = true;
                    follow.about();
                    let _ = rustix::io::write(told, &[ABOUT]);
                }
                BEGUN => {
                    if let Some(job) = i32::try_from(number).ok().and_then(Pid::from_raw) {
                        self.begun(job, follow);
                    }
                    let _ = rustix::io::write(told, &[BEGUN]);
                }
                CANNOT => self.cannot = true,
                LEAVES => {
                    let why = String::from_utf8_lossy(&message[2..length]).trim_end().to_owned();
                    self.leaves = Some(LastWords { why, did: message[1] });
                }
                ENDED => {
                    let [code, signal, ..] = number.to_le_bytes();
                    self.code = Some(code);
                    lastly::ended_by(signal.into());
                    follow.ended();
                }
                _ => {}
            }
        }
    }

    fn begun(&mut self, job: Pid, follow: &mut impl Follow) {
        self.job = Some(job);
        follow.begun(job.as_raw_nonzero().get().unsigned_abs());
    }

    /// The job of a worker that was lost between starting it, or a process that becomes it, and saying so: a child of the
    /// worker's that is ours now. Without this it would be taken for not begun, and run a second time.
    fn find_job(&mut self, follow: &mut impl Follow) {
        if self.job.is_some() || !self.is_about {
            return;
        }
        match children() {
            Some(children) => {
                if let Some(job) = children.into_iter().find(|child| self.may_be_job(*child)) {
                    self.begun(job, follow);
                }
            }
            // Which ones there are is not told here. There is one at most: without /proc there is no guard.
            None => {
                if let Ok(Some((job, status))) = wait(WaitOptions::empty()) {
                    (self.job, self.code) = (Some(job), Some(end_of_job(status)));
                }
            }
        }
    }

    /// Takes leave of all children that have ended.
    fn reap(&mut self, worker: Pid, told: &OwnedFd, follow: &mut impl Follow) {
        loop {
            let child = match child_that_ended() {
                Ok(Some(child)) => child,
                Ok(None) => return,
                Err(_) => {
                    self.has_no_children = true;
                    return;
                }
            };
            if child != worker {
                self.look_for_job_at(child, told, follow);
            }
            let Ok(Some((_, status))) = waitpid(Some(child), WaitOptions::NOHANG) else { continue };
            // Its number is free again, and may become the job's.
            self.inherited.retain(|inherited| *inherited != child);
            if child == worker {
                self.worker = Some(status);
                self.listen(told, follow);
                self.find_job(follow);
            } else if Some(child) == self.job {
                self.code = Some(end_of_job(status));
            }
        }
    }

    /// The threads of a worker do not end all at once. What the first ones leave is ours before the worker can be taken leave of,
    /// so the job may come to its end here before anybody has said that it began. Its name is told as long as it is not taken
    /// leave of.
    fn look_for_job_at(&mut self, child: Pid, told: &OwnedFd, follow: &mut impl Follow) {
        if self.job.is_some() || self.worker.is_some() {
            return;
        }
        self.listen(told, follow);
        if self.job.is_none() && self.is_about && self.may_be_job(child) {
            self.begun(child, follow);
        }
    }

    /// Is it no process of ours, and none that was there before?
    fn may_be_job(&self, child: Pid) -> bool {
        let name = fs::read(format!("/proc/{}/comm", child.as_raw_nonzero())).unwrap_or_default();
        let name = name.trim_ascii_end();
        let is_ours = name == guard::NAME.to_bytes() || name == going_first::SPARE_NAME.to_bytes();
        !is_ours && !self.inherited.contains(&child)
    }

    /// Waits for the job, if it is a child.
    fn wait_for(&mut self, job: Pid) {
        loop {
            match waitpid(Some(job), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(Some((_, status))) => {
                    self.code = Some(end_of_job(status));
                    return;
                }
                _ => return,
            }
        }
    }
}

/// The children of this process, also those that have ended, the oldest first, where the kernel tells them
/// (`CONFIG_PROC_CHILDREN`, proc_tid_children(5)).
fn children() -> Option<Vec<Pid>> {
    let children = fs::read_to_string("/proc/thread-self/children").ok()?;
    Some(children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect())
}

/// A child that has ended and was not taken leave of: the oldest one, which is the worker before what it leaves to us. An error
/// if there are no children.
fn child_that_ended() -> io::Result<Option<Pid>> {
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    loop {
        // SAFETY: the structure is plain numbers, valid for writes, and filled by a call that succeeds: with a PID of 0 if there
        // is no such child.
        let (done, pid) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            (libc::waitid(libc::P_ALL, 0, &raw mut info, how), info.si_pid())
        };
        let error = io::Error::last_os_error();
        match done {
            0 => return Ok(Pid::from_raw(pid)),
            _ if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// Ends the process that was there to be ended, if there is one: nothing of ours is left when this one has ended.
fn end_spare() {
    for child in children().unwrap_or_default() {
        let name = fs::read(format!("/proc/{}/comm", child.as_raw_nonzero())).unwrap_or_default();
        if name.trim_ascii_end() == going_first::SPARE_NAME.to_bytes() {
            // It may just have ended.
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
    }
}

/// The exit code that stands for how a process ended, as shells have it.
fn exit_code(status: WaitStatus) -> u8 {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(1)
}

/// The same of the job, which we shall end as.
fn end_of_job(status: WaitStatus) -> u8 {
    lastly::ended_by(status.terminating_signal().unwrap_or(0));
    exit_code(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Follow for Nobody {
        fn about(&mut self) {}
        fn begun(&mut self, _: u32) {}
        fn is_ours(&mut self, _: u32) {}
        fn ended(&mut self) {}
    }

    /// What a process with children of its own finds out of them, as its exit code: the test's process has other ones.
    fn in_a_process_of_its_own(find_out: impl FnOnce() -> u8) -> i32 {
        // SAFETY: the child goes on with one thread, and ends without running anything of the test's.
        match unsafe { libc::fork() } {
            0 => {
                let found = find_out();
                // SAFETY: ends this process.
                unsafe { libc::_exit(found.into()) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the number is valid for writes.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                libc::WEXITSTATUS(status)
            }
        }
    }

    /// A child that ends with an exit code.
    fn child(code: i32) -> Pid {
        // SAFETY: the child does nothing but end.
        match unsafe { libc::fork() } {
            // SAFETY: ends this process.
            0 => unsafe { libc::_exit(code) },
            child => Pid::from_raw(child).unwrap(),
        }
    }

    /// The exit code of the job that a keeper has found, or 99; the worker has not ended, and has said that a job is about to
    /// begin, or not.
    fn found(is_about: bool, is_inherited: bool) -> i32 {
        in_a_process_of_its_own(|| {
            let (told, line) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
            rustix::fs::fcntl_setfl(&told, rustix::fs::OFlags::NONBLOCK).unwrap();
            let worker = Worker { line, keeper: rustix::process::getpid() };
            if is_about {
                worker.tell(ABOUT, 0);
            }
            let job = child(7);
            let mut known =
                Known { inherited: is_inherited.then_some(job).into_iter().collect(), ..Known::default() };
            while !known.has_no_children {
                known.reap(rustix::process::getpid(), &told, &mut Nobody);
            }
            known.job.and(known.code).unwrap_or(99)
        })
    }

    #[test]
    fn a_job_that_ends_between_the_threads_of_its_worker_has_begun() {
        assert_eq!(found(true, false), 7);
        assert_eq!(found(true, true), 99, "it was there before");
        assert_eq!(found(false, false), 99, "nothing was to begin");
    }

    #[test]
    fn a_keeper_that_has_ended_hears_nothing() {
        let kind = SocketType::SEQPACKET;
        let pair = || socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let (keepers_end, workers_end) = pair();
        rustix::io::write(&keepers_end, &[ABOUT]).unwrap();
        let worker = Worker { line: workers_end, keeper: rustix::process::getpid() };
        assert!(worker.is_heard());
        drop(keepers_end);
        assert!(!worker.is_heard());
    }
}
