//! What programs leave behind when they end or let go of files: blocks that nobody answers for.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use foretell_pagecache::{HeldFile, Plane, SessionId};

use crate::program::Program;
use crate::stage::{BLOCK, Stage, cached_blocks, chill, options, stage, undisturbed};

/// A program that speaks for itself.
struct Client {
    program: Program,
    session: SessionId,
}

fn connect(plane: &mut Plane) -> Client {
    let program = Program::start();
    let session = plane.add_client(program.pid(), 7, 7).unwrap();
    Client { program, session }
}

fn hold(plane: &mut Plane, client: &Client, path: &Path) -> HeldFile {
    plane.hold_file(client.session, File::open(path).unwrap().into(), None).unwrap()
}

fn settle(plane: &mut Plane) {
    for _ in 0..20 {
        plane.step(&[], Duration::from_millis(2)).unwrap();
    }
}

fn run(plane: &mut Plane, client: &mut Client, line: &str) {
    client.program.tell(line);
    while plane.step(&[client.program.answers()], Duration::from_millis(10)).unwrap().is_empty() {}
    assert_eq!(client.program.answer(), "done");
    settle(plane);
}

/// Has a client read a file once, from front to back.
fn read(plane: &mut Plane, client: &mut Client, path: &Path) {
    run(plane, client, &format!("open f {} random", path.display()));
    run(plane, client, &format!("pass f {BLOCK} 1"));
    run(plane, client, "close f");
}

fn until(plane: &mut Plane, what: &str, mut is_so: impl FnMut(&mut Plane) -> bool) {
    let start = Instant::now();
    while !is_so(plane) {
        assert!(start.elapsed() < Duration::from_secs(180), "never: {what}");
        plane.step(&[], Duration::from_millis(10)).unwrap();
    }
}

/// Have we a file below a directory open?
fn have_open(path: &Path) -> bool {
    let links = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
    targets.any(|target| target.starts_with(path))
}

/// A plane, a client that has read a file and ended, and another one that goes on.
fn left_behind(stage: &Stage, budget: u64, blocks: u64) -> (Plane, PathBuf, Client) {
    let path = stage.file("left", blocks);
    let mut plane = Plane::open(options(budget)).unwrap();
    let staying = connect(&mut plane);
    let mut leaving = connect(&mut plane);
    hold(&mut plane, &leaving, &path);
    read(&mut plane, &mut leaving, &path);
    plane.end_session(leaving.session);
    (plane, path, staying)
}

fn undisturbed_plane(plane: &mut Plane) -> bool {
    plane.report().counts.foreign_evictions == 0
}

#[test]
fn what_a_program_has_left_goes_first_within_the_one_budget() {
    let Some(stage) = stage("what_a_program_has_left_goes_first_within_the_one_budget") else { return };
    undisturbed(|| {
        let (mut plane, left, mut other) = left_behind(&stage, 64, 48);
        let own = stage.file("own", 64);
        assert_eq!((plane.status().used_blocks, cached_blocks(&left).len()), (48, 48), "all of it stays");
        assert!(!have_open(&left), "and we keep no descriptor of it");
        hold(&mut plane, &other, &own);
        run(&mut plane, &mut other, &format!("open f {} random", own.display()));
        // 40 blocks: 16 had room, 24 of the other file made it. The oldest went.
        run(&mut plane, &mut other, &format!("read f 0 {}", 40 * BLOCK));
        until(&mut plane, "the rest is within the budget", |_| {
            cached_blocks(&left).len() + cached_blocks(&own).len() <= 64
        });
        let seen = (cached_blocks(&left), cached_blocks(&own).len(), plane.status().used_blocks);
        // To the last.
        run(&mut plane, &mut other, &format!("read f {} {}", 40 * BLOCK, 24 * BLOCK));
        until(&mut plane, "nothing is left of it", |plane| plane.status().files.len() == 1);
        let rest = (cached_blocks(&left).len(), cached_blocks(&own).len());
        undisturbed_plane(&mut plane).then(|| {
            assert_eq!(seen, ((24..48).collect(), 40, 64));
            assert_eq!(rest, (0, 64));
        })
    });
}

#[test]
fn who_names_the_file_again_finds_what_is_left_of_it() {
    let Some(stage) = stage("who_names_the_file_again_finds_what_is_left_of_it") else { return };
    undisturbed(|| {
        let (mut plane, left, mut other) = left_behind(&stage, 64, 32);
        let before = plane.report();
        hold(&mut plane, &other, &left);
        assert_eq!(plane.managers(other.session)[0].owned_blocks, 0, "not its own before it reads them");
        read(&mut plane, &mut other, &left);
        let after = plane.report();
        let owned = plane.managers(other.session)[0].owned_blocks;
        undisturbed_plane(&mut plane).then(|| {
            assert_eq!(after.counts.hits - before.counts.hits, 32);
            assert_eq!(after.counts.demand_fetches, before.counts.demand_fetches, "no second read");
            // A page of the program's text may be read meanwhile.
            assert!(after.device_read_bytes - before.device_read_bytes < BLOCK, "{after:?}");
            assert_eq!(owned, 32);
        })
    });
}

#[test]
fn a_program_that_lets_go_of_a_file_keeps_its_blocks_among_its_own() {
    let Some(stage) = stage("a_program_that_lets_go_of_a_file_keeps_its_blocks_among_its_own") else {
        return;
    };
    undisturbed(|| {
        let path = stage.file("a", 16);
        let mut plane = Plane::open(options(32)).unwrap();
        let mut client = connect(&mut plane);
        let file = hold(&mut plane, &client, &path);
        read(&mut plane, &mut client, &path);
        // What it still lists of the file is passed over.
        plane.disclose_held(client.session, file, None).unwrap();
        plane.release_file(client.session, file);
        settle(&mut plane);
        let manager = plane.managers(client.session).remove(0);
        assert_eq!((manager.queued, manager.owned_blocks, plane.status().used_blocks), (0, 16, 16));
        assert!(plane.status().files[0].sessions.is_empty());
        let again = hold(&mut plane, &client, &path);
        assert_eq!(file, again, "the same registration");
        undisturbed_plane(&mut plane).then_some(())
    });
}

#[test]
fn a_file_that_is_deleted_is_left_to_the_kernel_at_once() {
    let Some(stage) = stage("a_file_that_is_deleted_is_left_to_the_kernel_at_once") else { return };
    undisturbed(|| {
        let path = stage.file("a", 16);
        let mut plane = Plane::open(options(32)).unwrap();
        let _staying = connect(&mut plane);
        let mut client = connect(&mut plane);
        run(&mut plane, &mut client, &format!("open f {} random", path.display()));
        hold(&mut plane, &client, &path);
        run(&mut plane, &mut client, &format!("pass f {BLOCK} 1"));
        std::fs::remove_file(&path).unwrap();
        plane.end_session(client.session);
        let left = (plane.status().files.len(), plane.status().used_blocks);
        undisturbed_plane(&mut plane).then(|| assert_eq!(left, (0, 0)))
    });
}

#[test]
fn a_file_that_is_deleted_later_is_forgotten_and_its_space_is_free() {
    let Some(stage) = stage("a_file_that_is_deleted_later_is_forgotten_and_its_space_is_free") else {
        return;
    };
    let (mut plane, left, _other) = left_behind(&stage, 64, 32);
    assert!(!have_open(&left));
    std::fs::remove_file(&left).unwrap();
    until(&mut plane, "it is forgotten", |plane| plane.status().files.is_empty());
    assert_eq!(plane.status().used_blocks, 0);
}

#[test]
fn when_the_last_session_ends_everything_is_left_to_the_kernel() {
    let Some(stage) = stage("when_the_last_session_ends_everything_is_left_to_the_kernel") else { return };
    undisturbed(|| {
        let (mut plane, left, other) = left_behind(&stage, 64, 32);
        assert_eq!(plane.status().used_blocks, 32);
        plane.end_session(other.session);
        let status = plane.status();
        assert_eq!((status.used_blocks, status.files.len()), (0, 0));
        undisturbed_plane(&mut plane).then(|| assert_eq!(cached_blocks(&left).len(), 32, "the pages stay"))
    });
}

/// What programs outside of our control read is the kernel's, until somebody names the file.
#[test]
fn what_strangers_read_of_it_does_not_count() {
    let Some(stage) = stage("what_strangers_read_of_it_does_not_count") else { return };
    undisturbed(|| {
        let path = stage.file("a", 32);
        let mut plane = Plane::open(options(64)).unwrap();
        let staying = connect(&mut plane);
        let mut leaving = connect(&mut plane);
        hold(&mut plane, &leaving, &path);
        run(&mut plane, &mut leaving, &format!("open f {} random", path.display()));
        run(&mut plane, &mut leaving, &format!("read f 0 {}", 8 * BLOCK));
        plane.end_session(leaving.session);
        assert!(std::process::Command::new("cksum").arg(&path).output().unwrap().status.success());
        settle(&mut plane);
        assert_eq!(cached_blocks(&path).len(), 32);
        let counted = plane.status().used_blocks;
        hold(&mut plane, &staying, &path);
        let known = plane.status().used_blocks;
        undisturbed_plane(&mut plane).then(|| assert_eq!((counted, known), (8, 32)))
    });
}

#[test]
fn another_file_under_the_number_of_a_deleted_one_is_another_file() {
    let Some(stage) = stage("another_file_under_the_number_of_a_deleted_one_is_another_file") else { return };
    let mut plane = Plane::open(options(64)).unwrap();
    let client = connect(&mut plane);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    // File systems like to give the number that has just become free.
    for _ in 0..8 {
        let path = stage.file("a", 4);
        let (first, number) = (hold(&mut plane, &client, &path), inode(&path));
        std::fs::remove_file(&path).unwrap();
        // Our own descriptor keeps the number until it is seen that the file is deleted.
        until(&mut plane, "our descriptor is closed", |_| !have_open(&stage.directory));
        let path = stage.file("a", 4);
        let second = hold(&mut plane, &client, &path);
        assert_ne!(first, second, "inode {number} and {}", inode(&path));
        chill(&path);
        plane.release_file(client.session, second);
    }
}
