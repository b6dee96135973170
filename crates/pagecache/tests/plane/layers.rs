//! File systems on which stat(2) does not describe the inode that has the pages, and those on which it does: files are
//! steered alike.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foretell_pagecache::{HintChunk, PoolPolicy};

use foretell_testkit::mounts::{Mount, Overlay, bind, disk, overlay, subvolume};

use crate::stage::{
    BLOCK, Play, assert_references, cached_blocks, cached_pages, chill, compute_us, file_at, options,
    rule_below, stage, undisturbed,
};

/// What is there, or a line that says why the test cannot be.
fn or_skip<T>(test: &str, made: Result<T, String>) -> Option<T> {
    made.inspect_err(|why| println!("skipped: {test}: {why}")).ok()
}

/// Cyclic passes over a file in the directory under MRU read what arithmetic says, and no more, from the device.
fn scan_below(directory: &Path, path: &Path) {
    let (blocks, budget, passes) = (2048, 1024, 4);
    let (report, cached) = undisturbed(|| {
        chill(path);
        let mut play = Play::new(options(budget), rule_below(directory, PoolPolicy::Mru));
        play.run(&format!("open f {} random", path.display()));
        play.run(&format!("pass f {BLOCK} {passes} {}", compute_us()));
        let cached = play.settled(|| cached_blocks(path).len() as u64);
        Some((play.undisturbed_report()?, cached))
    });
    let arithmetic = blocks + (passes - 1) * (blocks - budget);
    assert_eq!(report.counts.references, blocks * passes, "{report:?}");
    let off = |fetches: u64| fetches.abs_diff(arithmetic) as f64 / arithmetic as f64;
    assert!(off(report.counts.demand_fetches) <= 0.01, "{arithmetic}: {report:?}");
    // Not with what we read ourselves: our own program, where nothing of it is cached yet.
    let device_read_bytes: u64 = report.processes.iter().map(|process| process.device_read_bytes).sum();
    assert!(off(device_read_bytes / BLOCK) <= 0.01, "{arithmetic}: {report:?}");
    assert!(cached <= budget + 64, "{cached}");
}

#[test]
fn a_scan_on_xfs_or_through_a_bind_mount_is_steered() {
    let test = "a_scan_on_xfs_or_through_a_bind_mount_is_steered";
    let Some(stage) = stage(test) else { return };
    let Some(xfs) = or_skip(test, disk(&stage.directory, "xfs")) else { return };
    let path = file_at(xfs.at.join("a"), 2048);
    scan_below(&xfs.at, &path);
    let again = stage.directory.join("again");
    let Some(_bound) = or_skip(test, bind(&xfs.at, &again)) else { return };
    scan_below(&again, &again.join("a"));
}

#[test]
fn a_scan_on_an_overlay_is_steered_in_the_lower_layer_and_in_the_upper_one() {
    let test = "a_scan_on_an_overlay_is_steered_in_the_lower_layer_and_in_the_upper_one";
    let Some(stage) = stage(test) else { return };
    let Some(Overlay { lower, merged, .. }) = or_skip(test, overlay(&stage.directory, "")) else { return };
    file_at(lower.join("below"), 2048);
    scan_below(&merged.at, &merged.at.join("below"));
    let above = file_at(merged.at.join("above"), 2048);
    scan_below(&merged.at, &above);
    // What runs on the host knows the file by another name.
    scan_below(&lower, &lower.join("below"));
}

#[test]
fn a_scan_on_an_overlay_of_two_file_systems_and_on_an_overlay_on_that_is_steered() {
    let test = "a_scan_on_an_overlay_of_two_file_systems_and_on_an_overlay_on_that_is_steered";
    let Some(stage) = stage(test) else { return };
    let Some(xfs) = or_skip(test, disk(&stage.directory, "xfs")) else { return };
    std::os::unix::fs::symlink(&xfs.at, stage.directory.join("lower")).unwrap();
    file_at(xfs.at.join("a"), 2048);
    let Some(first) = or_skip(test, overlay(&stage.directory, ",metacopy=on")) else { return };
    // Only its metadata is copied up.
    let path = first.merged.at.join("a");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert!(fs::metadata(first.upper.join("a")).unwrap().blocks() < 2048, "its data is where it was");
    scan_below(&first.merged.at, &path);
    let second = stage.directory.join("second");
    fs::create_dir(&second).unwrap();
    std::os::unix::fs::symlink(&first.merged.at, second.join("lower")).unwrap();
    let Some(second) = or_skip(test, overlay(&second, "")) else { return };
    scan_below(&second.merged.at, &second.merged.at.join("a"));
}

#[test]
fn a_file_that_is_copied_up_stays_under_control() {
    let test = "a_file_that_is_copied_up_stays_under_control";
    let Some(stage) = stage(test) else { return };
    let Some(Overlay { lower, upper, merged }) = or_skip(test, overlay(&stage.directory, "")) else { return };
    file_at(lower.join("a"), 1024);
    let path = merged.at.join("a");
    let mut play = Play::new(options(64), rule_below(&merged.at, PoolPolicy::Lru));
    play.run(&format!("open old {} random", path.display()));
    play.run(&format!("pass old {BLOCK} 1"));
    OpenOptions::new().append(true).open(&path).unwrap();
    assert!(upper.join("a").exists(), "copied up");
    chill(&upper.join("a"));
    // The descriptor from before leads to the copy from now on.
    play.run(&format!("pass old {BLOCK} 1"));
    play.run(&format!("open new {} random", path.display()));
    play.run(&format!("shuffled new {BLOCK} 1 0"));
    let report = play.report();
    assert_references(&report, 3 * 1024);
    // The kernel's readahead for the first of them leaves folios of up to 256 blocks, which go as a whole.
    let cached = cached_blocks(&upper.join("a")).len();
    assert!(cached <= 64 + 64 + 256, "{cached} {report:?}");
}

/// The program itself has it copied up: it is seen to use an inode that it does not have open yet.
#[test]
fn a_file_that_its_reader_has_copied_up_is_found_when_it_is_open() {
    let test = "a_file_that_its_reader_has_copied_up_is_found_when_it_is_open";
    let Some(stage) = stage(test) else { return };
    let Some(Overlay { lower, upper, merged }) = or_skip(test, overlay(&stage.directory, "")) else { return };
    file_at(lower.join("a"), 1024);
    let path = merged.at.join("a");
    let mut play = Play::new(options(64), rule_below(&merged.at, PoolPolicy::Lru));
    play.run(&format!("open f {} rw", path.display()));
    assert!(upper.join("a").exists(), "copied up");
    play.until("it is found", |play| {
        play.run(&format!("read f 0 {BLOCK}"));
        play.report().counts.references > 0
    });
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    play.until("the copy has been written back and dropped", |_| {
        cached_blocks(&upper.join("a")).len() <= 64 + 64 + 256
    });
}

#[test]
fn a_list_follows_a_file_that_is_copied_up() {
    let test = "a_list_follows_a_file_that_is_copied_up";
    let Some(stage) = stage(test) else { return };
    let Some(Overlay { lower, upper, merged }) = or_skip(test, overlay(&stage.directory, "")) else { return };
    file_at(lower.join("a"), 512);
    let path = merged.at.join("a");
    let mut play = Play::new(
        foretell_pagecache::Options { prefetch: foretell_pagecache::Prefetch::Aggressive, ..options(128) },
        Vec::new(),
    );
    let chunks = vec![HintChunk { path: path.clone(), offset: 0, length: None }];
    play.plane.disclose(play.session, 0, &chunks).unwrap();
    play.until("its start is prefetched", |_| cached_blocks(&path).len() >= 64);
    OpenOptions::new().append(true).open(&path).unwrap();
    chill(&upper.join("a"));
    play.run(&format!("open f {} random", path.display()));
    play.run(&format!("pass f {BLOCK} 1 200"));
    let report = play.report();
    assert_eq!(report.counts.references, 512, "{report:?}");
    assert!(report.counts.prefetches > 256 && report.counts.demand_fetches < 256, "{report:?}");
    assert!(cached_blocks(&upper.join("a")).len() <= 128 + 64);
}

#[test]
fn mapped_pages_of_a_file_on_an_overlay_or_btrfs_are_evicted() {
    let test = "mapped_pages_of_a_file_on_an_overlay_or_btrfs_are_evicted";
    let Some(stage) = stage(test) else { return };
    let Some(overlay) = or_skip(test, overlay(&stage.directory, "")) else { return };
    file_at(overlay.lower.join("a"), 512);
    let Some(btrfs) = or_skip(test, disk(&stage.directory, "btrfs")) else { return };
    file_at(btrfs.at.join("a"), 512);
    for directory in [&overlay.merged.at, &btrfs.at] {
        let path = directory.join("a");
        let mut play = Play::new(options(64), rule_below(directory, PoolPolicy::Lru));
        play.run(&format!("open f {}", path.display()));
        play.run("touch f");
        let counts = play.report().counts;
        assert!(counts.references >= 512 / 8, "{counts:?}");
        play.until("what is mapped goes", |_| cached_pages(&path).len() <= 2 * (64 + 64 + 256));
    }
}

/// Two subvolumes in which the same inode numbers mean different files.
fn twins(stage_directory: &Path) -> Result<(Mount, [PathBuf; 2]), String> {
    let btrfs = disk(stage_directory, "btrfs")?;
    let twins = [subvolume(&btrfs, "one")?, subvolume(&btrfs, "two")?];
    let numbers = twins.each_ref().map(|of| {
        file_at(of.join("a"), 2048);
        fs::metadata(of.join("a")).unwrap().ino()
    });
    assert_eq!(numbers[0], numbers[1]);
    Ok((btrfs, twins))
}

#[test]
fn subvolumes_of_a_btrfs_are_told_apart() {
    let test = "subvolumes_of_a_btrfs_are_told_apart";
    let Some(stage) = stage(test) else { return };
    let Some((_btrfs, [one, two])) = or_skip(test, twins(&stage.directory)) else { return };
    scan_below(&one, &one.join("a"));
    scan_below(&two, &two.join("a"));
    // What a rule says of one is not done to the other, which the same program reads as well.
    let (a, b) = (one.join("a"), two.join("a"));
    undisturbed(|| {
        [&a, &b].into_iter().for_each(|path| chill(path));
        let mut play = Play::new(options(128), rule_below(&one, PoolPolicy::Lru));
        play.run(&format!("open a {} random", a.display()));
        play.run(&format!("open b {} random", b.display()));
        play.run(&format!("pass b {BLOCK} 1"));
        play.run(&format!("pass a {BLOCK} 1"));
        let report = play.undisturbed_report()?;
        assert_eq!(report.counts.references, 2048, "{report:?}");
        play.until("the one is within the budget", |_| cached_blocks(&a).len() <= 128);
        (cached_blocks(&b).len() == 2048).then_some(())
    });
}

#[test]
fn a_scan_on_an_overlay_on_btrfs_is_steered() {
    let test = "a_scan_on_an_overlay_on_btrfs_is_steered";
    let Some(stage) = stage(test) else { return };
    let Some(btrfs) = or_skip(test, disk(&stage.directory, "btrfs")) else { return };
    let Some(Overlay { lower, merged, .. }) = or_skip(test, overlay(&btrfs.at, "")) else { return };
    file_at(lower.join("a"), 2048);
    scan_below(&merged.at, &merged.at.join("a"));
}
