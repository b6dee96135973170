//! A list of blocks in order of recency, as an array of places.
//!
//! Place `p` holds a block or nothing, which a bit says; a block remembers its place. Touching a block empties its old
//! place and appends a new one, swapping two blocks exchanges what their places hold, and both ends are
//! found by walking over empty places, which are then given up for good. When the array is full the
//! blocks are moved together, which pays for itself: it happens at most once in a third as many
//! operations as there are blocks.
//!
//! What costs is memory that is far away. A linked list takes four dependent cache misses a touch. Here a touch sets a
//! bit, of which a million blocks have 256 KiB, and stores to the end of the array. When blocks that lie in no order are moved
//! together, they are told their places in the order of their numbers, one record after the other.

/// No block, or no place.
pub(crate) const NONE: u32 = u32::MAX;

/// Places kept even for an empty list.
const MIN_PLACES: usize = 64;

/// Places of a word of bits.
const WORD: usize = u64::BITS as usize;

/// Blocks that are told their places as they come: their records lie in the nearest cache.
const FEW: usize = 4096;

/// The next block is near if its number is no further away than this: its record is in the same page, or about to be.
const NEAR: u32 = 64;

/// The numbers of blocks may be this many times as many as the blocks, for them to be put in order.
const SPREAD: usize = 4;

/// Blocks ordered from least to most recently used. The caller stores the place of each block and
/// passes a closure `moved(block, place)` where an operation may change the places of others.
#[derive(Debug, Default)]
pub(crate) struct RecencyList {
    places: Vec<u32>,
    /// A bit a place from `head` to `tail`: is it empty? What it holds means nothing then. No other bit is set.
    empty: Vec<u64>,
    /// First place that may be in use.
    head: usize,
    /// One past the last place that may be in use.
    tail: usize,
    len: usize,
}

impl RecencyList {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a block that is not in the list at the most recently used end; gives its place.
    pub(crate) fn push_back(&mut self, block: u32, moved: impl FnMut(u32, u32)) -> u32 {
        self.reserve_one();
        self.append(block, moved)
    }

    /// Adds a block that is not in the list at the least recently used end; gives its place.
    pub(crate) fn push_front(&mut self, block: u32, moved: impl FnMut(u32, u32)) -> u32 {
        self.reserve_one();
        if self.head == 0 {
            self.gather(moved);
        }
        self.head -= 1;
        self.places[self.head] = block;
        self.len += 1;
        self.head as u32
    }

    /// Moves a block, which is at `place`, to the most recently used end; gives its new place. Never allocates, but to move
    /// all blocks together.
    #[inline]
    pub(crate) fn touch(&mut self, block: u32, place: u32, moved: impl FnMut(u32, u32)) -> u32 {
        debug_assert_eq!(self.places[place as usize], block);
        if place as usize + 1 == self.tail {
            return place;
        }
        if place as usize == self.head {
            self.head += 1;
        } else {
            self.set_empty(place as usize);
        }
        self.push(block, moved)
    }

    /// Takes the block at `place` out.
    pub(crate) fn remove(&mut self, place: u32) {
        let place = place as usize;
        debug_assert!(!self.is_empty(place));
        self.len -= 1;
        if self.len == 0 {
            // Start over: room at both ends without moving anything.
            self.fill(self.head, self.tail);
            self.head = self.start(0);
            self.tail = self.head;
        } else if place + 1 == self.tail {
            self.tail = place;
        } else if place == self.head {
            self.head += 1;
        } else {
            self.set_empty(place);
        }
    }

    /// Exchanges the blocks at two places; the caller exchanges the places that it remembers.
    pub(crate) fn swap(&mut self, a: u32, b: u32) {
        self.places.swap(a as usize, b as usize);
    }

    /// Gives the memory of an empty list back.
    pub(crate) fn release_memory(&mut self) {
        if self.len == 0 {
            *self = RecencyList::default();
        }
    }

    /// The least recently used block.
    pub(crate) fn front(&mut self) -> Option<u32> {
        let head = self.taken_from(self.head)?;
        if self.head < head {
            self.fill(self.head, head);
            self.head = head;
        }
        Some(self.places[head])
    }

    /// The most recently used block.
    pub(crate) fn back(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let tail = self.tail;
        while self.is_empty(self.tail - 1) {
            self.tail -= 1;
        }
        if self.tail < tail {
            self.fill(self.tail, tail);
        }
        Some(self.places[self.tail - 1])
    }

    /// The first block at `place` or behind it for which `wanted` holds, its place, and how many empty places were
    /// walked over.
    pub(crate) fn find_from(&self, place: u32, wanted: impl Fn(u32) -> bool) -> (Option<u32>, u32, usize) {
        let from = self.head.max(place as usize).min(self.tail);
        let (mut at, mut seen) = (from, 0);
        while let Some(next) = self.taken_from(at) {
            let block = self.places[next];
            if wanted(block) {
                return (Some(block), next as u32, next - from - seen);
            }
            (at, seen) = (next + 1, seen + 1);
        }
        (None, self.tail as u32, self.tail - from - seen)
    }

    /// Gives up the empty places between blocks.
    pub(crate) fn close_up(&mut self, moved: impl FnMut(u32, u32)) {
        self.gather(moved);
    }

    /// All blocks, least recently used first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        (self.head..self.tail).filter(|&at| !self.is_empty(at)).map(|at| self.places[at])
    }

    #[inline]
    fn append(&mut self, block: u32, moved: impl FnMut(u32, u32)) -> u32 {
        self.len += 1;
        self.push(block, moved)
    }

    #[inline]
    fn push(&mut self, block: u32, moved: impl FnMut(u32, u32)) -> u32 {
        if self.tail == self.places.len() {
            self.gather(moved);
        }
        self.places[self.tail] = block;
        self.tail += 1;
        (self.tail - 1) as u32
    }

    #[inline]
    fn set_empty(&mut self, place: usize) {
        self.empty[place / WORD] |= 1 << (place % WORD);
    }

    #[inline]
    fn is_empty(&self, place: usize) -> bool {
        self.empty[place / WORD] & (1 << (place % WORD)) != 0
    }

    /// No place from here to there, none of which is in use any more, is marked as empty.
    fn fill(&mut self, from: usize, to: usize) {
        let words = from / WORD..to.div_ceil(WORD);
        let (low, high) = (!(u64::MAX << (from % WORD)), !(u64::MAX >> ((WORD - to % WORD) % WORD)));
        let last = words.end.saturating_sub(1);
        for at in words {
            let first = if at == from / WORD { low } else { 0 };
            let end = if at == last { high } else { 0 };
            self.empty[at] &= first | end;
        }
    }

    /// The first place at or behind this one at which a block is.
    fn taken_from(&self, place: usize) -> Option<usize> {
        if place >= self.tail {
            return None;
        }
        let mut at = place / WORD;
        let mut word = !self.empty[at] & (u64::MAX << (place % WORD));
        while word == 0 {
            at += 1;
            word = !*self.empty.get(at)?;
        }
        let found = at * WORD + word.trailing_zeros() as usize;
        (found < self.tail).then_some(found)
    }

    /// Makes the array large enough for one more block: between one and a half and two places a block, so that
    /// blocks are moved together at most once in a third as many operations as there are blocks.
    #[inline]
    fn reserve_one(&mut self) {
        let least = (self.len + 1) * 3 / 2;
        if least > self.places.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let wanted = ((self.len + 1) * 2).max(MIN_PLACES);
        if self.places.is_empty() {
            self.head = wanted / 8;
            self.tail = self.head;
        }
        // Not more than wanted, as growing by pushing would.
        self.places.reserve_exact(wanted - self.places.len());
        self.places.resize(wanted, NONE);
        let words = wanted.div_ceil(WORD);
        self.empty.reserve_exact(words - self.empty.len());
        self.empty.resize(words, 0);
    }

    /// Where the first of so many blocks lies after they have been moved together: a quarter of the free places
    /// in front of it, as blocks come at the end more often.
    fn start(&self, blocks: usize) -> usize {
        (self.places.len() - blocks) / 4
    }

    /// Moves all blocks together.
    #[inline(never)]
    fn gather(&mut self, mut moved: impl FnMut(u32, u32)) {
        let (mut to, mut far, mut most, mut last) = (0, 0, 0, 0);
        let mut from = self.head;
        while let Some(at) = self.taken_from(from) {
            // As far as no other one is empty.
            let run = (!self.empty[at / WORD] >> (at % WORD)).trailing_ones() as usize;
            let end = (at + run.max(1)).min(self.tail);
            for place in at..end {
                let block = self.places[place];
                self.places[to] = block;
                to += 1;
                far += usize::from(block.abs_diff(last) > NEAR);
                (most, last) = (most.max(block), block);
            }
            from = end;
        }
        self.fill(self.head, self.tail);
        let start = self.start(to);
        self.places.copy_within(..to, start);
        (self.head, self.tail) = (start, start + to);
        let blocks = (start as u32..).zip(&self.places[start..start + to]);
        if to <= FEW || far < to / 4 || most as usize / SPREAD >= to {
            blocks.for_each(|(place, &block)| moved(block, place));
            return;
        }
        // By number, and one more than the place: 0 of a number that is none of them.
        let mut ordered = vec![0u32; most as usize + 1];
        blocks.for_each(|(place, &block)| ordered[block as usize] = place + 1);
        for (block, &place) in (0..).zip(&ordered) {
            if place != 0 {
                moved(block, place - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Op {
        PushBack,
        PushFront,
        Touch(usize),
        Remove(usize),
        Swap(usize, usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => Just(Op::PushBack),
            1 => Just(Op::PushFront),
            6 => (0..64usize).prop_map(Op::Touch),
            2 => (0..64usize).prop_map(Op::Remove),
            1 => (0..64usize, 0..64usize).prop_map(|(a, b)| Op::Swap(a, b)),
        ]
    }

    #[test]
    fn a_block_takes_at_most_two_places_however_many_there_are() {
        let mut list = RecencyList::default();
        let mut places = vec![NONE; 100_000];
        for block in 0..100_000 {
            let place = list.push_back(block, |b, p| places[b as usize] = p);
            places[block as usize] = place;
            let most = (2 * list.len()).max(MIN_PLACES);
            assert!(list.places.capacity() <= most, "{} for {}", list.places.capacity(), list.len());
        }
        assert!(list.iter().eq(0..100_000));
    }

    #[test]
    fn many_blocks_in_no_order_stay_in_their_order_when_they_are_moved_together() {
        const BLOCKS: u32 = 3 * FEW as u32;
        // One after the other; with gaps; with too many numbers for them to be put in order.
        for gap in [1, 3, 9] {
            let mut list = RecencyList::default();
            let mut places = vec![NONE; (BLOCKS * gap) as usize];
            let mut last = vec![0; BLOCKS as usize];
            for at in 0..BLOCKS {
                let place = list.push_back(at * gap, |b, p| places[b as usize] = p);
                places[(at * gap) as usize] = place;
                last[at as usize] = at;
            }
            for step in BLOCKS..5 * BLOCKS {
                let at = (step.wrapping_mul(0x9e37_79b1) >> 8) % BLOCKS;
                let place = places[(at * gap) as usize];
                let place = list.touch(at * gap, place, |b, p| places[b as usize] = p);
                places[(at * gap) as usize] = place;
                last[at as usize] = step;
            }
            let mut expected: Vec<u32> = (0..BLOCKS).collect();
            expected.sort_by_key(|&at| last[at as usize]);
            assert!(list.iter().eq(expected.iter().map(|at| at * gap)), "{gap}");
            let there = |at: u32| list.places[places[(at * gap) as usize] as usize];
            assert!((0..BLOCKS).all(|at| there(at) == at * gap), "{gap}");
        }
    }

    proptest! {
        /// Every operation does what it does on a plain vector.
        #[test]
        fn behaves_as_a_vector(ops in prop::collection::vec(op(), 0..600)) {
            let mut list = RecencyList::default();
            let mut places = vec![NONE; 1000];
            let mut naive: Vec<u32> = Vec::new();
            let mut next = 0u32;
            for op in ops {
                match op {
                    Op::PushBack => {
                        let place = list.push_back(next, |b, p| places[b as usize] = p);
                        places[next as usize] = place;
                        naive.push(next);
                        next += 1;
                    }
                    Op::PushFront => {
                        let place = list.push_front(next, |b, p| places[b as usize] = p);
                        places[next as usize] = place;
                        naive.insert(0, next);
                        next += 1;
                    }
                    Op::Touch(i) if !naive.is_empty() => {
                        let block = naive.remove(i % naive.len());
                        naive.push(block);
                        let at = places[block as usize];
                        let place = list.touch(block, at, |b, p| places[b as usize] = p);
                        places[block as usize] = place;
                    }
                    Op::Remove(i) if !naive.is_empty() => {
                        let block = naive.remove(i % naive.len());
                        list.remove(places[block as usize]);
                    }
                    Op::Swap(i, j) if !naive.is_empty() => {
                        let (i, j) = (i % naive.len(), j % naive.len());
                        let (a, b) = (naive[i] as usize, naive[j] as usize);
                        naive.swap(i, j);
                        list.swap(places[a], places[b]);
                        places.swap(a, b);
                    }
                    _ => {}
                }
                prop_assert_eq!(list.iter().collect::<Vec<_>>(), naive.clone());
                prop_assert_eq!(list.front(), naive.first().copied());
                prop_assert_eq!(list.back(), naive.last().copied());
                prop_assert_eq!(list.len(), naive.len());
            }
        }
    }
}
