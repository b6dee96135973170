//! Slots in any order against a map, and readers beside who fills.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;

use super::board::GUEST_LANES;
use super::*;

const PART: u32 = 4096;

fn reference(serial: u64, part: u32) -> Reference {
    Reference { serial, first: part, parts: 1, ..Reference::default() }
}

/// The bytes of a part, as long as its number.
fn content(serial: u64, part: u32) -> Vec<u8> {
    vec![(serial * 31) as u8 ^ part as u8; 100 + part as usize % 50]
}

fn put(arena: &std::sync::Arc<Arena>, serial: u64, part: u32) -> Option<Buffer> {
    let bytes = content(serial, part);
    let mut filling = arena.take(bytes.len() as u32)?;
    let (one, other) = bytes.split_at(bytes.len() / 2);
    assert!(filling.fill(one).is_empty());
    let mut filling = filling.finish().unwrap_err();
    assert_eq!(filling.fill(&[other, b"more"].concat()), b"more");
    let buffer = filling.finish().unwrap();
    buffer.publish(serial, part);
    Some(buffer)
}

fn attach(arena: &Arena, first_lane: u32) -> Attached {
    let (granted, files) = arena.granted(first_lane);
    let [data, board] = files.map(|file| file.try_clone_to_owned().unwrap());
    assert_eq!(Granted::from_numbers(granted.to_numbers()), Some(granted));
    Attached::new(granted, &data, &board).unwrap()
}

#[derive(Debug, Clone)]
enum Act {
    Put(u64, u32),
    /// The pool gives it up; readers may have it still.
    Drop(u64, u32),
    Read(u64, u32),
    Lease(u64, u32),
    /// The lease that was taken first is given back.
    Return,
    /// A guest is stopped while it reads this part, in this lane.
    Stop(u64, u32, u32),
    Killed,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let part = || (1..4_u64, 0..3_u32);
    let act = prop_oneof![
        8 => part().prop_map(|(serial, part)| Act::Put(serial, part)),
        6 => part().prop_map(|(serial, part)| Act::Drop(serial, part)),
        8 => part().prop_map(|(serial, part)| Act::Read(serial, part)),
        3 => part().prop_map(|(serial, part)| Act::Lease(serial, part)),
        2 => Just(Act::Return),
        1 => (part(), 0..GUEST_LANES).prop_map(|((serial, part), lane)| Act::Stop(serial, part, lane)),
        1 => Just(Act::Killed),
    ];
    prop::collection::vec(act, 1..120)
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_put_there(acts in acts()) {
        let arena = Arena::new(4, 3, PART).unwrap();
        let mut lanes = Lanes::new();
        let guest = attach(&arena, lanes.grant(&arena, None).unwrap());
        let first = lanes.grant(&arena, None).unwrap();
        let other = attach(&arena, first);
        let mut there: HashMap<(u64, u32), Buffer> = HashMap::new();
        let mut leased: Vec<(u64, u32, Lease)> = Vec::new();
        // What a guest that was stopped goes on to read, and its slot.
        let mut stopped: HashMap<u32, (u32, Vec<u8>)> = HashMap::new();
        for act in acts {
            match act {
                Act::Put(serial, part) => {
                    if there.contains_key(&(serial, part)) {
                        continue;
                    }
                    match put(&arena, serial, part) {
                        Some(buffer) => _ = there.insert((serial, part), buffer),
                        // All are held.
                        None => prop_assert!(there.len() + leased.len() + stopped.len() >= 7),
                    }
                }
                Act::Drop(serial, part) => {
                    if let Some(buffer) = there.remove(&(serial, part)) {
                        buffer.withdraw();
                    }
                }
                Act::Read(serial, part) => {
                    let mut own = content(serial, part);
                    own.fill(0);
                    let mut its = own.clone();
                    let read = arena.read(reference(serial, part), 0, &mut own).is_some();
                    let its_read = guest.read(reference(serial, part), 0, &mut its).is_some();
                    prop_assert_eq!((read, its_read), (there.contains_key(&(serial, part)), read));
                    if read {
                        prop_assert_eq!((&own, &its), (&content(serial, part), &content(serial, part)));
                    }
                    let told = lanes.gather(&arena).unwrap_or_default();
                    prop_assert_eq!(told.references.len(), if read { 2 } else { 0 });
                    lanes.done(told);
                }
                Act::Lease(serial, part) => {
                    if let Some((lease, _)) = arena.lease(reference(serial, part)) {
                        leased.push((serial, part, lease));
                        let told = lanes.gather(&arena).unwrap_or_default();
                        prop_assert_eq!(told.references.len(), 1);
                        lanes.done(told);
                    }
                }
                Act::Return => {
                    if !leased.is_empty() {
                        leased.remove(0);
                    }
                }
                Act::Stop(serial, part, lane) => {
                    if let Some(slot) = other.stop(first + lane, serial, part) {
                        stopped.insert(lane, (slot, content(serial, part)));
                    } else {
                        stopped.remove(&lane);
                    }
                }
                Act::Killed => {
                    lanes.release(&arena, first);
                    stopped.clear();
                    prop_assert_eq!(lanes.grant(&arena, None), Some(first));
                }
            }
            for (serial, part, lease) in &leased {
                prop_assert_eq!(&lease[..], &content(*serial, *part)[..]);
            }
            for (slot, bytes) in stopped.values() {
                prop_assert_eq!(&other.bytes(*slot, bytes.len()), bytes);
            }
        }
        lanes.release(&arena, first);
        for (_, buffer) in there.drain() {
            buffer.withdraw();
        }
        drop(leased);
        prop_assert_eq!(arena.bytes(), 0);
        // All of them are free again.
        let all: Vec<Buffer> = (0..7).map_while(|part| put(&arena, 9, part)).collect();
        prop_assert_eq!(all.len(), 7);
        prop_assert!(put(&arena, 9, 7).is_none());
    }
}

#[test]
fn nobody_reads_half_of_what_is_being_filled() {
    let arena = Arena::new(4, 8, PART).unwrap();
    let mut lanes = Lanes::new();
    let guests: Vec<Attached> = (0..2).map(|_| attach(&arena, lanes.grant(&arena, None).unwrap())).collect();
    let ends = AtomicBool::new(false);
    let put_all = |round: u64| {
        let bytes = vec![round as u8; PART as usize];
        let mut filling = arena.take(PART).unwrap();
        for piece in bytes.chunks(512) {
            filling.fill(piece);
        }
        let buffer = filling.finish().unwrap();
        buffer.publish(round, 0);
        buffer
    };
    let newest = std::sync::atomic::AtomicU64::new(0);
    let read: usize = thread::scope(|scope| {
        let (arena, ends, newest) = (&arena, &ends, &newest);
        let mut readers = Vec::new();
        for at in 0..4 {
            let guest = guests.get(at % 3);
            readers.push(scope.spawn(move || {
                let (mut buffer, mut read) = (vec![0; PART as usize], 0);
                while !ends.load(Ordering::Relaxed) {
                    let serial = newest.load(Ordering::Relaxed);
                    let reference = reference(serial, 0);
                    let got = match guest {
                        Some(guest) => guest.read(reference, 0, &mut buffer),
                        None => arena.read(reference, 0, &mut buffer),
                    };
                    if got.is_some() {
                        assert!(buffer.iter().all(|&byte| byte == serial as u8));
                        read += 1;
                    }
                }
                read
            }));
        }
        let (mut there, mut read) = (std::collections::VecDeque::new(), 0);
        for round in 1..2_000_000 {
            there.push_back(put_all(round));
            newest.store(round, Ordering::Relaxed);
            if there.len() > 2 {
                there.pop_front().unwrap().withdraw();
            }
            if let Some(told) = lanes.gather(arena) {
                read += told.references.len();
                lanes.done(told);
            }
            // On a busy machine some of the readers have not run at all by then.
            if round > 20_000 && read > 1000 {
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert!(read > 0);
}

#[test]
fn as_many_guests_have_lanes_as_may() {
    let arena = Arena::new(1, 1, PART).unwrap();
    let mut lanes = Lanes::new();
    let all: Vec<u32> = std::iter::from_fn(|| lanes.grant(&arena, None)).collect();
    assert_eq!(all.len(), super::board::MOST_GUESTS as usize);
    lanes.release(&arena, all[3]);
    assert_eq!(lanes.grant(&arena, None), Some(all[3]));
    assert_eq!(lanes.grant(&arena, None), None);
    for first in all {
        lanes.release(&arena, first);
    }
    assert_eq!(lanes.grant(&arena, None), Some(super::board::LOCAL_LANES));
}

#[test]
fn the_memory_goes_with_the_last_of_the_pool_and_its_leases() {
    for count in [0, 1, 6] {
        let arena = Arena::new(8, 0, 4096).unwrap();
        let memory = std::sync::Arc::downgrade(&arena);
        let buffers: Vec<Buffer> = (0..6).map(|part| put(&arena, 1, part).unwrap()).collect();
        let leases: Vec<Lease> = (0..count).map(|part| arena.lease(reference(1, part)).unwrap().0).collect();
        assert_eq!(arena.leased_bytes(), leases.iter().map(|lease| lease.len() as u64).sum::<u64>());
        buffers.iter().for_each(Buffer::withdraw);
        drop(buffers);
        // The pool ends while threads give back what they have.
        let begin = std::sync::Barrier::new(leases.len() + 1);
        std::thread::scope(|scope| {
            for (part, lease) in leases.into_iter().enumerate() {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    assert_eq!(&lease[..], &content(1, part as u32)[..]);
                    drop(lease);
                });
            }
            begin.wait();
            arena.leave();
            drop(arena);
        });
        assert_eq!(memory.strong_count(), 0);
    }
}
