//! The checksum of an object that comes by several requests: the store gives one of all of it, and none of what is asked for.
//!
//! A CRC of two pieces that lie side by side can be made of theirs (`crc32_combine` of zlib). So each request adds up what it
//! brings, pieces join once they touch, in whatever order they come, and the last one to be missing completes the object's. Each
//! byte counts the first time that it comes: what was given up and is fetched again is not compared any more.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::checksum::{Checksum, Sum};

/// Pieces that lie apart; an object of which more are read here and there is not compared as a whole.
const MOST_PIECES: usize = 1024;

/// What was added up of an object.
pub(crate) struct Running {
    whole: Checksum,
    length: u64,
    /// By where they begin: where they end, and their sums. No two of them touch.
    pieces: BTreeMap<u64, (u64, Sum)>,
}

/// What came of one request, and was not added up before.
pub(crate) struct Pieces {
    whole: Checksum,
    at: u64,
    /// What is missing of what it brings, in order.
    missing: Vec<Range<u64>>,
    sums: Vec<Sum>,
}

impl Running {
    /// `None` where the checksum cannot be made of pieces.
    pub(crate) fn new(whole: &Checksum, length: u64) -> Option<Running> {
        whole.is_of_pieces().then(|| Running { whole: whole.clone(), length, pieces: BTreeMap::new() })
    }

    /// To be told what a request for a range brings.
    pub(crate) fn begin(&self, range: Range<u64>) -> Pieces {
        let mut missing = Vec::new();
        let before = self.pieces.range(..=range.start).next_back();
        let mut at = before.map_or(range.start, |(_, (end, _))| range.start.max(*end));
        for (&start, (end, _)) in self.pieces.range(range.start..range.end) {
            if at < start {
                missing.push(at..start);
            }
            at = at.max(*end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        Pieces { whole: self.whole.clone(), at: range.start, sums: Vec::new(), missing }
    }

    /// All of a request has come. Gives whether the object is as it should be, once all of it has come; `None` before.
    pub(crate) fn add(&mut self, came: Pieces) -> Option<Result<(), String>> {
        for (range, sum) in came.missing.into_iter().zip(came.sums) {
            // Some of it was given up and fetched again, while the request went on.
            if !self.has_some_of(&range) {
                self.add_piece(range, sum);
            }
        }
        let (&0, (end, _)) = self.pieces.first_key_value()? else { return None };
        if *end != self.length {
            return None;
        }
        let (_, (_, sum)) = self.pieces.pop_first()?;
        Some(self.whole.check(sum, &(0..self.length)))
    }

    fn has_some_of(&self, range: &Range<u64>) -> bool {
        self.pieces.range(..range.end).next_back().is_some_and(|(_, (end, _))| *end > range.start)
    }

    fn add_piece(&mut self, range: Range<u64>, mut sum: Sum) {
        let (mut start, mut end) = (range.start, range.end);
        if let Some((_, (its_end, next))) = self.pieces.remove_entry(&end) {
            sum.join(&next);
            end = its_end;
        }
        let before = self.pieces.range(..start).next_back().filter(|(_, (its_end, _))| *its_end == start);
        if let Some(its_start) = before.map(|(&its_start, _)| its_start)
            && let Some((_, mut joined)) = self.pieces.remove(&its_start)
        {
            joined.join(&sum);
            (start, sum) = (its_start, joined);
        }
        self.pieces.insert(start, (end, sum));
    }

    /// Are there more pieces than are kept?
    pub(crate) fn is_too_much(&self) -> bool {
        self.pieces.len() > MOST_PIECES
    }
}

impl Pieces {
    /// The next bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let came = self.at..self.at + bytes.len() as u64;
        for (number, range) in self.missing.iter().enumerate() {
            let (start, end) = (range.start.max(came.start), range.end.min(came.end));
            if start >= end {
                continue;
            }
            if self.sums.len() <= number {
                self.sums.push(self.whole.begin());
            }
            if let Some(sum) = self.sums.get_mut(number) {
                sum.add(&bytes[(start - came.start) as usize..(end - came.start) as usize]);
            }
        }
        self.at = came.end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: u64 = 5000;

    fn content() -> Vec<u8> {
        (0..LENGTH).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    /// CRC-32C of the content, bit by bit.
    fn checksum() -> Checksum {
        let crc =
            content().iter().fold(!0_u32, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
                })
            });
        Checksum::from_parts(1, &(!crc).to_be_bytes()).unwrap()
    }

    fn bring(running: &mut Running, range: Range<u64>, content: &[u8]) -> Option<Result<(), String>> {
        let mut pieces = running.begin(range.clone());
        // However it is cut.
        content[range.start as usize..range.end as usize].chunks(77).for_each(|chunk| pieces.add(chunk));
        running.add(pieces)
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_and_again_come_to_the_checksum_of_all(
            ranges in prop::collection::vec((0..LENGTH, 1..LENGTH), 0..40), wrong in prop::option::of(0..LENGTH),
        ) {
            let mut running = Running::new(&checksum(), LENGTH).unwrap();
            let mut came = vec![false; LENGTH as usize];
            let mut content = content();
            if let Some(at) = wrong {
                content[at as usize] ^= 8;
            }
            let ranges = ranges.into_iter().map(|(start, length)| start..(start + length).min(LENGTH));
            for range in ranges.chain(std::iter::once(0..LENGTH)) {
                let was_all = came.iter().all(|&came| came);
                came[range.start as usize..range.end as usize].fill(true);
                let said = bring(&mut running, range, &content);
                if was_all {
                    return Ok(());
                }
                let is_all = came.iter().all(|&came| came);
                prop_assert_eq!(said.is_some(), is_all);
                if let Some(said) = said {
                    prop_assert_eq!(said.is_ok(), wrong.is_none());
                }
            }
        }
    }

    #[test]
    fn what_comes_twice_at_the_same_time_counts_once() {
        let mut running = Running::new(&checksum(), LENGTH).unwrap();
        let content = content();
        let mut pieces = running.begin(0..3000);
        pieces.add(&content[..3000]);
        assert_eq!(bring(&mut running, 0..1000, &content), None);
        assert_eq!(running.add(pieces), None);
        assert_eq!(bring(&mut running, 500..LENGTH, &content), Some(Ok(())));
    }

    #[test]
    fn what_cannot_be_made_of_pieces_is_not_kept() {
        let sha = Checksum::from_parts(3, &[0; 32]).unwrap();
        assert!(Running::new(&sha, 1).is_none());
        assert!(Checksum::from_parts(3, &[0; 31]).is_none() && Checksum::from_parts(9, &[0; 4]).is_none());
    }

    #[test]
    fn no_more_pieces_are_kept_than_may_be() {
        let mut running = Running::new(&checksum(), 1 << 20).unwrap();
        for at in 0..=MOST_PIECES as u64 {
            assert!(!running.is_too_much(), "{at}");
            let mut pieces = running.begin(2 * at..2 * at + 1);
            pieces.add(b"x");
            assert_eq!(running.add(pieces), None);
        }
        assert!(running.is_too_much());
    }
}
