//! `foretell mount`: a folder of this machine as a store.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FORETELL: &str = env!("CARGO_BIN_EXE_foretell");

/// The command once it has mounted; `None` where nothing can be mounted.
fn mount(test: &str, url: &str, at: &Path) -> Option<Child> {
    mount_with(test, url, at, &[])
}

fn mount_with(test: &str, url: &str, at: &Path, flags: &[&str]) -> Option<Child> {
    // So that it lies beside the other one.
    let _ = env!("CARGO_BIN_EXE_foretell-tools");
    let mut command = Command::new(FORETELL);
    let command = command.args(["mount", url]).arg(at).args(["--memory", "8M"]).args(flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.starts_with("mounted at ") {
        return Some(child);
    }
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert!(said.contains("/dev/fuse"), "{said}");
    println!("skipped: {test}: {said}");
    None
}

fn is_mounted(at: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == at.to_str())
}

fn wait_until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not come to be so");
        std::thread::yield_now();
    }
}

#[test]
fn it_is_unmounted_however_it_ends() {
    let (store, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(store.path().join("object"), "bytes of it").unwrap();
    let url = format!("file://{}", store.path().display());
    let at = at.path().canonicalize().unwrap();
    for how in ["-TERM", "-INT", "-KILL", "umount"] {
        let Some(mut child) = mount("it_is_unmounted_however_it_ends", &url, &at) else { return };
        assert_eq!(std::fs::read(at.join("object")).unwrap(), b"bytes of it");
        let status = match how {
            "umount" => Command::new("umount").arg(&at).status(),
            signal => Command::new("kill").args([signal, &child.id().to_string()]).status(),
        };
        assert!(status.unwrap().success());
        let ended = child.wait().unwrap();
        assert!(how == "-KILL" || ended.success(), "{how}: {ended}");
        wait_until(|| !is_mounted(&at));
        assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0);
    }
}

#[test]
fn a_rule_keeps_what_it_names_and_a_profile_is_there_in_the_end() {
    let test = "a_rule_keeps_what_it_names_and_a_profile_is_there_in_the_end";
    let (store, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let kept = tempfile::tempdir().unwrap();
    let profile = kept.path().join("profile");
    std::fs::create_dir(store.path().join("d")).unwrap();
    for name in ["a", "b", "c", "d/e", "d/f", "d/g", "d/h", "d/i"] {
        std::fs::write(store.path().join(name), name.repeat(10_000)).unwrap();
    }
    let url = format!("file://{}", store.path().display());
    let at = at.path().canonicalize().unwrap();
    let rule = format!("{}/d/*=mru,priority=1", at.display());
    let flags = ["--rule", "*.idx=lru,priority=2", "--rule", &rule, "--profile", profile.to_str().unwrap()];
    for _ in 0..2 {
        let Some(mut child) = mount_with(test, &url, &at, &flags) else { return };
        for name in ["a", "b", "c", "d/e", "d/f", "d/g", "d/h", "d/i"] {
            assert_eq!(std::fs::read_to_string(at.join(name)).unwrap(), name.repeat(10_000));
        }
        let status = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(status.unwrap().success() && child.wait().unwrap().success());
        // It is a recording, as all are.
        let shown = Command::new(FORETELL).args(["trace", "show"]).arg(&profile).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(["a", "d/i"].iter().all(|name| shown.contains(name)), "{shown}");
    }
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let at = tempfile::tempdir().unwrap();
    let at = at.path().to_str().unwrap();
    let below = format!("{at}/profile");
    let notes = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(notes.path(), "somebody's notes").unwrap();
    let notes = notes.path().to_str().unwrap();
    let file = "file:///proc/self/fdinfo";
    let cases: [(&[&str], &str); 14] = [
        (&[file, at, "--rule", "**"], "is not GLOB=POLICY"),
        (&[file, at, "--rule", "**=mur"], "did you mean 'mru'?"),
        (&[file, at, "--rule", "/other/**=mru"], "rule '/other/**=mru': names nothing below"),
        (&[file, at, "--rule", "a=mru", "--rule", "b=lru"], "give priority 0 two policies"),
        (&[file, at, "--profile", &below], "would be hidden by what is mounted there"),
        (&[file, at, "--profile", "/no/such/profile"], "/no/such/profile"),
        (&[file, at, "--profile", at], at),
        (&[file, at, "--profile", notes], "not a recording"),
        (&["ftp://a/b", at], "unknown scheme"),
        (&["file:///no/such/folder", at], "file:///no/such/folder: no such object"),
        (&["s3://bucket", "/no/such"], "/no/such: nothing can be mounted there"),
        (&["s3://bucket", at, "--option", "region"], "NAME=VALUE is needed"),
        (&["s3://bucket", at, "--memory", "1K"], "budget: 1024 bytes hold no part"),
        (&["s3://bucket", at, "--disk", "1G"], "--disk-dir"),
    ];
    for (args, said) in cases {
        let output = Command::new(FORETELL).arg("mount").args(args).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.lines().count() == 1 && error.contains(said), "{args:?}: {error}");
    }
}
