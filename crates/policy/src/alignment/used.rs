//! Which positions are used up: a bit each.

use std::ops::Range;

/// A set of positions that can be cleared from one on.
#[derive(Debug, Default)]
pub(crate) struct Used {
    words: Vec<u64>,
    /// One past the last member.
    end: u32,
}

impl Used {
    pub(crate) fn contains(&self, position: u32) -> bool {
        self.words.get(position as usize / 64).is_some_and(|w| w & (1 << (position % 64)) != 0)
    }

    /// Adds a position of a list.
    pub(crate) fn insert(&mut self, position: u32) {
        let word = position as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (position % 64);
        self.end = self.end.max(position + 1);
    }

    /// Takes out all members from `position` on; gives the range that they were in.
    pub(crate) fn clear_from(&mut self, position: u32) -> Range<u32> {
        if position >= self.end {
            return position..position;
        }
        let word = position as usize / 64;
        self.words[word] &= !(u64::MAX << (position % 64));
        self.words[word + 1..].fill(0);
        let cleared = position..self.end;
        self.end = position;
        cleared
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
