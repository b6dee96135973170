//! A set of positions in a list, as a tree of bit words.
//!
//! Level 0 has a bit a position; a bit of level l + 1 says whether the word below it has any bit set.
//! Membership changes and "next member from here", "last member" take one step a level: four levels
//! reach 16 million positions. It holds, for a disclosed list, the positions at which a cached (or a
//! missing) block is referenced next, so "furthest next use" and "next hole" are its last and its next
//! member: exact, without the stale entries of a heap and without allocation on a hit.

const WORD: usize = 64;

/// Words that a set starts with.
const MIN_WORDS: usize = 16;

/// Positions from 0 upwards. The first ones can be released: they are no members, and take no room.
#[derive(Debug, Default)]
pub(crate) struct PositionSet {
    levels: Vec<Vec<u64>>,
    /// The position of the first bit, a multiple of [`WORD`].
    first: u32,
}

impl PositionSet {
    /// Makes room for positions below `end`, doubling so that growing by one is cheap in the mean.
    pub(crate) fn reserve(&mut self, end: u32) {
        let words = (end.saturating_sub(self.first) as usize).div_ceil(WORD);
        let have = self.levels.first().map_or(0, Vec::len);
        if words > have {
            let words = words.max(2 * have).max(MIN_WORDS);
            match self.levels.first_mut() {
                Some(bottom) => bottom.resize(words, 0),
                None => self.levels.push(vec![0; words]),
            }
            self.sum_up();
        }
    }

    /// Builds all levels above the bottom one.
    fn sum_up(&mut self) {
        self.levels.truncate(1);
        while let Some(below) = self.levels.last().filter(|l| l.len() > 1) {
            let mut level = vec![0u64; below.len().div_ceil(WORD)];
            for (i, _) in below.iter().enumerate().filter(|(_, w)| **w != 0) {
                level[i / WORD] |= 1 << (i % WORD);
            }
            self.levels.push(level);
        }
    }

    /// Releases the positions before this one, none of which is a member, once they are half of all that there is room
    /// for: that takes as long as to reserve them did.
    pub(crate) fn release_before(&mut self, position: u32) {
        let words = position.saturating_sub(self.first) as usize / WORD;
        match self.levels.first_mut() {
            Some(bottom) if words < bottom.len() => {
                if 2 * words >= bottom.len() {
                    bottom.drain(..words);
                    self.first += (words * WORD) as u32;
                    self.sum_up();
                }
            }
            _ => {
                self.levels.clear();
                self.first += (words * WORD) as u32;
            }
        }
    }

    /// Adds a position; the room must have been reserved, and not be released.
    pub(crate) fn insert(&mut self, position: u32) {
        let Some(position) = position.checked_sub(self.first) else { return };
        let mut at = position as usize;
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            let was_empty = *word == 0;
            *word |= 1 << (at % WORD);
            if !was_empty {
                break;
            }
            at /= WORD;
        }
    }

    /// Removes a position; false if it was no member.
    pub(crate) fn remove(&mut self, position: u32) -> bool {
        let Some(position) = position.checked_sub(self.first) else { return false };
        let mut at = position as usize;
        let mut was_member = false;
        for (depth, level) in self.levels.iter_mut().enumerate() {
            let Some(word) = level.get_mut(at / WORD) else { break };
            let bit = 1 << (at % WORD);
            if depth == 0 {
                was_member = *word & bit != 0;
            }
            *word &= !bit;
            if *word != 0 || !was_member {
                break;
            }
            at /= WORD;
        }
        was_member
    }

    /// The first member at or after `position`.
    pub(crate) fn next(&self, position: u32) -> Option<u32> {
        let mut at = position.saturating_sub(self.first) as usize;
        for (depth, level) in self.levels.iter().enumerate() {
            let word = level.get(at / WORD).copied().unwrap_or(0) & (!0u64 << (at % WORD));
            if word != 0 {
                let found = (at / WORD) * WORD + word.trailing_zeros() as usize;
                return Some(self.first + self.descend(found, depth, |w| w.trailing_zeros()));
            }
            at = at / WORD + 1;
        }
        None
    }

    /// The last member at or before `position`.
    pub(crate) fn prev(&self, position: u32) -> Option<u32> {
        let end = self.levels.first()?.len() * WORD;
        if end == 0 {
            return None;
        }
        let mut at = (position.checked_sub(self.first)? as usize).min(end - 1);
        for (depth, level) in self.levels.iter().enumerate() {
            let word = level.get(at / WORD).copied().unwrap_or(0) & (!0u64 >> (WORD - 1 - at % WORD));
            if word != 0 {
                let found = (at / WORD) * WORD + (63 - word.leading_zeros() as usize);
                return Some(self.first + self.descend(found, depth, |w| 63 - w.leading_zeros()));
            }
            if at < WORD {
                return None;
            }
            at = at / WORD - 1;
        }
        None
    }

    /// The last member.
    pub(crate) fn last(&self) -> Option<u32> {
        self.prev(u32::MAX)
    }

    /// Takes out all members.
    pub(crate) fn clear(&mut self) {
        self.levels.clear();
    }

    /// From a set bit of `level` down to a position, taking the bit that `pick` names in every word.
    fn descend(&self, mut at: usize, level: usize, pick: impl Fn(u64) -> u32) -> u32 {
        for level in (0..level).rev() {
            at = at * WORD + pick(self.levels[level][at]) as usize;
        }
        at as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Every question gets the answer of an ordered set, also after growing.
        #[test]
        fn answers_as_an_ordered_set(
            ops in prop::collection::vec((any::<bool>(), 0u32..20_000, prop::option::weighted(0.1, 0u32..2000)), 0..400),
        ) {
            let mut set = PositionSet::default();
            let mut naive = BTreeSet::new();
            let mut first = 0;
            for &(insert, position, more) in &ops {
                if let Some(more) = more {
                    // The first ones are taken out one by one, and released.
                    first += more;
                    for member in naive.extract_if(..first, |_| true) {
                        prop_assert!(set.remove(member));
                    }
                    set.release_before(first);
                }
                let position = first + position;
                set.reserve(position + 1);
                if insert {
                    set.insert(position);
                    naive.insert(position);
                } else {
                    prop_assert_eq!(set.remove(position), naive.remove(&position));
                }
                for probe in [0, first / 2, position, position + 1, position + 5000] {
                    prop_assert_eq!(set.next(probe), naive.range(probe..).next().copied());
                    prop_assert_eq!(set.prev(probe), naive.range(..=probe).next_back().copied());
                }
                prop_assert_eq!(set.last(), naive.last().copied());
            }
        }
    }
}
