//! A job that runs already: `foretell run --pid` and `--cgroup`.
//!
//! Nothing is done to its processes: they are looked at, as those of a program that we start, and go on by themselves when
//! we end. What has ended a program that we start ends only us here: Ctrl-C and `SIGTERM` are not passed on.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::program::{NotRun, Program};
use crate::signals;
use crate::terminal::warn;

/// How often a control group is looked at for processes that nobody in it has started. Until then they are not seen.
const LOOK_NS: i64 = 200_000_000;
/// Processes of a control group that are looked at; the rest of a larger one is left alone.
const PROCESSES: usize = 1 << 15;

/// What is to be watched or steered.
pub(crate) enum Wanted<'a> {
    /// A program that is to be started, and its arguments.
    Program(&'a OsString, &'a [OsString]),
    /// A job that runs already.
    Attached(Attached),
}

impl Wanted<'_> {
    /// What it is called in reports.
    pub(crate) fn name(&self) -> OsString {
        match self {
            Wanted::Program(name, _) => (*name).clone(),
            Wanted::Attached(attached) => attached.name(),
        }
    }
}

/// What is watched or steered.
#[derive(Debug)]
pub(crate) enum Job {
    /// A program that we have started.
    Program(Program),
    /// What runs already.
    Attached(Attached),
}

impl Job {
    /// The number of its first process.
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Job::Program(program) => program.pid(),
            Job::Attached(attached) => attached.root,
        }
    }

    /// A descriptor of that process.
    pub(crate) fn pidfd(&self) -> Result<OwnedFd> {
        match self {
            Job::Program(program) => program.pidfd(),
            Job::Attached(attached) => Ok(attached.pidfd.try_clone()?),
        }
    }

    /// Readable when it may have ended, or has become more processes.
    pub(crate) fn changed(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Job::Program(program) => vec![program.ended()],
            Job::Attached(attached) => attached.changed(),
        }
    }

    /// How it has ended, if it has. What is only attached to has always ended well, also when we are to end.
    pub(crate) fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        match self {
            Job::Program(program) => program.try_wait(),
            Job::Attached(attached) => Ok(attached.is_over().then(|| ExitStatus::from_raw(0))),
        }
    }

    /// The same when nothing is done for it any more: a program is waited for.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        match self {
            Job::Program(program) => program.wait(),
            Job::Attached(_) => Ok(ExitStatus::from_raw(0)),
        }
    }

    /// Processes that belong to it and have not been told of.
    pub(crate) fn take_new(&mut self) -> Vec<u32> {
        match self {
            Job::Program(_) => Vec::new(),
            Job::Attached(attached) => std::mem::take(&mut attached.new),
        }
    }

    /// Everything is ready: a held program begins, and of what runs already it is said.
    pub(crate) fn release(&mut self) {
        match self {
            Job::Program(program) => program.release(),
            Job::Attached(attached) if attached.is_quiet => {}
            Job::Attached(attached) => warn(&format!(
                "attached to {}; Ctrl-C ends this, and the job goes on by itself",
                attached.name().display()
            )),
        }
    }

    /// Why a program that is held will not run any more, if that is so.
    pub(crate) fn ended_early(&mut self) -> Option<NotRun> {
        match self {
            Job::Program(program) => program.ended_early(),
            Job::Attached(_) => None,
        }
    }

    /// The exit code that is known of it.
    pub(crate) fn exit_code(&self, code: u8) -> Option<i32> {
        matches!(self, Job::Program(_)).then_some(code.into())
    }
}

/// A job that runs already.
#[derive(Debug)]
pub(crate) struct Attached {
    root: u32,
    pidfd: OwnedFd,
    group: Option<Group>,
    /// Readable when we are told to end.
    stop: UnixStream,
    new: Vec<u32>,
    is_quiet: bool,
}

/// A control group.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    /// Readable when it is time to look.
    timer: OwnedFd,
    /// Those that were told of and live.
    told: BTreeSet<u32>,
}

impl Attached {
    /// The process with this number and what it starts.
    ///
    /// # Errors
    /// There is none, or it is nobody's to look at.
    pub(crate) fn process(pid: u32, is_quiet: bool) -> Result<Attached> {
        if pid == std::process::id() {
            bail!("--pid {pid}: that is this foretell itself");
        }
        let of_kernel =
            || fs::read_link(format!("/proc/{pid}/exe")).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        let owner = fs::metadata(format!("/proc/{pid}")).map(|process| process.uid());
        let owner = owner.map_err(|_| anyhow!("--pid {pid}: there is no such process"))?;
        if !may_look_at(owner) {
            bail!("--pid {pid}: the process is another user's; only root may attach to it");
        }
        let opened =
            i32::try_from(pid).ok().and_then(Pid::from_raw).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let pidfd = match opened {
            Some(Ok(pidfd)) => pidfd,
            _ if is_thread(pid) => bail!("--pid {pid}: that is a thread; give the number of its process"),
            _ => bail!("--pid {pid}: there is no such process"),
        };
        if has_ended(&pidfd) {
            bail!("--pid {pid}: the process has ended");
        }
        if of_kernel() {
            bail!("--pid {pid}: that is a thread of the kernel; there is nothing to attach to");
        }
        Attached::new(pid, pidfd, None, is_quiet)
    }

    /// The processes of a control group and of those in it, named as a directory or as systemd has it.
    ///
    /// # Errors
    /// There is none, or it has no process that may be looked at.
    pub(crate) fn group(path: &Path, is_quiet: bool) -> Result<Attached> {
        let shown = path.display();
        let path = foretell_cgroup::directory_of(path)
            .with_context(|| format!("--cgroup {shown}: there is no such control group"))?;
        let told = members(&path, &BTreeSet::new());
        let open = |pid: &u32| {
            let pidfd = pidfd_open(Pid::from_raw(i32::try_from(*pid).ok()?)?, PidfdFlags::empty()).ok()?;
            Some((*pid, pidfd))
        };
        let Some((root, pidfd)) = told.iter().find_map(open) else {
            bail!("--cgroup {shown}: it has no process that could be attached to");
        };
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let look = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
        timerfd_settime(
            &timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: look, it_value: look },
        )?;
        let new = told.iter().copied().filter(|pid| *pid != root).collect();
        let attached = Attached::new(root, pidfd, Some(Group { path, timer, told }), is_quiet)?;
        Ok(Attached { new, ..attached })
    }

    fn new(root: u32, pidfd: OwnedFd, group: Option<Group>, is_quiet: bool) -> Result<Attached> {
        let (stop, told) = UnixStream::pair().context("cannot make a pair of sockets")?;
        stop.set_nonblocking(true)?;
        let ignored = signals::ignored_signals();
        for signal in [SIGINT, SIGTERM, SIGQUIT, SIGHUP].into_iter().filter(|s| ignored & (1 << (s - 1)) == 0)
        {
            signal_hook::low_level::pipe::register(signal, told.try_clone()?)
                .context("cannot handle signals")?;
        }
        Ok(Attached { root, pidfd, group, stop, new: Vec::new(), is_quiet })
    }

    /// What it is called in reports.
    pub(crate) fn name(&self) -> OsString {
        let group = self.group.as_ref().and_then(|group| group.path.file_name()).map(OsString::from);
        let name = || fs::read_to_string(format!("/proc/{}/comm", self.root)).unwrap_or_default();
        group.unwrap_or_else(|| name().trim_end().into())
    }

    fn changed(&self) -> Vec<BorrowedFd<'_>> {
        let job = self.group.as_ref().map_or(&self.pidfd, |group| &group.timer);
        vec![job.as_fd(), self.stop.as_fd()]
    }

    /// Has the process ended, or the group's last one, or are we to end?
    fn is_over(&mut self) -> bool {
        if is_readable(self.stop.as_fd()) {
            return true;
        }
        let Some(group) = &mut self.group else { return has_ended(&self.pidfd) };
        // It may be another descriptor that has woken us: then the timer says nothing.
        if rustix::io::read(&group.timer, &mut [0; 8]).is_err() {
            return false;
        }
        let members = members(&group.path, &group.told);
        self.new.extend(members.difference(&group.told));
        group.told = members;
        group.told.is_empty()
    }
}

/// The processes of a control group and of those in it that may be looked at. Those of foretell are no part of a job, also
/// not our own helpers. What was `told` of is not looked at again.
fn members(group: &Path, told: &BTreeSet<u32>) -> BTreeSet<u32> {
    let own = fs::read_link("/proc/self/exe").ok();
    let is_foretell = |pid: u32| own.is_some() && fs::read_link(format!("/proc/{pid}/exe")).ok() == own;
    let mut found = BTreeSet::new();
    let mut groups = vec![group.to_owned()];
    while let Some(group) = groups.pop() {
        let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let processes = processes.lines().filter_map(|pid| pid.parse().ok());
        found.extend(processes.filter(|pid| told.contains(pid) || (is_ours(*pid) && !is_foretell(*pid))));
        if found.len() > PROCESSES {
            break;
        }
        let inside = fs::read_dir(&group).into_iter().flatten().filter_map(Result::ok);
        groups.extend(
            inside
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    found
}

fn is_ours(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| may_look_at(process.uid()))
}

fn may_look_at(owner: u32) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || user.as_raw() == owner
}

/// Is this the number of a thread that is not its process's first (proc_pid_status(5))?
fn is_thread(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    process.and_then(|process| process.trim().parse().ok()).is_some_and(|process: u32| process != pid)
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    is_readable(pidfd.as_fd())
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}
