//! What programs say of objects beside what they will read.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{PART, Shelf, bytes, open, options, read};
use foretell_buffers::{Directive, Error, Guest, Object, Pool, PoolPolicy, Remote};
use foretell_policy::Prefetch;

const P: u64 = PART as u64;

/// A pool of so many parts that fetches nothing by itself, so that counts are exact.
fn pool(parts: u32) -> Pool {
    let mut options = options(parts);
    options.prefetch = Prefetch::None;
    Pool::new(options).unwrap()
}

fn read_all(object: &Object) {
    for at in 0..object.length().div_ceil(P) {
        let length = P.min(object.length() - at * P);
        read(object, at * P, length).unwrap();
    }
}

/// Bytes in memory, once they are as many as they should be, or ten seconds have passed: who has fetched a part may hold it for
/// a moment longer.
fn in_memory(pool: &Pool, wanted: u64) -> u64 {
    let began = std::time::Instant::now();
    loop {
        let bytes = pool.statistics().unwrap().memory_bytes;
        if bytes == wanted || began.elapsed() > Duration::from_secs(10) {
            return bytes;
        }
        std::thread::yield_now();
    }
}

fn fetched(pool: &Pool) -> u64 {
    pool.statistics().unwrap().demand_fetches
}

#[test]
fn lower_priorities_go_first() {
    let shelf = Shelf::new();
    shelf.put("index", 4 * P);
    shelf.put("table", 100 * P);
    let pool = pool(20);
    let (index, table) = (open(&pool, &shelf, "index"), open(&pool, &shelf, "table"));
    index.direct(Directive::Priority(1)).unwrap();
    read_all(&index);
    read_all(&table);
    let before = fetched(&pool);
    read_all(&index);
    assert_eq!(fetched(&pool) - before, 0, "the index has stayed");
    index.direct(Directive::Priority(0)).unwrap();
    read_all(&table);
    let before = fetched(&pool);
    read_all(&index);
    assert_eq!(fetched(&pool) - before, 4);
}

#[test]
fn a_priority_has_a_policy_of_its_own() {
    let passes = |policy| {
        let shelf = Shelf::new();
        shelf.put("scanned", 20 * P);
        let pool = pool(16);
        let scanned = open(&pool, &shelf, "scanned");
        pool.set_policy(3, policy).unwrap();
        scanned.direct(Directive::Priority(3)).unwrap();
        (0..5).for_each(|_| read_all(&scanned));
        fetched(&pool)
    };
    assert_eq!(passes(PoolPolicy::Lru), 100, "each part goes just before it is needed");
    let mru = passes(PoolPolicy::Mru);
    assert!(mru <= 20 + 4 * 5, "{mru}");
}

#[test]
fn what_is_done_with_goes_at_once_but_for_what_is_disclosed() {
    let shelf = Shelf::new();
    shelf.put("a", 10 * P + 5);
    let pool = pool(20);
    let a = open(&pool, &shelf, "a");
    read_all(&a);
    assert_eq!(in_memory(&pool, 10 * P + 5), 10 * P + 5);
    // A part goes when all of it was given up.
    a.direct(Directive::DoneWith { offset: 0, length: P - 1 }).unwrap();
    assert_eq!(in_memory(&pool, 10 * P + 5), 10 * P + 5);
    a.direct(Directive::DoneWith { offset: P - 1, length: P + 1 }).unwrap();
    assert_eq!(in_memory(&pool, 8 * P + 5), 8 * P + 5);
    pool.disclose(&[(&a, 4 * P, P)]).unwrap();
    a.direct(Directive::DoneWith { offset: 0, length: a.length() }).unwrap();
    assert_eq!(in_memory(&pool, P), P);
    assert_eq!(read(&a, 4 * P, P).unwrap(), bytes("a", 0, 4 * P..5 * P));
    // What is held is not taken away.
    let view = a.view(4).unwrap();
    a.direct(Directive::DoneWith { offset: 0, length: a.length() }).unwrap();
    assert_eq!(&*view, &bytes("a", 0, 4 * P..5 * P)[..]);
    let beyond = a.direct(Directive::DoneWith { offset: 0, length: a.length() + 1 }).unwrap_err();
    assert!(matches!(beyond, Error::PastEnd { .. }));
    a.direct(Directive::DoneWith { offset: a.length(), length: 0 }).unwrap();
}

#[test]
fn a_temporary_priority_ends_with_the_next_read() {
    let shelf = Shelf::new();
    shelf.put("a", 10 * P);
    shelf.put("b", 100 * P);
    let pool = pool(16);
    let (a, b) = (open(&pool, &shelf, "a"), open(&pool, &shelf, "b"));
    read_all(&a);
    a.direct(Directive::TemporaryPriority { offset: 0, length: 5 * P, priority: -1 }).unwrap();
    // Read again: it counts as any other.
    read(&a, 4 * P, P).unwrap();
    for part in 0..10 {
        read(&b, part * P, P).unwrap();
    }
    let before = fetched(&pool);
    for part in 4..10 {
        read(&a, part * P, P).unwrap();
    }
    assert_eq!(fetched(&pool) - before, 0);
}

#[test]
fn a_guest_directs_what_it_reads_itself() {
    let folder = tempfile::tempdir().unwrap();
    for (name, length) in [("index", 4 * P), ("table", 100 * P)] {
        std::fs::write(folder.path().join(name), bytes(name, 0, 0..length)).unwrap();
    }
    let pool = pool(20);
    let guest = Guest::attach(&pool.share().unwrap(), Duration::from_secs(20), None).unwrap();
    let remote = |name: &str| {
        let url = format!("file://{}/{name}", folder.path().display());
        let stamp = guest.open_all(&[&url], false).unwrap().remove(0).unwrap();
        Remote::new(&url, stamp).unwrap()
    };
    let (index, table) = (remote("index"), remote("table"));
    let read_all = |one: &Remote| {
        let mut buffer = vec![0; PART as usize];
        for at in 0..one.stamp().length / P {
            guest.read_at(one, &mut buffer, at * P).unwrap();
        }
    };
    guest.set_policy(1, PoolPolicy::Sieve).unwrap();
    guest.direct(&index, Directive::Priority(1)).unwrap();
    read_all(&index);
    read_all(&table);
    let before = fetched(&pool);
    read_all(&index);
    assert_eq!(fetched(&pool), before, "the index has stayed");
    guest.direct(&index, Directive::DoneWith { offset: 0, length: 4 * P }).unwrap();
    read_all(&index);
    assert_eq!(fetched(&pool), before + 4);
    let beyond = guest.direct(&index, Directive::DoneWith { offset: 0, length: 5 * P }).unwrap_err();
    assert!(matches!(beyond, Error::PastEnd { .. }), "{beyond}");
}
