//! The board: what the slots hold, and what readers left behind. Atomic words that several processes see.

use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use rustix::mm::ProtFlags;

use super::mapping::Mapping;

/// Lanes of the pool's own process: threads that read at the same instant.
pub(super) const LOCAL_LANES: u32 = 64;
/// Lanes of a guest.
pub(crate) const GUEST_LANES: u32 = 8;
/// Guests that have lanes; those beyond read by their socket alone.
pub(super) const MOST_GUESTS: u32 = 64;
pub(super) const LANES: u32 = LOCAL_LANES + MOST_GUESTS * GUEST_LANES;
/// References that a lane holds: half of them may be left before anybody is to know, and who reads on meanwhile finds room.
const LANE_REFERENCES: u64 = 1024;
pub(crate) const RELAXED: u64 = LANE_REFERENCES / 2;
/// Parts of which a thread knows when it has left a reference last.
const RECENTLY: usize = 512;
/// Parts of one read that is answered without the lock. Beyond, to take it costs little.
pub(crate) const MOST_READ_PARTS: u32 = 32;

/// Serial number of an object, then part and length.
const HEADER_WORDS: usize = 2;
/// A cache line of slots. With two parts a bucket on average one in some thousands finds its bucket full; it is then found
/// under the lock alone.
const WAYS: usize = 8;
/// Slot that is being read, tail, head, and parts that were read without a reference: the rest of the line is nobody's.
const LANE_WORDS: usize = 8;
const REFERENCE_WORDS: usize = 5;

/// What the sizes of the board follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) slots: u32,
    /// Parts in the budget.
    pub(crate) parts: u32,
    pub(crate) part_bytes: u32,
}

impl Shape {
    fn buckets(self) -> usize {
        (self.parts as usize / 2).next_power_of_two()
    }

    fn index_at(self) -> usize {
        // On a cache line, behind the one of the board itself.
        WAYS + (self.slots as usize * HEADER_WORDS).next_multiple_of(WAYS)
    }

    fn lanes_at(self) -> usize {
        self.index_at() + self.buckets() * WAYS
    }

    fn references_at(self) -> usize {
        self.lanes_at() + LANES as usize * LANE_WORDS
    }

    pub(super) fn board_bytes(self) -> usize {
        (self.references_at() + LANES as usize * LANE_REFERENCES as usize * REFERENCE_WORDS) * 8
    }

    /// `None` if no address reaches so far.
    pub(super) fn data_bytes(self) -> Option<usize> {
        let bytes = (self.slots as usize).checked_mul(self.part_bytes as usize)?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }
}

thread_local! {
    /// What this thread has left last, of each of some parts, and in which tick.
    static RECENT: [Cell<u64>; RECENTLY] = const { [const { Cell::new(0) }; RECENTLY] };
}

/// What is to be done about the references in a lane after one more was left there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tell {
    Nothing,
    /// Some thread of the pool is to tell the engine of them.
    Soon,
    /// The planner waits for them.
    Now,
}

/// A read that was answered without the pool's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reference {
    /// The object.
    pub(crate) serial: u64,
    pub(crate) first: u32,
    pub(crate) parts: u32,
    /// When, by the system's clock.
    pub(crate) at_ns: u64,
    /// What the thread had computed since its last read, if it had one.
    pub(crate) compute_ns: Option<u64>,
    /// Which thread it was.
    pub(crate) reader: u64,
}

#[derive(Debug)]
pub(super) struct Board {
    words: Mapping,
    shape: Shape,
    /// Tells it from others of this process.
    number: u64,
}

impl Board {
    pub(super) fn create(shape: Shape) -> io::Result<(Board, OwnedFd)> {
        let (words, memory) = Mapping::create(c"foretell-board", shape.board_bytes())?;
        Ok((Board::of(words, shape), memory))
    }

    pub(super) fn open(memory: BorrowedFd<'_>, shape: Shape) -> io::Result<Board> {
        let words = Mapping::open(memory, shape.board_bytes(), ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Board::of(words, shape))
    }

    fn of(words: Mapping, shape: Shape) -> Board {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Board { words, shape, number: NUMBERS.fetch_add(1, Relaxed) }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// References that a lane may have until somebody is to be told.
    #[inline]
    pub(super) fn told_at(&self) -> u64 {
        let [told_at] = self.words.words(0);
        told_at.load(Relaxed).clamp(1, RELAXED)
    }

    pub(super) fn set_told_at(&self, references: u64) {
        let [told_at] = self.words.words(0);
        if told_at.load(Relaxed) != references {
            told_at.store(references, Relaxed);
        }
    }

    // ---- slots and their index ----

    #[inline]
    fn header(&self, slot: u32) -> &[AtomicU64; HEADER_WORDS] {
        self.words.words(WAYS + slot as usize * HEADER_WORDS)
    }

    /// The ways of a part's bucket, and how the part is marked there.
    #[inline]
    fn bucket(&self, hash: u64) -> (&[AtomicU64; WAYS], u64) {
        let bucket = (hash as usize) & (self.shape.buckets() - 1);
        (self.words.words(self.shape.index_at() + bucket * WAYS), hash & !0xffff_ffff)
    }

    /// A slot that may hold a part. It does if [`Board::holds`] says so while the slot is kept from being filled anew.
    #[inline]
    pub(super) fn find(&self, serial: u64, part: u32) -> Option<u32> {
        let (ways, mark) = self.bucket(hash(serial, part));
        ways.iter().find_map(|way| {
            let way = way.load(Acquire);
            let slot = (way as u32).checked_sub(1)?;
            let may = way & !0xffff_ffff == mark
                && slot < self.shape.slots
                && self.header(slot)[0].load(Relaxed) == serial
                && self.header(slot)[1].load(Relaxed) >> 32 == u64::from(part);
            may.then_some(slot)
        })
    }

    /// The length of a part, if it is what the slot holds.
    #[inline]
    pub(super) fn holds(&self, slot: u32, serial: u64, part: u32) -> Option<u32> {
        let [of, which] = self.header(slot);
        if of.load(SeqCst) != serial {
            return None;
        }
        let which = which.load(Relaxed);
        (which >> 32 == u64::from(part)).then_some((which as u32).min(self.shape.part_bytes))
    }

    /// Has a slot that was filled be found.
    pub(super) fn publish(&self, slot: u32, serial: u64, part: u32, length: u32) {
        let [of, which] = self.header(slot);
        which.store(u64::from(part) << 32 | u64::from(length), Relaxed);
        of.store(serial, SeqCst);
        let (ways, mark) = self.bucket(hash(serial, part));
        if let Some(free) = ways.iter().find(|way| way.load(Relaxed) == 0) {
            free.store(mark | (u64::from(slot) + 1), Release);
        }
    }

    /// The slot is not found any more.
    pub(super) fn withdraw(&self, slot: u32) {
        let [of, which] = self.header(slot);
        let serial = of.load(Relaxed);
        if serial == 0 {
            return;
        }
        let (ways, mark) = self.bucket(hash(serial, (which.load(Relaxed) >> 32) as u32));
        let mine = mark | (u64::from(slot) + 1);
        if let Some(way) = ways.iter().find(|way| way.load(Relaxed) == mine) {
            way.store(0, Relaxed);
        }
        of.store(0, SeqCst);
    }

    /// The slot holds nothing any more, whether or not it was withdrawn.
    pub(super) fn forget(&self, slot: u32) {
        self.header(slot)[0].store(0, SeqCst);
    }

    // ---- lanes ----

    #[inline]
    fn lane(&self, lane: u32) -> &[AtomicU64; LANE_WORDS] {
        self.words.words(self.shape.lanes_at() + lane as usize * LANE_WORDS)
    }

    #[inline]
    fn place(&self, lane: u32, position: u64) -> &[AtomicU64; REFERENCE_WORDS] {
        let within = (position % LANE_REFERENCES) as usize;
        let place = lane as usize * LANE_REFERENCES as usize + within;
        self.words.words(self.shape.references_at() + place * REFERENCE_WORDS)
    }

    /// A guest's thread reads this slot from now on, or none.
    #[inline]
    pub(super) fn set_reading(&self, lane: u32, slot: Option<u32>) {
        match slot {
            Some(slot) => self.lane(lane)[0].store(u64::from(slot) + 1, SeqCst),
            None => self.lane(lane)[0].store(0, Release),
        }
    }

    /// The slot that is read by way of a lane.
    pub(super) fn reading(&self, lane: u32) -> Option<u32> {
        (self.lane(lane)[0].load(SeqCst) as u32).checked_sub(1)
    }

    /// How many references of a lane nobody has taken yet.
    #[inline]
    fn untold(&self, lane: u32) -> u64 {
        let [_, tail, head, ..] = self.lane(lane);
        tail.load(Relaxed).wrapping_sub(head.load(Acquire))
    }

    fn has_room(&self, lane: u32) -> bool {
        self.untold(lane) < LANE_REFERENCES
    }

    /// May a read be answered by way of this lane? Where its reference finds no room it may if nobody waits for that.
    #[inline]
    pub(super) fn may_read(&self, lane: u32) -> bool {
        self.has_room(lane) || self.told_at() == RELAXED
    }

    /// Has this thread left a reference to the same part in the same tick? From now on it has.
    #[inline]
    fn is_repeated(&self, reference: Reference, slot: u32) -> bool {
        // What is taken for another one by chance is a reference that nobody misses.
        let mark = (self.number << 32 ^ u64::from(reference.first))
            .wrapping_add(reference.serial.wrapping_mul(0xbf58_476d_1ce4_e5b9))
            .wrapping_add(reference.at_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // By the slot: what is filled one after the other does not meet there.
        RECENT.with(|recent| recent[slot as usize % RECENTLY].replace(mark) == mark)
    }

    /// Leaves a reference where there is room, and otherwise only counts its parts. The slot is that of its last part.
    #[inline]
    pub(super) fn leave(&self, lane: u32, reference: Reference, slot: u32) -> Tell {
        let told_at = self.told_at();
        let is_repeated = told_at == RELAXED && reference.parts == 1 && self.is_repeated(reference, slot);
        if is_repeated || !self.has_room(lane) {
            let [_, _, _, passed, ..] = self.lane(lane);
            passed.store(passed.load(Relaxed).wrapping_add(reference.parts.into()), Relaxed);
            return Tell::Nothing;
        }
        self.push(lane, reference);
        let untold = self.untold(lane);
        match told_at {
            // They have been taken since.
            _ if untold == 0 => Tell::Nothing,
            // A power of two: no division.
            RELAXED if untold.is_multiple_of(RELAXED) => Tell::Soon,
            RELAXED => Tell::Nothing,
            _ if untold.is_multiple_of(told_at) => Tell::Now,
            _ => Tell::Nothing,
        }
    }

    #[inline]
    fn push(&self, lane: u32, reference: Reference) {
        let [_, tail, ..] = self.lane(lane);
        let position = tail.load(Relaxed);
        let words = [
            reference.serial,
            u64::from(reference.first) << 32 | u64::from(reference.parts),
            reference.at_ns,
            reference.compute_ns.unwrap_or(u64::MAX),
            reference.reader,
        ];
        for (place, word) in self.place(lane, position).iter().zip(words) {
            place.store(word, Relaxed);
        }
        tail.store(position.wrapping_add(1), Release);
    }

    /// Parts that were only counted, since the lane was new. Where a guest writes what it likes the number is any.
    pub(super) fn passed(&self, lane: u32) -> u64 {
        let [_, _, _, passed, ..] = self.lane(lane);
        passed.load(Relaxed)
    }

    /// Takes what a lane has, from the position that `head` counts. What cannot be is passed over: guests write here.
    pub(super) fn take(&self, lane: u32, head: &mut u64, mut each: impl FnMut(Reference)) {
        let [_, tail, published, ..] = self.lane(lane);
        let tail = tail.load(Acquire);
        let count = tail.wrapping_sub(*head);
        if count == 0 {
            return;
        }
        if count <= LANE_REFERENCES {
            for position in (0..count).map(|at| head.wrapping_add(at)) {
                let [serial, which, at_ns, compute_ns, reader] = self.place(lane, position);
                let which = which.load(Relaxed);
                let (first, parts) = ((which >> 32) as u32, which as u32);
                if (1..=MOST_READ_PARTS).contains(&parts) {
                    each(Reference {
                        serial: serial.load(Relaxed),
                        first,
                        parts,
                        at_ns: at_ns.load(Relaxed),
                        compute_ns: Some(compute_ns.load(Relaxed)).filter(|&ns| ns != u64::MAX),
                        reader: reader.load(Relaxed),
                    });
                }
            }
        }
        *head = tail;
        published.store(tail, Release);
    }
}

#[inline]
fn hash(serial: u64, part: u32) -> u64 {
    // Fibonacci hashing; the two halves are as good as independent.
    let hash = (serial ^ (u64::from(part) << 32 | u64::from(part))).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(parts: u32) -> Board {
        Board::create(Shape { slots: 4 * parts, parts, part_bytes: 4096 }).unwrap().0
    }

    #[test]
    fn a_slot_is_found_from_when_it_is_published_until_it_is_withdrawn() {
        let board = board(64);
        assert_eq!(board.find(7, 3), None);
        board.publish(5, 7, 3, 100);
        assert_eq!(board.find(7, 3), Some(5));
        assert_eq!(
            (board.holds(5, 7, 3), board.holds(5, 7, 4), board.holds(5, 8, 3)),
            (Some(100), None, None)
        );
        board.withdraw(5);
        board.withdraw(5);
        assert_eq!((board.find(7, 3), board.holds(5, 7, 3)), (None, None));
    }

    #[test]
    fn what_finds_its_bucket_full_is_not_found_and_harms_nobody() {
        // One bucket for all.
        let board = board(2);
        for slot in 0..8 {
            board.publish(slot, 1, slot, 1);
        }
        board.withdraw(7);
        board.publish(7, 2, 0, 1);
        let ways = board.words.words::<WAYS>(board.shape.index_at());
        assert!(ways.iter().all(|way| way.load(Relaxed) != 0));
        // Slots 0 to 7 are all there are; a part of a ninth would find no way.
        let ninth = Shape { slots: 9, ..board.shape };
        let board = Board::create(ninth).unwrap().0;
        for slot in 0..9 {
            board.publish(slot, 1, slot, 1);
        }
        assert_eq!((0..9).filter(|&part| board.find(1, part).is_some()).count(), WAYS);
        for slot in 0..9 {
            board.withdraw(slot);
        }
        assert_eq!((0..9).filter(|&part| board.find(1, part).is_some()).count(), 0);
    }

    #[test]
    fn what_finds_a_lane_full_is_counted_where_nobody_waits_and_refused_where_somebody_does() {
        let board = board(4);
        let one = Reference { serial: 3, parts: 2, ..Reference::default() };
        board.set_told_at(RELAXED);
        let told = (1..=LANE_REFERENCES + 3).filter(|_| {
            assert!(board.may_read(0));
            board.leave(0, one, one.first) == Tell::Soon
        });
        assert_eq!(told.count() as u64, LANE_REFERENCES / RELAXED);
        assert_eq!(board.passed(0), 2 * 3);
        board.set_told_at(100);
        assert!(!board.may_read(0));
        let mut head = 0;
        let mut taken = 0;
        board.take(0, &mut head, |_| taken += 1);
        assert_eq!(taken, LANE_REFERENCES);
        let told = (1..=250).filter(|_| board.leave(0, one, one.first) == Tell::Now).count();
        assert_eq!((told, board.may_read(0)), (2, true));
    }

    #[test]
    fn of_one_part_in_one_tick_a_thread_leaves_one_reference_where_nobody_waits() {
        let board = board(4);
        board.set_told_at(RELAXED);
        let of = |first, at_ns| Reference { serial: 3, first, parts: 1, at_ns, ..Reference::default() };
        let mut head = 0;
        let mut left = |board: &Board, references: &[Reference]| {
            let before = board.passed(0);
            references.iter().for_each(|&one| _ = board.leave(0, one, one.first));
            let mut taken = Vec::new();
            board.take(0, &mut head, |one| taken.push((one.first, one.at_ns)));
            (taken, board.passed(0) - before)
        };
        let repeated = [of(1, 5), of(2, 5), of(1, 5), of(1, 5), of(1, 9), of(2, 9), of(2, 9)];
        assert_eq!(left(&board, &repeated), (vec![(1, 5), (2, 5), (1, 9), (2, 9)], 3));
        // Another pool, and another thread.
        let other = Board::create(board.shape).unwrap().0;
        other.set_told_at(RELAXED);
        other.leave(0, of(2, 9), 2);
        assert_eq!((other.untold(0), other.passed(0)), (1, 0));
        std::thread::scope(|scope| scope.spawn(|| board.leave(0, of(1, 9), 1)).join().unwrap());
        assert_eq!(left(&board, &[]), (vec![(1, 9)], 0));
        board.set_told_at(100);
        assert_eq!(left(&board, &[of(2, 9); 2]), (vec![(2, 9); 2], 0));
    }

    #[test]
    fn a_lane_gives_what_it_was_given_and_refuses_what_cannot_be() {
        let board = board(4);
        let (mut head, lane) = (0, LANES - 1);
        let of =
            |first| Reference { serial: 3, first, parts: 1, compute_ns: Some(5), ..Reference::default() };
        for round in (0..30).chain([1000, 1024, 1100]) {
            for first in 0..round {
                assert_eq!(board.has_room(lane), u64::from(first) < LANE_REFERENCES);
                if board.has_room(lane) {
                    board.push(lane, of(first));
                }
            }
            let mut got = Vec::new();
            board.take(lane, &mut head, |reference| got.push(reference));
            assert_eq!(got, (0..round.min(LANE_REFERENCES as u32)).map(of).collect::<Vec<_>>());
        }
        // A guest that has gone mad.
        board.push(lane, Reference { parts: u32::MAX, ..of(0) });
        board.push(lane, Reference { parts: 0, ..of(0) });
        board.take(lane, &mut head, |reference| panic!("{reference:?}"));
        board.lane(lane)[1].store(head + 10_000, Relaxed);
        board.take(lane, &mut head, |reference| panic!("{reference:?}"));
        assert!(board.has_room(lane));
    }
}
