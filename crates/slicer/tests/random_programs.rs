//! Four hundred random programs, sliced: output and exit code unchanged in both modes, predicted accesses those
//! that are made.
//!
//! Programs stand in sources of some dozens, as starting a front end and a compiler takes most of the time. A
//! failure names the seed; `FORETELL_SLICE_SEED=SEED FORETELL_SLICE_PROGRAMS=1` repeats that program alone, and
//! `FORETELL_SLICE_PROGRAMS=N` tries that many: each thousand takes two minutes of two processors.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

mod oracle;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use oracle::generator::{FILE_BYTES, source};
use oracle::{Build, compile, data, difference, run, translated};

/// Programs by default, programs in a source, and the first seed.
const PROGRAMS: u64 = 400;
const PROGRAMS_A_SOURCE: u64 = 40;
const FIRST_SEED: u64 = 1;

fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// How many of the open sites of these programs are sliced, or what is wrong.
fn check(seeds: std::ops::Range<u64>, build: Build, modes: &[&str]) -> Result<usize, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let original: PathBuf = path("original.c");
    fs::write(&original, source(seeds.clone())).unwrap();
    data::make(folder.path(), &format!("data bytes {FILE_BYTES}"));
    for seed in seeds.clone() {
        for name in ["a", "b"] {
            std::os::unix::fs::symlink("data", path(&format!("{seed}.{name}"))).unwrap();
        }
    }
    let translation = translated(std::slice::from_ref(&original), &[]);
    if let Some(refusal) = translation.refusals.first() {
        return Err(format!("{}: {}", refusal.place, refusal.cause));
    }
    fs::write(path("sliced.c"), &translation.files[0]).unwrap();
    let quick = ["-O0".to_owned()];
    compile(&[original], &quick, false, Build::Plain, &path("original"));
    compile(&[path("sliced.c")], &quick, true, build, &path("sliced"));
    let expected = run(&path("original"), &[], folder.path(), None, None);
    for mode in modes {
        let trace = path(mode);
        let ran = run(&path("sliced"), &[], folder.path(), None, Some((mode, &trace)));
        if !ran.sanitizer.is_empty() {
            return Err(format!("{mode}: {}", ran.sanitizer));
        }
        if ran.stdout != expected.stdout || ran.code != expected.code {
            let (before, after) =
                (String::from_utf8_lossy(&expected.stdout), String::from_utf8_lossy(&ran.stdout));
            let parts = before.lines().zip(after.lines()).find(|(b, a)| b != a);
            return Err(format!("{mode}: {:?} became {:?}: {parts:?}", expected.code, ran.code));
        }
        if let Some(difference) = difference(&trace) {
            return Err(format!("{mode}: {difference}"));
        }
    }
    Ok(translation.report.sites.len())
}

/// Checks the programs on all processors; the first that fails is named.
fn check_all(first: u64, programs: u64, build: Build, modes: &[&str]) {
    let next = AtomicU64::new(first);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let from = next.fetch_add(PROGRAMS_A_SOURCE, Ordering::Relaxed);
            let to = (from + PROGRAMS_A_SOURCE).min(first + programs);
            if from >= to {
                return;
            }
            if let Err(what) = check(from..to, build, modes) {
                // The trace names the program by its files; alone it is easier to look at.
                let alone =
                    (from..to).find_map(|seed| check(seed..seed + 1, build, modes).err().map(|e| (seed, e)));
                let (seed, what) = alone.unwrap_or((from, what));
                panic!(
                    "FORETELL_SLICE_SEED={seed} FORETELL_SLICE_PROGRAMS=1: {what}\n{}",
                    source(seed..seed + 1)
                );
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
}

#[test]
fn random_programs_are_predicted() {
    let first = setting("FORETELL_SLICE_SEED", FIRST_SEED);
    check_all(first, setting("FORETELL_SLICE_PROGRAMS", PROGRAMS), Build::Plain, &["fork", "thread"]);
}

#[test]
fn random_programs_under_the_sanitizers() {
    check_all(1_000_000, PROGRAMS_A_SOURCE, Build::Address, &["fork"]);
    check_all(2_000_000, PROGRAMS_A_SOURCE, Build::Thread, &["thread"]);
}
