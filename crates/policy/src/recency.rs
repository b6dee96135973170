//! A list of blocks in order of recency, as an array of places.
//!
//! Place `p` holds a block or nothing; a block remembers its place. Touching a block empties its old
//! place and appends a new one, swapping two blocks exchanges what their places hold, and both ends are
//! found by walking over empty places, which are then given up for good. When the array is full the
//! blocks are moved together, which pays for itself: it happens at most once in a third as many
//! operations as there are blocks. A linked list does the same with four dependent cache misses a touch; this makes
//! one store to the old place and one to the end of the array.

/// No block, or no place.
pub(crate) const NONE: u32 = u32::MAX;

/// Places kept even for an empty list.
const MIN_PLACES: usize = 64;

/// Blocks ordered from least to most recently used. The caller stores the place of each block and
/// passes a closure `moved(block, place)` where an operation may change the places of others.
#[derive(Debug, Default)]
pub(crate) struct RecencyList {
    places: Vec<u32>,
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

    /// Moves the block at `place` to the most recently used end; gives its new place. Never allocates.
    pub(crate) fn touch(&mut self, place: u32, moved: impl FnMut(u32, u32)) -> u32 {
        if place as usize + 1 == self.tail {
            return place;
        }
        let block = self.places[place as usize];
        self.remove(place);
        self.append(block, moved)
    }

    /// Takes the block at `place` out.
    pub(crate) fn remove(&mut self, place: u32) {
        let place = place as usize;
        debug_assert_ne!(self.places[place], NONE);
        self.places[place] = NONE;
        self.len -= 1;
        if self.len == 0 {
            // Start over: room at both ends without moving anything.
            self.head = self.start(0);
            self.tail = self.head;
        } else if place + 1 == self.tail {
            self.tail = place;
        } else if place == self.head {
            self.head += 1;
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
        if self.len == 0 {
            return None;
        }
        while self.places[self.head] == NONE {
            self.head += 1;
        }
        Some(self.places[self.head])
    }

    /// The most recently used block.
    pub(crate) fn back(&mut self) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        while self.places[self.tail - 1] == NONE {
            self.tail -= 1;
        }
        Some(self.places[self.tail - 1])
    }

    /// The first block at `place` or behind it for which `wanted` holds, its place, and how many empty places were
    /// walked over.
    pub(crate) fn find_from(&self, place: u32, wanted: impl Fn(u32) -> bool) -> (Option<u32>, u32, usize) {
        let from = self.head.max(place as usize).min(self.tail);
        let mut empty = 0;
        for (at, &block) in self.places[from..self.tail].iter().enumerate() {
            if block == NONE {
                empty += 1;
            } else if wanted(block) {
                return (Some(block), (from + at) as u32, empty);
            }
        }
        (None, self.tail as u32, empty)
    }

    /// Gives up the empty places between blocks.
    pub(crate) fn close_up(&mut self, moved: impl FnMut(u32, u32)) {
        self.gather(moved);
    }

    /// All blocks, least recently used first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.places[self.head..self.tail].iter().copied().filter(|&b| b != NONE)
    }

    fn append(&mut self, block: u32, moved: impl FnMut(u32, u32)) -> u32 {
        if self.tail == self.places.len() {
            self.gather(moved);
        }
        self.places[self.tail] = block;
        self.tail += 1;
        self.len += 1;
        (self.tail - 1) as u32
    }

    /// Makes the array large enough for one more block: between one and a half and two places a block, so that
    /// blocks are moved together at most once in a third as many operations as there are blocks.
    fn reserve_one(&mut self) {
        let least = (self.len + 1) * 3 / 2;
        if least > self.places.len() {
            let wanted = ((self.len + 1) * 2).max(MIN_PLACES);
            if self.places.is_empty() {
                self.head = wanted / 8;
                self.tail = self.head;
            }
            // Not more than wanted, as growing by pushing would.
            self.places.reserve_exact(wanted - self.places.len());
            self.places.resize(wanted, NONE);
        }
    }

    /// Where the first of so many blocks lies after they have been moved together: a quarter of the free places
    /// in front of it, as blocks come at the end more often.
    fn start(&self, blocks: usize) -> usize {
        (self.places.len() - blocks) / 4
    }

    /// Moves all blocks together.
    fn gather(&mut self, mut moved: impl FnMut(u32, u32)) {
        let mut to = 0;
        for from in self.head..self.tail {
            let block = std::mem::replace(&mut self.places[from], NONE);
            if block != NONE {
                self.places[to] = block;
                to += 1;
            }
        }
        let start = self.start(to);
        self.places.copy_within(..to, start);
        self.places[..start].fill(NONE);
        for place in start..start + to {
            moved(self.places[place], place as u32);
        }
        self.head = start;
        self.tail = start + to;
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
                        let place = list.touch(at, |b, p| places[b as usize] = p);
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
