//! Blocks that were loaded and have not been referenced yet, in the order in which they were loaded.
//!
//! Most are the kernel's readahead, and a reader is about to come for the first of them. Others nobody comes for. Which it
//! is shows where they are referenced: a reader takes the first one, over and over. While one of the last
//! [`REFERENCES`] to arriving blocks was to the first of many, they may fill nearly all of the cache, and beyond that the
//! last loaded goes, which is needed latest. Once the first is passed over, no more than half of the cache is theirs, and it
//! goes first.
//!
//! (Linux has read ahead 8 MiB at a time since 6.18, and keeps two of these windows ahead of a reader. In a cache of 30 MiB that
//! is more than half, and giving up the first one had the reader fetch each block itself.)

use crate::blocks::BlockId;
use crate::recency::RecencyList;

/// References to arriving blocks after which the first one counts as passed over, if none of them was to it. A few readers
/// in turn, each with reads of half a MiB.
const REFERENCES: u32 = 256;
/// Arriving blocks may fill the cache divided by this when the first is passed over: of two windows ahead of a reader
/// nobody should read so much.
const PASSED_SHARE: u32 = 2;
/// All of the cache but this part of it, while somebody reads them. They are many when they fill this part: of few the
/// first one is referenced by chance.
const LEFT_SHARE: u32 = 8;

#[derive(Debug)]
pub(super) struct Arriving {
    pub(super) list: RecencyList,
    pub(super) cache_blocks: u32,
    /// References to others since the first of many was referenced.
    since_first: u32,
}

impl Arriving {
    pub(super) fn new(cache_blocks: u32) -> Arriving {
        Arriving { list: RecencyList::default(), cache_blocks, since_first: REFERENCES }
    }

    fn is_read(&self) -> bool {
        self.since_first < REFERENCES
    }

    /// Are they more than may be?
    pub(super) fn are_too_many(&self) -> bool {
        let most = if self.is_read() {
            self.cache_blocks - self.cache_blocks / LEFT_SHARE
        } else {
            self.cache_blocks / PASSED_SHARE
        };
        self.list.len() > most.max(1) as usize
    }

    /// The one to give up: the one that is needed latest while somebody reads them, and else the one that has waited
    /// longest.
    pub(super) fn victim(&mut self) -> Option<BlockId> {
        if self.is_read() { self.list.back() } else { self.list.front() }
    }

    /// One of them is referenced; it is in the list still.
    pub(super) fn referenced(&mut self, b: BlockId) {
        let are_many = self.list.len() > (self.cache_blocks / LEFT_SHARE) as usize;
        let is_first = are_many && self.list.front() == Some(b);
        self.since_first = if is_first { 0 } else { self.since_first.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks `0..count` in a cache of 16, and their places.
    fn loaded(count: u32) -> (Arriving, Vec<u32>) {
        let mut arriving = Arriving::new(16);
        let places = (0..count).map(|b| arriving.list.push_back(b, |_, _| unreachable!())).collect();
        (arriving, places)
    }

    #[test]
    fn while_a_reader_takes_the_first_the_last_goes() {
        let (mut arriving, places) = loaded(15);
        assert_eq!((arriving.are_too_many(), arriving.victim()), (true, Some(0)), "nobody has come yet");
        arriving.referenced(0);
        assert_eq!((arriving.are_too_many(), arriving.victim()), (true, Some(14)));
        arriving.list.remove(places[0]);
        assert!(!arriving.are_too_many(), "14 of 16");
        arriving.cache_blocks = 14;
        assert!(arriving.are_too_many(), "14 of 14");
    }

    #[test]
    fn once_it_is_passed_over_the_first_goes_and_half_is_left() {
        let (mut arriving, _) = loaded(9);
        arriving.referenced(0);
        (1..REFERENCES).for_each(|_| arriving.referenced(5));
        assert!(!arriving.are_too_many());
        arriving.referenced(5);
        assert!(arriving.are_too_many(), "9 of 16");
        assert_eq!(arriving.victim(), Some(0));
        arriving.referenced(0);
        assert!(!arriving.are_too_many(), "somebody came for it");
    }

    #[test]
    fn of_few_the_first_says_nothing() {
        let (mut arriving, _) = loaded(2);
        arriving.referenced(0);
        assert!(!arriving.is_read());
    }
}
