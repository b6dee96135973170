//! What `foretell learn` guesses on the first night of a job.

#![allow(clippy::unwrap_used)]

mod harness;

use std::process::Command;

use foretell_cgroup::{Controller, MemoryGroup, Place};
use foretell_testkit::cached_pages;
use harness::nights::Stage;
use harness::slow_disk::SlowDisk;
use harness::{Go, Tree, can_control, foretell, wait_until};
use serde_json::Value;

#[test]
fn on_the_first_night_the_files_of_a_directory_are_read_ahead() {
    if !can_control("on_the_first_night_the_files_of_a_directory_are_read_ahead") {
        return;
    }
    let names: Vec<String> = (0..600).map(|n| format!("small-{n:03}.dat")).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 20_000)).collect();
    let stage = Stage { tree: Tree::new(&files) };
    let out = stage.tree.file("stats.json");
    let guesses = |options: &[&str]| {
        let script = format!(
            "sleep 3; cd '{}' && for f in small-*.dat; do cat $f; done | cksum",
            stage.tree.path().display()
        );
        let night = stage.night(&[options, &["--stats", out.to_str().unwrap()]].concat(), &script);
        assert_eq!(night.code, Some(0), "{}", night.stderr);
        let told: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
        (night, told["guesses"].clone())
    };
    let (night, told) = guesses(&[]);
    assert!(told["used"].as_u64().unwrap() > 300, "{told}");
    assert!(told["wrong"].as_u64().unwrap() < 60, "{told}");
    assert!(night.stderr.contains("less as what it came to was guessed"), "{}", night.stderr);
    let info = foretell(["trace", "info", "--json", stage.recording().to_str().unwrap()]);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    assert!(info["files"].as_u64().unwrap() >= 600, "what was read ahead is known all the same: {info}");
    // Where watching was asked for nothing else is done.
    assert_eq!(guesses(&["--as", "watch"]).1, Value::Null);
}

#[test]
fn on_the_first_night_what_is_read_from_its_end_is_read_ahead() {
    if !can_control("on_the_first_night_what_is_read_from_its_end_is_read_ahead") {
        return;
    }
    let stage = Stage { tree: Tree::new(&[("large.dat", 24 << 20)]) };
    let out = stage.tree.file("stats.json");
    let script = format!("sleep 3; tac '{}' | cksum", stage.tree.file("large.dat").display());
    let night = stage.night(&["--stats", out.to_str().unwrap()], &script);
    assert_eq!(night.code, Some(0), "{}", night.stderr);
    let told: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let streams = &told["guesses"]["streams"];
    let pages = |what: &str| streams[what].as_u64().unwrap();
    assert!(pages("used_pages") > 3000, "of 6,144 pages: {streams}");
    assert!(pages("wrong_pages") < 600, "{streams}");
}

/// What a job waits for that reads no file: names and inodes.
#[test]
fn on_the_first_night_directories_are_listed_ahead() {
    let test = "on_the_first_night_directories_are_listed_ahead";
    if !can_control(test) {
        return;
    }
    let group = Place::find(Controller::Memory, &format!("foretell-names-{}", std::process::id()));
    let Ok(group) = group.and_then(|place| MemoryGroup::new(place, None)) else {
        println!("skipped: {test}: memory cgroups need root and a mounted hierarchy");
        return;
    };
    let stage = Stage { tree: Tree::new(&[]) };
    let volume = stage.tree.file("volume");
    std::fs::create_dir(&volume).unwrap();
    let _disk = SlowDisk::up(&volume, &["--latency-ms", "1", "--channels", "8"]);
    // What the kernel knows of the tree belongs to the group that made it, and goes with it.
    let make = "for d in $(seq 300); do mkdir -p top/$d/below; for f in 1 2 3; do : > top/$d/below/$f; done; done; sync";
    let make = format!("echo $$ > '{}' && cd '{}' && {make}", group.procs().display(), volume.display());
    assert!(Command::new("sh").args(["-c", &make]).status().unwrap().success());
    group.reclaim().unwrap();
    let out = stage.tree.file("stats.json");
    let script = format!("sleep 3; find '{}' -newermt 2000-01-01 | wc -l", volume.join("top").display());
    let night = stage.night(&["--stats", out.to_str().unwrap()], &script);
    assert_eq!((night.code, night.stdout.trim()), (Some(0), "1501"), "{}", night.stderr);
    let told: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let directories = &told["guesses"]["directories"];
    assert!(directories.is_object(), "{told}");
    let number = |what: &str| directories[what].as_u64().unwrap();
    assert!(number("used") > 200, "of 601 directories: {directories}");
    assert!(number("wrong") < 30, "{directories}");
    assert!(night.stderr.contains("less as what it came to was guessed"), "{}", night.stderr);
    // It has read no file to speak of: there is nothing to steer.
    let shown = stage.show();
    assert!(shown[0]["file_wait_s"].as_f64() < shown[0]["wait_s"].as_f64(), "{shown:?}");
}

/// As who looks up records by their keys.
#[test]
fn on_the_first_night_a_file_that_is_read_here_and_there_is_read_as_a_whole() {
    if !can_control("on_the_first_night_a_file_that_is_read_here_and_there_is_read_as_a_whole") {
        return;
    }
    let stage = Stage { tree: Tree::new(&[]) };
    let volume = stage.tree.file("volume");
    std::fs::create_dir(&volume).unwrap();
    let _disk = SlowDisk::up(&volume, &["--latency-ms", "1", "--channels", "8"]);
    let file = volume.join("records");
    std::fs::write(&file, vec![b'x'; 24 << 20]).unwrap();
    let opened = std::fs::File::open(&file).unwrap();
    opened.sync_all().unwrap();
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let out = stage.tree.file("stats.json");
    let lookups = "srand 7; open F, '<', $ARGV[0]; for (1..3000) { sysseek F, 4096 * int rand 6144, 0; sysread F, $b, 100; $n += length $b } print $n";
    let script = format!("sleep 3; perl -e '{}' '{}'", lookups.replace('\'', "'\\''"), file.display());
    let night = stage.night(&["--stats", out.to_str().unwrap()], &script);
    assert_eq!((night.code, night.stdout.as_str()), (Some(0), "300000"), "{}", night.stderr);
    let told: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let streams = &told["guesses"]["streams"];
    assert!(streams["asked_pages"].as_u64().unwrap() > 4000, "of 6,144 pages: {told}");
    assert!(streams["used_pages"].as_u64().unwrap() > 1000, "of some 2,000 that were left: {told}");
    assert!(streams["saved_ns"].as_u64().unwrap() > 500_000_000, "{told}");
}

/// As training does that shuffles its samples, and who names objects by their hash.
#[test]
fn on_the_first_night_a_tree_whose_files_are_read_in_no_order_is_read_as_a_whole() {
    if !can_control("on_the_first_night_a_tree_whose_files_are_read_in_no_order_is_read_as_a_whole") {
        return;
    }
    let stage = Stage { tree: Tree::new(&[]) };
    let volume = stage.tree.file("volume");
    std::fs::create_dir(&volume).unwrap();
    let _disk = SlowDisk::up(&volume, &["--latency-ms", "1", "--channels", "8"]);
    let sample = |n: usize| volume.join(format!("samples/{}/{n}.dat", n % 20));
    for n in 0..1200 {
        std::fs::create_dir_all(sample(n).parent().unwrap()).unwrap();
        std::fs::write(sample(n), vec![b'x'; 8000]).unwrap();
    }
    rustix::fs::sync();
    for n in 0..1200 {
        let file = std::fs::File::open(sample(n)).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    // From its end, which nobody reads ahead of but us: what comes of it tells that all before has been followed.
    let last = volume.join("last");
    std::fs::write(&last, vec![b'x'; 4 << 20]).unwrap();
    let opened = std::fs::File::open(&last).unwrap();
    opened.sync_all().unwrap();
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let out = stage.tree.file("stats.json");
    let (go, end) = (stage.tree.file("go"), stage.tree.file("end"));
    // Once it is known it takes its time, until the rest has come: on a busy machine it would be the quicker one.
    let shuffled = "for (1..1200) { select(undef, undef, undef, 0.02) if $_ > 150 && ! -e $ARGV[1]; $n = $_ * 7919 % 1201 - 1; \
         open F, \"<\", \"$ARGV[0]/samples/\".($n % 20).\"/$n.dat\"; sysread F, $b, 9000; $s += length $b } \
         open F, \"<\", \"$ARGV[0]/last\"; for (reverse 32..63) { sysseek F, $_ << 16, 0; sysread F, $b, 1 << 16 } \
         select(undef, undef, undef, 0.02) until -e $ARGV[2]; print $s";
    let paths = [&volume, &go, &end].map(|path| format!("'{}'", path.display())).join(" ");
    let script = format!("sleep 3; perl -e '{shuffled}' {paths}");
    let night = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _end = Go::at(end.clone());
            {
                let _go = Go::at(go.clone());
                wait_until("nearly all files are cached", || {
                    let is_cached = |n: &usize| cached_pages(&sample(*n)) > 0;
                    (0..1200).filter(is_cached).count() > 1150
                });
            }
            // Half of it the job reads by itself.
            wait_until("all has been followed", || cached_pages(&last) > 36 * 16);
        });
        stage.night(&["--stats", out.to_str().unwrap()], &script)
    });
    assert_eq!((night.code, night.stdout.as_str()), (Some(0), "9600000"), "{}", night.stderr);
    let told: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let trees = &told["guesses"]["trees"];
    let number = |what: &str| trees[what].as_u64().unwrap();
    assert!(number("used") > 800 && number("used") * 20 > number("asked") * 19, "of 1,200 files: {told}");
    assert!(number("saved_ns") > 200_000_000, "{told}");
}
