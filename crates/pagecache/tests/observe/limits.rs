//! Full rings, wake-ups, missing privileges, sudden death.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use foretell_pagecache::observe::{
    FileKey, IGNORED_SHARE, MANAGED_FILES, Observation, ObserveError, Observer, ObserverConfig,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::reader::{Reader, TestFile, page_bytes};
use crate::{PATIENCE, drain, is_woken, observer, observer_with};

#[test]
fn a_full_ring_loses_and_counts_and_never_blocks() {
    let test = "a_full_ring_loses_and_counts_and_never_blocks";
    let config = ObserverConfig { ring_bytes: page_bytes() as u32, ..ObserverConfig::default() };
    let Some(mut observer) = observer_with(test, config) else { return };
    let file = TestFile::new(1);
    file.load_pages();
    observer.manage(file.key).unwrap();
    let mut reader = Reader::start(&file.path);
    observer.track(reader.tgid()).unwrap();
    // The reader's own program is unknown and read as well; all of its records count.
    reader.tell("times 1000");
    let kept = drain(&mut observer);
    assert!(kept.len() as u64 <= page_bytes() / 40 && !kept.is_empty());
    assert!(observer.lost_events() + kept.len() as u64 >= 1000);

    // Drained, the ring takes records again.
    let lost = observer.lost_events();
    reader.tell("times 3");
    let read = |observation: &&Observation| matches!(observation, Observation::Read { file: f, .. } if *f == file.key);
    assert_eq!(drain(&mut observer).iter().filter(read).count(), 3);
    assert_eq!(observer.lost_events(), lost);
    reader.end();
}

#[test]
fn at_most_the_limit_is_drained() {
    let Some(mut observer) = observer("at_most_the_limit_is_drained") else { return };
    let file = TestFile::new(1);
    file.load_pages();
    observer.manage(file.key).unwrap();
    let mut reader = Reader::start(&file.path);
    observer.track(reader.tgid()).unwrap();
    drain(&mut observer);
    reader.tell("times 10");
    assert_eq!(observer.drain(0, |_| panic!("none was asked for")), 0);
    let mut reads = 0;
    while observer.drain(4, |observation| {
        reads += u32::from(matches!(observation, Observation::Read { file: f, .. } if f == file.key))
    }) == 4
    {}
    assert_eq!(reads, 10);
    reader.end();
}

#[test]
fn the_reader_is_woken_by_misses_and_not_by_hits() {
    let config = ObserverConfig { wake_every: 0, ..ObserverConfig::default() };
    let Some(mut observer) = observer_with("the_reader_is_woken_by_misses_and_not_by_hits", config) else {
        return;
    };
    let file = TestFile::new(4);
    file.load_pages();
    observer.manage(file.key).unwrap();
    let mut reader = Reader::start(&file.path);
    observer.track(reader.tgid()).unwrap();
    // The reader touches its own code for the first time here.
    reader.tell("times 10");
    drain(&mut observer);
    reader.tell("times 10");
    assert!(!is_woken(&observer, Duration::ZERO), "hits wait for the reader to come by");
    observer.set_wake_every(10);
    reader.tell("times 100");
    assert!(is_woken(&observer, PATIENCE), "unless so many were asked for");
    drain(&mut observer);
    assert!(!is_woken(&observer, Duration::ZERO), "drained");
    observer.set_wake_every(0);
    file.drop_pages();
    drain(&mut observer);
    reader.tell("times 1");
    assert!(is_woken(&observer, PATIENCE), "a page was added");
    reader.end();
}

#[test]
fn of_pages_that_come_soon_after_each_other_the_first_one_wakes_the_reader() {
    let name = "of_pages_that_come_soon_after_each_other_the_first_one_wakes_the_reader";
    let spacing = Duration::from_nanos(u64::from(u32::MAX));
    let config = ObserverConfig { wake_every: 0, wake_spacing_ns: u32::MAX, ..ObserverConfig::default() };
    let Some(mut observer) = observer_with(name, config) else { return };
    let file = TestFile::new(4);
    file.load_pages();
    observer.manage(file.key).unwrap();
    let begun = Instant::now();
    let mut reader = Reader::start(&file.path);
    observer.track(reader.tgid()).unwrap();
    reader.tell("times 10");
    drain(&mut observer);
    file.drop_pages();
    reader.tell("times 1");
    drain(&mut observer);
    file.drop_pages();
    reader.tell("times 1");
    let woken = is_woken(&observer, Duration::ZERO);
    assert!(!woken || begun.elapsed() >= spacing, "woken for two pages in {:?}", begun.elapsed());
    let mut added = 0;
    while observer
        .drain(64, |observation| added += u32::from(matches!(observation, Observation::Added { .. })))
        == 64
    {}
    assert!(added > 0, "the second page is told of all the same");
    reader.end();
}

#[test]
fn a_ring_of_an_impossible_size_is_refused() {
    if observer("a_ring_of_an_impossible_size_is_refused").is_none() {
        return;
    }
    for ring_bytes in [0, 1, 12_288, 1 << 31] {
        let config = ObserverConfig { ring_bytes, ..ObserverConfig::default() };
        let refused = Observer::open(config).err().unwrap();
        assert!(
            matches!(refused, ObserveError::RingSize { ring_bytes: b, .. } if b == ring_bytes),
            "{refused}"
        );
    }
}

#[test]
fn without_privileges_it_says_which_lack() {
    // Capabilities belong to a thread: this one gives its own up.
    let refused = std::thread::spawn(|| {
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .unwrap();
        Observer::open(ObserverConfig::default()).err().unwrap()
    });
    let refused = refused.join().unwrap();
    let says = refused.to_string();
    assert!(matches!(refused, ObserveError::NotPermitted { .. }), "{says}");
    assert!(says.contains("CAP_BPF and CAP_PERFMON"), "{says}");
}

#[test]
fn nothing_outlives_a_killed_observer() {
    if observer("nothing_outlives_a_killed_observer").is_none() {
        return;
    }
    let file = TestFile::new(1);
    let mut observing = Reader::start(&file.path);
    let ids: BTreeSet<u32> = observing.tell("observe").split(' ').map(|id| id.parse().unwrap()).collect();
    assert!(ids.len() >= 8, "a program each for the tracepoints: {ids:?}");
    let loaded = || -> BTreeSet<u32> {
        aya::programs::loaded_programs().filter_map(|program| Some(program.ok()?.id())).collect()
    };
    assert!(loaded().is_superset(&ids));
    observing.kill();
    // The kernel frees programs after a grace period.
    let deadline = Instant::now() + PATIENCE;
    while !loaded().is_disjoint(&ids) {
        assert!(Instant::now() < deadline, "{ids:?} are still loaded");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_table_of_files_says_when_it_is_full() {
    let Some(mut observer) = observer("the_table_of_files_says_when_it_is_full") else { return };
    let file = |ino| FileKey { dev: 0, ino };
    (0..u64::from(MANAGED_FILES)).for_each(|ino| observer.manage(file(ino)).unwrap());
    let refused = observer.manage(file(u64::MAX)).unwrap_err();
    assert!(matches!(refused, ObserveError::FilesFull { limit: MANAGED_FILES }), "{refused}");
    assert!(observer.manage(file(0)).is_ok(), "it is managed already");
    observer.forget(file(0));
    assert!(observer.manage(file(u64::MAX)).is_ok());
}

#[test]
fn the_oldest_ignored_file_is_unknown_again_when_there_are_too_many() {
    let test = "the_oldest_ignored_file_is_unknown_again_when_there_are_too_many";
    let Some(mut observer) = observer(test) else { return };
    let file = TestFile::new(1);
    file.load_pages();
    let mut reader = Reader::start(&file.path);
    observer.track(reader.tgid()).unwrap();
    let mut is_silent = |observer: &mut Observer| {
        drain(observer);
        reader.tell("times 1");
        let of = |observation: &Observation| matches!(observation, Observation::Read { file: f, .. } if *f == file.key);
        !drain(observer).iter().any(of)
    };
    observer.ignore(file.key).unwrap();
    let others = u64::from(MANAGED_FILES / IGNORED_SHARE);
    (1..others).for_each(|ino| observer.ignore(FileKey { dev: 0, ino }).unwrap());
    assert!(is_silent(&mut observer));
    observer.ignore(FileKey { dev: 0, ino: others }).unwrap();
    assert!(!is_silent(&mut observer));
    // One that is managed by now stays so.
    observer.ignore(file.key).unwrap();
    observer.manage(file.key).unwrap();
    (0..others).for_each(|ino| observer.ignore(FileKey { dev: 1, ino }).unwrap());
    drain(&mut observer);
    reader.tell("times 1");
    let known = |observation: &Observation| matches!(observation, Observation::Read { file: f, known: true, .. } if *f == file.key);
    assert!(drain(&mut observer).iter().any(known));
    reader.end();
}
