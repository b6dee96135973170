//! Reading a device file, and what can be wrong with one.

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;

use crate::geometry::{Geometry, Zone};
use crate::measured::{Cap, Host, MeasuredParameters};
use crate::parameters::{
    Controller, DeviceParameters, DiskCache, DiskParameters, Model, ObjectStoreParameters, SeekVariant,
    SsdParameters, UniformParameters, Unverified, VolumeParameters,
};
use crate::seek::SeekCurve;

/// The longest sequential pass over a disk, in ns x sectors a track: it is counted in 64 bits, and the clock
/// of a simulation needs its share. A drive of 30 TB stays below a tenth of it.
const MAX_PASS: f64 = 4e18;

/// The most cylinders: a seek curve is checked over all its distances.
const MAX_CYLINDERS: u32 = 4_000_000;

/// The most points of a measured table; a lookup goes over them.
const MAX_SERVICE_POINTS: u64 = 64;

/// The most channels, connections or outstanding requests of a device.
const MAX_SLOTS: u32 = 65_536;

/// The most cache segments of a disk; each read looks at all of them.
const MAX_SEGMENTS: u32 = 256;

/// The largest write cache, in bytes: all that waits in it is looked at for every request.
const MAX_WRITE_CACHE_BYTES: u64 = 1 << 30;

/// The longest processor time of a fetch, in ns: a second.
const MAX_DRIVER_NS: u64 = 1_000_000_000;

/// The longest time that a parameter may give, in ms: an hour.
const MAX_MS: f64 = 3_600_000.0;

/// What is wrong with a device file. The caller adds the file's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParameterError {
    /// Not TOML, or not a device file: a field is missing, unknown or of the wrong type.
    #[error("line {line}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A number that no device can have.
    #[error("{}{}: {problem}", line.map(|l| format!("line {l}: ")).unwrap_or_default(), .field.escape_debug())]
    Value {
        /// The field's path, for example `disk.geometry.zones[0].track_skew`.
        field: String,
        /// Its line, from 1, if it stands in the file.
        line: Option<usize>,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// Not exactly one device table.
    #[error(
        "{found} device tables: give exactly one of [disk], [uniform], [ssd], [volume], [object_store], [measured]"
    )]
    Tables {
        /// How many there are.
        found: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    name: String,
    description: String,
    source: String,
    driver_ns: Option<u64>,
    #[serde(default)]
    unverified: Vec<Unverified>,
    #[serde(default)]
    seek_variants: BTreeMap<String, SeekVariant>,
    disk: Option<DiskParameters>,
    uniform: Option<UniformParameters>,
    ssd: Option<SsdParameters>,
    volume: Option<VolumeParameters>,
    object_store: Option<ObjectStoreParameters>,
    measured: Option<MeasuredParameters>,
    host: Option<Host>,
}

impl DeviceParameters {
    /// Reads a device file's text.
    ///
    /// # Errors
    ///
    /// [`ParameterError`], with the line and the field where they are known.
    pub fn parse(text: &str) -> Result<DeviceParameters, ParameterError> {
        let file: DeviceFile = toml::from_str(text).map_err(|e| ParameterError::Syntax {
            line: e.span().map_or(1, |span| line_at(text, span.start)),
            // The parser's messages may have several lines, and quote keys that have.
            message: e.message().split_whitespace().collect::<Vec<_>>().join(" "),
        })?;
        let models: Vec<Model> = [
            file.disk.map(Model::Disk),
            file.uniform.map(Model::Uniform),
            file.ssd.map(Model::Ssd),
            file.volume.map(Model::Volume),
            file.object_store.map(Model::ObjectStore),
            file.measured.map(Model::Measured),
        ]
        .into_iter()
        .flatten()
        .collect();
        let found = models.len();
        let Ok([model]) = <[Model; 1]>::try_from(models) else {
            return Err(ParameterError::Tables { found });
        };
        let parameters = DeviceParameters {
            name: file.name,
            description: file.description,
            source: file.source,
            unverified: file.unverified,
            seek_variants: file.seek_variants,
            host: file.host,
            driver_ns: file.driver_ns,
            model,
        };
        parameters.check().map_err(|error| match error {
            ParameterError::Value { field, problem, .. } => {
                ParameterError::Value { line: line_of(text, &field), field, problem }
            }
            other => other,
        })?;
        Ok(parameters)
    }

    /// Checks numbers that were not read from a file.
    ///
    /// # Errors
    ///
    /// [`ParameterError::Value`] for the first number that no device can have.
    pub fn check(&self) -> Result<(), ParameterError> {
        if let Some(host) = &self.host {
            check_host(host)?;
        }
        whole("driver_ns", self.driver_ns.unwrap_or(0), 0, MAX_DRIVER_NS)?;
        match &self.model {
            Model::Disk(disk) => {
                check_geometry(&disk.geometry)?;
                check_seek("disk.seek", &disk.seek, disk.geometry.cylinders)?;
                check_pass(disk)?;
                check_controller(&disk.controller)?;
                check_cache(&disk.cache, disk.geometry.sector_bytes)?;
                for (name, variant) in &self.seek_variants {
                    let field = format!("seek_variants.{name}.seek");
                    check_seek(&field, &variant.seek, disk.geometry.cylinders)?;
                }
                Ok(())
            }
            Model::Uniform(uniform) => {
                time("uniform.service_ms", uniform.service_ms)?;
                capacity("uniform.capacity_bytes", uniform.capacity_bytes)
            }
            Model::Ssd(ssd) => {
                capacity("ssd.capacity_bytes", ssd.capacity_bytes)?;
                slots("ssd.channels", ssd.channels)?;
                time("ssd.read_latency_ms", ssd.read_latency_ms)?;
                time("ssd.write_latency_ms", ssd.write_latency_ms)?;
                rate("ssd.channel_mb_per_s", ssd.channel_mb_per_s)?;
                rate("ssd.total_mb_per_s", ssd.total_mb_per_s)?;
                at_least_one("ssd.operations_per_s", ssd.operations_per_s)
            }
            Model::Volume(volume) => {
                capacity("volume.capacity_bytes", volume.capacity_bytes)?;
                slots("volume.outstanding", volume.outstanding)?;
                time("volume.latency_ms", volume.latency_ms)?;
                at_least_one("volume.operations_per_s", volume.operations_per_s)?;
                at_least_one("volume.peak_operations_per_s", volume.peak_operations_per_s.unwrap_or(1))?;
                rate("volume.mb_per_s", volume.mb_per_s)
            }
            Model::ObjectStore(store) => {
                capacity("object_store.capacity_bytes", store.capacity_bytes)?;
                slots("object_store.connections", store.connections)?;
                time("object_store.first_byte_median_ms", store.first_byte_median_ms)?;
                // Beyond 3, one request in a thousand takes 10,000 times the median.
                range("object_store.first_byte_sigma", store.first_byte_sigma, 0.0, 3.0)?;
                rate("object_store.connection_mb_per_s", store.connection_mb_per_s)?;
                rate("object_store.network_mb_per_s", store.network_mb_per_s)
            }
            Model::Measured(measured) => check_measured(measured),
        }
    }
}

fn value(field: &str, problem: impl Into<String>) -> ParameterError {
    ParameterError::Value { field: field.to_owned(), line: None, problem: problem.into() }
}

fn range(field: &str, number: f64, least: f64, most: f64) -> Result<(), ParameterError> {
    if number >= least && number <= most {
        return Ok(());
    }
    Err(value(field, format!("{number} is not between {least} and {most}")))
}

fn time(field: &str, ms: f64) -> Result<(), ParameterError> {
    range(field, ms, 0.0, MAX_MS)
}

/// Slower than a byte a second is a mistake; faster than 10^15 bytes a second is one, too.
fn rate(field: &str, mb_per_s: f64) -> Result<(), ParameterError> {
    range(field, mb_per_s, 1e-6, 1e9)
}

fn whole(field: &str, number: u64, least: u64, most: u64) -> Result<(), ParameterError> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(value(field, format!("{number} is not between {least} and {most}")))
}

fn at_least_one(field: &str, number: u64) -> Result<(), ParameterError> {
    if number >= 1 { Ok(()) } else { Err(value(field, "must be at least 1")) }
}

fn slots(field: &str, number: u32) -> Result<(), ParameterError> {
    whole(field, u64::from(number), 1, u64::from(MAX_SLOTS))
}

fn capacity(field: &str, bytes: u64) -> Result<(), ParameterError> {
    if bytes >= 4096 {
        Ok(())
    } else {
        Err(value(field, format!("{bytes} is less than one page of 4096 bytes")))
    }
}

fn check_measured(measured: &MeasuredParameters) -> Result<(), ParameterError> {
    capacity("measured.capacity_bytes", measured.capacity_bytes)?;
    slots("measured.outstanding", measured.outstanding)?;
    time("measured.positioning_ms", measured.positioning_ms)?;
    time("measured.near_positioning_ms", measured.near_positioning_ms.unwrap_or(0.0))?;
    time("measured.busy_positioning_ms", measured.busy_positioning_ms)?;
    whole("measured.service", measured.service.len() as u64, 1, MAX_SERVICE_POINTS)?;
    let mut before = 0;
    for (i, point) in measured.service.iter().enumerate() {
        let at = |field: &str| format!("measured.service[{i}].{field}");
        if point.bytes <= before {
            return Err(value(
                &at("bytes"),
                format!("{} does not follow {before}: sizes ascend", point.bytes),
            ));
        }
        before = point.bytes;
        time(&at("alone_ms"), point.alone_ms)?;
        time(&at("busy_ms"), point.busy_ms)?;
    }
    for (field, cap) in [("operations", measured.operations), ("bytes", measured.bytes)] {
        if let Some(Cap { per_s, .. }) = cap {
            at_least_one(&format!("measured.{field}.per_s"), per_s)?;
        }
    }
    Ok(())
}

fn check_host(host: &Host) -> Result<(), ParameterError> {
    time("host.read_us", host.read_us / 1e3)?;
    rate("host.copy_mb_per_s", host.copy_mb_per_s)?;
    rate("host.fill_mb_per_s", host.fill_mb_per_s)?;
    time("host.submit_us", host.submit_us / 1e3)?;
    time("host.wait_us", host.wait_us / 1e3)?;
    time("host.direct_us", host.direct_us / 1e3)?;
    host.ahead_mb_per_s.map_or(Ok(()), |ahead| rate("host.ahead_mb_per_s", ahead))?;
    capacity("host.max_request_bytes", host.max_request_bytes)?;
    slots("host.processors", host.processors)
}

fn check_geometry(geometry: &Geometry) -> Result<(), ParameterError> {
    let at = |field: &str| format!("disk.geometry.{field}");
    let Geometry { sector_bytes, cylinders, heads, rpm, head_switch_ms, zones } = geometry;
    whole(&at("sector_bytes"), u64::from(*sector_bytes), 128, 65_536)?;
    whole(&at("cylinders"), u64::from(*cylinders), 1, u64::from(MAX_CYLINDERS))?;
    whole(&at("heads"), u64::from(*heads), 1, 256)?;
    range(&at("rpm"), *rpm, 60.0, 100_000.0)?;
    time(&at("head_switch_ms"), *head_switch_ms)?;
    if zones.is_empty() {
        return Err(value(&at("zones"), "there must be at least one"));
    }
    let mut free = (0, 0);
    for (i, zone) in zones.iter().enumerate() {
        free = check_zone(&at(&format!("zones[{i}]")), zone, geometry, free)?;
    }
    Ok(())
}

/// Checks that the instants of the sequential pass can be counted.
fn check_pass(disk: &DiskParameters) -> Result<(), ParameterError> {
    let Geometry { cylinders, heads, rpm, head_switch_ms, ref zones, .. } = disk.geometry;
    // A track takes at most two revolutions and the switch, rounded up to a revolution.
    let track_ns = 3.0 * 60e9 / rpm + 1e6 * head_switch_ms.max(disk.seek.at_ms(1));
    let widest = zones.iter().map(|z| z.sectors_per_track + z.spare_sectors_per_track).max().unwrap_or(1);
    let pass = f64::from(cylinders) * f64::from(heads) * track_ns * f64::from(widest);
    if pass <= MAX_PASS {
        return Ok(());
    }
    Err(value(
        "disk.geometry.zones",
        "the disk is too large or too slow for its time to be counted in 64 bits",
    ))
}

/// Checks a zone that must not begin before track `free` (cylinder, head); gives the track after it.
fn check_zone(
    path: &str,
    zone: &Zone,
    geometry: &Geometry,
    free: (u32, u32),
) -> Result<(u32, u32), ParameterError> {
    let at = |field: &str| format!("{path}.{field}");
    let last_head = zone.last_head.unwrap_or(geometry.heads - 1);
    if zone.last_cylinder >= geometry.cylinders {
        let problem =
            format!("{} on a disk with cylinders 0 to {}", zone.last_cylinder, geometry.cylinders - 1);
        return Err(value(&at("last_cylinder"), problem));
    }
    for (field, head) in [("first_head", zone.first_head), ("last_head", last_head)] {
        if head >= geometry.heads {
            let problem = format!("{head} on a disk with heads 0 to {}", geometry.heads - 1);
            return Err(value(&at(field), problem));
        }
    }
    if (zone.last_cylinder, last_head) < (zone.first_cylinder, zone.first_head) {
        return Err(value(&at("last_cylinder"), "the zone ends before it begins"));
    }
    if (zone.first_cylinder, zone.first_head) < free {
        return Err(value(&at("first_cylinder"), "the zone begins before the end of the one above it"));
    }
    whole(&at("sectors_per_track"), u64::from(zone.sectors_per_track), 1, 1_000_000)?;
    whole(&at("spare_sectors_per_track"), u64::from(zone.spare_sectors_per_track), 0, 1_000_000)?;
    let slots = u64::from(zone.sectors_per_track + zone.spare_sectors_per_track);
    whole(&at("track_skew"), u64::from(zone.track_skew), 0, slots)?;
    whole(&at("cylinder_skew"), u64::from(zone.cylinder_skew), 0, slots)?;
    Ok(if last_head + 1 == geometry.heads {
        (zone.last_cylinder + 1, 0)
    } else {
        (zone.last_cylinder, last_head + 1)
    })
}

fn check_seek(path: &str, seek: &SeekCurve, cylinders: u32) -> Result<(), ParameterError> {
    if seek.long.is_some() != seek.short_until_cylinders.is_some() {
        return Err(value(path, "give both short_until_cylinders and long, or neither"));
    }
    if let Some(distance) = seek.first_fall(cylinders) {
        let problem = format!(
            "{} ms over {distance} cylinders: a seek must take 0 ms or more and no less than a shorter one",
            seek.at_ms(distance)
        );
        return Err(value(path, problem));
    }
    time(path, seek.at_ms(cylinders.saturating_sub(1)))
}

fn check_controller(controller: &Controller) -> Result<(), ParameterError> {
    let Controller { read_miss_ms, read_hit_ms, write_ms, bus_mb_per_s, overlaps_arm: _ } = *controller;
    time("disk.controller.read_miss_ms", read_miss_ms)?;
    time("disk.controller.read_hit_ms", read_hit_ms)?;
    time("disk.controller.write_ms", write_ms)?;
    rate("disk.controller.bus_mb_per_s", bus_mb_per_s)
}

fn check_cache(cache: &DiskCache, sector_bytes: u32) -> Result<(), ParameterError> {
    whole("disk.cache.segments", u64::from(cache.segments), 1, u64::from(MAX_SEGMENTS))?;
    // 2^40 bytes of cache in a disk is a mistake in the unit.
    whole("disk.cache.segment_bytes", cache.segment_bytes, u64::from(sector_bytes), 1 << 40)?;
    whole("disk.cache.readahead_bytes", cache.readahead_bytes, 0, 1 << 40)?;
    whole("disk.cache.write_segments", u64::from(cache.write_segments), 1, u64::from(MAX_SEGMENTS))?;
    whole("disk.cache.write_fence_bytes", cache.write_fence_bytes, 0, MAX_WRITE_CACHE_BYTES)
}

/// The line, from 1, of the byte at `offset`.
fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&b| b == b'\n').count()
}

/// The line of a field, found by its table and key, or of the nearest table around it that has a header.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let mut best = None;
    let mut table = String::new();
    let mut entries: BTreeMap<String, usize> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let key = if let Some(name) = line.strip_prefix("[[").and_then(|l| l.split("]]").next()) {
            let entry = entries.entry(name.to_owned()).or_insert(0);
            table = format!("{name}[{entry}]");
            *entry += 1;
            table.clone()
        } else if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            name.clone_into(&mut table);
            table.clone()
        } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            if table.is_empty() { key.trim().to_owned() } else { format!("{table}.{}", key.trim()) }
        } else {
            continue;
        };
        let around =
            field.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        if around && best.is_none_or(|(length, _)| key.len() > length) {
            best = Some((key.len(), number + 1));
        }
    }
    best.map(|(_, line)| line)
}
