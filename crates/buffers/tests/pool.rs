//! The pool by hand: what is read, what is asked of the store, and what each mistake says.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Faults, PART, Shelf, bytes, open, options, read};
use foretell_buffers::{Error, Options, Pool, Source};

const P: u64 = PART as u64;

/// Until something is so, or for ten seconds.
fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    is_so()
}

#[test]
fn neighbours_are_read_by_one_request_and_stay() {
    let shelf = Shelf::new();
    shelf.put("a", 10 * P + 100);
    let pool = Pool::new(options(64)).unwrap();
    let object = open(&pool, &shelf, "a");
    assert_eq!((object.length(), object.parts()), (10 * P + 100, 11));
    assert_eq!(read(&object, P - 7, 2 * P).unwrap(), bytes("a", 0, P - 7..3 * P - 7));
    // And what comes next, as it is read in order: by another request, which may be the first to arrive.
    let asked = shelf.asked();
    let (path, range) = asked.iter().min_by_key(|(_, range)| range.start).unwrap();
    assert!(path == "a" && range.start == 0 && range.end >= 3 * P, "{range:?}");
    // Once more, and the end, which is shorter than a part.
    assert_eq!(read(&object, 0, 3 * P).unwrap(), bytes("a", 0, 0..3 * P));
    assert_eq!(read(&object, 10 * P, 100).unwrap(), bytes("a", 0, 10 * P..10 * P + 100));
    let counts = pool.statistics().unwrap();
    assert_eq!(counts.references, 7);
    assert!(counts.hits >= 3, "{counts:?}");
    assert_eq!(&*object.view(10).unwrap(), &bytes("a", 0, 10 * P..10 * P + 100)[..]);
    assert!(read(&object, 0, 0).unwrap().is_empty());
}

#[test]
fn what_takes_no_wait_is_read_at_once_and_nothing_else_is_asked_for() {
    let shelf = Shelf::new();
    shelf.put("a", 100 * P);
    let pool = Pool::new(options(200)).unwrap();
    let object = open(&pool, &shelf, "a");
    let mut buffer = vec![0; 2 * PART as usize];
    assert!(!object.read_now(&mut buffer, 7).unwrap());
    assert!(shelf.asked().is_empty());
    read(&object, 0, 3 * P).unwrap();
    assert!(object.read_now(&mut buffer, 7).unwrap());
    assert_eq!(buffer, bytes("a", 0, 7..2 * P + 7));
    // A byte behind what is there.
    assert!(!object.read_now(&mut buffer, 98 * P).unwrap());
    assert!(matches!(object.read_now(&mut buffer, 98 * P + 1), Err(Error::PastEnd { .. })));
    // More parts than are read without the lock, though all are there.
    read(&object, 0, 100 * P).unwrap();
    assert!(object.read_now(&mut vec![0; 32 * PART as usize], 0).unwrap());
    assert!(!object.read_now(&mut vec![0; 33 * PART as usize], 0).unwrap());
}

#[test]
fn every_hit_is_counted_however_quick_they_come() {
    let shelf = Shelf::new();
    shelf.put("a", 8 * P);
    let pool = Pool::new(options(64)).unwrap();
    let object = open(&pool, &shelf, "a");
    read(&object, 0, 8 * P).unwrap();
    let before = pool.statistics().unwrap();
    // More than a lane holds, from two threads.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..5000).for_each(|at| _ = object.view(at % 8).unwrap()));
        }
    });
    let counts = pool.statistics().unwrap();
    assert_eq!((counts.references - before.references, counts.hits - before.hits), (10_000, 10_000));
}

#[test]
fn what_is_disclosed_is_there_before_it_is_read_and_no_further_ahead_than_its_share() {
    let shelf = Shelf::new();
    shelf.put("a", 1000 * P);
    let pool = Pool::new(options(200)).unwrap();
    let object = open(&pool, &shelf, "a");
    // From the end on, so that no readahead helps.
    let order: Vec<u64> = (0..500).rev().map(|at| at * 2 * P).collect();
    let ranges: Vec<_> = order.iter().map(|&at| (&object, at, P)).collect();
    assert_eq!(pool.disclose(&ranges).unwrap(), 500);
    assert!(eventually(|| pool.statistics().unwrap().fetched_bytes >= 4 * P));
    for (read_before, &at) in (0..).zip(&order) {
        assert_eq!(read(&object, at, P).unwrap(), bytes("a", 0, at..at + P));
        let counts = pool.statistics().unwrap();
        assert!(counts.fetched_bytes / P <= read_before + 1 + 200 / 8, "{counts:?}");
    }
    let counts = pool.statistics().unwrap();
    assert_eq!((counts.references, counts.demand_fetches, counts.prefetches), (500, 0, 500));
}

#[test]
fn disclosed_neighbours_become_one_request() {
    let shelf = Shelf::new();
    shelf.put("a", 200 * P);
    let pool = Pool::new(options(400)).unwrap();
    let object = open(&pool, &shelf, "a");
    pool.disclose(&[(&object, 0, 200 * P)]).unwrap();
    for part in 0..200 {
        assert_eq!(read(&object, part * P, P).unwrap(), bytes("a", 0, part * P..(part + 1) * P));
    }
    let counts = pool.statistics().unwrap();
    assert_eq!((counts.demand_fetches, counts.prefetches, counts.fetched_bytes), (0, 200, 200 * P));
    assert!(counts.requests < 100, "{counts:?}");
    // An eighth of the budget at most.
    assert!(shelf.asked().iter().all(|(_, range)| range.end - range.start <= 50 * P), "{:?}", shelf.asked());
}

#[test]
fn no_more_requests_than_allowed_are_under_way_nor_larger_ones() {
    let shelf = Shelf::new();
    shelf.put("a", 3 << 20);
    shelf.put("b", 64 << 20);
    shelf.set_faults(Faults { delayed: 1, ..Faults::default() });
    let mut few = options(1 << 15);
    few.requests = 3;
    let pool = Pool::new(few).unwrap();
    let (a, b) = (open(&pool, &shelf, "a"), open(&pool, &shelf, "b"));
    pool.disclose(&[(&b, 0, 16 << 20)]).unwrap();
    std::thread::scope(|scope| {
        for reader in 0..16 {
            let a = &a;
            scope.spawn(move || {
                for at in 0..40 {
                    read(a, (at * 16 + reader) * P, P).unwrap();
                }
            });
        }
    });
    read(&b, 0, 64 << 20).unwrap();
    assert_eq!(shelf.busiest(), 3);
    assert!(shelf.asked().iter().all(|(_, range)| range.end - range.start <= 8 << 20));
    assert!(shelf.asked().iter().any(|(_, range)| range.end - range.start == 8 << 20));
}

#[test]
fn an_object_that_is_read_in_order_is_read_ahead() {
    let shelf = Shelf::new();
    shelf.put("a", 100 * P);
    let pool = Pool::new(options(200)).unwrap();
    let object = open(&pool, &shelf, "a");
    for part in 0..100 {
        assert_eq!(read(&object, part * P, P).unwrap(), bytes("a", 0, part * P..(part + 1) * P));
    }
    let counts = pool.statistics().unwrap();
    assert!(counts.demand_fetches < 10, "{counts:?}");
    assert!(counts.requests < 50, "{counts:?}");
}

#[test]
fn a_changed_object_is_an_error_until_it_is_opened_again() {
    let shelf = Shelf::new();
    shelf.put("a", 4 * P);
    let pool = Pool::new(options(64)).unwrap();
    let old = open(&pool, &shelf, "a");
    assert_eq!(read(&old, 0, P).unwrap(), bytes("a", 0, 0..P));
    shelf.put("a", 4 * P);
    let changed = Error::Changed { url: "shelf/a".to_owned() };
    assert_eq!(read(&old, 0, 4 * P), Err(changed.clone()));
    assert_eq!(read(&old, 3 * P, P), Err(changed.clone()));
    let new = open(&pool, &shelf, "a");
    assert_eq!(read(&new, 0, 4 * P).unwrap(), bytes("a", 1, 0..4 * P));
    assert_eq!(read(&old, 3 * P, P), Err(changed.clone()));
    shelf.remove("a");
    let pool = Pool::new(options(1)).unwrap();
    shelf.put("b", 2 * P);
    let gone = open(&pool, &shelf, "b");
    shelf.remove("b");
    assert_eq!(read(&gone, 0, 1), Err(Error::Changed { url: "shelf/b".to_owned() }));
}

#[test]
fn an_object_opened_twice_is_one_and_its_memory_goes_with_the_last_handle() {
    let shelf = Shelf::new();
    shelf.put("a", 4 * P);
    let pool = Pool::new(options(64)).unwrap();
    let (one, other) = (open(&pool, &shelf, "a"), open(&pool, &shelf, "a"));
    read(&one, 0, 4 * P).unwrap();
    drop(one);
    read(&other, 0, 4 * P).unwrap();
    let view = other.view(1).unwrap();
    let counts = pool.statistics().unwrap();
    assert_eq!((counts.hits, counts.objects, counts.leased_bytes), (5, 1, P));
    drop(other);
    assert_eq!(pool.statistics().unwrap().objects, 0);
    assert!(eventually(|| pool.statistics().unwrap().memory_bytes == P));
    assert_eq!(&view[..], &bytes("a", 0, P..2 * P)[..], "a lease outlives its object");
    drop(view);
    assert_eq!(pool.statistics().unwrap().memory_bytes, 0);
}

#[test]
fn who_waits_for_nothing_is_told_in_time_and_the_memory_comes_back() {
    let shelf = Shelf::new();
    shelf.put("a", 100 * P);
    let mut brief = options(8);
    // Longer than to open takes on a busy machine.
    brief.timeout = Duration::from_millis(1500);
    let pool = Pool::new(brief).unwrap();
    let object = open(&pool, &shelf, "a");
    shelf.set_faults(Faults { silent: true, ..Faults::default() });
    pool.disclose(&[(&object, 0, 100 * P)]).unwrap();
    for at in [50, 0] {
        let began = Instant::now();
        let error = read(&object, at * P, P).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert_eq!(error.to_string(), "shelf/a: no answer within 1.5 s");
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    shelf.set_faults(Faults::default());
    assert!(eventually(|| read(&object, 0, 100 * P).is_ok_and(|got| got == bytes("a", 0, 0..100 * P))));
    drop(object);
    assert!(eventually(|| pool.statistics().unwrap().memory_bytes == 0));
}

#[test]
fn a_pool_that_is_gone_leaves_its_objects_readable() {
    let shelf = Shelf::new();
    shelf.put("a", 4 * P);
    let pool = Pool::new(options(4)).unwrap();
    let object = open(&pool, &shelf, "a");
    drop(pool);
    assert_eq!(read(&object, 0, 4 * P).unwrap(), bytes("a", 0, 0..4 * P));
}

#[test]
fn limits_are_said() {
    let shelf = Shelf::new();
    shelf.put("a", 8 * P);
    let pool = Pool::new(options(2)).unwrap();
    let object = open(&pool, &shelf, "a");
    let views: Vec<_> = (0..2).map(|part| object.view(part).unwrap()).collect();
    let error = object.view(2).unwrap_err();
    assert_eq!(error.to_string(), format!("no more than {} bytes in views, the budget; drop some", 2 * P));
    drop(views);
    object.view(2).unwrap();
    assert_eq!(pool.statistics().unwrap().leased_bytes, 0);

    // A list that is too long is taken as far as there is room, range by range.
    shelf.put("long", P << 20);
    let pool = Pool::new(options(64)).unwrap();
    let long = open(&pool, &shelf, "long");
    let range = (&long, 0, P << 20);
    let taken = pool.disclose(&[range; 5]).unwrap();
    assert!((3..=4).contains(&taken), "{taken}");
    assert!(pool.statistics().unwrap().disclosed_ahead <= 4 << 20);
    pool.cancel().unwrap();
    assert_eq!(pool.disclose(&[range]).unwrap(), 1);

    // Stores.
    for store in 0..255 {
        let source: Arc<dyn Source> = shelf.clone();
        pool.open_in(&store.to_string(), &source, "a").unwrap();
    }
    let source: Arc<dyn Source> = shelf.clone();
    let error = pool.open_in("one more", &source, "a").unwrap_err();
    assert_eq!(error.to_string(), "no more than 256 stores of a pool");
}

#[test]
fn mistakes_are_one_line_each() {
    let said = |options: Options| Pool::new(options).unwrap_err().to_string();
    let mut small = Options::new(1000);
    assert_eq!(
        said(small.clone()),
        "budget: 1000 bytes hold no part of 16384 bytes; give more, or make parts smaller"
    );
    small.part_bytes = 10;
    assert_eq!(said(small), "part_bytes: 10 is not within 4096 and 67108864");

    let pool = Pool::new(options(4)).unwrap();
    let said = |url: &str| pool.open(url).unwrap_err().to_string();
    assert_eq!(said("data"), "data: no URL (relative URL without a base); SCHEME://STORE/KEY is needed");
    let schemes = "file, s3, s3a, gs, az, adl, azure, abfs, abfss, http, https";
    assert_eq!(said("ftp://x/y"), format!("ftp://x/y: unknown scheme; there are {schemes}"));
    assert_eq!(said("memory:///y"), format!("memory:///y: unknown scheme; there are {schemes}"));
    assert_eq!(said("file:///no/such"), "file:///no/such: no such object");

    let mut mistyped = options(4);
    mistyped.store = vec![("regoin".to_owned(), "eu".to_owned())];
    let error = Pool::new(mistyped).unwrap().open("s3://b/k").unwrap_err();
    assert_eq!(error.to_string(), "s3://b/k: its store has no option 'regoin'");

    for (url, name) in [("s3://b/k", "endpoint"), ("gs://b/k", "base_url"), ("az://b/k", "endpoint")] {
        for address in ["host:1", "nonsense", "file:///a", ""] {
            let mut wrong = options(4);
            wrong.store = vec![(name.to_owned(), address.to_owned())];
            let error = Pool::new(wrong).unwrap().open(url).unwrap_err();
            let why = format!("'{address}' is no address of one; http://HOST:PORT or https://HOST is needed");
            assert_eq!(error.to_string(), format!("{url}: its store cannot be used: {why}"));
        }
    }

    let shelf = Shelf::new();
    shelf.put("a", 5000);
    let object = open(&pool, &shelf, "a");
    let error = read(&object, 4000, 1001).unwrap_err();
    assert_eq!(error.to_string(), "shelf/a: 1001 bytes from 4000 on reach behind its end, it has 5000");
    assert!(matches!(pool.disclose(&[(&object, u64::MAX, 2)]), Err(Error::PastEnd { .. })));
    assert!(matches!(object.view(2), Err(Error::PastEnd { .. })));
    let other = Pool::new(options(4)).unwrap();
    let error = other.disclose(&[(&object, 0, 1)]).unwrap_err();
    assert_eq!(error.to_string(), "shelf/a: it was opened in another pool; open it in this one");
}

#[test]
fn a_store_that_nobody_answers_for_fails_in_time() {
    // A port that was just free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut brief = options(4);
    brief.timeout = Duration::from_millis(300);
    let pool = Pool::new(brief).unwrap();
    let error = pool.open(&format!("http://127.0.0.1:{port}/a")).unwrap_err();
    // Where the machine has much to do, the time-out is earlier than the last answer.
    assert!(matches!(error, Error::Failed { .. } | Error::TimedOut { .. }), "{error}");
    assert_eq!(error.to_string().lines().count(), 1);
    // Nor does each of many take its time in turn.
    let urls: Vec<String> = (0..2000).map(|at| format!("http://127.0.0.1:{port}/{at}")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let began = Instant::now();
    let opened = pool.open_all(&urls).unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "30 times as long otherwise");
    assert!(opened.iter().all(|object| matches!(object, Err(Error::Failed { .. } | Error::TimedOut { .. }))));
}

#[test]
fn local_files_by_url() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two words"));
    std::fs::write(&one, bytes("one", 0, 0..3 * P)).unwrap();
    std::fs::write(&two, "").unwrap();
    let url = format!("file://{}", folder.path().display());
    let pool = Pool::new(options(4)).unwrap();
    let mut listed = pool.list(&url, false).unwrap();
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(listed.len(), 2);
    let stamp = listed[0].stamp.clone().unwrap();
    let object = pool.open_listed(&format!("{url}/one"), stamp).unwrap();
    assert_eq!(read(&object, 0, 3 * P).unwrap(), bytes("one", 0, 0..3 * P));
    let empty = pool.open(&format!("{url}/two%20words")).unwrap();
    assert_eq!((empty.length(), empty.parts(), read(&empty, 0, 0)), (0, 0, Ok(vec![])));
    // Another file by the same name.
    std::fs::write(folder.path().join("new"), vec![7; 3 * PART as usize]).unwrap();
    std::fs::rename(folder.path().join("new"), &one).unwrap();
    let pool = Pool::new(options(4)).unwrap();
    let object = pool.open_listed(&format!("{url}/one"), listed[0].stamp.clone().unwrap()).unwrap();
    assert!(matches!(read(&object, 0, P), Err(Error::Changed { .. })));
}

#[test]
fn who_waits_may_give_up_and_the_bytes_come_nevertheless() {
    let shelf = Shelf::new();
    shelf.put("a", P);
    let mut interruptible = options(4);
    interruptible.keep_waiting = Some(|| false);
    let pool = Pool::new(interruptible).unwrap();
    let object = open(&pool, &shelf, "a");
    shelf.set_faults(Faults { silent: true, ..Faults::default() });
    let began = Instant::now();
    assert_eq!(read(&object, 0, P), Err(Error::Interrupted));
    assert!(began.elapsed() < Duration::from_secs(10), "half of the time-out");
    drop(object);

    // Nor for the states of objects.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a", port.local_addr().unwrap());
    assert!(matches!(pool.open(&url), Err(Error::Interrupted)));

    let mut patient = options(4);
    patient.keep_waiting = Some(|| true);
    let pool = Pool::new(patient).unwrap();
    shelf.set_faults(Faults::default());
    let object = open(&pool, &shelf, "a");
    assert_eq!(read(&object, 0, P).unwrap(), bytes("a", 0, 0..P));
}

#[test]
fn an_object_has_no_more_parts_than_can_be_counted() {
    let shelf = Shelf::new();
    let pool = Pool::new(options(4)).unwrap();
    shelf.put("long", P << 31);
    assert_eq!(open(&pool, &shelf, "long").parts(), 1 << 31);
    shelf.put("longer", (P << 31) + 1);
    let source: Arc<dyn Source> = shelf.clone();
    let error = pool.open_in("shelf", &source, "longer").unwrap_err();
    assert_eq!(error.to_string(), "no more than 2147483648 parts of an object; make them larger");
    // Its very end, and nothing behind it.
    let object = open(&pool, &shelf, "long");
    read(&object, (P << 31) - 10, 10).unwrap();
    assert!(matches!(read(&object, (P << 31) - 10, 11), Err(Error::PastEnd { .. })));
    assert!(matches!(object.view(u32::MAX), Err(Error::PastEnd { .. })));
}

#[test]
fn a_read_of_many_parts_somewhere_fetches_those_and_nothing_behind_them() {
    let shelf = Shelf::new();
    shelf.put("a", 4000 * P);
    let pool = Pool::new(options(2000)).unwrap();
    let object = open(&pool, &shelf, "a");
    let mut asked = 0;
    for at in (0..50).map(|at| (at * 37 % 50 * 79 + 7) * P) {
        assert_eq!(read(&object, at, 13 * P).unwrap(), bytes("a", 0, at..at + 13 * P));
        asked += 13 * P;
    }
    let counts = pool.statistics().unwrap();
    assert!(counts.fetched_bytes <= asked + asked / 10, "{} of {asked}: {counts:?}", counts.fetched_bytes);
    // Each by one request.
    assert!(counts.requests <= 55, "{counts:?}");
    // What goes on there is read ahead.
    for at in 0..100 {
        read(&object, (2000 + at * 13) * P, 13 * P).unwrap();
    }
    let then = pool.statistics().unwrap();
    assert!(then.requests < counts.requests + 40, "{then:?}");
    assert!(then.demand_fetches < counts.demand_fetches + 200, "{then:?}");
}
