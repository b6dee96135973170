//! Hints reach the policy, in whatever form they come.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use foretell_testkit::cached_pages;
use harness::{FORETELL, Go, Tree, can_control, foretell, number, statistics};

/// A list of the blocks of `file` in a scrambled order, and a script that reads them in this order.
fn scrambled(file: &Path, blocks: u64) -> (String, String) {
    // A step that has no factor in common with the number of blocks visits each once.
    let order: Vec<u64> = (0..blocks).map(|i| i * 37 % blocks).collect();
    let name = file.display();
    let list: String = order.iter().map(|b| format!("{name} {} 8192\n", b * 8192)).collect();
    let reads: String = order
        .iter()
        .map(|b| format!("dd if={name} of=/dev/null bs=8192 count=1 skip={b} status=none\n"))
        .collect();
    (list, reads)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn lists_work_plain_and_packed() {
    if !can_control("lists_work_plain_and_packed") {
        return;
    }
    let tree = Tree::new(&[("a", 64 * 8192)]);
    let (list, reads) = scrambled(&tree.file("a"), 64);
    let script = tree.write("script", reads).display().to_string();
    let forms = [
        ("plain", list.clone().into_bytes()),
        ("gzip", gzip(&list)),
        ("zstd", zstd::encode_all(list.as_bytes(), 3).unwrap()),
    ];
    for (form, bytes) in forms {
        let hints = tree.write("hints", bytes).display().to_string();
        let stats = tree.file("stats.json");
        tree.drop_cache();
        let ended = foretell([
            "run",
            "--quiet",
            "--budget",
            "4M",
            "--hints",
            &hints,
            "--stats",
            &stats.display().to_string(),
            "--",
            "sh",
            &script,
        ]);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{form}");
        let stats = statistics(&stats);
        assert_eq!(number(&stats, "references"), 64, "{form}");
        // More if somebody else drops the cache meanwhile.
        assert!(number(&stats, "demand_fetches") + number(&stats, "prefetches") >= 64, "{form}");
        assert!(number(&stats, "prefetches") >= 32, "{form}");
        assert_eq!(number(&stats, "hints_skipped"), 0, "{form}");
    }
}

#[test]
fn a_fifo_and_standard_input_do_not_hold_the_program_up() {
    if !can_control("a_fifo_and_standard_input_do_not_hold_the_program_up") {
        return;
    }
    let tree = Tree::new(&[("a", 64 * 8192)]);
    let fifo = tree.file("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Nobody ever writes to the FIFO.
    let ended = foretell(["run", "--quiet", "--hints", &fifo.display().to_string(), "--", "echo", "done"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{}", ended.stderr);
    // The program itself says what it will read, waits a little, and reads.
    let (list, reads) = scrambled(&tree.file("a"), 64);
    let list = tree.write("list", format!("not a hint\n{list}"));
    let go = tree.file("go");
    let script = format!("cat {} > {}; {}; {reads}", list.display(), fifo.display(), Go::awaited(&go));
    let stats = tree.file("stats.json");
    tree.drop_cache();
    let (said, written) = (fifo.display().to_string(), stats.display().to_string());
    let arguments = [
        "run", "--quiet", "--budget", "4M", "--hints", &said, "--stats", &written, "--", "sh", "-c", &script,
    ];
    let is_cached = || cached_pages(&tree.file("a")) >= 64;
    let ended = Go::when(&go, "half of it is fetched", is_cached, || foretell(arguments));
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("fifo:1: offset and length"), "{}", ended.stderr);
    let stats = statistics(&stats);
    assert!(number(&stats, "prefetches") >= 32, "{stats}");
    assert_eq!(number(&stats, "hints_skipped"), 1);
    // Standard input is a stream as well.
    let mut child = Command::new(FORETELL)
        .args(["run", "--quiet", "--hints", "-", "--", "true"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_list_that_is_out_of_date_is_followed_as_far_as_it_goes() {
    if !can_control("a_list_that_is_out_of_date_is_followed_as_far_as_it_goes") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10), ("shrunk", 64 << 10)]);
    let a = tree.file("a").display().to_string();
    let list = format!("{a}\n{0}/shrunk 0 999999\n{0}\n{0}/gone\nno hint\n", tree.path().display());
    let list = tree.write("list", list).display().to_string();
    let stats = tree.file("stats.json");
    tree.drop_cache();
    let script = format!("cat '{a}' '{}' > /dev/null; exit 3", tree.file("shrunk").display());
    let ended = foretell(
        ["run", "-q", "--budget", "4M", "--hints", &list, "--stats", stats.to_str().unwrap(), "sh", "-c"]
            .into_iter()
            .chain([script.as_str()]),
    );
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(3), 1), "{}", ended.stderr);
    for says in
        ["1 of 5 hints name files", "1 of 5 reach past the end", "2 of 5 cannot be followed", "line 2"]
    {
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
    }
    let stats = statistics(&stats);
    assert_eq!(number(&stats, "hints_skipped"), 3, "{stats}");
    let strict = foretell(["run", "-q", "--strict", "--budget", "4M", "--hints", &list, "--", "true"]);
    assert_eq!((strict.code, strict.stderr.lines().count()), (Some(2), 1), "{}", strict.stderr);
}

#[test]
fn hints_for_absent_files_are_a_warning() {
    if !can_control("hints_for_absent_files_are_a_warning") {
        return;
    }
    let tree = Tree::new(&[("a", 8192)]);
    let hints = tree.write("hints", "a\nlater\n").display().to_string();
    let output = Command::new(FORETELL)
        .args(["run", "--quiet", "--hints", &hints, "--", "true"])
        .current_dir(tree.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr.contains("1 of 2 hints name files that do not exist"), "{stderr}");
    assert!(stderr.contains("line 2"), "{stderr}");
}

#[test]
fn what_was_recorded_can_be_given_back_whatever_the_files_are_called() {
    use std::os::unix::ffi::OsStrExt;
    let test = "what_was_recorded_can_be_given_back_whatever_the_files_are_called";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("plain", 64 << 10)]);
    let every: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    for name in every.chunks(200).chain([&b" \"a\\ b\" 0 1\n"[..], b"#"]) {
        let path = tree.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(&path, vec![7; 64 << 10]).unwrap();
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
    }
    let [recording, list, stats] =
        ["r/recording", "r/list", "r/stats"].map(|name| tree.file(name).display().to_string());
    std::fs::create_dir(tree.file("r")).unwrap();
    let go = tree.file("r/go");
    let (directory, wait) = (tree.path().display().to_string(), Go::awaited(&go));
    let script = format!("cd {directory} && {wait} && cat ./plain ./[!pr]* > /dev/null");
    std::fs::write(&go, "").unwrap();
    let run = |flags: &[&str]| {
        tree.drop_cache();
        let ended = foretell([&["run", "--quiet"], flags, &["--", "sh", "-c", &script]].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    };
    run(&["--record", &recording]);
    let text = foretell(["trace", "hints", &recording]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    std::fs::write(&list, text.stdout).unwrap();
    // Whoever looks at it sees all of them, and no terminal is told anything by a name.
    let picture = tree.file("r/picture.svg").display().to_string();
    for show in [&["head", "-n", "5000"][..], &["show", "-n", "64"], &["show", "-n", "64", "--svg", &picture]]
    {
        let shown = foretell([&["trace"], show, &[&recording]].concat());
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{show:?}");
        let drawn = std::fs::read_to_string(&picture).unwrap_or_default();
        for text in [&shown.stdout, &drawn] {
            let control = text.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(control, None, "{show:?}: {text}");
        }
        let text = shown.stdout + &drawn;
        // Of a long name a picture shows the end.
        for name in ["plain", "a\\\\ b", "/#", "\u{fffd}\u{fffd}"] {
            assert!(text.contains(name), "{show:?} shows no {name}: {text}");
        }
    }
    for hints in [&recording, &list] {
        // Five files of eight blocks, fetched while the program waits.
        let is_cached = || {
            let entries = std::fs::read_dir(tree.path()).unwrap().map(|entry| entry.unwrap().path());
            entries.filter(|path| path.is_file()).map(|path| cached_pages(&path)).sum::<usize>() >= 80
        };
        tree.drop_cache();
        Go::when(&go, "all is fetched", is_cached, || {
            run(&["--budget", "4M", "--hints", hints, "--stats", &stats]);
        });
        let stats = statistics(stats.as_ref());
        assert_eq!(number(&stats, "hints_skipped"), 0, "{stats}");
        assert!(number(&stats, "prefetches") >= 40, "{stats}");
    }
}

#[test]
fn recordings_that_are_damaged_or_out_of_date_are_told_apart() {
    if !can_control("recordings_that_are_damaged_or_out_of_date_are_told_apart") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10), ("b", 64 << 10)]);
    let [a, b, recording] = ["a", "b", "recording"].map(|name| tree.file(name).display().to_string());
    let ended = foretell(["run", "--quiet", "--record", &recording, "--", "cat", &a, &b]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let whole = std::fs::read(&recording).unwrap();
    let mark = tree.file("mark").display().to_string();
    let mut other = whole.clone();
    other[19] ^= 1;
    for (bytes, says) in [(&whole[..whole.len() / 2], "cut short"), (&other, "version")] {
        std::fs::write(&recording, bytes).unwrap();
        let ended = foretell(["run", "--hints", &recording, "--", "touch", &mark]);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
        assert!(ended.stderr.contains(says) && !Path::new(&mark).exists(), "{}", ended.stderr);
        for command in [&["trace", "show"][..], &["trace", "hints"], &["sim", "--cache", "9", "--trace"]] {
            let ended = foretell([command, &[&recording]].concat());
            assert_eq!((ended.code, ended.stderr.lines().count()), (Some(2), 1), "{}", ended.stderr);
            assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{command:?}: {}", ended.stderr);
        }
    }
    std::fs::write(&recording, &whole).unwrap();
    std::fs::remove_file(&b).unwrap();
    let ended = foretell(["run", "--quiet", "--hints", &recording, "--", "cat", &a]);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(0), 1), "{}", ended.stderr);
    assert!(ended.stderr.contains("files that it names are gone"), "{}", ended.stderr);
    let ended = foretell(["run", "--strict", "--hints", &recording, "--", "touch", &mark]);
    assert_eq!((ended.code, Path::new(&mark).exists()), (Some(2), false), "{}", ended.stderr);
}
