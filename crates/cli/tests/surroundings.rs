//! A job sees the same surroundings with foretell before it as without.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use harness::{Ended, FORETELL, Tree};

const WAYS: [&str; 5] = ["run", "rule", "first", "alone", "steer"];

struct Stage {
    tree: Tree,
    sees: String,
}

impl Stage {
    /// `None`, with a word, where there is no C compiler.
    fn new(test: &str) -> Option<Stage> {
        let tree = Tree::new(&[("data", 100_000)]);
        let sees = tree.file("sees").display().to_string();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/sees.c");
        let compiled = Command::new("cc").args(["-O1", "-o", &sees, source]).status();
        if !compiled.is_ok_and(|status| status.success()) {
            println!("skipped: {test}: there is no C compiler");
            return None;
        }
        let stage = Stage { tree, sees };
        let data = stage.tree.file("data").display().to_string();
        let learnt = stage.ran("watch", "exec \"$@\"", &["cat", &data]);
        assert_eq!(learnt.code, Some(0), "{}", learnt.stderr);
        Some(stage)
    }

    /// What a shell does with `"$@"`, which is a job with foretell before it in one of the ways, or the job alone.
    fn ran(&self, way: &str, script: &str, job: &[&str]) -> Ended {
        let text = |name: &str| self.tree.file(name).display().to_string();
        let (state, fresh, rule) = (text("state"), text("fresh"), self.tree.rule("mru"));
        let words: &[&str] = match way {
            "plain" => &[],
            "run" => &[FORETELL, "run", "--quiet", "--"],
            "rule" => &[FORETELL, "run", "--quiet", "--no-service", "--budget", "1M", "--rule", &rule, "--"],
            "first" => &[FORETELL, "learn", "--quiet", "--name", "job", "--state", &fresh, "--"],
            how => &[FORETELL, "learn", "--quiet", "--name", "job", "--state", &state, "--as", how, "--"],
        };
        if way == "first" {
            let _ = std::fs::remove_dir_all(&fresh);
        }
        // Who starts the tests, and the library that starts this, have signals ignored.
        let mut shell = Command::new(&self.sees);
        // No other foretell of this machine's has a part in it.
        shell.env("FORETELL_SOCKET", "/nonexistent/foretelld.sock").env("FORETELL_HOSTS", text("hosts"));
        shell.args(["as-a-shell-does", "bash", "-c", script, "bash"]).args(words).args(job);
        shell.stdin(Stdio::null()).output().unwrap().into()
    }

    /// The job sees the same in all ways, when a shell has run `script`, which begins it.
    fn same(&self, script: &str) {
        let plain = self.ran("plain", script, &[&self.sees]);
        assert_eq!(plain.code, Some(0), "{script}: {}", plain.stderr);
        for way in WAYS {
            let ran = self.ran(way, script, &[&self.sees]);
            assert_eq!(ran.code, Some(0), "{script}, {way}: {}", ran.stderr);
            let lines = |said: &str| said.lines().map(str::to_owned).collect::<BTreeSet<String>>();
            let (seen, expected) = (lines(&ran.stdout), lines(&plain.stdout));
            let missing: Vec<_> = expected.difference(&seen).collect();
            let other: Vec<_> = seen.difference(&expected).collect();
            assert!(
                missing.is_empty() && other.is_empty(),
                "{script}, {way}: {other:#?} in place of {missing:#?}"
            );
        }
    }
}

/// The shell's own word for what was executed last differs.
const BEGIN: &str = "unset _; exec env -u _ \"$@\"";

#[test]
fn all_that_a_job_sees_is_as_without_us() {
    let Some(stage) = Stage::new("all_that_a_job_sees_is_as_without_us") else { return };
    stage.same(BEGIN);
    let limits = "umask 077; ulimit -n 600; ulimit -c 0; ulimit -s 4096; ulimit -t 1000";
    stage.same(&format!("{limits}; cd /; exec 5</dev/null 7>&1; {BEGIN} 2>&1"));
    stage.same(&format!("trap '' USR1 INT PIPE CHLD TTOU 34; {BEGIN}"));
    stage.same("exec env -u _ --block-signal=TERM --block-signal=USR2 --ignore-signal=HUP \"$@\"");
}

#[test]
fn a_job_is_scheduled_as_without_us() {
    let Some(stage) = Stage::new("a_job_is_scheduled_as_without_us") else { return };
    stage.same("exec env -u _ nice -n 3 taskset -c 0 ionice -c 3 \"$@\"");
    stage.same("exec env -u _ chrt --batch 0 \"$@\"");
    stage.same("exec env -u _ chrt --reset-on-fork --other 0 \"$@\"");
    // Where it may be: for root.
    for class in ["chrt --fifo 5", "chrt --reset-on-fork --rr 5", "nice -n -3 chrt --reset-on-fork --other 0"]
    {
        let may = stage.ran("plain", &format!("exec {class} \"$@\""), &["true"]);
        match may.code {
            Some(0) if !may.stderr.contains("cannot set") => {
                stage.same(&format!("exec env -u _ {class} \"$@\""))
            }
            _ => println!("skipped: a_job_is_scheduled_as_without_us: {class} is not possible here"),
        }
    }
}

#[test]
fn a_job_has_the_rights_that_it_has_without_us() {
    let test = "a_job_has_the_rights_that_it_has_without_us";
    let Some(stage) = Stage::new(test) else { return };
    stage.same("exec env -u _ setpriv --no-new-privs \"$@\"");
    stage.same("echo 300 > /proc/self/oom_score_adj; exec env -u _ setarch --addr-no-randomize \"$@\"");
    let rights = "setpriv --bounding-set -sys_boot --securebits +noroot";
    match stage.ran("plain", &format!("exec {rights} \"$@\""), &["true"]).code {
        Some(0) => stage.same(&format!("exec env -u _ {rights} \"$@\"")),
        _ => println!("skipped: {test}: {rights} is not possible here"),
    }
}
