//! Which positions are used up: a bit each.

use std::collections::VecDeque;
use std::ops::Range;

/// Positions of a word.
const WORD: u32 = u64::BITS;

/// A set of positions that can be cleared from one on, and of which the first ones can be released.
#[derive(Debug, Default)]
pub(crate) struct Used {
    words: VecDeque<u64>,
    /// Words that were released.
    released: u32,
    /// One past the last member.
    end: u32,
}

impl Used {
    fn word(&self, position: u32) -> Option<usize> {
        Some((position / WORD).checked_sub(self.released)? as usize)
    }

    pub(crate) fn contains(&self, position: u32) -> bool {
        let word = self.word(position).and_then(|word| self.words.get(word));
        word.is_some_and(|word| word & (1 << (position % WORD)) != 0)
    }

    /// Adds a position of a list; one that was released is none.
    pub(crate) fn insert(&mut self, position: u32) {
        let Some(word) = self.word(position) else { return };
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (position % WORD);
        self.end = self.end.max(position + 1);
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
