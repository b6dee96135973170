//! The ring between two threads, its limits, and what a hostile side can do to the other: nothing.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;

use foretell_protocol::ring::ring_bytes;
use foretell_protocol::{Consumer, Entry, Handle, Policy, Producer, Range, RingError, Statistics};
use rustix::fs::{MemfdFlags, SealFlags};

fn pair(entries: u32) -> (Producer, Consumer) {
    let (producer, memory) = Producer::create(entries).unwrap();
    (producer, Consumer::open(memory, entries).unwrap())
}

/// An entry from which its number can be read.
fn numbered(number: u64) -> Entry {
    Entry::Disclose { file: Handle::new(1).unwrap(), range: Range::new(number, number + 1).unwrap() }
}

fn number(entry: Entry) -> u64 {
    match entry {
        Entry::Disclose { range, .. } if range.length() == range.start() + 1 => range.start(),
        other => panic!("torn: {other:?}"),
    }
}

/// Everything that is there, released.
fn take_all(consumer: &mut Consumer) -> Vec<Entry> {
    let tail = consumer.tail().unwrap();
    let mut taken = Vec::new();
    while let Some(entry) = consumer.take(tail) {
        taken.push(entry.unwrap());
    }
    consumer.release();
    taken
}

#[test]
fn entries_come_out_in_their_order_once_published() {
    let (mut producer, mut consumer) = pair(64);
    let file = Handle::new(7).unwrap();
    let entries = [
        Entry::SetPriority { file, priority: -1 },
        Entry::SetPolicy { priority: i32::MIN, policy: Policy::Mru },
        Entry::DiscloseFile { file },
        Entry::Cancel,
    ];
    entries.iter().for_each(|entry| assert!(producer.push(entry, 0)));
    assert_eq!(take_all(&mut consumer), []);
    assert!(!producer.publish(), "nobody sleeps");
    assert_eq!(take_all(&mut consumer), entries);
    assert_eq!((producer.consumed(), consumer.head()), (4, 4));
}

#[test]
fn a_full_ring_takes_nothing_until_entries_were_released() {
    let (mut producer, mut consumer) = pair(64);
    for at in 0..64 {
        assert!(producer.push(&numbered(at), 0));
    }
    assert!(!producer.push(&numbered(64), 0));
    producer.count_dropped(1);
    let _ = producer.publish();
    let tail = consumer.tail().unwrap();
    assert_eq!(consumer.take(tail), Some(Ok(numbered(0))));
    assert!(!producer.push(&numbered(64), 0), "taken, but its slot is not released yet");
    consumer.release();
    assert!(producer.push(&numbered(64), 0));
    let _ = producer.publish();
    assert_eq!(
        take_all(&mut consumer).into_iter().map(number).collect::<Vec<_>>(),
        (1..65).collect::<Vec<_>>()
    );
    assert_eq!(consumer.dropped(), 1);
}

#[test]
fn slots_that_are_to_be_spared_stay_free() {
    let (mut producer, _consumer) = pair(64);
    assert_eq!((0..100).filter(|&at| producer.push(&numbered(at), 16)).count(), 48);
    assert_eq!((0..100).filter(|&at| producer.push(&numbered(at), 0)).count(), 16);
    assert!(!producer.push(&numbered(0), 1000));
}

#[test]
fn the_newest_entries_stay_readable_to_their_writer() {
    let (mut producer, mut consumer) = pair(64);
    for at in 0..100 {
        assert!(producer.push(&numbered(at), 0));
        let _ = producer.publish();
        take_all(&mut consumer);
    }
    let newest: Vec<u64> = producer.newest_first().map(number).collect();
    assert_eq!(newest, (36..100).rev().collect::<Vec<_>>());
}

#[test]
fn a_sleeper_is_woken_once_and_never_sleeps_over_an_entry() {
    let (mut producer, mut consumer) = pair(64);
    assert!(consumer.sleep(), "there is nothing to read");
    producer.push(&numbered(0), 0);
    assert!(producer.publish(), "it sleeps");
    producer.push(&numbered(1), 0);
    assert!(!producer.publish(), "it has been rung for");
    assert!(!consumer.sleep(), "there is something to read");
    producer.push(&numbered(2), 0);
    assert!(!producer.publish(), "it does not sleep");
    assert_eq!(take_all(&mut consumer).len(), 3);
    assert!(consumer.sleep());
    consumer.wake();
    producer.push(&numbered(3), 0);
    assert!(!producer.publish());
}

/// A million entries through a small ring: none is lost, torn or out of order, and a consumer that sleeps
/// only when it may, until the bell rings, always comes to the end.
#[test]
fn two_threads_lose_nothing() {
    const ENTRIES: u64 = 1_000_000;
    let (mut producer, mut consumer) = pair(64);
    let (bell, rung) = mpsc::channel();
    let writer = thread::spawn(move || {
        let mut at = 0;
        while at < ENTRIES {
            // Batches of different sizes, published together.
            for _ in 0..at % 7 + 1 {
                if at < ENTRIES && producer.push(&numbered(at), 0) {
                    at += 1;
                } else {
                    thread::yield_now();
                }
            }
            if producer.publish() {
                bell.send(()).unwrap();
            }
        }
        producer
    });
    let mut expected = 0;
    while expected < ENTRIES {
        for entry in take_all(&mut consumer) {
            assert_eq!(number(entry), expected);
            expected += 1;
        }
        if expected < ENTRIES && consumer.sleep() {
            rung.recv().unwrap();
        }
    }
    let producer = writer.join().unwrap();
    assert_eq!(producer.consumed(), ENTRIES);
}

#[test]
fn statistics_are_seen_whole() {
    let (producer, mut consumer) = pair(64);
    assert_eq!(producer.statistics(), Some(Statistics::default()));
    let of = |n: u64| Statistics { entries_taken: n, hits: n * 3, revoked: n * 7, ..Statistics::default() };
    let writer = thread::spawn(move || {
        (1..=100_000).for_each(|n| consumer.publish(&of(n)));
        consumer
    });
    while !writer.is_finished() {
        if let Some(seen) = producer.statistics() {
            assert_eq!(seen, of(seen.entries_taken));
        }
    }
    writer.join().unwrap();
    assert_eq!(producer.statistics(), Some(of(100_000)));
}

#[test]
fn memory_that_could_fault_is_refused() {
    let file = |flags: MemfdFlags, bytes: usize, seals: SealFlags| -> OwnedFd {
        let file = rustix::fs::memfd_create(c"test", flags | MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, bytes as u64).unwrap();
        if flags.contains(MemfdFlags::ALLOW_SEALING) {
            rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        }
        file
    };
    let sealing = MemfdFlags::ALLOW_SEALING;
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let bytes = ring_bytes(64);
    let error = |file: OwnedFd, entries| Consumer::open(file, entries).map(drop).unwrap_err();
    assert!(Consumer::open(file(sealing, bytes, all), 64).is_ok());
    assert!(matches!(error(file(MemfdFlags::empty(), bytes, all), 64), RingError::NotSealed));
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let some = all.difference(missing);
        assert!(matches!(error(file(sealing, bytes, some), 64), RingError::NotSealed), "{missing:?}");
    }
    assert!(matches!(error(file(sealing, bytes, all | SealFlags::WRITE), 64), RingError::NotSealed));
    assert!(matches!(error(file(sealing, bytes - 1, all), 64), RingError::Length { .. }));
    assert!(matches!(error(file(sealing, bytes, all), 128), RingError::Length { .. }));
    assert!(matches!(error(file(sealing, bytes, all), 65), RingError::Size(65)));
    assert!(matches!(error(file(sealing, bytes, all), 0), RingError::Size(0)));
    assert!(matches!(error(std::fs::File::open("/dev/null").unwrap().into(), 64), RingError::NotSealed));
    assert!(matches!(error(std::fs::File::open("/proc/self/exe").unwrap().into(), 64), RingError::NotSealed));
    assert!(Producer::create(100).is_err());
}

/// What a client can write into the memory that it has mapped.
fn scribble(memory: &OwnedFd, at: u64, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert_eq!(rustix::io::pwrite(memory, &bytes, at).unwrap(), bytes.len());
}

#[test]
fn a_tail_that_cannot_be_is_refused() {
    let (_producer, memory) = Producer::create(64).unwrap();
    let mut consumer = Consumer::open(&memory, 64).unwrap();
    scribble(&memory, 0, &[64]);
    let tail = consumer.tail().unwrap();
    // Sixty-four empty slots mean nothing, and are passed over.
    assert!((0..64).all(|_| consumer.take(tail).unwrap().is_err()));
    assert_eq!(consumer.take(tail), None);
    for wrong in [63, 0, 64 + 65, u64::MAX] {
        scribble(&memory, 0, &[wrong]);
        assert!(matches!(consumer.tail(), Err(RingError::Corrupt { head: 64, .. })), "{wrong}");
    }
    scribble(&memory, 0, &[64 + 64]);
    assert_eq!(consumer.tail().unwrap(), 128);
}

#[test]
fn a_head_that_cannot_be_is_kept_within_the_ring() {
    let (mut producer, memory) = Producer::create(64).unwrap();
    for at in 0..64 {
        assert!(producer.push(&numbered(at), 0));
    }
    let _ = producer.publish();
    scribble(&memory, 64, &[u64::MAX]);
    assert_eq!(producer.consumed(), 64);
    for at in 64..128 {
        assert!(producer.push(&numbered(at), 0));
    }
    scribble(&memory, 64, &[3]);
    assert_eq!(producer.consumed(), 64);
    assert!(!producer.push(&numbered(128), 0));
}

#[test]
fn statistics_that_are_never_finished_are_none() {
    let (producer, memory) = Producer::create(64).unwrap();
    scribble(&memory, 256, &[1]);
    assert_eq!(producer.statistics(), None);
}

#[test]
fn a_sealed_ring_can_no_longer_change_its_size() {
    let (_producer, memory) = Producer::create(64).unwrap();
    assert!(rustix::fs::ftruncate(&memory, 0).is_err());
    assert!(rustix::fs::ftruncate(&memory, 1 << 20).is_err());
    assert!(rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE).is_err());
}
