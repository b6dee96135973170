//! Work that takes long: an honest client of one user beside an attacker of another one, who plays each move of the
//! suite and mixtures of them. How long the client waits is measured by `./x bench attacks`; here it is asserted that
//! it is served, that all it says is taken, and that nothing is left of the attack.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Child;

use foretell_protocol::Entry;
use foretelld::Limits;

use super::moves::{self, MOVES, Random, Scene};
use super::{attack, stage_for_attackers};
use crate::client::{Client, range};
use crate::stage::{BLOCK, Running, Stage};
use crate::users::NOBODY;

/// Blocks of the attacker's large files, and of the budget.
const BLOCKS: u64 = 4096;
/// Answers that the honest client waits for under each attack.
const ANSWERS: u32 = 25;

/// Plays a move until it is killed.
pub(super) fn play(socket: &Path, words: &[&Path]) {
    // One that is put out ends, and need not say so at length.
    std::panic::set_hook(Box::new(|_| {}));
    let word = |at: usize| words[at].display().to_string();
    let scene = Scene {
        socket: socket.to_owned(),
        directory: words[1].to_owned(),
        blocks: word(2).parse().unwrap(),
        seed: word(3).parse().unwrap(),
    };
    moves::play(&word(0), &scene);
}

/// Of messages there may be as many as can be sent.
fn limits() -> Limits {
    Limits { messages_per_s: 1 << 30, messages_burst: 1 << 30, ..Limits::default() }
}

fn start(service: &Running, directory: &Path, name: &str, blocks: u64, seed: u64) -> Child {
    let words = [name.to_owned(), directory.display().to_string(), blocks.to_string(), seed.to_string()];
    let words: Vec<PathBuf> = words.into_iter().map(PathBuf::from).collect();
    attack(service, "move", &words.iter().map(PathBuf::as_path).collect::<Vec<_>>())
}

/// An honest client has its say under attack: moves with their blocks and seeds.
fn serves_under(stage: &Stage, service: &Running, path: &Path, attackers: &[(&str, u64, u64)]) {
    let theirs = stage.directory.join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let before = service.snapshot().sessions_opened;
    let start = |&(name, blocks, seed): &(&str, u64, u64)| start(service, &theirs, name, blocks, seed);
    let running = RefCell::new(attackers.iter().map(start).collect::<Vec<Child>>());
    service.until("the attack has begun", |snapshot| {
        // Their user may still be put out for what the attack before has left to be closed: who is refused comes again.
        for (attacker, attack) in running.borrow_mut().iter_mut().zip(attackers) {
            if attacker.try_wait().unwrap().is_some() {
                *attacker = start(attack);
            }
        }
        snapshot.sessions_opened > before
    });
    let mut attackers = running.into_inner();
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, path);
    for answer in 1..=ANSWERS {
        client.push(Entry::Disclose { file, range: range(0, BLOCK) });
        client.push(Entry::SetTemporaryPriority { file, range: range(0, 8 * BLOCK), priority: 1 });
        client.push(Entry::Cancel);
        let statistics = client.statistics();
        assert_eq!((statistics.entries_taken, statistics.entries_refused), (u64::from(3 * answer), 0));
    }
    for attacker in &mut attackers {
        attacker.kill().unwrap();
        attacker.wait().unwrap();
    }
    drop(client);
    std::fs::remove_dir_all(&theirs).unwrap();
    service.until("nothing is left of it", |snapshot| {
        (snapshot.sessions_open, snapshot.cache.files.len(), snapshot.cache.used_blocks) == (0, 0, 0)
    });
}

#[test]
fn whoever_makes_the_service_work_keeps_nobody_else_from_being_served() {
    let test = "whoever_makes_the_service_work_keeps_nobody_else_from_being_served";
    let Some(stage) = stage_for_attackers(test) else { return };
    let path = stage.file("a", 8);
    let service = stage.service_with(BLOCKS, limits());
    for (name, _) in MOVES {
        serves_under(&stage, &service, &path, &[(name, BLOCKS, 1)]);
    }
    service.end();
}

#[test]
fn mixtures_of_attacks_keep_nobody_from_being_served() {
    let Some(stage) = stage_for_attackers("mixtures_of_attacks_keep_nobody_from_being_served") else {
        return;
    };
    let path = stage.file("a", 8);
    let service = stage.service_with(BLOCKS, limits());
    for seed in 1..=4 {
        let mut random = Random(seed << 32 | seed);
        let attackers: Vec<(&str, u64, u64)> = (0..4)
            .map(|_| {
                let (name, _) = MOVES[random.below(MOVES.len() as u64) as usize];
                (name, BLOCKS >> random.below(4), random.below(1 << 20))
            })
            .collect();
        serves_under(&stage, &service, &path, &attackers);
    }
    service.end();
}
