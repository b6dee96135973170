//! Where jobs run in containers: in namespaces of their own, and in control groups with limits. The namespaces are made by
//! unshare(1), as container engines make them.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use foretell_cgroup::{Controller, MemoryGroup, Place};
use foretell_testkit::cached_pages;
use harness::{Ended, FORETELL, Go, Tree, can_control, foretell, number, statistics};

const BLOCK: usize = 8192;
/// Blocks of a file that each of the jobs here reads.
const BLOCKS: usize = 512;

/// Blocks of which the kernel may not tell that they were read. Where a page is evicted while it is waited for, it gives the
/// program those that it has before that one, and goes on behind them without its tracepoint (`filemap_get_pages` of
/// `mm/filemap.c`).
const MISSED: u64 = 64;

/// A shell script in new namespaces; `None`, with a word, where such cannot be made.
fn within(test: &str, namespaces: &[&str], script: &str) -> Option<Ended> {
    let unshare = |script: &str| {
        let shell = ["sh", "-c", script];
        Command::new("unshare").args(namespaces).args(["--fork"]).args(shell).stdin(Stdio::null()).output()
    };
    match unshare("true") {
        Ok(made) if made.status.success() => Some(unshare(script).unwrap().into()),
        _ => {
            println!("skipped: {test}: unshare {} is not possible here", namespaces.join(" "));
            None
        }
    }
}

#[test]
fn in_a_pid_namespace_and_those_below_a_job_is_steered_as_anywhere() {
    let test = "in_a_pid_namespace_and_those_below_a_job_is_steered_as_anywhere";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("data", BLOCKS * BLOCK), ("state", 0)]);
    let (data, state) = (tree.file("data").display().to_string(), tree.file("state").display().to_string());
    let (read, go) = (tree.file("read"), tree.file("go"));
    let script = format!(
        "{FORETELL} run --no-service --budget 1M --rule '{data}=mru' --stats {state} -- sh -c \
         'cat {data} | cksum; : > {}; {}; unshare --pid --fork --mount-proc cat {data} | cksum; exit 7'",
        read.display(),
        Go::awaited(&go).replace('\'', "")
    );
    if within(test, &["--pid", "--mount-proc"], "true").is_none() {
        return;
    }
    // A job that is quicker than we are would have ended before anything of its is evicted.
    let is_evicted = || read.exists() && cached_pages(data.as_ref()) < BLOCKS * BLOCK / 4096 / 2;
    let ended = Go::when(&go, "most of it is evicted", is_evicted, || {
        within(test, &["--pid", "--mount-proc"], &script)
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    let stats = statistics(state.as_ref());
    assert_eq!(stats["controlled"], true, "{}", ended.stderr);
    let references = number(&stats, "references");
    assert!((2 * BLOCKS as u64 - MISSED..=2 * BLOCKS as u64).contains(&references), "{}", ended.stderr);
    assert!(number(&stats, "evictions") > 0, "{}", ended.stderr);
}

#[test]
fn who_is_nested_too_deep_is_not_followed_and_nobody_else_in_its_place() {
    let test = "who_is_nested_too_deep_is_not_followed_and_nobody_else_in_its_place";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("data", BLOCKS * BLOCK), ("other", BLOCKS * BLOCK)]);
    let at = Tree::new(&[("state", 0)]);
    let [data, other] = ["data", "other"].map(|name| tree.file(name).display().to_string());
    let [state, deep, go] = ["state", "deep", "go"].map(|name| at.file(name));
    // In nine namespaces below ours; of seven the programs can tell. It starts nothing there before the other reads: with the end
    // of any process that has no number all of these would be nobody again.
    let nest = format!(
        "N=$((N - 1)); export N; if [ $N -gt 0 ]; then exec unshare --pid --fork --mount-proc sh -c \"$NEST\"; fi; \
         : > {}; until [ -e {} ]; do :; done; cat {data} >/dev/null",
        deep.display(),
        go.display()
    );
    let (rule, stats) = (tree.rule("mru"), state.display());
    let script = format!(
        "export N=10 NEST='{nest}'; {FORETELL} run --no-service --budget 16M --rule '{rule}' --stats {stats} -- \
         sh -c 'cat {data} >/dev/null; exec sh -c \"$NEST\"'"
    );
    if within(test, &["--pid", "--mount-proc"], "true").is_none() {
        return;
    }
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            harness::wait_until("the job is deep", || deep.exists());
            assert!(Command::new("cat").arg(&other).stdout(Stdio::null()).status().unwrap().success());
            std::fs::write(&go, "").unwrap();
        });
        within(test, &["--pid", "--mount-proc"], &script)
    });
    let Some(ended) = ended else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let stats = statistics(&state);
    assert_eq!(number(&stats, "references"), BLOCKS as u64, "{stats}");
}

#[test]
fn in_a_pid_namespace_a_job_is_watched_and_its_night_is_known() {
    let test = "in_a_pid_namespace_a_job_is_watched_and_its_night_is_known";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("data", BLOCKS * BLOCK)]);
    let (data, reads) = (tree.file("data").display().to_string(), tree.file("reads").display().to_string());
    let script = format!("{FORETELL} run --record {reads} -- cat {data} >/dev/null");
    let Some(ended) = within(test, &["--pid", "--mount-proc"], &script) else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let listed = foretell(["trace", "hints", &reads]);
    assert!(listed.stdout.contains(&data), "{}{}", listed.stdout, listed.stderr);
}

#[test]
fn from_a_container_the_service_of_the_host_is_spoken_to() {
    let test = "from_a_container_the_service_of_the_host_is_spoken_to";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[]);
    let socket = tree.file("socket");
    let mut service = Command::new(FORETELL)
        .args(["daemon", "--budget", "16M", "--socket"])
        .arg(&socket)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    harness::wait_until("the service listens", || socket.exists());
    let script = format!("{FORETELL} status --socket {}", socket.display());
    let ended = within(test, &["--pid", "--mount-proc"], &script);
    service.kill().unwrap();
    service.wait().unwrap();
    let Some(ended) = ended else { return };
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("16.0 MiB"), "{}", ended.stdout);
}

#[test]
fn where_control_is_not_possible_the_job_runs_and_one_line_says_why() {
    let test = "where_control_is_not_possible_the_job_runs_and_one_line_says_why";
    // Another namespace's /proc; a user namespace, whose root is nobody to the kernel.
    let namespaces: [(&[&str], &str); 2] = [
        (&["--pid"], "another pid namespace"),
        (&["--user", "--map-root-user", "--pid", "--mount-proc"], "the host's user namespace"),
    ];
    for (namespaces, why) in namespaces {
        for command in ["run --rule '/proc/version=mru' --budget 1M", "run"] {
            let script = format!("{FORETELL} {command} -- sh -c 'echo ran; exit 5'");
            let Some(ended) = within(test, namespaces, &script) else { return };
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "ran\n"), "{}", ended.stderr);
            assert!(ended.stderr.contains(why) && ended.stderr.contains("uncontrolled"), "{}", ended.stderr);
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        }
        let state = tempfile::tempdir().unwrap();
        let at = state.path().display();
        let script = format!("{FORETELL} learn --state {at} -- sh -c 'echo ran; exit 5'");
        let Some(ended) = within(test, namespaces, &script) else { return };
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "ran\n"), "{}", ended.stderr);
    }
}

#[test]
fn a_budget_by_itself_is_half_of_what_the_jobs_group_may_have() {
    let test = "a_budget_by_itself_is_half_of_what_the_jobs_group_may_have";
    let place = match Place::find(Controller::Memory, &format!("foretell-containers-{}", std::process::id()))
    {
        Ok(place) => place,
        Err(why) => return println!("skipped: {test}: {why}"),
    };
    if !can_control(test) {
        return;
    }
    let group = match MemoryGroup::new(place, Some(256 << 20)) {
        Ok(group) => group,
        Err(why) => return println!("skipped: {test}: {why}"),
    };
    let tree = Tree::new(&[("data", BLOCKS * BLOCK)]);
    let stats = tree.file("stats").display().to_string();
    let directory = group.procs().parent().unwrap().display().to_string();
    // Of a program that we start we are in the group ourselves.
    let run = format!(
        "echo $$ >'{}'; exec {FORETELL} run --no-service --rule '{}' --stats {stats} -- true",
        group.procs().display(),
        tree.rule("mru")
    );
    let shell = Command::new("sh").args(["-c", &run]).stdin(Stdio::null()).output().unwrap();
    assert!(shell.status.success(), "{}", String::from_utf8_lossy(&shell.stderr));
    assert_eq!(number(&statistics(stats.as_ref()), "budget_bytes"), 128 << 20);
    // One that runs already is elsewhere; its end ends the run.
    for by_group in [false, true] {
        let mut job = Command::new("sh").args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        group.enter(job.id()).unwrap();
        let pid = job.id().to_string();
        let to = if by_group { ["--cgroup", directory.as_str()] } else { ["--pid", &pid] };
        let mut run = Command::new(FORETELL)
            .args(["run", "--rule", &tree.rule("mru"), "--stats", &stats])
            .args(to)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("attached to ")), "{to:?}");
        drop(job.stdin.take());
        job.wait().unwrap();
        lines.for_each(drop);
        assert!(run.wait().unwrap().success());
        assert_eq!(number(&statistics(stats.as_ref()), "budget_bytes"), 128 << 20, "{to:?}");
    }
}
