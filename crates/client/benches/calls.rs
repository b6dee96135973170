//! What calls cost, beside the system calls that would do something similar.
//!
//!     ./x bench client
//!     ./x bench client --json benches/results/client.json
//!     ./x bench client --socket /run/foretell/foretelld.sock
//!
//! Unless a socket is named the service is one that takes entries out of the ring between measurements, so
//! that the cost is the caller's alone; with a socket, what is measured includes waking that service. Each way
//! is measured in turn, in several rounds; printed are medians and the least.

// A benchmark may fail like a test.
#![allow(clippy::unwrap_used)]

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use fake::{Place, Session};
use foretell_client::{Client, Fallback, Options, Policy};
use serde_json::{Value, json};

/// Calls in a row: fewer entries than the ring has slots for hints.
const CALLS: u64 = 4096;
/// Ranges in a list.
const LISTED: u64 = 64;
/// Times that each way is measured.
const ROUNDS: usize = 51;

/// What takes in what the client says between two measurements.
enum Service {
    Fake(Box<Session>),
    Real,
}

impl Service {
    /// Returns when everything was taken in.
    fn settle(&mut self, client: &Client) {
        match self {
            Service::Fake(session) => drop(session.hear()),
            Service::Real => loop {
                let stats = client.stats();
                assert!(stats.connected, "the service has gone");
                if stats.statistics.entries_taken >= stats.sent {
                    break;
                }
                std::thread::yield_now();
            },
        }
    }
}

/// Something to measure: its name, how many times the thing is done in one go, and doing it.
type Way<'a> = (&'static str, u64, Box<dyn Fn() + 'a>);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut json_path, mut socket) = (None, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json_path = arguments.next().map(PathBuf::from),
            "--socket" => socket = arguments.next().map(PathBuf::from),
            // What cargo adds.
            "--bench" => {}
            other => {
                eprintln!("error: unknown argument '{other}'; there are --json FILE and --socket PATH");
                std::process::exit(2);
            }
        }
    }
    let place = Place::new();
    let (client, mut service) = match &socket {
        None => {
            let listening = place.listen();
            let client = place.client();
            (client, Service::Fake(Box::new(listening.accept())))
        }
        Some(path) => {
            let options = Options { socket: path.clone(), fallback: Fallback::Nothing };
            (Client::with_options(options), Service::Real)
        }
    };
    if !client.is_connected() {
        eprintln!("error: nobody listens at {}", socket.unwrap_or_default().display());
        std::process::exit(2);
    }
    let nobody = Place::new();
    let alone = nobody.client();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let files = ["a", "b"].map(|name| {
        let path = dir.path().join(name);
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        File::open(path).unwrap()
    });
    let ways = ways(&client, &alone, &files);
    let mut measured = vec![Vec::new(); ways.len()];
    for round in 0..ROUNDS {
        for turn in 0..ways.len() {
            let at = (round + turn) % ways.len();
            let (_, times, act) = &ways[at];
            service.settle(&client);
            client.cancel();
            service.settle(&client);
            let start = Instant::now();
            act();
            measured[at].push(start.elapsed().as_nanos() as f64 / *times as f64);
        }
    }
    let dropped = client.stats().dropped;
    report(&ways, &mut measured, dropped, socket.is_some(), json_path);
}

fn ways<'a>(client: &'a Client, alone: &'a Client, files: &'a [File; 2]) -> Vec<Way<'a>> {
    let [file, other] = files;
    let range = |at: u64| at % 128 * 8192..(at % 128 + 1) * 8192;
    let lists = CALLS / LISTED;
    vec![
        ("disclose, in lists of 64", CALLS, {
            Box::new(move || {
                for list in 0..lists {
                    client.disclose(file, (0..LISTED).map(|at| range(at * 37 + list))).unwrap();
                }
            })
        }),
        ("disclose, in lists of 64, two files in turn", CALLS, {
            Box::new(move || {
                for list in 0..lists {
                    let chunks = (0..LISTED).map(|at| (&files[at as usize % 2], range(at * 37 + list)));
                    client.disclose_list(chunks).unwrap();
                }
            })
        }),
        ("disclose, one range a call", CALLS, {
            Box::new(move || (0..CALLS).for_each(|at| drop(client.disclose_range(file, range(at * 37)))))
        }),
        ("done_with", CALLS, {
            Box::new(move || (0..CALLS).for_each(|at| drop(client.done_with(file, range(at)))))
        }),
        ("set_temporary_priority", CALLS, {
            Box::new(move || {
                (0..CALLS).for_each(|at| drop(client.set_temporary_priority(file, range(at), -1)));
            })
        }),
        ("set_priority", CALLS, {
            Box::new(move || (0..CALLS).for_each(|at| drop(client.set_priority(file, at as i32 % 8))))
        }),
        ("set_policy", CALLS, {
            Box::new(move || (0..CALLS).for_each(|at| drop(client.set_policy(at as i32 % 8, Policy::Mru))))
        }),
        ("priority", CALLS, {
            Box::new(move || (0..CALLS).for_each(|_| drop(black_box(client.priority(file)))))
        }),
        (
            "stats",
            CALLS,
            Box::new(move || {
                (0..CALLS).for_each(|_| {
                    black_box(client.stats());
                })
            }),
        ),
        ("disclose without a service, in lists of 64", CALLS, {
            Box::new(move || {
                for list in 0..lists {
                    alone.disclose(file, (0..LISTED).map(|at| range(at * 37 + list))).unwrap();
                }
            })
        }),
        ("disclose without a service, one range a call", CALLS, {
            Box::new(move || (0..CALLS).for_each(|at| drop(alone.disclose_range(file, range(at * 37)))))
        }),
        ("the kernel: fstat", CALLS, {
            Box::new(move || {
                (0..CALLS).for_each(|_| {
                    let _ = black_box(rustix::fs::fstat(other));
                })
            })
        }),
        ("the kernel: posix_fadvise(WILLNEED) of 8 KiB cached", CALLS, {
            Box::new(move || {
                (0..CALLS).for_each(|at| {
                    let length = std::num::NonZeroU64::new(8192);
                    let _ = rustix::fs::fadvise(
                        other,
                        range(at * 37).start,
                        length,
                        rustix::fs::Advice::WillNeed,
                    );
                });
            })
        }),
    ]
}

fn report(ways: &[Way<'_>], measured: &mut [Vec<f64>], dropped: u64, real: bool, json_path: Option<PathBuf>) {
    let mut rows = Vec::new();
    println!("{:>10} {:>10}  nanoseconds, median and least of {ROUNDS}", "median", "least");
    for ((name, _, _), times) in ways.iter().zip(measured) {
        times.sort_by(f64::total_cmp);
        let (median, least) = (times[times.len() / 2], times[0]);
        println!("{median:>10.1} {least:>10.1}  {name}");
        rows.push(json!({ "name": name, "median_ns": median, "least_ns": least }));
    }
    if dropped > 0 {
        println!("{dropped} hints were dropped: the service did not keep up");
    }
    let result = json!({
        "command": format!("./x bench client {}", std::env::args().skip(1).filter(|a| a != "--bench").collect::<Vec<_>>().join(" ")),
        "commit": line_of(Command::new("git").args(["rev-parse", "HEAD"])),
        "machine": line_of(Command::new("uname").arg("-srm")),
        "service": if real { "a running one" } else { "one that empties the ring between measurements" },
        "dropped": dropped,
        "calls": rows,
    });
    if let Some(path) = json_path {
        // Cargo starts a benchmark in its package's folder; whoever types the command is in the root.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        write(&root.join(path), &result);
    }
}

fn line_of(command: &mut Command) -> String {
    command.output().map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

/// Writes the result under a temporary name, then renames it.
fn write(path: &Path, result: &Value) {
    let temporary = path.with_extension("json.new");
    std::fs::write(&temporary, format!("{result:#}\n")).unwrap();
    std::fs::rename(temporary, path).unwrap();
}
