//! How long an honest client waits for an answer while another user makes the service work: `./x bench attacks`.
//!
//! Starts a service as root, an honest client as one user, and attackers as another one, each a process of its own.
//! The honest client asks for its statistics again and again; how long each answer took is what counts. Every move of
//! the attack suite is played for some seconds, then mixtures of moves that come from a seed. The same is measured
//! with no attacker at all: what a machine does to anybody who wakes up is in all of the figures.

#![allow(clippy::unwrap_used)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use foretell_pagecache::Options;
use foretelld::{Configuration, Confinement, Limits, Service};

#[path = "../tests/service/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../tests/attacks/moves.rs"]
mod moves;

use client::Client;
use moves::{BLOCK, MOVES, Random, Scene};

/// The users `nobody` and, by a number that is nobody's, somebody else.
const ATTACKER: u32 = 65_534;
const HONEST: u32 = 65_533;
/// Time between two questions of the honest client.
const PAUSE: Duration = Duration::from_millis(2);
/// Time in which attackers get under way.
const UNDER_WAY: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["as-service", socket, blocks] => serve(socket.into(), blocks.parse().unwrap()),
        ["as-attacker", name, socket, directory, blocks, seed] => {
            let scene = Scene {
                socket: socket.into(),
                directory: directory.into(),
                blocks: blocks.parse().unwrap(),
                seed: seed.parse().unwrap(),
            };
            moves::play(name, &scene);
        }
        ["as-honest", socket, milliseconds] => {
            ask(Path::new(socket), Duration::from_millis(milliseconds.parse().unwrap()));
        }
        _ => return bench(&words),
    }
    ExitCode::SUCCESS
}

/// `--seconds N --mixtures N --blocks N --only NAME --json FILE`.
struct Wanted {
    seconds: u64,
    mixtures: u64,
    blocks: u64,
    only: Option<String>,
    json: Option<PathBuf>,
}

fn wanted(words: &[&str]) -> Option<Wanted> {
    let mut wanted = Wanted { seconds: 5, mixtures: 20, blocks: 1 << 17, only: None, json: None };
    for pair in words.chunks(2) {
        match *pair {
            ["--seconds", n] => wanted.seconds = n.parse().ok().filter(|n| (1..=600).contains(n))?,
            ["--mixtures", n] => wanted.mixtures = n.parse().ok()?,
            ["--blocks", n] => wanted.blocks = n.parse().ok().filter(|n| (64..=1 << 18).contains(n))?,
            ["--only", name] => wanted.only = Some(name.to_owned()),
            ["--json", file] => wanted.json = Some(file.into()),
            _ => return None,
        }
    }
    Some(wanted)
}

fn serve(socket: PathBuf, blocks: u64) {
    let options = Options::new(blocks * BLOCK);
    let service = Service::open(Configuration {
        socket,
        options,
        limits: Limits::default(),
        confinement: Confinement::Errors,
    })
    .unwrap();
    service.stop().on_signals().unwrap();
    println!("serving");
    service.run().unwrap();
}

/// Asks again and again; prints how long each answer took, in microseconds.
fn ask(socket: &Path, time: Duration) {
    let mut client = Client::connect(socket);
    let start = Instant::now();
    let mut all = Vec::new();
    while start.elapsed() < time {
        let asked = Instant::now();
        let _ = client.statistics();
        all.push(asked.elapsed().as_micros().to_string());
        std::thread::sleep(PAUSE);
    }
    println!("{}", all.join(" "));
}

/// What an honest client saw.
struct Seen {
    answers: usize,
    median_ms: f64,
    most_99_ms: f64,
    worst_ms: f64,
}

/// A move, the blocks of its files, and its seed.
type Played = (&'static str, u64, u64);

struct Bench {
    program: PathBuf,
    directory: PathBuf,
    wanted: Wanted,
}

impl Bench {
    fn start(&self, words: &[&str], user: Option<u32>, output: Stdio) -> Child {
        let mut command = Command::new(&self.program);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        // An attacker that has been put out says so at length.
        let errors = if user == Some(ATTACKER) { Stdio::null() } else { Stdio::inherit() };
        command.args(words).stdin(Stdio::null()).stdout(output).stderr(errors).spawn().unwrap()
    }

    /// Plays some moves at a time against a fresh service.
    fn play(&self, moves: &[Played]) -> Seen {
        let socket = self.directory.join("s.sock");
        let theirs = self.directory.join("theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::chown(&theirs, Some(ATTACKER), Some(ATTACKER)).unwrap();
        let (path, blocks) = (socket.display().to_string(), self.wanted.blocks.to_string());
        let mut service = self.start(&["as-service", &path, &blocks], None, Stdio::piped());
        let mut line = [0; 8];
        std::io::Read::read_exact(service.stdout.as_mut().unwrap(), &mut line).unwrap();
        let start_attacker = |&(name, blocks, seed): &Played| {
            let (directory, blocks) = (theirs.display().to_string(), blocks.to_string());
            let words = ["as-attacker", name, &path, &directory, &blocks, &seed.to_string()];
            self.start(&words, Some(ATTACKER), Stdio::null())
        };
        let mut attackers: Vec<Child> = moves.iter().map(start_attacker).collect();
        std::thread::sleep(UNDER_WAY);
        let milliseconds = (self.wanted.seconds * 1000).to_string();
        let mut honest = self.start(&["as-honest", &path, &milliseconds], Some(HONEST), Stdio::piped());
        while honest.try_wait().unwrap().is_none() {
            for (attacker, play) in attackers.iter_mut().zip(moves) {
                if attacker.try_wait().unwrap().is_some() {
                    *attacker = start_attacker(play);
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = honest.wait_with_output().unwrap();
        assert!(output.status.success(), "the honest client was not served");
        for mut attacker in attackers {
            attacker.kill().unwrap();
            attacker.wait().unwrap();
        }
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&service),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        assert!(service.wait().unwrap().success(), "the service has failed");
        std::fs::remove_dir_all(&theirs).unwrap();
        seen(&String::from_utf8(output.stdout).unwrap())
    }
}

fn seen(text: &str) -> Seen {
    let mut all: Vec<u64> = text.split_ascii_whitespace().map(|n| n.parse().unwrap()).collect();
    all.sort_unstable();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    Seen { answers: all.len(), median_ms: at(0.5), most_99_ms: at(0.99), worst_ms: at(1.0) }
}

fn bench(words: &[&str]) -> ExitCode {
    let Some(wanted) = wanted(words) else {
        eprintln!("error: give --seconds N, --mixtures N, --blocks N, --only NAME, --json FILE");
        return ExitCode::from(2);
    };
    if let Some(why) = foretell_pagecache::doctor::missing_for_run() {
        eprintln!("error: {why}");
        return ExitCode::from(2);
    }
    let directory = tempfile::Builder::new().prefix("foretell-attacks").tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Where it was built nobody else may look, perhaps.
    let program = directory.path().join("attacks");
    std::fs::copy("/proc/self/exe", &program).unwrap();
    let bench = Bench { program, directory: directory.path().to_owned(), wanted };
    let blocks = bench.wanted.blocks;
    let mut rounds: Vec<(String, Vec<Played>)> = vec![("quiet".to_owned(), Vec::new())];
    rounds.extend(MOVES.iter().map(|(name, _)| ((*name).to_owned(), vec![(*name, blocks, 1)])));
    for seed in 0..bench.wanted.mixtures {
        let mut random = Random(seed + 1);
        let _ = (0..8).map(|_| random.below(2)).count();
        let moves: Vec<Played> = (0..3 + random.below(3))
            .map(|_| {
                let (name, _) = MOVES[random.below(MOVES.len() as u64) as usize];
                (name, (blocks >> random.below(4)).max(64), random.below(1 << 20))
            })
            .collect();
        let names: Vec<&str> = moves.iter().map(|(name, ..)| *name).collect();
        rounds.push((format!("{seed}: {}", names.join(", ")), moves));
    }
    if let Some(only) = &bench.wanted.only {
        rounds.retain(|(name, _)| name.starts_with(only.as_str()));
    }
    println!("{:>8} {:>9} {:>9} {:>9}  attack", "answers", "median ms", "99% ms", "worst ms");
    let mut rows = Vec::new();
    for (name, moves) in &rounds {
        let Seen { answers, median_ms, most_99_ms, worst_ms } = bench.play(moves);
        println!("{answers:>8} {median_ms:>9.2} {most_99_ms:>9.2} {worst_ms:>9.2}  {name}");
        rows.push(serde_json::json!({
            "attack": name, "answers": answers, "median_ms": median_ms,
            "most_99_ms": most_99_ms, "worst_ms": worst_ms,
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
