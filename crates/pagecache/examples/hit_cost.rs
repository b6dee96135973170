//! What observation costs a program whose reads all hit, and how fast the ring is drained.
//!
//! Reads 8 KiB at random places of a cached file, of 16 MiB (which the processor's cache may hold) and of
//! 512 MiB (which comes from memory), in short turns of four states that follow each
//! other round after round, so that what disturbs the machine disturbs all alike: no observer at all; an
//! observer that does not track the reader; the reader tracked and the file ignored; the reader tracked and
//! the file managed while another thread drains the ring. Prints the median turn of each and its ratio to the
//! first, in time of the reading thread's CPU. Needs root.
//!
//! `cargo run --release -p foretell-pagecache --example hit_cost`

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foretell_pagecache::observe::{FileKey, ObserveError, Observer, ObserverConfig};
use rustix::time::{ClockId, clock_gettime};

/// Turns of each state.
const ROUNDS: usize = 15;
/// Reads a turn.
const READS: usize = 100_000;
/// Bytes a read.
const BLOCK_BYTES: usize = 8192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for megabytes in [16, 512] {
        println!("file of {megabytes} MiB");
        measure(megabytes << 20)?;
    }
    Ok(())
}

fn measure(file_bytes: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut file = tempfile::tempfile_in("/var/tmp")?;
    let block = vec![1; 1 << 20];
    for _ in 0..file_bytes >> 20 {
        file.write_all(&block)?;
    }
    let file = &Target { file, blocks: file_bytes / BLOCK_BYTES as u64 };
    let mut turns: [Vec<f64>; 4] = Default::default();
    let mut drained = Vec::new();
    for round in 0..=ROUNDS {
        let mut taken = [turn(file, round)?, 0.0, 0.0, 0.0];
        let mut observer = Observer::open(ObserverConfig::default())?;
        taken[1] = turn(file, round)?;
        observer.track(std::process::id())?;
        observer.ignore(FileKey::of(&file.file)?)?;
        taken[2] = turn(file, round)?;
        observer.manage(FileKey::of(&file.file)?)?;
        taken[3] = beside_a_drain(&mut observer, || turn(file, round))??;
        drained.push(drain_rate(&mut observer, file, round)?);
        // The first round warms the caches.
        if round > 0 {
            turns.iter_mut().zip(taken).for_each(|(turns, ns)| turns.push(ns));
        }
    }
    let native = median(&mut turns[0]);
    let names = ["no observer", "not tracked", "tracked, file ignored", "tracked, file managed"];
    for (name, turns) in names.iter().zip(&mut turns) {
        let ns = median(turns);
        println!("  {name:24} {ns:7.0} ns a read  {:5.3} of native", ns / native);
    }
    println!("  {:24} {:7.1} million records/s", "drain", median(&mut drained) / 1e6);
    Ok(())
}

/// The file that is read.
struct Target {
    file: File,
    blocks: u64,
}

/// Nanoseconds of CPU that one read takes.
fn turn(target: &Target, seed: usize) -> std::io::Result<f64> {
    let mut block = [0; BLOCK_BYTES];
    let mut random = seed as u64 + 1;
    let before = thread_ns();
    for _ in 0..READS {
        // Xorshift, Marsaglia 2003.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        target.file.read_exact_at(&mut block, random % target.blocks * BLOCK_BYTES as u64)?;
    }
    Ok((thread_ns() - before) / READS as f64)
}

fn thread_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Runs `work` while another thread drains the ring every millisecond.
fn beside_a_drain<T>(observer: &mut Observer, work: impl FnOnce() -> T) -> Result<T, ObserveError> {
    let done = AtomicBool::new(false);
    let lost = observer.lost_events();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                observer.drain(usize::MAX, |observation| {
                    std::hint::black_box(observation);
                });
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    });
    let lost = observer.lost_events() - lost;
    if lost > 0 {
        println!("{lost} records lost");
    }
    Ok(result)
}

/// Records a second, out of a ring filled before.
fn drain_rate(observer: &mut Observer, target: &Target, seed: usize) -> std::io::Result<f64> {
    turn(target, seed)?;
    let before = thread_ns();
    let records = observer.drain(usize::MAX, |observation| {
        std::hint::black_box(observation);
    });
    Ok(records as f64 * 1e9 / (thread_ns() - before))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
