//! ReadN beside a foolish Read300, through the service: `./x bench readn`.
//!
//! ReadN reads a file in groups of N blocks, each group five times. Beside it runs a Read300 that asks for MRU,
//! which is the worst that it can do. Under LRU-SP a placeholder makes the foolish one pay for its own mistakes;
//! under LRU-S, without placeholders, its neighbour pays (Cao, Felten, Li 1994, section 6.1, table 1). Budget 819
//! blocks, as there.
//!
//! Both are processes of their own with the client library. They take turns on a virtual clock: 10 and 15 units of
//! computing a block, 40 more and the disk for itself when the block is not cached, which each reader finds out
//! by asking for it without waiting (`RWF_NOWAIT`). So the order of references is the same as in the policy's own
//! test of this table, on the real page cache.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use foretell_client::{Client, Fallback, Policy};
use foretell_pagecache::{Allocation, Options};
use foretelld::{Configuration, Service};

const BLOCK: u64 = 8192;
const BUDGET_BLOCKS: u64 = 819;
const FILE_BLOCKS: u64 = 1176;
/// Of Read300, which runs for longer.
const OTHER_BLOCKS: u64 = 8 * FILE_BLOCKS;
const PASSES: u64 = 5;
const COMPUTE: [u64; 2] = [10, 15];
const FETCH: u64 = 40;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["as-service", socket, allocation] => serve(socket.into(), allocation),
        ["as-reader", socket, file, policy] => read(socket.into(), Path::new(file), policy),
        [] => return compare(None),
        ["--json", path] => return compare(Some(Path::new(path))),
        _ => {
            eprintln!("error: give nothing, or --json FILE");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn serve(socket: PathBuf, allocation: &str) {
    let allocation = if allocation == "lru-s" { Allocation::LruS } else { Allocation::LruSp };
    let options = Options { allocation, ..Options::new(BUDGET_BLOCKS * BLOCK) };
    let service = Service::open(Configuration::new(socket, options)).unwrap();
    service.stop().on_signals().unwrap();
    println!("serving");
    service.run().unwrap();
}

/// Reads the block that each line names, and says whether it was cached.
fn read(socket: PathBuf, path: &Path, policy: &str) {
    let file = File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    let client = Client::with_options(foretell_client::Options { socket, fallback: Fallback::Nothing });
    assert!(client.is_connected());
    // Naming the file puts it under control; priority 0 is what it has anyway.
    client.set_priority(&file, 0).unwrap();
    if policy == "mru" {
        client.set_policy(0, Policy::Mru).unwrap();
    }
    // The service has heard all of it when it has taken the entries.
    while client.stats().statistics.entries_taken == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    println!("ready");
    let mut buffer = [0; BLOCK as usize];
    for line in std::io::stdin().lines() {
        let offset = line.unwrap().parse::<u64>().unwrap() * BLOCK;
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        let into = &mut [std::io::IoSliceMut::new(&mut buffer)];
        let cached = rustix::io::preadv2(&file, into, offset, flags) == Ok(BLOCK as usize);
        if !cached {
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut buffer, offset).unwrap();
        }
        println!("{}", u8::from(cached));
    }
}

/// A process that is driven line by line.
struct Driven {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Driven {
    fn start(words: &[&std::ffi::OsStr], greeting: &str) -> Driven {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut driven = Driven { input, output: BufReader::new(child.stdout.take().unwrap()), child };
        assert_eq!(driven.line(), greeting);
        driven
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The references of ReadN: groups of N blocks, each five times.
fn read_n(n: u64, blocks: u64) -> impl Iterator<Item = u64> {
    let first = (0..blocks).step_by(n as usize);
    first.flat_map(move |first| (0..PASSES).flat_map(move |_| first..(first + n).min(blocks)))
}

/// Fetches of ReadN beside a Read300 under a policy.
fn fetches(directory: &Path, n: u64, allocation: &str, policy: &str) -> u64 {
    let socket = directory.join("s.sock");
    let mut service =
        Driven::start(&["as-service".as_ref(), socket.as_ref(), allocation.as_ref()], "serving");
    let start = |name: &str, blocks: u64, policy: &str| {
        let path = directory.join(name);
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![1; (blocks * BLOCK) as usize]).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        Driven::start(&["as-reader".as_ref(), socket.as_ref(), path.as_ref(), policy.as_ref()], "ready")
    };
    let mut readers = [start("n", FILE_BLOCKS, "lru"), start("300", OTHER_BLOCKS, policy)];
    let mut orders: [Box<dyn Iterator<Item = u64>>; 2] =
        [Box::new(read_n(n, FILE_BLOCKS)), Box::new(read_n(300, OTHER_BLOCKS))];
    let (mut ready_at, mut disk_free_at, mut fetches) = ([0, 0], 0, 0);
    loop {
        let next = usize::from(ready_at[0] > ready_at[1]);
        let Some(block) = orders[next].next() else { break };
        writeln!(readers[next].input, "{block}").unwrap();
        if readers[next].line() == "0" {
            disk_free_at = disk_free_at.max(ready_at[next]) + FETCH;
            ready_at[next] = disk_free_at;
            fetches += u64::from(next == 0);
        }
        ready_at[next] += COMPUTE[next];
    }
    drop(readers);
    let pid = rustix::process::Pid::from_child(&service.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let _ = service.output.read_to_end(&mut Vec::new());
    fetches
}

fn compare(json: Option<&Path>) -> ExitCode {
    if let Some(why) = foretell_pagecache::doctor::missing_for_run() {
        eprintln!("error: {why}");
        return ExitCode::from(2);
    }
    let directory = tempfile::Builder::new().prefix("foretell-readn").tempdir_in("/var/tmp").unwrap();
    println!(
        "{:>6} {:>12} {:>12} {:>12}   fetches of ReadN beside a Read300 that is",
        "N", "oblivious", "protected", "unprotected"
    );
    println!("{:>6} {:>12} {:>12} {:>12}", "", "LRU-SP", "MRU, LRU-SP", "MRU, LRU-S");
    let mut rows = Vec::new();
    for n in [390, 400, 490, 500] {
        let arm = |allocation: &str, policy: &str| fetches(directory.path(), n, allocation, policy);
        let [oblivious, protected, unprotected] =
            [arm("lru-sp", "lru"), arm("lru-sp", "mru"), arm("lru-s", "mru")];
        println!("{n:>6} {oblivious:>12} {protected:>12} {unprotected:>12}");
        rows.push(serde_json::json!({
            "n": n, "oblivious": oblivious, "protected": protected, "unprotected": unprotected,
        }));
    }
    println!("published: 1172, 1181, 1176, 1481 / 1170, 1170, 1199, 1580 / 1300, 1538, 1465, 2294");
    if let Some(path) = json {
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, format!("{:#}\n", serde_json::json!({ "readn": rows }))).unwrap();
        std::fs::rename(temporary, path).unwrap();
    }
    ExitCode::SUCCESS
}
