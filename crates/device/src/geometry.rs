//! Where a sector is on the platters, and when it passes under a head.
//!
//! # The sequential pass
//!
//! Everything about rotation follows from one function. Imagine a pass that reads the whole disk from
//! sector 0 to the last one as fast as the mechanism allows. `pass_start_ns(s)` is when sector s begins to
//! pass under its head. Then
//!
//! - the angle of sector s is `pass_start_ns(s)` modulo one revolution, because the platters never stop;
//! - sectors a to b are read, once the head is at a, in `pass_end_ns(b) - pass_start_ns(a)`;
//! - readahead that has been at sector a at some instant is at sector b that much later.
//!
//! *Skew* is part of it by construction: the first sector of a track lies some sectors further round than
//! the end of the track before, so that the head switch (or the seek to the next cylinder) is over just
//! when it comes by. Where the skew is too small for the switch, the pass loses whole revolutions, as a
//! real drive does.
//!
//! # Zones
//!
//! A [`Zone`] is a run of tracks with the same number of sectors: the zones of a zoned drive, and also the
//! data regions between spare areas (the HP 97560 has three). Inside a zone, slots (sector times) are
//! counted: the track of cylinder c and head h starts at slot `c cylinder_step + h track_step`. So a
//! sector is found, and its time known, with four divisions of small integers and no table.

use serde::Deserialize;

use crate::seek::SeekCurve;

/// The platters of a disk as its maker describes them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Bytes in a sector.
    pub sector_bytes: u32,
    /// Cylinders, spare ones included.
    pub cylinders: u32,
    /// Data heads, which is tracks in a cylinder.
    pub heads: u32,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Time to switch to another head of the same cylinder, in ms.
    pub head_switch_ms: f64,
    /// The tracks with data, in order of their sectors.
    pub zones: Vec<Zone>,
}

/// A run of tracks with the same number of sectors each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Cylinder of the first track.
    pub first_cylinder: u32,
    /// Head of the first track.
    #[serde(default)]
    pub first_head: u32,
    /// Cylinder of the last track.
    pub last_cylinder: u32,
    /// Head of the last track; the last head of all if left out.
    #[serde(default)]
    pub last_head: Option<u32>,
    /// Data sectors on a track.
    pub sectors_per_track: u32,
    /// Spare sectors at the end of every track: they take time under the head and hold no data.
    #[serde(default)]
    pub spare_sectors_per_track: u32,
    /// Sectors by which a track's start lies behind the end of the track before it.
    pub track_skew: u32,
    /// The same from the last track of a cylinder to the first of the next.
    pub cylinder_skew: u32,
}

impl Zone {
    fn tracks(&self, heads: u32) -> u64 {
        let last_head = u64::from(self.last_head.unwrap_or(heads - 1));
        let (first, last) = (u64::from(self.first_cylinder), u64::from(self.last_cylinder));
        (last - first) * u64::from(heads) + last_head + 1 - u64::from(self.first_head)
    }

    fn sectors(&self, heads: u32) -> u64 {
        self.tracks(heads) * u64::from(self.sectors_per_track)
    }
}

impl Geometry {
    /// One revolution, in ns.
    #[must_use]
    pub fn revolution_ns(&self) -> u64 {
        (60e9 / self.rpm).round() as u64
    }

    fn head_switch_ns(&self) -> u64 {
        (self.head_switch_ms * 1e6).round() as u64
    }

    /// Sectors that hold data.
    #[must_use]
    pub fn capacity_sectors(&self) -> u64 {
        self.zones.iter().map(|z| z.sectors(self.heads)).sum()
    }

    /// The rate of a long sequential pass over zone `zone`, in bytes a second, track and cylinder switches
    /// included; `None` if there is no such zone.
    #[must_use]
    pub fn sequential_bytes_per_s(&self, zone: usize, seek: &SeekCurve) -> Option<f64> {
        let tracks = Tracks::new(self, seek);
        let zone = tracks.zones.get(zone)?;
        let bytes = u64::from(self.heads) * zone.sectors_per_track * u64::from(self.sector_bytes);
        let revolutions = zone.cylinder_step as f64 / zone.slots_per_revolution as f64;
        Some(bytes as f64 / (revolutions * 60.0 / self.rpm))
    }
}

/// Where a sector is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Cylinder, counted from the outer edge.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Which zone of [`Geometry::zones`].
    pub zone: u32,
    /// Slots from the start of the zone's first track to the sector, along the sequential pass.
    slot: u64,
}

/// A geometry made ready for computing.
#[derive(Debug, Clone)]
pub struct Tracks {
    revolution_ns: u64,
    sectors: u64,
    zones: Box<[ZoneTracks]>,
}

#[derive(Debug, Clone)]
struct ZoneTracks {
    /// Sectors before the zone.
    first_sector: u64,
    sectors: u64,
    first_cylinder: u32,
    /// Tracks of the zone's first cylinder that come before the zone.
    first_head: u32,
    heads: u32,
    sectors_per_track: u64,
    /// Sector times in a revolution: data and spare sectors of a track.
    slots_per_revolution: u64,
    /// Slots from the start of a track to the start of the next one in its cylinder.
    track_step: u64,
    /// Slots from the start of a cylinder to the start of the next.
    cylinder_step: u64,
    /// Slots of those tracks.
    skipped_slots: u64,
    /// When the pass is at slot 0: the start of the zone's first track.
    base_ns: u64,
}

impl Tracks {
    /// Prepares a geometry that [`crate::DeviceParameters::parse`] or [`crate::DeviceParameters::check`]
    /// has accepted.
    #[must_use]
    pub fn new(geometry: &Geometry, seek: &SeekCurve) -> Tracks {
        let mut zones: Vec<ZoneTracks> = Vec::with_capacity(geometry.zones.len());
        let mut sectors = 0;
        for (i, zone) in geometry.zones.iter().enumerate() {
            let mut tracks = ZoneTracks::new(zone, geometry, seek, sectors);
            if let Some(before) = zones.last() {
                let before_zone = &geometry.zones[i - 1];
                let distance = zone.first_cylinder.abs_diff(before_zone.last_cylinder);
                let switch_ns = if distance > 0 { seek.at_ns(distance) } else { geometry.head_switch_ns() };
                tracks.begin_after(before, switch_ns, zone, geometry.revolution_ns());
            }
            sectors += zone.sectors(geometry.heads);
            zones.push(tracks);
        }
        Tracks { revolution_ns: geometry.revolution_ns(), sectors, zones: zones.into_boxed_slice() }
    }

    /// Sectors that hold data.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// One revolution, in ns.
    #[must_use]
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }

    /// Where `sector` is. Sectors behind the last one are taken to lie on further tracks of the last zone.
    #[must_use]
    pub fn place(&self, sector: u64) -> Place {
        let zone = self.zone_of(|z| z.first_sector <= sector);
        self.zones[zone].place(zone as u32, sector)
    }

    /// When the sector at `place` begins to pass under its head in the sequential pass.
    #[must_use]
    pub fn pass_start_ns(&self, place: &Place) -> u64 {
        self.zones[place.zone as usize].slot_ns(place.slot, self.revolution_ns)
    }

    /// When the sector at `place` has passed under its head in the sequential pass.
    #[must_use]
    pub fn pass_end_ns(&self, place: &Place) -> u64 {
        self.zones[place.zone as usize].slot_ns(place.slot + 1, self.revolution_ns)
    }

    /// [`Tracks::pass_end_ns`] of the last of `sectors` sectors that start at `sector`, which is at `place`.
    #[must_use]
    pub fn pass_end_of_run_ns(&self, place: &Place, sector: u64, sectors: u64) -> u64 {
        let zone = &self.zones[place.zone as usize];
        let in_track = (sector - zone.first_sector) as u32 % zone.sectors_per_track as u32;
        if u64::from(in_track) + sectors <= zone.sectors_per_track {
            return zone.slot_ns(place.slot + sectors, self.revolution_ns);
        }
        self.pass_end_ns(&self.place(sector + sectors - 1))
    }

    /// How long after instant `from_ns` the sector at `place` comes under its head.
    #[must_use]
    pub fn rotation_ns(&self, from_ns: u64, place: &Place) -> u64 {
        wait_ns(self.revolution_ns, from_ns, self.pass_start_ns(place) % self.revolution_ns)
    }

    /// The first sector that the sequential pass has not read whole at `pass_ns`.
    #[must_use]
    pub fn reached(&self, pass_ns: u64) -> u64 {
        let zone = self.zone_of(|z| z.base_ns <= pass_ns);
        let reached = self.zones[zone].reached(pass_ns, self.revolution_ns);
        // In the gap before the next zone the count runs over.
        self.zones.get(zone + 1).map_or(reached, |next| reached.min(next.first_sector))
    }

    fn zone_of(&self, begins_before: impl Fn(&ZoneTracks) -> bool) -> usize {
        let mut zone = 0;
        while zone + 1 < self.zones.len() && begins_before(&self.zones[zone + 1]) {
            zone += 1;
        }
        zone
    }
}

impl ZoneTracks {
    fn new(zone: &Zone, geometry: &Geometry, seek: &SeekCurve, first_sector: u64) -> ZoneTracks {
        let revolution_ns = geometry.revolution_ns();
        let sectors_per_track = u64::from(zone.sectors_per_track);
        let spare = u64::from(zone.spare_sectors_per_track);
        let slots_per_revolution = sectors_per_track + spare;
        // Slots from the start of one track to the start of the next: the skew is added to a revolution, and
        // as many revolutions more as the switch needs.
        let step = |skew: u32, switch_ns: u64| {
            let gap = spare + u64::from(skew);
            let short_ns = switch_ns.saturating_sub(gap * revolution_ns / slots_per_revolution);
            sectors_per_track + gap + short_ns.div_ceil(revolution_ns) * slots_per_revolution
        };
        let head_switch_ns = geometry.head_switch_ns();
        let track_step = step(zone.track_skew, head_switch_ns);
        let to_next_cylinder = step(zone.cylinder_skew, seek.at_ns(1).max(head_switch_ns));
        ZoneTracks {
            first_sector,
            sectors: zone.sectors(geometry.heads),
            first_cylinder: zone.first_cylinder,
            first_head: zone.first_head,
            heads: geometry.heads,
            sectors_per_track,
            slots_per_revolution,
            track_step,
            skipped_slots: u64::from(zone.first_head) * track_step,
            cylinder_step: u64::from(geometry.heads - 1) * track_step + to_next_cylinder,
            base_ns: 0,
        }
    }

    /// Sets when the pass comes to this zone: after the end of the one before and the switch to the first
    /// track, when that track's first sector is next under the head.
    fn begin_after(&mut self, before: &ZoneTracks, switch_ns: u64, zone: &Zone, revolution_ns: u64) {
        let last = before.place(0, before.first_sector + before.sectors - 1);
        let end_ns = before.slot_ns(last.slot + 1, revolution_ns);
        // Recorded alike, the skew runs on over the spare tracks in between. Otherwise nothing is known of
        // the angle, and the cylinder skew is counted from the end.
        let alike = (self.sectors_per_track, self.track_step, self.cylinder_step)
            == (before.sectors_per_track, before.track_step, before.cylinder_step);
        let angle_ns = if alike {
            let cylinders = u64::from(self.first_cylinder - before.first_cylinder);
            before.slot_ns(
                cylinders * self.cylinder_step + self.skipped_slots - before.skipped_slots,
                revolution_ns,
            )
        } else {
            end_ns + u64::from(zone.cylinder_skew) * revolution_ns / self.slots_per_revolution
        } % revolution_ns;
        let earliest_ns = end_ns + switch_ns;
        self.base_ns = earliest_ns + wait_ns(revolution_ns, earliest_ns, angle_ns);
    }

    fn place(&self, zone: u32, sector: u64) -> Place {
        let within = sector - self.first_sector;
        let (track, in_track) = (within / self.sectors_per_track, within % self.sectors_per_track);
        let track = track as u32 + self.first_head;
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let track_slot = u64::from(cylinder) * self.cylinder_step + u64::from(head) * self.track_step;
        let slot = track_slot + in_track - self.skipped_slots;
        Place { cylinder: cylinder + self.first_cylinder, head, zone, slot }
    }

    fn slot_ns(&self, slot: u64, revolution_ns: u64) -> u64 {
        self.base_ns + slot * revolution_ns / self.slots_per_revolution
    }

    fn reached(&self, pass_ns: u64, revolution_ns: u64) -> u64 {
        // The largest number of slots whose end, rounded down as in `slot_ns`, is not after `pass_ns`.
        let within_ns = pass_ns - self.base_ns;
        let slots = ((within_ns + 1) * self.slots_per_revolution - 1) / revolution_ns + self.skipped_slots;
        let (cylinder, rest) = (slots / self.cylinder_step, slots % self.cylinder_step);
        let head = (rest / self.track_step).min(u64::from(self.heads) - 1);
        let in_track = (rest - head * self.track_step).min(self.sectors_per_track);
        let track = cylinder * u64::from(self.heads) + head;
        let tracks_before = u64::from(self.first_head);
        self.first_sector + (track - tracks_before) * self.sectors_per_track + in_track
    }
}

/// From instant `from_ns` until the platters are at `angle_ns` of a revolution.
fn wait_ns(revolution_ns: u64, from_ns: u64, angle_ns: u64) -> u64 {
    let now_ns = from_ns % revolution_ns;
    if angle_ns >= now_ns { angle_ns - now_ns } else { angle_ns + revolution_ns - now_ns }
}
