//! The service, started by its command, and what the other commands do with it.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use foretell_protocol::message::Message;
use foretell_protocol::{ErrorCode, Reply};
use harness::{Background, Hosts, Tree, can_control, number, statistics};

/// A service on a socket of its own, ended at the end.
struct Daemon {
    child: Child,
    socket: PathBuf,
    _directory: tempfile::TempDir,
    /// Kept open: who writes into a closed one fails.
    _errors: BufReader<ChildStderr>,
}

impl Daemon {
    fn start(arguments: &[&str]) -> Daemon {
        Daemon::start_with(arguments, |_| {})
    }

    fn start_with(arguments: &[&str], set: impl FnOnce(&mut Command)) -> Daemon {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s.sock");
        let mut command = daemon(&socket, arguments);
        set(&mut command);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.starts_with("foretelld: serving on "), "{line}");
        Daemon { child, socket, _directory: directory, _errors: errors }
    }

    fn foretell(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foretell"));
        command.args(arguments).env("FORETELL_SOCKET", &self.socket).output().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn daemon(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foretelld"));
    command.arg("--socket").arg(socket).args(arguments);
    command
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// systemd(1) takes it for started then: it must serve, and have given up what it is to give up.
#[test]
fn the_manager_is_told_when_the_service_is_confined() {
    if !can_control("the_manager_is_told_when_the_service_is_confined") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("notify");
    let manager = UnixDatagram::bind(&place).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let service = Daemon::start_with(&["--budget", "4M"], |command| {
        command.env("NOTIFY_SOCKET", &place);
    });
    let mut told = [0; 16];
    let length = manager.recv(&mut told).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", service.child.id())).unwrap();
    assert_eq!(&told[..length], b"READY=1");
    // A filter (`SECCOMP_MODE_FILTER`).
    assert!(status.lines().any(|line| line == "Seccomp:\t2"), "{status}");
}

#[test]
fn a_run_uses_the_service_and_reports_its_own_processes() {
    if !can_control("a_run_uses_the_service_and_reports_its_own_processes") {
        return;
    }
    let tree = Tree::new(&[("a", 2 << 20)]);
    let service = Daemon::start(&["--budget", "4M"]);
    let stats = tree.path().join("stats.json");
    let (file, stats_path, rule) =
        (tree.file("a").display().to_string(), stats.display().to_string(), tree.rule("mru"));
    for _ in 0..2 {
        let ended = service.foretell(&[
            "run",
            "--budget",
            "1M",
            "--rule",
            &rule,
            "--stats",
            &stats_path,
            "--",
            "sh",
            "-c",
            &format!("cat {file} {file} | wc -c; exit 7"),
        ]);
        let said = errors(&ended);
        assert_eq!(
            (ended.status.code(), String::from_utf8_lossy(&ended.stdout).trim()),
            (Some(7), "4194304")
        );
        assert!(said.contains("--budget does not apply") && said.contains("under the service at"), "{said}");
        let part = statistics(&stats);
        // The second run does not count the first one's.
        assert_eq!((number(&part, "references"), number(&part, "budget_bytes")), (512, 4 << 20), "{part}");
    }
    let status = service.foretell(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    // Who asks is none of them.
    let sessions = (&status["sessions_open"], &status["sessions_opened"]);
    assert_eq!((sessions, &status["references"]), ((&0.into(), &2.into()), &1024.into()), "{status}");
    assert_eq!(status["processes"].as_array().map(Vec::len), Some(0));
    let own =
        service.foretell(&["run", "--no-service", "--budget", "1M", "--rule", &rule, "--", "cat", &file]);
    assert!(!errors(&own).contains("under the service"), "{}", errors(&own));
}

#[test]
fn the_service_and_runs_beside_it_yield_to_what_is_older_and_are_all_seen() {
    if !can_control("the_service_and_runs_beside_it_yield_to_what_is_older_and_are_all_seen") {
        return;
    }
    let (first, second) = (Tree::new(&[("a", 64 << 10)]), Tree::new(&[("b", 64 << 10)]));
    let (a, b) = (first.file("a").display().to_string(), second.file("b").display().to_string());
    let stats = first.path().join("stats.json");
    let stats_path = stats.display().to_string();
    let mut service = Daemon::start(&["--budget", "4M"]);
    let hosts = Hosts::beside(&service.socket);
    let wait = ["--", "sh", "-c", "echo begun; read x; exit 3"];
    let own = ["--no-service", "--budget", "1M"];
    let (of_first, of_second) = (first.rule("mru"), second.rule("mru"));
    // One with the service, one beside it.
    let mut served = hosts.spawn([&["run", "--rule", &of_first], &wait[..]].concat());
    let mut beside = hosts.spawn([&["run", "--rule", &of_second], &own[..], &wait].concat());
    served.wait_for_begin();
    beside.wait_for_begin();
    let read = |rule: String, options: &[&str], file: &str| {
        let flags = ["run", "--quiet", "--stats", &stats_path, "--rule", &rule];
        let ended = hosts.foretell([&flags[..], options, &["--", "cat", file]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        (ended.stderr, number(&statistics(&stats), "references"))
    };
    let (said, references) = read(first.rule("lru"), &own, &a);
    assert!(said.contains("the service") && said.contains("leaves such files alone"), "{said}");
    assert_eq!(references, 0);
    let (said, references) = read(second.rule("lru"), &[], &b);
    assert!(said.contains(&format!("conflict with run {}: ", beside.pid())), "{said}");
    assert_eq!(references, 0);
    // What agrees is no conflict.
    assert_eq!(read(first.rule("mru"), &own, &a), (String::new(), 8));
    let status = hosts.foretell(["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        (status["pid"].as_u64(), &status["sessions"][0]["run"]),
        (Some(service.child.id().into()), &true.into())
    );
    assert_eq!(status["runs"][0]["pid"].as_u64(), Some(beside.pid().into()), "{status}");
    let top = hosts.foretell(["top", "--once", "--totals"]);
    assert!(top.stdout.contains("in 2 hosts"), "{}", top.stdout);
    // Ten more at once, with the service, beside it, and with the one beside it, half of them in conflict with the rest.
    let pid = beside.pid().to_string();
    let output = Tree::new(&[]);
    let joined = ["--join", &pid];
    let many = |at: usize| {
        let rule = first.rule(["mru", "lru"][at % 2]);
        let options = [&[][..], &own, &joined][at % 3];
        let to = output.file(&at.to_string()).display().to_string();
        let script = format!("echo begun; read x; cat {a} {b} | wc -c > {to}; exit 3");
        hosts.spawn([&["run", "--rule", &rule], options, &["--", "sh", "-c", &script]].concat())
    };
    let mut runs: Vec<Background> = (0..10).map(many).collect();
    runs.iter_mut().for_each(Background::wait_for_begin);
    let status = hosts.foretell(["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let sessions = |host: &serde_json::Value| host["sessions"].as_array().map_or(0, Vec::len);
    let private = status["runs"].as_array().unwrap();
    // Four and one are with the service, three by themselves, three and one with the one beside it.
    assert_eq!((sessions(&status), private.len()), (5, 4), "{status}");
    assert_eq!(private.iter().map(sessions).sum::<usize>(), 7, "{status}");
    let top = hosts.foretell(["top", "--once", "--totals"]);
    assert!(top.stdout.contains("in 5 hosts"), "{}", top.stdout);
    assert_eq!(
        top.stdout.lines().filter(|line| line.split_whitespace().any(|word| word == "sh")).count(),
        12
    );
    // They end out of order, and the service is killed meanwhile.
    for turn in 0..10 {
        if turn == 5 {
            service.child.kill().unwrap();
            service.child.wait().unwrap();
        }
        let ended = runs.remove(7 * turn % runs.len()).end();
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    }
    for at in 0..10 {
        assert_eq!(std::fs::read_to_string(output.file(&at.to_string())).unwrap().trim(), "131072", "{at}");
    }
    for run in [served, beside] {
        let ended = run.end();
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    }
    hosts.assert_left_as_they_were();
    assert_eq!(hosts.foretell(["status"]).code, Some(2));
}

#[test]
fn a_service_that_takes_no_more_programs_refuses_no_job() {
    if !can_control("a_service_that_takes_no_more_programs_refuses_no_job") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10)]);
    let config = tree.write("foretelld.toml", "[limits]\nruns = 1\n").display().to_string();
    let service = Daemon::start(&["--budget", "4M", "--config", &config]);
    let hosts = Hosts::beside(&service.socket);
    let (rule, stats) = (tree.rule("mru"), tree.file("stats.json"));
    let stats_path = stats.display().to_string();
    let mut first = hosts.spawn(["run", "--rule", &rule, "--", "sh", "-c", "echo begun; read x; exit 3"]);
    first.wait_for_begin();
    let a = tree.file("a").display().to_string();
    let flags = ["run", "--quiet", "--budget", "1M", "--stats", &stats_path, "--rule", &rule];
    let ended = hosts.foretell([&flags[..], &["--", "cat", &a]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("this run controls its program itself"), "{}", ended.stderr);
    let own = statistics(&stats);
    assert_eq!((number(&own, "references"), number(&own, "budget_bytes")), (8, 1 << 20), "{own}");
    assert_eq!(first.end().code, Some(3));
}

#[test]
fn a_service_of_another_version_is_named_in_one_line_and_the_job_runs() {
    if !can_control("a_service_of_another_version_is_named_in_one_line_and_the_job_runs") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10)]);
    let directory = tempfile::tempdir().unwrap();
    let mut refusal = Vec::new();
    let text = "this service speaks version 1".to_owned();
    Reply::Ended { code: ErrorCode::Version, text }.encode(&mut refusal);
    // It refuses, says what means nothing here, or hangs up.
    for (name, answer) in [("refuses", refusal), ("babbles", vec![0xff; 64]), ("hangs-up", Vec::new())] {
        let socket = directory.path().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        // Ends with this process.
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let _ = client.read(&mut [0; 64]);
                let _ = client.write_all(&answer);
            }
        });
        let (hosts, a) = (Hosts::beside(&socket), tree.file("a").display().to_string());
        let rule = tree.rule("mru");
        let ended =
            hosts.foretell(["run", "--quiet", "--budget", "1M", "--rule", &rule, "--", "wc", "-c", &a]);
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.stderr);
        assert!(ended.stdout.starts_with("65536 "), "{name}: {}", ended.stdout);
        let said: Vec<&str> = ended.stderr.lines().collect();
        assert!(
            said.len() == 1 && said[0].contains("this run controls its program itself"),
            "{name}: {said:?}"
        );
        for look in [&["status"][..], &["status", "--json"], &["top", "--once"]] {
            let ended = hosts.foretell(look);
            assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{name}: {}", ended.stderr);
        }
    }
}

#[test]
fn hints_reach_the_service() {
    if !can_control("hints_reach_the_service") {
        return;
    }
    let tree = Tree::new(&[("a", 2048 * 8192)]);
    let service = Daemon::start(&["--budget", "4M", "--prefetch", "controlled-aggressive"]);
    let file = tree.file("a").display().to_string();
    let hints = tree.write("hints", format!("{file}\n")).display().to_string();
    let stats = tree.path().join("stats.json");
    let stats_path = stats.display().to_string();
    tree.drop_cache();
    let ended = service.foretell(&["run", "--hints", &hints, "--stats", &stats_path, "--", "cat", &file]);
    assert_eq!(ended.status.code(), Some(0), "{}", errors(&ended));
    let part = statistics(&stats);
    // Of a few reads of what is still being fetched the kernel tells nothing (`mm/filemap.c`, `filemap_get_pages`).
    assert!((1948..=2048).contains(&number(&part, "references")), "{part}");
    assert_eq!(number(&part, "hints_skipped"), 0, "{part}");
    assert!(number(&part, "prefetches") > 0, "{part}");
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    if !can_control("what_cannot_be_served_is_said_in_one_line") {
        return;
    }
    let service = Daemon::start(&["--budget", "4M"]);
    let refused = |command: &mut Command| {
        let output = command.output().unwrap();
        let said = errors(&output);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        said
    };
    let second = refused(&mut daemon(&service.socket, &["--budget", "4M"]));
    assert!(second.contains("a service listens on") && second.contains("already"), "{second}");
    let elsewhere = service.socket.with_extension("2");
    assert!(refused(&mut daemon(&elsewhere, &["--budget", "9000T"])).contains("budget"));
    assert!(refused(&mut daemon(&elsewhere, &["--bugdet", "1M"])).contains("--budget"));
    assert!(refused(&mut daemon(&elsewhere, &["--metrics", "0.0.0.0:1"])).contains("loopback"));
    let file = elsewhere.with_extension("toml");
    std::fs::write(&file, "rules = ['/a=mru']\n").unwrap();
    let config = file.display().to_string();
    assert!(refused(&mut daemon(&elsewhere, &["--config", &config])).contains("foretell run"));
    let mut status = Command::new(env!("CARGO_BIN_EXE_foretell"));
    let none = refused(status.arg("status").arg("--socket").arg(&elsewhere));
    assert!(none.contains("no service listens on"), "{none}");
    assert!(!elsewhere.exists());
}

/// `[buffers]`: a pool a user beside the page cache, which ends with the service however that ends.
#[test]
fn buffers_are_served_beside_it_and_end_with_it() {
    if !can_control("buffers_are_served_beside_it_and_end_with_it") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (config, door) = (directory.path().join("foretelld.toml"), directory.path().join("buffers.sock"));
    let data = directory.path().join("data");
    std::fs::write(&data, "some").unwrap();
    std::fs::write(&config, format!("[buffers]\nbudget = '1M'\nsocket = '{}'\n", door.display())).unwrap();
    let daemon = Daemon::start(&["--budget", "4M", "--config", config.to_str().unwrap()]);
    let attach = || {
        let timeout = Duration::from_secs(20);
        foretell_buffers::Guest::of_service(&door, foretell_buffers::Access::default(), timeout, None)
    };
    let guest = attach().unwrap();
    let url = format!("file://{}", data.display());
    let stamp = guest.open_all(&[&url], false).unwrap().remove(0).unwrap();
    let (object, mut bytes) = (foretell_buffers::Remote::new(&url, stamp).unwrap(), [0; 4]);
    guest.read_at(&object, &mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"some");
    // Killed, and not asked to end.
    drop(daemon);
    let until = Instant::now() + Duration::from_secs(20);
    while attach().is_ok() {
        assert!(Instant::now() < until, "it is served still");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(&config, "[buffers]\nbudget = '1K'\n").unwrap();
    let elsewhere = directory.path().join("s.sock");
    let mut refused = self::daemon(&elsewhere, &["--budget", "4M", "--config", config.to_str().unwrap()]);
    let refused = refused.output().unwrap();
    let said = errors(&refused);
    assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("[buffers]: budget: 1024 bytes hold no part of 65536 bytes"), "{said}");
}
