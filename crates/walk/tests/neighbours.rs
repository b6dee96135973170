//! Small files that lie side by side on a disk with an arm, and are gone through in another order.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use foretell_walk::{Entry, Extent, Found, Kind, Means, OnDisk, Tree, Visit, Walker, Walks, Wanted};

/// What an arm takes.
const ARM_NS: u64 = 8_000_000;
const FILES: u64 = 400;

/// A directory of so many files, by name and inode.
struct One;

impl Tree for One {
    fn list(&mut self, directory: &Path) -> Option<Vec<Entry>> {
        let entry = |n| Entry { name: name(n), kind: Kind::File, inode: 7 * n % FILES };
        (directory == Path::new("/mail")).then(|| (0..FILES).map(entry).collect())
    }
}

fn name(n: u64) -> OsString {
    format!("{n:03}.eml").into()
}

fn visit(path: PathBuf, waited_ns: u64) -> Visit {
    Visit { path, waited_ns, has_fetched: waited_ns > 0, left: Vec::new() }
}

#[test]
fn a_directory_is_offered_by_inode_a_piece_at_a_time_where_an_arm_is_waited_for() {
    for (waited_ns, offers) in [(ARM_NS, 2), (ARM_NS / 8, 0)] {
        let mut walks = Walks::new(One, 64 << 20);
        // What was offered, and what may not be offered any more: all before the last inode of the last piece.
        let (mut offered, mut from) = (Vec::new(), 0);
        for n in 0..FILES {
            // What is asked for takes a movement as well.
            let path = Path::new("/mail").join(name(n));
            for (at, wanted) in walks.visit(&visit(path, waited_ns)).into_iter().enumerate() {
                match wanted {
                    Wanted::Neighbours(directory, files, bytes) => {
                        assert!(n >= 23, "an eighth of what was waited is spent on it");
                        assert_eq!((at, &*directory, bytes), (0, Path::new("/mail"), 64 << 10));
                        let mut to_come: Vec<(u64, OsString)> =
                            (n + 1..FILES).map(|n| (7 * n % FILES, name(n))).collect();
                        to_come.sort_unstable();
                        let expected = to_come.into_iter().filter(|(inode, _)| *inode >= from).take(256);
                        let found: Vec<_> = files.into_iter().map(|(name, inode)| (inode, name)).collect();
                        assert!(found.iter().cloned().eq(expected));
                        from = found.last().unwrap().0 + 1;
                        offered.push(found);
                    }
                    Wanted::File(..) => {}
                    other => panic!("{other:?}"),
                }
            }
            walks.looked_at(1, 1);
        }
        assert_eq!((offered.len(), walks.reach_bytes() > 0), (offers, offers > 0));
    }
}

#[test]
fn what_went_along_is_not_asked_for_and_counts_as_used() {
    let mut walks = Walks::new(One, 64 << 20);
    let path = |n| Path::new("/mail").join(name(n));
    (0..8).for_each(|n| drop(walks.visit(&visit(path(n), ARM_NS))));
    let before = walks.guesses();
    (100..200).for_each(|n| walks.went_along(&path(n), 4096));
    assert_eq!(walks.along_bytes(), 100 * 4096);
    let mut asked = HashSet::new();
    for n in 8..FILES {
        let is_there = (100..200).contains(&n) || asked.contains(&path(n));
        for wanted in walks.visit(&visit(path(n), if is_there { 0 } else { ARM_NS })) {
            if let Wanted::File(path, _) = wanted {
                asked.insert(path);
            }
        }
        walks.looked_at(1, 1);
    }
    assert!((100..200).all(|n| !asked.contains(&path(n))), "{asked:?}");
    assert!(asked.contains(&path(250)), "it goes on behind them");
    let guesses = walks.guesses();
    assert!(guesses.used - before.used > 350 && guesses.wrong == 0, "{guesses:?}");
    assert_eq!((walks.along_bytes(), guesses.typical_wait_ns), (0, ARM_NS));
}

#[test]
fn waiting_behind_our_reads_is_no_measure_of_what_was_saved() {
    let mut walks = Walks::new(One, 64 << 20);
    for n in 0..FILES {
        // The first ones by itself, then each tenth behind what is under way.
        let waited_ns = if n < 4 { ARM_NS } else { 5 * ARM_NS * u64::from(n % 10 == 0) };
        drop(walks.visit(&visit(Path::new("/mail").join(name(n)), waited_ns)));
    }
    let guesses = walks.guesses();
    assert!(guesses.used > 300 && guesses.typical_wait_ns == ARM_NS, "{guesses:?}");
}

#[test]
fn what_a_process_loads_from_another_disk_tells_nothing_of_a_tree() {
    let mut walks = Walks::new(One, 64 << 20);
    let library = |n: u64| PathBuf::from(format!("/lib/{}.so", n * 37 % 101));
    (0..20).for_each(|n| drop(walks.visit(&visit(library(n), ARM_NS / 50))));
    let mail = |n| Path::new("/mail").join(name(n));
    let offers = (0..64).flat_map(|n| walks.visit(&visit(mail(n), ARM_NS)));
    let offered = offers.filter(|wanted| matches!(wanted, Wanted::Neighbours(..))).count();
    assert!(offered > 0);
    assert_eq!(walks.guesses().typical_wait_ns, ARM_NS);
}

/// What was read together, and alone.
static RUNS: Mutex<Vec<Vec<PathBuf>>> = Mutex::new(Vec::new());

/// The files of the walker's test lie side by side in pairs of names that are far apart: `000` with `200` behind it, `001` with `201`.
fn beginning(path: &Path, bytes: u64) -> Option<OnDisk> {
    let n: u64 = path.file_stem()?.to_str()?.parse().ok()?;
    let begin = (n % 200 * 3 + n / 200) * 4096;
    assert!(bytes >= 128 << 10, "whole files");
    Some(OnDisk { device: 1, bytes: begin..begin + 4096 })
}

fn fetch_together(files: &[(PathBuf, u64)]) -> Vec<Found> {
    RUNS.lock().unwrap().push(files.iter().map(|(path, _)| path.clone()).collect());
    vec![Found::Absent; files.len()]
}

fn fetch(path: &Path, _: Range<u64>) -> Found {
    RUNS.lock().unwrap().push(vec![path.to_owned()]);
    Found::Absent
}

#[test]
fn what_lies_beside_a_file_is_read_with_it() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    (0..FILES).for_each(|n| fs::write(directory.path().join(name(n)), [0; 4096]).unwrap());
    let walker = Walker::start(Means {
        fetch,
        blocks_read: || 0,
        readers: |_| 2,
        has_arm: |_| true,
        beginning,
        fetch_together,
        beside: |_| None,
        along_bytes: 1 << 20,
        budget_bytes: 16 << 20,
        whole_bytes: 0,
    })
    .unwrap();
    let path = |n| directory.path().join(name(n));
    let extent = Extent { read: 1, of: 1 };
    for n in 0..64_u64 {
        let left = n.checked_sub(1).map(|n| (path(n).into(), extent)).into_iter().collect();
        walker.visited(Visit { path: path(n), waited_ns: ARM_NS, has_fetched: true, left });
    }
    // What is named here has been read once the walker has followed, and its threads have.
    let pairs = || RUNS.lock().unwrap().iter().filter(|run| run.len() == 2).cloned().collect::<Vec<_>>();
    let since = Instant::now();
    while pairs().is_empty() && since.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pairs = pairs();
    assert!(!pairs.is_empty(), "{:?}", RUNS.lock().unwrap());
    for pair in pairs {
        let number = |at: usize| pair[at].file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
        assert_eq!((number(0) + 200, number(0) < 200), (number(1), true));
    }
}
