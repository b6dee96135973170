//! The runtime by itself: cases in C (runtime/cases.c), plain and under the sanitizers, as process and as thread.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

mod oracle;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use oracle::{Build, Once, difference, run, runtime_folder, sequences};

/// Cases of both modes, and those of a process alone.
const CASES: &[&str] = &[
    "calls",
    "diverges",
    "closes_early",
    "fails null",
    "fails stack",
    "fails divide",
    "fails stream",
    "fails descriptor",
    "own_children",
    "first_descriptor",
    "sends",
    "overflows",
    "wrong_channel",
    "many_files",
    "left_behind",
    "too_many_files",
    "back_pressure",
    "rule",
    "batches",
    "gaps",
    "holding",
    "enough",
    "around",
    "discloses",
    "refused_and_forgotten",
    "full_ring",
    "judging",
    "earns",
    "weighs_its_waits",
    "keeps_errno",
    "behind",
    "dozes",
    "starts_late",
    "same_bytes",
];
const PROCESS_CASES: &[&str] = &[
    "fails abort",
    "fails exit",
    "is_put_away",
    "child_of_vfork",
    "changes_unseen",
    "closes_everything",
    "closes_the_trace",
    "is_limited",
    "frees",
    "meets_a_pipe",
    "too_late",
    "computes",
    "maps_what_is_in_memory",
];

struct Cases {
    folder: tempfile::TempDir,
    program: &'static Path,
}

fn cases(build: Build) -> Cases {
    static PROGRAMS: Once = Once::new();
    let program = PROGRAMS.compile(build, "cases", |command| {
        command.args(build.flags()).arg("-DRECORD_READAHEAD").arg("-I").arg(runtime_folder());
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtime/cases.c"));
    });
    Cases { folder: tempfile::tempdir().unwrap(), program }
}

fn all_cases(build: Build) {
    let cases = cases(build);
    for mode in ["fork", "thread"] {
        let more = if mode == "fork" { PROCESS_CASES } else { &[] };
        for (number, case) in CASES.iter().chain(more).enumerate() {
            // The sanitizers' allocators end the process where there is no memory, and keep what was freed.
            if build != Build::Plain && matches!(*case, "is_limited" | "frees") {
                continue;
            }
            // The thread sanitizer wants fork(2), whose child wait(2) sees, and keeps signals back.
            if build == Build::Thread && mode == "fork" && matches!(*case, "own_children" | "computes") {
                continue;
            }
            let folder = cases.folder.path().join(format!("{mode}-{number}"));
            fs::create_dir(&folder).unwrap();
            let args: Vec<String> = case.split(' ').map(str::to_owned).collect();
            let trace = folder.join("trace");
            let ran = run(cases.program, &args, &folder, None, Some((mode, &trace)));
            let said = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert_eq!(
                (said.as_str(), ran.code),
                ("good\n", Some(0)),
                "{case}, {mode}: {} {}",
                ran.stderr,
                ran.sanitizer
            );
            if *case == "calls" {
                assert!(sequences(&trace).0.len() > 30);
                assert_eq!(difference(&trace), None, "{mode}");
            }
        }
    }
}

#[test]
fn plain() {
    all_cases(Build::Plain);
}

#[test]
fn under_the_address_sanitizer() {
    all_cases(Build::Address);
}

#[test]
fn under_the_thread_sanitizer() {
    all_cases(Build::Thread);
}

/// A fault of the program's own ends it as it always did.
#[test]
fn faults_of_the_program_stay_its_own() {
    use std::os::unix::process::ExitStatusExt as _;
    let cases = cases(Build::Plain);
    for mode in ["fork", "thread", "off"] {
        let mut command = Command::new(cases.program);
        command.arg("own_fault").current_dir(cases.folder.path()).env("FORETELL_SLICE", mode);
        let status = command.status().unwrap();
        assert_eq!(status.signal(), Some(11), "{mode}");
    }
}

/// Is there a process of this number that is not just waiting to be buried?
fn lives(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.contains("foretell-slice") && !stat.contains(") Z ")
}

/// `program | reader`: the pipe ends with the program, although its slice would sleep for ever.
#[test]
fn the_slice_holds_no_pipe_and_dies_with_the_program() {
    let cases = cases(Build::Plain);
    let mut command = Command::new(cases.program);
    command.arg("prints_and_ends").current_dir(cases.folder.path()).env("FORETELL_SLICE", "fork");
    // Reads until every writer has closed.
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let slice = said.lines().next().unwrap().strip_prefix("slice ").unwrap().to_owned();
    // Not a moment later: a file system that it read could be unmounted now.
    assert!(!Path::new(&format!("/proc/{slice}")).exists());
}

/// A program that becomes another one (execve) leaves no slice behind.
#[test]
fn the_slice_ends_when_the_program_becomes_another() {
    let cases = cases(Build::Plain);
    let mut command = Command::new(cases.program);
    command.arg("becomes_another").current_dir(cases.folder.path()).env("FORETELL_SLICE", "fork");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let slice = lines.next().unwrap().unwrap().strip_prefix("slice ").unwrap().to_owned();
    while lives(&slice) {
        std::thread::yield_now();
    }
    // The other program is still there and waits for a line.
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "good");
    assert!(child.wait().unwrap().success());
}
