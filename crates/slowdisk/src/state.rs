//! The state directory: which devices are up, and what must be removed with each.
//!
//! `/run/foretell/slowdisk/NAME/` holds `state.json`, rewritten before each step that leaves something
//! behind, and `fuse/`, where the server's files are mounted (`disk`, the bytes, and `stats.json`). Whoever
//! finds an entry whose processes are gone can therefore remove all of it. `/run/foretell/slowdisk/.lock`
//! is held while an entry is made or removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::options::Options;

const ROOT: &str = "/run/foretell/slowdisk";

/// How long a killed process may take to end: one that waits in the kernel for a device ends late.
const KILL_PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// A process that can be told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Start time in clock ticks since boot (field 22 of proc_pid_stat(5)).
    start_ticks: u64,
}

impl Process {
    /// The process of this number, if there is one.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the command in parentheses and may hold anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let is_dead = matches!(fields.next()?, "Z" | "X");
        let start_ticks = fields.nth(18)?.parse().ok()?;
        (!is_dead).then_some(Self { pid, start_ticks })
    }

    pub(crate) fn myself() -> Option<Self> {
        Self::find(std::process::id().cast_signed())
    }

    pub(crate) fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    /// Ends the process, if it is still the same one, and waits until it has ended: a signal is only
    /// noted for the process, which acts on it when it next runs.
    pub(crate) fn kill(self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid)
            && let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_alive()
            // Gone in between is as good.
            && pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
        {
            let mut ended = [PollFd::new(&pidfd, PollFlags::IN)];
            let _ = poll(&mut ended, Some(&KILL_PATIENCE));
        }
    }
}

/// How often the state directory is made anew when others remove it at the same moment, before what is in
/// the way counts as a mistake of somebody else's.
const LOCK_ATTEMPTS: usize = 10_000;

/// What is known about a device that is up, or of which something is left.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) options: Options,
    pub(crate) guard: Option<Process>,
    pub(crate) server: Option<Process>,
    /// Number of the loop device, once it has been added.
    pub(crate) loop_number: Option<u32>,
    /// Whether the mount point was made for the device, and goes with it.
    pub(crate) made_mount_point: bool,
    /// Whether everything is in place.
    pub(crate) is_up: bool,
}

impl Entry {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, guard: None, server: None, loop_number: None, made_mount_point: false, is_up: false }
    }

    pub(crate) fn directory(&self) -> PathBuf {
        directory_of(&self.options.name)
    }

    /// Where the server's files are mounted.
    pub(crate) fn fuse_directory(&self) -> PathBuf {
        self.directory().join("fuse")
    }

    /// The file that holds the device's bytes.
    pub(crate) fn disk_file(&self) -> PathBuf {
        self.fuse_directory().join(crate::server::DISK_FILE)
    }

    /// The source name of the FUSE mount, by which it is recognised.
    pub(crate) fn fuse_source(&self) -> String {
        format!("foretell-slowdisk-{}", self.options.name)
    }

    /// Whether one of its processes is still there to remove it.
    pub(crate) fn has_live_process(&self) -> bool {
        [self.guard, self.server].into_iter().flatten().any(Process::is_alive)
    }

    /// Writes the entry, replacing the old one as a whole.
    pub(crate) fn save(&self) -> Result<()> {
        let directory = self.directory();
        let save = || -> io::Result<()> {
            fs::create_dir_all(&directory)?;
            let temporary = directory.join("state.json.new");
            let mut file = File::create(&temporary)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.flush()?;
            fs::rename(&temporary, directory.join("state.json"))
        };
        save().map_err(|error| Error::system(format!("write {}", directory.display()), error))
    }

    /// Removes the entry, and the directories above it if they are empty.
    pub(crate) fn delete(&self) -> Result<()> {
        let directory = self.directory();
        match fs::remove_dir(self.fuse_directory()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::system(format!("remove {}", self.fuse_directory().display()), error));
            }
            _ => {}
        }
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::system(format!("remove {}", directory.display()), error))
            }
            _ => Ok(()),
        }
    }
}

fn directory_of(name: &str) -> PathBuf {
    Path::new(ROOT).join(name)
}

/// The entry of this name, if there is one that can be read.
pub(crate) fn load(name: &str) -> Option<Entry> {
    let text = fs::read_to_string(directory_of(name).join("state.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// All entries, by name.
pub(crate) fn load_all() -> Vec<Entry> {
    let Ok(directories) = fs::read_dir(ROOT) else { return Vec::new() };
    let mut names: Vec<String> =
        directories.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.iter().filter_map(|name| load(name)).collect()
}

/// Held while an entry is made or removed; removes the state directory if it is empty at the end.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take() -> Result<Self> {
        let path = Path::new(ROOT).join(".lock");
        let action = || format!("lock {}", path.display());
        let is_race = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
        };
        let mut attempts = LOCK_ATTEMPTS;
        loop {
            match fs::create_dir_all(ROOT) {
                // Whoever let go of the last lock removes the directories, also between two steps of this.
                Err(error) if is_race(&error) && attempts > 0 => {
                    attempts -= 1;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(Error::Missing {
                        what: "the right to mount (root)".to_owned(),
                        remedy: "run this command as root".to_owned(),
                    });
                }
                other => other.map_err(|error| Error::system(format!("make {ROOT}"), error))?,
            }
            let file = match File::options().create(true).append(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.map_err(|error| Error::system(action(), error))?,
            };
            flock(&file, FlockOperation::LockExclusive).map_err(|error| Error::system(action(), error))?;
            // Whoever held it before may have removed it: then this lock guards nothing.
            if is_same_file(&file, &path) {
                return Ok(Self { _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let is_last = fs::read_dir(ROOT).is_ok_and(|entries| entries.flatten().count() == 1);
        if is_last {
            // Leaving an empty directory behind is all that can go wrong here.
            let _ = fs::remove_file(Path::new(ROOT).join(".lock"));
            let _ = fs::remove_dir(ROOT);
            let _ = Path::new(ROOT).parent().map(fs::remove_dir);
        }
    }
}

fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_taken_while_others_remove_the_directories() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: the_lock_is_taken_while_others_remove_the_directories: needs root");
            return;
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| drop(Lock::take().unwrap())));
            }
        });
    }

    #[test]
    fn a_process_is_recognised_and_a_stranger_with_its_number_is_not() {
        let me = Process::myself().unwrap();
        assert!(me.is_alive());
        assert!(!Process { start_ticks: me.start_ticks + 1, ..me }.is_alive());
        assert_eq!(Process::find(0), None);
    }
}
