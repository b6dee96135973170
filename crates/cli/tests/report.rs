//! What is said at the end.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::collections::BTreeSet;

use foretell_policy::Counters;
use foretell_recording::{FileNumber, FileRecord, Recording};
use harness::{Tree, can_control, foretell, number, statistics};

/// The keys of the statistics, but for those that are written only where they say something.
fn keys() -> BTreeSet<&'static str> {
    let all = [
        "controlled",
        "elapsed_s",
        "wait_s",
        "daemon_cpu_s",
        "budget_bytes",
        "block_bytes",
        "lost_events",
        "device_read_bytes",
        "passed_bytes",
        "belady_fetches",
        "hints_skipped",
        "processes",
        "files",
    ];
    all.into_iter().chain(Counters::TABLE.iter().map(|counter| counter.name)).collect()
}

/// The keys that are written only where they say something.
const AT_TIMES: [&str; 5] = ["watched", "uncontrolled_because", "chosen", "belady_missing", "left_out"];

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
    let there = stats.as_object().unwrap().keys().map(String::as_str);
    assert_eq!(there.filter(|key| !AT_TIMES.contains(key)).collect::<BTreeSet<_>>(), keys());
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
fn with_neither_rule_nor_list_a_program_is_only_watched() {
    if !can_control("with_neither_rule_nor_list_a_program_is_only_watched") {
        return;
    }
    let tree = Tree::new(&[("a", 1 << 20), ("b", 1 << 19)]);
    let [a, b, record, stats] =
        ["a", "b", "record", "stats"].map(|name| tree.file(name).display().to_string());
    tree.drop_cache();
    let script = format!("cat {a} {a} {b} | cksum; exit 3");
    let ended = foretell(["run", "--record", &record, "--stats", &stats, "--", "sh", "-c", &script]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("  nothing was changed; "), "{}", ended.stderr);
    assert!(!ended.stderr.contains("budget"), "{}", ended.stderr);
    let stats = statistics(stats.as_ref());
    assert_eq!((&stats["watched"], &stats["controlled"]), (&true.into(), &false.into()), "{stats}");
    for nothing in ["evictions", "prefetches", "lost_events", "budget_bytes"] {
        assert_eq!(number(&stats, nothing), 0, "{nothing}: {stats}");
    }
    // Read from the device once, and found in the cache afterwards.
    assert!(number(&stats, "device_read_bytes") >= 3 << 19, "{stats}");
    for (file, references, fetches) in [(&a, 256, 128), (&b, 64, 64)] {
        let of = stats["files"].as_array().unwrap().iter().find(|f| f["path"] == **file).unwrap();
        assert_eq!((number(of, "references"), number(of, "demand_fetches")), (references, fetches), "{of}");
    }
    for part in ["files", "processes"] {
        let sum: u64 = stats[part].as_array().unwrap().iter().map(|p| number(p, "references")).sum();
        assert_eq!(sum, number(&stats, "references"), "{part}");
    }
    let recording = Recording::read(&record).unwrap();
    let name = |number: FileNumber| recording.files[number.0 as usize].path.display().to_string();
    let read: Vec<_> = recording
        .accesses
        .iter()
        .map(|access| (name(access.file), access.first_page, access.pages))
        .filter(|(file, ..)| *file == a || *file == b)
        .collect();
    // A file of a MiB, twice, and another.
    let expected = [(a.clone(), 0, 256), (a, 0, 256), (b, 0, 128)];
    assert_eq!(read, expected);
    let ours = |file: &FileRecord| file.path.ends_with("foretell");
    assert!(!recording.files.iter().any(ours), "what we run ourselves is not the program's");
    assert_eq!(recording.summary.exit_code, Some(3));
}

#[test]
fn what_does_not_apply_to_a_program_that_is_only_watched_is_said() {
    if !can_control("what_does_not_apply_to_a_program_that_is_only_watched_is_said") {
        return;
    }
    let tree = Tree::new(&[]);
    let file = tree.write("policy.toml", "order = 'fcfs'\n").display().to_string();
    let ended = foretell(["run", "--quiet", "--budget", "64M", "--config", &file, "--", "true"]);
    assert_eq!(ended.code, Some(0));
    let says =
        "foretell: --budget and 'order' of the configuration file do not apply: neither a rule nor a list";
    assert!(ended.stderr.starts_with(says) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    let log = tree.file("log").display().to_string();
    let ended = foretell(["run", "--log-inputs", &log, "--", "true"]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
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
