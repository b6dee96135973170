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
        // tail(1) keeps a line until it has seen its end.
        let takes = format!("head -c {takes} /dev/zero | tail | wc -c");
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
