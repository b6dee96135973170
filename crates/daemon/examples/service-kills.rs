//! Kills at random moments, and what they leave behind: `./x bench service-kills`.
//!
//! A service, four clients that read and disclose, and two programs under `foretell run` go on all the time. At moments
//! that come from a seed one of them is killed (SIGKILL): the service, its broker, its guard, a client, or `foretell
//! run` around a program that goes on. What has ended is started anew. Every client and every program checks what it reads,
//! and says at its end that it was right; those that were not killed themselves must have said so. At the very end no
//! process, no socket and no lock may be left.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use std::time::{Duration, Instant};

use foretell_client::{Client, Fallback, Options, Policy};

mod actors;
#[path = "../tests/service/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../tests/attacks/moves.rs"]
#[allow(dead_code)]
mod moves;
#[path = "../tests/attacks/sendings.rs"]
mod sendings;

use actors::{Actors, HONEST};
use moves::{BLOCK, Random};

const FILE_BLOCKS: u64 = 512;
const BUDGET_BLOCKS: u64 = 256;
const CLIENTS: usize = 4;
const RUNS: usize = 2;
/// What a reader says when all was right.
const RIGHT: &[u8] = b"right\n";
/// Longest time between two kills.
const PAUSE: Duration = Duration::from_millis(60);
/// How long what goes on may take to end after the last kill.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads a file twice and checks each block; says at the end whether it was right.
fn read(path: &Path, output: &Path, socket: Option<&Path>) {
    let file = File::open(path).unwrap();
    let client = socket.map(|socket| {
        Client::with_options(Options { socket: socket.to_owned(), fallback: Fallback::Nothing })
    });
    let mut buffer = vec![0; BLOCK as usize];
    for _ in 0..2 {
        if let Some(client) = &client {
            // What cannot be said is no harm.
            let _ = client.set_policy(0, Policy::Mru);
            let _ = client.disclose_range(&file, 0..FILE_BLOCKS * BLOCK);
        }
        for block in 0..FILE_BLOCKS {
            file.read_exact_at(&mut buffer, block * BLOCK).unwrap();
            if buffer.iter().any(|&byte| byte != block as u8) {
                return;
            }
        }
    }
    fs::write(output, RIGHT).unwrap();
}

/// What goes on, and where it says how it was.
struct Going {
    child: Child,
    output: PathBuf,
    /// Its program is to say that all was right: not of one that was killed.
    must_be_right: bool,
}

#[derive(Default, Debug)]
struct Counts {
    kills: [u64; 5],
    right: u64,
    wrong: u64,
}

const VICTIMS: [&str; 5] = ["service", "broker", "guard", "client", "run"];

struct Bench {
    actors: Actors,
    foretell: PathBuf,
    started: u64,
    counts: Counts,
}

impl Bench {
    fn output(&mut self) -> PathBuf {
        self.started += 1;
        self.actors.directory_of(HONEST).join(self.started.to_string())
    }

    fn client(&mut self) -> Going {
        let (output, socket) = (self.output(), self.actors.socket());
        let file = self.actors.directory.path().join("data");
        let words = ["as-reader", &text(&file), &text(&output), &text(&socket)];
        let child = self.actors.start(&words, Some(HONEST), Stdio::null(), Stdio::null());
        Going { child, output, must_be_right: true }
    }

    /// A program under a rule: with the service, or a host of its own.
    fn run(&mut self, by_itself: bool) -> Going {
        let output = self.output();
        let file = self.actors.directory.path().join("data");
        let (rule, budget) = (format!("{}=mru", file.display()), format!("{}K", BUDGET_BLOCKS * 8));
        let mut command = std::process::Command::new(&self.foretell);
        command.args(["run", "--quiet", "--rule", &rule]).env("FORETELL_SOCKET", self.actors.socket());
        if by_itself {
            command.args(["--no-service", "--budget", &budget]);
        }
        command.arg("--").arg(self.actors.program()).args(["as-reader", &text(&file), &text(&output)]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Going { child, output, must_be_right: true }
    }

    /// Takes note of one that has ended; says whether it has.
    fn has_ended(&mut self, going: &mut Going) -> bool {
        if going.child.try_wait().unwrap().is_none() {
            return false;
        }
        if going.must_be_right {
            let right = fs::read(&going.output).is_ok_and(|said| said == RIGHT);
            self.counts.right += u64::from(right);
            self.counts.wrong += u64::from(!right);
        }
        let _ = fs::remove_file(&going.output);
        true
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A child of a process, by its name.
fn helper(of: u32, name: &str) -> Option<rustix::process::Pid> {
    let tasks = fs::read_dir(format!("/proc/{of}/task")).ok()?.flatten();
    let children = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let children = children.collect::<String>();
    let is_it = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let pid = children.split_whitespace().find(is_it)?;
    rustix::process::Pid::from_raw(pid.parse().ok()?)
}

fn kill(pid: rustix::process::Pid) {
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Processes whose program lies in a directory.
fn processes_of(directory: &Path) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let own = std::process::id().to_string();
    let is_of = |path: &PathBuf| {
        !path.ends_with(&own) && fs::read_link(path.join("exe")).is_ok_and(|exe| exe.starts_with(directory))
    };
    let named = all.filter(is_of).map(|path| {
        format!("{} {}", path.display(), fs::read_to_string(path.join("comm")).unwrap_or_default().trim_end())
    });
    named.collect()
}

fn bench(foretell: &Path, kills: u64, seed: u64) -> Result<Counts, String> {
    let actors = Actors::new()?;
    // A copy of its own: what is left of it is found by that.
    let copy = actors.directory.path().join("foretell");
    fs::copy(foretell, &copy).map_err(|error| format!("{}: {error}", foretell.display()))?;
    let mut data = File::create(actors.directory.path().join("data")).unwrap();
    (0..FILE_BLOCKS).for_each(|block| data.write_all(&[block as u8; BLOCK as usize]).unwrap());
    data.sync_all().unwrap();
    let mut bench = Bench { actors, foretell: copy, started: 0, counts: Counts::default() };
    let mut random = Random(seed);
    let mut service = bench.actors.service(BUDGET_BLOCKS);
    let mut going: Vec<Going> = (0..CLIENTS).map(|_| bench.client()).collect();
    going.extend((0..RUNS).map(|at| bench.run(at % 2 == 1)));
    let mut killed = 0;
    while killed < kills {
        std::thread::sleep(PAUSE.mul_f64(random.below(1000) as f64 / 1000.0));
        for (at, one) in going.iter_mut().enumerate() {
            if bench.has_ended(one) {
                *one = if at < CLIENTS { bench.client() } else { bench.run(at % 2 == 1) };
            }
        }
        if service.try_wait().unwrap().is_some() {
            service = bench.actors.service(BUDGET_BLOCKS);
        }
        let victim = random.below(VICTIMS.len() as u64) as usize;
        let pid = match VICTIMS[victim] {
            "service" => Some(rustix::process::Pid::from_child(&service)),
            "client" => {
                let client = &mut going[random.below(CLIENTS as u64) as usize];
                client.must_be_right = false;
                Some(rustix::process::Pid::from_child(&client.child))
            }
            // Its program goes on, and says itself how it was; nobody is told when it ends.
            "run" => {
                let at = CLIENTS + random.below(RUNS as u64) as usize;
                going[at].must_be_right = false;
                Some(rustix::process::Pid::from_child(&going[at].child))
            }
            name => helper(service.id(), &format!("foretell-{name}")),
        };
        if let Some(pid) = pid {
            kill(pid);
            bench.counts.kills[victim] += 1;
            killed += 1;
        }
    }
    let begin = Instant::now();
    while !going.is_empty() && begin.elapsed() < PATIENCE {
        going.retain_mut(|one| !bench.has_ended(one));
        std::thread::sleep(Duration::from_millis(10));
    }
    // It may have been the last that was killed.
    let _ = actors::end(service);
    if !going.is_empty() {
        return Err(format!("{} programs have not ended", going.len()));
    }
    // Those of killed runs still read; a guard takes a moment to see that it is alone.
    let directory = bench.actors.directory.path();
    let mut left = processes_of(directory);
    while !left.is_empty() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
        left = processes_of(directory);
    }
    if !left.is_empty() {
        return Err(format!("left behind: {left:?}"));
    }
    // A service that was killed leaves its socket to the next one, which removes it at its end.
    let service = bench.actors.service(BUDGET_BLOCKS);
    if !actors::end(service).success() {
        return Err("the last service has failed".to_owned());
    }
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("s.sock")).collect();
    if !left.is_empty() {
        return Err(format!("left behind: {left:?}"));
    }
    Ok(bench.counts)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["as-service", socket, blocks] => {
            actors::serve(Path::new(socket), blocks.parse().unwrap(), BLOCK);
            return ExitCode::SUCCESS;
        }
        ["as-reader", file, output, socket @ ..] => {
            read(Path::new(file), Path::new(output), socket.first().map(Path::new));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let (mut foretell, mut kills, mut seed) = (None, 2000, 1);
    for pair in words.chunks(2) {
        let known = match *pair {
            ["--foretell", path] => {
                foretell = Some(PathBuf::from(path));
                true
            }
            ["--kills", n] => n.parse().map(|n| kills = n).is_ok(),
            ["--seed", n] => n.parse().map(|n| seed = n).is_ok(),
            _ => false,
        };
        if !known {
            eprintln!("error: give --foretell PROGRAM, --kills N, --seed N");
            return ExitCode::from(2);
        }
    }
    let Some(foretell) = foretell else {
        eprintln!("error: give --foretell PROGRAM: which command runs programs");
        return ExitCode::from(2);
    };
    match bench(&foretell, kills, seed) {
        Ok(counts) => {
            for (name, kills) in VICTIMS.iter().zip(counts.kills) {
                println!("{kills:>8} times killed: {name}");
            }
            println!("{:>8} outputs right, {} wrong; nothing left behind", counts.right, counts.wrong);
            ExitCode::from(u8::from(counts.wrong > 0))
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
