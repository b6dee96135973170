//! What every run has under it: memory, a cold cache, the settings of the devices.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use foretell_cgroup::{Controller, MemoryGroup, Place};

use super::{Devices, Wanted};
use crate::terminal::{warn, with_causes};

/// Writing 3 drops clean pages, directory entries and inodes (proc_sys_vm(5)).
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Where runs take place.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Empty until the job has been seen.
    pub(crate) devices: Devices,
    limit_bytes: Option<u64>,
    /// Can groups be made?
    groups: bool,
    cold: bool,
    wants_settings: bool,
    made: u32,
}

impl Stage {
    /// Finds out what is possible here, and says what is not.
    pub(crate) fn new(wanted: &Wanted) -> Result<Stage> {
        let mut stage = Stage {
            devices: Devices::default(),
            limit_bytes: wanted.memory_bytes,
            groups: true,
            cold: false,
            wants_settings: !wanted.read_ahead_kb.is_empty(),
            made: 0,
        };
        if let Err(error) = stage.group() {
            if wanted.memory_bytes.is_some() {
                return Err(anyhow!("--memory: {}", with_causes(&error)));
            }
            let why = with_causes(&error);
            warn(&format!("no memory cgroup can be used ({why}); the runs are not limited"));
            stage.groups = false;
        }
        if !wanted.warm {
            match fs::OpenOptions::new().write(true).open(DROP_CACHES) {
                Ok(_) => stage.cold = true,
                Err(error) => warn(&format!(
                    "{DROP_CACHES}: {error}; the runs are compared warm, with what memory happens to hold"
                )),
            }
        }
        Ok(stage)
    }

    pub(crate) fn is_cold(&self) -> bool {
        self.cold
    }

    /// Notes on which devices the job's files lie.
    pub(crate) fn look_at_devices(&mut self, recording: &Path) -> Result<()> {
        self.devices = Devices::of(recording);
        if self.devices.is_empty() && self.wants_settings {
            bail!("--read-ahead: the job's files lie on no block device that has this setting; leave it out");
        }
        Ok(())
    }

    /// A new group for a run, so that nothing of another run is charged to it.
    pub(crate) fn group(&mut self) -> Result<Option<MemoryGroup>> {
        if !self.groups {
            return Ok(None);
        }
        self.made += 1;
        let name = format!("foretell-compare-{}-{}", std::process::id(), self.made);
        let place = Place::find(Controller::Memory, &name)?;
        Ok(Some(MemoryGroup::new(place, self.limit_bytes)?))
    }

    /// Empties the page cache, if that was asked for and is possible.
    pub(crate) fn cool(&self) -> Result<()> {
        if self.cold {
            // What is dirty stays.
            rustix::fs::sync();
            fs::write(DROP_CACHES, "3").with_context(|| format!("cannot write {DROP_CACHES}"))?;
        }
        Ok(())
    }
}
