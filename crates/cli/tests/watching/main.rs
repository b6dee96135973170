//! `foretell status` and `foretell top` as processes: in a terminal, into a pipe, against a service that is
//! made up and against the real one.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod fake;
mod real;
mod terminal;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use fake::Service;
use foretelld::{Counters, ManagerStatus, ProcessStatus, Snapshot, Status};
use terminal::{PANIC_MESSAGE, Terminal};

/// The command under test.
const FORETELL: &str = env!("CARGO_BIN_EXE_foretell");

/// A service with one process of this name.
fn snapshot(name: &str) -> Snapshot {
    let counts = Counters { references: 12_345, hits: 12_000, ..Counters::default() };
    let manager = ManagerStatus { name: name.into(), owned_blocks: 700, ..ManagerStatus::default() };
    let process = ProcessStatus { pid: 4711, name: name.into(), counts, ..ProcessStatus::default() };
    let cache = Status {
        budget_bytes: 16 << 20,
        block_bytes: 8192,
        used_blocks: 700,
        counts,
        managers: vec![manager],
        processes: vec![process],
        ..Status::default()
    };
    Snapshot {
        version: "7.8.9".into(),
        pid: 99,
        uptime_s: 60.0,
        sessions_open: 1,
        cache,
        ..Snapshot::default()
    }
}

fn run(arguments: &[&str], socket: &Path) -> Output {
    Command::new(FORETELL)
        .args(arguments)
        .arg("--socket")
        .arg(socket)
        .env_remove("COLUMNS")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_a_service_one_line_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("none.sock");
    for arguments in [&["status"][..], &["status", "--json"], &["top", "--once"]] {
        let output = run(arguments, &socket);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("none.sock") && said.contains("foretell daemon"), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let service = Service::start(snapshot("a"));
    for (arguments, wanted) in [
        (&["top"][..], "--once"),
        (&["top", "--once", "--sort", "colour"], "pid, name, user, blocks"),
        (&["top", "--once", "--interval", "0"], "0.1 to 3600"),
        (&["status", "--user", "no such user"], "no such user"),
    ] {
        let output = run(arguments, service.socket());
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn status_is_a_table_and_json_the_same() {
    let service = Service::start(snapshot("post\x1b[2Jgres"));
    let output = run(&["status"], service.socket());
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let row = table.lines().find(|line| line.contains("post?[2Jgres")).unwrap();
    let fields: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(fields[0], "4711");
    assert!(fields.contains(&"12,345") && fields.contains(&"97.2%") && fields.contains(&"700"), "{row}");
    assert!(table.contains("No file is under control."), "{table}");
    let widths: Vec<usize> = table
        .lines()
        .filter(|l| l.contains("4711") || l.contains("references  hits"))
        .map(str::len)
        .collect();
    assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "columns line up: {table}");
    let output = run(&["status", "--json"], service.socket());
    let told: Snapshot = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told, snapshot("post\x1b[2Jgres"));
}

#[test]
fn a_frame_goes_into_a_pipe() {
    let service = Service::start(snapshot("postgres"));
    for arguments in [&["top", "--once", "--totals"][..], &["top", "--once", "--interval", "0.1"]] {
        let output = run(arguments, service.socket());
        let frame = text(&output.stdout);
        assert!(output.status.success() && frame.contains("postgres"), "{frame}");
        assert!(!frame.contains('\x1b') && frame.lines().all(|line| line.chars().count() <= 120), "{frame}");
    }
}

#[test]
fn q_ends_it_and_the_terminal_is_as_it_was() {
    let service = Service::start(snapshot("postgres"));
    let mut terminal = Terminal::new();
    terminal.start(Command::new(FORETELL).args(["top", "--socket"]).arg(service.socket()));
    terminal.wait_for("postgres");
    terminal.type_keys("?");
    terminal.wait_for("any key closes it");
    // A 'q' while the filter is typed belongs to the filter.
    terminal.type_keys("x/q");
    terminal.wait_for("with 'q'");
    terminal.type_keys("\rq");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.assert_as_before();
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_it_was() {
    use rustix::process::Signal;
    let service = Service::start(snapshot("postgres"));
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut terminal = Terminal::new();
        terminal.start(Command::new(FORETELL).args(["top", "--socket"]).arg(service.socket()));
        terminal.wait_for("postgres");
        terminal.signal(signal);
        assert_eq!(terminal.end().code(), Some(code));
        terminal.assert_as_before();
    }
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_is_reported() {
    if terminal::is_to_panic() {
        let _screen = foretell::top::Screen::take().unwrap();
        panic!("{PANIC_MESSAGE}");
    }
    let mut terminal = Terminal::new();
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "a_panic_gives_the_terminal_back_before_it_is_reported", "--nocapture"]);
    terminal.start(terminal::to_panic(&mut again));
    assert_eq!(terminal.end().code(), Some(101));
    terminal.assert_as_before();
    let output = terminal.output();
    // Once, and before: given back again it would move the cursor over the report.
    assert_eq!(output.matches("\x1b[?1049l").count(), 1, "{output:?}");
    assert!(output.find("\x1b[?1049l") < output.find(PANIC_MESSAGE), "{output:?}");
}

#[test]
fn a_service_that_goes_and_comes_again_is_waited_for() {
    let first = Service::start(snapshot("postgres"));
    let socket = first.socket().to_owned();
    let mut terminal = Terminal::new();
    let mut command = Command::new(FORETELL);
    terminal.start(command.args(["top", "--interval", "0.1", "--socket"]).arg(&socket));
    terminal.wait_for("postgres");
    let directory = first.stop();
    terminal.wait_for("the service has gone");
    let _second = Service::start_in(directory, snapshot("phoenix"));
    terminal.wait_for("phoenix");
    terminal.type_keys("q");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.assert_as_before();
}

#[test]
fn a_service_of_another_kind_is_told_apart() {
    let service = Service::start_saying("{\"no\": \"snapshot\"}");
    for arguments in [&["status"][..], &["top", "--once"]] {
        let output = run(arguments, service.socket());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
    }
    let mut terminal = Terminal::new();
    terminal.start(Command::new(FORETELL).args(["top", "--socket"]).arg(service.socket()));
    assert_eq!(terminal.end().code(), Some(2));
    terminal.assert_as_before();
    assert!(terminal.output().contains("was not understood"));
}
