//! A cut of the suite, as its users start it: programs that every machine has, with little data. Times are not looked at.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const SUITE: &str = env!("CARGO_BIN_EXE_foretell-benchmarks");
/// What the runs of a cell are called in the JSON.
const RUNS: [&str; 7] =
    ["kernel_128", "kernel_1024", "kernel_4096", "night_1", "night_2", "kernel_changed", "night_3"];

/// The command that is measured, if it was built and may do what it must here.
fn foretell() -> Option<PathBuf> {
    let foretell = Path::new(SUITE).with_file_name("foretell");
    let doctor = Command::new(&foretell).arg("doctor").output();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let why = if !doctor.is_ok_and(|output| output.status.success()) {
        "foretell is not there, or its 'doctor' says that nothing can be controlled here"
    } else if !Path::new("/dev/fuse").exists() || !Path::new("/dev/loop-control").exists() {
        "a slow device needs FUSE and loop devices"
    } else if !mounts.contains(" - cgroup") {
        "no memory cgroup is mounted here"
    } else {
        return Some(foretell);
    };
    println!("skipped: {why}");
    None
}

#[test]
fn three_programs_read_the_same_on_every_night() {
    let Some(foretell) = foretell() else { return };
    let temporary = tempfile::tempdir().unwrap();
    let json = temporary.path().join("suite.json");
    let mut suite = Command::new(SUITE);
    suite.args([
        "suite",
        "--only",
        "GNU",
        "--shrink",
        "64",
        "--rounds",
        "1",
        "--memory",
        "50",
        "--devices",
        "cloud",
    ]);
    let output = suite.arg("--json").arg(&json).arg("--foretell").arg(foretell).output().unwrap();
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{table}{said}");

    let result: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let arms = result["arms"].as_object().unwrap();
    let names: Vec<&str> = arms.keys().map(String::as_str).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for (name, metrics) in arms {
        assert!(table.contains(name), "{name} is not in the table: {table}");
        let value = |metric: &str| {
            metrics[metric]["median"].as_f64().unwrap_or_else(|| panic!("{name}: no {metric}: {table}"))
        };
        assert_eq!(value("other_outputs"), 0.0, "{name}: {table}");
        let read_mib = value("read_mib");
        assert!((0.5..100.0).contains(&read_mib), "{name}: {read_mib} MiB");
        assert!(value("limit_mib") > read_mib / 2.0, "{name}");
        for run in RUNS {
            assert!(value(&format!("{run}_s")) > 0.0, "{name}: {run}");
            // All of it was cold.
            let mib = value(&format!("{run}_mib"));
            assert!(mib >= read_mib * 0.9 && mib <= read_mib * 4.0, "{name}: {run}: {mib} of {read_mib} MiB");
        }
    }
    for words in ["geometric mean of 3", "slower than the plain kernel by more than 2%", "not installed"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    let verdicts = result["verdicts"].as_array().unwrap();
    let wrong = verdicts.iter().find(|verdict| verdict["what"].as_str().unwrap().contains("another output"));
    assert_eq!(wrong.unwrap()["value"], 0.0, "{table}");
}

#[test]
fn nothing_is_left_of_a_suite_that_is_killed() {
    if foretell().is_none() {
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let mut suite = Command::new(SUITE);
    suite.args(["suite", "--only", "GNU tar", "--shrink", "16", "--devices", "cloud", "--kernel-only"]);
    let mut suite = suite.env("TMPDIR", temporary.path()).stdout(Stdio::null()).spawn().unwrap();
    let directory = temporary.path().join(format!("foretell-bench-{}", suite.id()));
    // Its data are being made, on a device that is mounted.
    wait_until(|| directory.join("suite/suite/files").exists());
    suite.kill().unwrap();
    suite.wait().unwrap();
    wait_until(|| !directory.exists());
}

fn wait_until(done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_makes_no_sense_is_one_line() {
    for arguments in [["--only", "no such program"], ["--memory", "0"], ["--devices", "tape"]] {
        let output = Command::new(SUITE).args(["suite", "--kernel-only"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("error: "), "{arguments:?}");
    }
}
