//! `foretell trace show` as a process, and recordings where traces are taken.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::path::{Path, PathBuf};

use foretell_recording::{Access, Event, FileNumber, FileRecord, Role, RoleId, Summary, Way, Writer};
use harness::{Ended, foretell};

/// A shell that starts two programs: one reads a file twice, the other another file backwards and writes a third.
fn record(path: &Path) {
    let mut writer = Writer::create(path).unwrap();
    let role = |parent: Option<u32>, name: &str, ordinal| Role {
        parent: parent.map(RoleId),
        name: name.to_owned(),
        ordinal,
    };
    let roles = [role(None, "sh", 0), role(Some(0), "sort", 0), role(Some(0), "tac", 1)];
    for (n, role) in roles.into_iter().enumerate() {
        writer.write(&Event::Role(RoleId(n as u32), role)).unwrap();
    }
    for (n, name) in ["/data/forward", "/data/backward", "/data/written"].into_iter().enumerate() {
        let record = FileRecord { path: name.into(), dev: 1, ino: n as u64, size: 64 * 4096, mtime_ns: 0 };
        writer.write(&Event::File(FileNumber(n as u32), record)).unwrap();
    }
    let mut at_ns = 0;
    let mut access = |role, file, first_page, way| {
        at_ns += 1_000_000;
        let read = Access::read(RoleId(role), FileNumber(file), first_page, 2);
        let access = Access { at_ns, waited_ns: 500_000, way, ..read };
        writer.write(&Event::Access(access)).unwrap();
    };
    for page in (0..64).step_by(2).chain((0..64).step_by(2)) {
        access(1, 0, page, Way::Read);
    }
    for page in (0..64).step_by(2) {
        access(2, 1, 62 - page, Way::Mapped);
    }
    for page in (0..16).step_by(2) {
        access(2, 2, page, Way::Written);
    }
    writer.finish(Summary::default()).unwrap();
}

fn recording(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("night");
    record(&path);
    path
}

fn ok(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

fn one_line(ended: &Ended, says: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}

#[test]
fn a_terminal_shows_where_a_trace_reads() {
    let directory = tempfile::tempdir().unwrap();
    let path = recording(&directory);
    let text = ok(foretell(["trace", "show", path.to_str().unwrap(), "--block-bytes", "4096", "-n", "2"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(lines[0], "/data/forward  128 references");
    assert_eq!(lines[9], "/data/backward  64 references");
    assert!(lines[1].starts_with("   256 KB │") && lines[8].starts_with("      0 B │"), "{text}");
    assert_eq!(lines.last(), Some(&"1 more file: /data/written (16)"));
    assert_eq!(lines.len(), 2 * 9 + 2 + 1);
    assert!(lines[19].ends_with("103 ms"), "{text}");
    // Forwards twice: the file's beginning, in the lowest line, comes before its end, in the highest.
    let first = |line: &str| line.chars().skip(11).position(|c| c != ' ').unwrap();
    assert!(first(lines[8]) < first(lines[1]), "{text}");
    // Backwards: the other way round.
    assert!(first(lines[17]) > first(lines[10]), "{text}");
}

#[test]
fn any_trace_is_shown() {
    let text = ok(foretell(["trace", "show", "--workload", "loop:blocks=100,passes=3"]));
    assert!(text.contains("300 references") && text.contains("reference 0"), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let lirs = directory.path().join("a.lirs");
    std::fs::write(&lirs, "1\n2\n3\n").unwrap();
    assert!(ok(foretell(["trace", "show", lirs.to_str().unwrap()])).contains("3 references"));
    std::fs::write(&lirs, "*\n").unwrap();
    assert_eq!(ok(foretell(["trace", "show", lirs.to_str().unwrap()])), "no references\n");
}

#[test]
fn pictures_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = recording(&directory);
    let (svg, png) = (directory.path().join("a.svg"), directory.path().join("a.png"));
    let flags = ["--svg", svg.to_str().unwrap()];
    let arguments = ["trace", "show", path.to_str().unwrap(), "-n", "2"];
    assert_eq!(ok(foretell(arguments.iter().chain(&flags))), "");
    let text = std::fs::read_to_string(&svg).unwrap();
    for wanted in ["<svg", "/data/forward", "/data/backward", "1 more file: /data/written (8)", "256 KB"] {
        assert!(text.contains(wanted), "{wanted}");
    }
    for unwanted in ["NaN", "inf"] {
        assert!(!text.contains(unwanted), "{unwanted}");
    }
    let ended = foretell(arguments.iter().chain(&["--png", png.to_str().unwrap()]));
    if ended.stderr.contains("a PNG needs a font") {
        println!("skipped: pictures_are_written: no font is installed");
        return;
    }
    ok(ended);
    assert!(std::fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 3, "no temporary file is left");
}

#[test]
fn mistakes_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = recording(&directory);
    let path = path.to_str().unwrap();
    one_line(&foretell(["trace", "show", path, "-n", "0"]), "--files 0: give 1 to 64");
    one_line(&foretell(["trace", "show", path, "--svg", "/no/such/a.svg"]), "there is no directory /no/such");
    one_line(&foretell(["trace", "show", "/dev/null"]), "name a regular file");
    let whole = std::fs::read(path).unwrap();
    std::fs::write(path, &whole[..whole.len() - 1]).unwrap();
    for command in [["trace", "show", path], ["trace", "info", path], ["sim", "--trace", path]] {
        one_line(&foretell(command), "cut short; copy it again or record the job again");
    }
}

#[test]
fn a_recording_is_simulated_and_summarised() {
    let directory = tempfile::tempdir().unwrap();
    let path = recording(&directory);
    let path = path.to_str().unwrap();
    let info = ok(foretell(["trace", "info", path, "--block-bytes", "4096"]));
    for wanted in ["references       208 (16 writes)", "processes        2", "files            3"] {
        assert!(info.contains(wanted), "{wanted}: {info}");
    }
    let head = ok(foretell(["trace", "head", path, "-n", "1"]));
    assert!(head.contains("sort#1") && head.contains("/data/forward"), "{head}");
    let sim = ok(foretell(["sim", "--trace", path, "--policy", "demand-lru", "--cache", "16", "--json"]));
    let result: serde_json::Value = serde_json::from_str(&sim).unwrap();
    assert_eq!(result[0]["references"], 32 * 3);
}
