//! What `auto` means: horizon and batch as the model of the volume's device says.
//!
//! The device is the one that was named; else the device file that was saved for the volume in
//! [`DEVICE_DIRECTORY`]; else a typical disk or SSD, by what the kernel says of the volume.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use foretell_analytic::advise::{ForHints, for_hints};
use foretell_device::{DeviceParameters, catalogue};

use super::effective::Controlled;
use crate::apply::Queue;
use crate::devices::find_device;

/// Where device files of volumes are looked for: `NAME.toml` for the device that the kernel calls NAME.
pub const DEVICE_DIRECTORY: &str = "/var/lib/foretell/devices";

/// What the model has chosen, and by which device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The numbers.
    pub numbers: ForHints,
    /// Whose model it was, for people.
    pub by: String,
}

/// Chooses for blocks of `block_bytes` within `budget_bytes` on the volume that `volume` lies on.
///
/// # Errors
/// A device file that cannot be read; a budget in which nothing can be read ahead.
pub(super) fn choose(
    device: Option<&Path>,
    volume: &Path,
    block_bytes: u32,
    budget_bytes: u64,
) -> Result<Chosen> {
    let (device, by) = device_of(device, volume)?;
    // Half of the budget for what is to come, half for what is kept.
    let numbers = for_hints(&device, block_bytes.into(), budget_bytes / 2)
        .with_context(|| format!("horizon and batch 'auto' with {by}"))?;
    Ok(Chosen { numbers, by })
}

fn device_of(named: Option<&Path>, volume: &Path) -> Result<(DeviceParameters, String)> {
    if let Some(path) = named {
        let device = find_device(&path.to_string_lossy())?;
        let by = format!("the model of {}", device.name);
        return Ok((device, by));
    }
    let found = Queue::of(volume);
    let unknown =
        found.as_ref().err().map(|why| format!("'{}' cannot be looked at ({why})", volume.display()));
    let queue = found.ok();
    if let Some(queue) = &queue {
        let saved = Path::new(DEVICE_DIRECTORY).join(format!("{}.toml", queue.name));
        if saved.exists() {
            let by = format!("the model of {}, from {}", queue.name, saved.display());
            return Ok((find_device(&saved.to_string_lossy())?, by));
        }
    }
    let typical = if queue.as_ref().is_some_and(Queue::is_rotational) { "disk7200" } else { "nvme" };
    let not_calibrated =
        || format!("{} is not calibrated", queue.map_or_else(String::new, |queue| queue.name));
    let by = format!("the model of a typical {typical}, as {}", unknown.unwrap_or_else(not_calibrated));
    Ok((catalogue::find(typical)?, by))
}

/// A path on the volume that is read: where the first rule's files are, else the working directory.
pub(super) fn volume_of(controlled: &[Controlled], working_directory: &Path) -> PathBuf {
    let glob = controlled.iter().flat_map(|c| &c.rules).map(|rule| rule.glob.as_str()).next();
    let Some(glob) = glob else { return working_directory.to_owned() };
    let plain = glob.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
    let there = Path::new(plain).ancestors().find(|path| path.exists());
    there.unwrap_or(working_directory).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_device_decides() {
        let chosen = choose(Some(Path::new("nvme")), Path::new("/"), 4096, 1 << 30).unwrap();
        assert_eq!(chosen.numbers, ForHints { horizon: 64, batch: 49 });
        assert_eq!(chosen.by, "the model of nvme");
        let error = choose(Some(Path::new("nvmee")), Path::new("/"), 4096, 1 << 30).unwrap_err().to_string();
        assert!(error.contains("did you mean \"nvme\"?"), "{error}");
        assert!(choose(Some(Path::new("nvme")), Path::new("/"), 8192, 8192).is_err());
    }

    #[test]
    fn a_volume_that_is_not_known_is_taken_for_a_typical_one() {
        let chosen = choose(None, Path::new("/proc"), 8192, 1 << 30).unwrap();
        assert!(chosen.by.contains("typical nvme, as '/proc' cannot be looked at ("), "{}", chosen.by);
    }

    #[test]
    fn the_volume_is_that_of_the_first_rule() {
        let rule = crate::rule::Rule::parse("/proc/no*such/**=mru").unwrap();
        let controlled = Controlled { process: None, rules: vec![rule], hints: None };
        assert_eq!(volume_of(&[controlled], Path::new("/tmp")), Path::new("/proc"));
        assert_eq!(volume_of(&[], Path::new("/tmp")), Path::new("/tmp"));
    }
}
