//! `foretell model calibrate` on what is no ordinary file of a disk: a block device, a file system without direct
//! reads, a file in memory.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Ended, FORETELL, foretell};

/// A little more than the least that is calibrated.
const DATA_BYTES: usize = 17 << 20;

/// Bytes that are no zeros, which some devices and file systems do not store.
fn data(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Runs a tool of the system; `None` if it is not there or does not succeed.
fn tool(command: &[&str]) -> Option<String> {
    let output = Command::new(command[0]).args(&command[1..]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A loop device over a file of its own, and what is mounted of it; both go with it.
struct Loop {
    directory: tempfile::TempDir,
    device: String,
    mounted: bool,
}

impl Loop {
    /// `None`, with a word, where this user cannot make one.
    fn new(test: &str, bytes: usize) -> Option<Loop> {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = directory.path().join("image");
        fs::write(&image, data(bytes)).unwrap();
        let device = tool(&["losetup", "--find", "--show", image.to_str().unwrap()]);
        if device.is_none() {
            println!("skipped: {test}: needs losetup and the right to make a loop device");
        }
        Some(Loop { directory, device: device?, mounted: false })
    }

    /// Makes an ext4 of it and mounts that; gives the directory.
    fn mount(&mut self, test: &str, options: &str) -> Option<PathBuf> {
        let at = self.directory.path().join("mounted");
        fs::create_dir(&at).unwrap();
        let at_text = at.to_str().unwrap();
        let made = tool(&["mkfs.ext4", "-q", "-F", &self.device]);
        self.mounted = made.is_some() && tool(&["mount", "-o", options, &self.device, at_text]).is_some();
        if !self.mounted {
            println!("skipped: {test}: needs mkfs.ext4 and the right to mount");
        }
        self.mounted.then_some(at)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if self.mounted {
            tool(&["umount", self.directory.path().join("mounted").to_str().unwrap()]);
        }
        tool(&["losetup", "--detach", &self.device]);
    }
}

/// Calibrates; the model must take the device file.
fn calibrated(target: &str, output: &Path) -> Ended {
    let output = output.to_str().unwrap();
    let ended = foretell(["model", "calibrate", target, "-o", output]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let workload = "random,bytes=1M,request=8K";
    let predicted = foretell(["model", "predict", "--device", output, "--workload", workload]);
    assert_eq!(predicted.code, Some(0), "{}", predicted.stderr);
    ended
}

#[test]
fn a_block_device_is_calibrated_by_whoever_may_read_it() {
    let test = "a_block_device_is_calibrated_by_whoever_may_read_it";
    let Some(device) = Loop::new(test, DATA_BYTES) else { return };
    let ended = calibrated(&device.device, &device.directory.path().join("out.toml"));
    assert_eq!(ended.stderr, "");
    let left = fs::read(device.directory.path().join("image")).unwrap();
    assert_eq!(left, data(DATA_BYTES), "it is only read");

    let public = tempfile::tempdir().unwrap();
    fs::set_permissions(public.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let copy = public.path().join("foretell");
    let tools = env!("CARGO_BIN_EXE_foretell-tools");
    assert!(Command::new("cp").args([FORETELL, tools]).arg(public.path()).status().unwrap().success());
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let output = public.path().join("out.toml");
    let ended = Command::new("setpriv")
        .args(nobody)
        .arg(&copy)
        .args(["model", "calibrate", &device.device, "-o"])
        .arg(&output)
        .output();
    let Ok(ended) = ended else {
        println!("skipped: {test}: needs setpriv to become another user");
        return;
    };
    let ended = Ended::from(ended);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    let says = "no permission to read it; run as root, or name a file of your own";
    assert_eq!(ended.stderr, format!("foretell: {}: {says}\n", device.device));
    assert!(!output.exists());
}

#[test]
fn without_direct_reads_pages_are_dropped_and_that_is_said() {
    let test = "without_direct_reads_pages_are_dropped_and_that_is_said";
    let Some(mut device) = Loop::new(test, 64 << 20) else { return };
    // With its data in the journal, ext4 has no direct reads (ext4(5), `data=journal`).
    let Some(directory) = device.mount(test, "data=journal") else { return };
    let path = directory.join("data");
    fs::write(&path, data(DATA_BYTES)).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let ended = calibrated(path.to_str().unwrap(), &device.directory.path().join("out.toml"));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("its file system has no direct reads; its pages are dropped"));
}

#[test]
fn of_a_file_in_memory_it_is_said_that_there_is_no_device() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: of_a_file_in_memory_it_is_said_that_there_is_no_device: /dev/shm is not mounted");
        return;
    };
    let path = directory.path().join("data");
    fs::write(&path, data(DATA_BYTES)).unwrap();
    let ended = calibrated(path.to_str().unwrap(), &directory.path().join("out.toml"));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("lies in memory"), "{}", ended.stderr);
}
