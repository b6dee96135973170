//! A disk with an arm: what lies between is read rather than passed over.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::slow_disk::SlowDisk;
use harness::{Tree, can_control, foretell, number, statistics};

fn disk_with_an_arm(tree: &Tree) -> (PathBuf, SlowDisk) {
    let mount_point = tree.file("disk");
    std::fs::create_dir(&mount_point).unwrap();
    let disk = SlowDisk::up(&mount_point, &["--seek-ms", "8", "--mb-s", "100", "--channels", "1"]);
    (mount_point, disk)
}

/// Runs a script under hints; how often the arm moved.
fn movements(disk: &SlowDisk, files: [&Path; 3]) -> u64 {
    let before = disk.read_seeks();
    let [hints, script, stats] = files.map(|path| path.display().to_string());
    let options = ["run", "--quiet", "--budget", "16M", "--hints", &hints, "--stats", &stats];
    let ended = foretell(options.into_iter().chain(["--", "sh", &script]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    disk.read_seeks() - before
}

#[test]
fn of_scattered_blocks_many_come_with_one_movement_and_what_lies_between_does_not_stay() {
    let test = "of_scattered_blocks_many_come_with_one_movement_and_what_lies_between_does_not_stay";
    if !can_control(test) {
        return;
    }
    const SCATTERED: u64 = 192;
    const BLOCK: u64 = 8192;
    let tree = Tree::new(&[]);
    let (mount_point, disk) = disk_with_an_arm(&tree);
    // Every sixteenth block of 24 MiB, in no order.
    let file = mount_point.join("data");
    let data = std::fs::File::create(&file).unwrap();
    data.write_all_at(&vec![7; (SCATTERED * 16 * BLOCK) as usize], 0).unwrap();
    data.sync_all().unwrap();
    rustix::fs::fadvise(&data, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let order: Vec<u64> = (0..SCATTERED).map(|i| i * 37 % SCATTERED * 16).collect();
    let name = file.display();
    let list: String = order.iter().map(|b| format!("{name} {} {BLOCK}\n", b * BLOCK)).collect();
    let reads: String = order
        .iter()
        .map(|b| format!("dd if={name} of=/dev/null bs={BLOCK} count=1 skip={b} status=none\n"))
        .collect();
    let (hints, script) = (tree.write("hints", list), tree.write("script", reads));
    let stats = tree.file("stats.json");

    let seeks = movements(&disk, [&hints, &script, &stats]);
    // One movement a block without it. The first dozen requests go out alone, to be measured.
    assert!(seeks < SCATTERED / 2, "{seeks} movements for {SCATTERED} blocks");
    assert!(number(&statistics(&stats), "prefetches") > SCATTERED / 2);

    let cached = Command::new("fincore").args(["-nb", "-o", "PAGES"]).arg(&file).output().unwrap();
    let cached: u64 = String::from_utf8_lossy(&cached.stdout).trim().parse().unwrap();
    // Two pages a block, and what the kernel read ahead of the program's own reads.
    assert!(cached < SCATTERED * 8, "{cached} pages");
}

#[test]
fn what_lies_between_two_files_is_read_along_with_them_and_nobody_has_it() {
    let test = "what_lies_between_two_files_is_read_along_with_them_and_nobody_has_it";
    if !can_control(test) {
        return;
    }
    const FILES: u64 = 400;
    let tree = Tree::new(&[]);
    let (mount_point, disk) = disk_with_an_arm(&tree);
    let path = |n: u64| mount_point.join(format!("{n:03}"));
    let files: Vec<std::fs::File> = (0..FILES)
        .map(|n| {
            std::fs::write(path(n), vec![7; 8192]).unwrap();
            std::fs::File::open(path(n)).unwrap()
        })
        .collect();
    rustix::fs::syncfs(&files[0]).unwrap();
    files.iter().for_each(|file| rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap());
    // Every other one, in no order.
    let order: Vec<u64> = (0..FILES / 2).map(|i| i * 37 % (FILES / 2) * 2).collect();
    let list: String = order.iter().map(|&n| format!("{}\n", path(n).display())).collect();
    let reads: String = order.iter().map(|&n| format!("cat {}\n", path(n).display())).collect();
    let (hints, script, stats) =
        (tree.write("hints", list), tree.write("script", reads), tree.file("stats.json"));

    let seeks = movements(&disk, [&hints, &script, &stats]);
    // One movement a file without it. The first dozen requests go out alone, to be measured.
    assert!(seeks < FILES / 4, "{seeks} movements for {} files", FILES / 2);
    let passed_bytes = number(&statistics(&stats), "passed_bytes");
    // Some of it by more than one sweep.
    assert!((8192..4 * FILES * 8192).contains(&passed_bytes), "{passed_bytes}");
    let others: Vec<_> = (0..FILES / 2).map(|i| path(2 * i + 1)).collect();
    let cached = Command::new("fincore").args(["-nb", "-o", "PAGES"]).args(&others).output().unwrap();
    assert!(String::from_utf8_lossy(&cached.stdout).split_whitespace().all(|pages| pages == "0"));
}
