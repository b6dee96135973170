//! What was changed on a device, in a file that is there before the change.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::queue::Queue;

/// One setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The file of the queue directory.
    pub file: String,
    /// What it said before foretell changed it.
    pub from: String,
    /// What foretell left.
    pub to: String,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    device: String,
    changes: Vec<Change>,
}

/// The changes of a device. Its directory is locked as long as this lives.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    record: Record,
    _lock: File,
}

impl State {
    pub(super) fn open(states: &Path, queue: &Queue) -> Result<State> {
        fs::create_dir_all(states).with_context(|| {
            format!("{}: cannot keep what was changed there; are you root?", states.display())
        })?;
        let lock = File::open(states).with_context(|| format!("{}", states.display()))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .with_context(|| format!("{}", states.display()))?;
        let path = states.join(format!("{}.json", queue.name));
        let record = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!("{}: is damaged; remove it and check the settings", path.display())
            })?,
            Err(e) if e.kind() == ErrorKind::NotFound => Record::default(),
            Err(e) => return Err(e).with_context(|| format!("{}", path.display())),
        };
        Ok(State { path, record: Record { device: queue.name.clone(), ..record }, _lock: lock })
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.record.changes
    }

    /// Notes that a file that says `now` is to say `to`. The oldest value stays, unless somebody else has
    /// changed it since.
    pub(super) fn remember(&mut self, file: &str, now: &str, to: &str) -> Change {
        let to = to.to_owned();
        if let Some(change) = self.record.changes.iter_mut().find(|c| c.file == file) {
            if change.to != now {
                now.clone_into(&mut change.from);
            }
            change.to = to;
            return change.clone();
        }
        let change = Change { file: file.to_owned(), from: now.to_owned(), to };
        self.record.changes.push(change.clone());
        change
    }

    /// What a file says after it was set.
    pub(super) fn became(&mut self, file: &str, now: &str) {
        if let Some(change) = self.record.changes.iter_mut().find(|c| c.file == file) {
            now.clone_into(&mut change.to);
        }
    }

    /// After a change that failed: what has its old value needs no undoing, the rest is as it is.
    pub(super) fn forget(&mut self, queue: &Queue) -> Result<()> {
        for change in &mut self.record.changes {
            change.to = queue.read(&change.file)?;
        }
        self.record.changes.retain(|c| c.from != c.to);
        if self.record.changes.is_empty() { self.remove() } else { self.write() }
    }

    /// Writes the file. It need not reach a disk: the settings do not survive a crash of the machine either.
    pub(super) fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.record)? + "\n";
        foretell_output::write(&self.path, text.as_bytes()).with_context(|| {
            format!("{}: cannot be written, so nothing is changed; are you root?", self.path.display())
        })
    }

    pub(super) fn remove(&mut self) -> Result<()> {
        self.record.changes.clear();
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(e).with_context(|| format!("{}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}
