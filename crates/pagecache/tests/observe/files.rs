//! Which pages of which files.

use std::collections::BTreeSet;

use foretell_pagecache::observe::{FileKey, Observation, Observer};

use crate::reader::{Reader, TestFile, page_bytes};
use crate::{drain, observer};

/// First and last pages of the reads of `file` by `tgid`, in order. A piece that ends where the one before
/// ends, and begins later, is the same read going on.
fn reads(observations: &[Observation], tgid: u32, file: FileKey) -> Vec<(u64, u64)> {
    let mut reads = Vec::new();
    let mut before = None;
    for observation in observations {
        match *observation {
            Observation::Read { tgid: t, file: f, first_page, last_page, .. } if (t, f) == (tgid, file) => {
                if !before.is_some_and(|(first, last)| last == last_page && first < first_page) {
                    reads.push((first_page, last_page));
                }
                before = Some((first_page, last_page));
            }
            _ => {}
        }
    }
    reads
}

/// First page and order of the folios of `file` that were added.
fn added(observations: &[Observation], file: FileKey) -> BTreeSet<(u64, u8)> {
    let of = |observation: &Observation| match *observation {
        Observation::Added { file: f, first_page, order, .. } if f == file => Some((first_page, order)),
        _ => None,
    };
    observations.iter().filter_map(of).collect()
}

fn removed(observations: &[Observation], file: FileKey) -> BTreeSet<(u64, u8)> {
    let of = |observation: &Observation| match *observation {
        Observation::Removed { file: f, first_page, order, .. } if f == file => Some((first_page, order)),
        _ => None,
    };
    observations.iter().filter_map(of).collect()
}

fn tracked_reader(observer: &mut Observer, file: &TestFile) -> Reader {
    let reader = Reader::start(&file.path);
    observer.track(reader.tgid()).unwrap();
    reader
}

#[test]
fn reads_are_seen_page_by_page_in_order() {
    let Some(mut observer) = observer("reads_are_seen_page_by_page_in_order") else { return };
    let file = TestFile::new(1024);
    observer.manage(file.key).unwrap();
    let mut reader = tracked_reader(&mut observer, &file);
    let page = page_bytes();
    reader.tell("advise-random");
    drain(&mut observer);
    // Whole pages, a byte inside a page, two bytes across a border, a long one, one that ends after the end
    // of the file, and the first again.
    for (offset, length) in [
        (0, 2 * page),
        (5 * page + 100, 1),
        (9 * page - 1, 2),
        (100 * page, 256 * page),
        (1022 * page, 10 * page),
        (0, 2 * page),
    ] {
        reader.tell(&format!("pread {offset} {length}"));
    }
    let observations = drain(&mut observer);
    assert_eq!(
        reads(&observations, reader.tgid(), file.key),
        [(0, 1), (5, 5), (8, 9), (100, 355), (1022, 1023), (0, 1)]
    );
    let mut pages = BTreeSet::new();
    for (first_page, order) in added(&observations, file.key) {
        pages.extend(first_page..first_page + (1 << order));
    }
    let read: BTreeSet<u64> = [0, 1, 5, 8, 9, 1022, 1023].into_iter().chain(100..=355).collect();
    assert_eq!(pages, read, "with no readahead the pages added are the pages read");
    assert_eq!(observer.lost_events(), 0);
    reader.end();
}

#[test]
fn a_read_at_the_end_of_a_file_is_none() {
    let Some(mut observer) = observer("a_read_at_the_end_of_a_file_is_none") else { return };
    let file = TestFile::new(2);
    observer.manage(file.key).unwrap();
    let mut reader = tracked_reader(&mut observer, &file);
    assert_eq!(reader.tell(&format!("pread {} 100", 2 * page_bytes())), "0");
    assert_eq!(reads(&drain(&mut observer), reader.tgid(), file.key), []);
    reader.end();
}

#[test]
fn the_thread_that_reads_is_named() {
    let Some(mut observer) = observer("the_thread_that_reads_is_named") else { return };
    let file = TestFile::new(2);
    observer.manage(file.key).unwrap();
    let mut reader = tracked_reader(&mut observer, &file);
    reader.tell("read-in-thread 0");
    let tgid = reader.tgid();
    let by_thread = |observation: &Observation| matches!(*observation, Observation::Read { tgid: t, tid, file: f, .. } if t == tgid && tid != tgid && f == file.key);
    assert!(drain(&mut observer).iter().any(by_thread));
    reader.end();
}

/// On Linux 6.5 to 6.11 another function of the kernel's does that.
#[test]
fn what_is_sent_from_file_to_file_is_seen() {
    let Some(mut observer) = observer("what_is_sent_from_file_to_file_is_seen") else { return };
    let file = TestFile::new(128);
    observer.manage(file.key).unwrap();
    let mut reader = tracked_reader(&mut observer, &file);
    reader.tell("advise-random");
    reader.tell("sendfile 3 70");
    let seen: BTreeSet<u64> = reads(&drain(&mut observer), reader.tgid(), file.key)
        .into_iter()
        .flat_map(|(first, last)| first..=last)
        .collect();
    assert_eq!(seen, (3..73).collect());
    reader.end();
}

#[test]
fn touched_pages_of_a_mapping_are_seen_as_faults() {
    let Some(mut observer) = observer("touched_pages_of_a_mapping_are_seen_as_faults") else { return };
    if !observer.sees_faults() {
        println!("skipped: touched_pages_of_a_mapping_are_seen_as_faults: the kernel shows none");
        return;
    }
    let file = TestFile::new(64);
    observer.manage(file.key).unwrap();
    let mut reader = tracked_reader(&mut observer, &file);
    reader.tell("touch 40 0 21");
    let observations = drain(&mut observer);
    let mut faults: Vec<u64> = Vec::new();
    for observation in &observations {
        match *observation {
            Observation::Fault { file: f, page, .. } if f == file.key => faults.push(page),
            _ => {}
        }
    }
    faults.dedup();
    assert_eq!(faults, [40, 0, 21], "a fault that waited may come twice, but not out of order");
    assert_eq!(added(&observations, file.key), BTreeSet::from([(0, 0), (21, 0), (40, 0)]));

    // All cached now: the touched page is among those that were mapped around it.
    file.load_pages();
    drain(&mut observer);
    reader.tell("touch 40");
    let around = |observation: &Observation| matches!(*observation, Observation::MapPages { file: f, first_page, last_page, .. } if f == file.key && (first_page..=last_page).contains(&40));
    let observations = drain(&mut observer);
    assert!(observations.iter().any(around), "{observations:?}");
    reader.end();
}

#[test]
fn evicted_folios_are_those_that_were_added() {
    let Some(mut observer) = observer("evicted_folios_are_those_that_were_added") else { return };
    let file = TestFile::new(2048);
    observer.manage(file.key).unwrap();
    let mut reader = tracked_reader(&mut observer, &file);
    // Read in order from the beginning, the kernel's readahead makes the folios larger and larger.
    reader.tell("read-all");
    let added = added(&drain(&mut observer), file.key);
    let pages: u64 = added.iter().map(|(_, order)| 1 << order).sum();
    assert_eq!(pages, 2048);
    file.drop_pages();
    assert_eq!(removed(&drain(&mut observer), file.key), added);
    reader.end();
}

#[test]
fn what_others_load_and_drop_of_a_managed_file_is_seen() {
    let Some(mut observer) = observer("what_others_load_and_drop_of_a_managed_file_is_seen") else { return };
    let file = TestFile::new(16);
    observer.manage(file.key).unwrap();
    file.load_pages();
    let by_us = |observation: &Observation| matches!(*observation, Observation::Added { tgid, file: f, .. } if tgid == std::process::id() && f == file.key);
    let observations = drain(&mut observer);
    assert!(observations.iter().all(by_us) && !observations.is_empty(), "{observations:?}");
}

#[test]
fn processes_that_are_not_tracked_leave_no_record() {
    let Some(mut observer) = observer("processes_that_are_not_tracked_leave_no_record") else { return };
    let file = TestFile::new(64);
    file.load_pages();
    observer.manage(file.key).unwrap();
    let mut stranger = Reader::start(&file.path);
    stranger.tell("read-all");
    stranger.tell("touch 1 2 3");
    stranger.end();
    assert_eq!(drain(&mut observer), []);
}

#[test]
fn a_file_is_unknown_until_it_is_managed_or_ignored() {
    let Some(mut observer) = observer("a_file_is_unknown_until_it_is_managed_or_ignored") else { return };
    let file = TestFile::new(4);
    let mut reader = tracked_reader(&mut observer, &file);
    let mut look = |observer: &mut Observer| -> Vec<(bool, u32)> {
        drain(observer);
        reader.tell("pread 0 1");
        let of = |observation: Observation| match observation {
            Observation::Read { file: f, known, generation, .. } if f == file.key => {
                Some((known, generation))
            }
            _ => None,
        };
        drain(observer).into_iter().filter_map(of).collect()
    };
    let unknown = look(&mut observer);
    assert!(matches!(unknown[..], [(false, _)]), "{unknown:?}");
    observer.manage(file.key).unwrap();
    assert_eq!(look(&mut observer), [(true, 0)]);
    observer.ignore(file.key).unwrap();
    assert_eq!(look(&mut observer), []);
    observer.forget(file.key);
    assert_eq!(look(&mut observer), unknown, "the generation is that of the inode");
    observer.ignore(file.key).unwrap();
    observer.manage(file.key).unwrap();
    assert_eq!(look(&mut observer), [(true, 0)]);
    reader.end();
}

#[test]
fn two_observers_do_not_disturb_each_other() {
    let Some(mut first) = observer("two_observers_do_not_disturb_each_other") else { return };
    let Some(mut second) = observer("two_observers_do_not_disturb_each_other") else { return };
    let file = TestFile::new(4);
    first.manage(file.key).unwrap();
    second.manage(file.key).unwrap();
    let mut one = tracked_reader(&mut first, &file);
    let mut other = tracked_reader(&mut second, &file);
    one.tell("pread 0 1");
    other.tell(&format!("pread {} 1", page_bytes()));
    let (of_first, of_second) = (drain(&mut first), drain(&mut second));
    assert_eq!(reads(&of_first, one.tgid(), file.key), [(0, 0)]);
    assert_eq!(reads(&of_first, other.tgid(), file.key), []);
    assert_eq!(reads(&of_second, other.tgid(), file.key), [(1, 1)]);
    assert_eq!(reads(&of_second, one.tgid(), file.key), []);
    one.end();
    other.end();
}
