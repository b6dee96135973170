//! Starting, finding and removing devices.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::counters::Counters;
use crate::error::{Error, Result};
use crate::guard::{Role, STAY, hear, tell};
use crate::loopdev;
use crate::options::{self, Options};
use crate::removal;
use crate::server::STATS_FILE;
use crate::state::{self, Entry, Lock};

/// How the helper processes of a device are started: a program and the arguments with which it calls
/// [`helper_main`](crate::helper_main) and does nothing else.
#[derive(Debug, Clone)]
pub struct Helper {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Helper {
    /// A program and its arguments.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect() }
    }

    /// The program that is running, with these arguments.
    ///
    /// # Errors
    /// [`Error::System`] if the system does not say which program is running.
    pub fn current_exe<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Result<Self> {
        let program =
            std::env::current_exe().map_err(|error| Error::system("find the running program", error))?;
        Ok(Self::new(program, arguments))
    }
}

/// A device that is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Its options, with the mount point as the kernel knows it.
    pub options: Options,
    /// The block device, `/dev/loopN`.
    pub device: PathBuf,
    /// The process that put it together and will remove it.
    pub guard_pid: i32,
    /// The process that answers its requests.
    pub server_pid: i32,
    /// The file with its [`Counters`] as JSON, read anew each time.
    pub stats_file: PathBuf,
}

impl Info {
    /// What an entry says, if its device is up.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let (Some(number), Some(guard), Some(server), true) =
            (entry.loop_number, entry.guard, entry.server, entry.is_up)
        else {
            return None;
        };
        Some(Self {
            options: entry.options.clone(),
            device: loopdev::path_of(number),
            guard_pid: guard.pid,
            server_pid: server.pid,
            stats_file: entry.fuse_directory().join(STATS_FILE),
        })
    }

    /// The directory of its block queue's settings, `/sys/block/loopN/queue`.
    #[must_use]
    pub fn queue_directory(&self) -> PathBuf {
        let name = self.device.file_name().unwrap_or_default();
        Path::new("/sys/block").join(name).join("queue")
    }

    /// What it has served since it was started.
    ///
    /// # Errors
    /// [`Error::System`] if the device has gone.
    pub fn counters(&self) -> Result<Counters> {
        let failed = |reason: String| Error::system(format!("read {}", self.stats_file.display()), reason);
        let text = std::fs::read(&self.stats_file).map_err(|error| failed(error.to_string()))?;
        serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))
    }
}

/// A device that this process has started. It is removed when this is dropped, and also when this process
/// ends in any other way, unless [`stay`](Self::stay) was called.
#[derive(Debug)]
pub struct Slowdisk {
    info: Info,
    guard: Child,
}

impl Slowdisk {
    /// Where it is and what it is.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Where its file system is mounted.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        &self.info.options.mount_point
    }

    /// What it has served since it was started.
    ///
    /// # Errors
    /// [`Error::System`] if the device has gone.
    pub fn counters(&self) -> Result<Counters> {
        self.info.counters()
    }

    /// Leaves the device up until [`down`] is called with its name.
    ///
    /// # Errors
    /// [`Error::System`] if the device has gone.
    pub fn stay(mut self) -> Result<Info> {
        let told = match &mut self.guard.stdin {
            Some(lifeline) => lifeline.write_all(&[STAY]),
            None => Ok(()),
        };
        told.map_err(|error| Error::system("leave the device up", error))?;
        let info = self.info.clone();
        // Not removed: the guard lives on by itself.
        std::mem::forget(self);
        Ok(info)
    }

    /// Waits until the device has gone: somebody called [`down`], or one of its processes died.
    ///
    /// # Errors
    /// [`Error::System`] if the guard cannot be waited for.
    pub fn wait(&mut self) -> Result<()> {
        // Held open: `Child::wait` closes it, which would end the device.
        let lifeline = self.guard.stdin.take();
        let waited = self.guard.wait();
        drop(lifeline);
        waited.map(|_| ()).map_err(|error| Error::system("wait for the device", error))
    }

    /// Removes the device. Programs that still use it get errors.
    ///
    /// # Errors
    /// [`Error::System`] if something of it could not be removed.
    pub fn down(mut self) -> Result<()> {
        self.end();
        match state::load(&self.info.options.name) {
            None => Ok(()),
            Some(_) => down(&self.info.options.name, true),
        }
    }

    fn end(&mut self) {
        drop(self.guard.stdin.take());
        // The guard removes everything, then ends; there is nothing to do about a failure here.
        let _ = self.guard.wait();
    }
}

impl Drop for Slowdisk {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts a device: its file, loop device and file system. What is left of dead devices is removed first.
///
/// # Errors
/// [`Error::BadOption`], [`Error::NameTaken`], [`Error::Missing`] (privileges, kernel features, mkfs.ext4)
/// or [`Error::System`]; nothing is left behind then.
pub fn up(options: &Options, helper: &Helper) -> Result<Slowdisk> {
    options.check()?;
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Missing {
            what: "the right to mount (root)".to_owned(),
            remedy: "run this command as root".to_owned(),
        });
    }
    let failed = |error: std::io::Error| {
        Error::system(format!("start the helper process {}", helper.program.display()), error)
    };
    let mut guard = Command::new(&helper.program)
        .args(&helper.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map_err(failed)?;
    let told = tell(&mut guard, &Role::Guard(options.clone())).map_err(failed);
    let heard = told.and_then(|()| {
        let silent = || failed(std::io::Error::other("it ended without a word"));
        hear::<Info>(&mut guard).ok_or_else(silent)?
    });
    match heard {
        Ok(info) => Ok(Slowdisk { info, guard }),
        Err(error) => {
            drop(guard.stdin.take());
            let _ = guard.wait();
            Err(error)
        }
    }
}

/// Removes the device of this name, whoever started it, and whether or not its processes are alive.
/// Programs that use it make this fail, or get errors if `force`d.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Busy`], or [`Error::System`] if something could not be removed.
pub fn down(name: &str, force: bool) -> Result<()> {
    options::check_name(name)?;
    let _lock = Lock::take()?;
    match state::load(name) {
        Some(entry) => removal::remove(&entry, force),
        None => {
            let known = state::load_all().into_iter().map(|entry| entry.options.name).collect();
            Err(Error::Unknown { name: name.to_owned(), known })
        }
    }
}

/// The devices that are up, by name.
#[must_use]
pub fn list() -> Vec<Info> {
    state::load_all().iter().filter(|entry| entry.has_live_process()).filter_map(Info::of).collect()
}

/// What the device of this name has served since it was started.
///
/// # Errors
/// [`Error::Unknown`], or [`Error::System`] if it has just gone.
pub fn counters(name: &str) -> Result<Counters> {
    let known = list();
    match known.iter().find(|info| info.options.name == name) {
        Some(info) => info.counters(),
        None => Err(Error::Unknown {
            name: name.to_owned(),
            known: known.into_iter().map(|info| info.options.name).collect(),
        }),
    }
}

/// Removes what is left of devices whose processes have all been killed, and returns their names.
///
/// # Errors
/// [`Error::System`] if something could not be removed.
pub fn cleanup_stale() -> Result<Vec<String>> {
    removal::remove_stale(&Lock::take()?)
}
