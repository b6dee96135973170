//! What is steered is open, and yet a disk can be unmounted: by the job that has read it, as backups do.

#![allow(clippy::unwrap_used)]

mod harness;

use std::process::Command;

use harness::slow_disk::SlowDisk;
use harness::{Tree, can_control, drop_cache, foretell};

/// Files on a disk of their own, and a job that reads them all and unmounts it then.
fn unmounts(test: &str, learnt: bool, way: impl Fn(&str) -> Vec<String>) {
    let is_root = rustix::process::geteuid().is_root();
    if !can_control(test) || !is_root {
        println!("skipped: {test}: needs root and control");
        return;
    }
    let tree = Tree::new(&[]);
    let point = tree.file("disk");
    std::fs::create_dir(&point).unwrap();
    let _disk = SlowDisk::up(&point, &["--latency-ms", "0.2", "--channels", "8"]);
    for number in 0..200 {
        std::fs::write(point.join(format!("{number:03}.dat")), vec![1; 40_000]).unwrap();
    }
    rustix::fs::sync();
    let reads = format!("cat '{}'/*.dat | wc -c", point.display());
    let state = tree.file("state").display().to_string();
    if learnt {
        let words = ["learn", "--name", "job", "--state", &state, "--as", "watch", "--", "sh", "-c", &reads];
        let watched = foretell(words);
        assert_eq!(watched.code, Some(0), "{}", watched.stderr);
        drop_cache(&point);
    }
    let script = format!("{reads}; cd /; umount '{}' || exit 32", point.display());
    let words: Vec<String> =
        way(&state).into_iter().chain(["--", "sh", "-c", &script].map(Into::into)).collect();
    let ended = foretell(words);
    assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "8000000"), "{}", ended.stderr);
    if learnt {
        assert!(ended.stderr.contains(", steered: "), "{}", ended.stderr);
    }
}

#[test]
fn a_job_that_is_steered_unmounts_what_it_has_read() {
    unmounts("a_job_that_is_steered_unmounts_what_it_has_read", true, |state| {
        ["learn", "--name", "job", "--state", state, "--as", "steer"].map(Into::into).to_vec()
    });
}

#[test]
fn a_program_under_a_rule_unmounts_what_it_has_read() {
    unmounts("a_program_under_a_rule_unmounts_what_it_has_read", false, |state| {
        let disk = state.replace("/state", "/disk");
        let rule = format!("{disk}/**=mru");
        ["run", "--no-service", "--budget", "4M", "--rule", &rule].map(Into::into).to_vec()
    });
}

/// What is read ahead of its use is open for a moment: also when the job stops half way and unmounts.
#[test]
fn a_job_that_stops_half_way_on_its_first_night_unmounts() {
    let test = "a_job_that_stops_half_way_on_its_first_night_unmounts";
    if !can_control(test) || !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: needs root and control");
        return;
    }
    let tree = Tree::new(&[]);
    let point = tree.file("disk");
    std::fs::create_dir(&point).unwrap();
    for round in 0..4 {
        let _disk = SlowDisk::up(&point, &["--latency-ms", "2", "--channels", "8"]);
        for number in 0..600 {
            std::fs::write(point.join(format!("{number:03}.dat")), vec![1; 40_000]).unwrap();
        }
        rustix::fs::sync();
        drop_cache(&point);
        let state = tree.file(&format!("state{round}")).display().to_string();
        let (disk, stop) = (point.display(), 250 + 10 * round);
        let script = format!(
            "cd '{disk}'; for f in *.dat; do cat $f; case $f in {stop}*) break;; esac; done | wc -c; cd /; umount '{disk}'"
        );
        let ended = foretell(["learn", "--name", "job", "--state", &state, "--", "sh", "-c", &script]);
        assert_eq!(ended.code, Some(0), "{round}: {}", ended.stderr);
    }
}

/// Whoever unmounts what he has mounted goes on at once with what lies below: it is free then, and whole.
#[test]
fn what_a_job_has_mounted_itself_is_free_when_it_has_unmounted_it() {
    let test = "what_a_job_has_mounted_itself_is_free_when_it_has_unmounted_it";
    if !can_control(test) || !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: needs root and control");
        return;
    }
    let tree = Tree::new(&[]);
    let directory = tree.path().display().to_string();
    // A check says whether the file system has been left as it should be.
    let script = format!(
        "cd '{directory}'; mkdir -p m; truncate -s 16M image; mkfs.ext4 -q -F image && mount -o loop image m || exit 3
         for i in $(seq 40); do head -c 50000 /dev/zero > m/$i; done; sync; echo 1 > /proc/sys/vm/drop_caches
         cat m/[0-9]* | wc -c; umount m || exit 4; losetup -j image | wc -l; dumpe2fs -h image 2> /dev/null | grep 'needs_recovery'; :"
    );
    let state = tree.file("state").display().to_string();
    let rule = format!("{directory}/**=mru");
    let learn = ["learn", "-q", "--name", "job", "--state", &state];
    let steer: Vec<&str> = learn.into_iter().chain(["--as", "steer"]).collect();
    for way in [
        &["run", "-q"][..],
        &["run", "-q", "--no-service", "--budget", "1M", "--rule", &rule],
        &learn,
        &steer,
        &steer,
    ] {
        let ended = foretell(way.iter().copied().chain(["--", "sh", "-c", &script]));
        if ended.code == Some(3) {
            println!("skipped: {test}: no loop devices here");
            return;
        }
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(0), "2000000\n0\n"),
            "{way:?}: {}",
            ended.stderr
        );
    }
}

/// A loop device is used again at once.
#[test]
fn what_takes_the_place_of_a_disk_that_was_unmounted_is_free_when_it_is_unmounted() {
    let test = "what_takes_the_place_of_a_disk_that_was_unmounted_is_free_when_it_is_unmounted";
    if !can_control(test) || !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: needs root and control");
        return;
    }
    let tree = Tree::new(&[]);
    let directory = tree.path().display().to_string();
    let shell =
        |script: &str| Command::new("sh").args(["-c", &format!("cd '{directory}'; {script}")]).status();
    let made = "for i in old image; do truncate -s 16M $i; mkfs.ext4 -q -F $i || exit 3; done; mkdir a m; mount -o loop old a";
    if !shell(made).unwrap().success() {
        println!("skipped: {test}: no loop devices here");
        return;
    }
    let script = format!(
        "cd '{directory}'; umount a; mount -o loop image m || exit 3
         for i in $(seq 40); do head -c 50000 /dev/zero > m/$i; done; sync; echo 1 > /proc/sys/vm/drop_caches
         cat m/[0-9]* | wc -c; umount m || exit 4; losetup -j image | wc -l"
    );
    let rule = format!("{directory}/**=mru");
    let way = ["run", "-q", "--no-service", "--budget", "1M", "--rule", &rule];
    let ended = foretell(way.into_iter().chain(["--", "sh", "-c", &script]));
    let _ = shell("mountpoint -q a && umount a");
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "2000000\n0\n"), "{}", ended.stderr);
}

/// The mounts that we open them through are attached nowhere.
#[test]
fn files_are_called_what_others_call_them() {
    let test = "files_are_called_what_others_call_them";
    if !can_control(test) || !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: needs root and control");
        return;
    }
    let tree = Tree::new(&[]);
    let (point, stats) = (tree.file("disk"), tree.file("stats.json"));
    std::fs::create_dir(&point).unwrap();
    let _disk = SlowDisk::up(&point, &["--latency-ms", "0.2", "--channels", "8"]);
    std::fs::write(point.join("a.dat"), vec![1; 40_000]).unwrap();
    let (rule, file) = (format!("{}/**=mru", point.display()), point.join("a.dat").display().to_string());
    // Meanwhile it is looked where its files are by now.
    let script = format!("cat '{file}' > /dev/null; sleep 1; cat '{file}' > /dev/null");
    let words = ["run", "-q", "--no-service", "--budget", "4M", "--rule", &rule, "--stats"];
    let ended = foretell(words.into_iter().chain([stats.to_str().unwrap(), "--", "sh", "-c", &script]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(stats).unwrap()).unwrap();
    assert_eq!(told["files"][0]["path"], file, "{told}");
}
