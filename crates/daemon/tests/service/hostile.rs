//! Clients that do everything wrong: none of it stops the service or is felt by anybody else.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use foretell_protocol::{Entry, ErrorCode, PROTOCOL, Part, Policy, Producer, Request};

use crate::client::{Client, range};
use crate::stage::{BLOCK, Running, read_blocks, stage};

/// A client that behaves is served as ever.
fn serves_others(service: &Running, path: &std::path::Path) {
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, path);
    client.push(Entry::DiscloseFile { file });
    assert_eq!(client.statistics().entries_refused, 0);
    client.until("it is taken", |s| s.disclosed == 8);
}

#[test]
fn what_is_no_message_ends_the_session_and_nothing_else() {
    let Some(stage) = stage("what_is_no_message_ends_the_session_and_nothing_else") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let end_of = |bytes: &[u8], greeted: bool| {
        let mut client =
            if greeted { Client::connect(&service.socket) } else { Client::silent(&service.socket) };
        client.send_bytes(bytes, &[]);
        client.ended()
    };
    for greeted in [false, true] {
        // Too long, reserved not zero, no such kind, a body of the wrong length, a reply.
        assert_eq!(end_of(&[0xff; 8], greeted), ErrorCode::Malformed);
        assert_eq!(end_of(&[0, 0, 0, 0, 4, 0, 1, 0], greeted), ErrorCode::Malformed);
        assert_eq!(end_of(&[0, 0, 0, 0, 99, 0, 0, 0], greeted), ErrorCode::Malformed);
        assert_eq!(end_of(&[3, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3], greeted), ErrorCode::Malformed);
        assert_eq!(end_of(&[0, 0, 0, 0, 1, 0x80, 0, 0], greeted), ErrorCode::Malformed);
    }
    let mut client = Client::silent(&service.socket);
    client.send(&Request::Stats);
    assert_eq!(client.ended(), ErrorCode::OutOfTurn);
    let mut client = Client::connect(&service.socket);
    client.hello();
    assert_eq!(client.ended(), ErrorCode::OutOfTurn);
    let mut client = Client::command(&service.socket);
    client.send(&Request::Wake);
    assert_eq!(client.ended(), ErrorCode::OutOfTurn);
    let mut client = Client::silent(&service.socket);
    client.send(&Request::Hello { protocol: PROTOCOL + 1, ring_entries: None });
    assert_eq!(client.ended(), ErrorCode::Version);
    // A file without its descriptor, and a descriptor without a message.
    let mut client = Client::connect(&service.socket);
    let handle = foretell_protocol::Handle::new(1).unwrap();
    client.send(&Request::File { handle, number: 0 });
    assert_eq!(client.ended(), ErrorCode::Malformed);
    let mut client = Client::connect(&service.socket);
    client.send_with(&Request::Stats, &[File::open(&path).unwrap().as_fd()]);
    assert_eq!(client.ended(), ErrorCode::Malformed);
    serves_others(&service, &path);
    service.end();
}

#[test]
fn a_ring_that_could_hurt_is_refused() {
    let Some(stage) = stage("a_ring_that_could_hurt_is_refused") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let unsealed: OwnedFd = tempfile::tempfile().unwrap().into();
    let (_, small) = Producer::create(64).unwrap();
    for (memory, entries) in [(unsealed, 64), (small, 128), (File::open(&path).unwrap().into(), 64)] {
        let mut client = Client::silent(&service.socket);
        let hello = Request::Hello { protocol: PROTOCOL, ring_entries: Some(entries) };
        client.send_with(&hello, &[memory.as_fd()]);
        assert_eq!(client.ended(), ErrorCode::RingRefused);
    }
    serves_others(&service, &path);
    service.end();
}

#[test]
fn positions_and_entries_of_a_ring_are_not_trusted() {
    let Some(stage) = stage("positions_and_entries_of_a_ring_are_not_trusted") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    // The ring is memory of the client's: it writes what it likes, here through a second way in.
    let connect = || {
        let (ring, memory) = Producer::create(64).unwrap();
        let mut client = Client::silent(&service.socket);
        let hello = Request::Hello { protocol: PROTOCOL, ring_entries: Some(64) };
        client.send_with(&hello, &[memory.as_fd()]);
        assert!(matches!(client.reply(), Some(foretell_protocol::Reply::Welcome(_))));
        client.ring = Some(ring);
        (client, File::from(memory))
    };
    let bytes = |memory: &File| memory.metadata().unwrap().len() as usize;
    use std::os::unix::fs::FileExt;
    for seed in 0..8_u64 {
        let (mut client, memory) = connect();
        let mut state = seed;
        let noise: Vec<u8> = (0..bytes(&memory))
            .map(|_| {
                // Knuth's MMIX generator.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        memory.write_all_at(&noise, 0).unwrap();
        client.send(&Request::Wake);
        assert_eq!(client.ended(), ErrorCode::RingCorrupt, "seed {seed}");
    }
    // Entries that mean nothing are passed over and told of.
    let (mut client, memory) = connect();
    let header = bytes(&memory) - 64 * 32;
    for _ in 0..3 {
        client.ring.as_mut().unwrap().push(&Entry::Cancel, 0);
    }
    memory.write_all_at(&[0xee; 32], header as u64).unwrap();
    let _ = client.ring.as_mut().unwrap().publish();
    client.send(&Request::Wake);
    assert_eq!(client.error(), (ErrorCode::BadEntry, None));
    let statistics = client.statistics();
    assert_eq!((statistics.entries_taken, statistics.entries_refused), (3, 1));
    serves_others(&service, &path);
    service.end();
}

#[test]
fn descriptors_of_other_things_than_readable_files_are_refused() {
    let Some(stage) = stage("descriptors_of_other_things_than_readable_files_are_refused") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    let things: [(OwnedFd, ErrorCode); 7] = [
        (File::open(&stage.directory).unwrap().into(), ErrorCode::NotAFile),
        (std::io::pipe().unwrap().0.into(), ErrorCode::NotAFile),
        (UnixStream::pair().unwrap().0.into(), ErrorCode::NotAFile),
        (File::open("/dev/zero").unwrap().into(), ErrorCode::NotAFile),
        (OpenOptions::new().append(true).open(&path).unwrap().into(), ErrorCode::NotReadable),
        (File::open("/proc/self/status").unwrap().into(), ErrorCode::NotSteerable),
        (Producer::create(64).unwrap().1, ErrorCode::NotSteerable),
    ];
    for (number, (thing, code)) in (1..).zip(things) {
        let handle = client.name(number, thing);
        assert_eq!(client.error(), (code, Some(handle)));
    }
    // None of the handles names anything.
    let handle = foretell_protocol::Handle::new(3).unwrap();
    client.push(Entry::DiscloseFile { file: handle });
    assert_eq!(client.error(), (ErrorCode::UnknownHandle, Some(handle)));
    // A handle names one file until it is forgotten; the same file again changes nothing.
    let other = stage.file("b", 1);
    let handle = client.name_path(3, &path);
    client.name_path(3, &path);
    client.name_path(3, &other);
    assert_eq!(client.error(), (ErrorCode::HandleInUse, Some(handle)));
    assert_eq!(service.snapshot().sessions[0].files, 1);
    serves_others(&service, &path);
    service.end();
}

#[test]
fn a_client_that_does_not_read_or_stops_in_the_middle_delays_nobody() {
    let Some(stage) = stage("a_client_that_does_not_read_or_stops_in_the_middle_delays_nobody") else {
        return;
    };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    // The first half of a message, then nothing. With a descriptor it would be put out after a second.
    let mut half = Client::connect(&service.socket);
    half.send_bytes(&[4, 0, 0, 0, 2, 0, 0, 0, 1, 0], &[]);
    // Answers that are never taken: the socket fills, then the service's outbox.
    let mut deaf = Client::connect(&service.socket);
    let mut bytes = Vec::new();
    foretell_protocol::message::Message::encode(&Request::Stats, &mut bytes);
    let start = std::time::Instant::now();
    let ended = loop {
        match foretell_protocol::socket::send(deaf.socket.as_fd(), &bytes, &[]) {
            // The service's turn.
            Ok(0) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Ok(_) => {}
            Err(_) => break true,
        }
        if start.elapsed() > std::time::Duration::from_secs(60) {
            break false;
        }
    };
    assert!(ended, "too many messages, or too many answers");
    serves_others(&service, &path);
    service.until("the one that has stopped in the middle is left", |s| s.sessions_open == 1);
    drop(half);
    drop(deaf.ring.take());
    service.until("nobody is left", |s| s.sessions_open == 0);
    service.end();
}

#[test]
fn a_client_that_is_killed_leaves_nothing_behind() {
    let Some(stage) = stage("a_client_that_is_killed_leaves_nothing_behind") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    for round in 0..5 {
        let mut child = crate::users::start_with("speaker", &service.socket, &path, None);
        service.until("it speaks", |s| s.cache.files.len() == 1 && s.sessions.len() == 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = service.until("it is gone", |s| s.sessions_open == 0);
        assert_eq!((seen.cache.files.len(), seen.cache.managers.len()), (0, 0), "round {round}");
    }
    read_blocks(&path, 0..8);
    serves_others(&service, &path);
    service.end();
}

#[test]
fn a_status_request_that_means_nothing_is_refused() {
    let Some(stage) = stage("a_status_request_that_means_nothing_is_refused") else { return };
    let service = stage.service(64);
    let mut client = Client::command(&service.socket);
    for text in ["nonsense", "{\"user\":-1}", "{\"what\":1}", &"x".repeat(5000)] {
        client.send(&Request::Status(Part { more: false, text: text.to_owned() }));
        assert_eq!(client.error(), (ErrorCode::BadSpecification, None));
    }
    client.send(&Request::Status(Part { more: true, text: String::new() }));
    assert_eq!(client.error(), (ErrorCode::BadSpecification, None));
    assert_eq!(client.status("{}").sessions_open, 2);
    service.end();
}

#[test]
fn entries_far_beyond_everything_cost_nothing() {
    let Some(stage) = stage("entries_far_beyond_everything_cost_nothing") else { return };
    let path = stage.directory.join("hole");
    let size = 1_u64 << 43;
    File::create(&path).unwrap().set_len(size).unwrap();
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    for step in 0..64 {
        let start = size / 64 * step;
        client.push(Entry::Disclose { file, range: range(start, 1) });
        client.push(Entry::SetTemporaryPriority { file, range: range(0, size), priority: 1 });
        client.push(Entry::DoneWith { file, range: range(start, size) });
    }
    client.push(Entry::Disclose { file, range: range(foretell_protocol::limits::FILE_BYTES - 1, 1) });
    client.push(Entry::SetPolicy { priority: i32::MIN, policy: Policy::Mru });
    client.push(Entry::SetPriority { file, priority: i32::MAX });
    let statistics = client.statistics();
    assert_eq!((statistics.entries_taken, statistics.entries_refused), (64 * 3 + 3, 0));
    client.push(Entry::DiscloseFile { file });
    client.until("as much as the list holds is taken", |s| s.disclosed_ahead >= 1 << 18);
    client.push(Entry::Cancel);
    client.until("it is withdrawn", |s| s.disclosed_ahead == 0);
    assert_eq!(BLOCK, 8192);
    service.end();
}
