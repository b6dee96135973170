//! The devices under the job's files: what they have read, and their readahead.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use foretell_recording::{Recording, Way};

use crate::apply::Queue;
use crate::terminal::warn;

/// A device counts when this share of what is read lies on it.
const SHARE: f64 = 0.05;
/// Accesses of a recording that are looked at.
const ACCESSES: usize = 1 << 22;
/// The setting.
const READ_AHEAD_KB: &str = "read_ahead_kb";

/// The devices under the files of a job.
#[derive(Debug, Default)]
pub(crate) struct Devices(Vec<Device>);

#[derive(Debug)]
struct Device {
    /// Of the device that holds the file system: a partition counts for itself.
    stat: PathBuf,
    queue: Queue,
}

/// What devices have read since the machine was started, by whomever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

impl Devices {
    /// Those that most of what was recorded lies on.
    pub(crate) fn of(recording: &Path) -> Devices {
        let Ok(recording) = Recording::read_within(recording, ACCESSES) else { return Devices::default() };
        let mut pages_of = vec![0_u64; recording.files.len()];
        for access in recording.accesses.iter().filter(|access| access.way != Way::Written) {
            if let Some(pages) = pages_of.get_mut(access.file.0 as usize) {
                *pages += u64::from(access.pages);
            }
        }
        // Pages, and one of the files, by device.
        let mut by_device: BTreeMap<u64, (u64, &Path)> = BTreeMap::new();
        for (file, pages) in recording.files.iter().zip(pages_of) {
            if let Ok(metadata) = fs::metadata(&file.path) {
                by_device.entry(metadata.dev()).or_insert((0, &file.path)).0 += pages;
            }
        }
        let all: u64 = by_device.values().map(|(pages, _)| pages).sum();
        let large = by_device.into_iter().filter(|(_, (pages, _))| *pages as f64 > SHARE * all as f64);
        let device = |(number, (_, path)): (u64, (u64, &Path))| {
            let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
            let stat = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
            Some(Device { stat, queue: Queue::of(path).ok()? })
        };
        Devices(large.filter_map(device).collect())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|device| device.queue.name.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The setting, if they have the same.
    pub(crate) fn read_ahead_kb(&self) -> Option<u32> {
        let mut all = self.0.iter().map(|device| device.queue.read(READ_AHEAD_KB).ok()?.parse().ok());
        let first = all.next()??;
        all.all(|other| other == Some(first)).then_some(first)
    }

    /// What they have read so far; `None` if one does not say.
    pub(crate) fn reads(&self) -> Option<Reads> {
        if self.0.is_empty() {
            return None;
        }
        self.0.iter().try_fold(Reads { requests: 0, bytes: 0 }, |sum, device| {
            let text = fs::read_to_string(&device.stat).ok()?;
            let (requests, sectors) = of_stat(&text)?;
            Some(Reads { requests: sum.requests + requests, bytes: sum.bytes + sectors * 512 })
        })
    }

    /// Sets their readahead; it is restored when the value is dropped.
    pub(crate) fn set_read_ahead(&self, kb: u32) -> Result<Restore<'_>> {
        let mut restore = Restore(Vec::new());
        for device in &self.0 {
            let before = device.queue.read(READ_AHEAD_KB)?;
            // Before it is changed: a value that is only partly taken is restored as well.
            restore.0.push((&device.queue, before));
            device.queue.write(READ_AHEAD_KB, &kb.to_string())?;
            let now = device.queue.read(READ_AHEAD_KB)?;
            if now != kb.to_string() {
                bail!("--read-ahead {kb}: {} takes {now} instead; give that", device.queue.name);
            }
        }
        Ok(restore)
    }
}

/// Puts settings back when dropped.
#[derive(Debug)]
pub(crate) struct Restore<'a>(Vec<(&'a Queue, String)>);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        for (queue, before) in self.0.iter().rev() {
            if let Err(error) = queue.write(READ_AHEAD_KB, before) {
                warn(&format!("{}: {READ_AHEAD_KB} could not be set back to {before} ({error})", queue.name));
            }
        }
    }
}

/// Read requests and sectors of 512 bytes: the first and third field (Documentation/block/stat.rst).
fn of_stat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_the_first_and_the_third_field() {
        assert_eq!(of_stat(" 12 3 400 5 6 7\n"), Some((12, 400)));
        assert_eq!(of_stat("12 3"), None);
        assert_eq!(of_stat("a b c"), None);
    }
}
