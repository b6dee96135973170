//! `foretell run` and `foretell learn` on file systems where stat(2) does not describe the inode that has the pages.

#![allow(clippy::unwrap_used)]

mod harness;

use std::path::Path;
use std::process::Command;

use foretell_testkit::cached_pages;
use foretell_testkit::mounts::{Overlay, disk, overlay};
use harness::{Ended, Go, Tree, can_control, foretell, number, statistics};

const FILES: [(&str, usize); 3] = [("a.dat", 1 << 20), ("b.dat", 1 << 20), ("c.dat", 1 << 20)];

/// A job of processes that end before anybody can look at what they have open.
fn reads(directory: &Path) -> String {
    format!("cd '{}' && for i in 1 2; do cat a.dat; cat b.dat; cat c.dat; done | cksum", directory.display())
}

fn put_files(into: &Path) {
    for (name, bytes) in FILES {
        std::fs::write(into.join(name), vec![b'x'; bytes]).unwrap();
    }
}

/// Drops what is cached of the files.
fn chill(directory: &Path) {
    for (name, _) in FILES {
        let file = std::fs::File::open(directory.join(name)).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

/// The first night is watched, and all that is read on the second one is fetched ahead.
fn two_nights(tree: &Tree, pages: &Path, directory: &Path) {
    let state = tree.file("state");
    let stats = tree.file("stats.json");
    // A device in memory is so fast that the kernel's readahead would often be there first.
    let go = tree.file("go");
    let script = format!("{}; {}", Go::awaited(&go), reads(directory));
    std::fs::write(&go, "").unwrap();
    let plain = Command::new("sh").args(["-c", &script]).output().unwrap();
    let night = |options: &[&str]| -> Ended {
        chill(pages);
        let mut arguments = vec!["learn", "--name", "job", "--state", state.to_str().unwrap()];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", &script]);
        foretell(arguments)
    };
    let first = night(&["--as", "watch"]);
    assert_eq!((first.code, first.stdout.as_bytes()), (Some(0), &plain.stdout[..]), "{}", first.stderr);
    chill(pages);
    let is_cached = || FILES.iter().any(|(name, _)| cached_pages(&pages.join(name)) > 0);
    let second = Go::when(&go, "something is fetched ahead", is_cached, || {
        night(&["--as", "steer", "--stats", stats.to_str().unwrap()])
    });
    assert_eq!((second.code, second.stdout.as_bytes()), (Some(0), &plain.stdout[..]), "{}", second.stderr);
    assert!(second.stderr.contains("night 2 of 'job', steered"), "{}", second.stderr);
    let told = statistics(&stats);
    assert!(number(&told, "planned_bytes") >= 3 << 20, "{told}");
    assert!(number(&told, "prefetched") > 0, "{told}");
    assert!(told["predicted"].as_f64().unwrap() > 0.8, "{told}");
}

#[test]
fn the_second_night_on_an_overlay_is_steered() {
    let test = "the_second_night_on_an_overlay_is_steered";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[]);
    let Overlay { lower, merged, .. } = match overlay(&tree.path(), "") {
        Ok(overlay) => overlay,
        Err(why) => return println!("skipped: {test}: {why}"),
    };
    put_files(&lower);
    two_nights(&tree, &lower, &merged.at);
}

#[test]
fn the_second_night_on_btrfs_is_steered() {
    let test = "the_second_night_on_btrfs_is_steered";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[]);
    let btrfs = match disk(&tree.path(), "btrfs") {
        Ok(btrfs) => btrfs,
        Err(why) => return println!("skipped: {test}: {why}"),
    };
    put_files(&btrfs.at);
    two_nights(&tree, &btrfs.at, &btrfs.at);
}

/// What a run under a rule for the directory says on standard error.
fn said_of_run(options: &[&str], directory: &Path, script: &str) -> String {
    let rule = format!("{}/**=mru", directory.display());
    let run = ["--no-service", "--budget", "1M", "--rule", &rule, "--", "sh", "-c", script];
    let ended = foretell([&["run"], options, &run[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn a_rule_that_can_have_no_effect_is_told_in_one_line() {
    let test = "a_rule_that_can_have_no_effect_is_told_in_one_line";
    if !can_control(test) {
        return;
    }
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let directory = memory.path().canonicalize().unwrap();
    put_files(&directory);
    let says = said_of_run(&[], &directory, &reads(&directory));
    let of_us: Vec<&str> = says.lines().filter(|line| line.contains("has no effect")).collect();
    assert_eq!(of_us.len(), 1, "{says}");
    let line = of_us[0];
    assert!(line.contains("a file in memory") && line.contains("as others are that it matches"), "{line}");
    assert_eq!(said_of_run(&["--quiet"], &directory, &reads(&directory)), "");
}

#[test]
fn files_that_are_read_past_the_page_cache_are_told() {
    let test = "files_that_are_read_past_the_page_cache_are_told";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&FILES);
    let past = format!("dd if={}/a.dat of=/dev/null bs=64K iflag=direct status=none", tree.path().display());
    let says = said_of_run(&[], &tree.path(), &past);
    assert!(says.contains("was read through the page cache"), "{says}");
    let says = said_of_run(&[], &tree.path(), &reads(&tree.path()));
    assert!(!says.contains("was read through the page cache") && !says.contains("no effect"), "{says}");
}

/// As whoever drops all caches, or wants the memory, does.
#[test]
fn files_that_are_dropped_from_the_cache_are_not_taken_for_ones_that_are_read_past_it() {
    let test = "files_that_are_dropped_from_the_cache_are_not_taken_for_ones_that_are_read_past_it";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[("a.dat", 100_000)]);
    let drop =
        format!("dd if={}/a.dat of=/dev/null count=0 iflag=nocache status=none", tree.path().display());
    let says = said_of_run(&[], &tree.path(), &drop);
    assert!(!says.contains("was read through the page cache"), "{says}");
}

#[test]
fn a_rule_on_an_overlay_that_a_user_has_mounted_is_told_to_have_no_effect() {
    let test = "a_rule_on_an_overlay_that_a_user_has_mounted_is_told_to_have_no_effect";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[]);
    for layer in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(tree.file(layer)).unwrap();
    }
    std::fs::write(tree.file("lower/line"), "x\n").unwrap();
    let own = tree.path();
    // A user namespace of its own, as rootless containers have it, where the files are read.
    let script = format!(
        "cd '{0}' && unshare --user --map-root-user --mount sh -c 'mount -t overlay o \
         -o lowerdir=lower,upperdir=upper,workdir=work merged && cd merged && exec 3<line && read -r line <&3; \
         sleep 1'",
        own.display()
    );
    let made = Command::new("sh").args(["-c", &script]).output().unwrap();
    if !made.status.success() {
        return println!("skipped: {test}: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    // It is told of a file that is still open when we look: on a busy machine not each time, perhaps.
    let told = "an overlay of which the kernel does not tell the file below";
    let mut said = String::new();
    let mut is_told = |says: String| {
        said += &says;
        says.contains(told) && says.contains("left to the kernel")
    };
    assert!((0..5).any(|_| is_told(said_of_run(&[], &tree.file("merged"), &script))), "{said}");
    let state = tree.file("state");
    let watch = ["learn", "--as", "watch", "--state", state.to_str().unwrap(), "--", "sh", "-c", &script];
    assert!((0..5).any(|_| is_told(foretell(watch).stderr)), "{said}");
}
