//! Where bytes lie on a disk that is read from its outer edge, and when they pass under the head.
//!
//! *The pass* reads the disk from byte 0 on as fast as it can: the tracks of a cylinder one after the other,
//! then the next cylinder, each beginning a *skew* after the end of the one before so that the switch is over
//! just then. `pass_ms(x)` is when it comes to byte x:
//!
//! ```text
//! pass(x) = (x / sector + tracks(x) track_skew + cylinders(x) (cylinder_skew - track_skew)) sector_time
//! ```
//!
//! The platters never stop, so that modulo a revolution the pass is the angle of byte x, and a head that has
//! reached its track at instant t waits `(pass(x) - t) mod revolution`.
//!
//! One zone only, the outermost, as [`crate::costs`] takes the files to lie there.

use foretell_device::DiskParameters;

/// The outer zone of a disk.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Surface {
    sector_bytes: f64,
    sector_ms: f64,
    revolution_ms: f64,
    track_sectors: f64,
    /// Slots from the end of a track to the start of the next in its cylinder; all spare sectors included.
    track_gap: f64,
    /// The same from the last track of a cylinder.
    cylinder_gap: f64,
    heads: f64,
    /// Tracks of the first cylinder that come before the first byte.
    first_track: f64,
    head_switch_ms: f64,
}

impl Surface {
    /// The surface of a disk whose parameters have been checked; `None` without a zone.
    pub(crate) fn of(disk: &DiskParameters) -> Option<Surface> {
        let geometry = &disk.geometry;
        let zone = geometry.zones.first()?;
        let revolution_ms = 60e3 / geometry.rpm;
        let slots = f64::from(zone.sectors_per_track + zone.spare_sectors_per_track);
        // A skew that is too short for the switch costs whole revolutions.
        let gap = |skew: u32, switch_ms: f64| {
            let gap = f64::from(zone.spare_sectors_per_track + skew);
            let late_ms = (switch_ms - gap * revolution_ms / slots).max(0.0);
            // Times are rounded to ns elsewhere: what is late by less than that is not late.
            gap + ((late_ms - 1e-6).max(0.0) / revolution_ms).ceil() * slots
        };
        Some(Surface {
            sector_bytes: f64::from(geometry.sector_bytes),
            sector_ms: revolution_ms / slots,
            revolution_ms,
            track_sectors: f64::from(zone.sectors_per_track),
            track_gap: gap(zone.track_skew, geometry.head_switch_ms),
            cylinder_gap: gap(zone.cylinder_skew, disk.seek.at_ms(1).max(geometry.head_switch_ms)),
            heads: f64::from(geometry.heads),
            first_track: f64::from(zone.first_head),
            head_switch_ms: geometry.head_switch_ms,
        })
    }

    /// Track and cylinder of a byte.
    fn place(&self, byte: f64) -> (f64, f64) {
        let track = (byte / self.sector_bytes / self.track_sectors).floor() + self.first_track;
        (track, (track / self.heads).floor())
    }

    /// When the pass comes to `byte`, in ms.
    pub(crate) fn pass_ms(&self, byte: f64) -> f64 {
        let (track, cylinder) = self.place(byte);
        let in_cylinders = (track - self.first_track - cylinder) * self.track_gap;
        (byte / self.sector_bytes + in_cylinders + cylinder * self.cylinder_gap) * self.sector_ms
    }

    /// How long the sectors from byte `from` to byte `to` take under the head, in ms: without the gap before
    /// a track that `to` only begins.
    pub(crate) fn run_ms(&self, from: f64, to: f64) -> f64 {
        let last = (to - self.sector_bytes).max(from);
        self.pass_ms(last) - self.pass_ms(from) + (to - last) / self.sector_bytes * self.sector_ms
    }

    /// How long after `now_ms` byte `byte` comes by, in ms.
    pub(crate) fn wait_ms(&self, now_ms: f64, byte: f64) -> f64 {
        let wait_ms = (self.pass_ms(byte) - now_ms).rem_euclid(self.revolution_ms);
        // Just there, but for the last digit of a sum.
        if self.revolution_ms - wait_ms < 1e-6 { 0.0 } else { wait_ms }
    }

    /// Bytes of a track.
    pub(crate) fn track_bytes(&self) -> f64 {
        self.track_sectors * self.sector_bytes
    }

    /// Cylinders from one byte to another.
    pub(crate) fn cylinders(&self, from: f64, to: f64) -> f64 {
        (self.place(from).1 - self.place(to).1).abs()
    }

    /// The head switch between two bytes of a cylinder, in ms; 0 on the same track.
    pub(crate) fn switch_ms(&self, from: f64, to: f64) -> f64 {
        if self.place(from).0 == self.place(to).0 { 0.0 } else { self.head_switch_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_device::Tracks;
    use foretell_device::catalogue::find;

    /// The same instants as the disk model's own, whose arithmetic is another: whole ns, a table of zones.
    #[test]
    fn the_pass_is_the_disk_models() {
        for name in ["hp97560", "st34501w", "disk7200", "rz26"] {
            let device = find(name).unwrap();
            let disk = device.disk().unwrap();
            let surface = Surface::of(disk).unwrap();
            let tracks = Tracks::new(&disk.geometry, &disk.seek);
            let start = tracks.pass_start_ns(&tracks.place(0)) as f64 / 1e6;
            for sector in (0..300_000).step_by(997) {
                let theirs = tracks.pass_start_ns(&tracks.place(sector)) as f64 / 1e6 - start;
                let ours = surface.pass_ms(sector as f64 * 512.0) - surface.pass_ms(0.0);
                // They round a revolution to whole ns.
                assert!((theirs - ours).abs() <= 1e-4 + 1e-7 * theirs, "{name} {sector}: {theirs} {ours}");
            }
        }
    }
}
