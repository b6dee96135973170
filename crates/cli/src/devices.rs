//! A device by name.

use std::fs;

use anyhow::{Context, Result, anyhow};
use foretell_device::{DeviceParameters, catalogue};

/// The largest device file: a disk of a thousand zones is far below it.
const MAX_DEVICE_FILE_BYTES: u64 = 4 << 20;

/// A built-in device by its name, else a file.
pub(crate) fn find_device(name: &str) -> Result<DeviceParameters> {
    let unknown = match catalogue::find(name) {
        Ok(device) => return Ok(device),
        Err(unknown) => unknown,
    };
    let is_other = |m: fs::Metadata| !m.is_file() || m.len() > MAX_DEVICE_FILE_BYTES;
    if fs::metadata(name).is_ok_and(is_other) {
        return Err(anyhow!("--device {name}: no device file; give a TOML file or a built-in device"));
    }
    match fs::read_to_string(name) {
        Ok(text) => DeviceParameters::parse(&text).with_context(|| format!("--device {name}")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(anyhow!("--device: {unknown}")),
        Err(e) => Err(anyhow!("--device {name}: {e}; give a device file or a built-in device")),
    }
}
