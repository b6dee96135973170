//! What clients are for: directives and disclosures have their effect, and the answers are right.

use foretell_protocol::{Entry, Policy, Request};

use crate::client::{Client, range};
use crate::stage::{BLOCK, read_blocks, stage};

#[test]
fn a_disclosed_file_is_fetched_before_it_is_read() {
    let Some(stage) = stage("a_disclosed_file_is_fetched_before_it_is_read") else { return };
    let path = stage.file("a", 64);
    let service = stage.service(128);
    let mut client = Client::connect(&service.socket);
    let welcome = client.welcome.unwrap();
    assert_eq!((welcome.block_bytes, welcome.files, welcome.levels), (8192, 4096, 64));
    let file = client.name_path(1, &path);
    client.push(Entry::Disclose { file, range: range(0, 8 * BLOCK) });
    client.push(Entry::DiscloseFile { file });
    let statistics = client.until("all is fetched", |s| s.prefetches >= 64);
    assert_eq!((statistics.disclosed, statistics.entries_taken, statistics.entries_refused), (72, 2, 0));
    assert_eq!(statistics.owned, 64);
    read_blocks(&path, (0..8).chain(0..64));
    let statistics = client.until("all is read", |s| s.references >= 72);
    assert_eq!((statistics.disclosed_ahead, statistics.demand_fetches), (0, 0));
    assert_eq!(client.ring.as_ref().unwrap().statistics().unwrap().references, 72);
    service.end();
}

#[test]
fn a_cyclic_scan_under_mru_hits() {
    let Some(stage) = stage("a_cyclic_scan_under_mru_hits") else { return };
    let path = stage.file("a", 128);
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(7, &path);
    client.push(Entry::SetPolicy { priority: 1, policy: Policy::Mru });
    client.push(Entry::SetPriority { file, priority: 1 });
    client.statistics();
    for _ in 0..3 {
        read_blocks(&path, 0..128);
    }
    let statistics = client.until("all is read", |s| s.references >= 3 * 128);
    // LRU would find nothing of a cycle that is longer than the cache.
    assert!(statistics.hits > 60, "{statistics:?}");
    let manager = &service.snapshot().cache.managers[0];
    assert!(manager.overruled > 0 && manager.consulted >= manager.overruled, "{manager:?}");
    service.end();
}

#[test]
fn what_is_done_with_goes_and_what_is_cancelled_is_not_fetched() {
    let Some(stage) = stage("what_is_done_with_goes_and_what_is_cancelled_is_not_fetched") else { return };
    let (path, other) = (stage.file("a", 32), stage.file("b", 32));
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.statistics();
    read_blocks(&path, 0..32);
    client.until("all is read", |s| s.owned == 32);
    client.push(Entry::DoneWith { file, range: range(0, 16 * BLOCK) });
    client.until("half of it has gone", |s| s.owned == 16);
    let second = client.name_path(2, &other);
    // A second reference to what is cached keeps the cursor before the other file.
    for _ in 0..3 {
        client.push(Entry::Disclose { file, range: range(31 * BLOCK, BLOCK) });
    }
    client.until("it is taken", |s| s.disclosed_ahead == 3);
    client.push(Entry::Cancel);
    client.push(Entry::SetTemporaryPriority { file, range: range(16 * BLOCK, BLOCK), priority: -5 });
    let statistics = client.until("it is withdrawn", |s| s.entries_taken == 6);
    assert_eq!((statistics.disclosed_ahead, statistics.entries_refused), (0, 0));
    client.send(&Request::Forget { handle: second });
    let files = service.until("one file is left", |s| s.cache.files.len() == 1).cache.files;
    assert_eq!(files[0].path, path);
    service.end();
}

#[test]
fn two_connections_of_a_process_share_its_manager() {
    let Some(stage) = stage("two_connections_of_a_process_share_its_manager") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let mut first = Client::connect(&service.socket);
    let mut second = Client::connect(&service.socket);
    first.name_path(1, &path);
    second.name_path(1, &path);
    first.statistics();
    second.statistics();
    let seen = service.snapshot();
    assert_eq!((seen.sessions.len(), seen.sessions[0].connections, seen.sessions[0].files), (1, 2, 2));
    assert_eq!((seen.cache.managers.len(), seen.cache.files.len()), (1, 1));
    assert_eq!(seen.sessions[0].pid, std::process::id());
    drop(first);
    service.until("one connection is left", |s| s.sessions_open == 1 && s.cache.files.len() == 1);
    drop(second);
    let seen = service.until("nobody is left", |s| s.sessions_open == 0);
    assert_eq!((seen.cache.managers.len(), seen.cache.files.len(), seen.cache.processes.len()), (0, 0, 0));
    assert_eq!(seen.sessions_opened, 2);
    service.end();
}

#[test]
fn a_sleeping_service_is_woken_by_the_bell() {
    let Some(stage) = stage("a_sleeping_service_is_woken_by_the_bell") else { return };
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    let start = std::time::Instant::now();
    // It sleeps when it has found the ring empty a few times; then the producer is told to ring.
    for number in 0..10 {
        while !client.ring.as_mut().unwrap().publish() {
            assert!(start.elapsed().as_secs() < 60, "it never sleeps");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        client.send(&Request::Wake);
        client.push(Entry::SetPolicy { priority: number, policy: Policy::Mru });
        while client.ring.as_ref().unwrap().consumed() < number as u64 + 1 {
            assert!(start.elapsed().as_secs() < 60, "it never wakes");
            std::thread::yield_now();
        }
    }
    service.end();
}

#[test]
fn a_file_that_is_truncated_under_a_disclosure_harms_nobody() {
    let Some(stage) = stage("a_file_that_is_truncated_under_a_disclosure_harms_nobody") else { return };
    let (path, other) = (stage.file("a", 64), stage.file("b", 8));
    let service = stage.service(32);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.push(Entry::DiscloseFile { file });
    client.until("it is taken", |s| s.disclosed == 64);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4 * BLOCK).unwrap();
    // Behind the end: as if nothing had been said.
    client.push(Entry::Disclose { file, range: range(40 * BLOCK, BLOCK) });
    client.push(Entry::DoneWith { file, range: range(40 * BLOCK, BLOCK) });
    let second = client.name_path(2, &other);
    client.push(Entry::DiscloseFile { file: second });
    assert_eq!(client.statistics().entries_refused, 0);
    read_blocks(&path, 0..4);
    read_blocks(&other, 0..8);
    client.until("the reads are seen", |s| s.references >= 12);
    service.end();
}
