//! Users who mean harm: each does one thing that once hurt others, as a process of the user `nobody`, against a
//! service of root's. Nobody else may notice, and the attacker learns nothing. `docs/security.md` is the list.

mod descriptors;
mod flood;
mod fuse;
mod hoards;
mod memory;
mod moves;
mod oracles;
mod sendings;
mod shares;
mod time;

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use foretell_protocol::Entry;

use crate::client::Client;
use crate::stage::{Running, Stage, stage};
use crate::users::{NOBODY, role, start_as};

/// The stage, if an attacker of another user can be had.
fn stage_for_attackers(test: &str) -> Option<Stage> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: {test}: needs root to become another user");
        return None;
    }
    stage(test)
}

/// Starts an attacker.
fn attack(service: &Running, how: &str, words: &[&Path]) -> Child {
    let paths = words.iter().map(|path| path.display().to_string());
    let words: Vec<String> = std::iter::once(how.to_owned()).chain(paths).collect();
    start_as("attacker", &service.socket, &words, Some(NOBODY))
}

/// What an attacker said behind this word, when it has ended well.
fn said(attacker: Child, word: &str) -> String {
    let output = attacker.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let line = text.lines().find_map(|line| line.strip_prefix(word));
    line.unwrap_or_else(|| panic!("no '{word}' in {text}")).to_owned()
}

/// A client of root's is answered; says how long that took.
fn serves_root(service: &Running, path: &Path) -> Duration {
    let start = Instant::now();
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, path);
    client.push(Entry::DiscloseFile { file });
    assert_eq!(client.statistics().entries_refused, 0);
    start.elapsed()
}

/// The same some times; prints the longest.
fn serves_root_meanwhile(what: &str, service: &Running, path: &Path) {
    let times = (0..40).map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        serves_root(service, path)
    });
    // No test depends on it; `./x bench attacks` measures.
    println!("{what}: an honest client waited for {:?} at most", times.max().unwrap());
}

/// The attacker itself.
#[test]
fn as_attacker() {
    let Some(words) = role("attacker") else { return };
    let (socket, how) = (Path::new(&words[0]), words[1].as_str());
    let paths: Vec<&Path> = words[2..].iter().map(Path::new).collect();
    match how {
        "lingering" => descriptors::send_lingering(socket, paths[0]),
        "lingering-unread" => descriptors::leave_lingering(socket, paths[0]),
        "silent" => descriptors::send_silent(socket, paths[0]),
        "swapping" => descriptors::swap(socket, paths[0], paths[1]),
        "flooding" => flood::connect(socket),
        "knocking" => descriptors::knock(socket),
        "half" => descriptors::park(socket),
        "rings" => descriptors::take_rings(socket),
        "move" => time::play(socket, &paths),
        "hoards" => memory::play(socket, &paths),
        "files" => shares::name_files(socket, paths[0]),
        "messages" => shares::begin_messages(socket),
        "ranges" => shares::disclose(socket, paths[0]),
        "residency" => oracles::look_at_residency(socket, paths[0]),
        "changes" => oracles::change_user(socket, paths[0]),
        "child" => oracles::look_at_a_child(socket, paths[0]),
        other => panic!("{other}"),
    }
}
