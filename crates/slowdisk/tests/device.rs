//! The device as a user sees it: what it charges, that it keeps data, and that nothing of it is left
//! behind however it ends. Needs root, FUSE and loop devices.

#![allow(clippy::unwrap_used)] // all of this file is test code

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use foretell_slowdisk::{
    Backing, Error, Helper, Info, Options, Slowdisk, Timing, cleanup_stale, counters, down, list, up,
};
use rustix::process::{Pid, Signal, kill_process};

const BLOCK: usize = 8192;
const SIZE: u64 = 64 << 20;
/// Delays long enough to be seen, short enough for a test.
const SEEK_NS: u64 = 1_000_000;

fn helper() -> Helper {
    Helper::new(env!("CARGO_BIN_EXE_foretell-slowdisk-helper"), Vec::<String>::new())
}

fn can_run(test: &str) -> bool {
    let why = if !rustix::process::geteuid().is_root() {
        "needs root"
    } else if !Path::new("/dev/fuse").exists() {
        "needs /dev/fuse"
    } else if !Path::new("/dev/loop-control").exists() {
        "needs /dev/loop-control"
    } else {
        return true;
    };
    println!("skipped: {test}: {why}");
    false
}

fn timing(channels: u32) -> Timing {
    Timing {
        latency_ns: 0,
        seek_ns: SEEK_NS,
        channels,
        channel_bytes_per_s: 1 << 30,
        total_bytes_per_s: None,
    }
}

/// A device for the test of this name, on a new mount point.
fn options(test: &str, channels: u32) -> Options {
    let mount_point = std::env::temp_dir().join(format!("foretell-slowdisk-{test}"));
    Options::new(test, mount_point, SIZE, timing(channels))
}

fn start(options: &Options) -> Slowdisk {
    up(options, &helper()).unwrap()
}

/// What is left of a device: mounts, loop device, state, mount point, processes.
fn traces(info: &Info) -> Vec<String> {
    let device = info.device.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let name = &info.options.name;
    // Another test may have taken the number of the loop device in the meantime.
    let backing =
        PathBuf::from("/sys/block").join(info.device.file_name().unwrap()).join("loop/backing_file");
    let is_backed = fs::read_to_string(backing).is_ok_and(|file| file.contains(&format!("/{name}/")));
    let source = format!("foretell-slowdisk-{name} ");
    let mount_point = format!(" {} ", info.options.mount_point.display());
    let is_ours = |line: &&str| {
        let is_on_it = is_backed && line.contains(&format!("{device} "));
        is_on_it || line.contains(&source) || line.contains(&mount_point)
    };
    let mut traces: Vec<String> = mounts.lines().filter(is_ours).map(str::to_owned).collect();
    if is_backed {
        traces.push(device);
    }
    let state = Path::new("/run/foretell/slowdisk").join(name);
    for path in [&info.options.mount_point, &state] {
        if path.exists() {
            traces.push(path.display().to_string());
        }
    }
    for pid in [info.guard_pid, info.server_pid] {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        if status.contains("foretell-slowdi") && !status.contains("State:\tZ") {
            traces.push(format!("process {pid}"));
        }
    }
    traces
}

fn no_traces() -> Vec<String> {
    Vec::new()
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// The block device, opened past the page cache.
struct Raw(File);

impl Raw {
    fn open(info: &Info) -> Self {
        let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        Self(File::options().read(true).write(true).custom_flags(flags).open(&info.device).unwrap())
    }

    /// Reads `length` bytes into memory aligned as direct I/O wants it.
    fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0; length + 4096];
        let start = buffer.as_ptr().align_offset(4096);
        self.0.read_exact_at(&mut buffer[start..start + length], offset).unwrap();
        buffer[start..start + length].to_vec()
    }
}

#[test]
fn random_reads_seek_and_sequential_reads_do_not() {
    if !can_run("random_reads_seek_and_sequential_reads_do_not") {
        return;
    }
    let disk = start(&options("seeks", 1));
    let raw = Raw::open(disk.info());
    let before = disk.counters().unwrap();
    let started = Instant::now();
    // 100 blocks apart, backwards: never where the last one ended.
    for index in (0..50).rev() {
        raw.read(index * 100 * BLOCK as u64, BLOCK);
    }
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap();
    let random = disk.counters().unwrap().since(&before);
    assert_eq!((random.reads, random.read_bytes, random.read_seeks), (50, 50 * BLOCK as u64, 50));
    // 8192 B at 2^30 B/s is 7629.4 ns, rounded up.
    assert_eq!(random.busy_ns, 50 * (SEEK_NS + 7_630));
    assert!(elapsed_ns >= random.busy_ns, "answered before the time: {elapsed_ns} ns");

    let before = disk.counters().unwrap();
    for index in 0..50 {
        raw.read(SIZE / 2 + index * BLOCK as u64, BLOCK);
    }
    let sequential = disk.counters().unwrap().since(&before);
    assert_eq!((sequential.reads, sequential.read_seeks), (50, 1));
    drop(raw);
    disk.down().unwrap();
}

#[test]
fn large_requests_are_not_cut_to_pieces() {
    if !can_run("large_requests_are_not_cut_to_pieces") {
        return;
    }
    let disk = start(&options("large", 1));
    let raw = Raw::open(disk.info());
    let before = disk.counters().unwrap();
    raw.read(0, 1 << 20);
    let large = disk.counters().unwrap().since(&before);
    assert_eq!((large.read_bytes, large.read_seeks), (1 << 20, 1));
    // A loop device takes 128 segments a request, so memory in single pages makes two of it.
    assert!(large.reads <= 2, "cut into {} requests", large.reads);
}

#[test]
fn channels_serve_at_the_same_time() {
    if !can_run("channels_serve_at_the_same_time") {
        return;
    }
    let disk = start(&options("channels", 8));
    let before = disk.counters().unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let info = disk.info();
            scope.spawn(move || {
                let raw = Raw::open(info);
                for index in 0..20 {
                    raw.read((reader * 20 + index) * 5 * BLOCK as u64, BLOCK);
                }
            });
        }
    });
    let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap();
    let served = disk.counters().unwrap().since(&before);
    assert_eq!((served.reads, served.read_seeks), (160, 160));
    assert!(served.depth_max >= 8, "only {} requests at once", served.depth_max);
    assert!(elapsed_ns >= served.busy_ns / 8, "more than eight at once");
}

#[test]
fn writes_are_free_unless_asked_otherwise() {
    if !can_run("writes_are_free_unless_asked_otherwise") {
        return;
    }
    for slow_writes in [false, true] {
        let disk = start(&Options { slow_writes, ..options(if slow_writes { "slow" } else { "quick" }, 1) });
        let before = disk.counters().unwrap();
        let mut file = File::create(disk.mount_point().join("file")).unwrap();
        file.write_all(&[7; 10 * BLOCK]).unwrap();
        file.sync_all().unwrap();
        let written = disk.counters().unwrap().since(&before);
        assert!(written.written_bytes >= 10 * BLOCK as u64);
        assert_eq!(written.write_seeks > 0, slow_writes);
    }
}

#[test]
fn what_is_written_is_read_back() {
    if !can_run("what_is_written_is_read_back") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    for (name, backing) in [("memory", Backing::Memory), ("file", Backing::File(image.clone()))] {
        let disk = start(&Options { backing, ..options(name, 4) });
        let path = disk.mount_point().join("data");
        let data: Vec<u8> =
            (0..4u32 << 20).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut file = File::create(&path).unwrap();
        file.write_all(&data).unwrap();
        file.sync_all().unwrap();
        let before = disk.counters().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut back = Vec::new();
        File::open(&path).unwrap().read_to_end(&mut back).unwrap();
        assert!(back == data, "the data differs");
        drop(file);
        assert!(disk.counters().unwrap().since(&before).read_bytes >= data.len() as u64, "read from a cache");
        disk.down().unwrap();
    }
    assert_eq!(fs::metadata(&image).unwrap().len(), SIZE);
}

#[test]
fn nothing_is_left_after_down() {
    if !can_run("nothing_is_left_after_down") {
        return;
    }
    let disk = start(&options("down", 1));
    let info = disk.info().clone();
    assert!(!traces(&info).is_empty());
    assert!(list().contains(&info));
    assert_eq!(counters("down").unwrap().writes, disk.counters().unwrap().writes);
    disk.down().unwrap();
    assert_eq!(traces(&info), no_traces());
    assert!(!list().contains(&info));
    assert!(matches!(down("down", false), Err(Error::Unknown { .. })));
}

#[test]
fn a_device_that_stays_is_removed_by_its_name() {
    if !can_run("a_device_that_stays_is_removed_by_its_name") {
        return;
    }
    let info = start(&options("stay", 1)).stay().unwrap();
    assert!(list().contains(&info));
    let taken = up(&options("stay", 1), &helper()).map(|_| ());
    assert!(matches!(taken, Err(Error::NameTaken { .. })), "{taken:?}");

    let path = info.options.mount_point.join("open");
    let file = File::create(path).unwrap();
    assert!(matches!(down("stay", false), Err(Error::Busy { .. })));
    drop(file);
    down("stay", false).unwrap();
    assert_eq!(traces(&info), no_traces());
}

#[test]
fn nothing_is_left_when_a_process_is_killed() {
    if !can_run("nothing_is_left_when_a_process_is_killed") {
        return;
    }
    let mut disk = start(&options("kill-server", 1));
    let info = disk.info().clone();
    kill(info.server_pid);
    disk.wait().unwrap();
    assert_eq!(traces(&info), no_traces());

    let mut disk = start(&options("kill-guard", 1));
    let info = disk.info().clone();
    kill(info.guard_pid);
    disk.wait().unwrap();
    wait_until(|| traces(&info).is_empty(), || format!("{:?}", traces(&info)));
}

#[test]
fn the_next_command_removes_what_is_left_when_all_are_killed() {
    if !can_run("the_next_command_removes_what_is_left_when_all_are_killed") {
        return;
    }
    let mut disk = start(&options("kill-all", 1));
    let info = disk.info().clone();
    // Stopped first, so that neither sees the other's end.
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in [info.guard_pid, info.server_pid] {
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        }
    }
    disk.wait().unwrap();
    wait_until(|| list().iter().all(|up| up.options.name != "kill-all"), || "still alive".to_owned());
    // The next command may also be another test's start: then there is nothing left to remove here.
    let removed = cleanup_stale().unwrap();
    assert!(removed.is_empty() || removed.contains(&"kill-all".to_owned()));
    assert_eq!(traces(&info), no_traces());
}

#[test]
fn a_device_that_cannot_be_started_leaves_nothing() {
    if !can_run("a_device_that_cannot_be_started_leaves_nothing") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing/mount");
    let outcome = up(&Options { mount_point: missing, ..options("nowhere", 1) }, &helper()).map(|_| ());
    assert!(matches!(outcome, Err(Error::System { .. })), "{outcome:?}");
    let backing = Backing::File(directory.path().join("missing/image"));
    let outcome = up(&Options { backing, ..options("no-image", 1) }, &helper()).map(|_| ());
    assert!(matches!(outcome, Err(Error::System { .. })), "{outcome:?}");
    let no_helper = Helper::new("/bin/false", Vec::<String>::new());
    let outcome = up(&options("no-helper", 1), &no_helper).map(|_| ());
    assert!(matches!(outcome, Err(Error::System { .. })), "{outcome:?}");
    for name in ["nowhere", "no-image", "no-helper"] {
        assert!(!Path::new("/run/foretell/slowdisk").join(name).exists());
        assert!(!options(name, 1).mount_point.exists());
    }
}

/// Waits for what another process does; the limit only ends a test that has failed.
fn wait_until(mut holds: impl FnMut() -> bool, state: impl Fn() -> String) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{}", state());
}
