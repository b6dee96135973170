//! What is signalled reaches the job exactly once, whoever it is sent to: to a job that counts, the second one means "at once". And
//! who waits for us sees the job stop and go on, as a shell does that waits for the job itself.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use foretell_cgroup::{Controller, MemoryGroup, Place};
use harness::wait_until;
use harness::ways::Ways;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

const HUP: i32 = 1;
const INT: i32 = 2;
const ALRM: i32 = 14;
const TERM: i32 = 15;
const CONT: i32 = 18;
const STOP: i32 = 19;
/// All that stop who does nothing else on them.
const STOPS: [i32; 4] = [STOP, TSTP, TTIN, TTOU];
const TSTP: i32 = 20;
const TTIN: i32 = 21;
const TTOU: i32 = 22;
/// Longer than anything that is passed on takes: what comes a second time has come by then.
const SETTLED: Duration = Duration::from_millis(250);
const WAYS: [&str; 4] = ["run", "rule", "first", "steer"];
/// The same, and nothing before the job.
const ALL: [&str; 5] = ["plain", "run", "rule", "first", "steer"];

/// A job that counts the signals that it gets.
struct Stage {
    ways: Ways,
    counts: String,
}

impl Stage {
    /// `None`, with a word, where there is no C compiler.
    fn new(test: &str) -> Option<Stage> {
        let ways = Ways::new();
        let counts = ways.compiled("counts", test)?;
        Some(Stage { ways, counts })
    }

    /// A job that counts, as the leader of a process group, behind `before`; returns when it has begun.
    fn counting(&self, way: &str, before: &[&str]) -> Counting {
        let log = self.ways.tree.file("log");
        let _ = std::fs::remove_file(&log);
        let job = [self.counts.as_str(), "count", &self.ways.text("log")];
        // Whoever has started the tests may have had signals ignored.
        let mut command = Command::new("env");
        command.arg("--default-signal").args(before);
        command.args(self.ways.words(way, &job));
        let child = self.ways.alone(command.stdin(Stdio::piped()).process_group(0)).spawn().unwrap();
        let counting = Counting { child, log };
        wait_until("the job has begun", || counting.log().starts_with("begun\n"));
        counting
    }

    /// A job that stops, as the leader of a process group.
    fn stopping(&self, way: &str, job: &[&str]) -> Counting {
        let mut command = Command::new("env");
        command.arg("--default-signal").args(self.ways.words(way, job));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        Counting { child: self.ways.alone(command).spawn().unwrap(), log: self.ways.tree.file("none") }
    }
}

/// A job that runs.
struct Counting {
    child: Child,
    log: PathBuf,
}

impl Counting {
    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// How often it has got a signal.
    fn got(&self, signal: i32) -> usize {
        let line = format!("{signal:02}");
        self.log().lines().filter(|found| *found == line).count()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The process and all that it has started.
    fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.child.id()];
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            for task in tasks {
                let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
                found.extend(children.split_ascii_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
            }
            next += 1;
        }
        found
    }

    /// Waits until it has got a signal so often, and no more often.
    fn has_got(&self, signal: i32, times: usize, what: &str) {
        wait_until("the job has got the signal", || self.got(signal) >= times);
        std::thread::sleep(SETTLED);
        assert_eq!(self.got(signal), times, "{what}: {}", self.log());
    }

    /// What who waits for it sees next.
    fn next(&self) -> String {
        let how = WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        let mut seen = None;
        wait_until("something is seen of the job", || {
            seen = waitpid(Some(self.pid()), how).unwrap().map(|(_, status)| status);
            seen.is_some()
        });
        let status = seen.unwrap();
        match (status.stopping_signal(), status.exit_status()) {
            (Some(signal), _) => format!("stopped by {signal}"),
            (_, Some(code)) => format!("exit code {code}"),
            _ if status.continued() => "goes on".to_owned(),
            _ => format!("{status:?}"),
        }
    }

    /// Has it do one thing more.
    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }

    /// Sees it end.
    fn ends(&mut self, code: i32, what: &str) {
        drop(self.child.stdin.take());
        let mut seen = self.next();
        // That it goes on may be told once more on a busy machine.
        while seen == "goes on" {
            seen = self.next();
        }
        assert_eq!(seen, format!("exit code {code}"), "{what}");
    }

    /// The process of the job itself, once it is there.
    fn job(&self) -> Pid {
        let mut found = None;
        wait_until("the job is there", || {
            let is_job = |pid: &u32| {
                std::fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|name| name.trim_end() == "counts")
            };
            found = self.processes().into_iter().find(is_job);
            found.is_some()
        });
        Pid::from_raw(found.unwrap().cast_signed()).unwrap()
    }

    /// Lets it end.
    fn end(&mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if std::thread::panicking() {
            let _ = kill_process_group(self.pid(), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn tell(pid: u32, signal: Signal) {
    // It may have ended.
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal);
}

/// As kill(1), which is another process each time.
fn kill(words: &[&str]) {
    assert!(Command::new("kill").args(words).status().unwrap().success());
}

#[test]
fn what_is_sent_to_the_process_arrives_once_and_two_one_after_the_other_as_two() {
    let test = "what_is_sent_to_the_process_arrives_once_and_two_one_after_the_other_as_two";
    let Some(stage) = Stage::new(test) else { return };
    for way in WAYS {
        let job = stage.counting(way, &[]);
        for times in 1..=2 {
            kill_process(job.pid(), Signal::TERM).unwrap();
            job.has_got(TERM, times, way);
        }
        // Not so long after one another that we could have forgotten the first one.
        kill_process(job.pid(), Signal::INT).unwrap();
        wait_until("the job has got the signal", || job.got(INT) == 1);
        kill_process(job.pid(), Signal::INT).unwrap();
        job.has_got(INT, 2, way);
    }
}

#[test]
fn what_is_sent_to_the_process_group_arrives_once_and_two_one_after_the_other_as_two() {
    let test = "what_is_sent_to_the_process_group_arrives_once_and_two_one_after_the_other_as_two";
    let Some(stage) = Stage::new(test) else { return };
    for way in WAYS {
        let mut job = stage.counting(way, &[]);
        for times in 1..=2 {
            kill_process_group(job.pid(), Signal::TERM).unwrap();
            job.has_got(TERM, times, way);
        }
        let group = format!("-{}", job.child.id());
        for times in 1..=2 {
            kill(&["-INT", "--", &group]);
            wait_until("the job has got the signal", || job.got(INT) >= times);
        }
        job.has_got(INT, 2, way);
        // To the group, and then to the process by the same sender.
        kill_process_group(job.pid(), Signal::HUP).unwrap();
        job.has_got(HUP, 1, way);
        kill_process(job.pid(), Signal::HUP).unwrap();
        job.has_got(HUP, 2, way);
        assert_eq!(job.end().code(), Some(7), "{way}");
    }
}

/// As systemd does to all of a unit, one after the other.
#[test]
fn what_is_sent_to_each_process_of_a_control_group_arrives_once() {
    let test = "what_is_sent_to_each_process_of_a_control_group_arrives_once";
    let Some(stage) = Stage::new(test) else { return };
    for way in WAYS {
        let name = format!("foretell-test-told-{}-{way}", std::process::id());
        let place = Place::find(Controller::Memory, &name);
        let group = place.and_then(|place| MemoryGroup::new(place, None)).ok();
        let procs = group.as_ref().map(|group| group.procs().display().to_string());
        let enter = "test -z \"$0\" || echo $$ > \"$0\"; exec \"$@\"";
        let job = stage.counting(way, &["sh", "-c", enter, procs.as_deref().unwrap_or_default()]);
        for times in 1..=2 {
            let processes = match &procs {
                Some(procs) => {
                    std::fs::read_to_string(procs).unwrap().lines().map(|pid| pid.parse().unwrap()).collect()
                }
                None => job.processes(),
            };
            let processes: BTreeSet<u32> = processes.into_iter().collect();
            assert!(processes.len() >= 3, "{way}: {processes:?}");
            processes.iter().for_each(|pid| tell(*pid, Signal::TERM));
            job.has_got(TERM, times, way);
        }
    }
}

/// As pkill(1) and killall(1) do.
#[test]
fn what_is_sent_to_all_that_have_our_name_arrives_once() {
    let test = "what_is_sent_to_all_that_have_our_name_arrives_once";
    let Some(stage) = Stage::new(test) else { return };
    for way in WAYS {
        let job = stage.counting(way, &[]);
        let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let ours = job.processes().into_iter().filter(|pid| name(*pid).contains("foretell"));
        ours.for_each(|pid| tell(pid, Signal::TERM));
        job.has_got(TERM, 1, way);
    }
}

/// `pkill -f foretell`: to what of us there is, and not to the job, which looks as if the job had been told as well.
#[test]
fn a_job_that_ends_of_a_signal_is_ended_by_one_that_only_we_have_heard() {
    let test = "a_job_that_ends_of_a_signal_is_ended_by_one_that_only_we_have_heard";
    let Some(stage) = Stage::new(test) else { return };
    for way in WAYS {
        let words = stage.ways.words(way, &["sleep", "60"]);
        let mut command = Command::new("env");
        command.arg("--default-signal").args(&words).stdin(Stdio::piped()).process_group(0);
        let child = stage.ways.alone(&mut command).spawn().unwrap();
        let mut job = Counting { child, log: stage.ways.tree.file("none") };
        let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let has_begun = || job.processes().iter().any(|pid| name(pid).trim_end() == "sleep");
        wait_until("the job has begun", has_begun);
        let ours = job.processes().into_iter().filter(|pid| name(pid).starts_with("foretel"));
        ours.for_each(|pid| tell(pid, Signal::TERM));
        assert_eq!(job.end().signal(), Some(TERM), "{way}");
    }
}

/// Who stays with the job is told by what was sent to the one that works.
#[test]
fn what_is_sent_to_the_process_that_works_arrives_once() {
    let test = "what_is_sent_to_the_process_that_works_arrives_once";
    let Some(stage) = Stage::new(test) else { return };
    for way in WAYS {
        let job = stage.counting(way, &[]);
        let worker = job.processes()[1];
        tell(worker, Signal::TERM);
        job.has_got(TERM, 1, way);
        // It is there no more, and what stays goes on.
        tell(worker, Signal::KILL);
        wait_until("it has ended", || !job.processes().contains(&worker));
        kill_process(job.pid(), Signal::INT).unwrap();
        job.has_got(INT, 1, way);
    }
}

#[test]
fn what_was_blocked_waits_in_the_job_once() {
    let test = "what_was_blocked_waits_in_the_job_once";
    let Some(stage) = Stage::new(test) else { return };
    let blocked = [stage.counts.as_str(), "block", "15"];
    for way in WAYS {
        for to_group in [false, true] {
            let mut job = stage.counting(way, &blocked);
            if to_group {
                kill_process_group(job.pid(), Signal::TERM).unwrap();
            } else {
                kill_process(job.pid(), Signal::TERM).unwrap();
            }
            // Not blocked: what comes is told apart as before.
            kill_process_group(job.pid(), Signal::INT).unwrap();
            job.has_got(INT, 1, way);
            assert_eq!(job.got(TERM), 0, "{way}");
            assert_eq!(job.end().code(), Some(7), "{way}");
            assert_eq!(job.got(TERM), 1, "{way}, to the group: {to_group}");
        }
    }
}

#[test]
fn a_timer_that_was_set_before_is_the_jobs() {
    let test = "a_timer_that_was_set_before_is_the_jobs";
    let Some(stage) = Stage::new(test) else { return };
    // By then it has begun, on a busy machine too.
    let timer = [stage.counts.as_str(), "alarm", "4000"];
    std::thread::scope(|scope| {
        // All at a time: it is a while until they have run out.
        let stages = ["run", "first"].map(|way| (way, Stage::new(test).unwrap()));
        let timer = &timer;
        for (way, stage) in stages {
            scope.spawn(move || {
                let mut job = stage.counting(way, timer);
                assert_eq!(job.got(ALRM), 0, "{way}");
                job.has_got(ALRM, 1, way);
                assert_eq!(job.end().code(), Some(7), "{way}");
                let mut command = Command::new("env");
                command
                    .args(["--default-signal", timer[0], "alarm", "2000"])
                    .args(stage.ways.words(way, &["sleep", "60"]));
                let ended = stage.ways.alone(command.stdin(Stdio::null())).status().unwrap();
                assert_eq!(ended.signal(), Some(ALRM), "{way}");
            });
        }
    });
}

/// Only who leads the session is told by the kernel, as with `ssh -t`.
#[test]
fn that_the_terminal_is_gone_is_told_to_the_job() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let test = "that_the_terminal_is_gone_is_told_to_the_job";
    let Some(stage) = Stage::new(test) else { return };
    for way in ["run", "first"] {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = std::fs::File::options().read(true).write(true).open(name).unwrap();
        let log = stage.ways.tree.file("log");
        let _ = std::fs::remove_file(&log);
        // Not the terminal's, which ends with it.
        let input = stage.ways.text("input");
        let _ = std::fs::remove_file(&input);
        assert!(Command::new("mkfifo").arg(&input).status().unwrap().success());
        let mut command = Command::new("env");
        command.args(["--default-signal", "setsid", "--ctty", "sh", "-c", "exec \"$@\" < \"$0\"", &input]);
        command.args(stage.ways.words(way, &[&stage.counts, "count", &stage.ways.text("log")]));
        command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap()).stderr(side);
        let child = stage.ways.alone(&mut command).spawn().unwrap();
        drop(command);
        let input = std::fs::File::options().write(true).open(&input).unwrap();
        let mut job = Counting { child, log };
        wait_until("the job has begun", || job.log().starts_with("begun\n"));
        rustix::io::write(&terminal, &[3]).unwrap();
        wait_until("the job has got the signal", || job.got(INT) >= 1);
        drop(terminal);
        job.has_got(HUP, 1, way);
        drop(input);
        assert_eq!(job.child.wait().unwrap().code(), Some(7), "{way}");
        assert_eq!(job.got(INT), 1, "{way}: {}", job.log());
    }
}

/// Waits until both processes of ours hear what stops a job: a moment after it has begun. The first one is given.
fn wait_until_followed(way: &str, keeper: u32) {
    let hears = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (TTOU - 1)) != 0)
    };
    let worker = || children_of(keeper).first().copied();
    wait_until("the job is followed", || way == "plain" || hears(keeper) && worker().is_some_and(hears));
}

/// The children of the first thread of a process, the oldest first.
fn children_of(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn continues(job: &Counting, what: &str) {
    kill_process_group(job.pid(), Signal::CONT).unwrap();
    assert_eq!(job.next(), "goes on", "{what}");
}

#[test]
fn a_job_that_stops_itself_is_seen_to_stop_and_to_go_on() {
    let Some(stage) = Stage::new("a_job_that_stops_itself_is_seen_to_stop_and_to_go_on") else { return };
    for way in ALL {
        for signal in STOPS {
            for how in ["stops", "leads"] {
                let what = format!("{way} {how} {signal}");
                let mut job = stage.stopping(way, &[&stage.counts, how, &signal.to_string()]);
                for _ in 0..3 {
                    job.go();
                    assert_eq!(job.next(), format!("stopped by {signal}"), "{what}");
                    continues(&job, &what);
                }
                job.ends(7, &what);
            }
        }
    }
}

#[test]
fn a_job_that_somebody_else_stops_and_continues_is_seen_to() {
    let Some(stage) = Stage::new("a_job_that_somebody_else_stops_and_continues_is_seen_to") else { return };
    for way in ALL {
        let mut job = stage.stopping(way, &[&stage.counts, "stops", "19"]);
        let process = job.job();
        for _ in 0..3 {
            kill_process(process, Signal::STOP).unwrap();
            assert_eq!(job.next(), "stopped by 19", "{way}");
            kill_process(process, Signal::CONT).unwrap();
            assert_eq!(job.next(), "goes on", "{way}");
        }
        // To the number that is known.
        kill_process(job.pid(), Signal::TSTP).unwrap();
        assert_eq!(job.next(), format!("stopped by {TSTP}"), "{way}");
        kill_process(job.pid(), Signal::CONT).unwrap();
        assert_eq!(job.next(), "goes on", "{way}");
        // To all of the group; of SIGTSTP so see `docs/run.md`.
        kill_process_group(job.pid(), Signal::STOP).unwrap();
        assert_eq!(job.next(), format!("stopped by {STOP}"), "{way}");
        continues(&job, way);
        job.ends(7, way);
    }
}

#[test]
fn a_job_that_does_not_stop_is_not_seen_to() {
    let Some(stage) = Stage::new("a_job_that_does_not_stop_is_not_seen_to") else { return };
    let script = "trap '' TSTP TTIN TTOU; echo begun; read word; exit 5";
    for way in ALL {
        let mut job = stage.stopping(way, &["sh", "-c", script]);
        let mut said = [0; 6];
        job.child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        wait_until_followed(way, job.child.id());
        for signal in [Signal::TSTP, Signal::TTIN, Signal::TTOU] {
            kill_process_group(job.pid(), signal).unwrap();
        }
        job.ends(5, way);
    }
}

#[test]
fn a_job_that_goes_on_counts_that_once() {
    let Some(stage) = Stage::new("a_job_that_goes_on_counts_that_once") else { return };
    for way in WAYS {
        let job = stage.counting(way, &[]);
        for times in 1..=2 {
            let process = job.job();
            kill_process(process, Signal::STOP).unwrap();
            assert_eq!(job.next(), "stopped by 19", "{way}");
            if times == 1 {
                kill_process_group(job.pid(), Signal::CONT).unwrap();
            } else {
                kill_process(job.pid(), Signal::CONT).unwrap();
            }
            assert_eq!(job.next(), "goes on", "{way}");
            job.has_got(CONT, times, way);
        }
    }
}

#[test]
fn who_stays_with_the_job_stops_with_it() {
    let Some(stage) = Stage::new("who_stays_with_the_job_stops_with_it") else { return };
    for way in WAYS {
        let mut job = stage.stopping(way, &[&stage.counts, "stops", "19"]);
        let process = job.job();
        let worker = job.processes()[1];
        tell(worker, Signal::KILL);
        wait_until("it has ended", || !job.processes().contains(&worker));
        kill_process(process, Signal::STOP).unwrap();
        assert_eq!(job.next(), "stopped by 19", "{way}");
        continues(&job, way);
        job.ends(7, way);
    }
}

/// What is read from a terminal's other end.
struct Screen {
    terminal: std::os::fd::OwnedFd,
    text: String,
}

impl Screen {
    /// Reads until something stands there.
    fn until(&mut self, what: &str) {
        wait_until(what, || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = rustix::io::read(&self.terminal, &mut bytes) {
                self.text += &String::from_utf8_lossy(&bytes[..count]);
            }
            self.text.contains(what)
        });
    }

    fn types(&self, text: &str) {
        assert_eq!(rustix::io::write(&self.terminal, text.as_bytes()), Ok(text.len()));
    }
}

/// An editor gives the terminal its screen back before it stops: the shell takes the terminal then, and not before.
#[test]
fn the_shell_takes_the_terminal_when_the_job_has_stopped() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let Some(stage) = Stage::new("the_shell_takes_the_terminal_when_the_job_has_stopped") else { return };
    for way in ALL {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        rustix::fs::fcntl_setfl(&terminal, rustix::fs::OFlags::NONBLOCK).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let side = std::fs::File::options().read(true).write(true).open(name).unwrap();
        let log = stage.ways.tree.file("screen");
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new("env");
        command.args(["--default-signal", "setsid", "--ctty", "bash", "--norc", "-i"]);
        command.stdin(side.try_clone().unwrap()).stdout(side.try_clone().unwrap()).stderr(side);
        let mut shell = stage.ways.alone(command.env("PS1", "ready>")).spawn().unwrap();
        drop(command);
        let mut screen = Screen { terminal, text: String::new() };
        screen.until("ready>");
        let words = stage.ways.words(way, &[&stage.counts, "screen", &stage.ways.text("screen")]);
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        screen.types(&format!("{}\n", words.join(" ")));
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        wait_until("the job has begun", || logged() == "begun\n");
        wait_until_followed(way, children_of(shell.id())[0]);
        for round in 1..=2 {
            screen.text.clear();
            screen.types("\x1a");
            screen.until("Stopped");
            assert_eq!(logged().matches("restored").count(), round, "{way}: {}", screen.text);
            screen.until("ready>");
            screen.types("fg\n");
            wait_until("it is there again", || logged().matches("again").count() == round);
        }
        screen.text.clear();
        screen.types("\x03");
        screen.until("ready>");
        screen.types("exit\n");
        assert_eq!(shell.wait().unwrap().code(), Some(128 + INT), "{way}");
    }
}
