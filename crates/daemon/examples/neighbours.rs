//! What a neighbour can take from an honest program by what it says: `./x bench neighbours`.
//!
//! LRU-SP promises that nobody suffers from a neighbour's foolishness (Cao, Felten, Li 1994, section 4): a program has no
//! more misses beside one that orders its blocks badly than beside one that says nothing and reads the same. Two users
//! read through one service by turns: the honest one at random within half of the budget, the other one a file twice
//! as large as the budget, again and again. What the second one says besides is what the rows differ in. Reads, turns
//! and seeds are the same in all of them, so the honest one's misses can be compared.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ExitCode, Stdio};

use foretell_protocol::{Entry, Handle, Policy, Range};

mod actors;
#[path = "../tests/service/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../tests/attacks/moves.rs"]
#[allow(dead_code)]
mod moves;
#[path = "../tests/attacks/sendings.rs"]
mod sendings;

use actors::{Actors, HONEST, STRANGER};
use client::Client;
use moves::{BLOCK, Random};

/// Blocks that one reads before it is the other's turn.
const TURN: u64 = 64;
/// Of what the honest one would miss anyway so much more is within the promise, in percent.
const PROMISED: f64 = 2.0;

/// What a neighbour says in a turn of its.
type Speech = fn(&mut Neighbour);

const SPEECHES: [(&str, Speech); 7] = [
    ("nothing", |_| {}),
    ("most recently used first", |n| {
        n.once(|n| n.client.push(Entry::SetPolicy { priority: 0, policy: Policy::Mru }))
    }),
    ("priorities up and down", |n| {
        let priority = n.random.below(5) as i32 - 2;
        n.client.push(Entry::SetPriority { file: n.file, priority });
    }),
    ("temporary priorities", |n| {
        for _ in 0..8 {
            let (range, priority) = (n.somewhere(), n.random.below(9) as i32 - 4);
            n.client.push(Entry::SetTemporaryPriority { file: n.file, range, priority });
        }
    }),
    ("done with what it reads next", |n| {
        let range = n.somewhere();
        n.client.push(Entry::DoneWith { file: n.file, range });
    }),
    ("lists of what it does not read", |n| {
        for _ in 0..32 {
            let range = n.somewhere();
            n.client.push(Entry::Disclose { file: n.file, range });
        }
        if n.random.below(8) == 0 {
            n.client.push(Entry::Cancel);
        }
    }),
    ("all of it", |n| {
        let at = 1 + n.random.below(5) as usize;
        SPEECHES[at].1(n);
    }),
];

struct Neighbour {
    client: Client,
    file: Handle,
    blocks: u64,
    random: Random,
    has_spoken: bool,
}

impl Neighbour {
    fn once(&mut self, speech: impl FnOnce(&mut Neighbour)) {
        if !std::mem::replace(&mut self.has_spoken, true) {
            speech(self);
        }
    }

    fn somewhere(&mut self) -> Range {
        let start = self.random.below(self.blocks);
        let most = (self.blocks - start).min(256);
        Range::new(start * BLOCK, (1 + self.random.below(most)) * BLOCK).unwrap()
    }
}

/// Reads a turn for each byte that comes, and answers it with one; at the end it says how it fared.
fn read(socket: &Path, path: &Path, blocks: u64, speech: Option<&str>) {
    let open = File::open(path).unwrap();
    let mut client = Client::silent(socket);
    client.hello_with(4096);
    let _ = client.reply();
    let file = client.name(1, &open);
    client.statistics();
    let speech = speech.map(|name| SPEECHES.iter().find(|(known, _)| *known == name).unwrap().1);
    let mut this = Neighbour { client, file, blocks, random: Random(7), has_spoken: false };
    let (mut at, mut buffer) = (0, vec![0; BLOCK as usize]);
    let mut order = Random(3);
    while std::io::stdin().read(&mut [0]).unwrap() == 1 {
        if let Some(speech) = speech {
            speech(&mut this);
        }
        for _ in 0..TURN {
            at = if speech.is_some() { (at + 1) % blocks } else { order.below(blocks) };
            open.read_exact_at(&mut buffer, at * BLOCK).unwrap();
        }
        // Until what it said and read is known: the next turn is in the same order in every run.
        this.client.statistics();
        std::io::stdout().write_all(b".").unwrap();
        std::io::stdout().flush().unwrap();
    }
    let told = this.client.statistics();
    println!("{} {}", told.references, told.references - told.hits);
}

/// A file whose pages come from a disk: nothing of it is cached.
fn file(path: &Path, blocks: u64) {
    let mut file = File::create(path).unwrap();
    (0..blocks).for_each(|block| file.write_all(&[block as u8; BLOCK as usize]).unwrap());
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

fn turn(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b".").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
}

/// References and misses of a reader that has no more turns.
fn fared(mut child: Child) -> (u64, u64) {
    drop(child.stdin.take());
    let mut text = String::new();
    child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let mut numbers = text.split_ascii_whitespace().map(|n| n.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let blocks = match words.as_slice() {
        ["as-service", socket, blocks] => {
            actors::serve(Path::new(socket), blocks.parse().unwrap(), BLOCK);
            return ExitCode::SUCCESS;
        }
        ["as-reader", socket, path, blocks, speech @ ..] => {
            read(Path::new(socket), Path::new(path), blocks.parse().unwrap(), speech.first().copied());
            return ExitCode::SUCCESS;
        }
        [] => Some(4096),
        ["--blocks", blocks] => blocks.parse().ok().filter(|blocks| (256..=1 << 17).contains(blocks)),
        _ => None,
    };
    let Some(blocks) = blocks else {
        eprintln!("error: give --blocks N, the budget, 256 to 131072");
        return ExitCode::from(2);
    };
    let actors = match Actors::new() {
        Ok(actors) => actors,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let (own, theirs) = (actors.directory.path().join("own"), actors.directory.path().join("theirs"));
    println!("{:>10} {:>8} {:>8}  a neighbour that says", "references", "misses", "beyond");
    let (mut beside_nothing, mut worst) = (0, f64::MIN);
    for (name, _) in SPEECHES {
        file(&own, blocks / 2);
        file(&theirs, 2 * blocks);
        let service = actors.service(blocks);
        let socket = actors.socket().display().to_string();
        let start = |path: &Path, blocks: u64, user, speech: &[&str]| {
            let (path, blocks) = (path.display().to_string(), blocks.to_string());
            let words = [&["as-reader", &socket, &path, &blocks], speech].concat();
            actors.start(&words, Some(user), Stdio::piped(), Stdio::piped())
        };
        let mut honest = start(&own, blocks / 2, HONEST, &[]);
        let mut neighbour = start(&theirs, 2 * blocks, STRANGER, &[name]);
        for _ in 0..8 * blocks / TURN {
            turn(&mut honest);
            turn(&mut neighbour);
        }
        let (references, misses) = fared(honest);
        let _ = fared(neighbour);
        assert!(actors::end(service).success(), "the service has failed");
        if name == "nothing" {
            beside_nothing = misses;
        }
        let beyond = 100.0 * (misses as f64 / beside_nothing as f64 - 1.0);
        worst = worst.max(beyond);
        println!("{references:>10} {misses:>8} {beyond:>7.1}%  {name}");
    }
    println!("worst {worst:.1}%, promised {PROMISED}%");
    ExitCode::SUCCESS
}
