//! A job sees the same surroundings with foretell before it as without.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::collections::BTreeSet;
use std::process::Command;

use harness::Ended;
use harness::ways::Ways;

const WAYS: [&str; 5] = ["run", "rule", "first", "alone", "steer"];

struct Stage {
    ways: Ways,
    sees: String,
}

impl Stage {
    /// `None`, with a word, where there is no C compiler.
    fn new(test: &str) -> Option<Stage> {
        let ways = Ways::new();
        let sees = ways.compiled("sees", test)?;
        Some(Stage { ways, sees })
    }

    /// What a shell does with `"$@"`, which is a job with foretell before it in one of the ways, or the job alone.
    fn ran(&self, way: &str, script: &str, job: &[&str]) -> Ended {
        // Who starts the tests, and the library that starts this, have signals ignored.
        let mut starter = Command::new(&self.sees);
        starter.args(["as-a-shell-does", "bash"]);
        self.ways.shell_by(starter, way, script, job)
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
