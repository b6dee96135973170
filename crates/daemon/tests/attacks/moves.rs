//! What an attacker does to make others wait, one move each: every one of them costs the service time. A move goes on
//! until its process is killed; how it does so, and with which numbers, comes from a seed.
//!
//! Shared by the tests and by `./x bench attacks`.

use std::fs::File;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foretell_protocol::message::Message;
use foretell_protocol::{Entry, Handle, Part, Policy, Range, Request};
use foretell_testkit::sockets::lingering;

use super::sendings;
use crate::client::Client;

/// Bytes of a block.
pub(crate) const BLOCK: u64 = 8192;
/// Entries of the ring of an attacker that fills it.
const RING: u32 = 4096;
/// Files of a move that has many.
const MANY: u32 = 2000;
/// With this seed a move has these numbers, and others with other ones.
pub(crate) const PLAIN: u64 = 1;

/// A move: its name, and what it does.
pub(crate) type Move = (&'static str, fn(&Scene));

/// All moves.
pub(crate) const MOVES: [Move; 30] = [
    ("temporary-listed", temporary_listed),
    ("temporary-cached", temporary_cached),
    ("flush", flush),
    ("priorities", priorities),
    ("policies", policies),
    ("looks", looks),
    ("pieces", pieces),
    ("lists", lists),
    ("whole-lists", whole_lists),
    ("status", status),
    ("names", names),
    ("endings", endings),
    ("extents", extents),
    ("connections", connections),
    ("bells", bells),
    ("reads", reads),
    ("truncate", truncate),
    ("forks", forks),
    ("sweep", sweep),
    ("jumps", jumps),
    ("unlinked", unlinked),
    ("lingering", linger),
    ("knocking", knock),
    ("rows", rows),
    ("writing", writing),
    ("kinds", sendings::kinds),
    ("parked", sendings::parked),
    ("swapped", sendings::swapped),
    ("rings", sendings::rings),
    ("mappings", sendings::mappings),
];

/// Where an attack takes place.
pub(crate) struct Scene {
    /// Of the service.
    pub(crate) socket: PathBuf,
    /// The attacker's own, on a disk.
    pub(crate) directory: PathBuf,
    /// Blocks of its large files.
    pub(crate) blocks: u64,
    pub(crate) seed: u64,
}

/// Knuth's MMIX generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// Does a move until this process is killed.
pub(crate) fn play(name: &str, scene: &Scene) {
    let (_, play) = MOVES.iter().find(|(known, _)| *known == name).unwrap();
    play(scene);
}

impl Scene {
    pub(crate) fn random(&self) -> Random {
        Random(self.seed)
    }

    /// A number of the seed's own.
    fn varied(&self, plain: u32, other: impl FnOnce(&mut Random) -> u64) -> u32 {
        if self.seed == PLAIN {
            return plain;
        }
        let mut random = Random(self.seed);
        // Of seeds that are near each other the first numbers are, too.
        let _ = (0..8).map(|_| random.below(2)).count();
        u32::try_from(other(&mut random)).unwrap_or(plain)
    }

    fn many(&self) -> u32 {
        self.varied(MANY, |random| 100 + random.below(u64::from(MANY) - 100))
    }

    pub(crate) fn client(&self) -> Client {
        let mut client = Client::silent(&self.socket);
        client.hello_with(self.varied(RING, |random| 64 << random.below(11)));
        let _ = client.reply();
        client
    }

    /// A file that is one great hole: reading it fills the cache, and takes no disk.
    pub(crate) fn hole(&self, name: &str, blocks: u64) -> PathBuf {
        let path = self.directory.join(format!("{name}-{}", std::process::id()));
        File::create(&path).unwrap().set_len(blocks * BLOCK).unwrap();
        path
    }
}

fn whole(blocks: u64) -> Range {
    Range::new(0, blocks * BLOCK).unwrap()
}

/// Reads a file, so that it is cached and its blocks are the reader's.
fn read_all(path: &Path, blocks: u64) {
    let file = File::open(path).unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < blocks * BLOCK {
        let Ok(bytes) = file.read_at(&mut buffer, at) else { return };
        if bytes == 0 {
            return;
        }
        at += bytes as u64;
    }
}

/// Names a file by a handle, whatever the service says.
fn name(client: &mut Client, number: u32, path: &Path) -> Handle {
    let _ = std::iter::from_fn(|| client.reply_at_once()).count();
    client.name_path(number, path)
}

fn forget(client: &mut Client, handle: Handle) {
    client.send(&Request::Forget { handle });
}

/// Temporary priorities over a long list of which nothing need be cached.
fn temporary_listed(scene: &Scene) {
    let path = scene.hole("listed", scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    client.push(Entry::DiscloseFile { file });
    for priority in (0..).map(|n| n % 32) {
        client.push(Entry::SetTemporaryPriority { file, range: whole(scene.blocks), priority });
    }
}

/// The same over what is cached and the attacker's own.
fn temporary_cached(scene: &Scene) {
    let path = scene.hole("cached", scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    client.push(Entry::SetPriority { file, priority: 1 });
    let _ = client.statistics();
    read_all(&path, scene.blocks);
    for priority in (0..).map(|n| n % 32) {
        client.push(Entry::SetTemporaryPriority { file, range: whole(scene.blocks), priority });
    }
}

/// Reads much and gives it all up at once.
fn flush(scene: &Scene) {
    let path = scene.hole("flush", scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    loop {
        read_all(&path, scene.blocks);
        client.push(Entry::DoneWith { file, range: whole(scene.blocks) });
        let _ = client.statistics();
    }
}

/// Long-term priorities to and fro, of a large file and of a small one beside it.
fn priorities(scene: &Scene) {
    let (large, small) = (scene.hole("large", scene.blocks), scene.hole("small", 1));
    let mut client = scene.client();
    let files = [name(&mut client, 1, &large), name(&mut client, 2, &small)];
    client.push(Entry::SetPriority { file: files[0], priority: 1 });
    let _ = client.statistics();
    read_all(&large, scene.blocks);
    read_all(&small, 1);
    let mut random = scene.random();
    loop {
        let file = files[random.below(2) as usize];
        client.push(Entry::SetPriority { file, priority: random.below(4) as i32 });
    }
}

/// The policy of a level with all blocks in it, changed again and again.
fn policies(scene: &Scene) {
    let path = scene.hole("policies", scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    client.push(Entry::SetPriority { file, priority: 1 });
    let _ = client.statistics();
    read_all(&path, scene.blocks);
    let all = [Policy::Lirs, Policy::Mru, Policy::S3Fifo, Policy::Lru, Policy::Sieve, Policy::Adaptive];
    for policy in all.iter().cycle() {
        client.push(Entry::SetPolicy { priority: 1, policy: *policy });
    }
}

/// Names a file of which much is cached, lets go of it, names it again.
fn looks(scene: &Scene) {
    let path = scene.hole("looks", scene.blocks);
    read_all(&path, scene.blocks);
    let mut client = scene.client();
    let mut last = Instant::now();
    loop {
        let file = name(&mut client, 1, &path);
        forget(&mut client, file);
        if last.elapsed() > Duration::from_millis(50) {
            let _ = client.statistics();
            // What it has let go of is dropped from the cache, and read again by nobody that is known.
            let file = File::open(&path).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            read_all(&path, scene.blocks);
            last = Instant::now();
        }
    }
}

/// A list of many small pieces, from several connections.
fn pieces(scene: &Scene) {
    let path = scene.hole("pieces", scene.blocks);
    let mut random = scene.random();
    let mut clients: Vec<(Client, Handle)> = (0..4)
        .map(|_| {
            let mut client = scene.client();
            let file = name(&mut client, 1, &path);
            (client, file)
        })
        .collect();
    loop {
        for (client, file) in &mut clients {
            for _ in 0..256 {
                let start = random.below(scene.blocks) * BLOCK;
                client.push(Entry::Disclose { file: *file, range: Range::new(start, BLOCK).unwrap() });
            }
            if random.below(64) == 0 {
                client.push(Entry::Cancel);
            }
        }
    }
}

/// A long list of single blocks, withdrawn when it is there.
fn lists(scene: &Scene) {
    let path = scene.hole("lists", scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    let mut random = scene.random();
    loop {
        for _ in 0..32_768 {
            let start = random.below(scene.blocks) * BLOCK;
            client.push(Entry::Disclose { file, range: Range::new(start, BLOCK).unwrap() });
        }
        client.push(Entry::Cancel);
    }
}

/// Whole files, withdrawn when the list is full.
fn whole_lists(scene: &Scene) {
    let path = scene.hole("whole", scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    loop {
        (0..4).for_each(|_| client.push(Entry::DiscloseFile { file }));
        let start = Instant::now();
        while client.statistics().disclosed_ahead < scene.blocks && start.elapsed().as_millis() < 500 {}
        client.push(Entry::Cancel);
    }
}

/// Asks for everything as often as that is answered, with many files to be told of.
fn status(scene: &Scene) {
    let paths: Vec<PathBuf> = (0..scene.many()).map(|n| scene.hole(&format!("status{n}"), 1)).collect();
    let mut holder = scene.client();
    for (number, path) in (1..).zip(&paths) {
        name(&mut holder, number, path);
    }
    loop {
        let mut client = scene.client();
        // Until it is put out for saying too much.
        for _ in 0..32 {
            client.send(&Request::Status(Part { more: false, text: String::new() }));
        }
        while client.reply().is_some_and(|reply| !matches!(reply, foretell_protocol::Reply::Ended { .. })) {}
    }
}

/// Names many files and lets go of them.
fn names(scene: &Scene) {
    let paths: Vec<PathBuf> = (0..scene.many()).map(|n| scene.hole(&format!("names{n}"), 4)).collect();
    paths.iter().for_each(|path| read_all(path, 4));
    let mut client = scene.client();
    loop {
        let handles: Vec<Handle> =
            (1..).zip(&paths).map(|(number, path)| name(&mut client, number, path)).collect();
        handles.into_iter().for_each(|handle| forget(&mut client, handle));
        if client.statistics().entries_taken == u64::MAX {
            return;
        }
    }
}

/// Names many files, orders and reads them, and goes away with all of it.
fn endings(scene: &Scene) {
    let paths: Vec<PathBuf> = (0..scene.many()).map(|n| scene.hole(&format!("endings{n}"), 16)).collect();
    loop {
        let mut client = scene.client();
        for (number, path) in (1..).zip(&paths) {
            let file = name(&mut client, number, path);
            client.push(Entry::SetPriority { file, priority: (number % 8) as i32 });
            client.push(Entry::DiscloseFile { file });
        }
        let _ = client.statistics();
        paths.iter().for_each(|path| read_all(path, 16));
    }
}

/// A file in as many pieces as can be, named again and again.
fn extents(scene: &Scene) {
    let path = scene.directory.join(format!("extents-{}", std::process::id()));
    let file = File::create(&path).unwrap();
    // Without data, which would have to be written first. Where it cannot be done the file is a hole.
    for piece in 0..scene.blocks.min(8192) {
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), piece * 16_384, 4096);
    }
    let mut client = scene.client();
    loop {
        for _ in 0..32 {
            let file = name(&mut client, 1, &path);
            forget(&mut client, file);
        }
        let _ = client.statistics();
    }
}

/// Connections that come, greet, and go.
fn connections(scene: &Scene) {
    let mut kept = std::collections::VecDeque::new();
    loop {
        let mut client = Client::silent(&scene.socket);
        client.hello();
        kept.push_back(client);
        if kept.len() > 3 {
            kept.pop_front();
        }
    }
}

/// Messages that say nothing, as fast as they may come.
fn bells(scene: &Scene) {
    let mut bytes = Vec::new();
    (0..256).for_each(|_| Request::Wake.encode(&mut bytes));
    loop {
        let mut client = scene.client();
        let start = Instant::now();
        while start.elapsed().as_millis() < 200 {
            client.send_bytes(&bytes, &[]);
            if let Some(foretell_protocol::Reply::Ended { .. }) = client.reply_at_once() {
                break;
            }
        }
    }
}

/// Reads as fast as can be what is cached, in any order: many records of what it does.
fn reads(scene: &Scene) {
    let path = scene.hole("reads", scene.blocks);
    let mut client = scene.client();
    name(&mut client, 1, &path);
    let _ = client.statistics();
    let mut random = scene.random();
    let file = File::open(&path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let mut buffer = [0; 1];
    loop {
        let _ = file.read_at(&mut buffer, random.below(scene.blocks) * BLOCK);
    }
}

/// Reads a file and cuts it off.
fn truncate(scene: &Scene) {
    let path = scene.hole("truncate", scene.blocks);
    let mut client = scene.client();
    name(&mut client, 1, &path);
    let file = File::options().write(true).open(&path).unwrap();
    loop {
        let _ = client.statistics();
        read_all(&path, scene.blocks);
        file.set_len(0).unwrap();
        file.set_len(scene.blocks * BLOCK).unwrap();
    }
}

/// Processes that come and go, each of them seen.
fn forks(scene: &Scene) {
    let mut client = scene.client();
    let _ = client.statistics();
    loop {
        let children: Vec<_> =
            (0..16).filter_map(|_| std::process::Command::new("/bin/true").spawn().ok()).collect();
        for mut child in children {
            let _ = child.wait();
        }
    }
}

/// Reads far more than there is room for, by a list that says so.
fn sweep(scene: &Scene) {
    let path = scene.hole("sweep", 4 * scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    client.push(Entry::SetPolicy { priority: 0, policy: Policy::Mru });
    loop {
        client.push(Entry::DiscloseFile { file });
        read_all(&path, 4 * scene.blocks);
    }
}

/// Discloses all of a file and reads it here and there.
fn jumps(scene: &Scene) {
    let path = scene.hole("jumps", scene.blocks);
    let mut client = scene.client();
    let file = name(&mut client, 1, &path);
    let mut random = scene.random();
    let descriptor = File::open(&path).unwrap();
    let mut buffer = vec![0; BLOCK as usize];
    loop {
        client.push(Entry::DiscloseFile { file });
        let _ = client.statistics();
        for _ in 0..2000 {
            let start = random.below(scene.blocks);
            for block in start..start + 8 {
                let _ = descriptor.read_at(&mut buffer, block * BLOCK);
            }
        }
    }
}

/// Reads a file, takes its name away, and lets go of it with all that is cached.
fn unlinked(scene: &Scene) {
    for round in 0.. {
        let path = scene.hole(&format!("unlinked{round}"), scene.blocks);
        let mut client = scene.client();
        let file = name(&mut client, 1, &path);
        let _ = client.statistics();
        read_all(&path, scene.blocks);
        let _ = client.statistics();
        let kept = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        forget(&mut client, file);
        let _ = client.statistics();
        drop(kept);
    }
}

pub(crate) fn file_request(number: u32) -> Request {
    Request::File { handle: Handle::new(number).unwrap(), number: 0 }
}

/// Sends a socket that takes long to close as a file; it does so until the one that is given back is closed.
pub(crate) fn send_lingering(client: &mut Client) -> TcpStream {
    let (sender, receiver) = lingering();
    // Its own copy has to go before the service closes the other one, which is the last then.
    let mut bytes = Vec::new();
    file_request(1).encode(&mut bytes);
    client.send_bytes(&bytes[..1], &[sender.as_fd()]);
    drop(sender);
    client.send_bytes(&bytes[1..], &[]);
    receiver
}

/// Leaves a descriptor in a connection; says whether it could.
pub(crate) fn leaves(stream: &UnixStream, descriptor: &File) -> bool {
    matches!(foretell_protocol::socket::send(stream.as_fd(), b"x", &[descriptor.as_fd()]), Ok(1))
}

/// Descriptors that take long to close, from as many connections as are let in.
fn linger(scene: &Scene) {
    let mut receivers = Vec::new();
    loop {
        let mut client = scene.client();
        if client.ring.is_none() || receivers.len() > scene.many() as usize {
            receivers.clear();
        }
        receivers.push(send_lingering(&mut client));
        let _ = client.reply();
    }
}

/// Is put out, and then leaves a descriptor in every connection that it tries.
fn knock(scene: &Scene) {
    let mut client = scene.client();
    let _receiver = send_lingering(&mut client);
    let null = File::open("/dev/null").unwrap();
    loop {
        if let Ok(stream) = UnixStream::connect(&scene.socket)
            && !leaves(&stream, &null)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Names as many files as one process may, and asks for all rows about them.
fn rows(scene: &Scene) {
    let mut clients: Vec<Client> = (0..3).map(|_| scene.client()).collect();
    for client in &mut clients {
        for number in 1..=2 * scene.many() {
            let path = scene.hole(&format!("{}-{number}", client.socket.as_raw_fd()), 1);
            name(client, number, &path);
        }
    }
    let mut command = Client::command(&scene.socket);
    loop {
        command.send(&Request::Status(Part { more: false, text: String::new() }));
        let _ = command.reply();
    }
}

/// Names a file, again and again, while much is written to it with one call: its inode is locked meanwhile.
fn writing(scene: &Scene) {
    let paths: Vec<PathBuf> = (0..2).map(|n| scene.hole(&format!("writing{n}"), 1)).collect();
    let files: Vec<File> = paths.iter().map(|path| File::options().write(true).open(path).unwrap()).collect();
    let bytes = vec![1; (scene.blocks * BLOCK) as usize];
    std::thread::scope(|scope| {
        for file in &files {
            scope.spawn(|| {
                loop {
                    let _ = file.write_at(&bytes, 0);
                }
            });
        }
        let mut client = scene.client();
        loop {
            for (number, path) in (1..).zip(&paths) {
                let file = name(&mut client, number, path);
                forget(&mut client, file);
            }
            // No more messages than may be sent.
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}
