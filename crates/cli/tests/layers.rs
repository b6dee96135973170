//! `foretell run` and `foretell learn` on file systems where stat(2) does not describe the inode that has the pages.

#![allow(clippy::unwrap_used)]

mod harness;

use std::path::Path;
use std::process::Command;

use foretell_testkit::mounts::{Overlay, disk, overlay};
use harness::{Ended, Tree, can_control, foretell, number, statistics};

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
    let script = reads(directory);
    let plain = Command::new("sh").args(["-c", &script]).output().unwrap();
    let night = |options: &[&str]| -> Ended {
        chill(pages);
        let mut arguments = vec!["learn", "--name", "job", "--state", state.to_str().unwrap()];
        arguments.extend(options);
        arguments.extend(["--", "sh", "-c", &script]);
        foretell(arguments)
    };
    let first = night(&[]);
    assert_eq!((first.code, first.stdout.as_bytes()), (Some(0), &plain.stdout[..]), "{}", first.stderr);
    let second = night(&["--as", "steer", "--stats", stats.to_str().unwrap()]);
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
