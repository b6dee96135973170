//! The mechanism against a disk that walks from sector to sector and remembers when it read each one.

use foretell_device::{
    Controller, DiskCache, DiskParameters, Geometry, Mechanism, Request, SeekCurve, SeekTerms, Zone,
};
use proptest::prelude::*;

/// A disk of one zone and one cache segment, by the rules and without any closed form.
struct NaiveDisk {
    parameters: DiskParameters,
    revolution_ns: u64,
    /// Of each sector: cylinder, head, start and end in the sequential pass.
    sectors: Vec<(u32, u32, u64, u64)>,
    /// The sectors of the last pass of the heads, each with the instant at which it had been read.
    pass: Vec<(u64, u64)>,
}

impl NaiveDisk {
    fn new(parameters: &DiskParameters) -> NaiveDisk {
        let geometry = &parameters.geometry;
        let (revolution_ns, zone) = (geometry.revolution_ns(), geometry.zones[0]);
        let slots = u64::from(zone.sectors_per_track + zone.spare_sectors_per_track);
        let at_ns = |slot: u64| slot * revolution_ns / slots;
        let (mut sectors, mut slot) = (Vec::new(), 0);
        for cylinder in 0..geometry.cylinders {
            for head in 0..geometry.heads {
                for _ in 0..zone.sectors_per_track {
                    sectors.push((cylinder, head, at_ns(slot), at_ns(slot + 1)));
                    slot += 1;
                }
                let data_end = slot;
                let last = head + 1 == geometry.heads;
                let head_switch_ns = (geometry.head_switch_ms * 1e6).round() as u64;
                let (skew, switch_ns) = if last {
                    (zone.cylinder_skew, parameters.seek.at_ns(1).max(head_switch_ns))
                } else {
                    (zone.track_skew, head_switch_ns)
                };
                slot += u64::from(zone.spare_sectors_per_track + skew);
                while (slot - data_end) * revolution_ns / slots < switch_ns {
                    slot += slots;
                }
            }
        }
        NaiveDisk { parameters: parameters.clone(), revolution_ns, sectors, pass: Vec::new() }
    }

    fn bytes_to_sectors(&self, bytes: u64) -> u64 {
        bytes / u64::from(self.parameters.geometry.sector_bytes)
    }

    /// Begins a pass at `from`, the heads setting out from where sector `at` is at `now_ns`.
    fn position(&self, at: u64, from: u64, now_ns: u64, overhead_ns: u64) -> u64 {
        let (from_cylinder, from_head, ..) = self.sectors[at as usize];
        let (cylinder, head, start_ns, _) = self.sectors[from as usize];
        let distance = cylinder.abs_diff(from_cylinder);
        let move_ns = match distance {
            0 if head == from_head => 0,
            0 => (self.parameters.geometry.head_switch_ms * 1e6).round() as u64,
            _ => self.parameters.seek.at_ns(distance),
        };
        let overlaps = self.parameters.controller.overlaps_arm;
        let mut at_ns = now_ns + if overlaps { move_ns.max(overhead_ns) } else { move_ns + overhead_ns };
        while at_ns % self.revolution_ns != start_ns % self.revolution_ns {
            at_ns += 1;
        }
        at_ns
    }

    /// Adds sectors up to `end` to the pass, the first of which begins at `begin_ns`.
    fn read_on(&mut self, from: u64, begin_ns: u64, end: u64) {
        let start_ns = self.sectors[from as usize].2;
        for sector in from..end.min(self.sectors.len() as u64) {
            self.pass.push((sector, begin_ns + self.sectors[sector as usize].3 - start_ns));
        }
    }

    fn service(&mut self, now_ns: u64, request: &Request) -> (u64, bool) {
        let (first, end) = (request.sector, request.end());
        let ahead = self.bytes_to_sectors(self.parameters.cache.readahead_bytes);
        let kept = self.bytes_to_sectors(self.parameters.cache.segment_bytes) as usize;
        let overhead_ns = (self.parameters.controller.read_miss_ms * 1e6).round() as u64;
        let bus_ns =
            (f64::from(request.sectors) * 512.0 * 1e3 / self.parameters.controller.bus_mb_per_s) as u64;

        let read = self.pass.iter().take_while(|(_, end_ns)| *end_ns <= now_ns).count();
        let cached = &self.pass[read.saturating_sub(kept)..read];
        let under_head = self.pass.get(read).map(|(sector, _)| *sector);
        let hit = cached.iter().any(|(sector, _)| *sector == first) || under_head == Some(first);
        let at = self.pass[..read].last().map_or(0, |(sector, _)| *sector);
        if !hit {
            let begin_ns = self.position(at, first, now_ns, overhead_ns);
            self.pass.clear();
            self.read_on(first, begin_ns, end + ahead);
        } else if let Some(&(last, last_ns)) = self.pass.last() {
            // Goes on, at once or from where it had stopped.
            let next = last + 1;
            if next < (end + ahead).min(self.sectors.len() as u64) {
                let resumed_ns = self.position(last, next, now_ns, 0);
                let gap_ns = self.sectors[next as usize].2 - self.sectors[last as usize].3;
                let begin_ns = if last_ns < now_ns { resumed_ns } else { last_ns + gap_ns };
                self.read_on(next, begin_ns, end + ahead);
            }
        }
        let read_ns = self.pass.iter().find(|(sector, _)| *sector == end - 1).map_or(0, |(_, ns)| *ns);
        (read_ns.max(now_ns + overhead_ns + bus_ns), hit)
    }
}

fn any_disk() -> impl Strategy<Value = DiskParameters> {
    let geometry = (2..6u32, 1..4u32, 4..20u32, 0..2u32, 0..6u32, 0..8u32);
    let times = (0..3u32, 0..4u32, 0..3u32);
    (geometry, times, 1..30u64, 1..60u64, any::<bool>()).prop_map(
        |(geometry, times, ahead, kept, overlaps_arm)| {
            let (cylinders, heads, sectors_per_track, spare_sectors_per_track, track_skew, cylinder_skew) =
                geometry;
            let (switch, seek, overhead) = times;
            let zone = Zone {
                first_cylinder: 0,
                first_head: 0,
                last_cylinder: cylinders - 1,
                last_head: None,
                sectors_per_track,
                spare_sectors_per_track,
                track_skew: track_skew.min(sectors_per_track),
                cylinder_skew: cylinder_skew.min(sectors_per_track),
            };
            let overhead_ms = f64::from(overhead) * 0.7;
            DiskParameters {
                // A revolution of 10,000 ns keeps the search for an angle short.
                geometry: Geometry {
                    sector_bytes: 512,
                    cylinders,
                    heads,
                    rpm: 6_000_000.0,
                    head_switch_ms: f64::from(switch) * 0.0017,
                    zones: vec![zone],
                },
                seek: SeekCurve {
                    short_until_cylinders: None,
                    short: SeekTerms {
                        constant_ms: f64::from(seek) * 0.0023,
                        sqrt_ms: 0.001,
                        linear_ms: 0.0,
                    },
                    long: None,
                    single_cylinder_ms: None,
                },
                controller: Controller {
                    read_miss_ms: overhead_ms / 1e3,
                    read_hit_ms: overhead_ms / 1e3,
                    write_ms: 0.0,
                    overlaps_arm,
                    bus_mb_per_s: 2000.0,
                },
                cache: DiskCache {
                    segments: 1,
                    // A segment at least as long as the readahead: what is read ahead is not lost at once.
                    segment_bytes: (ahead + kept) * 512,
                    readahead_bytes: ahead * 512,
                    write_fence_bytes: 0,
                    write_segments: 1,
                },
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_mechanism_does_what_the_rules_say(
        parameters in any_disk(),
        // Sequential, a step ahead or back, or anywhere; a pause.
        steps in prop::collection::vec((0..6u8, any::<u32>(), 1..12u32, 0..30_000u64), 1..40),
    ) {
        let mut mechanism = Mechanism::new(&parameters);
        let mut naive = NaiveDisk::new(&parameters);
        let capacity = mechanism.capacity_sectors();
        prop_assert_eq!(capacity, naive.sectors.len() as u64);
        let (mut now_ns, mut next) = (0, 0);
        for (kind, anywhere, sectors, pause_ns) in steps {
            let sectors = u64::from(sectors).min(capacity);
            let wanted = match kind {
                0..=2 => next,
                3 => next + u64::from(anywhere % 12),
                4 => next.saturating_sub(u64::from(anywhere % 40)),
                _ => u64::from(anywhere),
            };
            let request = Request::read(0, wanted % (capacity - sectors + 1), sectors as u32);
            let service = mechanism.service(now_ns, &request);
            let (finished_ns, hit) = naive.service(now_ns, &request);
            prop_assert_eq!((service.finished_ns, service.from_cache), (finished_ns, hit));
            next = request.end();
            now_ns = finished_ns + if pause_ns < 10_000 { 0 } else { pause_ns };
        }
    }
}
