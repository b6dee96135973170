//! The ring: directives and disclosures in memory that a client and the service have both mapped.
//!
//! One side writes (the [`Producer`], a client), one reads (the [`Consumer`], the service). Positions count
//! entries from the beginning and never wrap: entry `p` lies in slot `p mod capacity`. The *tail* is where
//! the producer will write next, the *head* where the consumer will read next; each is written by one side
//! only. The producer writes entries and then moves the tail (release), the consumer reads the tail (acquire)
//! and then the entries before it.
//!
//! A consumer that has nothing left to read and means to sleep sets `sleeps` and looks at the tail once more;
//! a producer that has moved the tail looks at `sleeps`. Between the two accesses of either side stands a
//! sequentially consistent fence, so at least one of them sees what the other did: no entry is left behind
//! unnoticed (Dekker's argument). The producer takes `sleeps` back when it rings, so that the bell is rung
//! once a sleep.
//!
//! The consumer tells how the session fares in a block of statistics under a sequence number, which is odd
//! while they are being written: who reads them reads again if it was odd or has changed.
//!
//! Neither side can hurt the other. The memory is sealed: it can be neither shrunk nor grown, so that
//! touching it never faults; the consumer refuses memory that is not. Every access is atomic, a word at a
//! time, as the other side may write at any moment, whatever it should do. What is read is used only after it
//! was checked, and read only once.

mod entry;
mod layout;
mod mapping;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

pub use entry::{Entry, EntryError, Policy, Range};
use layout::Word;
pub use layout::ring_bytes;
use mapping::Mapping;
pub use mapping::RingError;

use crate::statistics::{Statistics, WORDS};

/// Tries at a consistent view of the statistics. The service writes some twenty words, thus one retry is rare;
/// a service that was killed while it wrote never finishes.
const STATISTICS_TRIES: usize = 1000;

/// The client's half.
#[derive(Debug)]
pub struct Producer {
    map: Mapping,
    /// Where the next entry goes; behind the published tail while a batch is being written.
    next: u64,
    /// The head when it was last looked at: looking takes the cache line from the consumer.
    seen_head: u64,
}

impl Producer {
    /// Makes a ring of `entries` (see [`crate::message::is_ring_size`]) and the descriptor of its memory, to be
    /// sent with the greeting.
    ///
    /// # Errors
    /// [`RingError::Size`], or the system refuses.
    pub fn create(entries: u32) -> Result<(Producer, OwnedFd), RingError> {
        let (map, memory) = Mapping::create(entries)?;
        Ok((Producer { map, next: 0, seen_head: 0 }, memory))
    }

    /// Entries that the ring holds.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.map.entries()
    }

    /// Where the next entry goes: the number of entries written so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Up to which position the consumer has read. Whatever it says, not before the oldest entry of the ring
    /// and not behind the newest.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        let oldest = self.next.saturating_sub(u64::from(self.capacity()));
        self.map.word(Word::Head).load(Acquire).clamp(oldest, self.next)
    }

    /// Writes an entry, which the consumer sees after [`Producer::publish`]. Returns whether there was room for
    /// it and `spare` more.
    pub fn push(&mut self, entry: &Entry, spare: u32) -> bool {
        let most = u64::from(self.capacity().saturating_sub(spare));
        if self.next - self.seen_head >= most {
            self.seen_head = self.consumed();
            if self.next - self.seen_head >= most {
                return false;
            }
        }
        for (word, value) in self.map.slot(self.next).iter().zip(entry.to_words()) {
            word.store(value.to_le(), Relaxed);
        }
        self.next += 1;
        true
    }

    /// Shows the consumer what was written. Returns whether the consumer sleeps and is to be woken
    /// ([`crate::Request::Wake`]): true once a sleep.
    #[must_use = "a sleeping service must be woken"]
    pub fn publish(&mut self) -> bool {
        self.map.word(Word::Tail).store(self.next, Release);
        fence(std::sync::atomic::Ordering::SeqCst);
        let sleeps = self.map.word(Word::Sleeps);
        sleeps.load(Relaxed) != 0 && sleeps.swap(0, Relaxed) != 0
    }

    /// Tells the service that this many entries found no room.
    pub fn count_dropped(&self, entries: u64) {
        let dropped = self.map.word(Word::Dropped);
        dropped.store(dropped.load(Relaxed).wrapping_add(entries), Relaxed);
    }

    /// How the session fares; `None` when no consistent view was to be had.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        let sequence = self.map.word(Word::Sequence);
        for _ in 0..STATISTICS_TRIES {
            let before = sequence.load(Acquire);
            let words = self.map.statistics().each_ref().map(|word| u64::from_le(word.load(Relaxed)));
            fence(Acquire);
            if before.is_multiple_of(2) && sequence.load(Relaxed) == before {
                return Some(Statistics::from_words(words));
            }
            std::hint::spin_loop();
        }
        None
    }

    /// The entries that are still in the ring, the newest first, whether the consumer has read them or not:
    /// what a client may send again to another service.
    pub fn newest_first(&self) -> impl Iterator<Item = Entry> + '_ {
        let oldest = self.next.saturating_sub(u64::from(self.capacity()));
        (oldest..self.next).rev().filter_map(|position| Entry::from_words(self.map.load(position)).ok())
    }
}

/// The service's half.
#[derive(Debug)]
pub struct Consumer {
    map: Mapping,
    head: u64,
    /// Of the statistics; kept here, as a client may write what it likes.
    sequence: u64,
}

impl Consumer {
    /// Maps the memory that came with a greeting. The descriptor may be closed afterwards.
    ///
    /// # Errors
    /// When the memory is not sealed, not of the size of `entries`, or of a kind that may fault.
    pub fn open(memory: impl AsFd, entries: u32) -> Result<Consumer, RingError> {
        Ok(Consumer { map: Mapping::open(memory.as_fd(), entries)?, head: 0, sequence: 0 })
    }

    /// Entries that the ring holds.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.map.entries()
    }

    /// Where the next entry will be read.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Where the entries end at present. Read it before the socket, and the entries afterwards: then the
    /// files that they name are known.
    ///
    /// # Errors
    /// [`RingError::Corrupt`] when the client's tail is impossible.
    pub fn tail(&self) -> Result<u64, RingError> {
        let tail = self.map.word(Word::Tail).load(Acquire);
        match tail.checked_sub(self.head) {
            Some(waiting) if waiting <= u64::from(self.capacity()) => Ok(tail),
            _ => Err(RingError::Corrupt { head: self.head, tail }),
        }
    }

    /// Takes the next entry before `tail` (from [`Consumer::tail`]), if there is one. Its slot is free again
    /// after [`Consumer::release`].
    pub fn take(&mut self, tail: u64) -> Option<Result<Entry, EntryError>> {
        if self.head >= tail {
            return None;
        }
        let words = self.map.load(self.head);
        self.head += 1;
        Some(Entry::from_words(words))
    }

    /// Gives the slots of the entries taken so far back to the client.
    pub fn release(&self) {
        self.map.word(Word::Head).store(self.head, Release);
    }

    /// Announces that nobody will look at the ring until the bell rings. Returns whether the consumer may
    /// sleep: not when there is something to read.
    #[must_use = "there may be something to read"]
    pub fn sleep(&self) -> bool {
        let sleeps = self.map.word(Word::Sleeps);
        sleeps.store(1, Relaxed);
        fence(std::sync::atomic::Ordering::SeqCst);
        let nothing = self.map.word(Word::Tail).load(Acquire) == self.head;
        if !nothing {
            sleeps.store(0, Relaxed);
        }
        nothing
    }

    /// Announces that the ring is being looked at, so that nobody need ring.
    pub fn wake(&self) {
        self.map.word(Word::Sleeps).store(0, Relaxed);
    }

    /// Entries that the client says to have dropped for want of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.map.word(Word::Dropped).load(Relaxed)
    }

    /// Shows the client how it fares.
    pub fn publish(&mut self, statistics: &Statistics) {
        let sequence = self.map.word(Word::Sequence);
        sequence.store(self.sequence.wrapping_add(1), Relaxed);
        fence(Release);
        let words: [u64; WORDS] = statistics.to_words();
        for (word, value) in self.map.statistics().iter().zip(words) {
            word.store(value.to_le(), Relaxed);
        }
        self.sequence = self.sequence.wrapping_add(2);
        sequence.store(self.sequence, Release);
    }
}
