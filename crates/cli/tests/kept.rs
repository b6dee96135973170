//! `foretell learn` is two processes: signals, exit codes and streams are the job's own all the same.

#![allow(clippy::unwrap_used)]

mod harness;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use harness::{Ended, FORETELL, Tree, foretell, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A night under timeout(1): one that never ends is a failure and not a hang.
fn night(tree: &Tree, before: &[&str], job: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    // In the foreground: signals to timeout(1) are told apart from those to the night.
    command.args(["--foreground", "--kill-after=5", "60"]).args(before);
    command
        .args([FORETELL, "learn", "-q", "--name", "job", "--state"])
        .arg(tree.file("state"))
        .arg("--")
        .args(job);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn code_of(tree: &Tree, before: &[&str], job: &[&str]) -> Option<i32> {
    let ended = Ended::from(night(tree, before, job).output().unwrap());
    assert_ne!(ended.code, Some(124), "it did not end: {}", ended.stderr);
    ended.code
}

#[test]
fn the_exit_code_is_the_jobs_own() {
    let tree = Tree::new(&[]);
    assert_eq!(code_of(&tree, &[], &["sh", "-c", "exit 7"]), Some(7));
    assert_eq!(code_of(&tree, &[], &["/no/such/program"]), Some(127));
    assert_eq!(code_of(&tree, &[], &["/etc/passwd"]), Some(126));
}

/// A shell that was interrupted ends its loop only if what it ran was ended by the signal as well, and systemd takes an end
/// by `SIGTERM` for one in good order.
#[test]
fn who_waits_sees_the_signal_that_has_ended_the_job() {
    let tree = Tree::new(&[]);
    for (way, signal) in [("alone", 2), ("watch", 15), ("alone", 9), ("watch", 11), ("alone", 40)] {
        let state = tree.file("state").display().to_string();
        let job = format!("kill -{signal} $$");
        let words = ["learn", "-q", "--name", "job", "--state", &state, "--as", way, "--", "sh", "-c", &job];
        let ended = foretell(words);
        assert_eq!((ended.code, ended.signal), (None, Some(signal)), "{way}: {}", ended.stderr);
    }
}

/// What has left the process group is our child as well when its parent has ended.
#[test]
fn what_the_job_leaves_behind_is_taken_leave_of() {
    let tree = Tree::new(&[]);
    let (begun, end) = (tree.file("begun"), tree.file("end"));
    let script = format!(
        "for i in 1 2 3; do (setsid true &); done; touch '{}'; while [ ! -e '{}' ]; do sleep 0.05; done",
        begun.display(),
        end.display()
    );
    let night = night(&tree, &[], &["sh", "-c", &script]).spawn().unwrap();
    wait_until("the job has begun", || begun.exists());
    let keeper = keeper(&night).as_raw_nonzero();
    wait_until("nobody is left but who does the work", || {
        let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap();
        children.split_ascii_whitespace().count() <= 1
    });
    std::fs::write(end, "").unwrap();
    assert_eq!(night.wait_with_output().unwrap().status.code(), Some(0));
}

/// A job may lead a process group of its own, as an interactive shell does.
#[test]
fn the_exit_code_of_a_job_in_a_group_of_its_own_is_known_when_what_does_the_work_is_killed() {
    let tree = Tree::new(&[]);
    let begun = tree.file("begun");
    let script = format!("touch '{}'; sleep 1; exit 7", begun.display());
    let night = night(&tree, &[], &["setsid", "sh", "-c", &script]).spawn().unwrap();
    wait_until("the job has begun", || begun.exists());
    let keeper = keeper(&night).as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap();
    let worker = children.split_ascii_whitespace().next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    let ended = Ended::from(night.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
}

/// As every shell does, and env(1), and cron.
#[test]
fn a_script_without_an_interpreter_is_the_shells() {
    let tree = Tree::new(&[]);
    let script = tree.write("nightly", "test \"$1 $2\" = 'a b c' && exit 7\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(code_of(&tree, &[], &[script.to_str().unwrap(), "a b", "c"]), Some(7));
}

/// The kernel takes leave of children by itself then, unless that is changed.
#[test]
fn the_exit_code_is_known_where_sigchld_was_ignored() {
    let tree = Tree::new(&[]);
    assert_eq!(code_of(&tree, &["env", "--ignore-signal=CHLD"], &["sh", "-c", "exit 7"]), Some(7));
}

/// What the job leaves behind is not waited for, as no shell would.
#[test]
fn what_the_job_leaves_behind_is_not_waited_for() {
    let tree = Tree::new(&[]);
    let left = tree.file("left");
    let script = format!("sleep 300 > /dev/null 2>&1 < /dev/null & echo $! > '{}'; exit 3", left.display());
    assert_eq!(code_of(&tree, &[], &["sh", "-c", &script]), Some(3));
    let left: i32 = std::fs::read_to_string(left).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(left).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn standard_input_is_the_jobs() {
    let tree = Tree::new(&[]);
    let mut night = night(&tree, &[], &["tr", "a-z", "A-Z"]).stdin(Stdio::piped()).spawn().unwrap();
    night.stdin.take().unwrap().write_all(b"said\n").unwrap();
    let ended = Ended::from(night.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "SAID\n"), "{}", ended.stderr);
}

/// Whoever ends or tells the job something sends it to the process that was started.
#[test]
fn signals_are_passed_on_to_the_job() {
    let tree = Tree::new(&[]);
    for (signal, code) in [(Signal::TERM, 40), (Signal::USR1, 41), (Signal::INT, 42)] {
        let begun = tree.file(&format!("begun-{code}"));
        let script = format!(
            "trap 'exit 40' TERM; trap 'exit 41' USR1; trap 'exit 42' INT; touch '{}'; while :; do sleep 0.05; done",
            begun.display()
        );
        let night = night(&tree, &[], &["sh", "-c", &script]).spawn().unwrap();
        wait_until("the job has begun", || begun.exists());
        kill_process(keeper(&night), signal).unwrap();
        let ended = Ended::from(night.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(code), "{signal:?}: {}", ended.stderr);
    }
}

/// The command itself, below timeout(1).
fn keeper(night: &Child) -> Pid {
    let id = night.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    children.split_ascii_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?)).unwrap()
}
