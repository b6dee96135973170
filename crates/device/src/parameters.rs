//! The parameters of a device, as plain data: what a device file says, and what a closed-form model reads.
//!
//! A file is TOML with a `name`, a `description`, a `source` for its numbers, the `driver_ns` of the machine that it
//! is used in ([`DeviceParameters::driver_time_ns`]), and exactly one of the tables
//! `[disk]`, `[uniform]`, `[ssd]`, `[volume]`, `[object_store]` and `[measured]`. Numbers that nobody could check are
//! listed as `[[unverified]]` with the reason. A disk may have `[seek_variants.NAME]`: other seek curves
//! published for the same drive, chosen as `DEVICE/NAME`. The files of the built-in devices
//! ([`crate::catalogue`]) are examples of each.
//!
//! Times are in ms and rates in 10^6 bytes a second because data sheets and papers print them so.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::geometry::Geometry;
use crate::measured::{Host, MeasuredParameters};
use crate::seek::SeekCurve;

/// A device: its model and where its numbers come from.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceParameters {
    /// Short name, as on the command line.
    pub name: String,
    /// What it is, in a line.
    pub description: String,
    /// Where the numbers come from; each number's own source is a comment beside it in the file.
    pub source: String,
    /// Numbers that could not be checked against a measurement or a data sheet.
    pub unverified: Vec<Unverified>,
    /// Other seek curves for a disk, by name.
    pub seek_variants: BTreeMap<String, SeekVariant>,
    /// The processor's part of reads, where the device was measured.
    pub host: Option<Host>,
    /// Processor time of a fetch in ns, as the file says; see [`DeviceParameters::driver_time_ns`].
    pub driver_ns: Option<u64>,
    /// The numbers.
    pub model: Model,
}

/// A parameter whose value is an assumption.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unverified {
    /// The field, for example `disk.geometry.zones`.
    pub field: String,
    /// Why it is not certain, and what it was taken from.
    pub reason: String,
}

/// Another seek curve of the same disk.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekVariant {
    /// Where it comes from.
    pub source: String,
    /// The curve.
    pub seek: SeekCurve,
}

/// The kinds of device.
#[derive(Debug, Clone, PartialEq)]
pub enum Model {
    /// Arm and platters.
    Disk(DiskParameters),
    /// The same time for every request.
    Uniform(UniformParameters),
    /// Flash with channels.
    Ssd(SsdParameters),
    /// A network volume limited by token buckets.
    Volume(VolumeParameters),
    /// An object store over connections.
    ObjectStore(ObjectStoreParameters),
    /// Anything, as it was found to behave.
    Measured(MeasuredParameters),
}

/// A mechanical disk.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskParameters {
    /// Platters and heads.
    pub geometry: Geometry,
    /// Arm.
    pub seek: SeekCurve,
    /// Controller and bus.
    pub controller: Controller,
    /// The disk's own cache.
    pub cache: DiskCache,
}

/// The controller of a disk and its bus.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Overhead of a read that goes to the platters, in ms.
    pub read_miss_ms: f64,
    /// Overhead of a read from the disk's cache, in ms.
    pub read_hit_ms: f64,
    /// Overhead of a write, in ms.
    pub write_ms: f64,
    /// Whether the arm moves while the controller is still at its overhead. The heads read nothing before
    /// both are done.
    pub overlaps_arm: bool,
    /// The bus to the host, in 10^6 bytes a second.
    pub bus_mb_per_s: f64,
}

/// The cache in a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskCache {
    /// Sequential streams that it keeps apart.
    pub segments: u32,
    /// Bytes in a segment.
    pub segment_bytes: u64,
    /// How far it reads ahead past a request, in bytes; 0 switches the cache off.
    pub readahead_bytes: u64,
    /// Bytes of writes that may be in the cache at a time: writes are reported done as soon as they are there. 0
    /// for none.
    #[serde(default)]
    pub write_fence_bytes: u64,
    /// How many such writes, not following each other, may be in the cache at a time; 1 unless said.
    #[serde(default = "one_segment")]
    pub write_segments: u32,
}

/// One write segment, as in the drives of the 1990s (DiskSim's parameters of six of them).
fn one_segment() -> u32 {
    1
}

/// A device that takes the same time for every request, one at a time: the theoretical model's F.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniformParameters {
    /// F, in ms.
    pub service_ms: f64,
    /// Bytes that it holds.
    pub capacity_bytes: u64,
}

/// A solid state disk.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdParameters {
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Requests that it works on at a time.
    pub channels: u32,
    /// Until the first byte of a read, in ms.
    pub read_latency_ms: f64,
    /// The same of a write, in ms.
    pub write_latency_ms: f64,
    /// Rate of one request, in 10^6 bytes a second.
    pub channel_mb_per_s: f64,
    /// Rate of all together, in 10^6 bytes a second.
    pub total_mb_per_s: f64,
    /// Operations a second, at most.
    pub operations_per_s: u64,
}

/// A cloud volume.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeParameters {
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Requests that it works on at a time.
    pub outstanding: u32,
    /// Time of a request that has its tokens, in ms.
    pub latency_ms: f64,
    /// Operations a second that it sustains.
    pub operations_per_s: u64,
    /// Operations that can be saved up for a burst.
    pub operations_burst: u64,
    /// The rate during a burst, where it is limited.
    #[serde(default)]
    pub peak_operations_per_s: Option<u64>,
    /// Rate that it sustains, in 10^6 bytes a second.
    pub mb_per_s: f64,
    /// Bytes that can be saved up for a burst.
    pub bytes_burst: u64,
}

/// An object store.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectStoreParameters {
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Connections, each with one request at a time.
    pub connections: u32,
    /// Median time to the first byte, in ms.
    pub first_byte_median_ms: f64,
    /// Standard deviation of the logarithm of that time.
    pub first_byte_sigma: f64,
    /// Rate of a connection, in 10^6 bytes a second.
    pub connection_mb_per_s: f64,
    /// Rate of the network for all connections together, in 10^6 bytes a second.
    pub network_mb_per_s: f64,
}

/// Sector size of the devices without platters.
const FLAT_SECTOR_BYTES: u32 = 512;

/// Processor time of a fetch where neither the file nor a measurement says it, in ns: what a machine of today
/// takes to ask for a block (6 us, measured with `readahead(2)` on Linux 6.18) and to be told that it is there
/// (4 us, assumed).
const DRIVER_NS: u64 = 10_000;

impl DeviceParameters {
    /// The theoretical device: every fetch takes `service_ms`, one at a time.
    #[must_use]
    pub fn uniform(service_ms: f64, capacity_bytes: u64) -> DeviceParameters {
        DeviceParameters {
            name: "uniform".to_owned(),
            description: format!("every request takes {service_ms} ms, one at a time"),
            source: "given".to_owned(),
            unverified: Vec::new(),
            seek_variants: BTreeMap::new(),
            host: None,
            driver_ns: None,
            model: Model::Uniform(UniformParameters { service_ms, capacity_bytes }),
        }
    }

    /// Processor time that the machine around the device spends on a fetch, in ns: what the file says, else
    /// what was measured for a request ([`Host::submit_us`]), else that of a machine of today.
    #[must_use]
    pub fn driver_time_ns(&self) -> u64 {
        let measured = self.host.map(|host| (host.submit_us * 1e3).round() as u64);
        self.driver_ns.or(measured).unwrap_or(DRIVER_NS)
    }

    /// Bytes in a sector.
    #[must_use]
    pub fn sector_bytes(&self) -> u32 {
        match &self.model {
            Model::Disk(disk) => disk.geometry.sector_bytes,
            _ => FLAT_SECTOR_BYTES,
        }
    }

    /// Sectors that hold data.
    #[must_use]
    pub fn capacity_sectors(&self) -> u64 {
        let bytes = match &self.model {
            Model::Disk(disk) => return disk.geometry.capacity_sectors(),
            Model::Uniform(uniform) => uniform.capacity_bytes,
            Model::Ssd(ssd) => ssd.capacity_bytes,
            Model::Volume(volume) => volume.capacity_bytes,
            Model::ObjectStore(store) => store.capacity_bytes,
            Model::Measured(measured) => measured.capacity_bytes,
        };
        bytes / u64::from(FLAT_SECTOR_BYTES)
    }

    /// The disk's parameters, if it is one.
    #[must_use]
    pub fn disk(&self) -> Option<&DiskParameters> {
        match &self.model {
            Model::Disk(disk) => Some(disk),
            _ => None,
        }
    }

    /// The same disk with the seek curve named `variant`; `None` if it has none of that name.
    #[must_use]
    pub fn with_seek_variant(&self, variant: &str) -> Option<DeviceParameters> {
        let seek = self.seek_variants.get(variant)?.seek;
        let mut changed = self.clone();
        changed.name = format!("{}/{variant}", self.name);
        if let Model::Disk(disk) = &mut changed.model {
            disk.seek = seek;
        }
        Some(changed)
    }
}

impl DiskParameters {
    /// The mean seek over two cylinders drawn independently and uniformly, in ms.
    #[must_use]
    pub fn mean_seek_ms(&self) -> f64 {
        self.seek.mean_ms(self.geometry.cylinders)
    }

    /// The mean wait for a sector, in ms: half a revolution.
    #[must_use]
    pub fn mean_rotation_ms(&self) -> f64 {
        30e3 / self.geometry.rpm
    }
}
