//! What may wait for a file system for ever, done by threads that nothing else needs.
//!
//! To look a file up, to open, to list, to read and to close it waits for its file system, and one whose server is gone never
//! answers. (What is on a disk is read by the pool's ring: no server's mount takes a place in it.)
//! Who asks waits no longer than the pool's time-out; the thread stays. So each place has few of them: the mounts of servers
//! ([`SERVED`]) each have [`THREADS`], and below the other mounts each folder has, as a link in it may lead to such a server.
//! Other places go on.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use foretell_door::{ByUser, Closer, ForeignFd, Shape};
use tokio::sync::oneshot;

/// The threads of a pool's local files.
const SHAPE: Shape = Shape {
    name: "foretell files",
    threads: 256,
    spare: THREADS as usize,
    // A listing goes through folders in folders.
    stack_bytes: 1 << 20,
    lane_jobs: 1 << 13,
    all_jobs: 1 << 16,
};
/// Those of one place.
const THREADS: u32 = 8;
/// Time between two looks at the mounts.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Types of file systems whose answers come from a server, as mountinfo(5) names them. `fuse.NAME` and `nfs4` begin like
/// these.
const SERVED: [&str; 9] = ["fuse", "nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre", "virtiofs"];
/// The same in numbers, of statfs(2).
const SERVED_NUMBERS: [u32; 10] = [
    0x6573_5546,
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x0102_1997,
    0x00c3_6400,
    0x5346_414f,
    0x6b41_4653,
    0x0bd0_0bd0,
];

type Job = Box<dyn FnOnce() + Send>;

/// The threads, and which of them are whose.
pub(crate) struct Aside {
    threads: ByUser<Job>,
    closer: Closer,
    mounts: Mutex<Mounts>,
    hash: RandomState,
    next: AtomicU32,
}

/// Where file systems are mounted, and whether a server stands behind them.
#[derive(Default)]
struct Mounts {
    looked_at: Option<Instant>,
    all: Vec<(Vec<u8>, bool)>,
}

impl Aside {
    /// # Errors
    /// When there is no thread to be had.
    pub(crate) fn start() -> io::Result<Aside> {
        Ok(Aside {
            threads: ByUser::start(SHAPE, |job: Job| job())?,
            closer: Closer::start()?,
            mounts: Mutex::default(),
            hash: RandomState::new(),
            next: AtomicU32::new(0),
        })
    }

    /// Does something with what lies at a path, unless nobody waits for it any more. It begins at once.
    pub(crate) fn at<T: Send + 'static, F: FnOnce() -> io::Result<T> + Send + 'static>(
        &self,
        path: &Path,
        work: F,
    ) -> impl Future<Output = io::Result<T>> + Send + use<T, F> {
        let (told, tells) = oneshot::channel();
        let job: Job = Box::new(move || {
            if !told.is_closed() {
                let _ = told.send(work());
            }
        });
        let place = self.place(path);
        let lane = place.wrapping_add(self.next.fetch_add(1, Ordering::Relaxed) % THREADS);
        let begun = self.threads.push(lane, job);
        async move {
            if begun.is_err() {
                return Err(io::Error::other("as many files as may be wait for their file systems"));
            }
            tells.await.unwrap_or_else(|_| Err(io::Error::other("what was to be done with it has failed")))
        }
    }

    /// A number for all that waits for the same, a multiple of [`THREADS`].
    fn place(&self, path: &Path) -> u32 {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        if mounts.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            mounts.looked_at = Some(Instant::now());
            // Without it there are folders.
            let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
            mounts.all = text.split(|&byte| byte == b'\n').filter_map(mount).collect();
        }
        let of_server = mounts.all.iter().filter(|(at, _)| path.starts_with(as_path(at)));
        let innermost = of_server.max_by_key(|(at, _)| at.len()).filter(|(_, is_served)| *is_served);
        let key = innermost.map_or_else(|| path.parent().unwrap_or(path), |(at, _)| as_path(at));
        (self.hash.hash_one(key) as u32) / THREADS * THREADS
    }

    /// Makes of an open file one that nobody waits for when it is closed, if that might take long: for a thread, as asking
    /// may take long, too.
    pub(crate) fn guards(&self) -> impl Fn(OwnedFd) -> Opened + Send + use<> {
        let closer = self.closer.clone();
        move |file| guard(&closer, file)
    }
}

fn guard(closer: &Closer, file: OwnedFd) -> Opened {
    let number = rustix::fs::fstatfs(&file).map(|found| found.f_type as u32);
    if number.is_ok_and(|number| !SERVED_NUMBERS.contains(&number)) {
        return Opened::Here(Arc::new(file));
    }
    let place = rustix::fs::fstat(&file).map_or(0, |found| found.st_dev as u32);
    Opened::Served(Arc::new(closer.guard(place, file)))
}

/// An open file.
#[derive(Debug, Clone)]
pub(crate) enum Opened {
    /// To look at it and to close it takes no time.
    Here(Arc<OwnedFd>),
    /// That may take for ever.
    Served(Arc<ForeignFd>),
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Opened::Here(file) => file.as_fd(),
            Opened::Served(file) => (**file).as_fd(),
        }
    }
}

/// A line of mountinfo(5): where it is, and whether a server stands behind it.
fn mount(line: &[u8]) -> Option<(Vec<u8>, bool)> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let dash = fields.iter().position(|&field| field == b"-")?;
    let kind = fields.get(dash + 1)?;
    let is_served = SERVED.iter().any(|name| kind.starts_with(name.as_bytes()));
    Some((unescaped(fields.get(4)?), is_served))
}

/// Blanks, ends of lines and backslashes are written as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match digits {
            Some(digits) => {
                plain.push(
                    digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(8).wrapping_add(digit - b'0')),
                );
                rest = &behind[3..];
            }
            None => {
                plain.push(first);
                rest = behind;
            }
        }
    }
    plain
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn mounts_are_read_with_their_blanks_and_servers_are_known() {
        let line = br"36 35 98:0 /mnt1 /mnt/a\040b rw,noatime master:1 - fuse.sshfs host:/ rw";
        assert_eq!(mount(line), Some((b"/mnt/a b".to_vec(), true)));
        assert_eq!(mount(b"36 35 98:0 / / rw - ext4 /dev/root rw"), Some((b"/".to_vec(), false)));
        assert_eq!(mount(b"36 35 98:0 / / rw"), None);
        assert_eq!(unescaped(br"a\134b\9\04"), br"a\b\9\04");
    }

    #[test]
    fn a_folder_that_never_answers_keeps_no_other_one_waiting() {
        let aside = Aside::start().unwrap();
        let (go, waits) = channel::<()>();
        let waits = Arc::new(Mutex::new(waits));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for _ in 0..3 * THREADS {
                let waits = waits.clone();
                let stuck = aside.at(Path::new("/dead/a"), move || {
                    let _ = waits.lock().unwrap().recv();
                    Ok(())
                });
                // Nobody waits for it any longer.
                let soon = tokio::time::timeout(Duration::from_millis(2), stuck).await;
                assert!(soon.is_err());
            }
            assert_eq!(aside.at(Path::new("/alive/a"), || Ok(7)).await.unwrap(), 7);
        });
        drop(go);
    }
}
