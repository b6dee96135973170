//! One mechanical disk: arm, platters, controller and the disk's own cache. A request and the instant at
//! which the disk takes it go in, the instant at which it is done comes out.
//!
//! # A request that goes to the platters
//!
//! The controller takes its overhead; the arm moves (seek time by distance, or a head switch), after that or
//! beside it ([`Controller::overlaps_arm`]); the platters turn until the first sector comes by; the sectors
//! pass under the heads. The bus works beside that: the request is done at
//! `max(taken + overhead + bytes / bus rate, last sector read)`. For a request that the cache serves the
//! controller's overhead is beside the media pass too.
//!
//! Nothing is read before the controller has done its part. Without readahead that shows most: the first
//! sector of the next of two neighbouring requests has gone by then, and a revolution is lost.
//!
//! # Readahead
//!
//! After a read the heads stay where they are and read on, into a segment of the disk's cache, up to
//! [`DiskCache::readahead_bytes`] past the end of the request. What has been read by some instant follows
//! from the sequential pass (see [`crate::geometry`]), so readahead costs nothing to simulate: a segment
//! stores when its pass began and how far it may go.
//!
//! A later read is a *hit* only if its first sector is in a segment already, or is under the head at this
//! moment. Then the readahead just goes on, up to the same distance past this request. Any other read
//! aborts it and positions anew, even if the heads would reach its first sector soon: reading through gaps
//! of up to 16 blocks instead costs 37 s in Kimbrel et al.'s synthetic trace on two disks (1996, section
//! 4.2), which is not what they published.
//!
//! A segment holds [`DiskCache::segment_bytes`]; what is read further overwrites its oldest sectors. With
//! several segments each holds one sequential stream, the least recently used one is given up for a new
//! stream, and only the stream read last goes on being read.
//!
//! # Writes
//!
//! A write aborts readahead, drops the segments that hold its sectors and goes to the platters. A drive
//! that reports writes at once calls it done when its bytes are in the cache (see the module `write_cache` for
//! what is then written when); the platters are busy until it is written. Shortest positioning time first
//! looks at the heads as they are, without what waits in the cache.

use crate::geometry::{Place, Tracks};
use crate::parameters::{Controller, DiskCache, DiskParameters};
use crate::request::Request;
use crate::schedule::Positioning;
use crate::seek::SeekCurve;
use crate::write_cache::{Admission, WriteCache};

/// When a request is done and whether the cache had its first sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// When the request is done.
    pub finished_ns: u64,
    /// Whether its first sector was already cached, or under the head in readahead.
    pub from_cache: bool,
}

/// A disk with its state: where the arm is, and what the cache holds.
#[derive(Debug, Clone)]
pub struct Mechanism {
    tracks: Tracks,
    seek: SeekCurve,
    head_switch_ns: u64,
    controller: Overheads,
    segment_sectors: u64,
    readahead_sectors: u64,
    written: WriteCache,
    /// The shortest time in which a sector can pass under the head.
    least_sector_ns: u64,
    /// Where the arm is when there is no pass to read it from.
    arm: Arm,
    /// The sector there.
    arm_sector: u64,
    /// When the heads are done with the last request; readahead goes on after it.
    media_free_ns: u64,
    segments: Vec<Segment>,
    reading: Option<Reading>,
    uses: u64,
}

/// The controller's times, in ns.
#[derive(Debug, Clone)]
struct Overheads {
    read_miss_ns: u64,
    read_hit_ns: u64,
    write_ns: u64,
    overlaps_arm: bool,
    bus_ns_per_sector: f64,
}

#[derive(Debug, Clone, Copy)]
struct Arm {
    cylinder: u32,
    head: u32,
}

/// Sectors `first..end` of the disk in its cache.
#[derive(Debug, Clone, Copy)]
struct Segment {
    first: u64,
    end: u64,
    used: u64,
}

/// The sequential pass that the heads are in: the last request and the readahead after it.
#[derive(Debug, Clone, Copy)]
struct Reading {
    segment: usize,
    /// Sectors of the segment before this one had been read at `media_free_ns`.
    read_until: u64,
    /// Readahead stops before this sector.
    limit: u64,
    /// Instant minus pass time: sector s is read at `pass_end_ns(s) + shift_ns`, for s from `read_until`.
    shift_ns: i64,
}

/// How a request would be served, without doing it.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// Its last sector is in cache, or will be, at `media_end_ns`, and the heads go on as they are.
    Running { media_end_ns: u64 },
    /// The readahead had stopped at its limit; it is taken up again there, `begin_ns` being its new start.
    Resumed { from: u64, begin_ns: u64, media_end_ns: u64 },
    /// Wholly in a segment that the heads have left.
    Static { segment: usize },
    /// The heads are placed at `from`, which is the first sector or, if `segment` is given, the first one
    /// that this segment lacks.
    Positioned { from: u64, segment: Option<usize>, place: Place, begin_ns: u64, media_end_ns: u64 },
}

impl Mechanism {
    /// A disk with an empty cache and its arm at cylinder 0. The parameters must have been checked
    /// ([`crate::DeviceParameters::check`]).
    #[must_use]
    pub fn new(parameters: &DiskParameters) -> Mechanism {
        let DiskParameters { geometry, seek, controller, cache } = parameters;
        let tracks = Tracks::new(geometry, seek);
        let Controller { read_miss_ms, read_hit_ms, write_ms, bus_mb_per_s, overlaps_arm } = *controller;
        let ns = |ms: f64| (ms * 1e6).round() as u64;
        let DiskCache { segments, segment_bytes, readahead_bytes, write_fence_bytes, write_segments } =
            *cache;
        let sector_bytes = u64::from(geometry.sector_bytes);
        let densest = geometry.zones.iter().map(|z| z.sectors_per_track + z.spare_sectors_per_track).max();
        let least_sector_ns = tracks.revolution_ns() / u64::from(densest.unwrap_or(1));
        let kept = if readahead_bytes == 0 { 0 } else { segments };
        Mechanism {
            head_switch_ns: ns(geometry.head_switch_ms),
            controller: Overheads {
                read_miss_ns: ns(read_miss_ms),
                read_hit_ns: ns(read_hit_ms),
                write_ns: ns(write_ms),
                overlaps_arm,
                bus_ns_per_sector: sector_bytes as f64 * 1e3 / bus_mb_per_s,
            },
            segment_sectors: (segment_bytes / sector_bytes).max(1),
            readahead_sectors: readahead_bytes / sector_bytes,
            written: WriteCache::new(write_fence_bytes / sector_bytes, write_segments),
            least_sector_ns,
            arm: Arm { cylinder: 0, head: 0 },
            arm_sector: 0,
            media_free_ns: 0,
            segments: vec![Segment { first: 0, end: 0, used: 0 }; kept as usize],
            reading: None,
            uses: 0,
            seek: *seek,
            tracks,
        }
    }

    /// Sectors that hold data.
    #[must_use]
    pub fn capacity_sectors(&self) -> u64 {
        self.tracks.sectors()
    }

    /// Serves `request`, which the disk takes at `start_ns`: not before it was done with the last one.
    pub fn service(&mut self, start_ns: u64, request: &Request) -> Service {
        let bus_ns = (f64::from(request.sectors) * self.controller.bus_ns_per_sector) as u64;
        self.destage_until(start_ns);
        if request.write {
            return self.write(start_ns, request, bus_ns);
        }
        if self.written.holds(request.sector, request.end()) {
            let finished_ns = start_ns + self.controller.read_hit_ns + bus_ns;
            return Service { finished_ns, from_cache: true };
        }
        // What is only partly in the write cache is read from the platters when it is there.
        while self.written.overlaps_waiting(request.sector, request.end()) {
            self.destage_next(start_ns);
        }
        let plan = self.plan(start_ns, request);
        self.uses += 1;
        let (overhead_ns, media_end_ns, from_cache) = match plan {
            Plan::Running { media_end_ns } => (self.controller.read_hit_ns, media_end_ns, true),
            Plan::Resumed { media_end_ns, .. } => (self.controller.read_hit_ns, media_end_ns, true),
            Plan::Static { .. } => (self.controller.read_hit_ns, start_ns, true),
            Plan::Positioned { segment, media_end_ns, .. } => {
                (self.controller.read_miss_ns, media_end_ns, segment.is_some())
            }
        };
        self.carry_out(plan, start_ns, request);
        Service { finished_ns: (start_ns + overhead_ns + bus_ns).max(media_end_ns), from_cache }
    }

    fn carry_out(&mut self, plan: Plan, start_ns: u64, request: &Request) {
        let limit = (request.end() + self.readahead_sectors).min(self.tracks.sectors());
        match plan {
            Plan::Static { segment } => self.segments[segment].used = self.uses,
            Plan::Running { media_end_ns } => {
                let Some(reading) = &mut self.reading else { return };
                if request.end() > reading.read_until {
                    reading.read_until = request.end();
                    self.media_free_ns = self.media_free_ns.max(media_end_ns);
                }
                reading.limit = reading.limit.max(limit);
                self.segments[reading.segment].used = self.uses;
            }
            Plan::Resumed { from, begin_ns, media_end_ns } => {
                let Some(mut reading) = self.reading else { return };
                reading.shift_ns =
                    begin_ns as i64 - self.tracks.pass_start_ns(&self.tracks.place(from)) as i64;
                reading.read_until = from.max(request.end());
                reading.limit = reading.limit.max(limit);
                self.media_free_ns = media_end_ns;
                self.segments[reading.segment].used = self.uses;
                self.reading = Some(reading);
            }
            Plan::Positioned { from, segment, place, begin_ns, media_end_ns } => {
                self.abort_readahead(start_ns);
                self.move_arm_to_end(&place, from, request.end());
                self.media_free_ns = media_end_ns;
                let taken = segment.or_else(|| self.least_recently_used());
                self.reading = taken.map(|taken| {
                    let held = &mut self.segments[taken];
                    if segment.is_none() {
                        held.first = from;
                    }
                    held.used = self.uses;
                    Reading {
                        segment: taken,
                        read_until: request.end(),
                        limit,
                        shift_ns: begin_ns as i64 - self.tracks.pass_start_ns(&place) as i64,
                    }
                });
            }
        }
    }

    fn plan(&self, start_ns: u64, request: &Request) -> Plan {
        let (first, end) = (request.sector, request.end());
        let mut rest = (first, None);
        if let Some(plan) = self.plan_in_readahead(start_ns, request) {
            return plan;
        }
        // Segments that the heads have left. The one being read was looked at above.
        let being_read = self.reading.map(|r| r.segment);
        for (i, segment) in self.segments.iter().enumerate() {
            if Some(i) != being_read && (segment.first..segment.end).contains(&first) {
                if end <= segment.end {
                    return Plan::Static { segment: i };
                }
                rest = (segment.end, Some(i));
            }
        }
        let (from, segment) = rest;
        let place = self.tracks.place(from);
        let overhead_ns =
            if segment.is_some() { self.controller.read_hit_ns } else { self.controller.read_miss_ns };
        let begin_ns = self.position_ns(start_ns, overhead_ns, &place);
        let run_ns =
            self.tracks.pass_end_of_run_ns(&place, from, end - from) - self.tracks.pass_start_ns(&place);
        Plan::Positioned { from, segment, place, begin_ns, media_end_ns: begin_ns + run_ns }
    }

    /// The plan if the first sector is cached in the segment being read, or under the head now.
    fn plan_in_readahead(&self, start_ns: u64, request: &Request) -> Option<Plan> {
        let reading = self.reading?;
        let (first, end) = (request.sector, request.end());
        let read_at = |sector: u64| {
            let pass_ns = self.tracks.pass_end_ns(&self.tracks.place(sector));
            pass_ns.wrapping_add_signed(reading.shift_ns)
        };
        if first < self.segments[reading.segment].first || first >= reading.limit {
            return None;
        }
        if first > reading.read_until && read_at(first - 1) > start_ns {
            return None;
        }
        // The segment is a ring: sector `first` is lost when the heads are past `first + segment_sectors`.
        let overwritten_by = first + self.segment_sectors;
        let overwritten = overwritten_by < reading.read_until
            || overwritten_by < reading.limit && read_at(overwritten_by) <= start_ns;
        if overwritten {
            return None;
        }
        let least_ns = (reading.limit - reading.read_until) * self.least_sector_ns;
        let stopped = start_ns >= self.media_free_ns + least_ns && read_at(reading.limit - 1) < start_ns;
        if !stopped {
            let media_end_ns = if end <= reading.read_until { start_ns } else { read_at(end - 1) };
            return Some(Plan::Running { media_end_ns });
        }
        if reading.limit == self.tracks.sectors() {
            return Some(Plan::Running { media_end_ns: start_ns });
        }
        // The heads wait on the track of the last sector they read.
        let from = reading.limit;
        let place = self.tracks.place(from);
        let at = self.tracks.place(reading.limit - 1);
        let begin_ns =
            self.position_from_ns(Arm { cylinder: at.cylinder, head: at.head }, start_ns, 0, &place);
        let media_end_ns = if end <= from {
            start_ns
        } else {
            begin_ns + self.tracks.pass_end_of_run_ns(&place, from, end - from)
                - self.tracks.pass_start_ns(&place)
        };
        Some(Plan::Resumed { from, begin_ns, media_end_ns })
    }

    fn write(&mut self, start_ns: u64, request: &Request, bus_ns: u64) -> Service {
        self.uses += 1;
        let received_ns = start_ns + self.controller.write_ns;
        let from_ns = loop {
            match self.written.admit(start_ns, request.sector, request.end()) {
                Admission::At(from_ns) => break from_ns,
                Admission::WhenWritten => self.destage_next(start_ns),
                Admission::Never => {
                    let done_ns = self.put(start_ns, self.controller.write_ns, request.sector, request.end());
                    return Service { finished_ns: (received_ns + bus_ns).max(done_ns), from_cache: false };
                }
            }
        };
        let finished_ns = received_ns.max(from_ns) + bus_ns;
        if self.media_free_ns <= start_ns && !self.written.waits() {
            // The heads are free: they set out for it while its bytes still come over the bus.
            let done_ns = self.put(start_ns, self.controller.write_ns, request.sector, request.end());
            self.written.add(request.sector, request.end(), Some(done_ns));
        } else {
            self.arm = self.arm_at(start_ns);
            self.abort_readahead(start_ns);
            self.drop_segments(request.sector, request.end());
            self.written.add(request.sector, request.end(), None);
        }
        Service { finished_ns, from_cache: false }
    }

    /// Writes what waits in the cache, as far as the heads set out for it before `now_ns`.
    fn destage_until(&mut self, now_ns: u64) {
        while self.written.waits() && self.media_free_ns < now_ns {
            self.destage_next(self.media_free_ns);
        }
        self.written.retire(now_ns);
    }

    /// Sends the heads to the write that waits longest, not before `from_ns`.
    fn destage_next(&mut self, from_ns: u64) {
        if let Some((sector, end)) = self.written.next() {
            let done_ns = self.put(from_ns.max(self.media_free_ns), 0, sector, end);
            self.written.begun(done_ns);
        }
    }

    /// Sends the heads to write `sector..end` after an overhead from `start_ns`; gives when it is on the platters.
    fn put(&mut self, start_ns: u64, overhead_ns: u64, sector: u64, end: u64) -> u64 {
        let place = self.tracks.place(sector);
        let begin_ns = self.position_ns(start_ns, overhead_ns, &place);
        let run_ns =
            self.tracks.pass_end_of_run_ns(&place, sector, end - sector) - self.tracks.pass_start_ns(&place);
        self.abort_readahead(start_ns);
        self.drop_segments(sector, end);
        self.move_arm_to_end(&place, sector, end);
        self.media_free_ns = begin_ns + run_ns;
        self.media_free_ns
    }

    /// Drops what the cache holds of `sector..end` as it was before.
    fn drop_segments(&mut self, sector: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.first < end && sector < segment.end {
                *segment = Segment { first: 0, end: 0, used: 0 };
            }
        }
    }

    /// When the sector at `place` comes under its head if the arm sets out for it in a request taken at
    /// `start_ns`.
    fn position_ns(&self, start_ns: u64, overhead_ns: u64, place: &Place) -> u64 {
        self.position_from_ns(self.arm_at(start_ns), start_ns, overhead_ns, place)
    }

    fn position_from_ns(&self, arm: Arm, start_ns: u64, overhead_ns: u64, place: &Place) -> u64 {
        let move_ns = match arm.cylinder.abs_diff(place.cylinder) {
            0 if arm.head == place.head => 0,
            0 => self.head_switch_ns,
            distance => self.seek.at_ns(distance),
        };
        let decoded_ns = start_ns + overhead_ns;
        let there_ns = if self.controller.overlaps_arm {
            (start_ns.max(self.media_free_ns) + move_ns).max(decoded_ns)
        } else {
            decoded_ns.max(self.media_free_ns) + move_ns
        };
        there_ns + self.tracks.rotation_ns(there_ns, place)
    }

    /// Where readahead has taken the heads at `now_ns`.
    fn arm_at(&self, now_ns: u64) -> Arm {
        match self.sector_read_ahead(now_ns) {
            Some(sector) => {
                let place = self.tracks.place(sector);
                Arm { cylinder: place.cylinder, head: place.head }
            }
            None => self.arm,
        }
    }

    /// The last sector that the heads have read at `now_ns`, if they read ahead after the last request.
    fn sector_read_ahead(&self, now_ns: u64) -> Option<u64> {
        let reading = self.reading?;
        Some(self.reached(&reading, now_ns).saturating_sub(1))
    }

    /// The first sector that the pass has not read whole at `now_ns`.
    fn reached(&self, reading: &Reading, now_ns: u64) -> u64 {
        let pass_ns = now_ns.saturating_add_signed(reading.shift_ns.saturating_neg());
        self.tracks.reached(pass_ns).clamp(reading.read_until.min(reading.limit), reading.limit)
    }

    /// Leaves the segment being read with what it holds at `now_ns`.
    fn abort_readahead(&mut self, now_ns: u64) {
        if let Some(reading) = self.reading.take() {
            let end = self.reached(&reading, now_ns);
            let segment = &mut self.segments[reading.segment];
            segment.end = end;
            segment.first = segment.first.max(end.saturating_sub(self.segment_sectors));
        }
    }

    fn move_arm_to_end(&mut self, place: &Place, from: u64, end: u64) {
        let last = if end - from == 1 { *place } else { self.tracks.place(end - 1) };
        self.arm = Arm { cylinder: last.cylinder, head: last.head };
        self.arm_sector = end - 1;
    }

    fn least_recently_used(&self) -> Option<usize> {
        (0..self.segments.len()).min_by_key(|&i| self.segments[i].used)
    }
}

impl Positioning for (&Mechanism, u64) {
    fn positioning_ns(&self, request: &Request) -> u64 {
        let (mechanism, now_ns) = self;
        if request.write {
            let place = mechanism.tracks.place(request.sector);
            return mechanism.position_ns(*now_ns, mechanism.controller.write_ns, &place) - now_ns;
        }
        match mechanism.plan(*now_ns, request) {
            Plan::Running { .. } | Plan::Static { .. } | Plan::Resumed { .. } => 0,
            Plan::Positioned { segment: Some(_), .. } => 0,
            Plan::Positioned { begin_ns, .. } => begin_ns - now_ns,
        }
    }

    fn arm_sector(&self) -> u64 {
        let (mechanism, now_ns) = self;
        mechanism.sector_read_ahead(*now_ns).unwrap_or(mechanism.arm_sector)
    }

    fn least_ns(&self, sector: u64) -> u64 {
        let (mechanism, now_ns) = self;
        // A segment that the heads have left serves its sectors at once, however far the arm is.
        let being_read = mechanism.reading.map(|r| r.segment);
        let left = |(i, s): (usize, &Segment)| Some(i) != being_read && s.first < s.end;
        if mechanism.segments.iter().enumerate().any(left) {
            return 0;
        }
        let distance = mechanism.arm_at(*now_ns).cylinder.abs_diff(mechanism.tracks.place(sector).cylinder);
        mechanism.seek.at_ns(distance)
    }
}
