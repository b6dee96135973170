//! Cgroups of version 1 or 2: which of them limit a process ([`groups`]), and, for measurements, one with a memory limit that
//! holds a program and whatever steers its cache ([`MemoryGroup`]), and one whose reads of a disk are throttled
//! ([`ThrottledGroup`]).
//!
//! A group is made in two steps, so that somebody can remember it before it is there: [`Place::find`] says where it would
//! be, [`MemoryGroup::new`] and [`ThrottledGroup::new`] make it. Dropped, it is removed, with all that still runs in it.

mod membership;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use membership::Hierarchy;
pub use membership::{Group, Version, Whose, directory_of, groups};

/// How often a group whose processes are just ending is tried, 10 ms apart.
const TRIES: usize = 300;

/// Why there is no group.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The kernel, or this container, has none of the kind.
    #[error("no {0} cgroup is mounted here; mount cgroup2 with the {0} controller")]
    NoHierarchy(&'static str),
    /// It cannot be made or set.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The mounts cannot be read.
    #[error("cannot read the list of mounts: {0}")]
    Mounts(io::Error),
}

/// What a group limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Memory, page cache included.
    Memory,
    /// Reads and writes of disks.
    Io,
}

impl Controller {
    /// Its name in version 1 and in version 2.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Controller::Memory => ("memory", "memory"),
            Controller::Io => ("blkio", "io"),
        }
    }
}

/// Where a group can be made.
#[derive(Debug, Clone)]
pub struct Place {
    version: Version,
    root: PathBuf,
    path: PathBuf,
    controller: Controller,
}

impl Place {
    /// The place of a group of this name.
    ///
    /// # Errors
    /// There is no such controller.
    pub fn find(controller: Controller, name: &str) -> Result<Place, CgroupError> {
        let hierarchies = Hierarchy::all().map_err(CgroupError::Mounts)?;
        let (version, root) =
            hierarchy(hierarchies, controller).ok_or(CgroupError::NoHierarchy(controller.names().1))?;
        let path = root.join(name);
        Ok(Place { version, root, path, controller })
    }

    /// The group's directory, whether it is there or not.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn make(&self) -> Result<(), CgroupError> {
        if self.version == Version::Two {
            enable(&self.root, self.controller.names().1)?;
        }
        fs::create_dir(&self.path).map_err(cannot_write(&self.path))
    }
}

/// A group whose memory is counted, and limited if that was asked for. Removed when dropped.
#[derive(Debug)]
pub struct MemoryGroup {
    version: Version,
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes a group whose processes may together use `limit_bytes`, page cache included.
    ///
    /// # Errors
    /// It cannot be made, as for lack of rights, or limited.
    pub fn new(place: Place, limit_bytes: Option<u64>) -> Result<MemoryGroup, CgroupError> {
        place.make()?;
        let group = MemoryGroup { version: place.version, path: place.path };
        match (group.version, limit_bytes) {
            (_, None) => {}
            (Version::One, Some(bytes)) => group.set("memory.limit_in_bytes", bytes)?,
            (Version::Two, Some(bytes)) => {
                group.set("memory.max", bytes)?;
                match group.set("memory.swap.max", 0) {
                    // A kernel without swap accounting has no such file.
                    Err(CgroupError::Write { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                    set => set?,
                }
            }
        }
        Ok(group)
    }

    /// The file to which a process writes its number to enter.
    #[must_use]
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Puts a process into the group. What it has allocated before is not moved.
    ///
    /// # Errors
    /// The process is gone, or may not be moved.
    pub fn enter(&self, pid: u32) -> Result<(), CgroupError> {
        let procs = self.procs();
        fs::write(&procs, pid.to_string()).map_err(cannot_write(&procs))
    }

    /// Makes the kernel give back what it can of the group's memory: cached pages, names and inodes. Some may stay.
    ///
    /// # Errors
    /// The kernel has no such file (`memory.reclaim`, version 2 before Linux 5.19).
    pub fn reclaim(&self) -> Result<(), CgroupError> {
        match self.version {
            Version::One => self.set("memory.force_empty", 0),
            Version::Two => {
                let path = self.path.join("memory.reclaim");
                match fs::write(&path, u64::MAX.to_string()) {
                    // There is less than that.
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
                    done => done.map_err(cannot_write(&path)),
                }
            }
        }
    }

    /// Most memory that the group ever used; `None` where the kernel does not say (Linux before 5.19 in version 2).
    #[must_use]
    pub fn peak_bytes(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }

    fn set(&self, file: &str, value: u64) -> Result<(), CgroupError> {
        let path = self.path.join(file);
        fs::write(&path, value.to_string()).map_err(cannot_write(&path))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // What cannot be removed is empty: its processes were ended.
        let _ = remove(&self.path);
    }
}

/// A group whose reads of one disk are held back. Removed when dropped.
#[derive(Debug)]
pub struct ThrottledGroup {
    path: PathBuf,
}

impl ThrottledGroup {
    /// Makes a group that reads at most `bytes_per_s` from the disk `numbers` (`MAJOR:MINOR`).
    ///
    /// # Errors
    /// It cannot be made or limited.
    pub fn new(place: Place, numbers: &str, bytes_per_s: u64) -> Result<ThrottledGroup, CgroupError> {
        place.make()?;
        let group = ThrottledGroup { path: place.path };
        let (file, limit) = match place.version {
            Version::One => ("blkio.throttle.read_bps_device", format!("{numbers} {bytes_per_s}")),
            Version::Two => ("io.max", format!("{numbers} rbps={bytes_per_s}")),
        };
        let file = group.path.join(file);
        fs::write(&file, &limit).map_err(cannot_write(&file))?;
        Ok(group)
    }

    /// The file to which a process writes its number to enter.
    #[must_use]
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for ThrottledGroup {
    fn drop(&mut self) {
        // As with a memory group.
        let _ = remove(&self.path);
    }
}

/// Ends the processes of a group and removes it.
///
/// # Errors
/// It is not there, or a process in it does not end.
pub fn remove(path: &Path) -> io::Result<()> {
    for _ in 0..TRIES {
        match fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {}
            other => return other,
        }
        for line in fs::read_to_string(path.join("cgroup.procs"))?.lines() {
            if let Some(pid) = line.parse().ok().and_then(Pid::from_raw) {
                // Gone meanwhile is what is wanted.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::remove_dir(path)
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_owned();
    |source| CgroupError::Write { path, source }
}

/// Where groups of a controller are made. Version 1 goes first: a controller that it has is not in version 2.
fn hierarchy(hierarchies: &[Hierarchy], controller: Controller) -> Option<(Version, PathBuf)> {
    let (first, second) = controller.names();
    let of = |version: Version| hierarchies.iter().filter(move |one| one.version == version);
    let has = |one: &&Hierarchy| {
        let controllers = fs::read_to_string(one.mount.join("cgroup.controllers")).unwrap_or_default();
        controllers.split_ascii_whitespace().any(|controller| controller == second)
    };
    let found = of(Version::One).find(|one| one.has_option(first)).or_else(|| of(Version::Two).find(has))?;
    Some((found.version, found.mount.clone()))
}

/// Lets children of the root have limits of this controller, as systemd does. It is left so: others may come to rely on
/// it meanwhile.
fn enable(root: &Path, controller: &str) -> Result<(), CgroupError> {
    let path = root.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&path).unwrap_or_default();
    if enabled.split_ascii_whitespace().any(|enabled| enabled == controller) {
        return Ok(());
    }
    fs::write(&path, format!("+{controller}")).map_err(cannot_write(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_in_the_list_of_mounts() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      32 30 0:28 / /sys/fs/cgroup/blkio rw shared:9 - cgroup cgroup rw,blkio\n";
        let hierarchy = |mounts: &str, controller| super::hierarchy(&Hierarchy::parse(mounts), controller);
        let memory = hierarchy(mounts, Controller::Memory);
        assert_eq!(memory, Some((Version::One, "/sys/fs/cgroup/memory".into())));
        assert_eq!(hierarchy(mounts, Controller::Io), Some((Version::One, "/sys/fs/cgroup/blkio".into())));
        assert_eq!(hierarchy("31 30 0:27 / / rw - ext4 /dev/vda rw\n", Controller::Io), None);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        let mounts = format!("31 30 0:27 / {} rw - cgroup2 none rw\n", dir.path().display());
        let memory = hierarchy(&mounts, Controller::Memory);
        assert_eq!(memory, Some((Version::Two, dir.path().to_owned())));
        assert_eq!(hierarchy(&mounts, Controller::Io), None, "a controller that is not there");
    }
}
