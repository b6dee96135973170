//! Reference models and generators for the tests of foretell: slow, short and obviously right.
//!
//! - [`NaiveCache`]: two-level replacement (global LRU, ALLOC-LRU, LRU-S, LRU-SP) with plain vectors, in
//!   the words of the papers.
//! - [`fetches`]: how many fetches LRU, MRU and the optimum make on a string of references.
//! - [`policies`]: the replacement policies that a pool can have, on one string of references.
//! - [`best_time`]: the shortest possible elapsed time in the unit-time model, by trying everything.
//! - [`InstantPlane`] and [`unit_time`]: the two simplest worlds that an engine can be run in; a fetch takes
//!   no time in the first, and a fixed number of references in the second.
//! - [`cached_pages`]: how much of a file the kernel has cached.
//! - [`map_in_pieces`]: processes with many mappings.
//! - [`mounts`]: file systems of a test's own, on loop devices and overlays.
//! - [`best_alignment`]: how many references of a run a list predicts at best, with knowledge of the future.
//! - [`programs`]: executables of a test's own.
//! - [`perturb`]: jobs that nearly repeat, and what changes from one run to the next.
//! - [`sockets`]: sockets that hurt whoever closes them.
//! - [`workload`]: reference strings, the papers' and random ones.
//!
//! Nothing here is fast, and nothing here may be used outside tests.

pub mod alignment;
mod cached;
pub mod fetches;
mod instant;
mod mapped;
pub mod mounts;
mod optimum;
pub mod perturb;
pub mod policies;
pub mod programs;
mod replacement;
pub mod sockets;
pub mod unit_time;
pub mod workload;

pub use alignment::best_alignment;
pub use cached::cached_pages;
pub use instant::InstantPlane;
pub use mapped::map_in_pieces;
pub use optimum::{UnitTime, best_time};
pub use replacement::{NaiveCache, Outcome};

/// How random tests of foretell run: `cases` cases from a fixed seed, so that a test which passed today
/// passes tomorrow. Set `FORETELL_TEST_SEED` to look elsewhere.
///
/// # Panics
///
/// If the seed is not a number.
#[must_use]
pub fn seeded(cases: u32) -> proptest::test_runner::Config {
    let seed = std::env::var("FORETELL_TEST_SEED").map_or(1994, |s| s.parse().expect("a number as seed"));
    proptest::test_runner::Config {
        cases,
        rng_seed: proptest::test_runner::RngSeed::Fixed(seed),
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}

/// The seeds of a test that draws its own cases: the first so many, or those that `FORETELL_TEST_SEEDS` names (`1000`, or
/// `417..418` for one that failed).
///
/// # Panics
///
/// If the variable is neither a number nor a range.
#[must_use]
pub fn seeds(first: u64) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("FORETELL_TEST_SEEDS") else { return 0..first };
    let number = |part: &str| part.parse().expect("FORETELL_TEST_SEEDS is a number or a range");
    text.split_once("..").map_or_else(|| 0..number(&text), |(from, to)| number(from)..number(to))
}
