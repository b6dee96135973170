//! Users who mean harm to a pool that is shared: each is a process of the user `nobody`. Who means well notices nothing.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{PART, bytes, options};
use foretell_buffers::{Door, Guest, Pool, Remote};
use foretell_testkit::sockets::lingering;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

const ROLE: &str = "FORETELL_BUFFERS_TEST_ROLE";
const NOBODY: u32 = 65_534;
const TIMEOUT: Duration = Duration::from_secs(20);
/// More than a host has threads of its own.
const LINGERING: usize = 24;
/// What an honest client waits for beside them: some milliseconds, but on a machine that does much else besides.
const SOON: Duration = Duration::from_secs(5);

fn can_be_another(test: &str) -> bool {
    let can = rustix::process::geteuid().is_root();
    if !can {
        println!("skipped: {test}: needs root to become another user");
    }
    can
}

/// A process of `nobody`'s, which ends with this.
struct Stranger(Child);

impl Stranger {
    /// Starts one, and waits until it has done what it does at first.
    fn start(how: &str, at: &str) -> Stranger {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["--exact", "--nocapture", "--test-threads=1", "as_stranger"])
            .env(ROLE, format!("{how} {at}"))
            .current_dir("/")
            .stdout(Stdio::piped())
            .uid(NOBODY)
            .gid(NOBODY);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "done"));
        Stranger(process)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(at: &str) -> std::io::Result<UnixStream> {
    if at.starts_with('/') {
        return UnixStream::connect(at);
    }
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(at)?)
}

/// The stranger itself.
#[test]
fn as_stranger() {
    let Ok(told) = std::env::var(ROLE) else { return };
    let (how, at) = told.split_once(' ').unwrap();
    let kept: Vec<_> = (0..LINGERING)
        .map(|_| {
            let stream = connect(at).unwrap();
            let (sender, receiver) = lingering();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [sender.as_fd()];
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
            // Refused, they are this process's to close.
            let _ = rustix::net::sendmsg(&stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL);
            std::thread::spawn(move || drop(sender));
            (receiver, (how == "waits").then_some(stream))
        })
        .collect();
    println!("\ndone");
    // Until it is killed.
    while !kept.is_empty() {
        std::thread::park();
    }
}

#[test]
fn a_stranger_whose_descriptors_cannot_be_closed_keeps_no_guest_waiting() {
    let test = "a_stranger_whose_descriptors_cannot_be_closed_keeps_no_guest_waiting";
    if !can_be_another(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let length = 8 * u64::from(PART);
    std::fs::write(folder.path().join("a"), bytes("a", 0, 0..length)).unwrap();
    let url = format!("file://{}/a", folder.path().display());
    let pool = Pool::new(options(4)).unwrap();
    let address = pool.share().unwrap();
    let name = format!("foretell-buffers-{}", address.split_once('-').unwrap().0);
    for how in ["goes", "waits"] {
        let _stranger = Stranger::start(how, &name);
        let began = Instant::now();
        let guest = Guest::attach(&address, TIMEOUT, None).unwrap();
        let stamp = guest.open_all(&[&url], false).unwrap().remove(0).unwrap();
        let object = Remote::new(&url, stamp).unwrap();
        let mut all = vec![0; length as usize];
        guest.read_at(&object, &mut all, 0).unwrap();
        assert_eq!(all, bytes("a", 0, 0..length));
        assert!(began.elapsed() < SOON, "{how}: {:?}", began.elapsed());
    }
}

fn asks(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_stranger_whose_descriptors_cannot_be_closed_keeps_nobody_waiting_at_the_door() {
    let test = "a_stranger_whose_descriptors_cannot_be_closed_keeps_nobody_waiting_at_the_door";
    if !can_be_another(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("socket");
    let command = || {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo address here; read word"]);
        command
    };
    let door = Door::open(&socket, 2, command).unwrap();
    std::thread::spawn(move || door.serve());
    for how in ["goes", "waits"] {
        let _stranger = Stranger::start(how, socket.to_str().unwrap());
        let began = Instant::now();
        assert_eq!(asks(&socket), "address here\n");
        assert!(began.elapsed() < SOON, "{how}: {:?}", began.elapsed());
    }
}
