//! A second tier on disk: what it saves, what it never gives, and what becomes of it.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Faults, PART, Shelf, bytes, open, options, read};
use foretell_buffers::{Error, Object, Options, Pool, Statistics};

const P: u64 = PART as u64;

fn with_disk(parts: u32, folder: &Path, disk_parts: u64) -> Options {
    let mut options = options(parts);
    options.disk_dir = Some(folder.to_owned());
    options.disk_bytes = disk_parts * P;
    options
}

/// Several epochs over objects of an odd length, each in an order of its own, and disclosed if it is to be.
fn epochs(pool: &Pool, disclosed: bool) -> Statistics {
    const OBJECTS: u64 = 100;
    let shelf = Shelf::new();
    // A store that is quicker than the disk would not have what it gives kept.
    shelf.set_faults(Faults { delayed: 1, ..Faults::default() });
    let objects: Vec<Object> = (0..OBJECTS)
        .map(|at| {
            shelf.put(&at.to_string(), 2 * P + 55);
            open(pool, &shelf, &at.to_string())
        })
        .collect();
    for epoch in 0..4_u64 {
        let order: Vec<u64> = (0..OBJECTS).map(|at| (at * 37 + epoch * 11) % OBJECTS).collect();
        if disclosed {
            let ranges: Vec<_> = order.iter().map(|&at| (&objects[at as usize], 0, 2 * P + 55)).collect();
            pool.disclose(&ranges).unwrap();
        }
        for at in order {
            let object = &objects[at as usize];
            assert_eq!(read(object, 0, 2 * P + 55).unwrap(), bytes(&at.to_string(), 0, 0..2 * P + 55));
        }
    }
    let counts = pool.statistics().unwrap();
    assert_eq!(counts.disk_failures, 0, "{counts:?}");
    assert!(counts.memory_peak_bytes <= pool.options().budget_bytes + (32 + 16 + 6) * P, "{counts:?}");
    counts
}

#[test]
fn what_fits_on_the_disk_is_fetched_about_once() {
    let folder = tempfile::tempdir().unwrap();
    for disclosed in [false, true] {
        let pool = Pool::new(with_disk(60, folder.path(), 310)).unwrap();
        let counts = epochs(&pool, disclosed);
        let once = 100 * (2 * P + 55);
        assert!(counts.fetched_bytes <= once * 3 / 2, "{counts:?}");
        assert!(counts.disk_read_bytes >= once, "{counts:?}");
        // Nothing is to be seen of it.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_smaller_disk_saves_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let without = epochs(&Pool::new(options(60)).unwrap(), true);
    let with = epochs(&Pool::new(with_disk(60, folder.path(), 150)).unwrap(), true);
    assert!(
        with.fetched_bytes * 10 < without.fetched_bytes * 8,
        "{} and {}",
        with.fetched_bytes,
        without.fetched_bytes
    );
}

#[test]
fn an_object_that_has_changed_is_not_taken_from_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::new();
    shelf.put("a", 40 * P);
    let pool = Pool::new(with_disk(8, folder.path(), 100)).unwrap();
    let old = open(&pool, &shelf, "a");
    let all = |object: &Object, version| {
        for at in (0..40).map(|at| at * 7 % 40 * P) {
            match read(object, at, P) {
                Ok(got) => assert_eq!(got, bytes("a", version, at..at + P)),
                Err(Error::Changed { .. }) => return,
                Err(other) => panic!("{other}"),
            }
        }
    };
    all(&old, 0);
    shelf.put("a", 40 * P);
    all(&old, 0);
    let new = open(&pool, &shelf, "a");
    all(&new, 1);
    all(&new, 1);
    drop((old, new));
    all(&open(&pool, &shelf, "a"), 1);
}

/// The file of a pool, which has no name, by the descriptor that this process has of it.
fn unnamed_file(folder: &Path) -> std::fs::File {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_in = |fd: &std::fs::DirEntry| std::fs::read_link(fd.path()).is_ok_and(|to| to.starts_with(folder));
    let fd = fds.into_iter().find(is_in).unwrap();
    std::fs::OpenOptions::new().write(true).open(fd.path()).unwrap()
}

#[test]
fn what_the_disk_has_lost_comes_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::new();
    shelf.put("a", 60 * P);
    let pool = Pool::new(with_disk(10, folder.path(), 100)).unwrap();
    let object = open(&pool, &shelf, "a");
    let all = || {
        for at in (0..60).map(|at| at * 7 % 60 * P) {
            assert_eq!(read(&object, at, P).unwrap(), bytes("a", 0, at..at + P));
        }
    };
    all();
    all();
    assert!(pool.statistics().unwrap().disk_read_bytes > 0);
    unnamed_file(folder.path()).set_len(0).unwrap();
    all();
    let counts = pool.statistics().unwrap();
    assert!(counts.disk_failures > 0, "{counts:?}");
}

#[test]
fn a_full_disk_is_done_without() {
    let folder = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(folder.path()).status();
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=64k", "none"]).is_ok_and(|status| status.success()) {
        println!("skipped: a_full_disk_is_done_without: no file system can be mounted");
        return;
    }
    let shelf = Shelf::new();
    shelf.put("a", 100 * P);
    let pool = Pool::new(with_disk(10, folder.path(), 100)).unwrap();
    let object = open(&pool, &shelf, "a");
    for _ in 0..3 {
        for at in (0..100).map(|at| at * 7 % 100 * P) {
            assert_eq!(read(&object, at, P).unwrap(), bytes("a", 0, at..at + P));
        }
    }
    let counts = pool.statistics().unwrap();
    assert!(counts.disk_failures > 0 && counts.disk_read_bytes > 0, "{counts:?}");
    drop((object, pool));
    // What was just being written holds the file for a moment.
    while !mount(&["umount"]).unwrap().success() {
        std::thread::yield_now();
    }
}

#[test]
fn a_disk_that_cannot_be_used_is_named() {
    let said = |options: Options| Pool::new(options).map(|_| ()).unwrap_err().to_string();
    let nowhere = with_disk(4, Path::new("/nowhere/at/all"), 100);
    assert!(said(nowhere).starts_with("/nowhere/at/all: parts cannot be kept on this disk: No such file"));
    let mut half = with_disk(4, Path::new("/tmp"), 5);
    half.disk_dir = None;
    assert_eq!(said(half), "disk: a folder and a number of bytes are needed, both or neither");
    assert!(said(with_disk(4, Path::new("/tmp"), 0)).starts_with("disk: a folder"));
    let mut small = with_disk(4, Path::new("/tmp"), 1);
    small.disk_bytes = 100;
    assert!(said(small).starts_with("disk_bytes: 100 is not within 4096 and "));
}
