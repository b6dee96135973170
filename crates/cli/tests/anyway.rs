//! Put before any job, the command never fails it: whatever is lacking, closed, ignored or full, the job runs once, and its
//! output and exit code are those that it has without.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::ways::Ways;
use harness::{Ended, FORETELL};

/// Of a job that says more than it should is left what it says itself: what we say of ourselves stands in lines of its own.
fn compare(ways: &Ways, script: &str, job: &[&str]) {
    let plain = ways.shell("plain", script, job);
    for way in WAYS {
        let ran = ways.shell(way, script, job);
        let own = |line: &&str| !line.starts_with("foretell: ");
        let errors: Vec<&str> = ran.stderr.lines().filter(own).collect();
        let plain_errors: Vec<&str> = plain.stderr.lines().collect();
        assert_eq!((ran.code, &ran.stdout), (plain.code, &plain.stdout), "{script}, {way}: {}", ran.stderr);
        assert_eq!(errors, plain_errors, "{script}, {way}");
    }
}

const WAYS: [&str; 7] = ["run", "record", "rule", "alone", "first", "watch", "steer"];

/// A job that writes down that it runs, and has an exit code of its own.
fn job(notes: &Path) -> String {
    format!("echo once >> '{}'; exit 7", notes.display())
}

/// How the job went in all ways, when a shell has run `script` before them.
fn runs_once(ways: &Ways, script: &str) {
    for way in WAYS {
        let notes = ways.tree.file("notes");
        let _ = std::fs::remove_file(&notes);
        let ran = ways.shell(way, script, &["/bin/sh", "-c", &job(&notes)]);
        assert_eq!(ran.code, Some(7), "{script}, {way}: {}", ran.stderr);
        assert_eq!(std::fs::read_to_string(&notes).unwrap(), "once\n", "{script}, {way}: {}", ran.stderr);
    }
}

#[test]
fn what_was_closed_is_closed_in_the_job_too() {
    let ways = Ways::new();
    let seen = ways.text("seen");
    let job = [
        "sh",
        "-c",
        r#"for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && echo $n; done > "$0"; read x; echo x; exit $?"#,
        &seen,
    ];
    for closed in ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"] {
        let script = format!("exec {closed}; exec \"$@\"");
        let plain = ways.shell("plain", &script, &job).code;
        let without = std::fs::read_to_string(&seen).unwrap();
        for way in WAYS {
            assert_eq!(ways.shell(way, &script, &job).code, plain, "{closed}, {way}");
            assert_eq!(std::fs::read_to_string(&seen).unwrap(), without, "{closed}, {way}");
        }
    }
}

/// The runtime ignores one of them by itself, and we need another one.
#[test]
fn what_was_ignored_is_ignored_in_the_job_too() {
    let ways = Ways::new();
    // Of what the C library does with signals of its own nothing is to be learnt.
    let shell = ["sh", "-c", "grep SigIgn /proc/self/status | cut -c 10-"];
    for script in ["trap '' PIPE CHLD; exec \"$@\"", "trap '' PIPE; exec \"$@\"", "trap '' USR1; exec \"$@\""]
    {
        let plain = ways.shell("plain", script, &shell);
        let mask = |text: &str| u64::from_str_radix(text.trim(), 16).unwrap() & 0x7fff_ffff;
        for way in WAYS {
            let ran = ways.shell(way, script, &shell);
            assert_eq!(mask(&ran.stdout), mask(&plain.stdout), "{script}, {way}: {}", ran.stderr);
        }
    }
}

#[test]
fn the_job_is_called_what_it_was_called() {
    let ways = Ways::new();
    compare(&ways, "exec \"$@\"", &["sh", "-c", "no-such-program-here; tr '\\0' ' ' < /proc/$$/cmdline"]);
}

/// As execvp(3) has it, and as every shell does.
#[test]
fn a_script_that_does_not_say_what_it_is_for_runs() {
    let ways = Ways::new();
    let script = ways.tree.write("script", "echo \"$@\"; exit 4\n");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    compare(&ways, "\"$@\"", &[&script.display().to_string(), "a", "b c"]);
}

#[test]
fn a_job_runs_where_its_directory_is_gone() {
    let ways = Ways::new();
    let gone = ways.text("gone");
    runs_once(&ways, &format!("mkdir -p '{gone}'; cd '{gone}'; rmdir '{gone}'; exec \"$@\""));
}

#[test]
fn a_job_runs_with_however_few_descriptors() {
    let ways = Ways::new();
    let once = ways.text("once");
    // A shell takes descriptors from 10 on to write to a file, and none to start a program.
    let job = ["/bin/sh", "-c", "mkdir \"$0\" && exit 7", &once];
    // What is lacking comes out at another place for each of them, and never looks like something else.
    let tells = |line: &str| ["open files", "start no process"].iter().any(|word| line.contains(word));
    for most in 4..64 {
        for way in WAYS {
            let ran = ways.shell(way, &format!("ulimit -n {most}; exec \"$@\""), &job);
            assert_eq!(ran.code, Some(7), "{most}, {way}: {}", ran.stderr);
            assert!(ran.stderr.lines().all(tells), "{most}, {way}: {}", ran.stderr);
            std::fs::remove_dir(&once).unwrap();
        }
    }
}

/// An allocation that fails ends a process, and nothing can be returned.
#[test]
fn a_job_runs_with_however_little_memory() {
    let ways = Ways::new();
    let mut tried = 0;
    for most_kib in (12_000..60_000).step_by(3_000) {
        let limit = format!("ulimit -v {most_kib}; exec \"$@\"");
        // The command has to be executed at least.
        let begins =
            Command::new("bash").args(["-c", &limit, "bash", FORETELL, "run", "--print-config"]).output();
        if begins.unwrap().status.success() {
            runs_once(&ways, &limit);
            tried += 1;
        }
    }
    assert!(tried > 3);
}

/// A copy of the command, and a directory for the state, that another user can use.
fn for_everybody() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let copied = Command::new("cp").arg(FORETELL).arg(directory.path()).status().unwrap();
    assert!(copied.success());
    let foretell = directory.path().join("foretell");
    (directory, foretell)
}

#[test]
fn a_job_runs_where_no_other_process_is_to_be_had() {
    let test = "a_job_runs_where_no_other_process_is_to_be_had";
    // Nobody else is this user.
    let user = format!("--reuid={}", 64_000 + std::process::id() % 1000);
    let plain = Command::new("setpriv").args([&user, "--clear-groups", "true"]).output();
    if !rustix::process::geteuid().is_root() || !plain.is_ok_and(|output| output.status.success()) {
        println!("skipped: {test}: needs root and setpriv to become another user");
        return;
    }
    let (directory, foretell) = for_everybody();
    let (notes, foretell) = (directory.path().join("notes"), foretell.display().to_string());
    let state = directory.path().join("state").display().to_string();
    let rule = format!("{}/**=mru", directory.path().display());
    // Processes that there may be, and that the job starts itself.
    for (most, started) in [(1, 0), (2, 0), (3, 0), (2, 1), (4, 3), (12, 11), (40, 39)] {
        for way in [
            &["run"][..],
            &["run", "--rule", &rule, "--budget", "1M"],
            &["learn", "--state", &state],
            &["learn", "--state", &state, "--as", "alone"],
        ] {
            let _ = std::fs::remove_file(&notes);
            let script = format!("ulimit -u {most}; exec \"$@\"");
            let mut command = Command::new("setpriv");
            command.args([&user, "--clear-groups", "bash", "-c", &script, "bash", &foretell]).args(way);
            // A shell that starts nothing, or all that it may.
            let wait = if started > 0 { "wait;" } else { "" };
            let job = format!("{}{wait} {}", "sleep 0.1 & ".repeat(started), job(&notes));
            let ended: Ended = command.args(["--", "/bin/sh", "-c", &job]).output().unwrap().into();
            let said = &ended.stderr;
            assert_eq!(ended.code, Some(7), "{most}, {started}, {way:?}: {said}");
            assert_eq!(
                std::fs::read_to_string(&notes).unwrap(),
                "once\n",
                "{most}, {started}, {way:?}: {said}"
            );
        }
    }
}

/// The doctor looks at mechanisms, and says nothing of that.
#[test]
fn nobody_is_sent_to_the_doctor_where_too_few_processes_may_be_started() {
    let test = "nobody_is_sent_to_the_doctor_where_too_few_processes_may_be_started";
    let user = format!("--reuid={}", 65_000 + std::process::id() % 500);
    let plain = Command::new("setpriv").args([&user, "--clear-groups", "true"]).output();
    if !rustix::process::geteuid().is_root() || !plain.is_ok_and(|output| output.status.success()) {
        println!("skipped: {test}: needs root and setpriv to become another user");
        return;
    }
    let (_directory, foretell) = for_everybody();
    for (way, code) in [("--strict", 125), ("--quiet", 7)] {
        let mut command = Command::new("setpriv");
        command.args([&user, "--clear-groups", "bash", "-c", "ulimit -u 20; exec \"$@\"", "bash"]);
        command.arg(&foretell).args(["run", way, "--", "sh", "-c", "exit 7"]);
        let ended: Ended = command.output().unwrap().into();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains("processes and threads may be started"), "{}", ended.stderr);
        assert!(ended.stderr.contains("--strict") && !ended.stderr.contains("doctor"), "{}", ended.stderr);
    }
}

#[test]
fn a_job_runs_where_proc_is_not_mounted() {
    let test = "a_job_runs_where_proc_is_not_mounted";
    let without = "mount -t tmpfs none /proc; exec \"$@\"";
    let possible = Command::new("unshare").args(["-m", "bash", "-c", without, "bash", "true"]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        println!("skipped: {test}: needs root and unshare");
        return;
    }
    runs_once(&Ways::new(), &format!("exec unshare -m bash -c '{without}' bash \"$@\""));
}

/// Whoever started us waits for our end with the pipe full of what the job has said, and reads then.
#[test]
fn a_full_pipe_keeps_nobody_waiting_for_ever() {
    let ways = Ways::new();
    for way in ["run", "alone"] {
        let mut command = ways.command(way, &["sh", "-c", "head -c 65536 /dev/zero >&2; exit 7"]);
        let words: Vec<_> =
            command.get_args().filter(|word| *word != "--quiet").map(ToOwned::to_owned).collect();
        command = Command::new(FORETELL);
        let mut child = command.args(words).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut code = None;
        harness::wait_until("it has ended", || {
            code = child.try_wait().unwrap();
            code.is_some()
        });
        assert_eq!(code.unwrap().code(), Some(7), "{way}");
    }
}

/// Who ends the one that stays ends the night, and with it a job that has not begun.
#[test]
fn a_job_whose_keeper_was_ended_before_does_not_begin() {
    let ways = Ways::new();
    for (round, after_us) in
        [0, 500, 1_000, 2_000, 3_000, 5_000, 8_000, 12_000, 20_000].into_iter().enumerate()
    {
        let notes = ways.tree.file(&format!("notes-{round}"));
        let script = format!("echo $$ >> '{}'; exec sleep 100", notes.display());
        let way = ["alone", "watch", "steer"][round % 3];
        let mut night = ways.command(way, &["sh", "-c", &script]).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(after_us));
        let pid = rustix::process::Pid::from_child(&night);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        night.wait().unwrap();
        // It has no time to begin after all.
        std::thread::sleep(Duration::from_millis(200));
        for job in std::fs::read_to_string(&notes).unwrap_or_default().lines() {
            let process = Path::new("/proc").join(job);
            harness::wait_until("the job has ended", || !process.exists());
        }
    }
}
