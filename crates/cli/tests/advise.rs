//! `foretell advise` as its users start it: on jobs that were learnt, on recordings, and on what is neither.

#![allow(clippy::unwrap_used)]

mod harness;

use std::path::{Path, PathBuf};

use foretell_recording::{Access, Event, FileNumber, FileRecord, PAGE_BYTES, Role, RoleId, Summary, Writer};
use harness::{Ended, Tree, can_control, foretell};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// A recording of one process that reads `files` files of `pages` pages each, `passes` times all of them, and waits
/// `wait_ns` for each file.
fn record(path: &Path, files: u32, pages: u32, passes: u32, wait_ns: u64) -> PathBuf {
    let mut writer = Writer::create(path).unwrap();
    let role = RoleId(0);
    writer.write(&Event::Role(role, Role { parent: None, name: "job".to_owned(), ordinal: 0 })).unwrap();
    for n in 0..files {
        let path = format!("/nonexistent/data/{n}").into();
        let file =
            FileRecord { path, dev: 0, ino: n.into(), size: u64::from(pages) * PAGE_BYTES, mtime_ns: 0 };
        writer.write(&Event::File(FileNumber(n), file)).unwrap();
    }
    let mut at_ns = 0;
    for _ in 0..passes {
        for n in 0..files {
            at_ns += MS / 2;
            let access = Access { at_ns, waited_ns: wait_ns, ..Access::read(role, FileNumber(n), 0, pages) };
            writer.write(&Event::Access(access)).unwrap();
            at_ns += wait_ns;
        }
    }
    let distinct_bytes = u64::from(files) * u64::from(pages) * PAGE_BYTES;
    let summary = Summary {
        elapsed_ns: at_ns + MS,
        wait_ns: wait_ns * u64::from(passes * files),
        device_read_bytes: if wait_ns > 0 { distinct_bytes * u64::from(passes) } else { 0 },
        exit_code: Some(0),
        ..Summary::default()
    };
    writer.finish(summary).unwrap();
    path.to_owned()
}

fn advise(arguments: &[&str]) -> Ended {
    foretell(["advise"].iter().chain(arguments))
}

#[test]
fn a_recording_is_enough_to_be_advised() {
    let tree = Tree::new(&[]);
    let recording = record(&tree.file("recording"), 500, 64, 3, 4 * MS);
    let recording = recording.to_str().unwrap();
    let told = advise(&[recording, "--memory", "100M", "--json"]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(told["verdict"]["advice"], "learn", "{told}");
    assert_eq!(
        (&told["profile"]["file_count"], &told["profile"]["files"]),
        (&500.into(), &Value::Array(vec![]))
    );
    let steps = told["forecast"].as_array().unwrap();
    assert!(steps.len() >= 6);
    let distinct_bytes = 500 * 64 * PAGE_BYTES;
    let seconds = |step: &Value, of: &str| step[of].as_f64().unwrap();
    // 1,500 reads of 4.5 ms each: what was recorded is what is predicted with little memory.
    let kernel = seconds(&steps[0], "kernel_s");
    assert!((6.6..6.9).contains(&kernel), "{kernel}");
    for step in steps {
        assert!(seconds(step, "best_s") <= seconds(step, "foretell_s"), "{step}");
        // With too little for its own books it leaves the job alone; what fits without it may not beside it.
        let memory_bytes = step["memory_bytes"].as_u64().unwrap();
        if memory_bytes < distinct_bytes {
            let steers = memory_bytes >= foretell_learn::LEAST_MEMORY_BYTES;
            assert_eq!(seconds(step, "foretell_s") < seconds(step, "kernel_s"), steers, "{step}");
        }
    }
    let words = advise(&[recording, "--memory", "100M"]);
    for says in
        ["waits 6.00 s of that", "in order, again and again", "read_ahead_kb 4096", "foretell learn --"]
    {
        assert!(words.stdout.contains(says), "{says}: {}", words.stdout);
    }
    let device = advise(&[recording, "--device", "nvme"]);
    assert!(device.stdout.contains("nvme as its model says"), "{}{}", device.stdout, device.stderr);
}

#[test]
fn nothing_to_gain_has_a_reason() {
    let tree = Tree::new(&[]);
    let cached = record(&tree.file("cached"), 100, 4, 3, 0);
    let cached = advise(&[cached.to_str().unwrap()]);
    assert!(cached.stdout.contains("was in memory already"), "{}", cached.stdout);
    let quick = record(&tree.file("quick"), 100, 4, 1, MS);
    let quick = advise(&[quick.to_str().unwrap()]);
    assert!(quick.stdout.contains("it waits too little for storage"), "{}", quick.stdout);
}

#[test]
fn all_jobs_are_advised_in_a_table() {
    if !can_control("all_jobs_are_advised_in_a_table") {
        return;
    }
    let tree = Tree::new(&[("a.dat", 1 << 20)]);
    let state = tree.file("state");
    let state = state.to_str().unwrap();
    assert!(advise(&["--state", state]).stdout.contains("No job is known yet"));
    let script = format!("cat '{}' > /dev/null", tree.file("a.dat").display());
    for name in ["first", "second"] {
        let night = foretell([
            "learn", "-q", "--as", "watch", "--state", state, "--name", name, "--", "sh", "-c", &script,
        ]);
        assert_eq!(night.code, Some(0), "{}", night.stderr);
    }
    std::fs::write(tree.file("state/jobs/second/recording"), "no recording").unwrap();
    let all = advise(&["--state", state]);
    assert_eq!(all.code, Some(0));
    assert!(all.stdout.contains("first") && all.stdout.contains("Nothing to gain"), "{}", all.stdout);
    assert!(all.stderr.lines().count() == 1 && all.stderr.contains("second"), "{}", all.stderr);
    let one = advise(&["--state", state, "first"]);
    assert!(one.stdout.contains("a.dat"), "{}", one.stdout);
}

#[test]
fn wrong_arguments_are_told_in_one_line() {
    let tree = Tree::new(&[]);
    let short = tree.write("short", b"foretell");
    for (arguments, says) in [
        (&["--state", "/nonexistent", "no-such-job"][..], "no job 'no-such-job' is known"),
        (&["/no/such/file"], "neither a job nor a file"),
        (&[short.to_str().unwrap()], "short"),
        (&["/"], "directory"),
        (&["--memory", "much"], "--memory"),
        (&["--device", "nvmee"], "did you mean"),
    ] {
        let ended = advise(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
    }
}
