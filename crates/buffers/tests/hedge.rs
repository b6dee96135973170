//! A second request for a slow one.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Faults, PART, Shelf, bytes, open, options, read};
use foretell_buffers::{Error, Pool};

const P: u64 = PART as u64;

#[test]
fn what_never_answers_is_asked_again_long_before_the_time_out() {
    let shelf = Shelf::new();
    shelf.put("a", 1000 * P);
    let pool = Pool::new(options(20)).unwrap();
    let object = open(&pool, &shelf, "a");
    let mut next = (0..1000).map(|at| at * 37 % 1000 * P);
    for at in next.by_ref().take(200) {
        read(&object, at, P).unwrap();
    }
    assert_eq!(pool.statistics().unwrap().hedges_won, 0);
    shelf.set_faults(Faults { stuck: 40, ..Faults::default() });
    for at in next {
        assert_eq!(read(&object, at, P).unwrap(), bytes("a", 0, at..at + P));
    }
    let counts = pool.statistics().unwrap();
    assert!(counts.hedges_won > 5 && counts.hedges * 20 <= counts.requests, "{counts:?}");
    assert_eq!(counts.requests_failed, 0);
}

#[test]
fn a_store_that_is_slow_altogether_is_not_asked_for_everything_twice() {
    let shelf = Shelf::new();
    shelf.put("a", 1000 * P);
    let mut options = options(20);
    // Longer than what answers takes on a busy machine.
    options.timeout = std::time::Duration::from_secs(2);
    let pool = Pool::new(options).unwrap();
    let object = open(&pool, &shelf, "a");
    for at in 0..100 {
        read(&object, at * 37 % 1000 * P, P).unwrap();
    }
    shelf.set_faults(Faults { silent: true, ..Faults::default() });
    std::thread::scope(|scope| {
        for at in 100..130 {
            let object = &object;
            scope.spawn(move || {
                assert!(matches!(read(object, at * 37 % 1000 * P, P), Err(Error::TimedOut { .. })));
            });
        }
    });
    let counts = pool.statistics().unwrap();
    assert!((1..=6).contains(&counts.hedges) && counts.hedges_won == 0, "{counts:?}");
}
