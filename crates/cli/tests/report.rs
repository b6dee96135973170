//! What is said at the end.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use harness::{Tree, can_control, foretell, number, statistics};

/// The keys of the statistics.
const KEYS: [&str; 20] = [
    "elapsed_s",
    "wait_s",
    "daemon_cpu_s",
    "budget_bytes",
    "block_bytes",
    "references",
    "hits",
    "demand_fetches",
    "prefetches",
    "prefetches_useful",
    "prefetches_late",
    "prefetches_wasted",
    "evictions",
    "evictions_refused",
    "foreign_evictions",
    "lost_events",
    "device_read_bytes",
    "belady_fetches",
    "processes",
    "files",
];

#[test]
fn statistics_add_up() {
    if !can_control("statistics_add_up") {
        return;
    }
    let tree = Tree::new(&[("a", 4 << 20), ("b", 1 << 20)]);
    tree.drop_cache();
    let stats = tree.path().join("stats.json");
    let script = format!(
        "for i in 1 2 3; do cat {} {} > /dev/null; done",
        tree.file("a").display(),
        tree.file("b").display()
    );
    let ended = foretell([
        "run",
        "--budget",
        "2M",
        "--rule",
        &tree.rule("mru"),
        "--stats",
        &stats.display().to_string(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let stats = statistics(&stats);
    KEYS.iter().for_each(|key| assert!(stats.get(key).is_some(), "{key} is missing"));
    assert_eq!(stats["controlled"], true);
    assert_eq!((number(&stats, "budget_bytes"), number(&stats, "block_bytes")), (2 << 20, 8192));
    // 640 blocks, three times, but for what a process reads before it is known to be a child: of the first read of
    // each of six, 16 blocks at most.
    let references = number(&stats, "references");
    assert!((1920 - 6 * 16..=1920).contains(&references), "{references}");
    assert_eq!(number(&stats, "lost_events"), 0);
    // Optimal replacement with room for 256 of 640 blocks keeps about 256 in each of two later passes.
    let best = number(&stats, "belady_fetches");
    assert!((references - 2 * 256..=references - 2 * 240).contains(&best), "{best} of {references}");
    for part in ["files", "processes"] {
        let sum: u64 = stats[part].as_array().unwrap().iter().map(|p| number(p, "references")).sum();
        assert_eq!(sum, references, "{part}");
    }
    assert!(ended.stderr.starts_with("foretell: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("distance from best"), "{}", ended.stderr);
}

#[test]
fn without_rules_all_that_is_read_is_seen() {
    if !can_control("without_rules_all_that_is_read_is_seen") {
        return;
    }
    let tree = Tree::new(&[("a", 1 << 20)]);
    let (a, record) = (tree.file("a").display().to_string(), tree.file("record").display().to_string());
    let ended = foretell(["run", "--record", &record, "--", "cat", &a]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.starts_with("foretell: no rules and no hints: all that it reads"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("distance from best"), "{}", ended.stderr);
    let record = std::fs::read_to_string(record).unwrap();
    assert!(record.lines().any(|line| line.starts_with(&a)), "{record}");
    assert!(!record.contains("/foretell "), "what we run ourselves is not the program's: {record}");
}

#[test]
fn names_that_are_no_text_are_reported_as_far_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    if !can_control("names_that_are_no_text_are_reported_as_far_as_they_are") {
        return;
    }
    let tree = Tree::new(&[]);
    let odd = tree.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    std::fs::write(&odd, [1; 10_000]).unwrap();
    let stats = tree.path().join("stats.json");
    let script = format!("cat {}/odd* > /dev/null", tree.path().display());
    let stats_argument = stats.display().to_string();
    let ended =
        foretell(["run", "--rule", &tree.rule("mru"), "--stats", &stats_argument, "--", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let files = statistics(&stats)["files"].clone();
    assert!(files[0]["path"].as_str().unwrap().ends_with("/odd\u{fffd}"), "{files}");
}

#[test]
fn quiet_says_nothing() {
    if !can_control("quiet_says_nothing") {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    let ended = foretell(["run", "--quiet", "--rule", &tree.rule("mru"), "--", "true"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_rule_that_matches_nothing_is_a_warning() {
    if !can_control("a_rule_that_matches_nothing_is_a_warning") {
        return;
    }
    let tree = Tree::new(&[("d/a", 10)]);
    let run = |rule: &str| foretell(["run", "--quiet", "--rule", rule, "--", "true"]);
    let ended = run(&format!("{}/*.db=mru", tree.path().display()));
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("matches no file at present") && ended.stderr.lines().count() == 1);
    let ended = run(&format!("{}/d=mru", tree.path().display()));
    assert!(ended.stderr.contains("/d/**' matches the files in it"), "{}", ended.stderr);
}

#[test]
fn a_record_can_be_used_as_hints() {
    if !can_control("a_record_can_be_used_as_hints") {
        return;
    }
    let tree = Tree::new(&[("a", 1 << 20)]);
    let record = tree.file("record").display().to_string();
    let a = tree.file("a").display().to_string();
    let first =
        foretell(["run", "--quiet", "--rule", &tree.rule("lru"), "--record", &record, "--", "cat", &a]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let second = foretell(["run", "--quiet", "--hints", &record, "--", "cat", &a]);
    assert_eq!((second.code, second.stderr.as_str()), (Some(0), ""));
}

#[test]
fn the_doctor_says_the_same_twice() {
    let json = foretell(["doctor", "--json"]);
    let findings: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let can_run = findings["can_run"].as_bool().unwrap();
    assert_eq!(json.code, Some(if can_run { 0 } else { 1 }));
    let table = foretell(["doctor"]);
    assert_eq!(table.code, json.code);
    let mechanisms = findings["mechanisms"].as_array().unwrap();
    assert!(mechanisms.len() >= 10);
    for mechanism in mechanisms {
        let name = mechanism["name"].as_str().unwrap();
        assert!(table.stdout.contains(name), "{name}");
        assert!(mechanism["works"] == true || mechanism["used"] == false, "{name}");
    }
}
