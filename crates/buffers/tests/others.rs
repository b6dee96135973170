//! What an honest client of a pool has beside one that scans and says nonsense: no less than beside one that says nothing, and as
//! much as it reads (LRU-SP; Cao, Felten and Li, "Application-Controlled File Caching Policies", 1994, criteria 1 to 3).

#![allow(clippy::unwrap_used)]

mod common;

use common::{PART, Shelf, bytes, open, options, read};
use foretell_buffers::{Directive, Guest, PoolPolicy, Remote};

const P: u64 = PART as u64;
/// Parts of the pool, of what the honest client reads again and again, and of what the other one goes through once.
const POOL: u32 = 64;
const MINE: u64 = 24;
const ITS: u64 = 2000;
const ROUNDS: u64 = 5;

/// What the other client says of what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    /// All of it is more important than anything, and what came last goes first.
    Priorities,
    /// It is going to read all of it, in an order that is not true.
    Lies,
}

/// Requests of the honest client in some rounds over its parts, each of which it reads once for `pace` of the other's.
fn misses(policy: PoolPolicy, says: Says, pace: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b"), bytes("b", 0, 0..ITS * P)).unwrap();
    let shelf = Shelf::new();
    shelf.put("a", MINE * P);
    let pool = foretell_buffers::Pool::new(options(POOL)).unwrap();
    let mine = open(&pool, &shelf, "a");
    pool.set_policy(0, policy).unwrap();
    let other = Guest::attach(&pool.share().unwrap(), std::time::Duration::from_secs(20), None).unwrap();
    let url = format!("file://{}/b", folder.path().display());
    let its = Remote::new(&url, other.open_all(&[&url], false).unwrap().remove(0).unwrap()).unwrap();
    match says {
        Says::Nothing => {}
        Says::Priorities => {
            other.direct(&its, Directive::Priority(7)).unwrap();
            other.set_policy(7, PoolPolicy::Mru).unwrap();
        }
        Says::Lies => {
            let lies: Vec<_> = (0..ITS).map(|at| (&its, (ITS - 1 - at) * P, P)).collect();
            other.disclose(&lies).unwrap();
        }
    }
    let mut at = 0;
    for _ in 0..ROUNDS {
        // Not in order, so that nothing is read ahead.
        for part in (0..MINE).map(|step| step * 7 % MINE) {
            assert!(read(&mine, part * P, P).unwrap() == bytes("a", 0, part * P..(part + 1) * P));
            for _ in 0..pace {
                let mut buffer = vec![0; PART as usize];
                other.read_at(&its, &mut buffer, at * 7 % ITS * P).unwrap();
                at += 1;
            }
        }
    }
    shelf.asked().iter().map(|(_, range)| (range.end - range.start) / P).sum()
}

#[test]
fn who_scans_as_often_as_another_one_reads_takes_none_of_its_parts_whatever_it_says() {
    for says in [Says::Nothing, Says::Priorities, Says::Lies] {
        // Each of its parts once.
        assert_eq!(misses(PoolPolicy::Lru, says, 1), MINE, "{says:?}");
    }
}

/// Twice as often, 72 parts are read until one comes again, more than there is room for: so LRU shares it out. Nothing that the other
/// one says makes that worse, and who knows better for itself gains by it.
#[test]
fn who_scans_twice_as_often_gains_nothing_by_what_it_says_and_who_knows_better_does() {
    let plain = misses(PoolPolicy::Lru, Says::Nothing, 2);
    for says in [Says::Priorities, Says::Lies] {
        let beside = misses(PoolPolicy::Lru, says, 2);
        assert!(beside <= plain, "{says:?}: {beside} and {plain}");
        let knows = misses(PoolPolicy::Mru, says, 2);
        assert!(knows <= plain * 2 / 3, "{says:?}: {knows} and {plain}");
    }
}
