//! `--log-inputs` and `foretell replay` as processes.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::path::Path;

use harness::{Ended, Tree, can_control, foretell, number, statistics};
use serde_json::Value;

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Logs a run on wrong hints, which fetches in vain.
fn simulated(tree: &Tree, name: &str, more: &[&str]) -> (std::path::PathBuf, Value) {
    let log = tree.file(name);
    let log_text = text(&log);
    let fixed = ["sim", "--workload", "cscope1", "--cache", "300", "--json", "--log-inputs", &log_text];
    let ended = foretell([&fixed[..], more].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{more:?}");
    (log, serde_json::from_str(&ended.stdout).unwrap())
}

fn replay(log: &Path, more: &[&str]) -> Ended {
    foretell([&["replay", &text(log)][..], more].concat())
}

/// It must fail in one line that contains `says`.
fn refused(ended: &Ended, says: &str) {
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("foretell: ") && ended.stderr.contains(says), "{}", ended.stderr);
}

#[test]
fn a_simulated_log_replays_equal() {
    let tree = Tree::new(&[]);
    for policy in ["informed", "forestall", "linux", "demand-lru"] {
        let (log, results) = simulated(&tree, policy, &["--policy", policy, "--hints-perturb", "20%"]);
        let ended = replay(&log, &["--json"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{policy}");
        let outcome: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(outcome["same"], Value::Bool(true), "{policy}: {outcome}");
        assert_eq!(outcome["end"], "complete");
        let result = results.as_array().unwrap().iter().find(|r| r["policy"] == policy).unwrap();
        assert_eq!(outcome["counters"]["references"], result["references"], "{policy}");
        assert_eq!(outcome["counters"]["prefetches_wasted"], result["wasted_fetches"], "{policy}");
        let said = replay(&log, &[]);
        assert!(said.code == Some(0) && said.stdout.contains("the same, bit for bit"), "{}", said.stdout);
    }
    // Nothing but the logs is left.
    let left = std::fs::read_dir(tree.path()).unwrap().count();
    assert_eq!(left, 4, "partial logs are left");
}

#[test]
fn inputs_and_actions_are_shown_a_line_each() {
    let tree = Tree::new(&[]);
    let (log, _) = simulated(&tree, "log", &["--policy", "informed"]);
    let ended = replay(&log, &["--until", "40", "--print"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let inputs = ended.stdout.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit())).count();
    assert_eq!(inputs, 40, "{}", ended.stdout);
    assert!(ended.stdout.contains("disclosed manager 0 list 0:"), "{}", ended.stdout);
    assert!(ended.stdout.contains("  -> fetch "), "{}", ended.stdout);
    assert!(ended.stdout.contains("40   as many as were asked for"), "{}", ended.stdout);
}

#[test]
fn a_log_is_shrunk_to_what_shows_something() {
    let tree = Tree::new(&[]);
    let (log, _) = simulated(&tree, "log", &["--policy", "informed"]);
    let small = tree.file("small");
    let ended = replay(&log, &["--shrink", &text(&small), "--while", "prefetches>3"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let ended = replay(&small, &["--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let outcome: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(number(&outcome["counters"], "prefetches") > 3, "{outcome}");
    assert!(number(&outcome, "inputs") < 100, "{outcome}");
    refused(&replay(&log, &["--shrink", &text(&small), "--while", "panics"]), "'panics' is not so");
    refused(&replay(&log, &["--shrink", &text(&small), "--while", "wasted>1"]), "unknown counter 'wasted'");
    refused(&replay(&log, &["--shrink", &text(&small)]), "--while");
}

#[test]
fn what_is_no_whole_log_is_told_in_one_line() {
    let tree = Tree::new(&[]);
    let (log, _) = simulated(&tree, "log", &["--policy", "informed"]);
    let bytes = std::fs::read(&log).unwrap();
    // What there is of a log that was cut short is replayed all the same.
    let cut = replay(&tree.write("cut", &bytes[..bytes.len() / 2]), &[]);
    refused(&cut, "cut short after");
    assert!(cut.stdout.contains("up to where the log was cut short"), "{}", cut.stdout);
    refused(&replay(&tree.write("short", &bytes[..9]), &[]), "cut short after 0 inputs");
    refused(&replay(&tree.write("foreign", b"PAR1 and more"), &[]), "foreign: not a log of inputs; give");
    refused(&replay(&tree.write("empty", b""), &[]), "not a log of inputs");
    for version in [1, foretell_replay::OLDEST_VERSION - 1, foretell_replay::VERSION + 1, u16::MAX] {
        let mut other = bytes.clone();
        other[8..10].copy_from_slice(&version.to_le_bytes());
        refused(
            &replay(&tree.write("other", &other), &[]),
            &format!("a log of version {version}, this program"),
        );
    }
    let mut damaged = bytes;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x40;
    let damaged = replay(&tree.write("damaged", &damaged), &[]);
    assert_ne!(damaged.code, Some(0), "{}", damaged.stdout);
    refused(&replay(&tree.file("nothing"), &[]), "nothing: No such file");
    refused(&replay(&tree.path(), &[]), "directory");
}

#[test]
fn only_one_run_is_logged() {
    let tree = Tree::new(&[]);
    let log = text(&tree.file("log"));
    let sim =
        |more: &[&str]| foretell([&["sim", "--workload", "ld", "--log-inputs", &log][..], more].concat());
    refused(&sim(&[]), "--log-inputs: logs one run, and these are");
    refused(&sim(&["--policy", "informed", "--disks", "1,2"]), "these are 2; give one --policy");
    refused(&sim(&["--policy", "demand-lru", "--device", "none"]), "without a device");
    refused(&sim(&["--policy", "reverse-aggressive"]), "give --reverse F/BATCH");
    let nowhere = ["sim", "--workload", "ld", "--policy", "informed", "--log-inputs", "/no/such/directory/x"];
    refused(&foretell(nowhere), "--log-inputs /no/such/directory/x: there is no directory");
    let device = ["sim", "--workload", "ld", "--policy", "informed", "--log-inputs", "/dev/null"];
    refused(&foretell(device), "--log-inputs /dev/null: is no regular file");
    assert_eq!(std::fs::read_dir(tree.path()).unwrap().count(), 0, "something was left");
}

#[test]
fn the_log_of_a_live_run_replays_equal() {
    let test = "the_log_of_a_live_run_replays_equal";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("a", 4 << 20), ("b", 1 << 20)]);
    tree.drop_cache();
    let (log, stats) = (tree.file("log"), tree.file("stats.json"));
    let hints = tree.write("hints", format!("{}\n{}\n", text(&tree.file("a")), text(&tree.file("b"))));
    let script = format!("cat {0} {1} {0} > /dev/null", text(&tree.file("a")), text(&tree.file("b")));
    let ended = foretell([
        "run",
        "--quiet",
        "--budget",
        "2M",
        "--hints",
        &text(&hints),
        "--log-inputs",
        &text(&log),
        "--stats",
        &text(&stats),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let ended = replay(&log, &["--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let outcome: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(outcome["same"], Value::Bool(true), "{outcome}");
    let stats = statistics(&stats);
    for counter in ["references", "hits", "prefetches", "evictions"] {
        assert_eq!(number(&outcome["counters"], counter), number(&stats, counter), "{counter}");
    }
    assert!(number(&stats, "references") > 0);
}

#[test]
fn a_log_that_cannot_be_written_is_found_before_the_program_runs() {
    let tree = Tree::new(&[]);
    let mark = tree.file("mark");
    for (path, says) in
        [("/no/such/directory/x", "there is no directory"), ("/dev/null", "is no regular file")]
    {
        let ended = foretell(["run", "--log-inputs", path, "--", "touch", &text(&mark)]);
        refused(&ended, says);
        assert!(!mark.exists(), "the program was started");
    }
}
