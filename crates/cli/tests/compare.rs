//! `foretell compare` as its users start it: real files, in memory groups, and nothing left behind.

#![allow(clippy::unwrap_used)]

mod harness;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::{Ended, FORETELL, Tree, can_control, foretell, wait_until};
use serde_json::Value;

/// Files to read and a script that reads them twice.
fn stage() -> (Tree, String) {
    let tree = Tree::new(&[("a.dat", 1 << 20), ("b.dat", 1 << 20)]);
    let script = format!("cd '{}' && cat a.dat b.dat a.dat b.dat | cksum", tree.path().display());
    (tree, script)
}

/// The command with an empty temporary directory, which must be empty at the end.
struct Clean {
    directory: tempfile::TempDir,
}

impl Clean {
    fn new() -> Clean {
        Clean { directory: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // Whoever started the tests may have had signals ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal", FORETELL, "compare"]).args(arguments).stdin(Stdio::null());
        command.env("TMPDIR", self.directory.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let ended = Ended::from(self.command(arguments).output().unwrap());
        self.check();
        ended
    }

    /// Neither files nor groups.
    fn check(&self) {
        let left: Vec<_> = std::fs::read_dir(self.directory.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Groups of a comparison with this process number.
fn groups_of(pid: u32) -> Vec<PathBuf> {
    let name = format!("foretell-compare-{pid}-");
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"];
    let entries = roots.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let found = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name));
    found.map(|entry| entry.path()).collect()
}

fn can_limit(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    let groups = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().contains(" - cgroup");
    if !(root && groups) {
        println!("skipped: {test}: memory cgroups need root and a mounted hierarchy");
    }
    root && groups
}

#[test]
fn both_sides_run_and_all_of_it_is_told() {
    let test = "both_sides_run_and_all_of_it_is_told";
    if !can_control(test) || !can_limit(test) {
        return;
    }
    let (tree, script) = stage();
    let page = tree.file("page.html");
    let options = ["--warm", "--memory", "64M", "--rounds", "2", "--as", "steer", "--json", "--html"];
    let job = [page.to_str().unwrap(), "--", "sh", "-c", &script];
    let ended = Clean::new().run(&[&options[..], &job].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&told["output"], &told["exit_codes"]), (&"same".into(), &"same".into()), "{told}");
    assert_eq!((&told["memory_bytes"], &told["cold"]), (&(64 << 20).into(), &false.into()));
    let runs = told["runs"].as_array().unwrap();
    let order: Vec<_> = runs.iter().map(|run| run["side"].as_str().unwrap()).collect();
    assert_eq!(order, ["kernel", "foretell", "foretell", "kernel"], "it alternates");
    assert_eq!(told["learning"]["how"], "watched");
    for run in runs {
        let steered = run["side"] == "foretell";
        assert_eq!(run["how"].as_str(), steered.then_some("steered"), "{run}");
        assert!(run["elapsed_s"].as_f64().unwrap() > 0.0 && run["output"]["bytes"].as_u64() > Some(5));
        assert!(run["peak_bytes"].as_u64().unwrap() <= 64 << 20, "{run}");
    }
    let page = std::fs::read_to_string(page).unwrap();
    for part in ["<svg", "a.dat", "Elapsed time", "color-scheme", "foretell compare --warm"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http"), "nothing is loaded from elsewhere");
}

#[test]
fn output_and_exit_codes_are_compared() {
    let test = "output_and_exit_codes_are_compared";
    if !can_control(test) {
        return;
    }
    let clean = Clean::new();
    let fails = clean.run(&["--warm", "--rounds", "1", "--", "sh", "-c", "echo x; exit 3"]);
    assert_eq!(fails.code, Some(0), "it fails on both sides alike: {}", fails.stderr);
    assert!(fails.stdout.contains("The exit code was the same in all runs"), "{}", fails.stdout);
    let random = clean.run(&["--warm", "--rounds", "1", "--", "cat", "/proc/sys/kernel/random/uuid"]);
    assert!(random.stdout.contains("differs from run to run without foretell"), "{}", random.stdout);
    // What a job can know is who started it; the pattern does not match itself.
    let script = "tr '\\0' ' ' < /proc/$PPID/cmdline | grep -c 'lear[n] --quiet.*--as stee[r]'; exit 0";
    let told = clean.run(&["--warm", "--rounds", "1", "--as", "steer", "--", "sh", "-c", script]);
    assert_eq!(told.code, Some(1), "{}{}", told.stdout, told.stderr);
    assert!(told.stdout.contains("THE OUTPUT DIFFERS UNDER FORETELL"), "{}", told.stdout);
}

#[test]
fn readahead_is_set_and_set_back_whatever_happens() {
    let test = "readahead_is_set_and_set_back_whatever_happens";
    if !can_control(test) || !can_limit(test) {
        return;
    }
    let (tree, script) = stage();
    let Some(setting) = read_ahead_kb(&tree.path()) else {
        println!("skipped: {test}: the build lies on no device with a readahead");
        return;
    };
    let before = std::fs::read_to_string(&setting).unwrap();
    // A value that nobody uses.
    let other = if before.trim() == "132" { "136" } else { "132" };
    let seen = tree.file("seen");
    // The job itself looks at the setting.
    let looks = format!("cat '{}' >> '{}'; {script}", setting.display(), seen.display());
    let options = ["--warm", "--rounds", "1", "--read-ahead", other];
    let clean = Clean::new();
    let ended = clean.run(&[&options[..], &["--", "sh", "-c", &looks]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let values = std::fs::read_to_string(&seen).unwrap();
    let values: Vec<&str> = values.lines().collect();
    assert_eq!(values, [before.trim(), before.trim(), other, before.trim()]);
    assert_eq!(std::fs::read_to_string(&setting).unwrap(), before);
    assert!(ended.stdout.contains(&format!(" read_ahead_kb {other}  ")), "{}", ended.stdout);

    // Interrupted while it is set.
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let (waits, ended_at) = (tree.file("waits"), tree.file("goes-on"));
        let wait = format!(
            "if [ $(cat '{}') = {other} ]; then echo > '{}'; sleep 60; echo > '{}'; fi; {script}",
            setting.display(),
            waits.display(),
            ended_at.display()
        );
        let mut child =
            clean.command(&[&options[..], &["--memory", "64M", "--", "sh", "-c", &wait]].concat());
        let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        wait_until("the setting is made", || waits.exists());
        assert_eq!(groups_of(pid).len(), 1);
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap();
        assert!(sent.success());
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
        assert_eq!(std::fs::read_to_string(&setting).unwrap(), before, "{signal}");
        assert_eq!(groups_of(pid), Vec::<PathBuf>::new());
        clean.check();
        assert!(!ended_at.exists());
        std::fs::remove_file(waits).unwrap();
    }
}

/// The setting of the disk under a path.
fn read_ahead_kb(path: &Path) -> Option<PathBuf> {
    let dev = std::fs::metadata(path).unwrap().dev();
    let device = format!("/sys/dev/block/{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let device = std::fs::canonicalize(device).ok()?;
    let places = [device.join("queue/read_ahead_kb"), device.parent()?.join("queue/read_ahead_kb")];
    places.into_iter().find(|place| place.exists())
}

#[test]
fn a_known_job_is_compared_and_not_changed() {
    if !can_control("a_known_job_is_compared_and_not_changed") {
        return;
    }
    let (tree, script) = stage();
    let state = tree.file("state");
    let state = state.to_str().unwrap();
    let night = foretell([
        "learn", "-q", "--as", "watch", "--name", "job", "--state", state, "--", "sh", "-c", &script,
    ]);
    assert_eq!(night.code, Some(0), "{}", night.stderr);
    let nights = || std::fs::read(tree.file("state/jobs/job/nights")).unwrap();
    let before = nights();
    let options = ["--warm", "--rounds", "1", "--json", "--name", "job", "--state", state];
    let ended = Clean::new().run(&[&options[..], &["--", "sh", "-c", &script]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&told["learning"], told["runs"].as_array().unwrap().len()), (&Value::Null, 2));
    assert_eq!(nights(), before);
}

#[test]
fn without_rights_it_says_so_and_ends() {
    let test = "without_rights_it_says_so_and_ends";
    if !can_limit(test) || Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: {test}: it takes root and setpriv to be somebody else");
        return;
    }
    // Where another user can execute it.
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("foretell");
    let tools = env!("CARGO_BIN_EXE_foretell-tools");
    assert!(Command::new("cp").args([FORETELL, tools]).arg(directory.path()).status().unwrap().success());
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).arg("compare");
        Ended::from(command.args(arguments).stdin(Stdio::null()).output().unwrap())
    };
    let ended = run(&["--", "true"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for says in ["the runs are not limited", "compared warm", "cannot be watched"] {
        assert_eq!(ended.stderr.matches(says).count(), 1, "{}", ended.stderr);
    }
    let limited = run(&["--memory", "64M", "--", "true"]);
    assert_eq!((limited.code, limited.stderr.lines().count()), (Some(2), 1), "{}", limited.stderr);
    assert_eq!(limited.stderr.matches("Permission denied").count(), 1, "{}", limited.stderr);
}

#[test]
fn wrong_arguments_are_told_in_one_line() {
    let clean = Clean::new();
    for (arguments, code, says) in [
        (&[][..], 2, "<JOB>"),
        (&["--rounds", "0", "--", "true"], 2, "--rounds 0"),
        (&["--memory", "much", "--", "true"], 2, "--memory"),
        (&["--memory", "1K", "--", "true"], 2, "foretell itself needs"),
        (&["--budget", "much", "--", "true"], 2, "--budget"),
        (&["--read-ahead", "x", "--", "true"], 2, "--read-ahead"),
        (&["--read-ahead", "8,8", "--", "true"], 2, "given twice"),
        (&["--read-ahead", "99999999", "--", "true"], 2, "give KiB"),
        (&["--html", "/nonexistent/page.html", "--", "true"], 2, "--html"),
        (&["--state", "/nonexistent", "--name", "x", "--", "true"], 2, "no job 'x' is known"),
        (&["--", "no-such-program-here"], 127, "not in PATH"),
        (&["--", "/etc/passwd"], 126, "cannot be executed"),
    ] {
        let ended = clean.run(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
    }
}
