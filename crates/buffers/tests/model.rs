//! Anything in any order: bytes are always right, memory stays within its bounds, and nobody waits for ever.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::thread;

use common::{Faults, PART, Shelf, bytes, open, options, read};
use foretell_buffers::{Error, Object, Pool, Source, Statistics};
use foretell_policy::belady_fetches;
use proptest::prelude::*;

const P: u64 = PART as u64;

#[derive(Debug, Clone)]
enum Act {
    Open(usize),
    Close(usize),
    Read(usize, u64, u64),
    View(usize, u32),
    Disclose(Vec<(usize, u64, u64)>),
    Cancel,
    Change(usize, u64),
    Fail(u64, u64, u64),
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let object = 0..NAMES.len();
    let range = (object.clone(), 0..6 * P, 0..4 * P);
    let act = prop_oneof![
        2 => object.clone().prop_map(Act::Open),
        1 => object.clone().prop_map(Act::Close),
        12 => range.clone().prop_map(|(object, at, length)| Act::Read(object, at, length)),
        3 => (object.clone(), 0..8_u32).prop_map(|(object, part)| Act::View(object, part)),
        4 => prop::collection::vec(range, 1..12).prop_map(Act::Disclose),
        1 => Just(Act::Cancel),
        1 => (object, 1..9 * P).prop_map(|(object, length)| Act::Change(object, length)),
        2 => (0..4_u64, 0..4_u64, 0..4_u64).prop_map(|(fails, short, late)| Act::Fail(fails, short, late)),
    ];
    prop::collection::vec(act, 1..80)
}

/// An open object and the version that it was opened in.
type Opened = Option<(Object, u64)>;

fn do_one(pool: &Pool, shelf: &Arc<Shelf>, opened: &mut [Opened; 4], faulty: &mut bool, act: &Act) {
    let is_old = |at: usize, version: u64| shelf.version(NAMES[at]) != version;
    match act {
        Act::Open(at) => {
            let version = shelf.version(NAMES[*at]);
            opened[*at] = Some((open(pool, shelf, NAMES[*at]), version));
        }
        Act::Close(at) => opened[*at] = None,
        Act::Read(at, offset, length) => {
            let Some((object, version)) = &opened[*at] else { return };
            match read(object, *offset, *length) {
                Ok(got) => assert_eq!(got, bytes(NAMES[*at], *version, *offset..offset + length)),
                Err(Error::PastEnd { .. }) => assert!(offset + length > object.length()),
                Err(Error::Changed { .. }) => assert!(is_old(*at, *version)),
                Err(Error::Failed { .. } | Error::Short { .. }) => assert!(*faulty),
                Err(other) => panic!("{other}"),
            }
        }
        Act::View(at, part) => {
            let Some((object, version)) = &opened[*at] else { return };
            if let Ok(view) = object.view(*part) {
                let start = u64::from(*part) * P;
                assert_eq!(*view, bytes(NAMES[*at], *version, start..(start + P).min(object.length()))[..]);
            }
        }
        Act::Disclose(ranges) => {
            let known = ranges.iter().filter_map(|(at, offset, length)| {
                let (object, _) = opened[*at].as_ref()?;
                (offset + length <= object.length()).then_some((object, *offset, *length))
            });
            let known: Vec<_> = known.collect();
            assert_eq!(pool.disclose(&known).unwrap(), known.len());
        }
        Act::Cancel => pool.cancel().unwrap(),
        Act::Change(at, length) => shelf.put(NAMES[*at], *length),
        Act::Fail(fails, short, delayed) => {
            // What was asked for under the old ones may still come.
            *faulty |= fails + short > 0;
            shelf.set_faults(Faults { fails: *fails, short: *short, delayed: *delayed, ..Faults::default() });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_right_and_memory_is_bounded(acts in acts(), parts in 1..12_u32, disk_parts in 0..24_u64) {
        let shelf = Shelf::new();
        for name in NAMES {
            shelf.put(name, 5 * P + 77);
        }
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(parts);
        options.disk_dir = (disk_parts > 0).then(|| folder.path().to_owned());
        options.disk_bytes = disk_parts * P;
        let pool = Pool::new(options).unwrap();
        let mut opened: [Opened; 4] = [const { None }; 4];
        let mut faulty = false;
        for act in &acts {
            do_one(&pool, &shelf, &mut opened, &mut faulty, act);
        }
        // The budget, and what one read holds: half of the budget, one part at least; and a part of a closed object that is
        // just being filled for each request; and what waits to be written.
        let slack = u64::from((parts / 2).max(1)) + 4 * 12 + if disk_parts > 0 { 32 + 8 } else { 0 };
        let peak = pool.statistics().unwrap().memory_peak_bytes;
        prop_assert!(peak <= (u64::from(parts) + slack) * P, "{peak} bytes, {parts} parts");
        opened.fill(None);
        drop(opened);
        prop_assert_eq!(pool.statistics().unwrap().objects, 0);
    }
}

#[test]
fn the_budget_holds_while_objects_stay_open() {
    let shelf = Shelf::new();
    shelf.put("a", 400 * P);
    let pool = Pool::new(options(40)).unwrap();
    let object = open(&pool, &shelf, "a");
    for round in 0..3 {
        for at in 0..400 {
            let part = (at * 7 + round) % 400;
            pool.disclose(&[(&object, (part + 7) % 400 * P, P)]).unwrap();
            assert_eq!(read(&object, part * P, P).unwrap(), bytes("a", 0, part * P..(part + 1) * P));
        }
    }
    // One part is read at a time: it may be replaced while it is copied.
    let peak = pool.statistics().unwrap().memory_peak_bytes;
    assert!(peak <= 41 * P, "{} parts", peak / P);
}

#[test]
fn faults_beside_each_other_give_no_wrong_byte_and_no_hang() {
    let shelf = Shelf::new();
    for at in 0..20 {
        shelf.put(&format!("o{at}"), 9 * P + 5);
    }
    shelf.set_faults(Faults { fails: 20, short: 20, delayed: 10, ..Faults::default() });
    let pool = Pool::new(options(30)).unwrap();
    let source: Arc<dyn Source> = shelf.clone();
    let failed: usize = thread::scope(|scope| {
        let reader = |seed: u64| {
            let (pool, source) = (&pool, &source);
            move || {
                let mut failed = 0;
                for step in 0..300_u64 {
                    let at = (seed * 7919 + step * step) % 20;
                    let name = format!("o{at}");
                    let object = pool.open_in("shelf", source, &name).unwrap();
                    let offset = step * 37 % (8 * P);
                    if step % 5 == 0 {
                        pool.disclose(&[(&object, 0, 9 * P)]).unwrap();
                    }
                    match read(&object, offset, P) {
                        Ok(got) => assert_eq!(got, bytes(&name, 0, offset..offset + P)),
                        Err(Error::Failed { .. } | Error::Short { .. }) => failed += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                failed
            }
        };
        let readers: Vec<_> = (0..4).map(|seed| scope.spawn(reader(seed))).collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    let counts = pool.statistics().unwrap();
    assert!(failed > 0 && failed < 600, "{failed} of 1200 failed: {counts:?}");
    assert!(counts.requests_failed > 0);
    assert_eq!(counts.objects, 0);
}

/// Three shuffled epochs over small objects of so many parts with memory for half of them, each disclosed in time. Gives
/// the fetches, the best possible ones, and what the pool counted.
fn shuffled_epochs(parts: u32) -> (u64, u64, Statistics) {
    const OBJECTS: usize = 600;
    let shelf = Shelf::new();
    let pool = {
        let mut options = options(OBJECTS as u32 / 2 * parts);
        options.recorded_references = 1 << 16;
        Pool::new(options).unwrap()
    };
    let length = u64::from(parts) * P;
    let objects: Vec<Object> = (0..OBJECTS)
        .map(|at| {
            shelf.put(&at.to_string(), length);
            open(&pool, &shelf, &at.to_string())
        })
        .collect();
    let mut order: Vec<u32> = Vec::new();
    let mut chance = 1_u64;
    for _ in 0..3 {
        let mut epoch: Vec<u32> = (0..OBJECTS as u32).collect();
        for at in (1..epoch.len()).rev() {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            epoch.swap(at, (chance >> 33) as usize % (at + 1));
        }
        order.extend(epoch);
    }
    let ranges: Vec<_> = order.iter().map(|&at| (&objects[at as usize], 0, length)).collect();
    pool.disclose(&ranges).unwrap();
    for &at in &order {
        read(&objects[at as usize], 0, length).unwrap();
    }
    let references: Vec<u32> = order.iter().flat_map(|at| at * parts..(at + 1) * parts).collect();
    let best = belady_fetches(&references, OBJECTS as u32 / 2 * parts);
    let counts = pool.statistics().unwrap();
    assert_eq!(counts.best_fetches, Some(best));
    (counts.fetched_bytes / P, best, counts)
}

/// Three shuffled epochs as the workers of a data loader read them: batches in turn, each worker its own in their order, and at
/// most two batches ahead of the one that is behind. Gives the fetches and the best possible ones.
fn epochs_by_workers(workers: usize, batch: usize) -> (u64, u64) {
    const OBJECTS: u32 = 1200;
    let shelf = Shelf::new();
    let mut options = options(OBJECTS / 2);
    options.recorded_references = 1 << 16;
    let pool = Pool::new(options).unwrap();
    let objects: Vec<Object> = (0..OBJECTS)
        .map(|at| {
            shelf.put(&at.to_string(), P);
            open(&pool, &shelf, &at.to_string())
        })
        .collect();
    let mut chance = 1_u64;
    let mut draw = move |most: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33) as usize % most
    };
    let epochs: Vec<Vec<u32>> = (0..3)
        .map(|_| {
            let mut epoch: Vec<u32> = (0..OBJECTS).collect();
            (1..epoch.len()).rev().for_each(|at| epoch.swap(at, draw(at + 1)));
            epoch
        })
        .collect();
    let told: Vec<_> = epochs.iter().flatten().map(|&at| (&objects[at as usize], 0, P)).collect();
    assert_eq!(pool.disclose(&told).unwrap(), told.len());
    for epoch in &epochs {
        let mut its: Vec<Vec<u32>> = vec![Vec::new(); workers];
        for (number, objects) in epoch.chunks(batch).enumerate() {
            its[number % workers].extend(objects);
        }
        let mut done = vec![0; workers];
        while let Some(behind) = (0..workers).filter(|&w| done[w] < its[w].len()).min_by_key(|&w| done[w]) {
            // One of them goes on for a while.
            let worker = draw(workers);
            let most = its[worker].len().min(done[behind] + 2 * batch);
            for &at in &its[worker][done[worker]..most.min(done[worker] + draw(8)).max(done[worker])] {
                read(&objects[at as usize], 0, P).unwrap();
                done[worker] += 1;
            }
        }
    }
    let counts = pool.statistics().unwrap();
    (counts.fetched_bytes / P, counts.best_fetches.unwrap())
}

#[test]
fn workers_that_share_out_a_sequence_fetch_hardly_more_than_one() {
    // Without being waited for, those behind have two workers fetch 20% more.
    for (workers, batch, percent) in [(2, 16, 106), (4, 8, 112)] {
        let (fetches, best) = epochs_by_workers(workers, batch);
        assert!(fetches * 100 <= best * percent, "{workers} workers: {fetches} instead of {best}");
    }
}

#[test]
fn a_sequence_told_exactly_is_fetched_as_seldom_as_can_be() {
    for (parts, percent) in [(1, 102), (4, 105)] {
        let (fetches, best, counts) = shuffled_epochs(parts);
        assert!(fetches * 100 <= best * percent, "{fetches} instead of {best}: {counts:?}");
        assert!(counts.hits + counts.late > counts.demand_fetches * 10, "{counts:?}");
    }
}
