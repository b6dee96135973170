//! A ring whose memory the other side fills with whatever it likes, between any two steps: both sides keep
//! within it, come to an end, and understand only what is an entry.

#![no_main]

use std::os::fd::{AsFd, OwnedFd};

use foretell_fuzz::one_line;
use foretell_protocol::ring::ring_bytes;
use foretell_protocol::{Consumer, Entry, Handle, Producer, Range};
use libfuzzer_sys::fuzz_target;

const ENTRIES: u32 = 64;

/// Writes the bytes somewhere: the first two say where.
fn scribble(memory: &OwnedFd, bytes: &[u8]) {
    let Some((at, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let room = ring_bytes(ENTRIES) - bytes.len().min(64);
    let at = usize::from(u16::from_le_bytes(*at)) % room;
    rustix::io::pwrite(memory.as_fd(), &bytes[..bytes.len().min(64)], at as u64).expect("memory");
}

/// An entry is written as words that are no other entry's: the range and the handle are of the kind.
fn check(entry: Entry) {
    let range = match entry {
        Entry::Disclose { range, .. }
        | Entry::DoneWith { range, .. }
        | Entry::SetTemporaryPriority { range, .. } => range,
        _ => return,
    };
    assert!(range.length() > 0 && range.end() > range.start());
    assert_eq!(Range::new(range.start(), range.length()), Some(range));
}

fuzz_target!(|bytes: &[u8]| {
    let (mut producer, memory) = Producer::create(ENTRIES).expect("a ring");
    let mut consumer = Consumer::open(&memory, ENTRIES).expect("a ring");
    let file = Handle::new(1).expect("not 0");
    for piece in bytes.chunks(18) {
        match piece[0] % 4 {
            0 => scribble(&memory, &piece[1..]),
            1 => {
                producer.push(&Entry::DiscloseFile { file }, u32::from(piece[0] / 4));
                let _ = producer.publish();
            }
            2 => match consumer.tail() {
                Ok(tail) => {
                    let mut taken = 0;
                    while let Some(entry) = consumer.take(tail) {
                        taken += 1;
                        match entry {
                            Ok(entry) => check(entry),
                            Err(error) => one_line(&error.to_string()),
                        }
                    }
                    assert!(taken <= ENTRIES);
                    consumer.release();
                }
                Err(error) => one_line(&error.to_string()),
            },
            _ => {
                let _ = consumer.sleep();
                assert!(producer.consumed() <= producer.position());
                assert!(producer.position() - producer.consumed() <= u64::from(ENTRIES));
                assert!(producer.newest_first().count() <= ENTRIES as usize);
                let _ = producer.statistics();
            }
        }
    }
});
