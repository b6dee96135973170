//! The HP 97560 by hand: geometry, the sequential pass, random access, and the rules of its readahead.

#![allow(clippy::unwrap_used)] // a test's own helpers

use foretell_device::{Mechanism, Request, Tracks, catalogue};

const REVOLUTION_NS: u64 = 14_992_504; // 60e9 / 4002
const MS: u64 = 1_000_000;

fn disk() -> Mechanism {
    Mechanism::new(catalogue::find("hp97560").unwrap().disk().unwrap())
}

fn tracks() -> Tracks {
    let parameters = catalogue::find("hp97560").unwrap();
    let disk = parameters.disk().unwrap();
    Tracks::new(&disk.geometry, &disk.seek)
}

fn block(disk: &mut Mechanism, start_ns: u64, block: u64) -> (u64, bool) {
    let service = disk.service(start_ns, &Request::read(0, block * 16, 16));
    (service.finished_ns, service.from_cache)
}

#[test]
fn it_holds_three_regions_of_12255_tracks() {
    assert_eq!(tracks().sectors(), 2_647_080);
    assert_eq!(tracks().sectors(), 3 * 12_255 * 72);
    assert_eq!(tracks().revolution_ns(), REVOLUTION_NS);
}

#[test]
fn sectors_lie_where_the_regions_say() {
    let at = |sector| {
        let place = tracks().place(sector);
        (place.cylinder, place.head)
    };
    let region = 12_255 * 72;
    assert_eq!(at(0), (1, 4));
    assert_eq!(at(71), (1, 4));
    assert_eq!(at(72), (1, 5));
    assert_eq!(at(15 * 72), (2, 0));
    assert_eq!(at(region - 1), (646, 3));
    assert_eq!(at(region), (654, 0));
    assert_eq!(at(2 * region - 1), (1298, 18));
    assert_eq!(at(2 * region), (1308, 0));
    assert_eq!(at(3 * region - 1), (1952, 18));
}

#[test]
fn a_track_starts_eight_sectors_after_the_end_of_the_one_before_and_a_cylinder_eighteen() {
    let tracks = tracks();
    let start = |sector| tracks.pass_start_ns(&tracks.place(sector));
    let sectors_ns = |n: u64| n * REVOLUTION_NS / 72;
    assert!((start(72) - start(0)).abs_diff(sectors_ns(80)) <= 1);
    assert!((start(15 * 72) - start(14 * 72)).abs_diff(sectors_ns(90)) <= 1);
    // 8 cylinders between the regions are spare: their skew (8 x 162 sectors) less 3 tracks' (24), less the
    // track that was read (72), is 1200, which is 48 more than 16 revolutions; a seek over 8 needs 21.
    let region = 12_255 * 72;
    assert!((start(region) - start(region - 1)).abs_diff(sectors_ns(49)) <= 1);
}

#[test]
fn what_the_pass_has_reached_agrees_with_when_it_reads() {
    let tracks = tracks();
    for sector in (0..2_647_079).step_by(997).chain([71, 72, 73, 882_359, 882_360, 2_647_079]) {
        let end_ns = tracks.pass_end_ns(&tracks.place(sector));
        assert_eq!(tracks.reached(end_ns), sector + 1, "at the end of {sector}");
        assert_eq!(tracks.reached(end_ns - 1), sector, "before the end of {sector}");
    }
}

#[test]
fn sequential_reading_costs_3_727_ms_per_8_kib() {
    let mut disk = disk();
    let blocks = disk.capacity_sectors() / 16;
    let (first_ns, _) = block(&mut disk, 0, 0);
    let mut now_ns = first_ns;
    for b in 1..blocks {
        let (finished_ns, from_cache) = block(&mut disk, now_ns, b);
        assert!(from_cache, "block {b}");
        now_ns = finished_ns;
    }
    // 16 sectors of 1368 in a cylinder, which takes 1368 + 18 x 8 + 18 sector times: 3.7262 ms.
    let ms = (now_ns - first_ns) as f64 / 1e6 / (blocks - 1) as f64;
    assert!((ms - 3.727).abs() < 0.002, "{ms}");
}

#[test]
fn without_skew_a_sequential_pass_would_lose_a_revolution_a_track() {
    let mut parameters = catalogue::find("hp97560").unwrap().disk().unwrap().clone();
    for zone in &mut parameters.geometry.zones {
        (zone.track_skew, zone.cylinder_skew) = (0, 0);
    }
    let rate = |zone| parameters.geometry.sequential_bytes_per_s(zone, &parameters.seek).unwrap();
    assert!((rate(0) - 72.0 * 512.0 / (2.0 * 0.014_992_504)).abs() < 1.0);
}

#[test]
fn random_access_takes_23_7_ms_and_the_overhead() {
    let mut disk = disk();
    let blocks = disk.capacity_sectors() / 16;
    let (mut now_ns, mut sum_ns, mut state) = (0, 0, 1u64);
    let count = 200_000;
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (finished_ns, _) = block(&mut disk, now_ns, (state >> 20) % blocks);
        sum_ns += finished_ns - now_ns;
        // A pause, so that the angle at the start is random too.
        now_ns = finished_ns + 200 * MS + state % REVOLUTION_NS;
    }
    let ms = sum_ns as f64 / f64::from(count) / 1e6;
    // 12.8 seek, 7.5 rotation, 3.3 transfer, some of which cross tracks; 2.2 overhead.
    assert!((ms - 2.2 - 23.8).abs() < 0.2, "{ms}");
}

#[test]
fn the_first_read_waits_for_its_sector() {
    let mut disk = disk();
    let tracks = tracks();
    let place = tracks.place(16_000);
    let seek_ns = catalogue::find("hp97560").unwrap().disk().unwrap().seek.at_ns(place.cylinder);
    let angle_ns = tracks.pass_start_ns(&place) % REVOLUTION_NS;
    let there_ns = 2_200_000 + seek_ns;
    let there_ns = there_ns + (angle_ns + REVOLUTION_NS - there_ns % REVOLUTION_NS) % REVOLUTION_NS;
    let read_ns = tracks.pass_end_ns(&tracks.place(16_015)) - tracks.pass_start_ns(&place);
    assert_eq!(block(&mut disk, 0, 1000), (there_ns + read_ns, false));
}

#[test]
fn a_cached_block_costs_overhead_and_bus() {
    let mut disk = disk();
    let (first_ns, _) = block(&mut disk, 0, 0);
    let later_ns = first_ns + 20 * MS; // time for the next five blocks to be read ahead
    assert_eq!(block(&mut disk, later_ns, 1), (later_ns + 2_200_000 + 819_200, true));
    assert_eq!(block(&mut disk, later_ns + 4 * MS, 3), (later_ns + 4 * MS + 3_019_200, true));
}

#[test]
fn a_block_that_the_heads_have_not_reached_aborts_the_readahead() {
    let mut disk = disk();
    let (first_ns, _) = block(&mut disk, 0, 0);
    // Block 2 begins 16 sectors (3.3 ms) after the head's place: it is not read through to.
    let (finished_ns, from_cache) = block(&mut disk, first_ns, 2);
    assert!(!from_cache);
    // It is on the same track and still ahead, so waiting for it costs no revolution.
    assert!(finished_ns - first_ns < REVOLUTION_NS);
    // What was read ahead before is gone.
    assert!(!block(&mut disk, finished_ns + 20 * MS, 1).1);
}

#[test]
fn a_block_whose_first_sector_is_under_the_head_is_a_hit() {
    let mut disk = disk();
    let (first_ns, _) = block(&mut disk, 0, 0);
    let sector_ns = REVOLUTION_NS / 72;
    let mut again = disk.clone();
    // During sector 32, the first of block 2.
    assert!(block(&mut disk, first_ns + 16 * sector_ns + sector_ns / 2, 2).1);
    // During sector 31.
    assert!(!block(&mut again, first_ns + 16 * sector_ns - sector_ns / 2, 2).1);
}

#[test]
fn readahead_stops_128_kib_past_the_request() {
    let mut disk = disk();
    let (first_ns, _) = block(&mut disk, 0, 0);
    let long_after_ns = first_ns + 1000 * MS;
    let mut again = disk.clone();
    assert!(block(&mut disk, long_after_ns, 16).1, "128 KiB are blocks 1 to 16");
    assert!(!block(&mut again, long_after_ns, 17).1);
}

#[test]
fn a_hit_sends_the_readahead_on() {
    let mut disk = disk();
    let (first_ns, _) = block(&mut disk, 0, 0);
    let (hit_ns, _) = block(&mut disk, first_ns + 1000 * MS, 8);
    // Blocks 9 to 16 were there; up to 24 are read now.
    assert!(block(&mut disk, hit_ns + 1000 * MS, 24).1);
}

#[test]
fn the_oldest_sectors_are_overwritten() {
    let mut disk = disk();
    let (mut now_ns, _) = block(&mut disk, 0, 0);
    for b in 1..=20 {
        now_ns = block(&mut disk, now_ns, b).0;
    }
    let mut again = disk.clone();
    // Readahead goes on to block 36: 128 KiB of cache then hold blocks 21 to 36.
    assert!(block(&mut disk, now_ns, 20).1, "just read");
    assert!(!block(&mut again, now_ns + 1000 * MS, 20).1, "overwritten by block 36");
}

#[test]
fn a_write_ends_the_readahead_and_is_reported_at_once() {
    let mut disk = disk();
    let (first_ns, _) = block(&mut disk, 0, 0);
    let write = disk.service(first_ns, &Request::write(0, 160_000, 16));
    assert_eq!(write.finished_ns, first_ns + 3_019_200);
    // The platters are still busy with it: seek, rotation and transfer come first.
    let (finished_ns, from_cache) = block(&mut disk, write.finished_ns, 1);
    assert!(!from_cache);
    assert!(finished_ns - write.finished_ns > 2 * 3_640_000);
}

#[test]
fn a_write_drops_what_the_cache_holds_of_it() {
    let mut disk = disk();
    let (first_ns, _) = block(&mut disk, 0, 0);
    disk.service(first_ns + 100 * MS, &Request::write(0, 64, 16));
    assert!(!block(&mut disk, first_ns + 500 * MS, 4).1);
}

#[test]
fn without_readahead_neighbours_cost_a_revolution() {
    let mut parameters = catalogue::find("hp97560").unwrap().disk().unwrap().clone();
    parameters.cache.readahead_bytes = 0;
    let mut disk = Mechanism::new(&parameters);
    let (first_ns, _) = block(&mut disk, 0, 0);
    // The 2.2 ms of the controller are 10.6 sectors: the next block comes by a revolution later.
    let (finished_ns, from_cache) = block(&mut disk, first_ns, 1);
    assert!(!from_cache);
    assert!((finished_ns - first_ns).abs_diff(REVOLUTION_NS + 16 * REVOLUTION_NS / 72) <= 2);
}

/// The write fence is 64 KiB, and the drive keeps one write at a time (unless they follow each other).
#[test]
fn a_second_write_waits_for_the_first_unless_it_follows() {
    let first = Request::write(0, 160_000, 16);
    let mut apart = disk();
    let reported_ns = apart.service(0, &first).finished_ns;
    let mut behind = apart.clone();
    let write_ns = 3_019_200;
    assert_eq!(reported_ns, write_ns);
    // Elsewhere: when the first is on the platters, after a seek and a rotation.
    let second_ns = apart.service(reported_ns, &Request::write(1, 800_000, 16)).finished_ns;
    assert!(second_ns - reported_ns > 2 * write_ns, "{}", second_ns - reported_ns);
    // Right behind: at once, four of them in the time that the heads take to get there.
    let mut now_ns = reported_ns;
    for i in 1..4 {
        let finished_ns = behind.service(now_ns, &Request::write(i, 160_000 + i * 16, 16)).finished_ns;
        assert_eq!(finished_ns - now_ns, write_ns);
        now_ns = finished_ns;
    }
}

/// A read goes before writes that wait, and is served from them.
#[test]
fn reads_are_served_from_what_waits_to_be_written() {
    let mut parameters = catalogue::find("hp97560").unwrap().disk().unwrap().clone();
    parameters.cache.write_segments = 4;
    let mut disk = Mechanism::new(&parameters);
    let mut now_ns = 0;
    for (i, sector) in [160_000, 800_000, 400_000].into_iter().enumerate() {
        let finished_ns = disk.service(now_ns, &Request::write(i as u64, sector, 16)).finished_ns;
        assert_eq!(finished_ns - now_ns, 3_019_200, "there is room for all three");
        now_ns = finished_ns;
    }
    let read = disk.service(now_ns, &Request::read(3, 400_004, 8));
    assert!(read.from_cache);
    assert!(read.finished_ns - now_ns < 3_019_200);
    // Of another block only a part is there: it is read when that is written.
    let read = disk.service(read.finished_ns, &Request::read(4, 400_008, 16));
    assert!(!read.from_cache);
    assert!(read.finished_ns - now_ns > 20_000_000);
}
