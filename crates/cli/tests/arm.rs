//! A disk with an arm: what lies between is read rather than passed over.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::os::unix::fs::FileExt;
use std::process::Command;

use harness::slow_disk::SlowDisk;
use harness::{Tree, can_control, foretell, number, statistics};

#[test]
fn of_scattered_blocks_many_come_with_one_movement_and_what_lies_between_does_not_stay() {
    let test = "of_scattered_blocks_many_come_with_one_movement_and_what_lies_between_does_not_stay";
    if !can_control(test) {
        return;
    }
    const SCATTERED: u64 = 192;
    const BLOCK: u64 = 8192;
    let tree = Tree::new(&[]);
    let mount_point = tree.file("disk");
    std::fs::create_dir(&mount_point).unwrap();
    let disk = SlowDisk::up(&mount_point, &["--seek-ms", "8", "--mb-s", "100", "--channels", "1"]);
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

    let before = disk.read_seeks();
    let [hints, script, stats_path] = [&hints, &script, &stats].map(|path| path.display().to_string());
    let options = ["run", "--quiet", "--budget", "16M", "--hints", &hints, "--stats", &stats_path];
    let ended = foretell(options.into_iter().chain(["--", "sh", &script]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let seeks = disk.read_seeks() - before;
    // One movement a block without it. The first dozen requests go out alone, to be measured.
    assert!(seeks < SCATTERED / 2, "{seeks} movements for {SCATTERED} blocks");
    assert!(number(&statistics(&stats), "prefetches") > SCATTERED / 2);

    let cached = Command::new("fincore").args(["-nb", "-o", "PAGES"]).arg(&file).output().unwrap();
    let cached: u64 = String::from_utf8_lossy(&cached.stdout).trim().parse().unwrap();
    // Two pages a block, and what the kernel read ahead of the program's own reads.
    assert!(cached < SCATTERED * 8, "{cached} pages");
}
