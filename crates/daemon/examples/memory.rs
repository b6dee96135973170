//! What the service's memory is for: `./x bench memory`.
//!
//! A program under the service reads a file (a hole, so that no disk takes part) up to several sizes, in pieces
//! of one block, so that it has a pool with all its blocks in it. After each size the service's memory is looked
//! at: what it takes before anything is cached, and what each further block adds. At most [`BYTES`] may be added.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use foretell_client::{Client, Fallback};
use foretell_pagecache::Options;
use foretell_protocol::Statistics;
use foretelld::{Configuration, Service};

const BLOCK: u64 = 8192;
/// Sizes at which the memory is looked at, up to 3 GiB of cache.
const SIZES: [u64; 4] = [32_768, 131_072, 262_144, 393_216];
/// What a cached block may cost.
const BYTES: f64 = 64.0;
/// The service has not taken in what was read for so long: it does not work.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["as-service", socket] => serve(socket.into()),
        [] => return measure(None),
        ["--json", file] => return measure(Some(file.into())),
        _ => {
            eprintln!("error: give nothing, or --json FILE");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn serve(socket: PathBuf) {
    let options = Options::new((SIZES[SIZES.len() - 1] + 1024) * BLOCK);
    let service = Service::open(Configuration::new(socket, options)).unwrap();
    service.stop().on_signals().unwrap();
    println!("serving");
    service.run().unwrap();
}

fn measure(json: Option<PathBuf>) -> ExitCode {
    if let Some(why) = foretell_pagecache::doctor::missing_for_run() {
        eprintln!("error: {why}");
        return ExitCode::from(2);
    }
    let directory = tempfile::Builder::new().prefix("foretell-memory").tempdir_in("/var/tmp").unwrap();
    let (socket, path) = (directory.path().join("s.sock"), directory.path().join("hole"));
    File::create(&path).unwrap().set_len(SIZES[SIZES.len() - 1] * BLOCK).unwrap();
    let mut service = start(&socket);
    let before = Memory::of(service.0.id());

    let client = Client::with_options(foretell_client::Options { socket, fallback: Fallback::Nothing });
    let file = File::open(&path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    client.set_priority(&file, 0).unwrap();
    until_seen(&client, "its file", |seen| seen.entries_taken >= 1);
    let (mut read, mut buffer) = (0, [0; BLOCK as usize]);
    let mut rows = Vec::new();
    for blocks in SIZES {
        while read < blocks {
            // What is read in a moment fits into the ring of observations; nothing is to be lost here.
            let until = blocks.min(read + 4096);
            for block in read..until {
                file.read_exact_at(&mut buffer, block * BLOCK).unwrap();
            }
            read = until;
            until_seen(&client, "what was read", |seen| seen.references >= read);
        }
        // The kernel may have dropped some, if it was short of memory.
        rows.push((client.stats().statistics.owned, Memory::of(service.0.id())));
    }
    let last = rows[rows.len() - 1];
    let bytes = last.1.own_kib.saturating_sub(before.own_kib) as f64 * 1024.0 / last.0 as f64;

    println!("   blocks   VmRSS KiB   of its own KiB   bytes a block since the row before");
    println!("{:9} {:11} {:16}", 0, before.resident_kib, before.own_kib);
    let mut earlier = (0, before);
    for (blocks, memory) in &rows {
        let added_kib = memory.own_kib as f64 - earlier.1.own_kib as f64;
        let added = added_kib * 1024.0 / (blocks - earlier.0) as f64;
        println!("{blocks:9} {:11} {:16}   {added:.1}", memory.resident_kib, memory.own_kib);
        earlier = (*blocks, *memory);
    }
    println!("{bytes:.1} bytes a cached block ({} blocks of {BLOCK} bytes)", last.0);
    println!(
        "The constant: {} KiB of its own, and mapped: the ring of observations, twice in a row,",
        before.own_kib
    );
    println!("and the program's own pages: {} KiB.", before.resident_kib - before.own_kib);

    let process = rustix::process::Pid::from_child(&service.0);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    let ended = service.0.wait().unwrap().success();
    if let Some(path) = json {
        let row = |blocks: u64, memory: &Memory| serde_json::json!({ "blocks": blocks, "resident_kib": memory.resident_kib, "own_kib": memory.own_kib });
        let all: Vec<_> =
            std::iter::once(row(0, &before)).chain(rows.iter().map(|(b, m)| row(*b, m))).collect();
        let result = serde_json::json!({ "bytes_a_cached_block": bytes, "sizes": all });
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, format!("{result:#}\n")).unwrap();
        std::fs::rename(temporary, path).unwrap();
    }
    let good = ended && bytes < BYTES;
    println!("{}", if good { "all as it must be" } else { "NOT as it must be" });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The service; killed when something goes wrong.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(socket: &std::path::Path) -> Running {
    let program = std::env::current_exe().unwrap();
    let mut service =
        Command::new(&program).arg("as-service").arg(socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 8];
    service.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    Running(service)
}

/// Waits until the service shows that it has taken something in.
fn until_seen(client: &Client, what: &str, is_seen: impl Fn(&Statistics) -> bool) {
    let start = Instant::now();
    while !is_seen(&client.stats().statistics) {
        assert!(start.elapsed() < PATIENCE, "not seen: {what}: {:?}", client.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Memory of a process, in KiB.
#[derive(Debug, Clone, Copy)]
struct Memory {
    /// All that is mapped and there (`VmRSS`): what it shares with others, and what is mapped twice, too.
    resident_kib: u64,
    /// What it has allocated (`RssAnon`).
    own_kib: u64,
}

impl Memory {
    fn of(process: u32) -> Memory {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let of = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
        };
        Memory { resident_kib: of("VmRSS:"), own_kib: of("RssAnon:") }
    }
}
