//! `foretell learn` as its users start it: night after night, and whatever goes wrong on the way.

#![allow(clippy::unwrap_used)]

mod harness;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use foretell_cgroup::{Controller, MemoryGroup, Place};
use foretell_testkit::cached_pages;
use harness::nights::Stage;
use harness::{Ended, FORETELL, Go, Hosts, Tree, can_control, foretell};
use serde_json::Value;

/// One line of ours and nothing else on standard error.
fn one_line(ended: &Ended) -> &str {
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    ended.stderr.trim_end()
}

#[test]
fn the_first_night_is_watched_and_the_second_can_be_steered() {
    if !can_control("the_first_night_is_watched_and_the_second_can_be_steered") {
        return;
    }
    let stage = Stage::new();
    let plain = Command::new("sh").args(["-c", &stage.reads()]).output().unwrap();
    // The job begins before it is observed: on a machine that is busy, seconds before.
    let first = stage.night(&[], &format!("sleep 3; {}", stage.reads()));
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(first.stdout.as_bytes(), plain.stdout);
    assert!(first.stderr.contains("night 1 of 'job', watched: nothing is known"), "{}", first.stderr);
    assert!(stage.recording().exists());

    let out = stage.tree.file("stats.json");
    // Nor does it wait for its lists: it has read all of its 3 MiB in a few milliseconds.
    let go = stage.tree.file("go");
    let script = format!("{}; {}", Go::awaited(&go), stage.reads());
    stage.tree.drop_cache();
    let is_cached =
        || ["a", "b", "c"].iter().any(|n| cached_pages(&stage.tree.file(&format!("{n}.dat"))) > 0);
    let second = Go::when(&go, "something is fetched ahead", is_cached, || {
        stage.night(&["--as", "steer", "--stats", out.to_str().unwrap()], &script)
    });
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(second.stdout.as_bytes(), plain.stdout);
    assert!(second.stderr.contains("night 2 of 'job', steered: as asked for"), "{}", second.stderr);
    let told: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    assert_eq!((&told["how"], &told["night_number"]), (&"steered".into(), &2.into()), "{told}");
    assert!(told["planned_bytes"].as_u64().unwrap() >= 3 << 20, "{told}");
    assert!(told["prefetched"].as_u64().unwrap() > 0, "{told}");
    assert!(told["predicted"].as_f64().unwrap() > 0.8, "{told}");
    let nights = stage.show();
    assert_eq!(nights.len(), 2);
    assert_eq!(nights[0]["how"], "watched");
}

/// Each file is open for a moment only.
#[test]
fn every_night_knows_all_of_many_small_files() {
    if !can_control("every_night_knows_all_of_many_small_files") {
        return;
    }
    let names: Vec<String> = (0..400).map(|n| format!("small-{n:03}.dat")).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 20_000)).collect();
    let stage = Stage { tree: Tree::new(&files) };
    let script = format!("cd '{}' && cat small-*.dat | cksum", stage.tree.path().display());
    for how in ["watch", "steer", "steer"] {
        let night = stage.night(&["--as", how], &script);
        assert_eq!(night.code, Some(0), "{}", night.stderr);
        assert!(!night.stderr.contains("gone"), "{}", night.stderr);
        let info = foretell(["trace", "info", "--json", stage.recording().to_str().unwrap()]);
        let info: Value = serde_json::from_str(&info.stdout).unwrap();
        assert!(info["files"].as_u64().unwrap() >= 400, "{how}: {info}");
    }
}

#[test]
fn what_has_nothing_to_gain_runs_alone() {
    if !can_control("what_has_nothing_to_gain_runs_alone") {
        return;
    }
    let stage = Stage::new();
    stage.night(&[], "exit 0");
    let second = stage.night(&[], "echo out; exit 0");
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "out\n"));
    assert!(second.stderr.contains("alone: nothing to gain"), "{}", second.stderr);
}

#[test]
fn the_exit_code_is_the_jobs_own_and_a_night_cut_short_teaches_nothing() {
    if !can_control("the_exit_code_is_the_jobs_own_and_a_night_cut_short_teaches_nothing") {
        return;
    }
    let stage = Stage::new();
    stage.night(&["--as", "watch"], &stage.reads());
    let kept = std::fs::read(stage.recording()).unwrap();
    for (script, how) in [("exit 7", (Some(7), None)), ("kill -KILL $$", (None, Some(9)))] {
        let short = stage.night(&["--as", "watch"], script);
        assert_eq!((short.code, short.signal), how, "{}", short.stderr);
        assert_eq!(std::fs::read(stage.recording()).unwrap(), kept, "{script}");
        let said = "nothing is learnt from it: the job usually ends with exit code ";
        assert!(short.stderr.contains(said) && !short.stderr.contains("is known now"), "{}", short.stderr);
    }
    assert_eq!(stage.show().len(), 3);
    let missing = foretell(["learn", "--", "no-such-program-here"]);
    assert_eq!(missing.code, Some(127));
    one_line(&missing);
}

#[test]
fn knowledge_that_is_no_good_is_said_and_the_job_runs() {
    if !can_control("knowledge_that_is_no_good_is_said_and_the_job_runs") {
        return;
    }
    let stage = Stage::new();
    stage.night(&[], &stage.reads());
    let good = std::fs::read(stage.recording()).unwrap();
    let mut other_version = good.clone();
    other_version[19] ^= 1;
    for bad in [&good[..good.len() / 2], &other_version, b"foretell", &[]] {
        std::fs::write(stage.recording(), bad).unwrap();
        let night = stage.night(&["--as", "steer"], &stage.reads());
        assert_eq!(night.code, Some(0), "{}", night.stderr);
        assert!(night.stderr.contains("watched"), "{}", night.stderr);
        assert!(!night.stdout.is_empty());
    }
    std::fs::write(stage.state().join("jobs/job/nights"), "{\"version\":99,\"nights\":[]}").unwrap();
    let night = stage.night(&["--quiet"], "echo out");
    assert_eq!((night.code, night.stdout.as_str()), (Some(0), "out\n"));
    assert!(one_line(&night).contains("damaged or of another version (version 99)"), "{}", night.stderr);

    // A file where the directory should be.
    let state = stage.tree.write("no-directory", "x");
    let night = foretell(["learn", "-q", "--state", state.to_str().unwrap(), "--", "sh", "-c", "echo out"]);
    assert_eq!((night.code, night.stdout.as_str()), (Some(0), "out\n"));
    assert!(one_line(&night).contains("the job runs alone"), "{}", night.stderr);
}

#[test]
fn a_job_without_a_home_runs_alone() {
    let night = Command::new(FORETELL)
        .args(["learn", "-q", "--", "sh", "-c", "echo out; exit 3"])
        .env_remove("HOME")
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let night = Ended::from(night);
    assert_eq!((night.code, night.stdout.as_str()), (Some(3), "out\n"));
    assert!(one_line(&night).contains("name one with --state"), "{}", night.stderr);
}

#[test]
fn statistics_that_cannot_be_written_do_not_stop_the_job() {
    let stage = Stage::new();
    let night = stage.night(&["-q", "--as", "alone", "--stats", "/nonexistent/stats"], "echo out; exit 3");
    assert_eq!((night.code, night.stdout.as_str()), (Some(3), "out\n"), "{}", night.stderr);
    assert!(one_line(&night).contains("the job runs all the same"), "{}", night.stderr);
    let night = stage.night(&["-q", "--as", "alone", "--stats", "/dev/full"], "echo out; exit 3");
    assert_eq!((night.code, night.stdout.as_str()), (Some(3), "out\n"), "{}", night.stderr);
    let line = one_line(&night);
    assert!(line.starts_with("foretell: /dev/full: ") && line.matches("os error").count() == 1, "{line}");
}

#[test]
fn wrong_arguments_are_told_in_one_line() {
    for (arguments, says) in [
        (&["learn"][..], "<JOB>"),
        (&["learn", "--name", "a b", "--", "true"], "is no name of a job"),
        (&["learn", "--as", "dance", "--", "true"], "dance"),
        (&["learn", "--budget", "much", "--", "true"], "--budget"),
        (&["learn", "--state", "/nonexistent", "--show", "x"], "no job 'x' is known"),
        (&["learn", "--state", "/nonexistent", "--forget", "../x"], "is no name of a job"),
        (&["learn", "--json", "--", "true"], "--stats"),
    ] {
        let ended = foretell(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(one_line(&ended).contains(says), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn jobs_are_listed_and_forgotten() {
    if !can_control("jobs_are_listed_and_forgotten") {
        return;
    }
    let stage = Stage::new();
    let state = stage.state();
    let learn = |arguments: &[&str]| {
        let state = state.to_str().unwrap();
        foretell(["learn", "--state", state].iter().chain(arguments))
    };
    assert_eq!(learn(&["--list", "--json"]).stdout.trim(), "[]");
    stage.night(&[], "true");
    let listed: Value = serde_json::from_str(&learn(&["--list", "--json"]).stdout).unwrap();
    assert_eq!((&listed[0]["job"], &listed[0]["nights"]), (&"job".into(), &1.into()));
    assert!(learn(&["--list"]).stdout.contains("watched"));
    assert!(learn(&["--show", "job"]).stdout.contains("next night: alone: nothing to gain"));
    assert_eq!(learn(&["--forget", "job"]).code, Some(0));
    assert_eq!(learn(&["--show", "job"]).code, Some(2));
}

#[test]
fn two_nights_at_once_both_run() {
    if !can_control("two_nights_at_once_both_run") {
        return;
    }
    let stage = Stage::new();
    let (begun, go) = (stage.tree.file("begun"), stage.tree.file("go"));
    let script =
        format!("touch '{}'; until test -e '{}'; do sleep 0.02; done", begun.display(), go.display());
    let first = Command::new(FORETELL)
        .args(["learn", "-q", "--name", "job", "--state"])
        .arg(stage.state())
        .args(["--", "timeout", "50", "sh", "-c", &script])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    harness::wait_until("the first night has begun", || begun.exists());
    let second = stage.night(&["-q"], "echo out");
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "out\n"), "{}", second.stderr);
    assert!(one_line(&second).contains("is running already; this one runs alone"), "{}", second.stderr);
    std::fs::write(&go, "").unwrap();
    assert!(first.wait_with_output().unwrap().status.success());
}

#[test]
fn who_has_joined_a_night_whose_steering_ends_early_is_told_what_was_done() {
    if !can_control("who_has_joined_a_night_whose_steering_ends_early_is_told_what_was_done") {
        return;
    }
    let stage = Stage::new();
    let (slow, go) = (stage.tree.file("slow"), stage.tree.file("go"));
    // Quick the first time, then behind its own pace until it is told to end.
    let wait = format!("until test -e '{}'; do sleep 0.05; done", go.display());
    let script = format!("if test -e '{}'; then {wait}; fi; {}", slow.display(), stage.reads());
    stage.night(&["--as", "watch"], &script);
    std::fs::write(&slow, "").unwrap();
    let hosts = Hosts::new();
    let state = stage.state().display().to_string();
    let night = ["learn", "-q", "--as", "steer", "--name", "job", "--state", &state, "--"];
    let night = hosts.spawn([&night[..], &["timeout", "60", "sh", "-c", &script]].concat());
    let mut place = None;
    harness::wait_until("the night can be joined", || {
        let names = hosts.names();
        place = names.iter().find_map(|name| Some(name.to_str()?.strip_suffix(".sock")?.to_owned()));
        place.is_some()
    });
    let (stats, tree) = (stage.tree.file("stats"), Tree::new(&[("d.dat", 1 << 20)]));
    let read = format!("cat '{}' > /dev/null; {wait}", tree.file("d.dat").display());
    let (rule, stats_path) = (tree.rule("mru"), stats.display().to_string());
    let joined = ["run", "--quiet", "--join", place.as_deref().unwrap(), "--rule", &rule];
    let joined = hosts.spawn([&joined[..], &["--stats", &stats_path, "--", "sh", "-c", &read]].concat());
    harness::wait_until("steering has ended", || hosts.names().is_empty());
    std::fs::write(&go, "").unwrap();
    let (joined, night) = (joined.end(), night.end());
    assert!(night.stderr.contains("steering has ended"), "{}", night.stderr);
    assert_eq!((joined.code, night.code), (Some(0), Some(0)), "{}", joined.stderr);
    assert!(joined.stderr.contains("it goes on uncontrolled"), "{}", joined.stderr);
    let told = harness::statistics(&stats);
    // And what its programs read of their libraries.
    assert!(harness::number(&told, "references") >= 128, "{told}");
}

/// The job's output stands in a file, so that nobody waits for a pipe that a killed process holds.
#[test]
fn a_job_outlives_a_killed_foretell() {
    if !can_control("a_job_outlives_a_killed_foretell") {
        return;
    }
    let stage = Stage::new();
    stage.night(&["--as", "watch"], &stage.reads());
    let plain = Command::new("sh").args(["-c", &stage.reads()]).output().unwrap();
    let reads = stage.reads();
    // `None`: before the job begins, if it does at all.
    let moments = [None, Some(0), Some(3), Some(10), Some(30), Some(100)];
    let ways: [(&str, &[&str]); 3] = [("new", &[]), ("job", &["--as", "watch"]), ("job", &["--as", "steer"])];
    let rounds = ways.into_iter().flat_map(|way| moments.map(|moment| (way, moment)));
    for (round, ((name, way), after_ms)) in rounds.enumerate() {
        let (begun, done) =
            (stage.tree.file(&format!("begun-{round}")), stage.tree.file(&format!("done-{round}")));
        let script = format!(
            "touch '{}'; {{ {reads}; }} > '{1}.part' && mv '{1}.part' '{1}'",
            begun.display(),
            done.display()
        );
        stage.tree.drop_cache();
        let mut night = Command::new(FORETELL)
            .args(["learn", "-q", "--name", name])
            .args(way)
            .arg("--state")
            .arg(stage.state())
            .args(["--", "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        match after_ms {
            None => std::thread::sleep(Duration::from_millis(5)),
            Some(ms) => {
                harness::wait_until("the job has begun", || begun.exists());
                std::thread::sleep(Duration::from_millis(ms));
            }
        }
        night.kill().unwrap();
        night.wait().unwrap();
        if after_ms.is_some() {
            harness::wait_until("the job has ended", || done.exists());
            assert_eq!(std::fs::read(&done).unwrap(), plain.stdout, "{name} {way:?} {after_ms:?}");
        }
        if name == "new" {
            // Each of its nights is a first one.
            let _ = std::fs::remove_dir_all(stage.state().join("jobs/new"));
        }
    }
    let night = stage.night(&["-q", "--as", "steer"], &stage.reads());
    assert_eq!(night.stdout.as_bytes(), plain.stdout, "the next night is as any other");
    // Who outlived the one that was killed may have been writing when that night began; a later one clears up.
    harness::wait_until("nothing is left behind", || {
        let left = std::fs::read_dir(stage.state().join("jobs/job")).unwrap().flatten();
        let mut left: Vec<String> = left.map(|entry| entry.file_name().into_string().unwrap()).collect();
        left.retain(|name| !["lock", "nights", "recording"].contains(&name.as_str()));
        left.is_empty() || {
            stage.night(&["-q", "--as", "alone"], "true");
            false
        }
    });
}

/// The child of a process of ours, if it has one by now.
fn child_of(parent: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_ascii_whitespace().next()?.parse().ok()
}

fn kill(process: u32) -> Result<(), rustix::io::Errno> {
    let process = rustix::process::Pid::from_raw(process.cast_signed()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL)
}

/// A night that has begun, its output to be read at its end.
fn begin(stage: &Stage, way: &str, script: &str) -> std::process::Child {
    let mut night = Command::new(FORETELL);
    night.args(["learn", "--name", "job", "--as", way, "--state"]).arg(stage.state());
    night.args(["--", "sh", "-c", script]).stdin(Stdio::null());
    night.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn what_does_the_work_may_be_killed_and_the_jobs_exit_code_is_known() {
    let test = "what_does_the_work_may_be_killed_and_the_jobs_exit_code_is_known";
    if !can_control(test) {
        return;
    }
    let stage = Stage::new();
    stage.night(&["--as", "watch"], &stage.reads());
    for way in ["alone", "watch", "steer"] {
        let [begun, go] = ["begun", "go"].map(|name| stage.tree.file(&format!("{name}-{way}")));
        let script = format!("touch '{}'; {}; {}; exit 7", begun.display(), Go::awaited(&go), stage.reads());
        let night = begin(&stage, way, &script);
        {
            let _go = Go::at(go);
            harness::wait_until("the job has begun", || begun.exists());
            kill(child_of(night.id()).unwrap()).unwrap();
        }
        let ended = Ended::from(night.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(7), "{way}: {}", ended.stderr);
        assert!(!ended.stdout.is_empty(), "{way}");
        assert!(ended.stderr.contains("the job went on by itself"), "{way}: {}", ended.stderr);
    }
}

/// Also in the moments between the start of its process and its first instruction.
#[test]
fn what_does_the_work_may_be_killed_at_any_moment_and_the_job_runs_once() {
    let test = "what_does_the_work_may_be_killed_at_any_moment_and_the_job_runs_once";
    if !can_control(test) {
        return;
    }
    let stage = Stage::new();
    stage.night(&["--as", "watch"], &stage.reads());
    for (round, after_ms) in (0..60).step_by(3).enumerate() {
        let way = ["alone", "watch", "steer"][round % 3];
        let runs = stage.tree.file(&format!("runs-{round}"));
        let script = format!("echo x >> '{}'; sleep 0.1; exit 7", runs.display());
        let night = begin(&stage, way, &script);
        harness::wait_until("there are two processes", || child_of(night.id()).is_some());
        std::thread::sleep(Duration::from_millis(after_ms));
        if let Some(worker) = child_of(night.id()) {
            // It may have ended: the job takes no longer than a tenth of a second.
            let _ = kill(worker);
        }
        let ended = Ended::from(night.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(7), "{way} {after_ms} ms: {}", ended.stderr);
        let begun = std::fs::read_to_string(&runs).unwrap();
        assert_eq!(begun, "x\n", "{way} {after_ms} ms: {}", ended.stderr);
    }
}

/// Who does the work takes leave of the job, and what it knows then would be lost with it.
#[test]
fn what_does_the_work_may_be_killed_as_the_job_ends() {
    let test = "what_does_the_work_may_be_killed_as_the_job_ends";
    if !can_control(test) {
        return;
    }
    let stage = Stage::new();
    stage.night(&["--as", "watch"], &stage.reads());
    for round in 0..24 {
        let way = ["alone", "watch", "steer"][round % 3];
        let ends = stage.tree.file(&format!("ends-{round}"));
        let script = format!("echo > '{}'; exit 7", ends.display());
        let night = begin(&stage, way, &script);
        let begin = std::time::Instant::now();
        while !ends.exists() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(300 * round as u64));
        if let Some(worker) = child_of(night.id()) {
            let _ = kill(worker);
        }
        let ended = Ended::from(night.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(7), "{way}, {round}: {}", ended.stderr);
    }
}

/// What it needs and what we need is more than there is.
#[test]
fn a_job_that_fills_its_memory_group_is_not_ended_for_our_sake() {
    let test = "a_job_that_fills_its_memory_group_is_not_ended_for_our_sake";
    if !can_control(test) {
        return;
    }
    let stage = Stage::new();
    let place = Place::find(Controller::Memory, &format!("foretell-full-{}", std::process::id()));
    let Ok(group) = place.and_then(|place| MemoryGroup::new(place, Some(64 << 20))) else {
        println!("skipped: {test}: memory cgroups need root and a mounted hierarchy");
        return;
    };
    let script = "sleep 1; dd if=/dev/zero of=/dev/null bs=50M count=40 2> /dev/null && echo whole";
    let state = stage.state();
    let mut night = Command::new("sh");
    night.arg("-c").arg(format!("echo $$ > '{}'; exec \"$@\"", group.procs().display())).arg("sh");
    night.args([FORETELL, "learn", "--name", "job", "--state", state.to_str().unwrap()]);
    night.args(["--", "sh", "-c", script]).stdin(Stdio::null());
    let ended = Ended::from(night.output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "whole\n"), "{}", ended.stderr);
}

/// A small group is the job's: what we would take of it may be what the job lacks.
#[test]
fn in_a_memory_group_that_is_too_small_the_job_runs_alone() {
    let test = "in_a_memory_group_that_is_too_small_the_job_runs_alone";
    if !can_control(test) {
        return;
    }
    let stage = Stage::new();
    let script = format!("sleep 3; {}", stage.reads());
    // Watched in the second one, steered in neither: what is left of it is less than a plane takes to begin.
    for (mib, options, how) in [
        (20, &[][..], "MiB of memory are free, and to watch it takes 24"),
        (36, &[][..], "watched: nothing is known"),
        (36, &["--as", "steer"][..], "MiB of memory are there for it"),
    ] {
        let group = Place::find(Controller::Memory, &format!("foretell-test-{}", std::process::id()))
            .and_then(|place| MemoryGroup::new(place, Some(mib << 20)));
        let Ok(group) = group else {
            println!("skipped: {test}: memory cgroups need root and a mounted hierarchy");
            return;
        };
        stage.tree.drop_cache();
        let state = stage.state();
        let mut night = Command::new("sh");
        night.arg("-c").arg(format!("echo $$ > '{}'; exec \"$@\"", group.procs().display())).arg("sh");
        night.args([FORETELL, "learn", "--name", "job", "--state", state.to_str().unwrap()]);
        night.args(options).args(["--", "sh", "-c", &script]).stdin(Stdio::null());
        let ended = Ended::from(night.output().unwrap());
        assert_eq!(ended.code, Some(0), "{mib} MiB: {}", ended.stderr);
        assert!(ended.stderr.contains(how), "{mib} MiB: {}", ended.stderr);
    }
}

#[test]
fn files_that_bear_tonights_date_are_found() {
    if !can_control("files_that_bear_tonights_date_are_found") {
        return;
    }
    let stage = Stage::new();
    let read = |day: &str| format!("cat '{}'/part-*.dat | cksum", day_of(&stage, day).display());
    let make = |day: &str| {
        let directory = day_of(&stage, day);
        std::fs::create_dir_all(&directory).unwrap();
        for part in 0..3 {
            let path = directory.join(format!("part-{part}.dat"));
            std::fs::write(&path, vec![part; 300_000]).unwrap();
            std::fs::File::open(&path).unwrap().sync_all().unwrap();
        }
    };
    make("2026-11-21");
    assert_eq!(stage.night(&["--as", "watch"], &read("2026-11-21")).code, Some(0));
    std::fs::remove_dir_all(day_of(&stage, "2026-11-21")).unwrap();
    make("2026-11-22");
    let out = stage.tree.file("stats.json");
    let night = stage.night(&["--as", "steer", "--stats", out.to_str().unwrap()], &read("2026-11-22"));
    assert_eq!(night.code, Some(0), "{}", night.stderr);
    assert!(night.stderr.contains("3 files under another name"), "{}", night.stderr);
}

fn day_of(stage: &Stage, day: &str) -> PathBuf {
    Path::new(&stage.tree.path()).join(day)
}

/// One fault may map a large folio, and tells of a part of it.
#[test]
fn what_is_mapped_and_read_in_sequence_is_known_whole() {
    const PAGES: u64 = 1 << 17;
    const SCAN: &str = r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <sys/stat.h>
        int main(int argc, char **argv) {
            struct stat at;
            int file = open(argv[1], O_RDONLY), sum = 0;
            fstat(file, &at);
            char *bytes = mmap(0, at.st_size, PROT_READ, MAP_SHARED, file, 0);
            for (long i = 0; i < at.st_size; i += 4096) sum += bytes[i];
            return sum == 1;
        }"#;
    let test = "what_is_mapped_and_read_in_sequence_is_known_whole";
    if !can_control(test) {
        return;
    }
    let stage = Stage::new();
    let source = stage.tree.write("scan.c", SCAN);
    let scan = stage.tree.file("scan");
    assert!(Command::new("cc").arg("-o").args([&scan, &source]).status().unwrap().success());
    // Long enough for readahead to come to large folios, whatever it begins with; nothing need be in it.
    let data = stage.tree.file("mapped");
    std::fs::File::create(&data).unwrap().set_len(PAGES * 4096).unwrap();
    let script = format!("'{}' '{}'", scan.display(), data.display());
    stage.night(&["-q", "--as", "watch"], &script);
    let recording = foretell_recording::Recording::read(stage.state().join("jobs/job/recording")).unwrap();
    let mapped = recording.files.iter().position(|file| file.path == data).expect("the file is named");
    let mut pages: Vec<u32> = recording
        .accesses
        .iter()
        .filter(|access| access.file.0 as usize == mapped)
        .flat_map(|access| access.first_page..access.first_page + access.pages)
        .collect();
    pages.sort_unstable();
    pages.dedup();
    let known = pages.len() as u64;
    assert!((PAGES * 98 / 100..=PAGES).contains(&known), "98% of {PAGES} pages: {known}");
}
