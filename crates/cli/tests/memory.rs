//! A job that needs nearly all the memory of its control group lives before which the command stands, as it does without it.

#![allow(clippy::unwrap_used)]

mod harness;

use std::path::Path;
use std::process::{Command, Stdio};

use foretell_cgroup::{Controller, MemoryGroup, Place};
use harness::{Ended, FORETELL, Tree};

const MIB: u64 = 1 << 20;
/// What the processes of the jobs below take besides what they are told to: a shell and two small programs.
const JOB_BYTES: u64 = 2 * MIB;
/// And what of ours stays, or is given back some milliseconds too late.
const OUR_BYTES: u64 = 4 * MIB;

/// Ways to run a job.
struct Ways {
    tree: Tree,
}

const WAYS: [&str; 6] = ["run", "record", "rule", "hints", "first", "steer"];

impl Ways {
    fn new() -> Ways {
        let ways = Ways { tree: Tree::new(&[("data", 10 << 20)]) };
        for way in ["record", "watch"] {
            assert_eq!(ways.ended(Some(way), None, &ways.reads()).code, Some(0), "{way}");
        }
        std::fs::rename(ways.tree.file("new"), ways.tree.file("recording")).unwrap();
        ways
    }

    fn reads(&self) -> String {
        format!("cksum < '{}'", self.tree.file("data").display())
    }

    fn words(&self, way: &str) -> Vec<String> {
        let text = |name: &str| self.tree.file(name).display().to_string();
        let rule = self.tree.rule("mru");
        let learn = ["learn", "--quiet", "--name", "job", "--state"];
        let words: Vec<String> = match way {
            "run" => vec!["run".into(), "--quiet".into()],
            "record" => ["run", "--quiet", "--record", &text("new")].map(Into::into).to_vec(),
            "rule" => {
                ["run", "--quiet", "--no-service", "--budget", "4M", "--rule", &rule].map(Into::into).to_vec()
            }
            "hints" => {
                let recording = text("recording");
                ["run", "--quiet", "--no-service", "--budget", "4M", "--hints", &recording]
                    .map(Into::into)
                    .to_vec()
            }
            "first" => {
                let _ = std::fs::remove_dir_all(text("fresh"));
                learn.into_iter().chain([text("fresh").as_str()]).map(Into::into).collect()
            }
            "again" => ["learn", "--name", "job", "--state", &text("fresh")].map(Into::into).to_vec(),
            how => learn.into_iter().chain([text("state").as_str(), "--as", how]).map(Into::into).collect(),
        };
        words.into_iter().chain(["--".into()]).collect()
    }

    /// How a shell script ends, in a group if there is one.
    fn ended(&self, way: Option<&str>, group: Option<&Path>, script: &str) -> Ended {
        let mut shell = Command::new("sh");
        let enter = group.map_or_else(String::new, |procs| format!("echo $$ > '{}' && ", procs.display()));
        shell.args(["-c", &format!("{enter}exec \"$@\""), "sh"]);
        if let Some(way) = way {
            shell.arg(FORETELL).args(self.words(way));
        }
        shell.args(["sh", "-c", script]).stdin(Stdio::null());
        shell
            .env("FORETELL_SOCKET", "/nonexistent/foretelld.sock")
            .env("FORETELL_HOSTS", self.tree.file("hosts"));
        shell.output().unwrap().into()
    }
}

#[test]
fn a_job_that_takes_most_of_the_memory_lives() {
    let test = "a_job_that_takes_most_of_the_memory_lives";
    let group = |name: &str, bytes| {
        let place =
            Place::find(Controller::Memory, &format!("foretell-test-memory-{}-{name}", std::process::id()));
        place.and_then(|place| MemoryGroup::new(place, Some(bytes)))
    };
    if group("possible", 64 * MIB).is_err() {
        println!("skipped: {test}: memory cgroups need root and a mounted hierarchy");
        return;
    }
    let ways = Ways::new();
    let reads = ways.reads();
    let mut group_number = 0;
    let mut in_a_group = |way: Option<&str>, mib: u64, script: &str| {
        group_number += 1;
        let group = group(&group_number.to_string(), mib * MIB).unwrap();
        ways.ended(way, Some(&group.procs()), script)
    };
    for mib in [32, 40, 64] {
        let takes = mib * MIB - JOB_BYTES - OUR_BYTES;
        // dd(1) has its block in memory, and no more. tail(1) takes more the smaller the pieces are in which it reads a pipe.
        let takes = format!("dd if=/dev/zero bs={takes} count=1 iflag=fullblock status=none | wc -c");
        for script in [
            format!("{takes}; exit 7"),
            format!("{reads}; sleep 0.5; {takes}; {reads}; exit 7"),
            format!("sleep 0.05; {takes}; exit 7"),
        ] {
            let plain = in_a_group(None, mib, &script);
            assert_eq!(plain.code, Some(7), "{mib}, {script}: {}", plain.stderr);
            for way in WAYS {
                let ran = in_a_group(Some(way), mib, &script);
                assert_eq!(
                    (ran.code, &ran.stdout),
                    (Some(7), &plain.stdout),
                    "{mib}, {way}, {script}: {}",
                    ran.stderr
                );
            }
        }
    }
}

/// The names of the processes in a group.
fn names(group: &MemoryGroup) -> Vec<String> {
    let pids = std::fs::read_to_string(group.procs()).unwrap();
    let name = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    pids.lines().filter_map(name).map(|name| name.trim_end().to_owned()).collect()
}

#[test]
fn a_job_that_takes_most_of_the_memory_has_it_for_itself() {
    let test = "a_job_that_takes_most_of_the_memory_has_it_for_itself";
    let number = std::cell::Cell::new(0);
    let group = || {
        number.set(number.get() + 1);
        let name = format!("foretell-test-left-{}-{}", std::process::id(), number.get());
        Place::find(Controller::Memory, &name).and_then(|place| MemoryGroup::new(place, Some(64 * MIB)))
    };
    if group().is_err() {
        println!("skipped: {test}: memory cgroups need root and a mounted hierarchy");
        return;
    }
    let ways = Ways::new();
    let fifo = ways.tree.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // It has the memory until somebody writes to the FIFO.
    let takes = format!(
        "dd if=/dev/zero bs={} count=1 iflag=fullblock status=none | {{ cat '{}'; wc -c; }}; exit 7",
        44 * MIB,
        fifo.display()
    );
    let processes_of_ours = |way: &str, until: usize| {
        let group = group().unwrap();
        let ended = std::thread::scope(|scope| {
            let job = scope.spawn(|| ways.ended(Some(way), Some(&group.procs()), &takes));
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            let seen = loop {
                let names = names(&group);
                let ours = names.iter().filter(|name| name.starts_with("foretel")).count();
                if ours == until && names.iter().any(|name| name == "dd") {
                    break Ok(());
                }
                if std::time::Instant::now() > deadline {
                    break Err(names);
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            };
            if way == "first" {
                // What was done until then was not worth it: alone it takes less.
                std::thread::sleep(std::time::Duration::from_secs(2));
            }
            // The job ends also where it was waited for in vain.
            std::fs::write(&fifo, "").unwrap();
            let ended = job.join().unwrap();
            assert_eq!(seen, Ok(()), "{way}: {}", ended.stderr);
            ended
        });
        assert_eq!((ended.code, ended.stdout.trim()), (Some(7), "46137344"), "{way}: {}", ended.stderr);
        ended
    };
    for way in ["run", "rule", "first", "steer"] {
        let ended = processes_of_ours(way, 1);
        if ["run", "rule"].contains(&way) {
            assert!(ended.stderr.contains("nothing more was done for the program"), "{}", ended.stderr);
        }
    }
    // Who knows that does not come again.
    let fresh = ways.tree.file("fresh");
    let nights = || {
        let shown = Command::new(FORETELL)
            .args(["learn", "--show", "job", "--json", "--state"])
            .arg(&fresh)
            .output()
            .unwrap();
        serde_json::from_slice::<serde_json::Value>(&shown.stdout).unwrap()
    };
    let before = nights();
    assert_eq!(
        (before[0]["how"].as_str(), before[0]["short_bytes"].as_u64()),
        (Some("alone"), Some(64 * MIB))
    );
    let compared = processes_of_ours("again", 1);
    assert!(compared.stderr.contains("how long it takes alone is not known"), "{}", compared.stderr);
    assert!(nights()[1]["short_bytes"].is_null());
    let again = processes_of_ours("again", 0);
    assert!(again.stderr.contains("it needs all of 64 MiB of memory for itself"), "{}", again.stderr);
    assert_eq!(nights()[0]["left_alone"].as_u64(), Some(1));
}
