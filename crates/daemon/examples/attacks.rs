//! How long an honest client waits for an answer while another user makes the service work: `./x bench attacks`.
//!
//! Starts a service as root, an honest client as one user, and attackers as another one, each a process of its own.
//! The honest client asks for its statistics again and again; how long each answer took is what counts. Every move of
//! the attack suite is played for some seconds, by one user, then in variations: with other numbers by several users at a time, and
//! in bursts. Then mixtures of moves are that come from a seed. The same is measured
//! with no attacker at all: what a machine does to anybody who wakes up is in all of the figures but `own ms`, the longest
//! answer less what the client and the service's loop waited for a processor. With `--sessions` so many
//! sessions of four users fill the service's tables at the same time, and what counts is its memory before, at most, and
//! when all have gone: the most against docs/limits.md and the unit's `MemoryMax`.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

mod actors;
#[path = "../tests/service/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../tests/attacks/hoards.rs"]
mod hoards;
#[path = "../tests/attacks/moves.rs"]
mod moves;
#[path = "../tests/attacks/sendings.rs"]
mod sendings;

use foretell_pagecache::{CLASSES_US, Piece, ROUNDS, Work};
use foretell_protocol::{Part, Reply, Request};
use foretelld::Snapshot;
use rustix::process::{Pid, Signal, kill_process};

use actors::{Actors, HONEST, STRANGER};
use client::Client;
use moves::{BLOCK, MOVES, Random, Scene};

/// Time between two questions of the honest client.
const PAUSE: Duration = Duration::from_millis(2);
/// Time in which attackers get under way.
const UNDER_WAY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["as-service", socket, blocks] => actors::serve(Path::new(socket), blocks.parse().unwrap(), BLOCK),
        ["as-attacker", name, socket, directory, blocks, seed] => {
            let scene = Scene {
                socket: socket.into(),
                directory: directory.into(),
                blocks: blocks.parse().unwrap(),
                seed: seed.parse().unwrap(),
            };
            match *name {
                HOARDS => {
                    // A thousand that want the processors are another attack, which the kernel's scheduler answers.
                    let _ = rustix::process::nice(19);
                    hoards::play(&scene, SESSIONS_OF_PROCESS);
                }
                name => moves::play(name, &scene),
            }
        }
        ["as-honest", socket, milliseconds, service] => {
            ask(Path::new(socket), Duration::from_millis(milliseconds.parse().unwrap()), service);
        }
        _ => return bench(&words),
    }
    ExitCode::SUCCESS
}

/// `--seconds N --variations N --mixtures N --blocks N --sessions N --only NAME --json FILE`.
struct Wanted {
    seconds: u64,
    /// Of each move.
    variations: u64,
    mixtures: u64,
    blocks: u64,
    /// So many sessions at a time, in place of moves and mixtures; 0 for those.
    sessions: u64,
    only: Option<String>,
    json: Option<PathBuf>,
}

fn wanted(words: &[&str]) -> Option<Wanted> {
    let mut wanted = Wanted {
        seconds: 5,
        variations: 2,
        mixtures: 20,
        blocks: 1 << 17,
        sessions: 0,
        only: None,
        json: None,
    };
    for pair in words.chunks(2) {
        match *pair {
            ["--seconds", n] => wanted.seconds = n.parse().ok().filter(|n| (1..=600).contains(n))?,
            ["--variations", n] => wanted.variations = n.parse().ok()?,
            ["--mixtures", n] => wanted.mixtures = n.parse().ok()?,
            ["--blocks", n] => wanted.blocks = n.parse().ok().filter(|n| (64..=1 << 18).contains(n))?,
            ["--sessions", n] => wanted.sessions = n.parse().ok().filter(|n| (1..=1024).contains(n))?,
            ["--only", name] => wanted.only = Some(name.to_owned()),
            ["--json", file] => wanted.json = Some(file.into()),
            _ => return None,
        }
    }
    Some(wanted)
}

/// Sessions of one process, as many as it may have (`sessions-of-process` of docs/limits.md).
const SESSIONS_OF_PROCESS: u64 = 4;
/// In place of a move: each session of a process fills tables of the service.
const HOARDS: &str = "hoards";
/// Users among whom such sessions are divided.
const USERS: [u32; 4] = [STRANGER, 65_532, 65_531, 65_530];
/// The service has given back what it held when it has no more than so much beside what it had: what its allocator
/// cannot give back.
const LEFT_KIB: u64 = 8 << 10;

/// Asks again and again; prints how long each answer took, in microseconds, and how much of that neither this process
/// nor the service's loop was kept off the processor by others.
fn ask(socket: &Path, time: Duration, service: &str) {
    let mut client = Client::connect(socket);
    let loop_of_service = format!("/proc/{service}/schedstat");
    let kept_off = || kept_off("/proc/thread-self/schedstat") + kept_off(&loop_of_service);
    let start = Instant::now();
    let mut all = Vec::new();
    while start.elapsed() < time {
        let before = kept_off();
        let asked = Instant::now();
        let _ = client.statistics();
        let took = asked.elapsed();
        let own = took.saturating_sub(kept_off().saturating_sub(before));
        all.push(format!("{},{}", took.as_micros(), own.as_micros()));
        std::thread::sleep(PAUSE);
    }
    println!("{}", all.join(" "));
}

/// How long a thread has been ready to run without a processor: the second number.
fn kept_off(path: &str) -> Duration {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let number = text.split(' ').nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(number.unwrap_or(0))
}

/// What an honest client saw.
struct Seen {
    answers: usize,
    median_ms: f64,
    most_99_ms: f64,
    worst_ms: f64,
    /// The same without what the honest client and the service's loop waited for a processor.
    worst_own_ms: f64,
    /// The service's when the honest client began, at most, and when all had gone.
    memory_kib: (u64, u64, u64),
    /// What the loop did that took longest at a time.
    longest: Vec<Work>,
    /// The longest round of the loop.
    round: Vec<Piece>,
}

/// A move as it is played.
#[derive(Clone, Copy)]
struct Played {
    name: &'static str,
    /// Of its files.
    blocks: u64,
    seed: u64,
    user: u32,
    /// Not all the time, but in bursts.
    in_bursts: bool,
}

/// A move in one of its variations: by several users with other numbers, every other time in bursts.
fn varied(name: &'static str, blocks: u64, variation: u64) -> Vec<Played> {
    let mut random = Random(variation << 20);
    let _ = (0..8).map(|_| random.below(2)).count();
    let play = |user: &u32| Played {
        name,
        blocks: (blocks >> random.below(4)).max(64),
        seed: moves::PLAIN + 1 + random.below(1 << 20),
        user: *user,
        in_bursts: variation.is_multiple_of(2),
    };
    USERS[..3].iter().map(play).collect()
}

struct Bench {
    actors: Actors,
    wanted: Wanted,
}

impl Bench {
    /// Plays some moves at a time against a fresh service.
    fn play(&self, moves: &[Played]) -> Seen {
        let path = self.actors.socket().display().to_string();
        let service = self.actors.service(self.wanted.blocks);
        let start_attacker = |&Played { name, blocks, seed, user, .. }: &Played| {
            let directory = self.actors.directory_of(user).display().to_string();
            let words = ["as-attacker", name, &path, &directory, &blocks.to_string(), &seed.to_string()];
            self.actors.start(&words, Some(user), Stdio::null(), Stdio::null())
        };
        let mut attackers: Vec<Child> = moves.iter().map(start_attacker).collect();
        std::thread::sleep(UNDER_WAY);
        let milliseconds = (self.wanted.seconds * 1000).to_string();
        let pid = service.id().to_string();
        let words = ["as-honest", path.as_str(), &milliseconds, &pid];
        let mut honest = self.actors.start(&words, Some(HONEST), Stdio::null(), Stdio::piped());
        let at_start = anonymous_kib(service.id());
        let mut most = at_start;
        let mut random = Random(self.wanted.seconds);
        while honest.try_wait().unwrap().is_none() {
            for (attacker, play) in attackers.iter_mut().zip(moves) {
                if attacker.try_wait().unwrap().is_some() {
                    *attacker = start_attacker(play);
                }
                if play.in_bursts {
                    let pid = Pid::from_child(attacker);
                    let signal = [Signal::STOP, Signal::CONT][random.below(2) as usize];
                    kill_process(pid, signal).unwrap();
                }
            }
            most = most.max(anonymous_kib(service.id()));
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = honest.wait_with_output().unwrap();
        assert!(output.status.success(), "the honest client was not served");
        let (longest, round) = longest(&self.actors.socket());
        for mut attacker in attackers {
            attacker.kill().unwrap();
            attacker.wait().unwrap();
        }
        let memory = (at_start, most, settled_kib(service.id()));
        assert!(actors::end(service).success(), "the service has failed");
        for play in moves {
            let _ = std::fs::remove_dir_all(self.actors.directory_of(play.user));
        }
        seen(&String::from_utf8(output.stdout).unwrap(), memory, longest, round)
    }
}

impl Bench {
    /// Has many sessions of several users fill the service's tables for a while.
    fn fill(&self) -> ExitCode {
        let processes = self.wanted.sessions.div_ceil(SESSIONS_OF_PROCESS);
        let path = self.actors.socket().display().to_string();
        let service = self.actors.service(self.wanted.blocks);
        let start_attacker = |&number: &u64| {
            let user = USERS[(number % USERS.len() as u64) as usize];
            let directory = self.actors.directory_of(user).display().to_string();
            let (blocks, seed) = ((self.wanted.blocks >> 8).max(64).to_string(), number.to_string());
            let words = ["as-attacker", HOARDS, &path, &directory, &blocks, &seed];
            self.actors.start(&words, Some(user), Stdio::null(), Stdio::null())
        };
        let start = Instant::now();
        let before = anonymous_kib(service.id());
        let mut attackers = Attackers((0..processes).map(|n| (n, start_attacker(&n))).collect());
        let (mut most, mut sessions, mut works, mut round) = (before, 0, Vec::new(), Vec::new());
        while start.elapsed().as_secs() < self.wanted.seconds {
            for (number, attacker) in &mut attackers.0 {
                if attacker.try_wait().unwrap().is_some() {
                    *attacker = start_attacker(number);
                }
            }
            most = most.max(anonymous_kib(service.id()));
            std::thread::sleep(Duration::from_millis(100));
            if (start.elapsed().as_millis() / 100).is_multiple_of(50) {
                let snapshot = snapshot_of(&self.actors.socket());
                sessions = sessions.max(snapshot.sessions_open);
                (works, round) = (snapshot.cache.works, snapshot.cache.longest_round);
            }
        }
        drop(attackers);
        // A thousand sessions take some seconds to end, and what they had goes some seconds later.
        let looks = (0..6).map(|_| settled_kib(service.id()));
        let after = looks.min().unwrap_or(0);
        let bound = hoards::most_bytes(
            &foretelld::Limits::default(),
            USERS.len() as u64,
            self.wanted.blocks,
            processes * SESSIONS_OF_PROCESS,
        ) >> 10;
        let granted = memory_max_kib();
        println!("sessions: {} wanted, {sessions} at a time seen", processes * SESSIONS_OF_PROCESS);
        let mib = |kib: u64| kib as f64 / 1024.0;
        println!(
            "MiB: {:.1} before, {:.1} at most, {:.1} after; at most by docs/limits.md {:.1}, by the unit {:.1}",
            mib(before),
            mib(most),
            mib(after),
            mib(before + bound),
            mib(granted)
        );
        let longest = works.iter().find(|work| work.name == ROUNDS);
        let longest_ms = longest.map_or(0.0, |work| work.longest_s * 1000.0);
        println!("longest round: {longest_ms:.1} ms: {}", told(&round));
        let is_served = actors::end(service).success();
        let is_kept = most <= (before + bound).min(granted) && after <= before + LEFT_KIB;
        if let Some(path) = &self.wanted.json {
            let result = serde_json::json!({
                "sessions": processes * SESSIONS_OF_PROCESS, "seconds": self.wanted.seconds,
                "users": USERS.len(), "memory_mib_before": mib(before), "memory_mib_most": mib(most),
                "memory_mib_after": mib(after), "memory_mib_bound": mib(before + bound),
            });
            std::fs::write(path, format!("{result:#}\n")).unwrap();
        }
        if is_served && is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// They end with the measurement, however that ends.
struct Attackers(Vec<(u64, Child)>);

impl Drop for Attackers {
    fn drop(&mut self) {
        for (_, attacker) in &mut self.0 {
            let _ = attacker.kill();
            let _ = attacker.wait();
        }
    }
}

/// What the unit grants the service.
fn memory_max_kib() -> u64 {
    let unit = include_str!("../../../packaging/foretelld.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("MemoryMax="));
    line.and_then(|text| text.strip_suffix('G')?.parse::<u64>().ok()).map_or(u64::MAX, |gib| gib << 20)
}

/// Memory of a process that no file on a disk stands behind, its clients' rings included, in KiB (`RssAnon` and
/// `RssShmem`, proc_pid_status(5)).
fn anonymous_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let number = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    number("RssAnon:").unwrap_or(0) + number("RssShmem:").unwrap_or(0)
}

/// The same when everybody has gone: the least within some seconds.
fn settled_kib(pid: u32) -> u64 {
    let looks = (0..50).map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        anonymous_kib(pid)
    });
    looks.min().unwrap_or(0)
}

/// The kinds of work of the service's loop, those first of which a piece took longest; and its longest round.
fn longest(socket: &Path) -> (Vec<Work>, Vec<Piece>) {
    let cache = snapshot_of(socket).cache;
    let mut works = cache.works;
    works.sort_by(|a, b| b.longest_s.total_cmp(&a.longest_s));
    (works, cache.longest_round)
}

/// The longest pieces of a round, in milliseconds.
fn told(round: &[Piece]) -> String {
    let pieces = round.iter().take(6).filter(|piece| piece.took_s >= 0.0001).map(|piece| {
        format!("{} {:.1} (processor {:.1})", piece.name, piece.took_s * 1000.0, piece.cpu_s * 1000.0)
    });
    pieces.collect::<Vec<_>>().join(", ")
}

/// What the service tells root.
fn snapshot_of(socket: &Path) -> Snapshot {
    let mut command = Client::command(socket);
    command.send(&Request::Status(Part { more: false, text: String::new() }));
    let mut text = String::new();
    while let Some(Reply::Status(part)) = command.reply() {
        text.push_str(&part.text);
        if !part.more {
            break;
        }
    }
    serde_json::from_str(&text).unwrap_or_default()
}

fn seen(text: &str, memory_kib: (u64, u64, u64), longest: Vec<Work>, round: Vec<Piece>) -> Seen {
    let pairs = text.split_ascii_whitespace().map(|pair| pair.split_once(',').unwrap());
    let (mut all, own): (Vec<u64>, Vec<u64>) =
        pairs.map(|(all, own)| (all.parse::<u64>().unwrap(), own.parse::<u64>().unwrap())).unzip();
    all.sort_unstable();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    Seen {
        answers: all.len(),
        median_ms: at(0.5),
        most_99_ms: at(0.99),
        worst_ms: at(1.0),
        worst_own_ms: own.into_iter().max().unwrap_or(0) as f64 / 1000.0,
        memory_kib,
        longest,
        round,
    }
}

fn bench(words: &[&str]) -> ExitCode {
    let Some(wanted) = wanted(words) else {
        eprintln!(
            "error: give --seconds N, --variations N, --mixtures N, --blocks N, --sessions N, --only NAME, --json FILE"
        );
        return ExitCode::from(2);
    };
    let actors = match Actors::new() {
        Ok(actors) => actors,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let bench = Bench { actors, wanted };
    let blocks = bench.wanted.blocks;
    let mut rounds: Vec<(String, Vec<Played>)> = vec![("quiet".to_owned(), Vec::new())];
    let plain = |name| Played { name, blocks, seed: moves::PLAIN, user: STRANGER, in_bursts: false };
    for (name, _) in MOVES {
        rounds.push((name.to_owned(), vec![plain(name)]));
        let variation = |n| (format!("{name}, variation {n}"), varied(name, blocks, n));
        rounds.extend((1..=bench.wanted.variations).map(variation));
    }
    for seed in 0..bench.wanted.mixtures {
        let mut random = Random(seed + 1);
        let _ = (0..8).map(|_| random.below(2)).count();
        let moves: Vec<Played> = (0..3 + random.below(3))
            .map(|_| {
                let (name, _) = MOVES[random.below(MOVES.len() as u64) as usize];
                let blocks = (blocks >> random.below(4)).max(64);
                Played { blocks, seed: random.below(1 << 20), ..plain(name) }
            })
            .collect();
        let names: Vec<&str> = moves.iter().map(|played| played.name).collect();
        rounds.push((format!("{seed}: {}", names.join(", ")), moves));
    }
    if bench.wanted.sessions > 0 {
        return bench.fill();
    }
    if let Some(only) = &bench.wanted.only {
        rounds.retain(|(name, _)| name.starts_with(only.as_str()));
    }
    println!(
        "{:>8} {:>9} {:>9} {:>9} {:>9} {:>20}  attack",
        "answers", "median ms", "99% ms", "worst ms", "own ms", "MiB before,most,after"
    );
    let mut rows = Vec::new();
    for (name, moves) in &rounds {
        let Seen { answers, median_ms, most_99_ms, worst_ms, worst_own_ms, memory_kib, longest, round } =
            bench.play(moves);
        let (before, most, after) = memory_kib;
        let [before, most, after] = [before, most, after].map(|kib| kib as f64 / 1024.0);
        let memory = format!("{before:.1} {most:.1} {after:.1}");
        println!(
            "{answers:>8} {median_ms:>9.2} {most_99_ms:>9.2} {worst_ms:>9.2} {worst_own_ms:>9.2} {memory:>20}  {name}"
        );
        let pieces = longest.iter().take(4).map(|work| {
            let ms = work.longest_s * 1000.0;
            let long = work.pieces
                - work.classes[..CLASSES_US.iter().take_while(|us| **us <= 2000).count()].iter().sum::<u64>();
            let cpu = work.longest_cpu_s * 1000.0;
            format!("{} {ms:.1} ms (processor {cpu:.1}; {long} of {} above 2)", work.name, work.pieces)
        });
        println!("{:60}{}", "", pieces.collect::<Vec<_>>().join(", "));
        println!("{:60}longest round: {}", "", told(&round));
        rows.push(serde_json::json!({
            "attack": name, "answers": answers, "median_ms": median_ms,
            "most_99_ms": most_99_ms, "worst_ms": worst_ms, "worst_own_ms": worst_own_ms,
            "longest_round_ms": longest.iter().find(|work| work.name == ROUNDS).map(|work| work.longest_s * 1000.0),
            "memory_mib_before": before, "memory_mib_most": most, "memory_mib_after": after,
        }));
    }
    if let Some(path) = &bench.wanted.json {
        let (seconds, blocks) = (bench.wanted.seconds, bench.wanted.blocks);
        let result = serde_json::json!({ "seconds": seconds, "blocks": blocks, "rows": rows });
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, format!("{result:#}\n")).unwrap();
        std::fs::rename(temporary, path).unwrap();
    }
    ExitCode::SUCCESS
}
