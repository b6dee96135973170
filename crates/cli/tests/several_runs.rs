//! Runs that know of each other.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use foretell_protocol::frame::Arrival;
use foretell_protocol::message::Message;
use foretell_protocol::{PROTOCOL, Part, Parts, Reader, Reply, Request};
use foretell_testkit::cached_pages;
use harness::{Background, Go, Hosts, Tree, can_control, foretell, number, statistics, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal};

/// A run whose program prints "begun" and waits until its standard input is closed.
fn waiting(tree: &Tree, flags: &[&str]) -> Background {
    let rule = tree.rule("mru");
    Background::start(
        [&["run", "--budget", "1M", "--rule", &rule], flags, &["--", "sh", "-c", "echo begun; read x; :"]]
            .concat(),
    )
}

#[test]
fn a_joined_run_shares_the_budget_and_reports_its_part() {
    if !can_control("a_joined_run_shares_the_budget_and_reports_its_part") {
        return;
    }
    let tree = Tree::new(&[("a", 2 << 20)]);
    let first = waiting(&tree, &[]);
    let stats = tree.path().join("stats.json");
    let ended = foretell([
        "run",
        "--join",
        &first.pid().to_string(),
        "--rule",
        &tree.rule("mru"),
        "--stats",
        &stats.display().to_string(),
        "--",
        "cat",
        &tree.file("a").display().to_string(),
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let part = statistics(&stats);
    assert_eq!((number(&part, "references"), number(&part, "budget_bytes")), (256, 1 << 20), "{part}");
    assert!(ended.stderr.contains("shared with another run"), "{}", ended.stderr);
    let first = first.end();
    assert!(first.stderr.contains("256   blocks that the program read"), "{}", first.stderr);
}

#[test]
fn a_run_that_has_just_been_started_can_be_joined() {
    if !can_control("a_run_that_has_just_been_started_can_be_joined") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let rule = tree.rule("mru");
    // As a shell does it, which does not wait for the first one to be ready.
    let script = r#"
        exec 3<&0 0</dev/null
        "$0" run --budget 1M --rule "$1" -- sh -c 'read x <&3' &
        exec "$0" run --join $! --rule "$1" -- true"#;
    let mut shell = std::process::Command::new("sh")
        .args(["-c", script, harness::FORETELL, &rule])
        .env("FORETELL_SOCKET", "/nonexistent/foretelld.sock")
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let first_waits_for = shell.stdin.take();
    let joined = shell.wait().unwrap();
    drop(first_waits_for);
    // To the end of both.
    let mut said = String::new();
    shell.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(joined.code(), Some(0), "{said}");
    assert!(said.contains("shared with another run"), "{said}");
}

#[test]
fn a_joined_program_gives_hints_too() {
    if !can_control("a_joined_program_gives_hints_too") {
        return;
    }
    let tree = Tree::new(&[("a", 64 * 8192)]);
    let first = waiting(&tree, &["--prefetch", "controlled-aggressive"]);
    let a = tree.file("a").display().to_string();
    let hints = tree.write("hints", format!("{a}\n")).display().to_string();
    let stats = tree.path().join("stats.json");
    tree.drop_cache();
    // Time for the prefetches: a program of a millisecond is over before the first.
    let go = tree.file("go");
    let script = format!("{}; cat {a} > /dev/null", Go::awaited(&go));
    let (pid, written) = (first.pid().to_string(), stats.display().to_string());
    let flags = ["run", "--quiet", "--join", &pid, "--hints", &hints, "--stats", &written];
    let is_cached = || cached_pages(&tree.file("a")) >= 64;
    let ended = Go::when(&go, "half of it is fetched", is_cached, || {
        foretell([&flags[..], &["--", "sh", "-c", &script]].concat())
    });
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let part = statistics(&stats);
    assert_eq!(number(&part, "references"), 64, "{part}");
    assert!(number(&part, "hits") >= 32, "{part}");
}

#[test]
fn a_joined_program_goes_on_when_the_first_run_ends() {
    if !can_control("a_joined_program_goes_on_when_the_first_run_ends") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let first = waiting(&tree, &[]);
    let second = Background::start([
        "run",
        "--join",
        &first.pid().to_string(),
        "--rule",
        &tree.rule("mru"),
        "--",
        "sh",
        "-c",
        "echo begun; read x; exit 5",
    ]);
    assert_eq!(first.end().code, Some(0));
    // The first run ends when its program does: what the second one has then read is reported.
    let second = second.end();
    assert_eq!(second.code, Some(5));
    assert!(second.stderr.contains("it goes on uncontrolled"), "{}", second.stderr);
    assert!(second.stderr.contains("not controlled all the time"), "{}", second.stderr);
}

#[test]
fn files_under_conflicting_rules_are_left_alone_and_no_others() {
    if !can_control("files_under_conflicting_rules_are_left_alone_and_no_others") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10)]);
    let own = Tree::new(&[("b", 64 << 10)]);
    let first = waiting(&tree, &[]);
    let pid = first.pid().to_string();
    let [a, b, mark] =
        [tree.file("a"), own.file("b"), own.file("mark")].map(|path| path.display().to_string());
    let (rule, own_rule, stats) = (tree.rule("lru"), own.rule("lru"), own.file("stats"));
    let rules = ["--rule", &rule, "--rule", &own_rule];
    for options in [&["--strict", "--join", &pid][..], &["--strict"]] {
        let ended = foretell([&["run"], options, &rules, &["--", "touch", &mark]].concat());
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
        assert!(ended.stderr.contains("conflict") && !own.file("mark").exists(), "{}", ended.stderr);
    }
    let stats_path = stats.display().to_string();
    for options in [&["--join", &pid][..], &["--budget", "1M"]] {
        let options = [options, &["--quiet", "--stats", &stats_path]].concat();
        let ended = foretell([&["run"][..], &options, &rules, &["--", "cat", &a, &b]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let said: Vec<&str> = ended.stderr.lines().collect();
        assert!(said[0].contains("conflict") && said[0].contains(&format!("run {pid}")), "{}", ended.stderr);
        assert!(said[0].contains("this run leaves such files alone"), "{}", ended.stderr);
        let part = statistics(&stats);
        assert_eq!(part["controlled"], true, "{part}");
        if options.contains(&"--join") {
            continue;
        }
        assert_eq!(said.len(), 1, "quiet: {}", ended.stderr);
        let files = part["files"].as_array().unwrap();
        let files: Vec<_> =
            files.iter().map(|f| (f["path"].as_str().unwrap(), number(f, "references"))).collect();
        assert_eq!(files, [(b.as_str(), 8)]);
    }
    // The same policy is no conflict.
    let ended = foretell(["run", "--quiet", "--budget", "1M", "--rule", &tree.rule("mru"), "--", "true"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

/// Talks to a host as anybody could.
struct Talk {
    socket: OwnedFd,
    reader: Reader,
    parts: Parts,
}

impl Talk {
    fn to(socket: &Path) -> Talk {
        let socket = foretell_protocol::socket::connect(socket).unwrap();
        let mut talk = Talk { socket, reader: Reader::new(), parts: Parts::default() };
        talk.say(&Request::Hello { protocol: PROTOCOL, ring_entries: None }, &[]);
        talk
    }

    fn say(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.write(&bytes, descriptors);
    }

    fn write(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let sent = foretell_protocol::socket::send(self.socket.as_fd(), bytes, descriptors).unwrap();
        assert_eq!(sent, bytes.len());
    }

    /// Asks about a run; what is said to that.
    fn ask(&mut self, text: &str) -> String {
        let pidfd = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        let part = Part { more: false, text: text.to_owned() };
        self.say(&Request::Run(part), &[pidfd.as_fd()]);
        self.hear()
    }

    /// The next thing that is said.
    fn hear(&mut self) -> String {
        loop {
            while let Some(frame) = self.reader.next_frame::<Reply>().unwrap() {
                match frame.message {
                    Reply::Error { text, .. } | Reply::Ended { text, .. } => return text,
                    Reply::Run(part) => {
                        if let Some(text) = self.parts.add(&part).unwrap() {
                            return text;
                        }
                    }
                    _ => {}
                }
            }
            if matches!(self.reader.receive(self.socket.as_fd()).unwrap(), Arrival::Nothing) {
                let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).unwrap();
            }
        }
    }
}

#[test]
fn malformed_messages_are_answered() {
    if !can_control("malformed_messages_are_answered") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let hosts = Hosts::new();
    let first = waiting_in(&hosts, &tree, "mru");
    let socket = hosts.path().join(format!("{}.sock", first.pid()));
    let mut talk = Talk::to(&socket);
    assert!(talk.ask("nonsense").contains("not a request"));
    assert!(talk.ask(r#"{"type":"report"}"#).contains("start first"));
    assert!(talk.ask(r#"{"type":"hints","manager":0,"hints":[]}"#).contains("start first"));
    assert!(talk.ask(r#"{"type":"yield-to","rules":[]}"#).contains("start first"));
    assert!(talk.ask(r#"{"type":"start","managers":[]}"#).contains("is not a child of"));
    assert!(talk.ask(r#"{"type":"start"}"#).contains("not a request"));
    let mut rules = |before: u64| talk.ask(&format!(r#"{{"type":"rules","rules":[],"before_ns":{before}}}"#));
    assert!(rules(u64::MAX).contains("\"mru\"") && !rules(1).contains("\"mru\""));
    talk.write(&[0xff; 64], &[]);
    assert!(!talk.hear().is_empty());
    // Connections are bounded; one that is closed makes room.
    let mut idle: Vec<Talk> = (0..96).map(|_| Talk::to(&socket)).collect();
    let join = ["run", "--join", &first.pid().to_string(), "--rule", &tree.rule("mru"), "--", "true"];
    let ended = hosts.foretell(join);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no more than 96 sessions"), "{}", ended.stderr);
    idle.clear();
    wait_until("there is room", || hosts.foretell(join).code == Some(0));
    assert_eq!(first.end().code, Some(0));
}

/// As [`waiting`], among these hosts.
fn waiting_in(hosts: &Hosts, tree: &Tree, policy: &str) -> Background {
    let rule = tree.rule(policy);
    let mut run =
        hosts.spawn(["run", "--budget", "1M", "--rule", &rule, "--", "sh", "-c", "echo begun; read x; :"]);
    run.wait_for_begin();
    run
}

#[test]
fn status_and_top_show_every_run() {
    if !can_control("status_and_top_show_every_run") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let hosts = Hosts::new();
    let none = hosts.foretell(["status"]);
    assert_eq!((none.code, none.stderr.lines().count()), (Some(2), 1), "{}", none.stderr);
    assert!(none.stderr.contains("no service listens on"), "{}", none.stderr);
    let runs = [waiting_in(&hosts, &tree, "mru"), waiting_in(&hosts, &tree, "mru")];
    let text = hosts.foretell(["status"]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    let json = hosts.foretell(["status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let mut seen: Vec<u64> =
        json["runs"].as_array().unwrap().iter().map(|host| host["pid"].as_u64().unwrap()).collect();
    seen.sort_unstable();
    let mut pids: Vec<u64> = runs.iter().map(|run| run.pid().into()).collect();
    pids.sort_unstable();
    assert_eq!(seen, pids, "{json}");
    for pid in pids {
        let line = text.stdout.lines().find(|line| line.contains(&format!("process {pid}, up")));
        assert!(line.is_some_and(|line| line.starts_with("run ")), "{}", text.stdout);
    }
    let top = hosts.foretell(["top", "--once", "--totals"]);
    assert_eq!(top.code, Some(0), "{}", top.stderr);
    assert!(top.stdout.contains("in 2 hosts"), "{}", top.stdout);
    assert_eq!(top.stdout.lines().filter(|line| line.split_whitespace().any(|word| word == "sh")).count(), 2);
    for run in runs {
        assert_eq!(run.end().code, Some(0));
    }
    assert!(hosts.names().is_empty(), "nothing is left");
    assert_eq!(hosts.foretell(["top", "--once"]).code, Some(2));
}

#[test]
fn runs_end_in_any_order_and_leave_nothing_behind() {
    if !can_control("runs_end_in_any_order_and_leave_nothing_behind") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10)]);
    let hosts = Hosts::new();
    let file = tree.file("a").display().to_string();
    let script = format!("echo begun; read x; cat {file} | wc -c; exit 7");
    let first = waiting_in(&hosts, &tree, "mru");
    let pid = first.pid().to_string();
    // Some join the first one, the others have budgets of their own; the rules of half of them conflict.
    let begin = |at: usize| {
        let rule = tree.rule(["mru", "lru"][at % 2]);
        let host = if at.is_multiple_of(3) { ["--join", &pid] } else { ["--budget", "1M"] };
        hosts.spawn([&["run", "--rule", &rule], &host[..], &["--", "sh", "-c", &script]].concat())
    };
    let mut runs: Vec<Background> = (0..9).map(begin).collect();
    runs.iter_mut().for_each(Background::wait_for_begin);
    let json = hosts.foretell(["status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let private = json["runs"].as_array().unwrap();
    let sessions: usize = private.iter().map(|host| host["sessions"].as_array().unwrap().len()).sum();
    assert_eq!((private.len(), sessions), (7, 10), "{json}");
    let top = hosts.foretell(["top", "--once", "--totals"]);
    assert!(top.stdout.contains("in 7 hosts"), "{}", top.stdout);
    assert_eq!(
        top.stdout.lines().filter(|line| line.split_whitespace().any(|word| word == "sh")).count(),
        10
    );
    let mut first = Some(first);
    for turn in 0..9 {
        if turn == 4 {
            // The one that three of them have joined.
            let first = first.take().unwrap();
            first.signal(Signal::KILL);
            drop(first);
        }
        let run = runs.remove(5 * turn % runs.len());
        if turn % 4 == 1 {
            run.signal(Signal::KILL);
            drop(run);
            continue;
        }
        let ended = run.end();
        assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    }
    // Who looks removes what the killed ones have left.
    assert_eq!(hosts.foretell(["status"]).code, Some(2));
    hosts.assert_left_as_they_were();
}

#[test]
fn of_runs_that_begin_together_one_policy_holds() {
    if !can_control("of_runs_that_begin_together_one_policy_holds") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10)]);
    let output = Tree::new(&[]);
    let hosts = Hosts::new();
    let script = format!("echo begun; read x; cat {} > /dev/null", tree.file("a").display());
    let begin = |at: usize| {
        let (rule, stats) = (tree.rule(["mru", "lru"][at % 2]), output.file(&at.to_string()));
        let stats = stats.display().to_string();
        let own = ["run", "--budget", "1M", "--quiet", "--rule", &rule, "--stats", &stats];
        hosts.spawn([&own[..], &["--", "sh", "-c", &script]].concat())
    };
    let mut runs: Vec<Background> = (0..6).map(begin).collect();
    runs.iter_mut().for_each(Background::wait_for_begin);
    let said: Vec<bool> = runs
        .into_iter()
        .map(|run| {
            let ended = run.end();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            ended.stderr.contains("this run leaves such files alone")
        })
        .collect();
    let has_it: Vec<bool> = (0..6)
        .map(|at| {
            let stats = statistics(&output.file(&at.to_string()));
            number(&stats, "references") == 8
        })
        .collect();
    // The oldest has it, and perhaps others with its policy; the rest leave it alone and say so.
    let of_policy = |which| has_it.iter().skip(which).step_by(2).any(|has| *has);
    assert!(of_policy(0) != of_policy(1), "{has_it:?}");
    assert_eq!(said, has_it.iter().map(|has| !has).collect::<Vec<bool>>());
}

#[test]
fn a_host_that_does_not_answer_holds_nobody_up() {
    if !can_control("a_host_that_does_not_answer_holds_nobody_up") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let hosts = Hosts::new();
    // One that is stopped, one that lets everybody in and says nothing, one that lets nobody in.
    let stopped = waiting_in(&hosts, &tree, "mru");
    stopped.signal_to_worker(Signal::STOP);
    let silent = UnixListener::bind(hosts.path().join(format!("{}.sock", std::process::id()))).unwrap();
    let full = UnixListener::bind(hosts.path().join("1.sock")).unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let _waiting: Vec<_> =
        std::iter::repeat_with(|| foretell_protocol::socket::connect(&hosts.path().join("1.sock")))
            .take_while(Result::is_ok)
            .collect();
    let ended = hosts.foretell(["run", "--budget", "1M", "--rule", &tree.rule("lru"), "--", "true"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let status = hosts.foretell(["status"]);
    assert!(status.stderr.contains("2 runs did not answer"), "{}", status.stderr);
    stopped.signal_to_worker(Signal::CONT);
    assert_eq!(stopped.end().code, Some(0));
    drop(silent);
}

/// Whoever ends a run ends its program, also one that has not begun.
#[test]
fn a_signal_while_a_run_begins_is_the_programs() {
    if !can_control("a_signal_while_a_run_begins_is_the_programs") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let hosts = Hosts::new();
    // Asked which rules it has, it says nothing: for so long the program is held.
    let _silent = UnixListener::bind(hosts.path().join(format!("{}.sock", std::process::id()))).unwrap();
    let mark = tree.file("mark");
    let (rule, touched) = (tree.rule("mru"), mark.display().to_string());
    let run = hosts.spawn(["run", "--budget", "1M", "--rule", &rule, "--", "touch", &touched]);
    let pid = run.pid();
    wait_until("the program is held", || {
        // The child of the one that does the work.
        let children = |pid: &str| -> Vec<String> {
            let told =
                std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            told.split_ascii_whitespace().map(ToOwned::to_owned).collect()
        };
        children(&pid.to_string()).iter().flat_map(|worker| children(worker)).any(|child| {
            let words = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == b"exec-when-told")
        })
    });
    run.signal(Signal::TERM);
    let ended = run.end();
    assert_eq!((ended.code, ended.signal), (None, Some(15)), "{}", ended.stderr);
    assert!(!mark.exists(), "it has never begun");
}

#[test]
fn who_is_no_run_is_not_waited_for() {
    let hosts = Hosts::new();
    let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = other.id().to_string();
    // It is this process that listens there.
    let _listener = UnixListener::bind(hosts.path().join(format!("{pid}.sock"))).unwrap();
    let start = std::time::Instant::now();
    let ended = hosts.foretell(["run", "--join", &pid, "--rule", "/nowhere/**=mru", "--", "true"]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("listens there"), "{}", ended.stderr);
    assert!(start.elapsed().as_secs() < 5, "one that is to listen yet would be waited for longer");
}
