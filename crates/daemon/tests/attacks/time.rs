//! Work that takes long: an honest client of one user beside an attacker of another one, who plays each move of the
//! suite and mixtures of them. How long the client waits is measured by `./x bench attacks`; here it is asserted that
//! it is served, that all it says is taken, and that nothing is left of the attack.

use std::cell::RefCell;
use std::path::Path;
use std::process::Child;

use foretell_protocol::Entry;
use foretelld::{Limits, Snapshot};

use super::moves::{self, MOVES, Random, Scene};
use super::stage_for_attackers;
use crate::client::{Client, range};
use crate::stage::{BLOCK, Running, Stage};
use crate::users::{NOBODY, start_as};

/// Blocks of the attacker's large files, and of the budget.
const BLOCKS: u64 = 4096;
/// Answers that the honest client waits for under each attack.
const ANSWERS: u32 = 25;
/// Who attacks.
const USERS: [u32; 2] = [65_531, 65_530];

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

/// A move, the blocks of its files, its seed, and who plays it.
type Played = (&'static str, u64, u64, u32);

fn start(service: &Running, directory: &Path, (name, blocks, seed, user): Played) -> Child {
    let directory = directory.join(user.to_string());
    std::fs::create_dir_all(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(user), Some(user)).unwrap();
    let words = ["move", name].map(str::to_owned).into_iter();
    let words = words.chain([directory.display().to_string(), blocks.to_string(), seed.to_string()]);
    start_as("attacker", &service.socket, &words.collect::<Vec<_>>(), Some(user))
}

/// An honest client has its say under attack.
fn serves_under(stage: &Stage, service: &Running, path: &Path, attackers: &[Played]) {
    let theirs = stage.directory.join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    // Who never says who it is opens no session, and is refused in the end.
    let come = |snapshot: &Snapshot| snapshot.sessions_opened + snapshot.sessions_refused;
    let before = come(&service.snapshot());
    let start = |played: &Played| start(service, &theirs, *played);
    let running = RefCell::new(attackers.iter().map(start).collect::<Vec<Child>>());
    service.until(&format!("{attackers:?} have begun"), |snapshot| {
        // Their user may still be put out for what the attack before has left to be closed: who is refused comes again.
        for (attacker, attack) in running.borrow_mut().iter_mut().zip(attackers) {
            if attacker.try_wait().unwrap().is_some() {
                *attacker = start(attack);
            }
        }
        come(snapshot) > before
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
        serves_under(&stage, &service, &path, &[(name, BLOCKS, moves::PLAIN, NOBODY)]);
    }
    service.end();
}

#[test]
fn variations_of_each_attack_keep_nobody_from_being_served() {
    let Some(stage) = stage_for_attackers("variations_of_each_attack_keep_nobody_from_being_served") else {
        return;
    };
    let path = stage.file("a", 8);
    let service = stage.service_with(BLOCKS, limits());
    let mut random = Random(7);
    for (name, _) in MOVES {
        // With other numbers, and by several users at a time.
        for users in 1..=2 {
            let mut play = |user: &u32| (name, BLOCKS >> random.below(4), 2 + random.below(1 << 20), *user);
            let attackers: Vec<Played> = USERS[..users].iter().map(&mut play).collect();
            serves_under(&stage, &service, &path, &attackers);
        }
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
        let attackers: Vec<Played> = (0..4)
            .map(|_| {
                let (name, _) = MOVES[random.below(MOVES.len() as u64) as usize];
                (name, BLOCKS >> random.below(4), random.below(1 << 20), NOBODY)
            })
            .collect();
        serves_under(&stage, &service, &path, &attackers);
    }
    service.end();
}
