//! `foretell run --pid` and `--cgroup`: a job that runs already is watched and steered, and never harmed.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use foretell_cgroup::{Controller, MemoryGroup, Place};
use foretell_testkit::cached_pages;
use harness::{Ended, FORETELL, Go, Tree, can_control, foretell, number, statistics, wait_until};
use rustix::process::{Pid, Signal, kill_process};

const MIB: usize = 1 << 20;

/// A job that waits for a file called `go` in the tree, does what `then` says, and ends with exit code 7.
fn job(tree: &Tree, then: &str) -> Child {
    let script =
        format!("cd '{}'; while [ ! -e go ]; do sleep 0.02; done; {then}; exit 7", tree.path().display());
    Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap()
}

/// A foretell that has said that it is attached. Killed when dropped.
struct Attached {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Attached {
    fn to(arguments: &[&str]) -> Attached {
        let mut child = Command::new("env")
            .args(["--default-signal", FORETELL, "run"])
            .args(arguments)
            .env("FORETELL_SOCKET", "/nonexistent/foretelld.sock")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("attached to ") {
            let told = line.len();
            assert!(said.read_line(&mut line).unwrap() > 0, "it did not attach: {line:?}");
            assert!(line.len() > told);
        }
        Attached { child, said }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    fn end(mut self) -> Ended {
        let mut stderr = String::new();
        self.said.read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        Ended { code, signal: None, stdout: String::new(), stderr }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_job_that_runs_already_is_watched_and_recorded_to_its_end() {
    if !can_control("a_job_that_runs_already_is_watched_and_recorded_to_its_end") {
        return;
    }
    let tree = Tree::new(&[("data", 2 * MIB)]);
    let mut job = job(&tree, "cat data > read");
    let (record, stats) = (tree.file("record"), tree.file("stats"));
    let pid = job.id().to_string();
    let attached = Attached::to(&["--pid", &pid, "--record", text(&record), "--stats", text(&stats)]);
    tree.write("go", "");
    assert_eq!(job.wait().unwrap().code(), Some(7));
    let ended = attached.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("nothing was changed"), "{}", ended.stderr);
    let stats = statistics(&stats);
    assert!(stats["watched"].as_bool().unwrap() && number(&stats, "references") >= 256, "{stats}");
    let names =
        stats["processes"].as_array().unwrap().iter().map(|process| process["name"].as_str().unwrap());
    assert!(names.clone().any(|name| name == "cat"), "{stats}");
    let hints = foretell(["trace", "hints", text(&record)]);
    assert!(hints.stdout.contains(text(&tree.file("data"))), "{}{}", hints.stdout, hints.stderr);
}

#[test]
fn its_files_follow_a_rule_from_then_on() {
    if !can_control("its_files_follow_a_rule_from_then_on") {
        return;
    }
    let tree = Tree::new(&[("data", 4 * MIB)]);
    let wait = "touch once; while [ ! -e on ]; do sleep 0.02; done";
    let mut job = job(&tree, &format!("cat data > read; {wait}; cat data data > read; rm read"));
    tree.drop_cache();
    let (stats, pid) = (tree.file("stats"), job.id().to_string());
    let rule = tree.rule("mru");
    let attached = Attached::to(&["--pid", &pid, "--budget", "2M", "--rule", &rule, "--stats", text(&stats)]);
    {
        let _on = Go::at(tree.file("on"));
        tree.write("go", "");
        wait_until("the job has read", || tree.file("once").exists());
        // A job that is quicker than we are would have ended before anything of its is evicted.
        wait_until("some of it is evicted", || cached_pages(&tree.file("data")) < 4 * MIB / 4096);
    }
    assert_eq!(job.wait().unwrap().code(), Some(7));
    let ended = attached.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let stats = statistics(&stats);
    assert_eq!(stats["controlled"], true, "{stats}");
    assert!(number(&stats, "references") >= 3 * 512, "{stats}");
    assert!(number(&stats, "evictions") > 0, "{stats}");
}

#[test]
fn when_foretell_is_told_to_end_or_is_killed_the_job_goes_on() {
    if !can_control("when_foretell_is_told_to_end_or_is_killed_the_job_goes_on") {
        return;
    }
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let tree = Tree::new(&[("data", 4 * MIB)]);
        // Open already, and read on when nobody steers any more.
        let mut job =
            job(&tree, "exec 3< data; touch opened; while [ ! -e on ]; do sleep 0.02; done; cat <&3 > read");
        let pid = job.id().to_string();
        tree.write("go", "");
        wait_until("the file is open", || tree.file("opened").exists());
        let list = tree.write("list", "data\n");
        let attached = Attached::to(&["--pid", &pid, "--budget", "2M", "--hints", text(&list)]);
        attached.signal(signal);
        let ended = attached.end();
        if signal == Signal::KILL {
            assert_eq!(ended.code, None);
        } else {
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            assert!(ended.stderr.contains("budget"), "{}", ended.stderr);
        }
        assert!(job.try_wait().unwrap().is_none(), "{signal:?}: the job has ended");
        tree.write("on", "");
        assert_eq!(job.wait().unwrap().code(), Some(7), "{signal:?}");
        assert_eq!(std::fs::metadata(tree.file("read")).unwrap().len(), 4 * MIB as u64);
    }
}

#[test]
fn all_processes_of_a_control_group_belong_to_the_job_until_the_last_has_ended() {
    let test = "all_processes_of_a_control_group_belong_to_the_job_until_the_last_has_ended";
    if !can_control(test) {
        return;
    }
    let place = Place::find(Controller::Memory, &format!("foretell-attached-{}", std::process::id()));
    let group = place.and_then(|place| Ok((place.path().to_owned(), MemoryGroup::new(place, None)?)));
    let Ok((path, group)) = group else {
        println!("skipped: {test}: no control group can be made here");
        return;
    };
    let trees = [(); 3].map(|()| Tree::new(&[("data", 2 * MIB)]));
    let mut jobs: Vec<Child> = trees.iter().map(|tree| job(tree, "cat data > read")).collect();
    let stats = trees[0].file("stats");
    jobs[..2].iter().for_each(|job| group.enter(job.id()).unwrap());
    let attached = Attached::to(&["--cgroup", text(&path), "--stats", text(&stats)]);
    // One that comes later, and that nobody in the group has started.
    group.enter(jobs[2].id()).unwrap();
    trees[0].write("go", "");
    assert_eq!(jobs[0].wait().unwrap().code(), Some(7));
    // Longer than it takes to look at the group.
    std::thread::sleep(std::time::Duration::from_secs(1));
    trees[1..].iter().for_each(|tree| drop(tree.write("go", "")));
    jobs[1..].iter_mut().for_each(|job| assert_eq!(job.wait().unwrap().code(), Some(7)));
    let ended = attached.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let stats = statistics(&stats);
    let read: Vec<&str> =
        stats["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    for tree in &trees {
        assert!(read.contains(&text(&tree.file("data"))), "{stats}");
    }
}

#[test]
fn what_cannot_be_attached_to_is_said_in_one_line() {
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let (pid, own) = (other.id().to_string(), std::process::id().to_string());
    for (arguments, wanted) in [
        (&["--pid", "4194304"][..], "no such process"),
        (&["--pid", "2"], "thread of the kernel"),
        (&["--pid", "-1"], "invalid value"),
        (&["--pid", &pid, "--", "true"], "cannot be used with"),
        (&["--pid", &pid, "--cgroup", "/"], "cannot be used with"),
        (&["--pid", &pid, "--join", &own], "cannot be used with"),
        (&["--cgroup", "/no/such/group"], "no such control group"),
        (&["--cgroup", "/etc"], "no such control group"),
    ] {
        let ended = foretell([&["run"], arguments].concat());
        assert_eq!(
            (ended.code, ended.stderr.lines().count()),
            (Some(2), 1),
            "{arguments:?}: {}",
            ended.stderr
        );
        assert!(ended.stderr.contains(wanted), "{arguments:?}: {}", ended.stderr);
    }
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", FORETELL, "run", "--pid", &pid];
    match Command::new("setpriv").args(nobody).output() {
        Ok(output) if rustix::process::geteuid().is_root() => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains("another user's") && said.lines().count() == 1, "{said}");
        }
        _ => println!("skipped: what_cannot_be_attached_to_is_said_in_one_line: needs root and setpriv"),
    }
    other.kill().unwrap();
    other.wait().unwrap();
}
