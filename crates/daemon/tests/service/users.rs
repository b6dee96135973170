//! Clients that are processes of their own: of other users, killed, many at a time. This very test binary,
//! started again.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use foretell_protocol::{Entry, ErrorCode, Part, Reply, Request};

use crate::client::{Client, range};
use crate::stage::{BLOCK, read_blocks, stage};

const ROLE: &str = "FORETELLD_TEST_ROLE";

/// The user `nobody`.
pub(crate) const NOBODY: u32 = 65_534;

/// Starts this binary in a role, one of the tests named `as_…`, as another user if one is given.
pub(crate) fn start_as(role: &str, socket: &Path, words: &[String], user: Option<u32>) -> Child {
    // By this name it can be started by whoever may not look into its directory.
    let mut command = Command::new("/proc/self/exe");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    start_command(command, role, socket, words)
}

/// The same by a command that ends in this binary.
pub(crate) fn start_command(mut command: Command, role: &str, socket: &Path, words: &[String]) -> Child {
    let module = match role {
        "service" => "stage",
        "attacker" => "attacks",
        _ => "users",
    };
    let told: Vec<String> =
        [role.to_owned(), socket.display().to_string()].into_iter().chain(words.iter().cloned()).collect();
    command
        .args(["--exact", "--nocapture", "--test-threads=1", &format!("{module}::as_{role}")])
        .env(ROLE, told.join("\n"))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// The same for a role that uses a file.
pub(crate) fn start_with(role: &str, socket: &Path, file: &Path, user: Option<u32>) -> Child {
    start_as(role, socket, &[file.display().to_string()], user)
}

/// What this process was told, from the socket on, if it was started in the role.
pub(crate) fn role(name: &str) -> Option<Vec<String>> {
    let told = std::env::var(ROLE).ok()?;
    let mut words = told.split('\n').map(str::to_owned);
    (words.next().as_deref() == Some(name)).then(|| words.collect())
}

/// Socket and file.
fn paths(name: &str) -> Option<(PathBuf, PathBuf)> {
    let words = role(name)?;
    Some((PathBuf::from(&words[0]), PathBuf::from(&words[1])))
}

/// Names a file, discloses it, and lives until it is killed.
#[test]
fn as_speaker() {
    let Some((socket, path)) = paths("speaker") else { return };
    let mut client = Client::connect(&socket);
    let file = client.name_path(1, &path);
    client.push(Entry::DiscloseFile { file });
    read_blocks(&path, 0..2);
    loop {
        std::thread::park();
    }
}

/// Says why it is not let in.
#[test]
fn as_refused() {
    let Some((socket, _)) = paths("refused") else { return };
    println!("{:?}", Client::silent(&socket).ended());
}

/// Discloses more than there is room for.
#[test]
fn as_discloser() {
    let Some((socket, path)) = paths("discloser") else { return };
    let mut client = Client::connect(&socket);
    let file = client.name_path(1, &path);
    (0..3).for_each(|_| client.push(Entry::Disclose { file, range: range(0, BLOCK) }));
    let (code, _) = client.error();
    assert_eq!(code, ErrorCode::DisclosedInAll);
    loop {
        std::thread::park();
    }
}

/// Looks at what is to be seen, and tries what is not allowed.
#[test]
fn as_stranger() {
    let Some((socket, path)) = paths("stranger") else { return };
    let mut client = Client::connect(&socket);
    client.name_path(1, &path);
    client.statistics();
    read_blocks(&path, 0..8);
    client.until("it is seen", |s| s.references >= 8);
    let seen = client.status("");
    println!("\nseen: {}", serde_json::to_string(&seen).unwrap());
    client.send(&Request::Status(Part { more: false, text: r#"{"user":0}"#.to_owned() }));
    println!("other: {:?}", client.error().0);
    let mut command = Client::command(&socket);
    let pidfd = rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
    let start = r#"{"type":"start","managers":[]}"#.to_owned();
    let part = Part { more: false, text: start };
    command.send_with(&Request::Run(part), &[std::os::fd::AsFd::as_fd(&pidfd.unwrap())]);
    println!("run: {:?}", command.error().0);
}

#[test]
fn another_user_is_served_and_sees_itself_only() {
    let Some(stage) = stage("another_user_is_served_and_sees_itself_only") else { return };
    let (own, shared) = (stage.file("own-secret", 8), stage.file("shared", 8));
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    for (number, path) in [(1, &own), (2, &shared)] {
        let file = client.name_path(number, path);
        client.push(Entry::SetPriority { file, priority: 1 });
    }
    client.statistics();
    read_blocks(&own, 0..8);
    read_blocks(&shared, 0..8);
    client.until("the reads are seen", |s| s.references >= 16);
    let stranger = start_with("stranger", &service.socket, &shared, Some(NOBODY)).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&stranger.stdout).into_owned();
    assert!(stranger.status.success(), "{said}");
    let line = |prefix: &str| said.lines().find_map(|line| line.strip_prefix(prefix)).unwrap().to_owned();
    assert_eq!((line("other: ").as_str(), line("run: ").as_str()), ("NotPermitted", "NotPermitted"));
    let seen = line("seen: ");
    assert!(!seen.contains("own-secret"), "{seen}");
    let seen: foretelld::Snapshot = serde_json::from_str(&seen).unwrap();
    assert_eq!((seen.sessions.len(), seen.cache.managers.len(), seen.cache.processes.len()), (1, 1, 1));
    assert_eq!((seen.cache.files.len(), seen.cache.files[0].counts.references), (1, 0), "root read it, too");
    assert_eq!(seen.cache.counts.references, 8);
    // What was root's and shared now belongs to nobody; what the stranger did not read is still root's.
    assert_eq!(client.statistics().owned, 8);
    service.end();
}

#[test]
fn a_stranger_does_not_evict_what_is_not_its_own() {
    let Some(stage) = stage("a_stranger_does_not_evict_what_is_not_its_own") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let mut client = Client::connect(&service.socket);
    client.name_path(1, &path);
    client.statistics();
    read_blocks(&path, 0..8);
    client.until("the reads are seen", |s| s.owned == 8);
    let evictor = start_with("evictor", &service.socket, &path, Some(NOBODY)).wait_with_output().unwrap();
    assert!(evictor.status.success(), "{evictor:?}");
    assert_eq!(client.statistics().owned, 8);
    service.end();
}

/// Wants a file gone that another process has read.
#[test]
fn as_evictor() {
    let Some((socket, path)) = paths("evictor") else { return };
    let mut client = Client::connect(&socket);
    let file = client.name_path(1, &path);
    client.push(Entry::SetTemporaryPriority { file, range: range(0, 8 * BLOCK), priority: -100 });
    client.push(Entry::DoneWith { file, range: range(0, 8 * BLOCK) });
    let statistics = client.statistics();
    assert_eq!((statistics.entries_refused, statistics.evictions), (0, 0));
}

/// Names a file, says so, and waits to be killed.
#[test]
fn as_one_of_many() {
    let Some((socket, path)) = paths("one_of_many") else { return };
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(&socket)).collect();
    for client in &mut clients {
        let file = client.name_path(1, &path);
        client.push(Entry::DiscloseFile { file });
        client.push(Entry::SetPriority { file, priority: -1 });
    }
    for client in &mut clients {
        assert!(!matches!(client.reply_at_once(), Some(Reply::Ended { .. })));
    }
    loop {
        std::thread::park();
    }
}

#[test]
fn a_thousand_sessions_at_a_time_are_served_and_forgotten() {
    let Some(stage) = stage("a_thousand_sessions_at_a_time_are_served_and_forgotten") else { return };
    let path = stage.file("a", 8);
    let service = stage.service(64);
    let many: Vec<Child> =
        (0..250).map(|_| start_with("one_of_many", &service.socket, &path, None)).collect();
    let seen = service.until("all are there", |s| {
        s.sessions_open == 1000 && s.sessions.iter().all(|s| s.entries_taken == 8)
    });
    assert_eq!((seen.sessions.len(), seen.cache.managers.len(), seen.cache.files.len()), (250, 250, 1));
    // Root's status of all of them fits into an answer.
    let mut command = Client::command(&service.socket);
    assert_eq!(command.status("").cache.managers.len(), 250);
    for mut child in many {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let seen = service.until("all are gone", |s| s.sessions_open == 1);
    assert_eq!((seen.cache.managers.len(), seen.cache.files.len(), seen.cache.processes.len()), (0, 0, 0));
    service.end();
}
