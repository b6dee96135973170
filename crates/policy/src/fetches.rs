//! What fetches under way are for: a place for each, that the record of its block names.

use crate::ids::ManagerId;

/// A fetch that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// The manager on whose behalf the block is being fetched.
    pub(crate) manager: ManagerId,
    /// Tells this fetch from another one of the same block (and so a stale time-out from a current one).
    pub(crate) number: u32,
}

/// All fetches under way.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    entries: Vec<Fetch>,
    vacant: Vec<u32>,
    last_number: u32,
}

impl Fetches {
    /// A fetch begins; gives its place and its number.
    pub(crate) fn begin(&mut self, manager: ManagerId) -> (u32, u32) {
        self.last_number = self.last_number.wrapping_add(1);
        let fetch = Fetch { manager, number: self.last_number };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.entries[place as usize] = fetch;
                place
            }
            None => {
                self.entries.push(fetch);
                self.entries.len() as u32 - 1
            }
        };
        (place, fetch.number)
    }

    /// The fetch at a place.
    pub(crate) fn get(&self, place: u32) -> Option<Fetch> {
        self.entries.get(place as usize).copied()
    }

    /// The fetch at a place has ended.
    pub(crate) fn end(&mut self, place: u32) {
        self.vacant.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_numbers_are_not() {
        let mut fetches = Fetches::default();
        let (a, first) = fetches.begin(ManagerId(3));
        let (b, second) = fetches.begin(ManagerId(4));
        assert_ne!((a, first), (b, second));
        assert_eq!(fetches.get(a), Some(Fetch { manager: ManagerId(3), number: first }));
        fetches.end(a);
        let (again, third) = fetches.begin(ManagerId(5));
        assert_eq!(again, a);
        assert!(third != first && third != second);
        assert_eq!(fetches.get(u32::MAX), None);
    }
}
