//! The request queue of a block device in sysfs.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

pub(super) const READ_AHEAD_KB: &str = "read_ahead_kb";
pub(super) const NR_REQUESTS: &str = "nr_requests";
pub(super) const SCHEDULER: &str = "scheduler";

/// A device's queue directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The device as the kernel calls it, without `/dev/`.
    pub name: String,
    directory: PathBuf,
}

impl Queue {
    /// The queue of a block device, or of the one that a file lies on; a partition has its disk's.
    ///
    /// # Errors
    /// No such file, or one that lies on no block device.
    pub fn of(path: &Path) -> Result<Queue> {
        let shown = path.display();
        let metadata = fs::metadata(path).with_context(|| format!("{shown}"))?;
        let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).map_err(|_| {
            anyhow!(
                "{shown}: lies on no block device of its own ({major}:{minor}); name the device, as /dev/sda"
            )
        })?;
        let disk = if device.join("queue").is_dir() { Some(device.as_path()) } else { device.parent() };
        let disk = disk.filter(|d| d.join("queue").is_dir());
        let disk = disk.ok_or_else(|| anyhow!("{shown}: its device has no request queue"))?;
        let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Queue { name, directory: disk.join("queue") })
    }

    /// A directory that looks like one.
    #[cfg(test)]
    pub(super) fn at(name: &str, directory: &Path) -> Queue {
        Queue { name: name.to_owned(), directory: directory.to_owned() }
    }

    /// Whether its platters turn, as far as the kernel knows.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        self.read("rotational").is_ok_and(|text| text == "1")
    }

    /// What the kernel reads ahead for files on it, KiB; `None` if that is not told.
    #[must_use]
    pub fn read_ahead_kb(&self) -> Option<u64> {
        self.read(READ_AHEAD_KB).ok()?.parse().ok()
    }

    /// What a setting is; of a choice, the one in brackets.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, file: &str) -> Result<String> {
        let text = self.text(file)?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(one, _)| one);
        Ok(chosen.unwrap_or(text.trim()).to_owned())
    }

    fn text(&self, file: &str) -> Result<String> {
        let path = self.directory.join(file);
        fs::read_to_string(&path).with_context(|| format!("{}", path.display()))
    }

    /// Whether a scheduler can be chosen.
    pub(super) fn offers(&self, scheduler: &str) -> bool {
        self.text(SCHEDULER)
            .is_ok_and(|text| text.split_whitespace().any(|one| one.trim_matches(['[', ']']) == scheduler))
    }

    pub(crate) fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.directory.join(file);
        match fs::write(&path, value) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                bail!("{}: {e}; settings of devices need root", path.display())
            }
            Err(e) => bail!("{}: the kernel does not take '{value}' ({e})", path.display()),
        }
    }
}
