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

use crate::terminal::{warn, with_causes};
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal};

/// The hidden subcommand of the child.
pub const EXEC_WHEN_TOLD: &str = "exec-when-told";

/// How the names of the sockets begin; the number of the process that made them follows.
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
            NotRun::Failed(_) => 125,
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
    hold: Hold,
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
        let name = format!("{START}{}-{}", std::process::id(), since.as_nanos());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)
            .context("cannot make a socket to start the program with")?;
        listener.set_nonblocking(true)?;
        // By way of /proc: the same executable even if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("foretell").args([EXEC_WHEN_TOLD, &name]).arg(program).args(arguments);
        set(&mut command);
        let mut child = command.spawn().context("cannot start a process")?;
        // A child that is not waited for any more must not begin after all: it would when the listener is closed.
        let pidfd = match pidfd_of(&child) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                end(&mut child);
                return Err(error);
            }
        };
        Ok(Program { pidfd, child, hold: Hold::Coming(listener) })
    }

    /// Waits until a program is held: what it does until then is ours.
    ///
    /// # Errors
    /// It has ended before.
    pub(crate) fn wait_until_held(&mut self) -> Result<()> {
        if let Hold::Coming(listener) = &self.hold {
            let connection = self.wait_for_connection(&listener.try_clone()?)?;
            self.hold = Hold::Waiting(connection);
        }
        Ok(())
    }

    /// Starts `program` at once, without any control.
    pub fn start(program: &OsStr, arguments: &[OsString]) -> Result<Program> {
        let child = match Command::new(program).args(arguments).spawn() {
            // A script that does not say what it is for is one for the shell, as execvp(3) has it.
            Err(error) if error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
                Command::new("/bin/sh").arg(find(program)?).args(arguments).spawn()
            }
            started => started,
        };
        let child = child.map_err(|error| NotRun::executing(program, &error))?;
        Ok(Program { pidfd: pidfd_of(&child)?, child, hold: Hold::Told })
    }

    fn wait_for_connection(&mut self, listener: &UnixListener) -> Result<UnixStream> {
        loop {
            let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            match listener.accept() {
                // Anybody may connect to an abstract socket; only the child counts.
                Ok((connection, _)) if peer_pid(&connection) == Some(self.pid()) => return Ok(connection),
                Ok(_) => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) => return Err(e.into()),
            }
            if let Some(early) = self.ended_early() {
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

    /// A descriptor of the process, to send signals through.
    pub fn pidfd(&self) -> Result<OwnedFd> {
        Ok(self.pidfd.try_clone()?)
    }

    /// How the program ended, if it has.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Why a program that is held will not run any more, if that is so.
    pub fn ended_early(&mut self) -> Option<NotRun> {
        self.try_wait().ok().flatten().map(NotRun::EndedEarly)
    }

    /// Waits until the program has ended.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        Ok(self.child.wait()?)
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

/// Ends a child that has not begun.
fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Program {
    /// A program that is still held is ended: it never began.
    fn drop(&mut self) {
        if !matches!(self.hold, Hold::Told) {
            // It may have ended by itself.
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
            let _ = self.child.wait();
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
            NotRun::NotFound(format!("program '{shown}' is not in PATH; give its path, as in './{shown}'"))
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
    let error = Command::new(&program).args(arguments).exec();
    not_run(&NotRun::executing(&program, &error))
}

/// Whether the foretell that made a socket of this name and started us has ended: before we came to it, and the program runs
/// anyway. Not if the name is none of ours.
fn starter_has_ended(socket: &OsStr) -> bool {
    let of_starter = socket.to_str().and_then(|name| name.strip_prefix(START)?.split_once('-'));
    let Some(starter) = of_starter.and_then(|(pid, _)| pid.parse::<i32>().ok()) else { return false };
    // Who ends closes his sockets before his children get another parent.
    for _ in 0..PARENT_LOOKS {
        if getppid().is_none_or(|parent| parent.as_raw_nonzero().get() != starter) {
            return true;
        }
        std::thread::sleep(PARENT_LOOK_EVERY);
    }
    false
}

/// Says why, and gives the exit code for it.
fn not_run(why: &NotRun) -> u8 {
    warn(&why.to_string());
    why.code()
}

fn pidfd_of(child: &Child) -> Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("the process has no number")?;
    pidfd_open(pid, PidfdFlags::empty()).context("cannot open the process")
}

/// The process at the other end of a connection.
fn peer_pid(connection: &UnixStream) -> Option<u32> {
    let peer = rustix::net::sockopt::socket_peercred(connection).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

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
