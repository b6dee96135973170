//! Moves of the suite ([`super::moves`]) that hand the service something: descriptors of all kinds, parked and swapped ones,
//! rings that are not there, and mappings.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use foretell_protocol::message::Message;
use foretell_protocol::{Entry, Handle, PROTOCOL, Producer, Range, Reply, Request};
use foretell_testkit::map_in_pieces;
use foretell_testkit::sockets::lingering;
use rustix::fs::{Mode, OFlags};

use super::moves::{BLOCK, Random, Scene, file_request};
use crate::client::Client;

/// Descriptors that one message may have.
const WITH_ONE: u64 = 64;
/// Mappings of a process, a few less than it may have (`vm.max_map_count`).
const MAPPINGS: u64 = 60_000;

/// Something that can be open, of any kind.
fn any_kind(scene: &Scene, random: &mut Random) -> OwnedFd {
    let open = |path: &str, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
    let kind = match random.below(13) {
        0 => open("/dev/null", OFlags::RDWR),
        1 => open("/dev/zero", OFlags::RDONLY),
        2 => open("/proc/self/maps", OFlags::RDONLY),
        3 => open("/", OFlags::DIRECTORY),
        4 => open("/etc/passwd", OFlags::PATH),
        5 => rustix::pipe::pipe().map(|(reader, _)| reader),
        6 => rustix::pipe::pipe().map(|(_, writer)| writer),
        7 => rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC),
        8 => rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC),
        9 => rustix::fs::memfd_create("foretell-any", rustix::fs::MemfdFlags::CLOEXEC),
        // One with a connection of the service's own under way in it.
        10 => {
            let (one, other) = UnixStream::pair().unwrap();
            if let Ok(own) = UnixStream::connect(&scene.socket) {
                let _ = foretell_protocol::socket::send(one.as_fd(), b"x", &[own.as_fd()]);
            }
            Ok(other.into())
        }
        11 => {
            let path = scene.hole(&format!("gone{}", random.below(8)), 1);
            let file = File::open(&path).map(OwnedFd::from);
            std::fs::remove_file(&path).unwrap();
            file.map_err(|_| rustix::io::Errno::NOENT)
        }
        _ => {
            let path = scene.hole("writable", 1);
            Ok(File::options().write(true).open(path).unwrap().into())
        }
    };
    kind.unwrap_or_else(|_| File::open("/dev/null").unwrap().into())
}

/// All kinds of descriptors in place of files.
pub(super) fn kinds(scene: &Scene) {
    let mut random = scene.random();
    loop {
        let mut client = scene.client();
        for number in 1..=256 {
            client.name(number, any_kind(scene, &mut random));
        }
        // Put out, or answered.
        while client.reply_at_once().is_some() {}
    }
}

/// Messages without an end, each with as many descriptors as may come with one.
pub(super) fn parked(scene: &Scene) {
    let mut random = scene.random();
    let mut bytes = Vec::new();
    file_request(1).encode(&mut bytes);
    loop {
        let mut clients: Vec<Client> = (0..4).map(|_| Client::silent(&scene.socket)).collect();
        for client in &mut clients {
            let many: Vec<OwnedFd> =
                (0..1 + random.below(WITH_ONE)).map(|_| any_kind(scene, &mut random)).collect();
            let many: Vec<BorrowedFd<'_>> = many.iter().map(AsFd::as_fd).collect();
            client.send_bytes(&bytes[..1 + random.below(bytes.len() as u64 - 1) as usize], &many);
        }
        std::thread::sleep(Duration::from_millis(random.below(1500)));
    }
}

/// Has readahead turned off on a file, puts another descriptor under its number, which is slow to close, and withdraws its list.
pub(super) fn swapped(scene: &Scene) {
    let path = scene.hole("swapped", scene.blocks);
    let mut random = scene.random();
    let mut receivers = Vec::new();
    loop {
        let mut client = scene.client();
        let mut file = OwnedFd::from(File::open(&path).unwrap());
        let handle = Handle::new(1).unwrap();
        let number = file.as_raw_fd().cast_unsigned();
        client.send_with(&Request::File { handle, number }, &[file.as_fd()]);
        for at in (0..16).step_by(2) {
            client.push(Entry::Disclose { file: handle, range: Range::new(at * BLOCK, BLOCK).unwrap() });
        }
        let _ = client.statistics();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50 + random.below(200)) {
            let _ = rustix::io::pread(&file, &mut [0; 1], random.below(8) * 2 * BLOCK);
        }
        let (sender, receiver) = lingering();
        rustix::io::dup2(&sender, &mut file).unwrap();
        client.push(Entry::Cancel);
        let _ = client.statistics();
        receivers.push((sender, receiver));
        if receivers.len() > 64 {
            // It lets go of them without waiting: who reads has closed.
            receivers.drain(..).for_each(|(sender, receiver)| {
                drop(receiver);
                drop(sender);
            });
        }
    }
}

/// Rings of which nothing is there, as many and as large as are taken.
pub(super) fn rings(scene: &Scene) {
    let mut random = scene.random();
    let mut kept = std::collections::VecDeque::new();
    loop {
        let entries = 64 << random.below(11);
        let (ring, memory) = Producer::create(entries).unwrap();
        let mut client = Client::silent(&scene.socket);
        client.send_with(
            &Request::Hello { protocol: PROTOCOL, ring_entries: Some(entries) },
            &[memory.as_fd()],
        );
        let is_taken = matches!(client.reply(), Some(Reply::Welcome(_)));
        client.ring = Some(ring);
        if is_taken {
            kept.push_back(client);
        }
        if !is_taken || kept.len() > 3 {
            kept.pop_front();
        }
    }
}

/// Has a file's blocks mapped one by one, so often as may be, and gives them up again and again.
pub(super) fn mappings(scene: &Scene) {
    let path = scene.hole("mappings", scene.blocks);
    let mut client = scene.client();
    let file = client.name_path(1, &path);
    let _ = client.statistics();
    let open = File::open(&path).unwrap();
    map_in_pieces(&open, BLOCK, scene.blocks.min(MAPPINGS));
    let mut random = scene.random();
    let mut byte = [0; 1];
    loop {
        for _ in 0..64 {
            let block = random.below(scene.blocks);
            let _ = rustix::io::pread(&open, &mut byte, block * BLOCK);
            let range = Range::new(block * BLOCK, BLOCK).unwrap();
            client.push(Entry::DoneWith { file, range });
        }
        let _ = client.statistics();
    }
}
