//! A program made by `foretell slice` under the service: it discloses what it will read, and reads on without it.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use harness::{FORETELL, Tree, can_control, number, statistics, wait_until};

/// Blocks of 8 KiB, read backwards; in the middle the program waits for a line.
const BLOCKS: u64 = 256;
const BACKWARDS: &str = r#"#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    static char block[8192];
    char line[80];
    unsigned sum = 0;
    int fd = open("data", O_RDONLY);
    for (int i = 255; i >= 0; i--) {
        if (i == 127) {
            puts("half");
            fflush(stdout);
            if (fgets(line, sizeof line, stdin) == NULL)
                return 1;
        }
        if (pread(fd, block, sizeof block, (long)i * 8192) == sizeof block)
            sum = sum * 31 + (unsigned char)block[7];
    }
    close(fd);
    printf("%u\n", sum);
    return 0;
}
"#;

/// A service on a socket of its own, ended at the end.
struct Daemon {
    child: Child,
    socket: PathBuf,
    _directory: tempfile::TempDir,
    /// Kept open: who writes into a closed one fails.
    _errors: BufReader<ChildStderr>,
}

impl Daemon {
    fn start() -> Daemon {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_foretelld"));
        command.arg("--socket").arg(&socket).args(["--budget", "16M"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.starts_with("foretelld: serving on "), "{line}");
        Daemon { child, socket, _directory: directory, _errors: errors }
    }

    /// The row of a process among `sessions` or `managers`, when there is one.
    fn row(&self, rows: &str, pid: u32) -> Option<serde_json::Value> {
        let mut command = Command::new(FORETELL);
        let status =
            command.args(["status", "--json"]).env("FORETELL_SOCKET", &self.socket).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let sessions = status["sessions"].as_array().unwrap();
        let session = sessions.iter().find(|row| row["pid"] == pid)?;
        let mut all = status[rows].as_array().unwrap().iter();
        all.find(|row| row["session"] == session["session"]).cloned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, translated, beside its data; or nothing where clang is missing.
fn translated(test: &str) -> Option<Tree> {
    if Command::new("clang").arg("--version").output().is_err() {
        println!("skipped: {test}: clang is not installed");
        return None;
    }
    let tree = Tree::new(&[("data", BLOCKS as usize * 8192)]);
    tree.write("prog.c", BACKWARDS);
    let succeed = |command: &mut Command| {
        let output = command.current_dir(tree.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    succeed(Command::new(FORETELL).args(["slice", "prog.c", "-o", "prog.foretell.c", "--runtime", "."]));
    let sources = ["prog.foretell.c", "foretell_slice.c", "-pthread", "-o", "prog"];
    succeed(Command::new("cc").args(["-w", "-I", "."]).args(sources));
    tree.drop_cache();
    Some(tree)
}

/// The program, which waits in its middle.
struct Waiting {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Waiting {
    fn start(tree: &Tree, socket: &Path) -> Waiting {
        let mut command = Command::new(tree.file("prog"));
        for name in ["FORETELL_SLICE", "FORETELL_SLICE_TRACE", "FORETELL_SLICE_SINK"] {
            command.env_remove(name);
        }
        command.current_dir(tree.path()).env("FORETELL_SOCKET", socket);
        command.env("FORETELL_SLICE_STATS", tree.file("stats"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "half\n");
        Waiting { child, output }
    }

    /// Lets it go on; its last words must be those that its data make.
    fn finish(mut self) {
        self.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        let byte = |block: u64| ((block * 8192 + 7) % 251) as u32;
        let sum = (0..BLOCKS).rev().fold(0_u32, |sum, block| sum.wrapping_mul(31).wrapping_add(byte(block)));
        assert_eq!(said, format!("{sum}\n"));
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn what_a_slice_predicts_is_disclosed_for_the_program() {
    let test = "what_a_slice_predicts_is_disclosed_for_the_program";
    if !can_control(test) {
        return;
    }
    let Some(tree) = translated(test) else { return };
    let service = Daemon::start();
    let program = Waiting::start(&tree, &service.socket);
    let pid = program.child.id();
    // The program's own reads count for its session, those that the service has seen since it heard of it; all that
    // was disclosed and not yet read then is still ahead.
    wait_until("all of the rest is disclosed", || {
        service.row("managers", pid).is_some_and(|row| {
            number(&row, "disclosed") <= BLOCKS && number(&row, "disclosed_ahead") >= BLOCKS / 2
        })
    });
    let session = service.row("sessions", pid).unwrap();
    let before = number(&session, "references");
    assert!(before <= BLOCKS / 2 && number(&session, "entries_refused") == 0, "{session}");
    // The service fetches what comes next though the program waits for its line.
    wait_until("something is prefetched", || {
        service.row("sessions", pid).is_some_and(|row| number(&row, "prefetches") > 0)
    });
    program.finish();
    let stats = statistics(&tree.file("stats"));
    assert_eq!((&stats["sink"], &stats["stopped"]), (&"service".into(), &"".into()), "{stats}");
    assert_eq!((number(&stats, "requests"), number(&stats, "refused_files")), (0, 0), "{stats}");
    assert!(number(&stats, "disclosed") >= BLOCKS / 2, "{stats}");
    // Its session has ended with it.
    wait_until("the session has ended", || service.row("sessions", pid).is_none());
}

#[test]
fn a_service_that_is_killed_does_not_disturb_the_program() {
    let test = "a_service_that_is_killed_does_not_disturb_the_program";
    if !can_control(test) {
        return;
    }
    let Some(tree) = translated(test) else { return };
    let service = Daemon::start();
    let program = Waiting::start(&tree, &service.socket);
    drop(service);
    program.finish();
    let stats = statistics(&tree.file("stats"));
    assert!(stats["sink"].as_str().unwrap().starts_with("service") && stats["stopped"] == "", "{stats}");
}

#[test]
fn without_a_service_a_slice_prefetches_by_itself() {
    let Some(tree) = translated("without_a_service_a_slice_prefetches_by_itself") else { return };
    Waiting::start(&tree, &tree.file("no.sock")).finish();
    let stats = statistics(&tree.file("stats"));
    assert_eq!((&stats["sink"], number(&stats, "disclosed")), (&"readahead".into(), 0), "{stats}");
}
