//! What can be chosen about a slow device, and which values make sense.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Bytes in the MB of `--mb-s` (the unit of disk vendors, not a power of two).
const MB_BYTES: f64 = 1e6;
/// Longest seek or latency: beyond it the kernel reports the device as hung (`hung_task_timeout_secs`
/// is 120 s and a queue holds dozens of requests).
const MAX_DELAY_MS: f64 = 1_000.0;
/// Fastest channel: beyond it the delays are smaller than the cost of serving the request.
const MAX_MB_S: f64 = 100_000.0;
/// Most channels: one thread each.
const MAX_CHANNELS: u32 = 64;
/// Smallest device on which ext4 is still itself.
const MIN_SIZE_BYTES: u64 = 16 << 20;
/// Largest device: what ext4 holds with 4 KiB blocks and 32-bit block numbers.
const MAX_SIZE_BYTES: u64 = 16 << 40;
/// Longest name: it becomes part of a path and of a file system label.
const MAX_NAME_BYTES: usize = 32;

/// The timing of a device; times in nanoseconds, rates in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// Time that every request takes, whatever its size.
    pub latency_ns: u64,
    /// Time added when a request does not begin where the last one on its channel ended.
    pub seek_ns: u64,
    /// How many requests are served at the same time.
    pub channels: u32,
    /// Transfer rate of one channel.
    pub channel_bytes_per_s: u64,
    /// Transfer rate of all channels together; `None` is no limit of its own.
    pub total_bytes_per_s: Option<u64>,
}

impl Timing {
    /// A timing from the units of the command line.
    ///
    /// # Errors
    /// [`Error::BadOption`] names the option whose value is out of range.
    pub fn from_units(
        seek_ms: f64,
        latency_ms: f64,
        channels: u32,
        mb_s: f64,
        total_mb_s: Option<f64>,
    ) -> Result<Self> {
        let delay_ns = |option: &str, ms: f64| {
            if (0.0..=MAX_DELAY_MS).contains(&ms) {
                Ok((ms * 1e6).round() as u64)
            } else {
                Err(bad(option, ms, format!("between 0 and {MAX_DELAY_MS} ms")))
            }
        };
        let rate = |option: &str, mb_s: f64| {
            let bytes_per_s = mb_s * MB_BYTES;
            if bytes_per_s >= 1.0 && mb_s <= MAX_MB_S {
                Ok(bytes_per_s.round() as u64)
            } else {
                Err(bad(option, mb_s, format!("above 0 and at most {MAX_MB_S} MB/s")))
            }
        };
        if !(1..=MAX_CHANNELS).contains(&channels) {
            return Err(bad("--channels", channels, format!("between 1 and {MAX_CHANNELS}")));
        }
        Ok(Self {
            latency_ns: delay_ns("--latency-ms", latency_ms)?,
            seek_ns: delay_ns("--seek-ms", seek_ms)?,
            channels,
            channel_bytes_per_s: rate("--mb-s", mb_s)?,
            total_bytes_per_s: total_mb_s.map(|mb_s| rate("--total-mb-s", mb_s)).transpose()?,
        })
    }

    /// The 8 ms disk: `--seek-ms 8 --mb-s 100 --channels 1`.
    #[must_use]
    pub const fn disk_8ms() -> Self {
        Self {
            latency_ns: 0,
            seek_ns: 8_000_000,
            channels: 1,
            channel_bytes_per_s: 100_000_000,
            total_bytes_per_s: None,
        }
    }

    /// The cloud-like volume: `--latency-ms 1 --channels 8 --mb-s 200 --total-mb-s 250`.
    #[must_use]
    pub const fn cloud_1ms() -> Self {
        Self {
            latency_ns: 1_000_000,
            seek_ns: 0,
            channels: 8,
            channel_bytes_per_s: 200_000_000,
            total_bytes_per_s: Some(250_000_000),
        }
    }
}

/// Where the bytes of the device are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// In memory, only what was written; gone with the device.
    Memory,
    /// In this file, made sparse and as large as the device if it is new or shorter. It is kept when
    /// the device is removed, but formatted anew when it is started.
    File(PathBuf),
}

/// Everything about a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Name, for `down` and for the state directory: lower-case letters, digits, `-`; at most 32 bytes.
    pub name: String,
    /// Absolute path where the ext4 file system is mounted: an empty directory, or a new one, which is
    /// then removed with the device.
    pub mount_point: PathBuf,
    /// Size of the device in bytes, a multiple of 4096.
    pub size_bytes: u64,
    /// How slow it is.
    pub timing: Timing,
    /// Where its bytes are kept.
    pub backing: Backing,
    /// Whether writes take as long as reads; otherwise they are immediate.
    pub slow_writes: bool,
}

impl Options {
    /// A device of this name, mount point, size and timing, in memory, with immediate writes.
    pub fn new(
        name: impl Into<String>,
        mount_point: impl Into<PathBuf>,
        size_bytes: u64,
        timing: Timing,
    ) -> Self {
        Self {
            name: name.into(),
            mount_point: mount_point.into(),
            size_bytes,
            timing,
            backing: Backing::Memory,
            slow_writes: false,
        }
    }

    /// Checks what can be checked without touching the machine.
    ///
    /// # Errors
    /// [`Error::BadOption`] for the first value that no device can have.
    pub fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        if !(MIN_SIZE_BYTES..=MAX_SIZE_BYTES).contains(&self.size_bytes)
            || !self.size_bytes.is_multiple_of(4096)
        {
            return Err(bad(
                "--size",
                self.size_bytes,
                "a multiple of 4096 bytes between 16 MiB and 16 TiB".to_owned(),
            ));
        }
        if !self.mount_point.is_absolute() {
            return Err(bad("the mount point", self.mount_point.display(), "an absolute path".to_owned()));
        }
        if let Backing::File(path) = &self.backing
            && !path.is_absolute()
        {
            return Err(bad("--backing", path.display(), "an absolute path".to_owned()));
        }
        let Timing { channels, channel_bytes_per_s, total_bytes_per_s, .. } = self.timing;
        if !(1..=MAX_CHANNELS).contains(&channels) {
            return Err(bad("--channels", channels, format!("between 1 and {MAX_CHANNELS}")));
        }
        if channel_bytes_per_s == 0 || total_bytes_per_s == Some(0) {
            return Err(bad("--mb-s", 0, "above 0".to_owned()));
        }
        Ok(())
    }

    /// Checks the mount point against the machine: an empty directory or a path that does not exist.
    pub(crate) fn check_mount_point(&self) -> Result<()> {
        check_empty_or_absent(&self.mount_point)
    }
}

/// Checks a device name: it becomes a directory name, so it must not climb out of its parent.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(legal) {
        let expected = format!("1 to {MAX_NAME_BYTES} lower-case letters, digits or `-`");
        return Err(bad("--name", format!("`{name}`"), expected));
    }
    Ok(())
}

fn check_empty_or_absent(path: &Path) -> Result<()> {
    let expected = || "an empty directory or a new path".to_owned();
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => {
                let value = format!("{} (not empty)", path.display());
                Err(bad("the mount point", value, expected()))
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(bad("the mount point", format!("{} ({error})", path.display()), expected())),
    }
}

fn bad(option: &str, value: impl std::fmt::Display, expected: String) -> Error {
    Error::BadOption { option: option.to_owned(), value: value.to_string(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Options {
        Options::new("disk", "/mnt/disk", 64 << 20, Timing::disk_8ms())
    }

    fn refused(options: &Options) -> String {
        match options.check() {
            Err(Error::BadOption { option, .. }) => option,
            other => panic!("expected a bad option, got {other:?}"),
        }
    }

    #[test]
    fn the_two_standard_devices_are_what_their_flags_say() {
        assert_eq!(Timing::from_units(8.0, 0.0, 1, 100.0, None), Ok(Timing::disk_8ms()));
        assert_eq!(Timing::from_units(0.0, 1.0, 8, 200.0, Some(250.0)), Ok(Timing::cloud_1ms()));
    }

    #[test]
    fn values_that_no_device_can_have_are_refused_by_name() {
        let refused = |seek, latency, channels, mb_s, total| match Timing::from_units(
            seek, latency, channels, mb_s, total,
        ) {
            Err(Error::BadOption { option, .. }) => option,
            other => panic!("expected a bad option, got {other:?}"),
        };
        assert_eq!(refused(-1.0, 0.0, 1, 100.0, None), "--seek-ms");
        assert_eq!(refused(f64::NAN, 0.0, 1, 100.0, None), "--seek-ms");
        assert_eq!(refused(0.0, 1e9, 1, 100.0, None), "--latency-ms");
        assert_eq!(refused(0.0, 0.0, 0, 100.0, None), "--channels");
        assert_eq!(refused(0.0, 0.0, 65, 100.0, None), "--channels");
        assert_eq!(refused(0.0, 0.0, 1, 0.0, None), "--mb-s");
        assert_eq!(refused(0.0, 0.0, 1, f64::INFINITY, None), "--mb-s");
        assert_eq!(refused(0.0, 0.0, 1, 100.0, Some(0.0)), "--total-mb-s");
    }

    #[test]
    fn names_sizes_and_paths_are_checked() {
        assert_eq!(good().check(), Ok(()));
        for name in ["", "../x", "a/b", "A", "é", &"a".repeat(33)] {
            assert_eq!(refused(&Options { name: name.to_owned(), ..good() }), "--name");
        }
        for size_bytes in [0, 4096, (64 << 20) + 1, u64::MAX] {
            assert_eq!(refused(&Options { size_bytes, ..good() }), "--size");
        }
        assert_eq!(refused(&Options { mount_point: "mnt".into(), ..good() }), "the mount point");
        let backing = Backing::File("disk.img".into());
        assert_eq!(refused(&Options { backing, ..good() }), "--backing");
    }

    #[test]
    fn a_mount_point_with_files_in_it_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { mount_point: directory.path().to_owned(), ..good() };
        assert_eq!(options.check_mount_point(), Ok(()));
        std::fs::write(directory.path().join("file"), "x").unwrap();
        assert!(matches!(options.check_mount_point(), Err(Error::BadOption { .. })));
    }
}
