//! Files of a file system that was written as a whole, as images of machines are: their inodes have no generation.

#![allow(clippy::unwrap_used)]

mod harness;

use std::path::PathBuf;
use std::process::Command;

use harness::{Tree, can_control, drop_cache, foretell};

const FILES: usize = 300;

fn succeeds(words: &[&str]) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Mounted until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// `None` where that cannot be done.
    fn image(tree: &Tree) -> Option<Mounted> {
        let [files, image, point] = ["files", "image", "point"].map(|name| tree.file(name));
        std::fs::create_dir(&files).unwrap();
        std::fs::create_dir(&point).unwrap();
        for number in 0..FILES {
            std::fs::write(files.join(format!("{number:03}.dat")), vec![1; 5000]).unwrap();
        }
        let [from, to, at] = [&files, &image, &point].map(|path| path.to_str().unwrap());
        (succeeds(&["mke2fs", "-q", "-t", "ext4", "-d", from, to, "32M"])
            && succeeds(&["mount", "-o", "loop", to, at]))
        .then_some(Mounted(point))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeeds(&["umount", "--lazy", self.0.to_str().unwrap()]);
    }
}

#[test]
fn what_a_job_reads_of_an_image_is_learnt_though_it_is_closed_at_once() {
    let test = "what_a_job_reads_of_an_image_is_learnt_though_it_is_closed_at_once";
    if !can_control(test) {
        return;
    }
    let tree = Tree::new(&[]);
    let Some(mounted) = Mounted::image(&tree) else {
        println!("skipped: {test}: needs mke2fs and the right to mount");
        return;
    };
    let [state, stats] = ["state", "stats"].map(|name| tree.file(name).display().to_string());
    let reads = format!("cat '{}'/*.dat | wc -c; sleep 0.2", mounted.0.display());
    let night = |how: &str| -> serde_json::Value {
        drop_cache(&mounted.0);
        let words = ["learn", "--name", "job", "--state", &state, "--stats", &stats, "--as", how, "--"];
        let ended = foretell(words.into_iter().chain(["sh", "-c", &reads]));
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "1500000"), "{}", ended.stderr);
        serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap()
    };
    let watched = night("watch");
    assert!(watched["files"].as_u64() >= Some(FILES as u64), "{}", watched["files"]);
    let steered = night("steer");
    assert!(steered["predicted"].as_f64() > Some(0.9), "{}", steered["predicted"]);
}
