//! Directories that a program goes through and was not seen in: those in two of whose own it was.

use std::collections::HashMap;

/// Directories that are remembered; for one more, all are forgotten.
const TOPS: usize = 4096;
/// So many of them may be looked at, and as many more as directories came that had been asked for: a program that comes to
/// places in no order must not make us list all around them.
const FIRST: u64 = 16;

/// By the ids of their paths.
#[derive(Debug, Default)]
pub(crate) struct Tops {
    /// The first one in each in which the program was.
    first: HashMap<u64, u64>,
    /// How many have been looked at.
    looked: u64,
}

impl Tops {
    /// The program is in a directory, or below it, that lies in another one. Is it the second one there?
    pub(crate) fn is_second(&mut self, above: u64, below: u64) -> bool {
        if self.first.len() >= TOPS {
            self.first.clear();
        }
        *self.first.entry(above).or_insert(below) != below
    }

    /// Whether one more may be looked at, after so many directories that were guessed well.
    pub(crate) fn may_look(&mut self, used: u64) -> bool {
        let may = self.looked < FIRST + used;
        self.looked += u64::from(may);
        may
    }

    /// All is to come once more.
    pub(crate) fn clear(&mut self) {
        self.first.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_looked_at_unless_guesses_are_good() {
        let mut tops = Tops::default();
        assert!(!tops.is_second(1, 2) && !tops.is_second(1, 2) && tops.is_second(1, 3));
        assert_eq!((0..100).filter(|_| tops.may_look(0)).count(), FIRST as usize);
        assert!(tops.may_look(1) && !tops.may_look(1));
        (0..3 * TOPS as u64).for_each(|above| assert!(!tops.is_second(100 + above, 1)));
        assert!(tops.first.len() <= TOPS);
    }
}
