//! The references so far, if they are wanted: what the best possible replacement would have fetched for them.

use std::collections::HashMap;

/// References as dense numbers of parts, `most` of them at most; beyond, nothing can be said any more.
#[derive(Debug)]
pub(crate) struct Recorder {
    most: u32,
    numbers: HashMap<(u64, u32), u32>,
    references: Vec<u32>,
    overflowed: bool,
}

impl Recorder {
    pub(crate) fn new(most: u32) -> Recorder {
        Recorder { most, numbers: HashMap::new(), references: Vec::new(), overflowed: false }
    }

    /// A part of the object with this serial number is referenced.
    pub(crate) fn reference(&mut self, object: u64, part: u32) {
        if self.overflowed || self.most == 0 {
            return;
        }
        if self.references.len() >= self.most as usize {
            self.overflowed = true;
            (self.numbers, self.references) = (HashMap::new(), Vec::new());
            return;
        }
        let next = self.numbers.len() as u32;
        self.references.push(*self.numbers.entry((object, part)).or_insert(next));
    }

    /// Is every reference to be recorded?
    pub(crate) fn records(&self) -> bool {
        self.most > 0 && !self.overflowed
    }

    /// The references, `None` if they were not recorded or were too many.
    pub(crate) fn references(&self) -> Option<&[u32]> {
        self.records().then_some(&self.references)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_as_they_come_and_too_many_are_said_to_be_none() {
        let mut recorder = Recorder::new(3);
        recorder.reference(5, 9);
        recorder.reference(6, 9);
        recorder.reference(5, 9);
        assert_eq!(recorder.references(), Some(&[0, 1, 0][..]));
        recorder.reference(5, 9);
        assert_eq!(recorder.references(), None);
        assert_eq!(Recorder::new(0).references(), None);
    }
}
