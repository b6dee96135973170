//! The two processes that keep a device up: the guard puts it together and removes it, the server answers
//! its requests.
//!
//! Both are started through [`helper_main`] and told what to be in one line of JSON on their standard
//! input, which then is their *lifeline*: its end of file says that the process at the other end has gone.
//! The guard answers with one line of JSON on its standard output, then waits for the first of: the end of
//! its lifeline, the end of the server. The byte [`STAY`] on the lifeline tells it to forget the lifeline.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::handle::Info;
use crate::options::Options;
use crate::removal::{remove, remove_stale};
use crate::server::Server;
use crate::state::{self, Entry, Lock, Process};
use crate::{loopdev, queue, realtime};

/// Tells the guard to stay when its lifeline ends.
pub(crate) const STAY: u8 = b's';
/// Exit code of a helper that was not started by this crate.
const EXIT_USAGE: u8 = 2;

/// What a helper process is told to be.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Guard(Options),
    Server(Options),
}

/// The whole of a helper process; see [`Helper`](crate::Helper). Returns the process's exit code.
#[must_use]
pub fn helper_main() -> ExitCode {
    let mut line = String::new();
    let role = match io::stdin().lock().read_line(&mut line) {
        Ok(_) => serde_json::from_str::<Role>(&line),
        Err(error) => Err(serde_json::Error::io(error)),
    };
    let outcome = match role {
        Ok(Role::Guard(options)) => guard(options),
        Ok(Role::Server(options)) => serve(&options),
        Err(_) => {
            let _ = writeln!(
                io::stderr(),
                "this is the helper process of a slow device; it is not for use by hand"
            );
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn answer<T: Serialize>(answer: &Result<T>) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut output = io::stdout().lock();
        serde_json::to_writer(&mut output, answer)?;
        output.write_all(b"\n")?;
        output.flush()
    };
    write().map_err(|error| Error::system("answer the process that started the device", error))
}

fn guard(options: Options) -> Result<()> {
    // An interrupt typed at the terminal is for the program, whose end the lifeline then tells.
    let _ = rustix::process::setsid();
    let (entry, server) = match start(options) {
        Ok(started) => started,
        Err(error) => return answer::<Info>(&Err(error)),
    };
    let watched = answer(&Info::of(&entry).ok_or_else(|| Error::system("start the device", "it is not up")))
        .and_then(|()| watch(&server));
    // Whatever the reason, it is over now.
    let _lock = Lock::take()?;
    if state::load(&entry.options.name).is_some_and(|found| found.guard == entry.guard) {
        remove(&entry, true)?;
    }
    watched
}

/// Puts the device together, or nothing at all.
fn start(options: Options) -> Result<(Entry, Child)> {
    let lock = Lock::take()?;
    // A dead device that cannot be removed yet (a program still has its files open) is no reason not to
    // start this one.
    let _ = remove_stale(&lock);
    if let Some(entry) = state::load(&options.name) {
        return Err(Error::NameTaken {
            name: entry.options.name,
            mount_point: entry.options.mount_point.display().to_string(),
        });
    }
    options.check_mount_point()?;
    let mut entry = Entry::new(options);
    entry.guard = Process::myself();
    let assembled = assemble(&mut entry);
    if assembled.is_err() {
        // The first error is the one to tell.
        let _ = remove(&entry, true);
    }
    assembled.map(|server| (entry, server))
}

fn assemble(entry: &mut Entry) -> Result<Child> {
    make_mount_point(entry)?;
    entry.save()?;
    let fuse_directory = entry.fuse_directory();
    std::fs::create_dir(&fuse_directory)
        .map_err(|error| Error::system(format!("make {}", fuse_directory.display()), error))?;
    let server = spawn_server(entry)?;

    let number = loopdev::add()?;
    entry.loop_number = Some(number);
    entry.save()?;
    // Held until it is mounted, because it unbinds itself when nobody has it open.
    let device = loopdev::configure(number, &entry.disk_file())?;
    queue::set_up(number, &entry.options.timing)?;
    make_file_system(entry, number)?;
    let path = loopdev::path_of(number);
    mount(&path, &entry.options.mount_point, "ext4", MountFlags::NOATIME, None).map_err(|error| {
        let action = format!("mount {} at {}", path.display(), entry.options.mount_point.display());
        Error::system(action, error)
    })?;
    drop(device);
    entry.is_up = true;
    entry.save()?;
    Ok(server)
}

fn make_mount_point(entry: &mut Entry) -> Result<()> {
    let path = &entry.options.mount_point;
    let failed = |error| Error::system(format!("make the mount point {}", path.display()), error);
    if !path.exists() {
        std::fs::create_dir(path).map_err(failed)?;
        entry.made_mount_point = true;
    }
    // As the kernel will show it in mountinfo.
    entry.options.mount_point = path.canonicalize().map_err(failed)?;
    Ok(())
}

fn spawn_server(entry: &mut Entry) -> Result<Child> {
    let failed = |error: io::Error| Error::system("start the server of the device", error);
    // The running image, even if the file was replaced meanwhile.
    let mut server = Command::new("/proc/self/exe")
        .args(std::env::args_os().skip(1))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map_err(failed)?;
    entry.server = Process::find(server.id().cast_signed());
    entry.save()?;
    tell(&mut server, &Role::Server(entry.options.clone())).map_err(failed)?;
    hear::<()>(&mut server).unwrap_or_else(|| Err(failed(io::Error::other("it ended without a word"))))?;
    Ok(server)
}

/// Tells a helper its role.
pub(crate) fn tell(helper: &mut Child, role: &Role) -> io::Result<()> {
    let mut line = serde_json::to_vec(role)?;
    line.push(b'\n');
    match &mut helper.stdin {
        Some(lifeline) => lifeline.write_all(&line),
        None => Err(io::Error::other("it has no standard input")),
    }
}

/// Hears a helper's answer; `None` if it ended without one.
pub(crate) fn hear<T: for<'de> Deserialize<'de>>(helper: &mut Child) -> Option<Result<T>> {
    let mut line = String::new();
    io::BufReader::new(helper.stdout.take()?).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Formats the device. Without a journal and with all tables written at once, nothing but what is asked
/// for is read or written later.
fn make_file_system(entry: &Entry, number: u32) -> Result<()> {
    let path = loopdev::path_of(number);
    let search = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new("mkfs.ext4")
        .env("PATH", search)
        .args(["-q", "-F", "-b", "4096", "-m", "0", "-O", "^has_journal"])
        .args(["-E", "lazy_itable_init=0,nodiscard"])
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Missing {
                what: "mkfs.ext4".to_owned(),
                remedy: "install the package e2fsprogs".to_owned(),
            },
            _ => Error::system("run mkfs.ext4", error),
        })?;
    if output.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&output.stderr);
    let reason = reason.lines().last().unwrap_or("mkfs.ext4 failed without a word");
    Err(Error::system(format!("format {} of `{}`", path.display(), entry.options.name), reason))
}

/// Waits until there is a reason to remove the device.
fn watch(server: &Child) -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::system("watch over the device", error);
    let pid = Pid::from_raw(server.id().cast_signed()).ok_or_else(|| failed(rustix::io::Errno::SRCH))?;
    let server = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
    let mut lifeline = Some(io::stdin());
    loop {
        let mut watched = vec![PollFd::new(&server, PollFlags::IN)];
        if let Some(lifeline) = &lifeline {
            watched.push(PollFd::from_borrowed_fd(lifeline.as_fd(), PollFlags::IN));
        }
        match poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.map_err(failed)?,
        };
        if !watched[0].revents().is_empty() {
            return Ok(());
        }
        if let Some(stdin) = &lifeline {
            let mut byte = [0];
            match stdin.lock().read(&mut byte) {
                Ok(1) if byte[0] == STAY => lifeline = None,
                _ => return Ok(()),
            }
        }
    }
}

/// The server: mounts its files, says so, serves until they are unmounted.
fn serve(options: &Options) -> Result<()> {
    realtime::be_punctual();
    let entry = Entry::new(options.clone());
    let server = Server::mount(options, &entry.fuse_directory(), &entry.fuse_source());
    let (report, server) = match server {
        Ok(server) => (Ok(()), Ok(server)),
        Err(error) => (Err(error.clone()), Err(error)),
    };
    answer(&report)?;
    let server = server?;
    let name = options.name.clone();
    let removing = Arc::new(Mutex::new(()));
    let removal = Arc::clone(&removing);
    std::thread::Builder::new()
        .name("lifeline".to_owned())
        .spawn(move || {
            let _ = io::stdin().lock().read(&mut [0]);
            // The guard has gone. If it could not remove the device, this process does.
            let _removing = removal.lock();
            if let Ok(_lock) = Lock::take()
                && let Some(entry) = state::load(&name)
            {
                let _ = remove(&entry, true);
            }
        })
        .map_err(|error| Error::system("watch over the guard of the device", error))?;
    let served = server.run();
    // Unmounting ends the serving, but is only a part of removing.
    let _removed = removing.lock();
    served
}
