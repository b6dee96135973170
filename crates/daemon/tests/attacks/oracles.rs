//! What the service is asked so that it tells what the kernel would not.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use foretell_protocol::{Entry, Reply, Request};

use super::{attack, said, stage_for_attackers};
use crate::client::Client;
use crate::stage::read_blocks;
use crate::users::start_as;

/// Discloses a file of somebody else's and looks at what had to be fetched of it.
pub(super) fn look_at_residency(socket: &Path, path: &Path) {
    let mut client = Client::connect(socket);
    let file = client.name_path(1, path);
    client.push(Entry::DiscloseFile { file });
    client.until("it is taken", |s| s.disclosed == 64);
    read_blocks(path, 0..64);
    let statistics = client.until("it has read", |s| s.references >= 64);
    let seen = client.status("");
    let of_file: u64 = seen.cache.files.iter().map(|file| file.cached_bytes + file.counts.references).sum();
    let of_rows: u64 = seen.sessions.iter().map(|session| session.counts.prefetches).sum();
    let of_processes: u64 = seen.cache.processes.iter().map(|process| process.counts.prefetches).sum();
    println!("\nfetched: {} {of_rows} {of_processes}", statistics.prefetches);
    println!("file: {of_file}");
    println!("owned: {}", statistics.owned);
}

#[test]
fn what_is_cached_of_a_file_is_told_to_who_may_write_it() {
    let test = "what_is_cached_of_a_file_is_told_to_who_may_write_it";
    let Some(stage) = stage_for_attackers(test) else { return };
    let path = stage.file("public", 64);
    let service = stage.service(256);
    // Some of it is cached, which is what the attacker would like to know.
    read_blocks(&path, 0..16);
    let output = attack(&service, "residency", &[&path]).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    for line in ["fetched: 0 0 0", "file: 0", "owned: 0"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    // To who owns it, it is.
    std::os::unix::fs::chown(&path, Some(crate::users::NOBODY), None).unwrap();
    let told = said(attack(&service, "residency", &[&path]), "owned: ");
    assert!(told.parse::<u64>().unwrap() > 0, "{told}");
    service.end();
}

/// Starts a program that runs with other rights, and looks at what it did.
pub(super) fn look_at_a_child(socket: &Path, program: &Path) {
    let mut client = Client::connect(socket);
    client.statistics();
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It has begun when it answers.
    child.stdin.as_ref().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    client.statistics();
    let seen = client.status("");
    let own = std::process::id();
    let others = seen.cache.processes.iter().filter(|process| process.pid != own).count();
    println!("\nprocesses: {} of others {others}", seen.cache.processes.len());
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn what_a_program_with_other_rights_does_is_not_told() {
    let test = "what_a_program_with_other_rights_does_is_not_told";
    let Some(stage) = stage_for_attackers(test) else { return };
    let flags = rustix::fs::statvfs(&stage.directory).unwrap().f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
        println!("skipped: {test}: set-user-ID does not count in {}", stage.directory.display());
        return;
    }
    let service = stage.service(64);
    let program = stage.directory.join("cat");
    foretell_testkit::programs::copy("/bin/cat", &program);
    for (mode, expected) in [(0o755, "2 of others 1"), (0o4755, "1 of others 0")] {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(said(attack(&service, "child", &[&program]), "processes: "), expected);
    }
    service.end();
}

/// Connects with the rights of a user, then as root, from one process.
pub(super) fn change_user(socket: &Path, path: &Path) {
    use rustix::thread::{Uid, set_thread_res_uid};
    let become_user = |user| set_thread_res_uid(None, Some(Uid::from_raw(user)), None).unwrap();
    become_user(crate::users::NOBODY);
    let mut before = Client::connect(socket);
    before.statistics();
    become_user(0);
    let mut after = [Client::connect(socket), Client::connect(socket)];
    let file = after[0].name_path(1, path);
    after[0].push(Entry::DiscloseFile { file });
    after[0].until("it is taken", |s| s.disclosed == 64);
    println!("\nafter: {}", after[1].statistics().disclosed);
    before.send(&Request::Stats);
    match before.reply() {
        Some(Reply::Ended { code, .. }) => println!("before: {code:?}"),
        other => println!("before: {other:?}"),
    }
}

#[test]
fn a_process_that_runs_with_other_rights_now_shares_nothing_with_what_it_was() {
    let test = "a_process_that_runs_with_other_rights_now_shares_nothing_with_what_it_was";
    let Some(stage) = stage_for_attackers(test) else { return };
    let path = stage.file("secret", 64);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let service = stage.service(256);
    let words = ["changes".to_owned(), path.display().to_string()];
    let attacker = start_as("attacker", &service.socket, &words, None);
    let output = attacker.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    // Its connections as one user are one session; what it said as another one has ended.
    for line in ["after: 64", "before: Process"] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    service.end();
}
