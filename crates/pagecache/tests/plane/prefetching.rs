//! Disclosed lists: prefetches arrive before their references, and the kernel's readahead is off meanwhile.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use foretell_pagecache::{DiscloseProblem, HintChunk, ManagerSpec, Options, Plane, PoolPolicy, SessionSpec};

use crate::program::{Program, shuffled, start_as};
use crate::stage::{BLOCK, Play, assert_references, cached_blocks, cached_pages, options, stage};

fn chunk(path: &Path, offset: u64, length: Option<u64>) -> HintChunk {
    HintChunk { path: path.to_owned(), offset, length }
}

fn chunks(path: &Path, blocks: &[u64]) -> Vec<HintChunk> {
    blocks.iter().map(|block| chunk(path, block * BLOCK, Some(BLOCK))).collect()
}

#[test]
fn what_is_disclosed_is_there_before_it_is_read() {
    let Some(stage) = stage("what_is_disclosed_is_there_before_it_is_read") else { return };
    let path = stage.file("a", 64);
    let mut play = Play::new(options(128), Vec::new());
    let taken = play.plane.disclose(play.session, 0, &[chunk(&path, 0, None)]).unwrap();
    assert_eq!((taken.chunks, taken.blocks), (1, 64));
    play.until("all blocks are prefetched", |_| cached_blocks(&path).len() == 64);
    play.settle();
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("pass f {BLOCK} 1"));
    let counts = play.report().counts;
    assert_eq!((counts.references, counts.hits, counts.prefetches), (64, 64, 64), "{counts:?}");
    assert_eq!((counts.prefetches_useful, counts.demand_fetches), (64, 0), "{counts:?}");
}

/// Twice in a known random order, with a quarter of it as budget. The horizon keeps the fast device from
/// filling the cache with the near future, which would replace blocks earlier than need be.
#[test]
fn a_known_random_order_is_prefetched_in_time() {
    let Some(stage) = stage("a_known_random_order_is_prefetched_in_time") else { return };
    let blocks = 2048;
    let path = stage.file("a", blocks);
    let mut play = Play::new(Options { horizon: Some(64), ..options(512) }, Vec::new());
    let order = shuffled(blocks, 1);
    let twice = [chunks(&path, &order), chunks(&path, &order)].concat();
    assert_eq!(play.plane.disclose(play.session, 0, &twice).unwrap().chunks, twice.len());
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("shuffled f {BLOCK} 1 200"));
    play.run(&format!("shuffled f {BLOCK} 1 200"));
    let report = play.report();
    let counts = report.counts;
    assert_references(&report, 2 * blocks);
    assert!(counts.prefetches_late * 50 <= counts.references, "{counts:?}");
    let fetches = counts.prefetches + counts.demand_fetches;
    assert!(fetches * 100 <= report.belady_fetches.unwrap() * 102, "{report:?}");
    play.until("the budget is kept", |_| cached_blocks(&path).len() <= 512);
}

#[test]
fn bad_chunks_are_told_and_those_before_them_taken() {
    let Some(stage) = stage("bad_chunks_are_told_and_those_before_them_taken") else { return };
    let path = stage.file("a", 4);
    let mut play = Play::new(options(64), Vec::new());
    let missing = stage.directory.join("missing");
    let good = chunk(&path, 0, Some(BLOCK));
    let mut disclose =
        |bad: HintChunk| play.plane.disclose(play.session, 0, &[good.clone(), bad]).unwrap_err();
    let error = disclose(chunk(&missing, 0, None));
    assert_eq!(error.chunk, 1);
    assert!(error.to_string().starts_with(&format!("cannot open {}: ", missing.display())), "{error}");
    let error = disclose(chunk(&path, 3 * BLOCK, Some(BLOCK + 1)));
    assert!(matches!(error.problem, DiscloseProblem::PastEnd { size, .. } if size == 4 * BLOCK), "{error}");
    let error = disclose(chunk(&stage.directory, 0, None));
    assert!(error.to_string().ends_with("is not a regular file, which cannot be prefetched"), "{error}");
    let error = disclose(chunk(Path::new("/proc/self/stat"), 0, None));
    assert!(matches!(error.problem, DiscloseProblem::NotOnDisk { .. }), "{error}");
    play.until("the good ones are prefetched", |_| cached_blocks(&path) == [0]);
}

#[test]
fn a_list_longer_than_the_limit_is_taken_as_it_moves_on() {
    let Some(stage) = stage("a_list_longer_than_the_limit_is_taken_as_it_moves_on") else { return };
    let path = stage.file("a", 1024);
    let mut play = Play::new(options(64), Vec::new());
    // 4,096 times 1,024 blocks fill the list of 2^22; then one more chunk waits inside, and no further.
    let many = vec![chunk(&path, 0, None); 5000];
    let taken = play.plane.disclose(play.session, 0, &many).unwrap();
    assert_eq!(taken.chunks, 4097);
    assert_eq!(play.plane.disclose(play.session, 0, &many).unwrap().chunks, 0);
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("pass f {BLOCK} 2"));
    let mut taken = 0;
    play.until("a chunk for each block that was passed is taken", |play| {
        taken += play.plane.disclose(play.session, 0, &many).unwrap().chunks;
        taken >= 2
    });
    assert_eq!(taken, 2);
}

/// Pages that the kernel loads when the first block of a file is read, of which nothing is cached but what
/// lies far behind, where the lists of these tests are.
fn pages_of_one_read(program: &mut Program, path: &Path) -> usize {
    let near = || cached_pages(path).into_iter().filter(|page| *page < 900).count();
    let file = std::fs::File::open(path).unwrap();
    let start = std::time::Instant::now();
    while near() > 0 {
        assert!(start.elapsed() < Duration::from_secs(180), "never: nothing is cached");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    assert_eq!(program.run(&format!("read f 0 {BLOCK}")), "done");
    near()
}

#[test]
fn readahead_is_off_on_listed_files_and_on_again_afterwards() {
    let Some(stage) = stage("readahead_is_off_on_listed_files_and_on_again_afterwards") else { return };
    let path = stage.file("a", 512);
    let mut play = Play::new(Options { batch: 1, ..options(64) }, Vec::new());
    play.run(&format!("open f {}", path.display()));
    let with_readahead = pages_of_one_read(&mut play.program, &path);
    assert!(with_readahead > 2, "the kernel reads ahead here");
    play.settle();
    // A list that goes nowhere near: its presence counts.
    let list = chunks(&path, &[500, 0, 500, 501, 502, 503]);
    play.plane.disclose(play.session, 0, &list).unwrap();
    play.run(&format!("read f {} {BLOCK}", 500 * BLOCK));
    play.settle();
    assert_eq!(pages_of_one_read(&mut play.program, &path), 2);
    play.plane.end_session(play.session);
    assert_eq!(pages_of_one_read(&mut play.program, &path), with_readahead);
}

pub(crate) fn follow_until_killed(pid: u32, path: &Path) {
    let mut plane = Plane::open(Options { batch: 1, ..options(64) }).unwrap();
    let manager = ManagerSpec { name: "all".to_owned(), ..ManagerSpec::default() };
    let session = plane.add_session(SessionSpec::new(pid, vec![manager])).unwrap();
    plane.disclose(session, 0, &chunks(path, &[500, 0, 500, 501, 502, 503])).unwrap();
    println!("\nfollowing");
    // Not for ever, should the test itself be killed.
    while plane.live_processes(session) > 0 {
        plane.step(&[], Duration::from_millis(10)).unwrap();
    }
}

#[test]
fn readahead_is_on_again_when_we_are_killed() {
    let Some(stage) = stage("readahead_is_on_again_when_we_are_killed") else { return };
    let path = stage.file("a", 512);
    let mut program = Program::start();
    program.run(&format!("open f {}", path.display()));
    let with_readahead = pages_of_one_read(&mut program, &path);
    let mut plane = start_as("plane");
    writeln!(plane.stdin.take().unwrap(), "{} {}", program.pid(), path.display()).unwrap();
    let output = std::io::BufReader::new(plane.stdout.take().unwrap());
    let says = std::io::BufRead::lines(output).map(Result::unwrap);
    assert!(says.into_iter().any(|line| line == "following"));
    let wait = |what: &str, mut is_so: Box<dyn FnMut() -> bool + '_>| {
        let start = std::time::Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(180), "never: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    program.run(&format!("read f {} {BLOCK}", 500 * BLOCK));
    wait("readahead is off", Box::new(|| pages_of_one_read(&mut program, &path) == 2));
    plane.kill().unwrap();
    plane.wait().unwrap();
    wait("readahead is on", Box::new(|| pages_of_one_read(&mut program, &path) == with_readahead));
}

/// What the policy has no more use for does not wait: a list that is wrong is given up, and the plane goes on.
#[test]
fn a_wrong_list_is_given_up() {
    let Some(stage) = stage("a_wrong_list_is_given_up") else { return };
    let path = stage.file("a", 2048);
    let other = stage.file("b", 64);
    let mut play = Play::new(options(256), stage.rule(PoolPolicy::Lru));
    play.plane.disclose(play.session, 0, &vec![chunk(&other, 0, None); 100]).unwrap();
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    let counts = play.report().counts;
    assert_eq!((counts.references, counts.prefetches_useful), (2048, 0));
    // The kernel reads ahead in folios of more than a block, of which some wait for the rest to be chosen.
    let cached = || cached_blocks(&path).len() + cached_blocks(&other).len();
    play.until("the budget is kept", |_| cached() <= 256 + 64);
}
