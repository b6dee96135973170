//! Starting and stopping.

use std::time::Duration;

use foretell_protocol::ErrorCode;
use foretelld::{Limits, ListenError, Service, ServiceError};

use crate::client::Client;
use crate::stage::stage;

#[test]
fn a_second_service_on_the_same_socket_is_refused() {
    let Some(stage) = stage("a_second_service_on_the_same_socket_is_refused") else { return };
    let first = stage.service(64);
    let second = Service::open(stage.configuration(64, Limits::default())).unwrap_err();
    assert!(matches!(second, ServiceError::Listen(ListenError::InUse { .. })), "{second}");
    Client::command(&first.socket);
    first.end();
    assert_eq!(std::fs::read_dir(&stage.directory).unwrap().count(), 0, "nothing is left behind");
    stage.service(64).end();
}

#[test]
fn clients_are_told_when_the_service_stops() {
    let Some(stage) = stage("clients_are_told_when_the_service_stops") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    client.name_path(1, &path);
    client.statistics();
    service.end();
    assert_eq!(client.ended(), ErrorCode::Stopping);
    crate::stage::read_blocks(&path, 0..8);
    // And the next one serves the same socket.
    let service = stage.service(64);
    Client::connect(&service.socket).statistics();
    service.end();
}

#[test]
fn a_service_that_nobody_speaks_to_sleeps() {
    let Some(stage) = stage("a_service_that_nobody_speaks_to_sleeps") else { return };
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    client.statistics();
    // Asleep, it has to be rung for: that it is comes true within a moment of silence.
    let start = std::time::Instant::now();
    while !client.ring.as_mut().unwrap().publish() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never sleeps");
        std::thread::sleep(Duration::from_millis(5));
    }
    service.end();
}

#[test]
fn a_service_that_is_killed_is_replaced_and_its_clients_run_on() {
    let Some(stage) = stage("a_service_that_is_killed_is_replaced_and_its_clients_run_on") else { return };
    let path = stage.file("a", 32);
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.push(foretell_protocol::Entry::DiscloseFile { file });
    client.statistics();
    service.kill();
    assert!(client.reply().is_none(), "closed");
    crate::stage::read_blocks(&path, 0..32);
    let service = stage.service(64);
    assert_eq!(service.snapshot().sessions_opened, 0);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.push(foretell_protocol::Entry::DiscloseFile { file });
    client.until("what was cached is known", |s| s.disclosed == 32);
    service.end();
}

#[test]
fn other_threads_of_the_service_can_watch_it() {
    let Some(stage) = stage("other_threads_of_the_service_can_watch_it") else { return };
    let (sender, receiver) = std::sync::mpsc::channel();
    let configuration = stage.configuration(64, Limits::default());
    let serving = std::thread::spawn(move || {
        let service = Service::open(configuration).unwrap();
        sender.send((service.stop(), service.watcher())).unwrap();
        service.run().unwrap();
    });
    let (stop, watcher) = receiver.recv().unwrap();
    let snapshot = watcher.snapshot().unwrap();
    assert_eq!((snapshot.pid, snapshot.cache.budget_bytes), (std::process::id(), 64 * 8192));
    stop.stop();
    serving.join().unwrap();
    assert!(watcher.snapshot().is_none());
}

#[test]
fn there_is_room_for_all_descriptors_from_the_start() {
    let Some(stage) = stage("there_is_room_for_all_descriptors_from_the_start") else { return };
    // What a growing table takes the loop waits for.
    let slots = |pid: u32| -> u32 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse().unwrap()
    };
    let few = stage.service_with_descriptors(64, 2048);
    assert_eq!(slots(few.snapshot().pid), 2048);
    few.end();
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let service = stage.service(64);
    let all = u64::from(foretell_pagecache::default_files(0)) + 2 * u64::from(Limits::default().sessions);
    assert!(u64::from(slots(service.snapshot().pid)) >= all.min(most));
    service.end();
}
