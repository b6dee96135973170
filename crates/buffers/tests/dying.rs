//! A mount whose files are opened, and whose server then gives no bytes any more: who reads there waits, and nobody else.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{PART, bytes, options, read};
use foretell_buffers::{Error, Pool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Advice;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

const P: u64 = PART as u64;
/// Parts of the one file of the mount: twice what a pool has requests, and a ring has places.
const PARTS: u64 = 200;
/// What an honest reader waits for beside them, on a machine that does much else besides.
const SOON: Duration = Duration::from_secs(8);

/// A file system with one file, `a` (fuse(4); the kernel's `include/uapi/linux/fuse.h`).
struct Served {
    at: PathBuf,
    is_dead: Arc<AtomicBool>,
    /// Reads that it has not answered.
    unanswered: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Served {
    /// `None` where none can be mounted.
    fn mount(at: PathBuf) -> Option<Served> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        std::fs::create_dir(&at).unwrap();
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let data = std::ffi::CString::new(data).unwrap();
        mount("dying", &at, "fuse", MountFlags::NOSUID | MountFlags::NODEV, data.as_c_str()).ok()?;
        let (is_dead, ends) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let unanswered = Arc::<AtomicUsize>::default();
        let its = (is_dead.clone(), ends.clone(), unanswered.clone());
        let server = std::thread::spawn(move || serve(device, &its.0, &its.1, &its.2));
        Some(Served { at, is_dead, unanswered, ends, server: Some(server) })
    }

    fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = unmount(&self.at, UnmountFlags::DETACH);
        self.ends.store(true, Ordering::SeqCst);
        // With the device all that waits gets an error.
        let _ = self.server.take().unwrap().join();
    }
}

fn serve(mut device: File, is_dead: &AtomicBool, ends: &AtomicBool, unanswered: &AtomicUsize) {
    let content = bytes("a", 0, 0..PARTS * P);
    let mut request = vec![0; 1 << 18];
    while !ends.load(Ordering::SeqCst) {
        let tick = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let mut polled = [PollFd::from_borrowed_fd(device.as_fd(), PollFlags::IN)];
        if poll(&mut polled, Some(&tick)).unwrap_or(0) == 0 {
            continue;
        }
        let Ok(length) = device.read(&mut request) else { return };
        let asked = &request[..length];
        let word = |at: usize| u32::from_le_bytes(asked[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(asked[at..at + 8].try_into().unwrap());
        let (operation, unique, node) = (word(4), long(8), long(16));
        if operation == READ && is_dead.load(Ordering::SeqCst) {
            unanswered.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        let answer = match operation {
            INIT => Some([&words(&[7, 31, 0, 0, 64 | 48 << 16, 1 << 17, 1]), &[0; 36][..]].concat()),
            LOOKUP if &asked[40..42] == b"a\0" => {
                let entry =
                    [&2_u64.to_le_bytes(), &[0; 8][..], &HOUR.to_le_bytes(), &HOUR.to_le_bytes(), &[0; 8]];
                Some([entry.concat(), attributes(2)].concat())
            }
            GETATTR => Some([HOUR.to_le_bytes().to_vec(), vec![0; 8], attributes(node)].concat()),
            OPEN => Some(vec![0; 16]),
            READ => {
                let (offset, size) = (long(48) as usize, word(56) as usize);
                let start = offset.min(content.len());
                Some(content[start..(offset + size).min(content.len()).max(start)].to_vec())
            }
            FLUSH | RELEASE => Some(Vec::new()),
            // It gets no answer.
            FORGET | BATCH_FORGET => continue,
            LOOKUP => None,
            _ => {
                let _ =
                    device.write_all(&[&words(&[16, -38_i32 as u32])[..], &unique.to_le_bytes()].concat());
                continue;
            }
        };
        let (error, answer) = answer.map_or((-2_i32, Vec::new()), |answer| (0, answer));
        let head = [&words(&[16 + answer.len() as u32, error as u32])[..], &unique.to_le_bytes()].concat();
        let _ = device.write_all(&[head, answer].concat());
    }
}

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const BATCH_FORGET: u32 = 42;
const HOUR: u64 = 3600;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `struct fuse_attr` of the root, which is a folder, and of the file.
fn attributes(node: u64) -> Vec<u8> {
    let (mode, length) = if node == 1 { (0o040_755, 0) } else { (0o100_644, PARTS * P) };
    let longs = [node, length, length.div_ceil(512), 0, 0, 0];
    let longs = longs.into_iter().flat_map(u64::to_le_bytes);
    longs.chain(words(&[0, 0, 0, mode, 1, 0, 0, 0, PART, 0])).collect()
}

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// Readers of a mount that dies under them, half as many again as there are requests, and of a file on a disk beside it.
fn dies(test: &str, requests: u64) {
    let folder = tempfile::tempdir().unwrap();
    let Some(served) = Served::mount(folder.path().join("served")) else {
        println!("skipped: {test}: needs root and FUSE");
        return;
    };
    // On a disk, if the tests are, and not in the page cache.
    let beside = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
    let other = beside.path().join("b");
    std::fs::write(&other, bytes("b", 0, 0..PARTS * P)).unwrap();
    let file = File::open(&other).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let mut options = options(512);
    (options.requests, options.timeout) = (requests as usize, Duration::from_secs(20));
    let pool = Pool::new(options).unwrap();
    let dying = pool.open(&url(&served.at.join("a"))).unwrap();
    let other = pool.open(&url(&other)).unwrap();
    assert!(read(&dying, 0, P).unwrap() == bytes("a", 0, 0..P));
    served.die();
    std::thread::scope(|scope| {
        for part in 0..requests * 3 / 2 {
            let dying = &dying;
            scope.spawn(move || {
                // Not neighbours, so that each is a request.
                let at = (2 * part + 1) * P;
                match read(dying, at, P) {
                    // It was read ahead.
                    Ok(read) => assert!(read == bytes("a", 0, at..at + P)),
                    // The mount is gone in the end.
                    Err(Error::TimedOut { .. } | Error::Failed { .. } | Error::Changed { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            });
        }
        // Before anybody else comes, they have all requests that there are.
        let began = Instant::now();
        let all_wait = || pool.statistics().unwrap().requests_under_way >= requests;
        while !all_wait() && began.elapsed() < SOON {
            std::thread::yield_now();
        }
        for part in [1, 40, 90] {
            let began = Instant::now();
            assert!(read(&other, part * P, P).unwrap() == bytes("b", 0, part * P..(part + 1) * P));
            assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        }
        // No more of them than a mount has threads.
        let unanswered = served.unanswered.load(Ordering::SeqCst);
        assert!((1..=8).contains(&unanswered), "{unanswered}");
        drop(served);
    });
}

#[test]
fn a_mount_that_dies_after_a_good_open_takes_no_place_of_others_in_the_ring() {
    dies("a_mount_that_dies_after_a_good_open_takes_no_place_of_others_in_the_ring", 64);
}

#[test]
fn a_mount_that_dies_after_a_good_open_lends_its_requests_to_others() {
    dies("a_mount_that_dies_after_a_good_open_lends_its_requests_to_others", 8);
}
