//! Starting the program held back, so that it is under control before its first instruction.
//!
//! The child is this executable again, as `foretell exec-when-told SOCKET PROGRAM ARGS…`. It connects to
//! an abstract socket of ours and waits for one byte; then it becomes the program (same process, same
//! descriptors, environment and terminal). When our side dies the kernel closes the socket, and the child
//! becomes the program all the same, also if it comes only then. Nothing is inherited by the program: the
//! socket closes on exec.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::time::{Duration, SystemTime};

use crate::signals;
use crate::terminal::{warn, with_causes};
use anyhow::{Context, Result, bail};
use foretell_door::{Closer, NOBODY, take_descriptors, takes_descriptors};
use foretell_learn::tasks;
use foretell_pagecache::lastly;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getppid, pidfd_open, pidfd_send_signal, waitid,
};

/// The hidden subcommand of the child.
pub const EXEC_WHEN_TOLD: &str = "exec-when-told";

/// How the names of the sockets begin; the number of the process that made them follows, the time, and which of the C library's
/// own signals it was started to ignore.
const START: &str = "foretell-start-";

/// How often, and how long apart, a child asks whether it has another parent.
const PARENT_LOOKS: u32 = 100;
const PARENT_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why `foretell run` did not run the program, each with the exit code that env(1), nohup(1) and timeout(1)
/// have for it, so that a script can tell it from what the program itself says. (What is wrong with the
/// arguments is told with exit code 2, as by all subcommands.)
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// foretell itself failed.
    #[error("{0}")]
    Failed(String),
    /// The program is there and cannot be executed.
    #[error("{0}")]
    NotExecutable(String),
    /// There is no such program.
    #[error("{0}")]
    NotFound(String),
    /// Neither process nor descriptor is to be had for another program.
    #[error("cannot start a process: {0}")]
    NoMeans(io::Error),
    /// Somebody has ended it while it was held.
    #[error("the program was ended before it began ({0})")]
    EndedEarly(ExitStatus),
}

impl NotRun {
    /// An error of foretell's own, with all that led to it.
    #[must_use]
    pub fn failed(error: anyhow::Error) -> NotRun {
        error.downcast().unwrap_or_else(|error| NotRun::Failed(with_causes(&error)))
    }

    /// The exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            NotRun::Failed(_) | NotRun::NoMeans(_) => 125,
            NotRun::NotExecutable(_) => 126,
            NotRun::NotFound(_) => 127,
            NotRun::EndedEarly(status) => exit_code(*status),
        }
    }

    /// Becoming a program did not work.
    fn executing(program: &OsStr, error: &io::Error) -> NotRun {
        let shown = program.display();
        match error.kind() {
            io::ErrorKind::NotFound => {
                NotRun::NotFound(format!("'{shown}' is gone, or its interpreter is ({error})"))
            }
            _ => NotRun::NotExecutable(format!(
                "cannot execute '{shown}' ({error}); is it a program for this machine?"
            )),
        }
    }
}

/// A program that was started by us.
#[derive(Debug)]
pub struct Program {
    child: Child,
    pidfd: OwnedFd,
    /// The same for who passes signals on: there when they are needed, however many descriptors may be had.
    for_signals: Option<OwnedFd>,
    hold: Hold,
    /// Who is to know the exit code before the process is taken leave of: then it can be known from us alone.
    told: Option<Told>,
    /// Somebody was to know it, and ends as the program does in our place.
    is_kept: bool,
}

/// Somebody who is told the exit code, and the signal if it was one.
struct Told(Box<dyn Fn(u8, Option<i32>)>);

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

/// How a program is held back.
#[derive(Debug)]
enum Hold {
    /// It will come here to wait.
    Coming(UnixListener),
    /// It waits at the other end.
    Waiting(UnixStream),
    /// It was told to begin.
    Told,
}

impl Program {
    /// Starts `program`, held back until [`Program::release`].
    pub fn start_held(program: &OsStr, arguments: &[OsString]) -> Result<Program> {
        Program::start_held_with(program, arguments, |_| {})
    }

    /// The same, with standard input, output and error as `set` says.
    pub fn start_held_with(
        program: &OsStr,
        arguments: &[OsString],
        set: impl FnOnce(&mut Command),
    ) -> Result<Program> {
        let mut program = Program::start_holding(program, arguments, set)?;
        program.wait_until_held()?;
        Ok(program)
    }

    /// The same, for who has something to do until it is held ([`Program::wait_until_held`]).
    pub(crate) fn start_holding(
        program: &OsStr,
        arguments: &[OsString],
        set: impl FnOnce(&mut Command),
    ) -> Result<Program> {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let ignored = foretell_pagecache::librarys_ignored();
        let name = format!("{START}{}-{}-{ignored}", std::process::id(), since.as_nanos());
        let listener = listen(&name).context("cannot make a socket to start the program with")?;
        // By way of /proc: the same executable even if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("foretell").args([EXEC_WHEN_TOLD, &name]).arg(program).args(arguments);
        set(&mut command);
        spawn(command, Hold::Coming(listener)).context("cannot start a process")
    }

    /// Waits until a program is held: what it does until then is ours.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) fn wait_until_held(&mut self) -> Result<()> {
        if let Hold::Coming(listener) = &self.hold {
            let connection = self.wait_for_connection(&listener.try_clone()?, peer_pid)?;
            self.hold = Hold::Waiting(connection);
        }
        Ok(())
    }

    /// Starts `program` at once, without any control.
    ///
    /// # Errors
    /// It has not begun: as it cannot be executed, or as there are no means to start another process ([`NotRun::NoMeans`]).
    pub fn start(program: &OsStr, arguments: &[OsString]) -> Result<Program> {
        let mut command = Command::new(program);
        command.args(arguments);
        let started = match spawn(command, Hold::Told) {
            // A script that does not say what it is for is one for the shell, as execvp(3) has it.
            Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg(find(program)?).args(arguments);
                spawn(shell, Hold::Told)
            }
            started => started,
        };
        Ok(started.map_err(|error| match lacks_means(&error) {
            true => NotRun::NoMeans(error),
            false => NotRun::executing(program, &error),
        })?)
    }

    /// Waits until the child has come; `peer` says which process is at the other end.
    fn wait_for_connection(
        &mut self,
        listener: &UnixListener,
        peer: fn(&UnixStream) -> Option<u32>,
    ) -> Result<UnixStream> {
        loop {
            let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            match listener.accept() {
                // Anybody may connect to an abstract socket; only the child counts.
                Ok((connection, _)) => match peer(&connection) {
                    Some(pid) if pid == self.pid() => return Ok(connection),
                    Some(_) => turn_away(connection),
                    // The call is forbidden. It may be the child, which begins when this is closed; and then it would run twice.
                    None => {
                        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
                        let _ = self.child.wait();
                        bail!("cannot hold the program (who has come to be held is not told)");
                    }
                },
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) => return Err(e.into()),
            }
            if let Some(early) = self.ended_early() {
                // By itself it ends only where it cannot come to us: that is no end of the program's.
                if let NotRun::EndedEarly(status) = &early
                    && status.signal().is_none()
                {
                    bail!("cannot hold the program ({status})");
                }
                return Err(early.into());
            }
        }
    }

    /// Lets a held program begin.
    pub fn release(&mut self) {
        if let Hold::Waiting(mut connection) = std::mem::replace(&mut self.hold, Hold::Told) {
            // When the child is gone there is nobody to tell; waiting for it will say why.
            let _ = connection.write_all(b"!");
        }
    }

    /// Our end of its standard output, once, if that is a pipe.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Our end of its standard error, once, if that is a pipe.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Readable when the program has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// A descriptor of the process.
    pub fn pidfd(&self) -> Result<OwnedFd> {
        Ok(self.pidfd.try_clone()?)
    }

    /// The same to send signals through, once: it is always to be had.
    pub fn take_pidfd(&mut self) -> Option<OwnedFd> {
        self.for_signals.take()
    }

    /// `told` will know the program's exit code and signal, whatever happens to us.
    pub(crate) fn tell(&mut self, told: impl Fn(u8, Option<i32>) + 'static) {
        self.told = Some(Told(Box::new(told)));
        self.is_kept = true;
    }

    /// How the program ended, if it has.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        self.tell_end(WaitIdOptions::NOHANG);
        let ended = self.child.try_wait()?;
        Ok(ended.inspect(|status| self.end_likewise(*status)))
    }

    /// Tells how it ended while that can still be asked for: once.
    fn tell_end(&mut self, how: WaitIdOptions) {
        let Some(told) = &self.told else { return };
        let pid = Pid::from_child(&self.child);
        let ended = loop {
            match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how) {
                Err(Errno::INTR) => {}
                ended => break ended,
            }
        };
        let Ok(Some(ended)) = ended else { return };
        let code = ended.exit_status().or_else(|| ended.terminating_signal().map(|signal| 128 + signal));
        let code = code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(1);
        (told.0)(code, ended.terminating_signal());
        self.told = None;
    }

    /// Why a program that is held will not run any more, if that is so.
    pub fn ended_early(&mut self) -> Option<NotRun> {
        self.try_wait().ok().flatten().map(NotRun::EndedEarly)
    }

    /// Waits until the program has ended.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.tell_end(WaitIdOptions::empty());
        let status = self.child.wait()?;
        self.end_likewise(status);
        Ok(status)
    }

    /// What was waited for was this program: we end as it did, unless somebody else does.
    fn end_likewise(&self, status: ExitStatus) {
        if !self.is_kept {
            lastly::ended_by(status.signal().unwrap_or(0));
        }
    }

    /// Waits until the program has ended or `timeout` has passed.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let timeout = rustix::event::Timespec::try_from(timeout).context("the wait is too long")?;
        match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => self.try_wait(),
            Err(e) => Err(e.into()),
        }
    }
}

/// Starts a process. Once it is there nothing can fail any more: a descriptor of it is sure to be had.
fn spawn(mut command: Command, hold: Hold) -> io::Result<Program> {
    match hold {
        Hold::Told => foretell_pagecache::hand_on_all(&mut command, foretell_pagecache::librarys_ignored()),
        // Who is held sees to the rest.
        _ => foretell_pagecache::hand_on(&mut command),
    }
    // As many as are needed then, and they show whether the kernel has such descriptors at all.
    let own = || pidfd_open(getpid(), PidfdFlags::empty()).map_err(io::Error::from);
    // Where they are forbidden, that is as if there were none.
    let own = || own().map_err(|error| if lacks_means(&error) { error } else { Errno::NOSYS.into() });
    let reserved = [own()?, own()?];
    lastly::starting();
    let as_before = foretell_pagecache::as_before();
    let mut child = command.spawn().inspect_err(|_| lastly::not_started())?;
    drop(as_before);
    drop(reserved);
    foretell_pagecache::leave_timers_to_the_job();
    let pidfds = pidfd_of(&child).and_then(|pidfd| Ok((pidfd.try_clone()?, pidfd)));
    match (pidfds, &hold) {
        (Ok((for_signals, pidfd)), _) => {
            Ok(Program { pidfd, for_signals: Some(for_signals), child, hold, told: None, is_kept: false })
        }
        // Another thread has taken them. The one that is held must not begin after all: it would when the listener is closed.
        (Err(error), Hold::Coming(_)) => {
            end(&mut child);
            lastly::not_started();
            Err(error)
        }
        // And one that has begun must not begin again: this process does nothing more but wait.
        (Err(_), _) => lastly::wait_in_place(child.id()),
    }
}

/// There is too little room for what we take ourselves, and no more to be said of it than this.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NoRoom(pub(crate) String);

/// Is an error one of the processes, descriptors or memory that are to be had here, and not of what was asked for?
pub(crate) fn lacks_means(error: &io::Error) -> bool {
    let lacking = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::NOSYS];
    error.raw_os_error().is_some_and(|number| lacking.iter().any(|errno| errno.raw_os_error() == number))
}

/// Why a program is better off without us: what we would start might be what it cannot start.
#[must_use]
pub(crate) fn too_few_tasks() -> Option<String> {
    let left = tasks::too_few()?;
    let ours = tasks::OURS;
    Some(format!(
        "only {left} processes and threads may be started here, of which foretell would take up to {ours}"
    ))
}

/// Becomes the program in place of this process: where another one cannot be had. Returns when that fails.
pub(crate) fn become_program(program: &OsStr, arguments: &[OsString]) -> NotRun {
    match find(program) {
        Ok(path) => NotRun::executing(program, &lastly::become_program(&path, program, arguments)),
        Err(error) => error,
    }
}

/// Ends a child that has not begun.
fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Program {
    /// A program that is still held is ended: it never began. A defect of ours is no reason for that: then it begins.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.release();
        } else if !matches!(self.hold, Hold::Told) {
            // It may have ended by itself.
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
            let _ = self.child.wait();
            lastly::not_started();
        }
    }
}

/// The exit code that stands for how a program ended: its own, or 128 + the signal, as shells have it.
#[must_use]
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(1)
}

/// The executable file that `program` names: as `execvp(3)` finds it.
///
/// # Errors
/// There is none ([`NotRun::NotFound`]), or it cannot be executed.
pub fn find(program: &OsStr) -> Result<PathBuf, NotRun> {
    let usable = |path: &Path| {
        path.metadata().is_ok_and(|m| m.is_file())
            && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    let shown = program.display();
    if program.is_empty() {
        return Err(NotRun::NotFound("the name of the program is empty; give one after '--'".to_owned()));
    }
    if program.as_bytes().contains(&b'/') {
        let path = Path::new(program);
        return match path.metadata() {
            Err(_) => Err(NotRun::NotFound(format!(
                "program '{shown}' does not exist; give its path or a name from PATH"
            ))),
            Ok(_) if usable(path) => Ok(path.to_owned()),
            Ok(found) if found.is_dir() => {
                Err(NotRun::NotExecutable(format!("'{shown}' is a directory; give an executable file")))
            }
            Ok(_) => Err(NotRun::NotExecutable(format!(
                "'{shown}' cannot be executed; give an executable file (chmod +x makes one)"
            ))),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| usable(candidate))
        .ok_or_else(|| {
            let shells = "what only a shell knows takes one, as in sh -c '…'";
            NotRun::NotFound(format!(
                "program '{shown}' is not in PATH; give its path, as in './{shown}' ({shells})"
            ))
        })
}

/// The child's side: waits, then becomes the program. Returns only when that fails, with the exit code.
pub fn exec_when_told(mut arguments: impl Iterator<Item = OsString>) -> u8 {
    let (Some(socket), Some(program)) = (arguments.next(), arguments.next()) else {
        let what = format!("'{EXEC_WHEN_TOLD}' is for foretell itself; use 'foretell run -- PROGRAM'");
        return not_run(&NotRun::Failed(what));
    };
    let told = SocketAddr::from_abstract_name(socket.as_bytes())
        .and_then(|address| UnixStream::connect_addr(&address))
        .and_then(|mut connection| {
            let mut byte = [0];
            // No byte but the end: the one who should have told us has died. The program runs anyway.
            loop {
                match connection.read(&mut byte) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    // As the end, before we were let in.
                    Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(0),
                    other => return other,
                }
            }
        });
    if let Err(e) = told
        && !(e.kind() == io::ErrorKind::ConnectionRefused && starter_has_ended(&socket))
    {
        let what = format!("'{EXEC_WHEN_TOLD}' cannot reach the foretell that started it ({e})");
        return not_run(&NotRun::Failed(what));
    }
    let mut command = Command::new(&program);
    command.args(arguments);
    match socket.to_str().and_then(|name| name.rsplit('-').next()?.parse().ok()) {
        Some(librarys) => foretell_pagecache::hand_on_all(&mut command, librarys),
        None => foretell_pagecache::hand_on(&mut command),
    }
    let error = command.exec();
    not_run(&NotRun::executing(&program, &error))
}

/// Stays with a program instead of a foretell that a defect, or want of memory, has ended; which this process was.
pub fn wait_instead(mut arguments: impl Iterator<Item = OsString>) -> u8 {
    let Some(pid) = arguments.next().and_then(|pid| pid.to_str()?.parse::<u32>().ok()) else {
        let what = format!("'{}' is for foretell itself; use 'foretell run -- PROGRAM'", lastly::WAIT_FOR);
        return not_run(&NotRun::Failed(what));
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pidfd) = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok()) {
        let _ = signals::pass_on(None, pidfd, pid);
    }
    lastly::wait_instead(pid).unwrap_or_else(|| NotRun::Failed(String::new()).code())
}

/// Whether the foretell that made a socket of this name and started us has ended: before we came to it, and the program runs
/// anyway. Not if the name is none of ours.
fn starter_has_ended(socket: &OsStr) -> bool {
    let of_starter = socket.to_str().and_then(|name| name.strip_prefix(START)?.split_once('-'));
    let Some(starter) = of_starter.and_then(|(pid, _)| pid.parse::<i32>().ok()) else { return false };
    // Who ends closes his sockets before his children get another parent. Or it waits for us, and does nothing else any more.
    for _ in 0..PARENT_LOOKS {
        if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != starter) || only_waits(starter) {
            return true;
        }
        std::thread::sleep(PARENT_LOOK_EVERY);
    }
    false
}

/// Has a foretell become one that waits for its program?
fn only_waits(pid: i32) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(lastly::WAIT_FOR.as_bytes())
}

/// Says why, and gives the exit code for it.
fn not_run(why: &NotRun) -> u8 {
    warn(&why.to_string());
    why.code()
}

fn pidfd_of(child: &Child) -> io::Result<OwnedFd> {
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

/// The process at the other end of a connection.
/// Listens where a child comes to be held.
fn listen(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    // Anybody may connect, and what strangers send may hurt whoever closes it. Before Linux 6.16 it cannot be kept out.
    let _ = take_descriptors(listener.as_fd(), false);
    Ok(listener)
}

/// Closes a stranger's connection without waiting for what was sent with it.
fn turn_away(connection: UnixStream) {
    if !takes_descriptors(connection.as_fd()) {
        return;
    }
    match Closer::start() {
        Ok(closer) => closer.guard(NOBODY, connection.into()).hang_up(),
        // It is closed with us.
        Err(_) => std::mem::forget(connection),
    }
}

fn peer_pid(connection: &UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(connection).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    /// A program that is held until something comes at its standard input, or the end.
    fn held() -> Program {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read told; exit 7"]).stdin(OwnedFd::from(theirs));
        spawn(command, Hold::Waiting(ours)).unwrap()
    }

    #[test]
    fn a_program_of_which_it_is_not_told_that_it_is_held_is_ended_before_it_begins() {
        let name = format!("foretell-test-{}-who", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let mut command = Command::new("/bin/sleep");
        command.arg("1000");
        let mut program = spawn(command, Hold::Coming(listener.try_clone().unwrap())).unwrap();
        let _comes = UnixStream::connect_addr(&address).unwrap();
        let error = program.wait_for_connection(&listener, |_| None).unwrap_err();
        assert!(error.to_string().contains("is not told"), "{error:#}");
        assert_eq!(program.child.try_wait().unwrap().and_then(|status| status.signal()), Some(9));
    }

    #[test]
    fn a_stranger_who_comes_first_keeps_no_program_from_beginning() {
        static CHILD: AtomicU32 = AtomicU32::new(0);
        static CAME: AtomicU32 = AtomicU32::new(0);
        let name = format!("foretell-test-{}-stranger", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = listen(&name).unwrap();
        // Closing what it leaves takes ten minutes.
        let stranger = UnixStream::connect_addr(&address).unwrap();
        let (sender, _receiver) = foretell_testkit::sockets::lingering();
        let left = foretell_protocol::socket::send(stranger.as_fd(), b"x", &[sender.as_fd()]).unwrap();
        println!("left with descriptors: {left}");
        drop(stranger);
        std::thread::spawn(move || drop(sender));
        let mut command = Command::new("/bin/sleep");
        command.arg("1000");
        let mut program = spawn(command, Hold::Coming(listener.try_clone().unwrap())).unwrap();
        CHILD.store(program.pid(), Relaxed);
        let _comes = UnixStream::connect_addr(&address).unwrap();
        let second_is_child = |_: &UnixStream| match CAME.fetch_add(1, Relaxed) {
            0 => Some(1),
            _ => Some(CHILD.load(Relaxed)),
        };
        let connection = program.wait_for_connection(&listener, second_is_child).unwrap();
        program.hold = Hold::Waiting(connection);
        let _ = program.child.kill();
        let _ = program.child.wait();
        assert_eq!(CAME.load(Relaxed), 2);
    }

    fn ended(pid: u32) -> Option<i32> {
        let pid = Pid::from_raw(pid.cast_signed()).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap().unwrap().exit_status()
    }

    #[test]
    fn a_program_that_is_held_begins_when_a_defect_of_ours_lets_go_of_it() {
        let mut pid = 0;
        let defect = catch_unwind(AssertUnwindSafe(|| {
            let program = held();
            pid = program.pid();
            panic!("on purpose");
        }));
        assert!(defect.is_err());
        assert_eq!(ended(pid), Some(7));
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
    }

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert!(find(OsStr::new("sh")).unwrap().is_absolute());
        assert_eq!(find(OsStr::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        assert!(find(OsStr::new("no-such-program-here")).unwrap_err().to_string().contains("not in PATH"));
        assert!(find(OsStr::new("./no/such")).unwrap_err().to_string().contains("does not exist"));
        assert!(find(OsStr::new("/etc/passwd")).unwrap_err().to_string().contains("cannot be executed"));
    }
}
