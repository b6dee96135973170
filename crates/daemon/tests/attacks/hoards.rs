//! What hostile sessions have the service keep for them: each fills one of its tables as far as that goes, stays for
//! some seconds, and comes again with another one. Which ones, and with which numbers, comes from a seed.
//!
//! Shared by the tests and by `./x bench attacks --sessions N`.

use std::any::Any;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use foretell_protocol::message::Message;
use foretell_protocol::{Entry, Handle, PROTOCOL, Part, Producer, Range, Request};
use foretell_testkit::sockets::lingering;
use foretelld::Limits;

use super::moves::{BLOCK, Random, Scene};
use crate::client::Client;

/// A hoard: its name, and what makes it. It lasts as long as what is given back.
type Hoard = (&'static str, fn(&Scene, &mut Random) -> Box<dyn Any>);

/// All of them.
pub(crate) const HOARDS: [Hoard; 11] = [
    ("full-ring", full_ring),
    ("ring-with-holes", ring_with_holes),
    ("long-list", long_list),
    ("many-ranges", many_ranges),
    ("long-names", long_names),
    ("parked", parked),
    ("half-messages", half_messages),
    ("never-read", never_read),
    ("reconnects", reconnects),
    ("mapped", mapped),
    ("silent", silent),
];

/// Entries of the largest ring.
const LARGEST_RING: u32 = 65_536;
/// Files that one session names.
const FILES: u32 = 128;
/// How long a hoard is kept, at most.
const KEPT_MS: u64 = 4000;

/// Fills tables until this process is killed, from as many sessions as a process may have.
pub(crate) fn play(scene: &Scene, sessions: u64) {
    let play = |at: u64| {
        let mut random = Random(scene.seed * sessions + at);
        let _ = (0..8).map(|_| random.below(2)).count();
        let directory = scene.directory.join(format!("{}-{at}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let own = Scene { socket: scene.socket.clone(), directory, ..*scene };
        loop {
            if UnixStream::connect(&own.socket).is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                // There is no service any more.
                return;
            }
            let (_, fill) = HOARDS[random.below(HOARDS.len() as u64) as usize];
            // Who is put out says so at length, and goes on with another one.
            let kept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fill(&own, &mut random)));
            std::thread::sleep(Duration::from_millis(random.below(KEPT_MS)).max(Duration::from_millis(100)));
            drop(kept);
        }
    };
    std::thread::scope(|scope| {
        (0..sessions).for_each(|at| drop(scope.spawn(move || play(at))));
    });
}

/// What the service may take of memory at most for so many users, beside what it has without them: docs/limits.md. The
/// blocks are those of its budget, the connections those of all users together.
pub(crate) fn most_bytes(limits: &Limits, users: u64, blocks: u64, connections: u64) -> u64 {
    // 16 bytes each, in a queue that has doubled its room.
    let ranges = 2 * 16 * (limits.queues.user as u64).min(limits.queues.all as u64 / users.max(1));
    let listed =
        u64::from(limits.list_blocks_of_user).min(u64::from(limits.list_blocks_in_all) / users.max(1));
    let lists = 36 * listed;
    // Names twice, extents 32 bytes each, and half a kilobyte of a file besides.
    let files = 2 * limits.name_bytes_of_user + 32 * 262_144 + 512 * u64::from(limits.files_of_user);
    // A report of one connection of a user's: its rows, and the text of them.
    let report = 4 * limits.outbox_bytes as u64;
    let of_user = limits.ring_bytes_of_user + ranges + lists + files + report + limits.buffer_bytes_of_user;
    let of_connection = (64 << 10) + (8 << 10);
    users * of_user + connections * of_connection + 78 * blocks
}

fn connected(scene: &Scene, entries: u32) -> Client {
    let mut client = Client::silent(&scene.socket);
    client.hello_with(entries);
    let _ = client.reply();
    client
}

fn hole(scene: &Scene, name: &str, blocks: u64) -> PathBuf {
    let path = scene.directory.join(name);
    File::create(&path).unwrap().set_len(blocks * BLOCK).unwrap();
    path
}

fn single(random: &mut Random, blocks: u64) -> Range {
    Range::new(random.below(blocks) * BLOCK, BLOCK).unwrap()
}

/// As much as there is room for, said at once.
fn push_all(client: &mut Client, entries: impl Iterator<Item = Entry>) {
    let Some(ring) = &mut client.ring else { return };
    for entry in entries {
        if !ring.push(&entry, 0) {
            break;
        }
    }
    if ring.publish() {
        client.send(&Request::Wake);
    }
}

/// The largest ring, full all the time.
fn full_ring(scene: &Scene, random: &mut Random) -> Box<dyn Any> {
    let mut client = connected(scene, LARGEST_RING);
    let file = client.name_path(1, &hole(scene, "ring", scene.blocks));
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(50) {
        let priority = random.below(8) as i32;
        push_all(
            &mut client,
            std::iter::repeat_n(Entry::SetPriority { file, priority }, LARGEST_RING as usize),
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    Box::new(client)
}

/// The largest ring, of which nothing is there before the service reads it.
fn ring_with_holes(scene: &Scene, _: &mut Random) -> Box<dyn Any> {
    let mut client = Client::silent(&scene.socket);
    let (ring, memory) = Producer::create(LARGEST_RING).unwrap();
    let hello = Request::Hello { protocol: PROTOCOL, ring_entries: Some(LARGEST_RING) };
    client.send_with(&hello, &[memory.as_fd()]);
    let _ = client.reply();
    client.ring = Some(ring);
    Box::new(client)
}

/// A list as long as may be, of more than the cache holds.
fn long_list(scene: &Scene, _: &mut Random) -> Box<dyn Any> {
    let mut client = connected(scene, 64);
    let file = client.name_path(1, &hole(scene, "list", 1 << 18));
    push_all(&mut client, std::iter::repeat_n(Entry::DiscloseFile { file }, 64));
    let _ = client.statistics();
    Box::new(client)
}

/// Ranges that wait for room in the list.
fn many_ranges(scene: &Scene, random: &mut Random) -> Box<dyn Any> {
    let mut client = connected(scene, 4096);
    let file = client.name_path(1, &hole(scene, "ranges", 1 << 18));
    for _ in 0..32 {
        let entries: Vec<Entry> =
            (0..4096).map(|_| Entry::Disclose { file, range: single(random, 1 << 18) }).collect();
        push_all(&mut client, entries.into_iter());
        let _ = client.statistics();
    }
    Box::new(client)
}

/// Files whose paths are as long as can be.
fn long_names(scene: &Scene, _: &mut Random) -> Box<dyn Any> {
    let mut directory = scene.directory.clone();
    for _ in 0..14 {
        directory.push("n".repeat(250));
    }
    std::fs::create_dir_all(&directory).unwrap();
    let mut client = connected(scene, 64);
    for number in 1..=FILES {
        let path = directory.join(number.to_string());
        File::create(&path).unwrap().set_len(BLOCK).unwrap();
        let _ = std::iter::from_fn(|| client.reply_at_once()).count();
        client.name_path(number, &path);
    }
    Box::new(client)
}

/// Descriptors with the beginning of a message, some of which are not closed at once.
fn parked(scene: &Scene, random: &mut Random) -> Box<dyn Any> {
    let mut client = connected(scene, 64);
    let null = File::open("/dev/null").unwrap();
    let (sender, receiver) = lingering();
    let descriptors: Vec<BorrowedFd<'_>> = (0..64).map(|_| null.as_fd()).collect();
    let descriptors = if random.below(8) == 0 { vec![sender.as_fd()] } else { descriptors };
    let mut bytes = Vec::new();
    Request::File { handle: Handle::new(1).unwrap(), number: 0 }.encode(&mut bytes);
    client.send_bytes(&bytes[..bytes.len() - 1], &descriptors);
    Box::new((client, receiver))
}

/// Messages of which the end does not come.
fn half_messages(scene: &Scene, _: &mut Random) -> Box<dyn Any> {
    let client = || {
        let mut client = Client::silent(&scene.socket);
        client.send(&Request::Hello { protocol: PROTOCOL, ring_entries: None });
        let mut bytes = Vec::new();
        Request::Run(Part { more: true, text: "x".repeat(60_000) }).encode(&mut bytes);
        client.send_bytes(&bytes[..bytes.len() - 1], &[]);
        client
    };
    Box::new([(); 2].map(|()| client()))
}

/// Answers that nobody reads.
fn never_read(scene: &Scene, _: &mut Random) -> Box<dyn Any> {
    let mut client = connected(scene, 64);
    for number in 1..=FILES {
        let path = hole(scene, &format!("unread{number}"), 1);
        client.name_path(number, &path);
    }
    for _ in 0..8 {
        client.send(&Request::Status(Part { more: false, text: String::new() }));
    }
    Box::new(client)
}

/// Comes and goes.
fn reconnects(scene: &Scene, _: &mut Random) -> Box<dyn Any> {
    let path = hole(scene, "reconnects", 64);
    for _ in 0..32 {
        let mut client = connected(scene, 4096);
        let file = client.name_path(1, &path);
        push_all(&mut client, std::iter::once(Entry::DiscloseFile { file }));
    }
    Box::new(())
}

/// A program that runs, and whose pages are given up again and again.
fn mapped(scene: &Scene, random: &mut Random) -> Box<dyn Any> {
    let path = scene.directory.join(format!("mapped{}", random.below(1 << 30)));
    foretell_testkit::programs::copy("/bin/sh", &path);
    let mut client = connected(scene, 4096);
    let file = client.name_path(1, &path);
    let _ = client.statistics();
    let program = Command::new(&path).args(["-c", "read word"]).stdin(Stdio::piped()).spawn().unwrap();
    let program = Program(program, path);
    for _ in 0..64 {
        let done = |random: &mut Random| Entry::DoneWith { file, range: single(random, 16) };
        let entries: Vec<Entry> = (0..64).map(|_| done(random)).collect();
        push_all(&mut client, entries.into_iter());
    }
    Box::new((client, program))
}

/// A program that waits for a word, and its file.
struct Program(Child, PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(&self.1);
    }
}

/// A connection on which nothing is said.
fn silent(scene: &Scene, _: &mut Random) -> Box<dyn Any> {
    Box::new(Client::silent(&scene.socket))
}
