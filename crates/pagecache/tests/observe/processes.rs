//! Which processes, and what they cost.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use foretell_pagecache::observe::{Observation, ObserveError};

use crate::reader::{Reader, TestFile, page_bytes};
use crate::{PATIENCE, drain, drain_until, observer};

#[test]
fn descendants_are_followed_from_fork_to_exit() {
    let Some(mut observer) = observer("descendants_are_followed_from_fork_to_exit") else { return };
    let file = TestFile::new(4);
    observer.manage(file.key).unwrap();
    // The inner shell has a second command to run, so that it cannot become `cat` itself.
    let script = r#"read go; sh -c 'cat "$0" >/dev/null; exit 3' "$0"; exit 0"#;
    let mut shell =
        Command::new("sh").args(["-c", script]).arg(&file.path).stdin(Stdio::piped()).spawn().unwrap();
    let root = shell.id();
    observer.track(root).unwrap();
    writeln!(shell.stdin.take().unwrap(), "go").unwrap();
    shell.wait().unwrap();
    let ended =
        |observation: &Observation| matches!(*observation, Observation::Exited { tgid, .. } if tgid == root);
    let observations = drain_until(&mut observer, ended);

    let child_of = |of: u32| {
        observations.iter().find_map(|observation| match *observation {
            Observation::Forked { parent, child } if parent == of => Some(child),
            _ => None,
        })
    };
    let inner = child_of(root).unwrap();
    let cat = child_of(inner).unwrap();
    let name = |comm: [u8; 16]| String::from_utf8(comm.into()).unwrap().trim_end_matches('\0').to_owned();
    let executed: Vec<(u32, String)> = observations
        .iter()
        .filter_map(|observation| match *observation {
            // The outermost one may have been tracked before or after its own.
            Observation::Exec { tgid, comm } if tgid != root => Some((tgid, name(comm))),
            _ => None,
        })
        .collect();
    assert_eq!(executed, [(inner, "sh".to_owned()), (cat, "cat".to_owned())]);
    let read_by: BTreeSet<u32> = observations
        .iter()
        .filter_map(|observation| match *observation {
            Observation::Read { tgid, file: f, .. } if f == file.key => Some(tgid),
            _ => None,
        })
        .collect();
    assert_eq!(read_by, BTreeSet::from([cat]));
    let exited: Vec<u32> = observations
        .iter()
        .filter_map(|observation| match *observation {
            Observation::Exited { tgid, .. } => Some(tgid),
            _ => None,
        })
        .collect();
    assert_eq!(exited, [cat, inner, root]);
    assert!([root, inner, cat].iter().all(|tgid| !observer.is_tracked(*tgid)));
}

#[test]
fn an_exit_is_told_once_however_many_threads_there_were() {
    let Some(mut observer) = observer("an_exit_is_told_once_however_many_threads_there_were") else { return };
    let file = TestFile::new(4);
    let mut reader = Reader::start(&file.path);
    let tgid = reader.tgid();
    observer.track(tgid).unwrap();
    (0..8).for_each(|_| drop(reader.tell("read-in-thread 0")));
    let ended =
        |observation: &Observation| matches!(*observation, Observation::Exited { tgid: t, .. } if t == tgid);
    assert!(!drain(&mut observer).iter().any(ended), "the end of a thread is not that of the process");
    // Its harness runs the test in a thread of its own: two threads are killed together.
    reader.kill();
    let mut observations = drain_until(&mut observer, ended);
    observations.extend(drain(&mut observer));
    assert_eq!(observations.iter().filter(|observation| ended(observation)).count(), 1);
}

#[test]
fn untracked_means_silent() {
    let Some(mut observer) = observer("untracked_means_silent") else { return };
    let file = TestFile::new(4);
    observer.manage(file.key).unwrap();
    file.load_pages();
    let mut reader = Reader::start(&file.path);
    observer.track(reader.tgid()).unwrap();
    assert!(observer.is_tracked(reader.tgid()));
    observer.untrack(reader.tgid());
    assert!(!observer.is_tracked(reader.tgid()));
    drain(&mut observer);
    reader.tell("pread 0 1");
    assert_eq!(drain(&mut observer), []);
    reader.end();
}

#[test]
fn a_process_that_is_not_there_cannot_be_tracked() {
    let Some(mut observer) = observer("a_process_that_is_not_there_cannot_be_tracked") else { return };
    let mut ended = Command::new("true").spawn().unwrap();
    let tgid = ended.id();
    // A zombie, until it is waited for.
    let state = || std::fs::read_to_string(format!("/proc/{tgid}/stat")).unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while !state().contains(") Z ") {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert!(matches!(observer.track(tgid), Err(ObserveError::NoSuchProcess { tgid: t }) if t == tgid));
    assert!(!observer.is_tracked(tgid));
    ended.wait().unwrap();
    for tgid in [u32::MAX, 1 << 22] {
        assert!(matches!(observer.track(tgid), Err(ObserveError::NoSuchProcess { .. })));
    }
}

#[test]
fn device_bytes_and_waits_are_accounted() {
    let Some(mut observer) = observer("device_bytes_and_waits_are_accounted") else { return };
    const PAGES: u64 = 256;
    let file = TestFile::new(2 * PAGES);
    let mut reader = Reader::start(&file.path);
    let tgid = reader.tgid();
    observer.track(tgid).unwrap();
    assert_eq!(observer.device_read_bytes(tgid), Some(0));
    reader.tell("advise-random");
    // Every other page, so that nothing is read but what is asked for.
    for page in 0..PAGES {
        reader.tell(&format!("pread {} 1", 2 * page * page_bytes()));
    }
    let (bytes, wait_ns) = (observer.device_read_bytes(tgid).unwrap(), observer.wait_ns(tgid).unwrap());
    // The file system reads where the blocks are as well, some blocks at most.
    assert!((PAGES * page_bytes()..(PAGES + 32) * page_bytes()).contains(&bytes), "{bytes}");
    assert!(wait_ns > 0);
    let observations = drain(&mut observer);
    let waits = observations.iter().filter_map(|observation| match *observation {
        Observation::Waited { tgid: t, wait_ns, .. } if t == tgid => Some(wait_ns),
        _ => None,
    });
    assert_eq!(waits.sum::<u64>(), wait_ns);

    reader.end();
    let end = |observation: &Observation| matches!(observation, Observation::Exited { .. });
    let ended = drain_until(&mut observer, end).into_iter().find(end).unwrap();
    let Observation::Exited { tgid: t, device_read_bytes, wait_ns: total_wait_ns } = ended else { return };
    assert_eq!(t, tgid);
    assert!(device_read_bytes >= bytes && total_wait_ns >= wait_ns);
    assert_eq!(observer.device_read_bytes(tgid), None, "the account ends with the process");
    assert_eq!(observer.total_wait_ns(), total_wait_ns);
    assert!(observer.total_device_read_bytes() >= device_read_bytes);
}

#[test]
fn our_own_prefetches_are_accounted() {
    let Some(observer) = observer("our_own_prefetches_are_accounted") else { return };
    let own = std::process::id();
    let before = observer.device_read_bytes(own).unwrap();
    let file = TestFile::new(64);
    file.load_pages();
    // Other tests of this process read as well.
    assert!(observer.device_read_bytes(own).unwrap() >= before + 64 * page_bytes());
}
