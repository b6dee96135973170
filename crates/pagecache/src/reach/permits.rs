//! What a broker opens for whoever asks it, who may have been taken over by a stranger.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketAddrAny, getsockname};

use crate::file_key::FileKey;
use crate::filesystems;
use crate::kernel;

/// Files that are remembered to have been opened: more than a service keeps under control by default (`files` of the
/// options is 262,144 at most). Beyond them the oldest is forgotten.
const REMEMBERED: usize = 1 << 18;

/// A file: device, inode, and the generation of that.
type Known = (u64, u64, u32);

/// What may be opened.
#[derive(Debug)]
pub(super) struct Permits {
    /// Where the service listens.
    address: SocketAddrAny,
    /// Root has asked it for something that concerns files by their paths.
    by_root: bool,
    known: HashSet<Known>,
    by_age: VecDeque<Known>,
    most: usize,
}

impl Permits {
    /// Those of a service that listens with this socket.
    pub(super) fn of(listener: impl AsFd) -> io::Result<Permits> {
        Ok(Permits {
            address: getsockname(listener)?,
            by_root: false,
            known: HashSet::new(),
            by_age: VecDeque::new(),
            most: REMEMBERED,
        })
    }

    /// A connection that is said to be root's: if the kernel says so too, and it came in by the service's own door,
    /// everything may be opened from now on.
    pub(super) fn vouch(&mut self, connection: &OwnedFd) -> bool {
        let came_in = getsockname(connection).is_ok_and(|address| address == self.address);
        self.by_root |= came_in && socket_peercred(connection).is_ok_and(|peer| peer.uid.is_root());
        self.by_root
    }

    /// May a file, which has just been opened for reading, be handed out? `shown` is what was brought for it, if
    /// anything: who has a descriptor that can be read could read the file before.
    pub(super) fn grants(&mut self, opened: impl AsFd, shown: Option<&OwnedFd>) -> bool {
        let opened = opened.as_fd();
        let Ok(seen) = super::here::look_at(opened) else { return false };
        let FileKey { dev, ino } = seen.stat;
        let file = (dev, ino, kernel::generation(opened));
        let readable = shown.is_some_and(is_readable);
        if !is_on_disk(opened) || !(readable || self.by_root || self.known.contains(&file)) {
            return false;
        }
        self.remember(file);
        true
    }

    fn remember(&mut self, file: Known) {
        if !self.known.insert(file) {
            return;
        }
        self.by_age.push_back(file);
        if self.by_age.len() > self.most
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Is it a regular file whose bytes lie on a disk of this machine? What the kernel shows of itself and of processes
/// (`/proc/PID/mem`) is none, nor is a device.
pub(super) fn is_on_disk(file: impl AsFd) -> bool {
    let Ok(seen) = super::here::look_at(&file) else { return false };
    // Of file systems without a device number those that have files below them or beside.
    let on_disk = || filesystems::under(&file).is_ok_and(|kind| kind.on_disk);
    seen.is_file && (seen.stat.dev >> 20 != 0 || on_disk())
}

/// Could whoever has this descriptor read what it is open on?
fn is_readable(shown: &OwnedFd) -> bool {
    let flags = rustix::fs::fcntl_getfl(shown);
    flags.is_ok_and(|flags| !flags.contains(OFlags::PATH) && flags & OFlags::RWMODE != OFlags::WRONLY)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn files() -> (tempfile::TempDir, [File; 3]) {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let files = [0, 1, 2].map(|n| {
            let path = dir.path().join(n.to_string());
            std::fs::write(&path, "x").unwrap();
            File::open(path).unwrap()
        });
        (dir, files)
    }

    fn as_path(file: &File) -> OwnedFd {
        use std::os::fd::AsRawFd;
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::open(link, OFlags::PATH, rustix::fs::Mode::empty()).unwrap()
    }

    #[test]
    fn what_could_be_read_or_was_opened_before_is_opened_and_nothing_else() {
        let (dir, [first, second, third]) = files();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let mut permits = Permits::of(&listener).unwrap();
        permits.most = 2;
        assert!(!permits.grants(&first, None) && !permits.grants(&first, Some(&as_path(&first))));
        let writable: OwnedFd = File::options().append(true).open(dir.path().join("0")).unwrap().into();
        assert!(!permits.grants(&first, Some(&writable)), "open for writing only");
        assert!(permits.grants(&first, Some(&first.try_clone().unwrap().into())));
        assert!(permits.grants(&first, None) && permits.grants(&first, Some(&as_path(&first))));
        assert!(!permits.grants(&second, None));
        let memory = File::open("/proc/self/mem").unwrap();
        assert!(!permits.grants(&memory, Some(&memory.try_clone().unwrap().into())), "no file");
        // At the limit the oldest is forgotten.
        for file in [&second, &third] {
            assert!(permits.grants(file, Some(&file.try_clone().unwrap().into())));
        }
        assert!(permits.grants(&second, None) && !permits.grants(&first, None));
        assert_eq!((permits.known.len(), permits.by_age.len()), (2, 2));
    }

    #[test]
    fn a_connection_of_roots_by_another_door_is_none() {
        let (dir, [file, ..]) = files();
        let listen = |name: &str| UnixListener::bind(dir.path().join(name)).unwrap();
        let (own, other) = (listen("own"), listen("other"));
        let mut permits = Permits::of(&own).unwrap();
        let by = |listener: &UnixListener, name: &str| -> OwnedFd {
            let _client = UnixStream::connect(dir.path().join(name)).unwrap();
            listener.accept().unwrap().0.into()
        };
        let pair: OwnedFd = UnixStream::pair().unwrap().0.into();
        assert!(!permits.vouch(&by(&other, "other")) && !permits.vouch(&pair));
        assert!(!permits.grants(&file, None));
        if rustix::process::geteuid().is_root() {
            assert!(permits.vouch(&by(&own, "own")) && permits.grants(&file, None));
        }
    }
}
