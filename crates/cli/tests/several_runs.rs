//! Runs that know of each other.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use harness::{Background, Tree, can_control, foretell, number, statistics};

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
    let script = format!("sleep 1; cat {a} > /dev/null");
    let ended = foretell([
        "run",
        "--quiet",
        "--join",
        &first.pid().to_string(),
        "--hints",
        &hints,
        "--stats",
        &stats.display().to_string(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
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
        assert!(
            said[1].starts_with(&format!("foretell: the rule for {a} has no effect")),
            "{}",
            ended.stderr
        );
        let files = part["files"].as_array().unwrap();
        let files: Vec<_> =
            files.iter().map(|f| (f["path"].as_str().unwrap(), number(f, "references"))).collect();
        assert_eq!(files, [(b.as_str(), 8)]);
    }
    // The same policy is no conflict.
    let ended = foretell(["run", "--quiet", "--budget", "1M", "--rule", &tree.rule("mru"), "--", "true"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn malformed_messages_are_answered() {
    if !can_control("malformed_messages_are_answered") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let first = waiting(&tree, &[]);
    let address = SocketAddr::from_abstract_name(format!("foretell-run-{}", first.pid())).unwrap();
    let ask = |lines: &str| -> String {
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        stream.write_all(lines.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    };
    assert!(ask("nonsense\n").contains("not a request"));
    let about = |request: &str| ask(&format!("{{\"type\":\"run\",\"root_pid\":1,\"request\":{request}}}\n"));
    assert!(about(r#"{"type":"report"}"#).contains("join first"));
    assert!(about(r#"{"type":"hints","manager":0,"hints":[]}"#).contains("join first"));
    assert!(about(r#"{"type":"start","managers":[]}"#).contains("is not a child of"));
    assert!(about(r#"{"type":"start"}"#).contains("not a request"));
    assert!(ask(&"x".repeat((1 << 20) + 1)).contains("at most"));
    // Connections are bounded; one that is closed makes room.
    let mut idle: Vec<_> = (0..64).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
    let pid = first.pid().to_string();
    let ended = foretell(["run", "--join", &pid, "--rule", &tree.rule("mru"), "--", "true"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("64 runs are connected already"), "{}", ended.stderr);
    idle.clear();
    assert!(ask("{\"type\":\"rules\",\"rules\":[]}\n").contains("\"mru\""));
    assert_eq!(first.end().code, Some(0));
}
