//! The program under control behaves as if it had been started without us.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::process::{Command, Stdio};

use harness::{Background, Ended, FORETELL, Tree, can_control, foretell, wait_until};
use rustix::process::Signal;

/// Runs a shell script under control.
fn shell(tree: &Tree, script: &str) -> Ended {
    foretell(["run", "--budget", "1M", "--quiet", "--rule", &tree.rule("mru"), "--", "sh", "-c", script])
}

#[test]
fn exit_codes_and_signals_are_the_programs_own() {
    if !can_control("exit_codes_and_signals_are_the_programs_own") {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    assert_eq!(shell(&tree, "exit 0").code, Some(0));
    assert_eq!(shell(&tree, "exit 7").code, Some(7));
    // A shell that was interrupted ends its loop only if what it ran was ended by the signal as well.
    for signal in [2, 11, 15, 9, 40] {
        let ended = shell(&tree, &format!("kill -{signal} $$"));
        assert_eq!((ended.code, ended.signal), (None, Some(signal)), "{}", ended.stderr);
        let watched = foretell(["run", "--quiet", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!((watched.code, watched.signal), (None, Some(signal)), "{}", watched.stderr);
    }
}

#[test]
fn a_device_that_is_named_for_results_stays_one() {
    use std::os::unix::fs::FileTypeExt;
    let test = "a_device_that_is_named_for_results_stays_one";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    let device = tree.file("null");
    let made = Command::new("mknod").arg(&device).args(["c", "1", "3"]).status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: {test}: no device can be made here");
        return;
    }
    let path = device.display().to_string();
    for flag in ["--stats", "--record"] {
        let ended = foretell(["run", flag, &path, "--quiet", "--rule", &tree.rule("mru"), "--", "true"]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{flag}");
        assert!(std::fs::symlink_metadata(&device).unwrap().file_type().is_char_device(), "{flag}");
    }
    let ended = foretell(["sim", "--workload", "synth", "--html", &path]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(std::fs::symlink_metadata(&device).unwrap().file_type().is_char_device());
    assert_eq!(std::fs::read_dir(tree.path()).unwrap().count(), 2);
}

/// Its reader, which is there before us, is there to the end.
#[test]
fn a_pipe_that_is_named_for_results_gets_them() {
    let test = "a_pipe_that_is_named_for_results_gets_them";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    let pipe = tree.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (path, reads) = (pipe.display().to_string(), tree.file("reads").display().to_string());
    let a = tree.file("a").display().to_string();
    assert_eq!(foretell(["run", "--quiet", "--record", &reads, "--", "cat", &a]).code, Some(0));
    for (arguments, begins) in [
        (["run", "--quiet", "--record", &path, "--", "true"].to_vec(), "foretell-recording"),
        (["run", "--quiet", "--stats", &path, "--", "true"].to_vec(), "{"),
        (["trace", "show", &reads, "--svg", &path].to_vec(), "<svg"),
    ] {
        let reader = Command::new("cat").arg(&pipe).stdout(Stdio::piped()).spawn().unwrap();
        // Opening it for writing waits for the reader.
        let waited = std::fs::File::options().write(true).open(&pipe).unwrap();
        let foretell = Command::new(FORETELL).args(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("it holds the pipe", || holds(foretell.id(), &pipe) || !is_foretell(foretell.id()));
        drop(waited);
        let ended = Ended::from(foretell.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        let read = reader.wait_with_output().unwrap().stdout;
        assert!(String::from_utf8_lossy(&read).starts_with(begins), "{arguments:?}");
    }
}

#[test]
fn output_input_and_surroundings_are_untouched() {
    if !can_control("output_input_and_surroundings_are_untouched") {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    // Descriptors, priority, scheduling class, ignored and blocked signals, limits, working directory. It reads what the rule
    // is for: otherwise that is said.
    let script = "cat \"$A\" >/dev/null; ls /proc/self/fd; pwd; grep -E '^(Sig(Blk|Ign)|NoNewPrivs|CapEff)' /proc/self/status; \
                  cut -d' ' -f18,19,40,41 /proc/self/stat; ulimit -a; env | grep -v '^_=' | sort; cat; echo err >&2";
    let run = |command: &mut Command| -> Ended {
        let mut child = command
            .args(["sh", "-c", script])
            .env("A", tree.file("a"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
        child.wait_with_output().unwrap().into()
    };
    let plain = run(Command::new("env").arg("X=1"));
    let mut command = Command::new(FORETELL);
    command.args(["run", "--quiet", "--rule", &tree.rule("mru"), "--"]).args(["env", "X=1"]);
    let controlled = run(&mut command);
    assert_eq!(plain.stdout, controlled.stdout);
    assert_eq!(plain.stderr, controlled.stderr);
    assert!(plain.stdout.contains("through"));
}

#[test]
fn signals_that_are_sent_to_us_reach_the_program_once() {
    if !can_control("signals_that_are_sent_to_us_reach_the_program_once") {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    let passed_on = [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
        (Signal::PIPE, "PIPE"),
        (Signal::WINCH, "WINCH"),
        (Signal::XCPU, "XCPU"),
        (Signal::ABORT, "ABRT"),
        (Signal::POWER, "PWR"),
    ];
    for (signal, name) in passed_on {
        let log = tree.file(name);
        let script = format!(
            "trap 'echo got >> {}; exit 3' {name}; echo begun; \
             n=0; while [ $n -lt 1500 ]; do n=$((n+1)); sleep 0.02; done",
            log.display()
        );
        let run =
            Background::start(["run", "--quiet", "--rule", &tree.rule("mru"), "--", "sh", "-c", &script]);
        run.signal(signal);
        assert_eq!(run.end().code, Some(3), "{name}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "got\n", "{name}");
    }
}

#[test]
fn real_time_signals_reach_the_program_too() {
    if !can_control("real_time_signals_reach_the_program_too") {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    let realtime = foretell_pagecache::realtime_signals();
    for number in [*realtime.start(), *realtime.end()] {
        let script = format!(
            "trap 'exit 3' {number}; echo begun; n=0; while [ $n -lt 1500 ]; do n=$((n+1)); sleep 0.02; done"
        );
        let run =
            Background::start(["run", "--quiet", "--rule", &tree.rule("mru"), "--", "sh", "-c", &script]);
        let pid = rustix::process::Pid::from_raw(run.pid().cast_signed()).unwrap();
        let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        foretell_pagecache::send_signal(std::os::fd::AsFd::as_fd(&process), number).unwrap();
        assert_eq!(run.end().code, Some(3), "{number}");
    }
}

#[test]
fn what_is_typed_at_the_terminal_reaches_the_program_once() {
    if !can_control("what_is_typed_at_the_terminal_reaches_the_program_once") {
        return;
    }
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let tree = Tree::new(&[("a", 10)]);
    let log = tree.file("log");
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let side = std::fs::File::options().read(true).write(true).open(name).unwrap();
    let script = format!(
        "trap 'echo got >> {0}; n=$((n+1))' INT; echo begun >> {0}; while [ \"$n\" != 1 ]; do sleep 0.02; done; \
         sleep 0.2; exit 6",
        log.display()
    );
    // setsid(1) makes the terminal the controlling one of a new session.
    let mut child = Command::new("setsid")
        .args([
            "--ctty",
            "--wait",
            FORETELL,
            "run",
            "--quiet",
            "--rule",
            &tree.rule("mru"),
            "--",
            "sh",
            "-c",
            &script,
        ])
        .stdin(side.try_clone().unwrap())
        .stdout(side.try_clone().unwrap())
        .stderr(side)
        .spawn()
        .unwrap();
    wait_until("the program has begun", || std::fs::read_to_string(&log).is_ok_and(|text| text == "begun\n"));
    rustix::io::write(&terminal, &[3]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(6));
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "begun\ngot\n");
}

#[test]
fn ignored_signals_stay_ignored() {
    if !can_control("ignored_signals_stay_ignored") {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    let script = format!(
        "trap '' HUP; exec {FORETELL} run --quiet --rule '{}' -- sh -c 'kill -HUP $PPID $$; sleep 0.1; echo alive'",
        tree.rule("mru")
    );
    let ended: Ended = Command::new("sh").args(["-c", &script]).output().unwrap().into();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "alive\n"), "{}", ended.stderr);
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    if !can_control("a_reader_that_has_gone_is_no_failure") {
        return;
    }
    let tree = Tree::new(&[("a", 10)]);
    // The other end of standard error is closed before the report is written.
    let mut child = Command::new(FORETELL)
        .args(["run", "--rule", &tree.rule("mru"), "--", "sh", "-c", "sleep 0.2; exit 9"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn the_program_goes_on_when_foretell_is_killed() {
    if !can_control("the_program_goes_on_when_foretell_is_killed") {
        return;
    }
    let tree = Tree::new(&[("a", 1 << 20)]);
    let (a, done) = (tree.file("a"), tree.file("done"));
    let script = format!(
        "exec 3< {a}; head -c 8192 <&3 > /dev/null; echo $$ > {done}.pid; echo begun; read x; cat {a} > /dev/null; \
         cat /proc/self/fdinfo/3 > /dev/null; echo finished > {done}; read y",
        a = a.display(),
        done = done.display()
    );
    let run =
        Background::start(["run", "--budget", "1M", "--rule", &tree.rule("mru"), "--", "sh", "-c", &script]);
    let ours = foretells_below(run.pid());
    assert!(
        ours.iter().any(|pid| bpf_descriptors(*pid) > 0),
        "no BPF program is loaded while a program is controlled"
    );
    run.signal(Signal::KILL);
    // The pipe to the program stays open in `run`; it is closed when `run` is dropped, and `read x` returns.
    drop(run);
    wait_until("the program has gone on", || done.exists());
    // BPF programs without a pin live as long as a descriptor of theirs.
    wait_until("all processes of ours have gone", || ours.iter().all(|pid| bpf_descriptors(*pid) == 0));
    wait_until("the helper has gone", || ours.iter().all(|pid| !is_foretell(*pid)));
}

/// A run and the helper processes of its own.
fn foretells_below(run: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{run}/task/{run}/children")).unwrap();
    let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
    std::iter::once(run).chain(children).filter(|pid| is_foretell(*pid)).collect()
}

/// `foretell` becomes `foretell-tools` for all but `run` and `learn`.
fn is_foretell(pid: u32) -> bool {
    let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    [FORETELL, env!("CARGO_BIN_EXE_foretell-tools")].iter().any(|ours| program == std::path::Path::new(ours))
}

fn bpf_descriptors(pid: u32) -> usize {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let targets = descriptors.flatten().filter_map(|d| std::fs::read_link(d.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("bpf")).count()
}

fn holds(pid: u32, path: &std::path::Path) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|d| std::fs::read_link(d.path()).is_ok_and(|target| target == path))
}
