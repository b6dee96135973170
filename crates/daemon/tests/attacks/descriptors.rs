//! Descriptors that hurt whoever closes them, descriptors that are parked, and rings of nothing.

use std::fs::File;
use std::io::BufRead;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use foretell_protocol::ring::ring_bytes;
use foretell_protocol::{Entry, ErrorCode, Handle, PROTOCOL, Producer, Reply, Request};
use foretell_testkit::sockets::lingering;
use foretelld::Limits;

use super::fuse::Silent;
use super::moves::{self, file_request};
use super::{attack, said, serves_root, serves_root_meanwhile, stage_for_attackers};
use crate::client::{Client, range};
use crate::stage::{BLOCK, Running, Stage};

/// Waits until a file says that it is time.
fn wait_for(sign: &Path) {
    while !sign.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Is put out until the socket that is given back is closed.
fn is_put_out(socket: &Path) -> (ErrorCode, TcpStream) {
    let mut client = Client::connect(socket);
    let receiver = moves::send_lingering(&mut client);
    // It is no file.
    assert_eq!(client.error().0, ErrorCode::NotAFile);
    (client.ended(), receiver)
}

/// Sends a socket as a file, is put out for it, and is let in again when it gives way.
pub(super) fn send_lingering(socket: &Path, go: &Path) {
    let (ended, receiver) = is_put_out(socket);
    println!("\nended: {ended:?}");
    println!("again: {:?}", Client::silent(socket).ended());
    wait_for(go);
    drop(receiver);
    loop {
        let mut client = Client::silent(socket);
        client.send(&Request::Hello { protocol: PROTOCOL, ring_entries: None });
        if let Some(Reply::Welcome(_)) = client.reply() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("then: let in");
}

/// Leaves sockets under way, in messages that nobody receives any more: what is wrong stands before them.
pub(super) fn leave_lingering(socket: &Path, go: &Path) {
    let mut receivers = Vec::new();
    for _ in 0..4 {
        let mut client = Client::silent(socket);
        let (sender, receiver) = lingering();
        client.send_bytes(&[0xff; 8], &[]);
        client.send_with(&file_request(1), &[sender.as_fd()]);
        receivers.push(receiver);
        // Should the service have closed already, closing is slow here.
        std::thread::spawn(move || drop(sender));
        // Those that come after the end are not minded.
        let _ = client.reply();
    }
    println!("\nleft: {}", receivers.len());
    wait_for(go);
}

#[test]
fn a_descriptor_that_is_slow_to_close_is_its_senders_trouble() {
    let test = "a_descriptor_that_is_slow_to_close_is_its_senders_trouble";
    let Some(stage) = stage_for_attackers(test) else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let go = stage.directory.join("go");
    let attackers = ["lingering", "lingering-unread"].map(|how| attack(&service, how, &[&go]));
    // Each is answered, or the test waits for ten minutes.
    serves_root_meanwhile("sockets that linger", &service, &path);
    File::create(&go).unwrap();
    let [first, second] = attackers;
    let output = first.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in ["ended: SlowClient", "again: SlowClient", "then: let in"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert_eq!(said(second, "left: "), "4");
    service.end();
}

/// Begins messages that it does not end, each with as many descriptors as may come with one.
pub(super) fn park(socket: &Path) {
    let null = File::open("/dev/null").unwrap();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::silent(socket)).collect();
    for client in &mut clients {
        let descriptors: Vec<BorrowedFd<'_>> = (0..64).map(|_| null.as_fd()).collect();
        client.send_bytes(&[0; 7], &descriptors);
    }
    let ended: Vec<ErrorCode> = clients.iter_mut().map(Client::ended).collect();
    println!("\nended: {}", ended.iter().filter(|code| **code == ErrorCode::Malformed).count());
}

#[test]
fn descriptors_cannot_be_parked() {
    let Some(stage) = stage_for_attackers("descriptors_cannot_be_parked") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    assert_eq!(
        said(attack(&service, "half", &[]), "ended: "),
        "8",
        "four at once, four when their time is over"
    );
    serves_root(&service, &path);
    service.end();
}

/// Sends rings of holes as long as they are taken.
pub(super) fn take_rings(socket: &Path) {
    const ENTRIES: u32 = 1 << 12;
    let mut taken = Vec::new();
    loop {
        let (ring, memory) = Producer::create(ENTRIES).unwrap();
        let mut client = Client::silent(socket);
        let hello = Request::Hello { protocol: PROTOCOL, ring_entries: Some(ENTRIES) };
        client.send_with(&hello, &[memory.as_fd()]);
        match client.reply() {
            Some(Reply::Welcome(_)) => taken.push((client, ring)),
            Some(Reply::Ended { code, .. }) => {
                println!("\ntaken: {} {code:?}", taken.len());
                return;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn rings_of_one_user_are_limited_in_bytes() {
    let Some(stage) = stage_for_attackers("rings_of_one_user_are_limited_in_bytes") else { return };
    let path = stage.file("a", 8);
    let limits = Limits {
        ring_bytes_of_user: 2 * ring_bytes(1 << 12) as u64,
        sessions_of_process: 8,
        ..Limits::default()
    };
    let service = stage.service_with(64, limits);
    for _ in 0..2 {
        // Also the second time: what a session had is given back.
        assert_eq!(said(attack(&service, "rings", &[]), "taken: "), "2 RingRefused");
        service.until("its sessions have ended", |snapshot| snapshot.sessions_open == 0);
    }
    serves_root(&service, &path);
    service.end();
}

/// Sends a file of a file system that does not answer when it is closed. It stays open here: to close it would take for
/// ever, too.
pub(super) fn send_silent(socket: &Path, path: &Path) {
    let mut client = Client::connect(socket);
    let file = std::mem::ManuallyDrop::new(File::open(path).unwrap());
    client.send_with(&file_request(1), &[file.as_fd()]);
    assert_eq!(client.error().0, ErrorCode::NotSteerable);
    println!("\nended: {:?}", client.ended());
    loop {
        std::thread::park();
    }
}

#[test]
fn a_file_that_can_never_be_closed_keeps_neither_clients_nor_a_successor_waiting() {
    let test = "a_file_that_can_never_be_closed_keeps_neither_clients_nor_a_successor_waiting";
    let Some(stage) = stage_for_attackers(test) else { return };
    let path = stage.file("a", 8);
    let Some(silent) = Silent::mount(&stage.directory.join("silent")) else {
        println!("skipped: {test}: there is no FUSE");
        return;
    };
    let service = stage.service(64);
    let mut attacker = attack(&service, "silent", &[&silent.file]);
    let mut lines = std::io::BufReader::new(attacker.stdout.take().unwrap()).lines();
    let ended = lines.find_map(|line| line.unwrap().strip_prefix("ended: ").map(str::to_owned));
    assert_eq!(ended.as_deref(), Some("SlowClient"));
    serves_root_meanwhile("a file that is never closed", &service, &path);
    succeeds(&stage, service, silent, attacker, &path);
}

/// A service of which a thread cannot end, so that neither can it, is not waited for by its successor.
fn succeeds(stage: &Stage, mut service: Running, silent: Silent, mut attacker: Child, path: &Path) {
    service.begin_to_kill();
    let successor = stage.service(64);
    serves_root(&successor, path);
    drop(silent);
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    drop(service);
    serves_root(&successor, path);
    successor.end();
}

/// Has readahead turned off on a file, puts another one under its number that does not answer when it is closed, and
/// withdraws its list: readahead is turned on again then under that number.
pub(super) fn swap(socket: &Path, silent: &Path, path: &Path) {
    let mut client = Client::connect(socket);
    let mut file = std::mem::ManuallyDrop::new(OwnedFd::from(File::open(path).unwrap()));
    let number = u32::try_from(AsRawFd::as_raw_fd(&*file)).unwrap();
    let handle = Handle::new(1).unwrap();
    client.send_with(&Request::File { handle, number }, &[AsFd::as_fd(&*file)]);
    for at in (0..16).step_by(2) {
        client.push(Entry::Disclose { file: handle, range: range(at * BLOCK, BLOCK) });
    }
    client.statistics();
    let silent = std::mem::ManuallyDrop::new(File::open(silent).unwrap());
    for at in (0..4).step_by(2) {
        rustix::io::pread(&*file, &mut [0; 1], at * BLOCK).unwrap();
        // Until it has been seen, and the file found.
        std::thread::sleep(Duration::from_millis(200));
    }
    rustix::io::dup2(&*silent, &mut file).unwrap();
    client.push(Entry::Cancel);
    client.statistics();
    println!("\nswapped: yes");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_file_that_is_put_under_the_number_of_another_one_keeps_nobody_waiting() {
    let test = "a_file_that_is_put_under_the_number_of_another_one_keeps_nobody_waiting";
    let Some(stage) = stage_for_attackers(test) else { return };
    let (path, theirs) = (stage.file("a", 8), stage.file("theirs", 64));
    let Some(silent) = Silent::mount(&stage.directory.join("silent")) else {
        println!("skipped: {test}: there is no FUSE");
        return;
    };
    let service = stage.service(64);
    let mut attacker = attack(&service, "swapping", &[&silent.file, &theirs]);
    let mut lines = std::io::BufReader::new(attacker.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "swapped: yes"));
    serves_root_meanwhile("a file under the number of another one", &service, &path);
    // It is a thread of its broker that cannot end.
    succeeds(&stage, service, silent, attacker, &path);
}

/// Makes closing wait, and then leaves descriptors in as many connections as it can.
pub(super) fn knock(socket: &Path) {
    let (ended, _receiver) = is_put_out(socket);
    assert_eq!(ended, ErrorCode::SlowClient);
    let null = File::open("/dev/null").unwrap();
    let left = (0..KNOCKS).filter(|_| {
        let Ok(stream) = std::os::unix::net::UnixStream::connect(socket) else { return false };
        moves::leaves(&stream, &null)
    });
    println!("\nleft: {}", left.count());
    loop {
        std::thread::park();
    }
}

/// Connections of the attacker that knocks, and descriptors that the service may have open.
const KNOCKS: u32 = 12_000;
const OPEN: u32 = 8192;

#[test]
fn who_is_put_out_cannot_fill_the_table_of_descriptors() {
    let test = "who_is_put_out_cannot_fill_the_table_of_descriptors";
    let Some(stage) = stage_for_attackers(test) else { return };
    let path = stage.file("a", 8);
    let service = stage.service_with_descriptors(64, OPEN);
    let mut attacker = attack(&service, "knocking", &[]);
    let mut lines = std::io::BufReader::new(attacker.stdout.take().unwrap()).lines();
    let left = lines.find_map(|line| line.unwrap().strip_prefix("left: ").map(str::to_owned)).unwrap();
    serves_root_meanwhile("connections that cannot be closed", &service, &path);
    let open = service.open_descriptors();
    println!("left by the attacker: {left}, open: {open}");
    assert!(open < OPEN as usize / 2, "{open}");
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    service.until("it is all closed", |_| service.open_descriptors() < 200);
    serves_root(&service, &path);
    service.end();
}
