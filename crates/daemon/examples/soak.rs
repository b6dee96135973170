//! A thousand sessions, ten million disclosed entries, clients killed at random: `./x bench soak`.
//!
//! Starts a service and many clients, each a process of its own with the real client library. Every client
//! discloses lists of a thousand ranges, reads the first few of them and checks what it read, says that it is
//! done with some, and withdraws the rest. All the time some are killed and replaced. At the end all are
//! killed, and the service must be as it was at the start: no session, no file, no block, no more memory.
//!
//! What it checks: nothing read was wrong, no client stood still, no call took long, nothing is left behind.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use foretell_client::{Client, Fallback, Policy};
use foretell_pagecache::Options;
use foretell_protocol::message::Message;
use foretell_protocol::{PROTOCOL, Part, Parts, Reader, Reply, Request, socket};
use foretelld::{Configuration, Service, Snapshot};

const BLOCK: u64 = 8192;
const FILES: u64 = 16;
/// 32 MiB each: together twice the budget.
const FILE_BLOCKS: u64 = 4096;
const BUDGET_BYTES: u64 = 256 << 20;
/// Ranges of one list.
const LIST: usize = 1000;
/// Of these so many are read.
const READ: usize = 20;
/// A client that has said nothing for so long stands still.
const STUCK: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["as-service", socket] => serve(socket.into()),
        ["as-client", id, socket, directory, pause_ms] => {
            talk(id.parse().unwrap(), Path::new(socket), Path::new(directory), pause_ms.parse().unwrap());
        }
        _ => return soak(&words),
    }
    ExitCode::SUCCESS
}

/// `--sessions N --entries N --seconds N --json FILE`.
struct Wanted {
    sessions: usize,
    entries: u64,
    seconds: u64,
    json: Option<PathBuf>,
}

fn wanted(words: &[&str]) -> Option<Wanted> {
    let mut wanted = Wanted { sessions: 1000, entries: 10_000_000, seconds: 120, json: None };
    for pair in words.chunks(2) {
        match *pair {
            ["--sessions", n] => wanted.sessions = n.parse().ok().filter(|n| (1..=4000).contains(n))?,
            ["--entries", n] => wanted.entries = n.parse().ok()?,
            ["--seconds", n] => wanted.seconds = n.parse().ok().filter(|n| (10..=600).contains(n))?,
            ["--json", file] => wanted.json = Some(file.into()),
            _ => return None,
        }
    }
    Some(wanted)
}

// ---- the service ----

fn serve(socket: PathBuf) {
    let options = Options::new(BUDGET_BYTES);
    let service = Service::open(Configuration::new(socket, options)).unwrap();
    service.stop().on_signals().unwrap();
    println!("serving");
    service.run().unwrap();
}

// ---- a client ----

/// Knuth's MMIX generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// What a block begins with.
fn mark(file: u64, block: u64) -> [u8; 8] {
    (file << 32 | block).to_le_bytes()
}

fn talk(id: u64, socket: &Path, directory: &Path, pause_ms: u64) {
    let mut random = Random(id);
    let numbers = [random.below(FILES), random.below(FILES)];
    let files = numbers.map(|number| File::open(directory.join(number.to_string())).unwrap());
    let options = foretell_client::Options { socket: socket.to_owned(), fallback: Fallback::Nothing };
    let client = Client::with_options(options);
    std::thread::sleep(Duration::from_millis(random.below(pause_ms.max(1))));
    let mut buffer = [0; BLOCK as usize];
    loop {
        let list: Vec<(usize, u64, u64)> = (0..LIST)
            .map(|_| (random.below(2) as usize, random.below(FILE_BLOCKS - 4), 1 + random.below(4)))
            .collect();
        let start = Instant::now();
        client.set_policy(1, if random.below(2) == 0 { Policy::Mru } else { Policy::Lru }).unwrap();
        client.set_priority(&files[0], random.below(3) as i32 - 1).unwrap();
        let chunks =
            list.iter().map(|&(file, block, count)| (&files[file], block * BLOCK..(block + count) * BLOCK));
        let disclosed = client.disclose_list(chunks).unwrap() as u64;
        let call_us = start.elapsed().as_micros() as u64;
        let mut wrong = 0_u64;
        for &(file, block, count) in list.iter().take(READ) {
            for block in block..block + count {
                files[file].read_exact_at(&mut buffer, block * BLOCK).unwrap();
                wrong += u64::from(buffer[..8] != mark(numbers[file], block));
            }
            client.done_with(&files[file], block * BLOCK..(block + count) * BLOCK).unwrap();
        }
        client.cancel();
        let connected = u64::from(client.is_connected());
        let mut report = Vec::new();
        for number in [id, disclosed, wrong, call_us, connected] {
            report.extend_from_slice(&number.to_le_bytes());
        }
        // Whole, as it is shorter than what a pipe takes at once.
        if std::io::stdout().write_all(&report).and_then(|()| std::io::stdout().flush()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
}

// ---- the whole ----

/// What the clients have said.
#[derive(Default)]
struct Heard {
    entries: u64,
    lists: u64,
    lists_unconnected: u64,
    wrong: u64,
    longest_call_us: u64,
    last: BTreeMap<u64, Instant>,
}

fn soak(words: &[&str]) -> ExitCode {
    let Some(wanted) = wanted(words) else {
        eprintln!("error: give --sessions N (to 4000), --entries N, --seconds N (10 to 600), --json FILE");
        return ExitCode::from(2);
    };
    if let Some(why) = foretell_pagecache::doctor::missing_for_run() {
        eprintln!("error: {why}");
        return ExitCode::from(2);
    }
    let directory = tempfile::Builder::new().prefix("foretell-soak").tempdir_in("/var/tmp").unwrap();
    make_files(directory.path());
    let socket = directory.path().join("s.sock");
    let program = std::env::current_exe().unwrap();
    let mut service =
        Command::new(&program).arg("as-service").arg(&socket).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 8];
    service.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();

    // All sessions once: tables that have had so many rows keep their size. What grows after that is a leak.
    let mut watch = Watch::new(&socket);
    let first: Vec<Child> = (0..wanted.sessions as u64)
        .map(|id| start_client(&program, id, &socket, directory.path(), 2000, None))
        .collect();
    watch.until(|snapshot| snapshot.sessions_open as usize > wanted.sessions);
    for mut client in first {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    watch.until(|snapshot| snapshot.sessions_open == 1);
    let rss_start = resident_kib(service.id());
    let cpu_start = cpu_s(service.id());

    let (mut output, input) = std::io::pipe().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<[u64; 5]>();
    std::thread::spawn(move || {
        let mut report = [0; 40];
        while output.read_exact(&mut report).is_ok() {
            let number = |at: usize| u64::from_le_bytes(report[at * 8..at * 8 + 8].try_into().unwrap());
            if sender.send(std::array::from_fn(number)).is_err() {
                return;
            }
        }
    });
    let pause_ms = wanted.seconds * 1000 * wanted.sessions as u64 * LIST as u64 / wanted.entries.max(1);
    let mut next_id = 1;
    let mut clients: BTreeMap<u64, Child> = BTreeMap::new();
    let mut heard = Heard::default();
    let mut kills = 0_u64;
    let (mut peak_sessions, mut rss_peak) = (0, rss_start);
    let mut random = Random(1);
    let start = Instant::now();
    let mut last_look = start;
    while start.elapsed() < Duration::from_secs(wanted.seconds) || heard.entries < wanted.entries {
        if start.elapsed() > Duration::from_secs(3 * wanted.seconds + 60) {
            break;
        }
        for _ in 0..20 {
            if clients.len() < wanted.sessions {
                let client =
                    start_client(&program, next_id, &socket, directory.path(), pause_ms, Some(&input));
                heard.last.insert(next_id, Instant::now());
                clients.insert(next_id, client);
                next_id += 1;
            }
        }
        if clients.len() == wanted.sessions {
            // About ten a second are killed, whatever they are doing.
            let victim = *clients.keys().nth(random.below(clients.len() as u64) as usize).unwrap();
            let mut victim_process = clients.remove(&victim).unwrap();
            victim_process.kill().unwrap();
            victim_process.wait().unwrap();
            heard.last.remove(&victim);
            kills += 1;
        }
        while let Ok([id, disclosed, wrong, call_us, connected]) = receiver.try_recv() {
            heard.entries += disclosed;
            heard.lists += 1;
            heard.lists_unconnected += u64::from(connected == 0);
            heard.wrong += wrong;
            heard.longest_call_us = heard.longest_call_us.max(call_us);
            if let Some(last) = heard.last.get_mut(&id) {
                *last = Instant::now();
            }
        }
        if last_look.elapsed() > Duration::from_secs(2) {
            last_look = Instant::now();
            peak_sessions = peak_sessions.max(watch.snapshot().sessions_open.saturating_sub(1));
            rss_peak = rss_peak.max(resident_kib(service.id()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let elapsed = start.elapsed().as_secs_f64();
    let patience = STUCK + Duration::from_millis(2 * pause_ms);
    let stuck = heard.last.values().filter(|last| last.elapsed() > patience).count();
    for (_, mut client) in clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    let left = watch.until(|snapshot| snapshot.sessions_open == 1);
    let rss_end = resident_kib(service.id());
    let cpu = cpu_s(service.id()) - cpu_start;
    let result = serde_json::json!({
        "sessions": wanted.sessions, "sessions_peak": peak_sessions, "elapsed_s": elapsed,
        "entries_disclosed": heard.entries, "lists": heard.lists,
        "lists_unconnected": heard.lists_unconnected, "clients_killed": kills,
        "wrong_answers": heard.wrong, "stuck_clients": stuck,
        "longest_list_call_us": heard.longest_call_us,
        "service_rss_start_kib": rss_start, "service_rss_peak_kib": rss_peak,
        "service_rss_end_kib": rss_end, "service_cpu_s": cpu,
        "sessions_left": left.sessions_open - 1, "files_left": left.cache.files.len(),
        "blocks_left": left.cache.used_blocks, "sessions_opened": left.sessions_opened,
        "sessions_refused": left.sessions_refused,
    });
    println!("{result:#}");
    drop(watch);
    let pid = rustix::process::Pid::from_child(&service);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = service.wait().unwrap();
    if let Some(path) = &wanted.json {
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, format!("{result:#}\n")).unwrap();
        std::fs::rename(temporary, path).unwrap();
    }
    // A twentieth either way is the allocator's business.
    let grown = rss_end.saturating_sub(rss_start);
    let good = ended.success()
        && heard.wrong == 0
        && stuck == 0
        && heard.entries >= wanted.entries
        && (left.sessions_open, left.cache.files.len(), left.cache.used_blocks) == (1, 0, 0)
        && grown <= rss_start / 20;
    println!("{}", if good { "all as it must be" } else { "NOT as it must be" });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn make_files(directory: &Path) {
    for number in 0..FILES {
        let mut file = File::create(directory.join(number.to_string())).unwrap();
        let mut bytes = vec![0; (FILE_BLOCKS * BLOCK) as usize];
        for (block, chunk) in (0..).zip(bytes.chunks_exact_mut(BLOCK as usize)) {
            chunk[..8].copy_from_slice(&mark(number, block));
        }
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
    }
}

fn start_client(
    program: &Path,
    id: u64,
    socket: &Path,
    directory: &Path,
    pause_ms: u64,
    output: Option<&std::io::PipeWriter>,
) -> Child {
    let mut command = Command::new(program);
    command.arg("as-client").arg(id.to_string()).arg(socket).arg(directory).arg(pause_ms.to_string());
    match output {
        Some(output) => command.stdout(output.try_clone().unwrap()),
        None => command.stdout(Stdio::null()),
    };
    command.stdin(Stdio::null()).spawn().unwrap()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

/// Processor time of a process, from the scheduler's own books (nanoseconds a thread).
fn cpu_s(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().filter_map(Result::ok);
    let of = |path: PathBuf| -> Option<f64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    threads.filter_map(|thread| of(thread.path())).sum::<f64>() / 1e9
}

/// Asks the service how it is.
struct Watch {
    socket: std::os::fd::OwnedFd,
    reader: Reader,
}

impl Watch {
    fn new(path: &Path) -> Watch {
        let mut watch = Watch { socket: socket::connect(path).unwrap(), reader: Reader::new() };
        watch.send(&Request::Hello { protocol: PROTOCOL, ring_entries: None });
        assert!(matches!(watch.reply(), Reply::Welcome(_)));
        watch
    }

    fn send(&mut self, request: &Request) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(socket::send(self.socket.as_fd(), &bytes, &[]).unwrap(), bytes.len());
    }

    fn reply(&mut self) -> Reply {
        loop {
            if let Some(frame) = self.reader.next_frame::<Reply>().unwrap() {
                return frame.message;
            }
            self.reader.receive(self.socket.as_fd()).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        self.send(&Request::Status(Part { more: false, text: String::new() }));
        let mut parts = Parts::default();
        loop {
            if let Reply::Status(part) = self.reply()
                && let Some(text) = parts.add(&part).unwrap()
            {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Looks until something is so, a minute at most.
    fn until(&mut self, is_so: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let start = Instant::now();
        loop {
            let snapshot = self.snapshot();
            if is_so(&snapshot) || start.elapsed() > Duration::from_secs(60) {
                return snapshot;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
