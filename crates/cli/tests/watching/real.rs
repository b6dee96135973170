//! Against the real service, where page caches can be observed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use foretell_client::{Client, Options};
use foretelld::Snapshot;

use super::terminal::Terminal;
use super::{FORETELL, run, text};

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

const BLOCK_BYTES: usize = 8192;

/// A service in a process of its own, ended when it is dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        self.0.wait().ok();
    }
}

/// Starts the service and waits until it serves metrics, which it says last.
fn daemon(socket: &Path, metrics: &Path) -> Daemon {
    let mut command = Command::new(FORETELL);
    command.args(["daemon", "--budget", "16M", "--socket"]).arg(socket).arg("--metrics").arg(metrics);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut all = String::new();
    while !all.contains("metrics at") {
        assert!(said.read_line(&mut all).unwrap() > 0, "the service did not start: {all}");
    }
    // Kept open: the service may have more to say.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Daemon(child)
}

fn status(socket: &Path) -> Snapshot {
    let output = run(&["status", "--json"], socket);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn status_top_and_metrics_agree_about_a_program() {
    if let Some(why) = foretell_pagecache::doctor::missing_for_run() {
        println!("skipped: status_top_and_metrics_agree_about_a_program: {why}");
        return;
    }
    let directory = tempfile::Builder::new().prefix("foretell-watch").tempdir_in("/var/tmp").unwrap();
    let directory = directory.path().canonicalize().map(|path| (path, directory)).unwrap();
    let (socket, metrics) = (directory.0.join("s.sock"), directory.0.join("m.sock"));
    let _daemon = daemon(&socket, &metrics);

    // A program that reads a file of 64 blocks twice: this one.
    let path = directory.0.join("data");
    std::fs::write(&path, vec![7; 64 * BLOCK_BYTES]).unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let client = Client::with_options(Options { socket: socket.clone(), ..Options::from_environment() });
    client.set_priority(&file, 0).unwrap();
    let begin = Instant::now();
    let mut bytes = vec![0; BLOCK_BYTES];
    // Read again until the service has seen reads: those before it knew the file are nobody's.
    while status(&socket).cache.counts.references < 128 {
        assert!(begin.elapsed() < PATIENCE, "the service sees no reads: {:?}", status(&socket));
        for block in 0..64 {
            file.read_exact_at(&mut bytes, block * BLOCK_BYTES as u64).unwrap();
        }
        client.set_priority(&file, 0).unwrap();
    }

    let told = status(&socket);
    let own = std::process::id();
    let process = told.cache.processes.iter().find(|process| process.pid == own).unwrap();
    assert!(process.counts.references >= 128 && process.counts.hits > 0, "{process:?}");
    let found = told.cache.files.iter().find(|found| found.path == path).unwrap();
    assert_eq!(found.size_bytes, 64 * BLOCK_BYTES as u64);

    let table = text(&run(&["status"], &socket).stdout);
    assert!(table.contains(&own.to_string()) && table.contains("/data"), "{table}");
    let frame = text(&run(&["top", "--once", "--totals"], &socket).stdout);
    assert!(frame.contains(&own.to_string()), "{frame}");

    let mut scraper = UnixStream::connect(&metrics).unwrap();
    scraper.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut exposed = String::new();
    scraper.read_to_string(&mut exposed).unwrap();
    assert!(exposed.starts_with("HTTP/1.1 200 OK"), "{exposed}");
    assert!(exposed.contains(&format!("foretell_process_references_total{{pid=\"{own}\"")), "{exposed}");
    assert!(exposed.contains(&format!("file=\"{}\"", path.display())), "{exposed}");

    let mut terminal = Terminal::new();
    terminal.start(Command::new(FORETELL).args(["top", "--totals", "--socket"]).arg(&socket));
    terminal.wait_for(&own.to_string());
    terminal.type_keys("q");
    assert_eq!(terminal.end().code(), Some(0));
    terminal.assert_as_before();
}
