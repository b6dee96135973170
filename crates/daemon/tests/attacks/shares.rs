//! What one user may have of each table, in all of its connections and processes together: whoever goes to the limit is
//! refused there, has room again when it gives something up, and leaves another user as much as there was.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Child;

use foretell_pagecache::QueueLimits;
use foretell_protocol::message::Message;
use foretell_protocol::{Entry, ErrorCode, PROTOCOL, Part, Reply, Request};
use foretelld::Limits;

use super::stage_for_attackers;
use crate::client::{Client, range};
use crate::stage::{BLOCK, Running, Stage};
use crate::users::{NOBODY, start_as};

/// Another user than [`NOBODY`].
const SECOND: u32 = 65_531;
/// Blocks of each file that is named.
const BLOCKS: u64 = 8;

/// An attacker that stays until this is dropped.
struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an attacker with a directory of its own, and gives what it has said when it is at the limit.
fn at_limit(stage: &Stage, service: &Running, how: &str, name: &str, user: u32) -> (String, Attacker) {
    let directory = stage.directory.join(name);
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(user), Some(user)).unwrap();
    let words = [how.to_owned(), directory.display().to_string()];
    let mut attacker = Attacker(start_as("attacker", &service.socket, &words, Some(user)));
    let lines = BufReader::new(attacker.0.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.map_while(Result::ok).take_while(|line| line != "that is all").collect();
    let line = lines.iter().find_map(|line| line.strip_prefix("limit: "));
    (line.unwrap_or_else(|| panic!("{lines:?}")).to_owned(), attacker)
}

/// Says it, and stays.
fn stay(said: &str) -> ! {
    println!("\nlimit: {said}\nthat is all");
    loop {
        std::thread::park();
    }
}

/// Names a file; the code, if it is refused.
fn names(client: &mut Client, directory: &Path, number: u32) -> Option<ErrorCode> {
    let path = directory.join(format!("{number:03}"));
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path).unwrap();
    file.set_len(BLOCKS * BLOCK).unwrap();
    client.name(number, file.as_fd());
    client.send(&Request::Stats);
    let mut refused = None;
    loop {
        match client.reply() {
            Some(Reply::Error { code, .. }) => refused = Some(code),
            Some(Reply::Stats(_)) => return refused,
            other => panic!("{other:?}"),
        }
    }
}

/// Names files from two connections until one is refused, gives one up, and names another one.
pub(super) fn name_files(socket: &Path, directory: &Path) {
    let mut clients = [Client::connect(socket), Client::connect(socket)];
    for number in 1..100 {
        let Some(code) = names(&mut clients[number as usize % 2], directory, number) else { continue };
        let again = names(&mut clients[(number as usize + 1) % 2], directory, number);
        clients[1].send(&Request::Forget { handle: foretell_protocol::Handle::new(1).unwrap() });
        clients[1].statistics();
        let then = names(&mut clients[0], directory, number);
        stay(&format!("{} {code:?} {again:?} {then:?}", number - 1));
    }
    panic!("no limit");
}

#[test]
fn files_of_a_user_are_limited_in_number_in_bytes_and_in_bytes_of_their_names() {
    let test = "files_of_a_user_are_limited_in_number_in_bytes_and_in_bytes_of_their_names";
    let Some(stage) = stage_for_attackers(test) else { return };
    let name_bytes = stage.directory.join("a0/001").as_os_str().len() as u64;
    let of = [
        ("6 Files", Limits { files_of_user: 6, ..Limits::default() }),
        ("5 Files", Limits { file_bytes_of_user: 6 * BLOCKS * BLOCK - 1, ..Limits::default() }),
        ("4 Files", Limits { name_bytes_of_user: 5 * name_bytes - 1, ..Limits::default() }),
    ];
    for (at, (expected, limits)) in of.into_iter().enumerate() {
        let service = stage.service_with(64, limits);
        let expected = format!("{expected} Some(Files) None");
        let (first, _first) = at_limit(&stage, &service, "files", &format!("a{at}"), NOBODY);
        let (second, _second) = at_limit(&stage, &service, "files", &format!("b{at}"), SECOND);
        assert_eq!((first, second), (expected.clone(), expected));
        service.end();
    }
}

/// A connection with the beginning of a message of so many bytes.
fn half(socket: &Path, bytes: usize) -> Client {
    let mut client = Client::silent(socket);
    client.send(&Request::Hello { protocol: PROTOCOL, ring_entries: None });
    assert!(matches!(client.reply(), Some(Reply::Welcome(_))));
    let mut message = Vec::new();
    Request::Run(Part { more: true, text: "x".repeat(bytes) }).encode(&mut message);
    client.send_bytes(&message[..message.len() - 1], &[]);
    client
}

/// Begins messages until one is one too many.
pub(super) fn begin_messages(socket: &Path) {
    let first = half(socket, 60_000);
    let second = half(socket, 30_000);
    let mut third = half(socket, 30_000);
    let code = third.ended();
    drop(second);
    // Its end is seen a moment later.
    let mut fourth = loop {
        let mut client = half(socket, 30_000);
        client.send_bytes(b"x", &[]);
        match client.reply() {
            Some(Reply::Error { code: ErrorCode::NotPermitted, .. }) => break client,
            Some(Reply::Ended { code: ErrorCode::SlowClient, .. }) => {}
            other => panic!("{other:?}"),
        }
    };
    fourth.status("");
    let _stays = first;
    stay(&format!("{code:?}"));
}

#[test]
fn messages_that_are_not_complete_are_limited_in_bytes_of_a_user() {
    let test = "messages_that_are_not_complete_are_limited_in_bytes_of_a_user";
    let Some(stage) = stage_for_attackers(test) else { return };
    let limits = Limits { buffer_bytes_of_user: 100_000, ..Limits::default() };
    let service = stage.service_with(64, limits);
    let (first, _first) = at_limit(&stage, &service, "messages", "a", NOBODY);
    let (second, _second) = at_limit(&stage, &service, "messages", "b", SECOND);
    assert_eq!([first.as_str(), second.as_str()], ["SlowClient"; 2]);
    service.end();
}

/// Discloses three ranges that wait.
pub(super) fn disclose(socket: &Path, directory: &Path) {
    let path = directory.join("f");
    File::create(&path).unwrap().set_len(BLOCKS * BLOCK).unwrap();
    let mut client = Client::connect(socket);
    let file = client.name_path(1, &path);
    (0..3).for_each(|_| client.push(Entry::Disclose { file, range: range(0, BLOCK) }));
    client.send(&Request::Stats);
    let mut codes = Vec::new();
    let refused = loop {
        match client.reply() {
            Some(Reply::Error { code, .. }) => codes.push(code),
            Some(Reply::Stats(statistics)) => break statistics.entries_refused,
            other => panic!("{other:?}"),
        }
    };
    stay(&format!("{refused} {codes:?}"));
}

#[test]
fn ranges_that_wait_are_limited_by_user() {
    let Some(stage) = stage_for_attackers("ranges_that_wait_are_limited_by_user") else { return };
    let queues = QueueLimits { session: 100, user: 4, all: 100 };
    let service = stage.service_with(64, Limits { queues, list_blocks: 0, ..Limits::default() });
    let (first, _first) = at_limit(&stage, &service, "ranges", "a", NOBODY);
    let (second, second_process) = at_limit(&stage, &service, "ranges", "b", NOBODY);
    let (other, _other) = at_limit(&stage, &service, "ranges", "c", SECOND);
    assert_eq!([first.as_str(), second.as_str(), other.as_str()], ["0 []", "2 [Disclosed]", "0 []"]);
    drop(second_process);
    service.until("it has gone", |snapshot| snapshot.sessions_open == 2);
    let (third, _third) = at_limit(&stage, &service, "ranges", "d", NOBODY);
    assert_eq!(third, "2 [Disclosed]", "the first one's are there still");
    service.end();
}
