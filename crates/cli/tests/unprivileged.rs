//! Without privileges: one line says what is lacking, and the program runs all the same, unless --strict is given.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Ended, FORETELL, Hosts, Tree, can_control, statistics};

/// A copy of the command in a directory that everybody may use.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let copy = directory.path().join("foretell");
    // Not by us: a child of another test would have it open for writing a moment longer, and it could not be executed.
    let tools = env!("CARGO_BIN_EXE_foretell-tools");
    assert!(Command::new("cp").args([FORETELL, tools]).arg(directory.path()).status().unwrap().success());
    (directory, copy)
}

/// Runs a program as the user nobody; `None`, with a word, where that is not possible.
fn as_nobody(test: &str, command: &[&str]) -> Option<Ended> {
    let setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    match Command::new("setpriv").args(setpriv).args(command).output() {
        Ok(output) if rustix::process::geteuid().is_root() => Some(output.into()),
        _ => {
            println!("skipped: {test}: needs root and setpriv to become another user");
            None
        }
    }
}

#[test]
fn what_is_lacking_keeps_a_program_from_its_start_only_if_that_is_asked_for() {
    let test = "what_is_lacking_keeps_a_program_from_its_start_only_if_that_is_asked_for";
    let (directory, foretell) = copy();
    let mark = directory.path().join("mark").display().to_string();
    let foretell = foretell.display().to_string();
    // One small file: that a rule matches nothing, or more than the budget, is one more line.
    let data = directory.path().join("data");
    std::fs::write(&data, [1; 4096]).unwrap();
    let rule = format!("{}=mru", data.display());
    let command = [&foretell, "run", "--strict", "--rule", &rule, "--budget", "1M", "--", "touch", &mark];
    let Some(ended) = as_nobody(test, &command) else { return };
    assert_eq!(ended.code, Some(125), "{}", ended.stderr);
    assert!(ended.stderr.contains("CAP_") && ended.stderr.contains("run as root"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(!directory.path().join("mark").exists());
}

#[test]
fn nothing_is_announced_that_does_not_happen() {
    let (_directory, foretell) = copy();
    let foretell = foretell.display().to_string();
    for (command, code) in [(&["run", "--", "true"][..], 0), (&["daemon", "--budget", "64M"], 2)] {
        let command = [&[foretell.as_str()], command].concat();
        let Some(ended) = as_nobody("nothing_is_announced_that_does_not_happen", &command) else { return };
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(code), 1), "{}", ended.stderr);
        assert!(ended.stderr.contains("run as root"), "{}", ended.stderr);
    }
}

#[test]
fn the_program_runs_and_one_line_says_that_it_is_uncontrolled() {
    let test = "the_program_runs_and_one_line_says_that_it_is_uncontrolled";
    let (directory, foretell) = copy();
    let stats = directory.path().join("stats.json").display().to_string();
    let foretell = foretell.display().to_string();
    let flags = ["--rule", "/proc/version=mru", "--budget", "1M", "--stats", &stats];
    for more in [&[][..], &["--best-effort"]] {
        let job = ["--", "sh", "-c", "echo ran; exit 4"];
        let command = [&[foretell.as_str(), "run"], more, &flags, &job].concat();
        let Some(ended) = as_nobody(test, &command) else { return };
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), "ran\n"), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("'sh' runs uncontrolled"), "{}", ended.stderr);
        assert_eq!(statistics(stats.as_ref())["controlled"], false);
    }
}

#[test]
fn doctor_says_that_run_cannot_work() {
    let (_directory, foretell) = copy();
    let foretell = foretell.display().to_string();
    let Some(ended) = as_nobody("doctor_says_that_run_cannot_work", &[&foretell, "doctor"]) else { return };
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("CAP_"), "{}", ended.stdout);
}

#[test]
fn what_may_not_be_read_is_not_calibrated() {
    let (directory, foretell) = copy();
    let data = directory.path().join("data");
    std::fs::write(&data, vec![1; 16 << 20]).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o600)).unwrap();
    let (foretell, data) = (foretell.display().to_string(), data.display().to_string());
    let output = directory.path().join("out.toml").display().to_string();
    let command = [&foretell, "model", "calibrate", &data, "--output", &output];
    let Some(ended) = as_nobody("what_may_not_be_read_is_not_calibrated", &command) else { return };
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no permission to read it"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}

#[test]
fn a_stranger_learns_nothing_from_a_run_whose_directory_was_opened() {
    let test = "a_stranger_learns_nothing_from_a_run_whose_directory_was_opened";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let hosts = Hosts::new();
    let rule = tree.rule("mru");
    let mut run = hosts.spawn(["run", "--rule", &rule, "--", "sh", "-c", "echo begun; read x; exit 4"]);
    run.wait_for_begin();
    let socket = hosts.path().join(format!("{}.sock", run.pid()));
    let open = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    open(hosts.path(), 0o755);
    open(&socket, 0o666);
    let (_directory, foretell) = copy();
    let (foretell, socket) = (foretell.display().to_string(), socket.display().to_string());
    let Some(ended) = as_nobody(test, &[&foretell, "status", "--socket", &socket]) else { return };
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("belongs to another user"), "{}", ended.stderr);
    // Nor is a directory used that is open to others.
    let said = hosts.foretell(["run", "--quiet", "--rule", &rule, "--", "true"]).stderr;
    assert!(said.contains("is not a directory of user 0 alone"), "{said}");
    open(hosts.path(), 0o700);
    assert_eq!(run.end().code, Some(4));
}
