//! Names of local files behind which there is something else, or nobody that ever answers.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{PART, bytes, options, read};
use foretell_buffers::{Error, Pool};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// More than a pool has threads for one place.
const MANY: usize = 40;
/// What an honest reader waits for beside them: some milliseconds, but on a machine that does much else besides.
const SOON: Duration = Duration::from_secs(5);

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

fn reads_another(pool: &Pool, path: &Path) {
    let length = 3 * u64::from(PART);
    std::fs::write(path, bytes("a", 0, 0..length)).unwrap();
    let began = Instant::now();
    let object = pool.open(&url(path)).unwrap();
    assert_eq!(read(&object, 0, length).unwrap(), bytes("a", 0, 0..length));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn what_is_no_file_is_refused_at_once_and_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pool = Pool::new(options(8)).unwrap();
    let fifo = rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    );
    fifo.unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
    let places = [
        (at("pipe"), "a pipe"),
        (at("link"), "a pipe"),
        (at("socket"), "a socket"),
        (PathBuf::from("/dev/zero"), "a character device"),
    ];
    let began = Instant::now();
    for _ in 0..MANY {
        for (path, what) in &places {
            let said = pool.open(&url(path)).unwrap_err().to_string();
            let url = url(path);
            assert_eq!(
                said,
                format!(
                    "{url}: the store failed: it is {what}; only regular files and block devices are read"
                )
            );
        }
    }
    assert!(began.elapsed() < 4 * SOON, "{:?}", began.elapsed());
    assert!(matches!(pool.open(&url(folder.path())), Err(Error::NotFound { .. })));
    // Of several the others are opened.
    std::fs::write(at("b"), "b").unwrap();
    let (pipe, file) = (url(&at("pipe")), url(&at("b")));
    let opened = pool.open_all(&[&pipe, &file]).unwrap();
    assert!(matches!(opened[0], Err(Error::Failed { .. })) && opened[1].is_ok(), "{opened:?}");
    reads_another(&pool, &at("a"));
}

/// A file system whose server never answers, until it is dropped.
struct Dead {
    _device: File,
    at: PathBuf,
}

impl Dead {
    /// `None` where none can be mounted.
    fn mount(at: PathBuf) -> Option<Dead> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        std::fs::create_dir(&at).unwrap();
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let data = std::ffi::CString::new(data).unwrap();
        mount("dead", &at, "fuse", MountFlags::NOSUID | MountFlags::NODEV, data.as_c_str()).ok()?;
        Some(Dead { _device: device, at })
    }
}

impl Drop for Dead {
    fn drop(&mut self) {
        // What waits holds it until its server is gone, a moment later.
        let _ = unmount(&self.at, UnmountFlags::DETACH);
    }
}

#[test]
fn a_mount_that_never_answers_keeps_nobody_else_waiting() {
    let test = "a_mount_that_never_answers_keeps_nobody_else_waiting";
    let folder = tempfile::tempdir().unwrap();
    let Some(dead) = Dead::mount(folder.path().join("dead")) else {
        println!("skipped: {test}: needs root and FUSE");
        return;
    };
    let links = folder.path().join("links");
    std::fs::create_dir(&links).unwrap();
    std::os::unix::fs::symlink(&dead.at, links.join("dead")).unwrap();
    let mut options = options(8);
    options.timeout = Duration::from_millis(300);
    let pool = Pool::new(options).unwrap();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..MANY {
            let (pool, dead, links) = (&pool, &dead, &links);
            scope.spawn(move || {
                let at = [&dead.at, &links.join("dead")][number % 2].join(format!("a{number}"));
                assert!(matches!(pool.open(&url(&at)), Err(Error::TimedOut { .. })));
                assert!(matches!(pool.list(&url(at.parent().unwrap()), true), Err(Error::TimedOut { .. })));
            });
        }
    });
    assert!(began.elapsed() < 4 * SOON, "{:?}", began.elapsed());
    // Within the time-out of the pool each, and it is enough once even where others want the processors.
    let path = folder.path().join("a");
    std::fs::write(&path, "new").unwrap();
    assert!((0..20).any(|_| pool.open(&url(&path)).is_ok()));
    drop(dead);
}
