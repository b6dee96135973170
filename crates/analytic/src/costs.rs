//! What a request costs at a device: `D(b) = o + p pi + b / W`.
//!
//! o is the overhead, pi the positioning, which a share p of the requests pays, and W the rate of one
//! request. Beside that stand the limits of the whole device: requests at a time, bytes and operations a
//! second, and what token buckets have saved up.
//!
//! | device | o | pi | W | limits |
//! | --- | --- | --- | --- | --- |
//! | disk | controller | seek + half a revolution | media, beside the bus | one at a time |
//! | SSD | latency | 0 | a channel | channels, bytes/s, operations/s |
//! | cloud volume | latency | 0 | none of its own | outstanding, token buckets: (N - burst) / rate |
//! | object store | E\[first byte\] | 0 | a connection | connections, network |
//! | measured | tables ([`crate::measured`]) | a constant, or by span | tables | tables, token buckets |
//!
//! The files are taken to lie at the start of the device, one behind the other, as a fresh file system has
//! them: in the outer zones of a disk.

use foretell_device::{DeviceParameters, DiskParameters, Model};

pub use crate::limits::{Limit, LimitKind};
use crate::measured::Measured;
use crate::surface::Surface;

/// A device as the model sees it. Times in ms, rates in bytes/ms.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// o of a request that the device has not read ahead.
    pub overhead_ms: f64,
    /// o of a request that it has.
    pub cached_overhead_ms: f64,
    /// W; infinite if only the whole device has a limit.
    pub bytes_per_ms: f64,
    /// Requests at a time.
    pub slots: f64,
    /// Standard deviation of the logarithm of the overhead; 0 if every request has the same.
    pub overhead_sigma: f64,
    /// What the whole device can do, each with what is saved up for a burst.
    pub limits: Vec<Limit>,
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// The moving parts, if it has any.
    pub arm: Option<Arm>,
    /// Its tables, if it was measured; the numbers above are then a summary of them.
    pub measured: Option<Measured>,
}

/// The moving parts of a disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    disk: DiskParameters,
    /// Where bytes lie; `None` for a geometry without zones, which no checked device has.
    pub(crate) surface: Option<Surface>,
    /// One revolution, in ms.
    pub revolution_ms: f64,
    /// Bytes of a cylinder in the outer zone.
    cylinder_bytes: f64,
    /// The bus, in bytes/ms.
    pub bus_bytes_per_ms: f64,
    /// Sequential streams that the disk reads ahead; 0 if it does not.
    pub segments: u32,
    /// How far it reads ahead, in bytes.
    pub readahead_bytes: f64,
}

impl Costs {
    /// The costs of a device whose files occupy the first bytes of it. Its parameters must have been checked
    /// ([`DeviceParameters::check`]).
    #[must_use]
    pub fn of(device: &DeviceParameters) -> Costs {
        let capacity_bytes = device.capacity_sectors() * u64::from(device.sector_bytes());
        let plain = |latency_ms: f64, bytes_per_ms: f64, slots: u32, limits: Vec<Limit>| Costs {
            overhead_ms: latency_ms,
            cached_overhead_ms: latency_ms,
            bytes_per_ms,
            slots: f64::from(slots),
            overhead_sigma: 0.0,
            limits,
            capacity_bytes,
            arm: None,
            measured: None,
        };
        let bytes = |mb_per_s: f64, burst: u64| Limit {
            kind: LimitKind::Bytes,
            per_ms: mb_per_s * 1e3,
            burst: burst as f64,
        };
        let operations = |per_s: u64, burst: u64| Limit {
            kind: LimitKind::Operations,
            per_ms: per_s as f64 / 1e3,
            burst: burst as f64,
        };
        match &device.model {
            Model::Disk(disk) => of_disk(disk, capacity_bytes),
            Model::Uniform(uniform) => plain(uniform.service_ms, f64::INFINITY, 1, Vec::new()),
            Model::Ssd(ssd) => {
                let limits = vec![operations(ssd.operations_per_s, 0), bytes(ssd.total_mb_per_s, 0)];
                plain(ssd.read_latency_ms, ssd.channel_mb_per_s * 1e3, ssd.channels, limits)
            }
            Model::Volume(volume) => {
                let mut limits = vec![
                    operations(volume.operations_per_s, volume.operations_burst),
                    bytes(volume.mb_per_s, volume.bytes_burst),
                ];
                limits.extend(volume.peak_operations_per_s.map(|peak| operations(peak, 1)));
                plain(volume.latency_ms, f64::INFINITY, volume.outstanding, limits)
            }
            Model::Measured(measured) => {
                let measured = Measured { device: measured.clone(), host: device.host };
                let limits = measured.limits();
                Costs {
                    slots: measured.slots(),
                    ..plain(measured.overhead_ms(), measured.bytes_per_ms(), 1, limits)
                }
                .with_tables(measured)
            }
            Model::ObjectStore(store) => {
                // The mean of a lognormal distribution.
                let first_byte_ms = store.first_byte_median_ms
                    * (store.first_byte_sigma * store.first_byte_sigma / 2.0).exp();
                let limits = vec![bytes(store.network_mb_per_s, 0)];
                let rate = store.connection_mb_per_s * 1e3;
                Costs {
                    overhead_sigma: store.first_byte_sigma,
                    ..plain(first_byte_ms, rate, store.connections, limits)
                }
            }
        }
    }

    fn with_tables(self, measured: Measured) -> Costs {
        Costs { measured: Some(measured), ..self }
    }

    /// The earliest time by which the limits let `operations` requests of together `bytes` pass, in ms, and
    /// what limits.
    #[must_use]
    pub fn limited_ms(&self, operations: f64, bytes: f64) -> (f64, LimitKind) {
        let time = |limit: &Limit| {
            let amount = if limit.kind == LimitKind::Operations { operations } else { bytes };
            ((amount - limit.burst).max(0.0) / limit.per_ms, limit.kind)
        };
        let slowest = self.limits.iter().map(time).max_by(|a, b| a.0.total_cmp(&b.0));
        slowest.unwrap_or((0.0, LimitKind::Bytes))
    }

    /// The overhead that all but one of `requests` stay below, in ms: of so many in flight one is that late,
    /// and whoever needs them in order waits for it.
    #[must_use]
    pub fn latest_overhead_ms(&self, requests: f64) -> f64 {
        if self.overhead_sigma == 0.0 || requests <= 1.0 {
            return self.overhead_ms;
        }
        let median_ms = self.overhead_ms / (self.overhead_sigma * self.overhead_sigma / 2.0).exp();
        let latest_ms = median_ms * (self.overhead_sigma * normal_quantile(1.0 / requests)).exp();
        latest_ms.max(self.overhead_ms)
    }

    /// E\[(o - ms)+\]: how much longer than `ms` a request's overhead takes on average, none where it is shorter,
    /// in ms. The partial expectation of a lognormal distribution.
    #[must_use]
    pub fn mean_beyond_ms(&self, ms: f64) -> f64 {
        if self.overhead_sigma == 0.0 || ms <= 0.0 {
            return (self.overhead_ms - ms).max(0.0);
        }
        let sigma = self.overhead_sigma;
        let median_ms = self.overhead_ms / (sigma * sigma / 2.0).exp();
        let d = ((median_ms / ms).ln() + sigma * sigma) / sigma;
        (self.overhead_ms * normal_share(d) - ms * normal_share(d - sigma)).max(0.0)
    }

    /// The time a reference takes in order when `ahead` references are in flight, each `beside_ms` after its
    /// overhead, and the program computes for `think_ms` on each, in ms.
    ///
    /// A reference is asked for when the one H = `ahead` before it has been computed on, and until its turn H-1
    /// others pass at the pace p: it is waited for as far as it takes longer, p = c + E\[(D - (H-1) p)+\].
    /// Where every request takes the same, that is (D + c) / H.
    #[must_use]
    pub fn pace_ms(&self, ahead: f64, beside_ms: f64, think_ms: f64) -> f64 {
        if self.overhead_sigma == 0.0 {
            return ((self.overhead_ms + beside_ms + think_ms) / ahead).max(think_ms);
        }
        let (mut low, mut high) = (think_ms, think_ms + self.overhead_ms + beside_ms);
        // The right side falls with p: halving finds where the sides meet, to a part in 2^40.
        for _ in 0..40 {
            let p = (low + high) / 2.0;
            let waits_ms = self.mean_beyond_ms((ahead - 1.0) * p - beside_ms);
            // Before its overhead is over nothing of the rest has begun.
            let waits_ms = waits_ms + (beside_ms - (ahead - 1.0) * p).max(0.0);
            if think_ms + waits_ms > p { low = p } else { high = p }
        }
        high
    }

    /// pi of a request somewhere within `span_bytes`, in ms: 0 without moving parts. With `waiting` requests
    /// at a time an elevator goes over them in steps of span/(waiting+1) and then returns.
    #[must_use]
    pub fn positioning_ms(&self, span_bytes: f64, waiting: f64) -> f64 {
        let Some(arm) = &self.arm else { return 0.0 };
        let cylinders = arm.cylinders(span_bytes);
        let seek_ms = if waiting <= 1.0 {
            arm.disk.seek.mean_ms(cylinders.ceil() as u32)
        } else {
            let step = cylinders / (waiting + 1.0);
            ((waiting - 1.0) * arm.seek_ms(step) + arm.seek_ms((waiting - 1.0) * step)) / waiting
        };
        arm.beside_overhead_ms(seek_ms) + arm.revolution_ms / 2.0
    }

    /// pi of each of `streams` sequential reads in files of `file_bytes`, one behind the other, in ms: an
    /// elevator goes from file to file and returns from the last to the first.
    #[must_use]
    pub fn between_files_ms(&self, file_bytes: f64, streams: f64) -> f64 {
        let Some(arm) = &self.arm else { return 0.0 };
        let step = arm.cylinders(file_bytes);
        let return_cylinders = arm.cylinders(file_bytes * (streams - 1.0));
        let seek_ms = ((streams - 1.0) * arm.seek_ms(step) + arm.seek_ms(return_cylinders)) / streams;
        arm.beside_overhead_ms(seek_ms) + arm.revolution_ms / 2.0
    }

    /// pi of a request `gap_bytes` behind the last one and `think_ms` after it, in ms. The platters have
    /// turned on meanwhile, so that this is not a chance: the sequential pass over the gap says where its
    /// sector is.
    #[must_use]
    pub fn skip_ms(&self, gap_bytes: f64, think_ms: f64) -> f64 {
        let Some(arm) = &self.arm else { return 0.0 };
        let seek_ms = arm.beside_overhead_ms(arm.seek_ms(arm.cylinders(gap_bytes).floor()));
        let gap_ms = gap_bytes / self.bytes_per_ms;
        seek_ms + (gap_ms - self.overhead_ms - seek_ms - think_ms).rem_euclid(arm.revolution_ms)
    }
}

/// The share of a normal variable below `z`: formula 26.2.17 of Abramowitz and Stegun 1964, to 7.5e-8.
fn normal_share(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let series =
        0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429)));
    let above = density * t * series;
    if z > 0.0 { 1.0 - above } else { above }
}

/// z such that a normal variable exceeds it with probability `p`, 0 < p <= 0.5: the rational approximation
/// 26.2.23 of Abramowitz and Stegun 1964, to 0.00045.
fn normal_quantile(p: f64) -> f64 {
    let t = (-2.0 * p.min(0.5).ln()).sqrt();
    let numerator = 2.515517 + t * (0.802853 + t * 0.010328);
    t - numerator / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
}

impl Arm {
    fn cylinders(&self, bytes: f64) -> f64 {
        (bytes / self.cylinder_bytes).min(f64::from(self.disk.geometry.cylinders))
    }

    /// What a seek adds to the controller's overhead.
    pub(crate) fn beside_overhead_ms(&self, seek_ms: f64) -> f64 {
        let controller = &self.disk.controller;
        if controller.overlaps_arm { (seek_ms - controller.read_miss_ms).max(0.0) } else { seek_ms }
    }

    pub(crate) fn seek_ms(&self, cylinders: f64) -> f64 {
        let near = self.disk.seek.at_ms(cylinders.floor() as u32);
        near + cylinders.fract() * (self.disk.seek.at_ms(cylinders.floor() as u32 + 1) - near)
    }
}

fn of_disk(disk: &DiskParameters, capacity_bytes: u64) -> Costs {
    let geometry = &disk.geometry;
    let revolution_ms = 60e3 / geometry.rpm;
    let track_bytes =
        geometry.zones.first().map_or(0.0, |zone| f64::from(zone.sectors_per_track * geometry.sector_bytes));
    // A checked geometry has a first zone; without one the whole capacity passes in a revolution.
    let media =
        geometry.sequential_bytes_per_s(0, &disk.seek).map_or(capacity_bytes as f64, |rate| rate / 1e3);
    let reads_ahead = disk.cache.readahead_bytes > 0;
    Costs {
        overhead_ms: disk.controller.read_miss_ms,
        cached_overhead_ms: disk.controller.read_hit_ms,
        bytes_per_ms: media,
        slots: 1.0,
        overhead_sigma: 0.0,
        limits: Vec::new(),
        capacity_bytes,
        measured: None,
        arm: Some(Arm {
            disk: disk.clone(),
            surface: Surface::of(disk),
            revolution_ms,
            cylinder_bytes: track_bytes * f64::from(geometry.heads),
            bus_bytes_per_ms: disk.controller.bus_mb_per_s * 1e3,
            segments: if reads_ahead { disk.cache.segments } else { 0 },
            // What is further ahead would overwrite what is nearer.
            readahead_bytes: disk.cache.readahead_bytes.min(disk.cache.segment_bytes) as f64,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::catalogue::find;

    #[test]
    fn bursts_are_spent_before_the_rate_counts() {
        let costs = Costs::of(&find("cloud-volume").unwrap());
        // 3000 operations/s after 300; 125 MB/s after 12.5 MB.
        assert_eq!(costs.limited_ms(300.0, 0.0).0, 0.0);
        assert_eq!(costs.limited_ms(3300.0, 0.0), (1000.0, LimitKind::Operations));
        assert_eq!(costs.limited_ms(1.0, 137.5e6), (1000.0, LimitKind::Bytes));
    }

    #[test]
    fn an_object_store_costs_the_mean_of_its_first_byte() {
        let costs = Costs::of(&find("object-store").unwrap());
        assert!((costs.overhead_ms - 30.0 * 0.125f64.exp()).abs() < 1e-9);
        assert_eq!(costs.positioning_ms(1e9, 1.0), 0.0);
    }

    #[test]
    fn of_forty_requests_one_takes_two_standard_deviations() {
        assert!((normal_quantile(0.025) - 1.95996).abs() < 5e-4);
        let costs = Costs::of(&find("object-store").unwrap());
        assert!((costs.latest_overhead_ms(40.0) - 30.0 * (0.5f64 * 1.95996).exp()).abs() < 0.05);
        assert_eq!(costs.latest_overhead_ms(1.0), costs.overhead_ms);
    }

    #[test]
    fn what_is_beyond_a_time_is_the_rest_of_the_mean() {
        let costs = Costs::of(&find("object-store").unwrap());
        assert!((costs.mean_beyond_ms(0.0) - costs.overhead_ms).abs() < 1e-9);
        // Numerically, over 200 thousand parts of the distribution.
        for ms in [10.0, 34.0, 80.0] {
            let parts = 200_000;
            let numeric: f64 = (0..parts)
                .map(|i| {
                    let p = (f64::from(i) + 0.5) / f64::from(parts);
                    let z = if p > 0.5 { normal_quantile(1.0 - p) } else { -normal_quantile(p) };
                    (30.0 * (0.5 * z).exp() - ms).max(0.0) / f64::from(parts)
                })
                .sum();
            assert!((costs.mean_beyond_ms(ms) - numeric).abs() < 0.01, "{ms}: {numeric}");
        }
        let nvme = Costs::of(&find("nvme").unwrap());
        assert!((nvme.pace_ms(4.0, 0.005, 0.0) - 0.02).abs() < 1e-12);
        // Enough ahead, and only the computation is left.
        assert!((costs.pace_ms(1000.0, 0.1, 5.0) - 5.0).abs() < 1e-6);
    }

    #[test]
    fn an_elevator_shortens_seeks_but_not_rotation() {
        let costs = Costs::of(&find("hp97560").unwrap());
        let half_ms = costs.arm.as_ref().unwrap().revolution_ms / 2.0;
        let (alone, sorted) = (costs.positioning_ms(1e9, 1.0), costs.positioning_ms(1e9, 64.0));
        assert!(half_ms < sorted && sorted < alone, "{half_ms} {sorted} {alone}");
    }
}
