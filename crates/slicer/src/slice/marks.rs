//! Which steps are kept because they write which locations.
//!
//! A program of many functions asks this for each read of a variable at file scope and each call that may write to it, tens of
//! millions of times: so the steps of a function and a location have a bit each, and are looked up together.

use foldhash::{HashMap, HashMapExt as _};

use crate::ast::program::Func;
use crate::flow::Step;
use crate::memory::Loc;

/// A set of pairs of a step and a location that it writes.
#[derive(Clone)]
pub(super) struct Marks {
    /// Where the words of a function and a location begin.
    begins: HashMap<(Func, Loc), usize>,
    /// All in one piece, as sets are copied.
    words: Vec<u64>,
}

impl Marks {
    pub(super) fn new() -> Self {
        Self { begins: HashMap::new(), words: Vec::new() }
    }

    /// Marks these steps of a function that has `count` of them. Gives those that were not marked before.
    pub(super) fn add(&mut self, func: Func, location: Loc, steps: &[Step], count: usize) -> Vec<Step> {
        let words = &mut self.words;
        let begin = *self.begins.entry((func, location)).or_insert_with(|| {
            let begin = words.len();
            words.resize(begin + count.div_ceil(64), 0);
            begin
        });
        let is_new = |step: &Step| {
            let word = &mut words[begin + step.ix() / 64];
            let bit = 1 << (step.ix() % 64);
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        };
        steps.iter().copied().filter(is_new).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_new_once_for_each_location() {
        let mut marks = Marks::new();
        let steps = [Step(0), Step(63), Step(64), Step(129)];
        assert_eq!(marks.add(Func(0), Loc(7), &steps[1..3], 130), steps[1..3]);
        assert_eq!(marks.add(Func(0), Loc(7), &steps, 130), [steps[0], steps[3]]);
        assert!(marks.add(Func(0), Loc(7), &steps, 130).is_empty());
        assert_eq!(marks.add(Func(0), Loc(8), &steps, 130), steps);
        assert_eq!(marks.add(Func(1), Loc(7), &steps[..2], 64), steps[..2]);
    }
}
