//! A set of positions, a bit each: which are used up.

use std::collections::VecDeque;
use std::ops::Range;

/// Positions of a word.
const WORD: u32 = u64::BITS;

/// A set of positions that can be cleared from one on, and of which the first ones can be released.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    words: VecDeque<u64>,
    /// Words that were released.
    released: u32,
    /// One past the last member.
    end: u32,
}

/// Makes room for one more without doubling: a sixteenth is spare at most.
#[inline]
pub(crate) fn reserve_some<T>(all: &mut VecDeque<T>) {
    if all.len() == all.capacity() {
        all.reserve_exact(all.len() / 16 + 16);
    }
}

impl Bits {
    #[inline]
    fn word(&self, position: u32) -> Option<usize> {
        Some((position / WORD).checked_sub(self.released)? as usize)
    }

    #[inline]
    pub(crate) fn contains(&self, position: u32) -> bool {
        let word = self.word(position).and_then(|word| self.words.get(word));
        word.is_some_and(|word| word & (1 << (position % WORD)) != 0)
    }

    /// Which of the 64 positions from one on are members: the lowest bit is the first of them.
    #[inline]
    pub(crate) fn from(&self, position: u32) -> u64 {
        let word = |at: Option<usize>| at.and_then(|at| self.words.get(at)).copied().unwrap_or(0);
        let (low, shift) = (word(self.word(position)) >> (position % WORD), position % WORD);
        if shift == 0 {
            return low;
        }
        low | (word(position.checked_add(WORD).and_then(|next| self.word(next))) << (WORD - shift))
    }

    /// Adds a position of a list; one that was released is none.
    #[inline]
    pub(crate) fn insert(&mut self, position: u32) {
        let Some(word) = self.word(position) else { return };
        while word >= self.words.len() {
            reserve_some(&mut self.words);
            self.words.push_back(0);
        }
        self.words[word] |= 1 << (position % WORD);
        self.end = self.end.max(position + 1);
    }

    /// The first position of a range that is no member.
    #[inline]
    pub(crate) fn first_absent(&self, range: Range<u32>) -> Option<u32> {
        let mut at = range.start;
        while at < range.end {
            let members = self.from(at).trailing_ones();
            if members < WORD {
                return Some(at + members).filter(|at| *at < range.end);
            }
            at = at.checked_add(WORD)?;
        }
        None
    }

    /// Takes out all members from `position` on; gives the range that they were in.
    pub(crate) fn clear_from(&mut self, position: u32) -> Range<u32> {
        let Some(word) = self.word(position).filter(|_| position < self.end) else {
            return position..position;
        };
        self.words[word] &= !(u64::MAX << (position % WORD));
        self.words.range_mut(word + 1..).for_each(|word| *word = 0);
        let cleared = position..self.end;
        self.end = position;
        cleared
    }

    /// Forgets the members before `position`, as far as they fill words.
    pub(crate) fn release_before(&mut self, position: u32) {
        while self.released < position / WORD {
            self.words.pop_front();
            self.released += 1;
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection, prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeSet;

    proptest! {
        /// Beside a set of numbers.
        #[test]
        fn it_is_a_set(steps in collection::vec((0_u32..12, 0_u32..400), 1..300)) {
            let (mut bits, mut set, mut first) = (Bits::default(), BTreeSet::new(), 0);
            for (step, at) in steps {
                match step {
                    0..8 => {
                        bits.insert(at);
                        if at >= first {
                            set.insert(at);
                        }
                    }
                    8 => {
                        let end = set.last().map_or(0, |last| last + 1);
                        let cleared = bits.clear_from(at);
                        if at >= first && at < end {
                            prop_assert_eq!(cleared.start, at);
                            prop_assert!(cleared.end >= end);
                            set.retain(|member| *member < at);
                        } else if at >= first {
                            prop_assert!(cleared.start == at);
                        }
                    }
                    9 => {
                        bits.release_before(at);
                        first = first.max(at / WORD * WORD);
                        set.retain(|member| *member >= first);
                    }
                    10 => {
                        let expected = (0..WORD).filter(|n| set.contains(&(at + n)));
                        prop_assert_eq!(bits.from(at), expected.fold(0, |word, n| word | 1 << n));
                    }
                    _ => {
                        let range = at..at + 150;
                        let expected = range.clone().find(|position| !set.contains(position));
                        prop_assert_eq!(bits.first_absent(range), expected);
                    }
                }
                prop_assert_eq!(bits.contains(at), set.contains(&at));
            }
        }
    }
}
