//! Whatever is wrong is said in one line, with exit code 2, and nothing is started.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::process::Command;

use harness::{Ended, FORETELL, Tree, foretell};

/// Runs `foretell run FLAGS -- touch MARK`; it must fail in one line that contains `says`.
fn refused(tree: &Tree, flags: &[&str], says: &str) {
    let mark = tree.file("mark");
    let mut arguments = vec!["run"];
    arguments.extend(flags);
    let mark_text = mark.display().to_string();
    arguments.extend(["--", "touch", &mark_text]);
    let ended = foretell(&arguments);
    assert_eq!(ended.code, Some(2), "{flags:?}: {}", ended.stderr);
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{flags:?}: {}", ended.stderr);
    assert!(lines[0].starts_with("foretell: ") && lines[0].contains(says), "{flags:?}: {}", lines[0]);
    assert_eq!(ended.stdout, "", "{flags:?}");
    assert!(!mark.exists(), "{flags:?}: the program was started");
}

#[test]
fn flags() {
    let tree = Tree::new(&[("a", 10)]);
    let rule = tree.rule("mru");
    let refused = |flags: &[&str], says| refused(&tree, &[flags, &["--rule", &rule]].concat(), says);
    refused(&["--rule", "/d/**=mur"], "unknown policy 'mur'; did you mean 'mru'?");
    refused(&["--rule", "/d/**"], "is not GLOB=POLICY");
    refused(&["--rule", "/d/[=lru"], "bad pattern");
    refused(&["--rule", "/d/**=lru"], "two policies");
    refused(&["--budget", "64K"], "smaller than one batch");
    refused(&["--budget", "10000T"], "more than the memory");
    refused(&["--budget", "much"], "'much' is not a size");
    refused(&["--batch", "0"], "batch is 0");
    refused(&["--batch", "x"], "invalid value 'x' for '--batch");
    refused(&["--prefetch", "agressive"], "did you mean 'aggressive'?");
    refused(&["--order", "sorted"], "unknown order 'sorted'; known are ascending, fcfs");
    refused(&["--allocation", "lru-ps"], "did you mean 'lru-sp'?");
    refused(&["--horizon", "0"], "horizon of 0");
    for flag in ["--stats", "--record"] {
        refused(&[flag, "/no/such/directory/x"], "/no/such/directory/x: there is no directory");
        refused(&[flag, "/"], "/: is a directory; name a file");
    }
    refused(&["--join", "1"], "process 1 is no 'foretell run'");
    refused(&["--join", "1", "--budget", "1M"], "cannot be used with");
    refused(&["--budgt", "1M"], "unknown flag '--budgt'; did you mean '--budget'?");
}

#[test]
fn configuration_files() {
    let tree = Tree::new(&[("a", 10)]);
    refused(&tree, &["--config", "/no/such/file"], "/no/such/file: cannot read the configuration");
    for (text, says) in [
        ("batch = 1\nbudgte = '1M'", "policy.toml:2: unknown key 'budgte'; did you mean 'budget'?"),
        ("batch = 'x'", "policy.toml:1: give a number from 0 to 4294967295 or \"auto\""),
        ("rules = ['a=mru', 'b=lru']", "two policies"),
        ("budget = '1K'", "smaller than one batch"),
        ("[[process]]\nname = 'x'\nrules = ['a=fifo']", "process 'x': rule 'a=fifo': unknown policy"),
        ("budget = [", "policy.toml:1: "),
    ] {
        let file = tree.write("policy.toml", text);
        refused(&tree, &["--config", &file.display().to_string()], says);
    }
}

#[test]
fn hint_files() {
    let tree = Tree::new(&[("a", 100_000), ("d/b", 10)]);
    refused(&tree, &["--hints", "/no/such/list"], "/no/such/list: cannot open the hints");
    refused(&tree, &["--hints", "/"], "/: not a file");
    let a = tree.file("a").display().to_string();
    let d = tree.file("d").display().to_string();
    for (text, says) in [
        (format!("{a}\nx y z\n"), "list:2: offset and length must be whole numbers"),
        (format!("{a}\n\n{a} 99999 2\n"), "list:3: bytes 99999 to 100000 are past the end of"),
        (format!("{d}\n"), "list:1: '"),
        ("\"unclosed\n".to_owned(), "list:1: the quoted path has no closing quote"),
        (format!("{a} 0 0\n"), "list:1: the length is 0"),
    ] {
        let list = tree.write("list", &text);
        refused(&tree, &["--strict", "--hints", &list.display().to_string()], says);
    }
    // What is no list at all is refused without being asked to.
    let list = tree.write("list", "\"unclosed\nx y z\n");
    refused(&tree, &["--hints", &list.display().to_string()], "list:1: the quoted path has no closing quote");
    let cut = tree.write("cut.gz", [0x1f, 0x8b, 8, 0, 0]);
    refused(&tree, &["--hints", &cut.display().to_string()], "cut.gz:1: cannot read on");
}

#[test]
fn programs() {
    let tree = Tree::new(&[("a", 10)]);
    let rule = tree.rule("mru");
    let text = tree.file("a").display().to_string();
    // The codes of env(1) and timeout(1).
    for (program, says, code) in [
        ("no-such-program-anywhere", "is not in PATH", 127),
        ("/no/such/program", "does not exist", 127),
        ("ls -l", "sh -c", 127),
        (text.as_str(), "cannot be executed", 126),
        ("/", "is a directory", 126),
        ("", "is empty", 127),
    ] {
        let ended = foretell(["run", "--rule", &rule, "--", program]);
        assert_eq!(ended.code, Some(code), "{program}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{program}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{program}: {}", ended.stderr);
    }
}

#[test]
fn the_hidden_subcommand_is_not_for_hands() {
    for arguments in [&["exec-when-told"][..], &["exec-when-told", "no-such-socket", "true"]] {
        let ended = foretell(arguments);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(125), 1), "{}", ended.stderr);
    }
}

/// Whoever started the program has died before it was let in: it begins all the same.
#[test]
fn a_program_that_nobody_lets_in_begins() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = format!("foretell-test-{}", std::process::id());
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let mut held = std::process::Command::new(FORETELL);
    let mut held = held.args(["exec-when-told", &name, "sh", "-c", "exit 7"]).spawn().unwrap();
    let mut coming = [rustix::event::PollFd::new(&listener, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut coming, None).unwrap();
    drop(listener);
    assert_eq!(held.wait().unwrap().code(), Some(7));
}

#[test]
fn help_goes_to_stdout() {
    let help = foretell(["run", "--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("--budget") && help.stderr.is_empty());
    assert!(foretell(["--version"]).stdout.starts_with("foretell "));
    for name in ["s3-fifo", "sieve", "adaptive", "informed", "global-lru", "fcfs"] {
        assert!(help.stdout.contains(name), "{name} can be chosen: {}", help.stdout);
    }
    assert!(foretell(["daemon", "--help"]).stdout.contains("informed]"));
    assert_eq!(foretell::<&str>([]).code, Some(2));
    assert!(std::path::Path::new(FORETELL).exists());
}

#[test]
fn every_command_explains_itself() {
    let help = foretell(["--help"]).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.contains(&"compare") && commands.contains(&"slowdisk"), "{commands:?}");
    for command in &commands {
        let help = foretell([command, "--help"]);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{command}");
        let examples = help.stdout.split("Examples:").nth(1).unwrap_or_default();
        assert!(examples.contains(&format!("foretell {command}")), "{command}: {}", help.stdout);
    }
    let mistyped = foretell(["comapre"]);
    assert_eq!(mistyped.code, Some(2));
    assert!(mistyped.stderr.contains("'compare'"), "{}", mistyped.stderr);

    let tree = Tree::new(&[]);
    let man = foretell(["man", tree.path().to_str().unwrap()]);
    assert_eq!((man.code, man.stderr.as_str()), (Some(0), ""));
    assert!(std::fs::read_to_string(tree.file("foretell.1")).unwrap().contains("foretell\\-compare(1)"));
    for command in commands {
        let page = std::fs::read_to_string(tree.file(&format!("foretell-{command}.1"))).unwrap();
        assert!(page.starts_with(".ie") || page.contains(".TH"), "{command}: {page}");
    }
    refused_by(&["man", "/nonexistent"], "is no directory");
    for (shell, says) in
        [("bash", "complete -F"), ("zsh", "#compdef foretell"), ("fish", "complete -c foretell")]
    {
        let completions = foretell(["completions", shell]);
        assert!(completions.stdout.contains(says) && completions.stdout.contains("read-ahead"), "{shell}");
    }
    refused_by(&["completions", "tcsh"], "bash");
}

fn refused_by(arguments: &[&str], says: &str) {
    let ended = foretell(arguments);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
}

#[test]
fn the_printed_configuration_reads_back_the_same() {
    let tree = Tree::new(&[("a", 10)]);
    let rule = tree.rule("mru");
    let first = foretell(["run", "--print-config", "--budget", "10M", "--rule", &rule, "--batch", "8"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let file = tree.write("policy.toml", &first.stdout).display().to_string();
    let second = foretell(["run", "--print-config", "--config", &file]);
    assert_eq!(second.stdout, first.stdout);
    let third = foretell(["run", "--print-config", "--config", &file, "--budget", "20M"]);
    assert!(third.stdout.contains("budget = \"20M\"") && third.stdout.contains("batch = 8"));
}

#[test]
fn the_systems_own_words_are_said_once() {
    for option in ["--hints", "--config"] {
        let ended = foretell(["run", option, "/nonexistent", "--", "true"]);
        assert_eq!(ended.code, Some(2));
        assert_eq!(ended.stderr.matches("os error 2").count(), 1, "{}", ended.stderr);
    }
}

#[test]
fn a_service_that_cannot_listen_leaves_nothing_behind() {
    let tree = Tree::new(&[("file", 10)]);
    let path = |name: &str| tree.file(name).display().to_string();
    for (socket, says) in [
        (path("file"), "exists and is no socket; give another --socket"),
        (path("no/such/s"), "cannot listen on"),
        (path(&"x".repeat(108)), "is longer than the 107 bytes"),
        ("/proc/s".to_owned(), "cannot listen on /proc/s: "),
    ] {
        let ended = foretell(["daemon", "--budget", "64M", "--socket", &socket]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{socket}: {}", ended.stderr);
        assert!(ended.stderr.starts_with("foretell: ") && ended.stderr.contains(says), "{}", ended.stderr);
        assert!(ended.stderr.matches("os error").count() < 2, "{}", ended.stderr);
        assert_eq!(std::fs::read_dir(tree.path()).unwrap().count(), 1, "{socket}");
    }
}

/// Programs would be ended for what they send by themselves.
#[test]
fn a_service_that_takes_too_few_messages_is_refused() {
    let tree = Tree::new(&[]);
    let config = tree.file("policy.toml").display().to_string();
    for (limit, says) in [
        ("messages-per-s = 100", "[limits]: messages-per-s is 100; it must be at least 3072"),
        ("messages-burst = 8191", "[limits]: messages-burst is 8191; it must be at least 8192"),
    ] {
        std::fs::write(&config, format!("[limits]\n{limit}\n")).unwrap();
        let ended = foretell(["daemon", "--config", &config, "--print-config"]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
}

#[test]
fn what_is_missing_is_told_with_where_to_look_it_up() {
    for (arguments, says) in [
        (&["run"][..], "<PROGRAM>...; 'foretell run --help' says more"),
        (&["bogus"], "unrecognized subcommand 'bogus'; 'foretell --help' says more"),
        (
            &["trace", "convert", "a", "b"],
            "unexpected argument 'b' found; 'foretell trace convert --help' says more",
        ),
        (
            &["sim", "--workload", "synth", "--jobs", "0"],
            "invalid value '0' for '--jobs <N>': give at least 1",
        ),
        (&["device", "validate", "/"], "/: is a directory"),
    ] {
        let ended = foretell(arguments);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
}

#[test]
fn output_that_a_full_disk_does_not_take_is_told() {
    for arguments in [
        &["device", "list"][..],
        &["sim", "--workload", "synth", "--policy", "demand-lru"],
        &["--help"],
        &["learn", "--help"],
        &["--version"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(FORETELL);
        let ended: Ended = command.args(arguments).stdout(full).output().unwrap().into();
        assert_eq!(
            (ended.code, ended.stderr.lines().count()),
            (Some(2), 1),
            "{arguments:?}: {}",
            ended.stderr
        );
        assert!(ended.stderr.contains("standard output: not all of it could be written"), "{}", ended.stderr);
    }
}

#[test]
fn without_the_file_beside_it_the_command_says_so_and_still_runs_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let alone = directory.path().join("foretell");
    assert!(Command::new("cp").arg(FORETELL).arg(&alone).status().unwrap().success());
    let ended = Command::new(&alone).arg("status").output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains("foretell-tools") && told.lines().count() == 1, "{told}");
    let state = directory.path().display().to_string();
    let learn = ["learn", "--quiet", "--as", "alone", "--state", &state, "--", "sh", "-c", "exit 7"];
    assert_eq!(Command::new(&alone).args(learn).status().unwrap().code(), Some(7));
}
