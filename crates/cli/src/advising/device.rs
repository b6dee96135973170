//! The device that is reckoned with.
//!
//! One that somebody names is taken as it is. Else the device is made to fit the night that was recorded: the time to the
//! first byte is what the short waits of that night took, and all times are then stretched until the kernel's simulated
//! waiting is what was measured (`forecast`). How many requests it serves at a time and how fast it is at best cannot be
//! seen in such a night, and is assumed.

use anyhow::Result;
use foretell_device::{DeviceParameters, Model, catalogue};
use foretell_recording::{Recording, Way};

use crate::apply::Queue;
use crate::size::human_bytes;

/// Requests of one block at a time: 8 of Linux's readahead windows.
const CHANNELS: u32 = 64;
/// The rate of a volume that nobody has measured, in 10^6 bytes a second.
const LEAST_MB_PER_S: f64 = 250.0;
/// A device does more than what one job gets from it.
const MORE: f64 = 1.5;
/// Below, there is no arm, whatever the kernel believes (of loop devices and virtual disks, say).
const ARM_MS: f64 = 2.5;
/// A sleep below this is no wait for a device.
const LEAST_WAIT_NS: u64 = 20_000;
/// Waits that are looked at.
const WAITS: usize = 1 << 16;
/// The share of the waits that are shorter than what the time to the first byte is taken from: later ones queue.
const SHORT: usize = 4;

/// A device, and where it comes from.
pub(crate) struct Given {
    pub(crate) parameters: DeviceParameters,
    /// In words.
    pub(crate) by: String,
    /// Are its times to be stretched?
    pub(crate) fits: bool,
}

impl Given {
    /// The one that was named, or one that fits.
    pub(super) fn choose(named: Option<&DeviceParameters>, recording: &Recording) -> Result<Given> {
        if let Some(parameters) = named {
            let by = format!("{} as its model says", parameters.name);
            return Ok(Given { parameters: parameters.clone(), by, fits: false });
        }
        let data = recording.accesses.iter().filter(|access| access.way == Way::Read);
        let first = data.clone().next().and_then(|access| recording.file(access.file));
        let queue = first.and_then(|file| Queue::of(&file.path).ok());
        let mut waits: Vec<u64> = data.map(|access| access.waited_ns).take(WAITS).collect();
        waits.retain(|waited| *waited >= LEAST_WAIT_NS);
        waits.sort_unstable();
        let latency_ms = waits.get(waits.len() / SHORT).map_or(0.1, |ns| *ns as f64 / 1e6);
        if latency_ms >= ARM_MS && queue.as_ref().is_some_and(Queue::is_rotational) {
            let by = "a disk made to fit the night that was recorded".to_owned();
            return Ok(Given { parameters: catalogue::find("disk7200")?, by, fits: true });
        }
        let mut parameters = catalogue::find("nvme")?;
        let summary = recording.summary;
        let seen_mb_per_s = summary.device_read_bytes as f64 / (summary.elapsed_ns.max(1) as f64 / 1e3);
        let mb_per_s = LEAST_MB_PER_S.max(MORE * seen_mb_per_s);
        if let Model::Ssd(ssd) = &mut parameters.model {
            ssd.channels = CHANNELS;
            ssd.read_latency_ms = latency_ms;
            ssd.channel_mb_per_s = mb_per_s;
            ssd.total_mb_per_s = mb_per_s;
        }
        let rate = human_bytes((mb_per_s * 1e6) as u64);
        let by =
            format!("a device of {latency_ms:.2} ms and {rate}/s, made to fit the night that was recorded");
        Ok(Given { parameters, by, fits: true })
    }
}
