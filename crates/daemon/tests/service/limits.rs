//! Every limit: what is refused there, with which code, and that the next client is served.

use std::path::Path;

use foretell_pagecache::QueueLimits;
use foretell_protocol::{Entry, ErrorCode, Part, Policy, Request};
use foretelld::Limits;

use crate::client::{Client, range};
use crate::stage::{BLOCK, stage};
use crate::users::{NOBODY, start_with};

#[test]
fn connections_are_limited_by_process_and_in_all() {
    let Some(stage) = stage("connections_are_limited_by_process_and_in_all") else { return };
    let limits = Limits { sessions: 5, sessions_of_process: 2, ..Limits::default() };
    let service = stage.service_with(64, limits);
    let _two = [(); 2].map(|()| Client::connect(&service.socket));
    let mut third = Client::silent(&service.socket);
    third.hello();
    assert_eq!(third.ended(), ErrorCode::SessionsOfProcess);
    let _commands = [(); 2].map(|()| Client::command(&service.socket));
    assert_eq!(Client::silent(&service.socket).ended(), ErrorCode::Sessions);
    assert_eq!(service.snapshot().sessions_refused, 2);
    drop(_commands);
    service.until("there is room", |s| s.sessions_open == 2);
    Client::command(&service.socket);
    service.end();
}

#[test]
fn numbers_that_are_lent_to_a_user_count_as_that_user() {
    let test = "numbers_that_are_lent_to_a_user_count_as_that_user";
    if !Path::new("/etc/subuid").exists() {
        println!("skipped: {test}: no /etc/subuid to put another one over");
        return;
    }
    let Some(stage) = stage(test) else { return };
    let path = stage.file("a", 8);
    let limits = Limits { sessions_of_user: 1, ..Limits::default() };
    let service = stage.service_with_subuid(64, limits, &format!("{NOBODY}:200000:65536\n"));
    let mut first = start_with("speaker", &service.socket, &path, Some(200_007));
    let snapshot = service.until("it speaks", |s| s.sessions.len() == 1);
    assert_eq!(snapshot.sessions[0].user, 200_007, "it is who it is");
    for (user, refused) in [(NOBODY, true), (265_535, true), (265_536, false)] {
        let mut other = match refused {
            true => start_with("refused", &service.socket, &path, Some(user)),
            false => start_with("speaker", &service.socket, &path, Some(user)),
        };
        if refused {
            let said = other.wait_with_output().unwrap();
            assert!(String::from_utf8_lossy(&said.stdout).contains("SessionsOfUser"), "{said:?}");
        } else {
            service.until("who is somebody else speaks, too", |s| s.sessions.len() == 2);
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
    first.kill().unwrap();
    first.wait().unwrap();
    service.end();
}

#[test]
fn connections_are_limited_by_user() {
    let Some(stage) = stage("connections_are_limited_by_user") else { return };
    let path = stage.file("a", 8);
    let limits = Limits { sessions_of_user: 1, ..Limits::default() };
    let service = stage.service_with(64, limits);
    let mut first = start_with("speaker", &service.socket, &path, Some(NOBODY));
    service.until("it speaks", |s| s.sessions.len() == 1);
    let second = start_with("refused", &service.socket, &path, Some(NOBODY));
    let said = second.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&said.stdout).contains("SessionsOfUser"), "{said:?}");
    let _root = [(); 3].map(|()| Client::command(&service.socket));
    first.kill().unwrap();
    first.wait().unwrap();
    service.end();
}

#[test]
fn files_levels_and_disclosures_are_limited() {
    let Some(stage) = stage("files_levels_and_disclosures_are_limited") else { return };
    let paths = ["a", "b", "c"].map(|name| stage.file(name, 8));
    let queues = QueueLimits { session: 3, user: 100, all: 5 };
    let limits = Limits { files: 2, queues, list_blocks: 0, ..Limits::default() };
    let service = stage.service_with(64, limits);
    let mut client = Client::connect(&service.socket);
    let [first, _, third] = [0, 1, 2].map(|at| client.name_path(at as u32 + 1, &paths[at]));
    assert_eq!(client.error(), (ErrorCode::Files, Some(third)));
    client.send(&Request::Forget { handle: first });
    let third = client.name_path(3, &paths[2]);
    assert_eq!(client.statistics().entries_refused, 0);

    for priority in 1..64 {
        client.push(Entry::SetPolicy { priority, policy: Policy::Mru });
    }
    assert_eq!(client.statistics().entries_refused, 0, "and level 0");
    client.push(Entry::SetPriority { file: third, priority: 64 });
    assert_eq!(client.error(), (ErrorCode::Levels, Some(third)));

    let list = Entry::Disclose { file: third, range: range(0, BLOCK) };
    (0..4).for_each(|_| client.push(list));
    assert_eq!(client.error(), (ErrorCode::Disclosed, Some(third)));
    // The same process would share its session: another one takes what is left in all.
    let mut other = start_with("discloser", &service.socket, &paths[0], None);
    service.until("it has disclosed", |s| s.sessions.iter().any(|s| s.entries_refused == 1));
    client.push(Entry::Cancel);
    let ahead: u64 = service.snapshot().cache.managers.iter().map(|manager| manager.queued).sum();
    assert!(ahead <= 5, "{ahead}");
    other.kill().unwrap();
    other.wait().unwrap();
    service.end();
}

#[test]
fn messages_are_limited() {
    let Some(stage) = stage("messages_are_limited") else { return };
    let limits = Limits { messages_burst: 100, messages_per_s: 1, ..Limits::default() };
    let service = stage.service_with(64, limits);
    let mut client = Client::connect(&service.socket);
    for _ in 0..200 {
        client.send(&Request::Wake);
    }
    assert_eq!(client.ended(), ErrorCode::Rate);
    service.end();
}

#[test]
fn who_does_not_greet_is_not_waited_for() {
    let Some(stage) = stage("who_does_not_greet_is_not_waited_for") else { return };
    // Long enough to greet within, on a busy machine too.
    let limits = Limits { greeting_ms: 1500, ..Limits::default() };
    let service = stage.service_with(64, limits);
    let mut greeted = Client::command(&service.socket);
    // Who came later has had all of its time.
    assert_eq!(Client::silent(&service.socket).ended(), ErrorCode::OutOfTurn);
    assert_eq!(greeted.status("").sessions_open, 2, "who has greeted stays");
    service.end();
}

#[test]
fn programs_under_rules_are_limited() {
    let Some(stage) = stage("programs_under_rules_are_limited") else { return };
    let service = stage.service_with(64, Limits { runs: 0, ..Limits::default() });
    let mut client = Client::command(&service.socket);
    let own = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
    let start = r#"{"type":"start","managers":[]}"#.to_owned();
    client.send_with(
        &Request::Run(Part { more: false, text: start }),
        &[std::os::fd::AsFd::as_fd(&own.unwrap())],
    );
    assert_eq!(client.error(), (ErrorCode::Runs, None));
    service.end();
}
