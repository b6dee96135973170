//! States of objects that listings have told: who opens one of them in another process of the same pool need not ask for it.

use std::collections::HashMap;

use crate::source::Stamp;

/// As many as a file system in Python knows. At half of it those that were told longer ago are forgotten.
const MOST_LISTED: usize = 1 << 17;

/// By the number of its store, and its path.
type Name = (usize, String);

#[derive(Default)]
pub(crate) struct Listed {
    now: HashMap<Name, Stamp>,
    before: HashMap<Name, Stamp>,
}

impl Listed {
    pub(crate) fn add(&mut self, name: Name, stamp: Stamp) {
        if self.now.len() >= MOST_LISTED / 2 {
            self.before = std::mem::take(&mut self.now);
        }
        self.now.insert(name, stamp);
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Stamp> {
        self.now.get(name).or_else(|| self.before.get(name))
    }

    /// The object may have another state by now.
    pub(crate) fn forget(&mut self, name: &Name) {
        self.now.remove(name);
        self.before.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_known_than_may_be_and_those_that_were_told_last() {
        let mut listed = Listed::default();
        let name = |at: usize| (0, at.to_string());
        let of = |length| Stamp { length, ..Stamp::default() };
        (0..3 * MOST_LISTED).for_each(|at| listed.add(name(at), of(at as u64)));
        assert!(listed.now.len() + listed.before.len() <= MOST_LISTED);
        let last = 3 * MOST_LISTED - 1;
        assert_eq!(
            listed.get(&name(last - MOST_LISTED / 2)).unwrap().length,
            (last - MOST_LISTED / 2) as u64
        );
        assert_eq!(listed.get(&name(0)), None);
        listed.add(name(last - MOST_LISTED / 2), of(1));
        assert_eq!(listed.get(&name(last - MOST_LISTED / 2)).unwrap().length, 1);
        listed.forget(&name(last - MOST_LISTED / 2));
        assert_eq!(listed.get(&name(last - MOST_LISTED / 2)), None);
    }
}
