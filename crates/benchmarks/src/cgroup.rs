//! Cgroups of version 1 or 2: one with a memory limit that holds a program and whatever steers its cache, and
//! one whose reads of a disk are throttled.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::janitor::{Janitor, Undo};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A group with a memory limit, removed when dropped.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    version: Version,
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes a group whose processes may together use `limit_bytes`, page cache included.
    pub(crate) fn new(janitor: &Janitor, name: &str, limit_bytes: u64) -> Result<Self> {
        let (version, root) = hierarchy("memory", "memory")?;
        if version == Version::Two {
            enable(&root, "memory")?;
        }
        let path = root.join(format!("foretell-bench-{}-{name}", std::process::id()));
        janitor.remember_once(Undo::Group { path: path.clone() })?;
        fs::create_dir(&path).with_context(|| format!("cannot make the cgroup {}", path.display()))?;
        let group = Self { version, path };
        match version {
            Version::One => group.set("memory.limit_in_bytes", limit_bytes)?,
            Version::Two => {
                group.set("memory.max", limit_bytes)?;
                // A kernel without swap accounting has no such file.
                let _ = group.set("memory.swap.max", 0);
            }
        }
        Ok(group)
    }

    /// The file to which a process writes its number to enter.
    pub(crate) fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Most memory that the group ever used.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        };
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }

    fn set(&self, file: &str, value: u64) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value.to_string())
            .with_context(|| format!("cannot write {value} to {}", path.display()))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // If it fails, the janitor tries again and reports.
        let _ = remove(&self.path);
    }
}

/// A group whose reads of one disk are held back, removed when dropped.
#[derive(Debug)]
pub(crate) struct ThrottledGroup {
    path: PathBuf,
}

impl ThrottledGroup {
    /// Makes a group that reads at most `bytes_per_s` from the disk `numbers` (`MAJOR:MINOR`).
    pub(crate) fn new(janitor: &Janitor, numbers: &str, bytes_per_s: u64) -> Result<Self> {
        let (version, root) = hierarchy("blkio", "io")?;
        if version == Version::Two {
            enable(&root, "io")?;
        }
        let path = root.join(format!("foretell-bench-{}-throttled", std::process::id()));
        janitor.remember_once(Undo::Group { path: path.clone() })?;
        fs::create_dir(&path).with_context(|| format!("cannot make the cgroup {}", path.display()))?;
        let group = Self { path };
        let (file, limit) = match version {
            Version::One => ("blkio.throttle.read_bps_device", format!("{numbers} {bytes_per_s}")),
            Version::Two => ("io.max", format!("{numbers} rbps={bytes_per_s}")),
        };
        let file = group.path.join(file);
        fs::write(&file, &limit).with_context(|| format!("cannot write {limit} to {}", file.display()))?;
        Ok(group)
    }

    /// The file to which a process writes its number to enter.
    pub(crate) fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
}

impl Drop for ThrottledGroup {
    fn drop(&mut self) {
        // If it fails, the janitor tries again and reports.
        let _ = remove(&self.path);
    }
}

/// Ends the processes of a group and removes it.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    /// How often a group whose processes are just ending is tried, 10 ms apart.
    const TRIES: usize = 300;
    for _ in 0..TRIES {
        match fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
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

/// Where groups are made whose controller is called `first` in version 1 and `second` in version 2.
fn hierarchy(first: &str, second: &str) -> Result<(Version, PathBuf)> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("cannot read the list of mounts")?;
    let mut found = None;
    for line in text.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let Some(mount_point) = before.split(' ').nth(4) else { continue };
        let mut after = after.split(' ');
        let (kind, options) = (after.next(), after.nth(1).unwrap_or_default());
        let path = PathBuf::from(mount_point);
        match kind {
            Some("cgroup") if options.split(',').any(|option| option == first) => {
                return Ok((Version::One, path));
            }
            Some("cgroup2") => {
                let controllers = fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default();
                if controllers.split_ascii_whitespace().any(|controller| controller == second) {
                    found = Some((Version::Two, path));
                }
            }
            _ => {}
        }
    }
    match found {
        Some(found) => Ok(found),
        None => bail!("no {second} cgroup is mounted here; mount cgroup2 with the {second} controller"),
    }
}

/// Lets children of the root have limits of this controller, as systemd does. It is left so: others may come to rely on
/// it meanwhile.
fn enable(root: &Path, controller: &str) -> Result<()> {
    let path = root.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&path).unwrap_or_default();
    if enabled.split_ascii_whitespace().any(|enabled| enabled == controller) {
        return Ok(());
    }
    fs::write(&path, format!("+{controller}"))
        .with_context(|| format!("cannot write +{controller} to {}", path.display()))
}
