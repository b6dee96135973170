//! A process with a broker: in one of its own, as what is given up does not come back.

use std::fs::{self, File, Permissions};
use std::io::ErrorKind::{PermissionDenied, TimedOut, WouldBlock};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::*;
use crate::descriptors::{Descriptors, Search};
use crate::file_key::FileKey;
use crate::guard::OpenFile;
use crate::handles::Mounts;
use crate::mappings::page_out;
use crate::shown::Names;
use foretell_door::Closer;

/// A program that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const ROLE: &str = "FORETELL_TEST_BROKER";
const NOBODY: u32 = 65_534;

/// Gives up what the broker is for, and root's way around permissions.
fn give_up_rights() {
    let away = CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::SYS_PTRACE
        | CapabilitySet::FOWNER;
    let CapabilitySets { effective, permitted, .. } = capabilities(None).unwrap();
    let left = CapabilitySets {
        effective: effective.difference(away),
        permitted: permitted.difference(away),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, left).unwrap();
}

/// A directory of nobody's that nobody else may look into, with three files of a page.
fn private_files(dir: &Path) -> [PathBuf; 3] {
    let inner = dir.join("private");
    fs::create_dir(&inner).unwrap();
    let files = ["0", "1", "2"].map(|name| {
        let path = inner.join(name);
        fs::write(&path, [7; 4096]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    });
    for path in files.iter().chain([&inner]) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::set_permissions(&inner, Permissions::from_mode(0o700)).unwrap();
    files
}

#[test]
fn as_asker() {
    // Where it can leave things: by then it may not remove them.
    let Some(dir) = std::env::var_os(ROLE).map(PathBuf::from) else { return };
    let [shown, open, unknown] = private_files(&dir);
    let listener = UnixListener::bind(dir.join("s")).unwrap();
    let keys = [&shown, &open, &unknown].map(|path| FileKey::of(&File::open(path).unwrap()).unwrap());
    let generation = crate::kernel::generation(File::open(&shown).unwrap());
    let readable = File::open(&shown).unwrap();
    // A program of somebody else's, with a file open.
    let mut sleep = Command::new("setpriv");
    sleep.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "1000"]);
    let program = sleep.stdin(File::open(&open).unwrap()).stdout(Stdio::null()).stderr(Stdio::null());
    let program = Ended(program.spawn().unwrap());
    let pid = program.0.id();
    let is_begun = || fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"sleep\n");
    while !is_begun() {
        std::thread::yield_now();
    }
    Broker::start(listener.as_fd(), None, || Ok(())).unwrap();
    give_up_rights();
    let kind = |result: io::Result<File>| result.err().map(|error| error.kind());

    // Where it lies and which one it is can be told; to read it, it must have been readable.
    assert_eq!(kind(File::open(&unknown)), Some(PermissionDenied));
    let seen = look(&unknown, true).unwrap();
    assert_eq!((seen.stat, seen.is_file), (keys[2], true));
    let there = seen.there.unwrap();
    let link = format!("/proc/self/fd/{}", there.as_raw_fd());
    assert_eq!(kind(File::open(link)), Some(PermissionDenied), "by itself");
    assert_eq!(kind(open_again(&there)), Some(PermissionDenied), "by the broker");
    assert_eq!(kind(crate::file_at::open_same(&unknown, keys[2])), Some(PermissionDenied));
    assert!(look(&dir, true).unwrap().there.is_none(), "a directory would lead further");
    assert_eq!(look(&dir.join("none"), true).unwrap_err().kind(), io::ErrorKind::NotFound);

    // What was brought once can be had again, also by its number.
    let mut mounts = Mounts::default();
    if generation != 0 {
        assert!(mounts.open(keys[0], generation).is_none(), "not yet");
    }
    let second = open_again(&readable).unwrap();
    assert_eq!(FileKey::of(&second).unwrap(), keys[0]);
    assert!(crate::file_at::open_same(&shown, keys[0]).is_ok());
    if generation != 0 {
        assert_eq!(FileKey::of(&mounts.open(keys[0], generation).unwrap()).unwrap(), keys[0]);
        assert!(mounts.open(keys[0], generation ^ 1).is_none(), "another file under the same number");
    }

    // What a program has open is seen, and advice on it is given; the file itself is not handed out.
    assert!(fs::read_dir(format!("/proc/{pid}/fd")).is_err());
    let found = Descriptors::new().find(pid, keys[1], Search::Certain);
    assert_eq!(found, Ok(0));
    let closer = Closer::start().unwrap();
    let FileKey { dev, ino } = keys[1];
    let started = crate::guard::start_time(pid).unwrap();
    let file = OpenFile { pid, started, fd: 0, dev, ino };
    assert!(file.advise(libc::POSIX_FADV_RANDOM, NOBODY, &closer));
    assert!(!file.advise(libc::POSIX_FADV_DONTNEED, NOBODY, &closer), "no other advice");
    assert!(!OpenFile { ino: ino + 1, ..file }.advise(libc::POSIX_FADV_NORMAL, NOBODY, &closer));
    let names = Names { key: keys[1], shown: keys[1] };
    page_out(pid, &names, 0, 4096).unwrap();
    assert_eq!(kind(crate::file_at::open_same(&open, keys[1])), Some(PermissionDenied));

    // Stopped, it keeps nobody waiting twice; when it goes on, so does everything.
    let broker = Broker::of_process().unwrap();
    kill_process(broker.process(), Signal::STOP).unwrap();
    assert_eq!(kind(open_again(&readable)), Some(TimedOut));
    assert_eq!(kind(open_again(&readable)), Some(WouldBlock));
    assert!(!broker.is_gone());
    kill_process(broker.process(), Signal::CONT).unwrap();
    while kind(open_again(&readable)) == Some(WouldBlock) {
        std::thread::yield_now();
    }
    assert!(open_again(&readable).is_ok());
    kill_process(broker.process(), Signal::KILL).unwrap();
    while !broker.is_gone() {
        std::thread::yield_now();
    }
    assert!(open_again(&readable).is_err());
}

#[test]
fn a_broker_opens_what_could_be_read_and_says_what_is_where() {
    let test = "a_broker_opens_what_could_be_read_and_says_what_is_where";
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: files of two users take root");
        return;
    }
    let mut asker = Command::new("/proc/self/exe");
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    asker.args(["--exact", "--nocapture", "reach::tests::as_asker"]).env(ROLE, dir.path());
    let output = asker.output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
