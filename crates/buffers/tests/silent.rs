//! Requests that are not answered: they keep neither the memory nor the requests of those who read elsewhere.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::thread::{ScopedJoinHandle, scope, yield_now};

use common::{Faults, PART, Shelf, bytes, open, options, read};
use foretell_buffers::{Error, Object, Pool, Source};

const P: u64 = PART as u64;

/// An object of another store.
fn open_elsewhere(pool: &Pool, shelf: &Arc<Shelf>, path: &str) -> Object {
    let source: Arc<dyn Source> = shelf.clone();
    pool.open_in("elsewhere", &source, path).unwrap()
}

/// Ends when this is so, or in time for a test to say why not.
fn until(what: impl Fn() -> bool) -> bool {
    let began = std::time::Instant::now();
    while !what() && began.elapsed().as_secs() < 10 {
        yield_now();
    }
    what()
}

/// Two readers of a store that does not answer, whose reads take all frames of a pool.
fn take_all<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    pool: &Pool,
    shelf: &Arc<Shelf>,
) -> Vec<ScopedJoinHandle<'scope, Result<Vec<u8>, Error>>> {
    let readers = ["a", "b"].map(|name| {
        let object = open(pool, shelf, name);
        scope.spawn(move || read(&object, 0, 16 * P))
    });
    let counts = || pool.statistics().unwrap();
    assert!(until(|| counts().references == 32 && counts().requests == 8), "{:?}", counts());
    readers.into()
}

#[test]
fn frames_of_requests_that_are_not_answered_go_to_who_waits_for_one() {
    let [dead, well] = [Shelf::new(), Shelf::new()];
    ["a", "b"].iter().for_each(|name| dead.put(name, 16 * P));
    well.put("c", 40 * P);
    dead.set_faults(Faults { waits: true, ..Faults::default() });
    let pool = Pool::new(options(32)).unwrap();
    let object = open_elsewhere(&pool, &well, "c");
    scope(|scope| {
        let readers = take_all(scope, &pool, &dead);
        assert!(read(&object, 0, 40 * P).unwrap() == bytes("c", 0, 0..40 * P));
        assert!(readers.iter().all(|reader| !reader.is_finished()), "that had to wait for the time-out");
        let asked = dead.asked().len();
        // Who comes later waits for the same answers, and takes nothing of others.
        let late = scope.spawn(|| read(&open(&pool, &dead, "a"), 0, 16 * P));
        assert!(read(&object, 30 * P, 10 * P).unwrap() == bytes("c", 0, 30 * P..40 * P));
        dead.set_faults(Faults::default());
        for (name, reader) in ["a", "b", "a"].into_iter().zip(readers.into_iter().chain([late])) {
            assert!(reader.join().unwrap().unwrap() == bytes(name, 0, 0..16 * P));
        }
        assert!(dead.asked().len() <= asked + 16, "what nobody kept may be asked for again");
    });
    // What came too late for the pool is not lost for good.
    let again = open(&pool, &dead, "a");
    assert!(read(&again, 0, 16 * P).unwrap() == bytes("a", 0, 0..16 * P));
    drop((again, object));
    let counts = || pool.statistics().unwrap();
    assert!(until(|| counts().memory_bytes == 0 && counts().requests_under_way == 0), "{:?}", counts());
}

#[test]
fn what_is_never_answered_is_an_error_for_its_readers_alone() {
    let [dead, well] = [Shelf::new(), Shelf::new()];
    ["a", "b"].iter().for_each(|name| dead.put(name, 16 * P));
    well.put("c", 40 * P);
    dead.set_faults(Faults { silent: true, ..Faults::default() });
    let mut brief = options(32);
    brief.timeout = std::time::Duration::from_secs(4);
    let pool = Pool::new(brief).unwrap();
    let object = open_elsewhere(&pool, &well, "c");
    scope(|scope| {
        let readers = take_all(scope, &pool, &dead);
        assert!(read(&object, 0, 40 * P).unwrap() == bytes("c", 0, 0..40 * P));
        for reader in readers {
            assert!(matches!(reader.join().unwrap(), Err(Error::TimedOut { .. })));
        }
    });
    dead.set_faults(Faults::default());
    let again = open(&pool, &dead, "b");
    assert!(read(&again, 0, 16 * P).unwrap() == bytes("b", 0, 0..16 * P));
    drop((again, object));
    let counts = || pool.statistics().unwrap();
    assert!(until(|| counts().memory_bytes == 0 && counts().requests_under_way == 0), "{:?}", counts());
}

#[test]
fn a_store_that_is_only_slow_is_kept_as_any_other() {
    let [slow, well] = [Shelf::new(), Shelf::new()];
    slow.put("a", 8 * P);
    well.put("c", P);
    slow.set_faults(Faults { waits: true, ..Faults::default() });
    let mut options = options(64);
    options.requests = 1;
    let pool = Pool::new(options).unwrap();
    let [object, other] = [open(&pool, &slow, "a"), open_elsewhere(&pool, &well, "c")];
    scope(|scope| {
        let reader = scope.spawn(|| read(&object, 0, 8 * P));
        assert!(until(|| !slow.asked().is_empty()));
        // Once that comes the request is silent.
        assert!(read(&other, 0, P).unwrap() == bytes("c", 0, 0..P));
        slow.set_faults(Faults::default());
        assert!(reader.join().unwrap().unwrap() == bytes("a", 0, 0..8 * P));
    });
    let asked = slow.asked().len();
    assert!(read(&object, 0, 8 * P).unwrap() == bytes("a", 0, 0..8 * P));
    assert_eq!(slow.asked().len(), asked);
}

#[test]
fn what_is_fetched_ahead_goes_on_beside_what_is_not_answered() {
    let [dead, well] = [Shelf::new(), Shelf::new()];
    let names: Vec<String> = (0..60).map(|at| format!("o{at}")).collect();
    names.iter().for_each(|name| [&dead, &well].iter().for_each(|shelf| shelf.put(name, P)));
    let mut options = options(512);
    options.requests = 16;
    let pool = Pool::new(options).unwrap();
    let [dying, others]: [Vec<Object>; 2] = [
        names.iter().map(|name| open(&pool, &dead, name)).collect(),
        names.iter().map(|name| open_elsewhere(&pool, &well, name)).collect(),
    ];
    dead.set_faults(Faults { silent: true, ..Faults::default() });
    // As many as may be ahead of their use.
    let ranges = |objects: &[Object]| objects.iter().map(|one| (one.clone(), 0, P)).collect::<Vec<_>>();
    let list = [ranges(&dying[..16]), ranges(&others)].concat();
    let list: Vec<_> = list.iter().map(|(one, offset, length)| (one, *offset, *length)).collect();
    assert_eq!(pool.disclose(&list).unwrap(), 76);
    let counts = || pool.statistics().unwrap();
    assert!(until(|| counts().requests_under_way == 16), "{:?}", counts());
    // The first of them takes the place of one of those.
    for (object, name) in others.iter().zip(&names) {
        assert!(read(object, 0, P).unwrap() == bytes(name, 0, 0..P));
    }
    let counts = counts();
    assert!(counts.demand_fetches < 20, "{counts:?}");
    assert!(counts.requests_under_way >= 16, "that had to wait for the time-out");
}

#[test]
fn an_answer_that_stops_in_the_middle_lends_its_request_to_others() {
    let [dead, well] = [Shelf::new(), Shelf::new()];
    dead.put("a", 4 * P);
    well.put("c", 4 * P);
    dead.set_faults(Faults { stalls: true, ..Faults::default() });
    let mut options = options(32);
    options.requests = 1;
    let pool = Pool::new(options).unwrap();
    let [stalled, object] = [open(&pool, &dead, "a"), open_elsewhere(&pool, &well, "c")];
    scope(|scope| {
        let reader = scope.spawn(|| read(&stalled, 0, 4 * P));
        assert!(until(|| !dead.asked().is_empty()));
        assert!(read(&object, 0, 4 * P).unwrap() == bytes("c", 0, 0..4 * P));
        assert!(!reader.is_finished(), "that had to wait for the time-out");
        dead.set_faults(Faults::default());
        assert!(reader.join().unwrap().unwrap() == bytes("a", 0, 0..4 * P));
    });
}
