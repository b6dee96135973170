//! `foretell buffers`: one pool a user, never another one's.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use foretell_buffers::{Access, Guest, Remote, Statistics};
use foretell_testkit::programs::static_library;

const TIMEOUT: Duration = Duration::from_secs(20);

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A service, which ends with this.
struct Served {
    process: Child,
    folder: tempfile::TempDir,
}

impl Served {
    fn start(flags: &[&str]) -> Served {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_foretell-tools"))
            .arg("buffers")
            .arg("--socket")
            .arg(folder.path().join("socket"))
            .args(["--budget", "1M", "--part", "4K"])
            .args(flags)
            .env("AWS_ACCESS_KEY_ID", "the service's own")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving at "), "{line}");
        Served { process, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// A file, its owner's alone, as a URL.
    fn file(&self, name: &str, bytes: &[u8], owner: u32) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
        format!("file://{path}")
    }

    /// What a client of a user says who reads an object, in a process of its own: bytes, and those that its pool has fetched.
    fn client(&self, user: u32, url: &str) -> String {
        let own = std::env::current_exe().unwrap();
        let output = Command::new("setpriv")
            .args(["--reuid", &user.to_string(), "--regid", &user.to_string(), "--clear-groups"])
            .arg(own)
            .args(["--exact", "a_client", "--nocapture"])
            .envs([("CLIENT_SOCKET", self.path("socket")), ("CLIENT_URL", url.to_owned())])
            .output()
            .unwrap();
        said(&output)
    }

    fn guest(&self) -> Result<Guest, foretell_buffers::Error> {
        let access = Access::of_this_process(Vec::new());
        Guest::of_service(Path::new(&self.path("socket")), access, TIMEOUT, None)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.process),
            rustix::process::Signal::TERM,
        );
        let _ = self.process.wait();
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| Some(line.split_once("client: ")?.1.to_owned()));
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn read(guest: &Guest, url: &str) -> Result<(Vec<u8>, Statistics), foretell_buffers::Error> {
    let stamp = guest.open_all(&[url], false)?.remove(0)?;
    let mut bytes = vec![0; stamp.length as usize];
    guest.read_at(&Remote::new(url, stamp)?, &mut bytes, 0)?;
    Ok((bytes, guest.statistics()?))
}

/// What [`Served::client`] starts; by itself it tests nothing.
#[test]
fn a_client() {
    if std::env::var_os("CLIENT_SOCKET").is_none() {
        return;
    }
    let of = |name| std::env::var(name).unwrap();
    let access = Access::of_this_process(Vec::new());
    let guest = Guest::of_service(Path::new(&of("CLIENT_SOCKET")), access, TIMEOUT, None);
    match guest.and_then(|guest| read(&guest, &of("CLIENT_URL"))) {
        Ok((bytes, counts)) => {
            println!("client: {} {}", String::from_utf8_lossy(&bytes), counts.fetched_bytes);
        }
        Err(error) => println!("client: {error}"),
    }
}

#[test]
fn clients_of_a_user_have_one_pool_and_other_users_have_another() {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: needs root and setpriv");
        return;
    }
    let served = Served::start(&[]);
    let (one, other) = (41_001, 41_002);
    let (its, others) = (served.file("one", b"secret", one), served.file("other", b"else", other));
    assert_eq!(served.client(one, &its), "secret 6");
    assert_eq!(served.client(one, &its), "secret 6", "found there");
    let refused = served.client(other, &its);
    assert!(!refused.contains("secret"), "{refused}");
    assert!(refused.contains("ermission denied") || refused.contains("access denied"), "{refused}");
    assert_eq!(served.client(other, &others), "else 4", "in a pool of its own");
    assert_eq!(served.client(one, &its), "secret 6");
}

#[test]
fn a_user_has_no_pool_where_others_have_them_all() {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: needs root and setpriv");
        return;
    }
    let served = Served::start(&["--users", "1", "--idle", "1"]);
    let (one, other) = (41_003, 41_004);
    let its = served.file("one", b"1", one);
    let others = served.file("other", b"2", other);
    assert_eq!(served.client(one, &its), "1 1");
    assert!(served.client(other, &others).ends_with("1 users have a pool here, and no more may"));
    // Nobody uses it any more, so it goes, and with it what it had.
    let until = Instant::now() + TIMEOUT;
    while served.client(other, &others) != "2 1" {
        assert!(Instant::now() < until, "no room yet");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn who_is_killed_leaves_nothing_and_a_service_that_is_gone_is_an_error() {
    let served = Served::start(&[]);
    let url = served.file("one", &[7; 10_000], rustix::process::geteuid().as_raw());
    let guest = served.guest().unwrap();
    assert_eq!(read(&guest, &url).unwrap().0, [7; 10_000]);
    let again = served.guest().unwrap();
    assert_eq!(read(&again, &url).unwrap().1.fetched_bytes, 10_000);
    assert_eq!(guest.address(), None);
    // Another process's credentials are other ones: they have stores of their own, which are asked for themselves.
    let options = vec![("timeout".to_owned(), "5 s".to_owned())];
    let access = Access::of_this_process(options);
    let other = Guest::of_service(Path::new(&served.path("socket")), access, TIMEOUT, None).unwrap();
    assert_eq!(read(&other, &url).unwrap().1.fetched_bytes, 20_000);
    let path = served.path("socket");
    drop(served);
    let error = read(&guest, &url).map(drop).or_else(|_| read(&guest, &url).map(drop)).unwrap_err();
    assert!(error.to_string().contains("does not answer"), "{error}");
    assert!(guest.is_lost());
    let error = Guest::of_service(Path::new(&path), Access::default(), TIMEOUT, None).unwrap_err();
    assert!(error.to_string().contains("no service answers there"), "{error}");
    assert!(!error.to_string().contains('\n'));
}

#[test]
fn programs_in_c_find_what_others_have_fetched() {
    let served = Served::start(&[]);
    let content: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
    let url = served.file("object", &content, rustix::process::geteuid().as_raw());
    let capi = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capi-buffers");
    let program = served.path("shared");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", &program])
        .arg(format!("-I{}", capi.join("include").display()))
        .arg(capi.join("tests/programs/shared.c"))
        .arg(static_library("foretell-capi-buffers"))
        .args(["-lgcc_s", "-lpthread", "-ldl", "-lm"])
        .status();
    assert!(compiled.unwrap().success());
    for _ in 0..2 {
        let output = Command::new(&program).args([&served.path("socket"), &url]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, "0 failures, 100000 bytes fetched\n");
    }
}

#[test]
fn what_is_wrong_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    for (flags, line) in [
        (vec!["--budget", "1K"], "budget: 1024 bytes hold no part of 65536 bytes"),
        (vec!["--budget", "50%"], "--budget: give bytes or a unit"),
        (vec!["--part", "3"], "part_bytes: 3 is not within 4096 and 67108864"),
        (vec!["--disk", "1G"], "--disk-dir"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_foretell-tools"))
            .arg("buffers")
            .arg("--socket")
            .arg(&socket)
            .args(&flags)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{flags:?}: {text}");
        assert!(text.contains(line), "{flags:?}: {text}");
    }
    assert!(!socket.exists());
    let served = Served::start(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_foretell-tools"))
        .args(["buffers", "--socket", &served.path("socket")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("another service listens there") && text.lines().count() == 1, "{text}");
}
