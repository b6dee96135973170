//! From the blocks that the policy wants gone to the folios that can be evicted.
//!
//! The kernel ignores a request to drop a part of a folio, so a block waits until all blocks of its folio
//! have been chosen. A reference to a block that waits takes its choice back. When too many blocks wait,
//! the folio of which most is chosen goes as a whole, preferably one that the sequential reader has been
//! through; the policy then hears that all its blocks are gone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::folios::{Census, Folio, FolioMap};

/// Folios looked at for one that holds nothing unread, before the limit may be exceeded instead.
const FORCE_CANDIDATES: usize = 64;

/// The part of the budget that may wait, with room for a few large folios, but not if that is much of it.
const WAITING_SHARE: u64 = 32;
const ROOM_BLOCKS: u64 = 64;
const MUCH: u64 = 8;

/// Pages of chosen blocks that may wait in a cache of some size; twice as many, if their folios hold some that were not read yet.
pub(crate) fn limit_pages(cache_blocks: u32, pages_a_block: u64) -> u64 {
    let blocks = u64::from(cache_blocks);
    (blocks / WAITING_SHARE).max(ROOM_BLOCKS.min(blocks / MUCH)) * pages_a_block
}

/// Where a folio is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    file: u32,
    folio: Folio,
}

/// The chosen blocks whose folios cannot go yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Chosen pages of each folio that waits.
    chosen: BTreeMap<Place, u64>,
    /// The same folios, the one with the largest chosen share first.
    by_share: BTreeSet<(Reverse<u64>, Place)>,
    pages: u64,
    limit_pages: u64,
}

/// The share of a folio that is chosen, in 65,536ths.
fn share(chosen: u64, folio: Folio) -> u64 {
    (chosen << 16) / folio.pages
}

impl Waiting {
    /// At most `limit_pages` pages of chosen blocks wait; see [`Waiting::overflow`] for what happens then.
    pub(crate) fn new(limit_pages: u64) -> Waiting {
        Waiting { chosen: BTreeMap::new(), by_share: BTreeSet::new(), pages: 0, limit_pages }
    }

    #[cfg(test)]
    pub(crate) fn waits(&self, file: u32, folio: Folio) -> bool {
        self.chosen.contains_key(&Place { file, folio })
    }

    /// From now on `limit_pages` may wait.
    pub(crate) fn set_limit(&mut self, limit_pages: u64) {
        self.limit_pages = limit_pages;
    }

    /// The policy wants these pages (a block) of the file gone: the folios that can go now, marked as issued.
    pub(crate) fn choose(&mut self, file: u32, folios: &mut FolioMap, pages: Range<u64>) -> Vec<Folio> {
        folios.choose(pages.clone());
        let overlapping = folios.folios(pages);
        overlapping.into_iter().filter(|folio| self.count(file, folios, *folio)).collect()
    }

    /// Counts anew what is chosen of a folio. If that is all there is of it, it can go: it is marked as issued, and waits
    /// no more.
    pub(crate) fn count(&mut self, file: u32, folios: &mut FolioMap, folio: Folio) -> bool {
        let Census { present, chosen, issued } = folios.census(folio);
        let goes = issued == 0 && chosen > 0 && chosen == present;
        self.set(file, folio, if goes || issued > 0 { 0 } else { chosen });
        if goes {
            folios.issue(folio);
        }
        goes
    }

    /// The block has been referenced: says whether it was waiting, which it does no more.
    pub(crate) fn cancel(&mut self, file: u32, folios: &mut FolioMap, pages: Range<u64>) -> bool {
        if !folios.unchoose(pages.clone()) {
            return false;
        }
        for folio in folios.folios(pages) {
            self.count(file, folios, folio);
        }
        true
    }

    /// The folio waits no more: it is taken for a part of a larger one.
    pub(crate) fn forget(&mut self, file: u32, folio: Folio) {
        self.set(file, folio, 0);
    }

    /// Nothing of the file waits any more.
    pub(crate) fn forget_file(&mut self, file: u32) {
        let first = Place { file, folio: Folio { head: 0, pages: 0 } };
        let places: Vec<Place> =
            self.chosen.range(first..).take_while(|(p, _)| p.file == file).map(|(p, _)| *p).collect();
        places.into_iter().for_each(|place| self.set(place.file, place.folio, 0));
    }

    /// When more waits than the limit: the folio to evict as a whole. One that holds pages loaded but not
    /// referenced yet is taken only when twice the limit waits.
    pub(crate) fn overflow<'a>(
        &mut self,
        folios: impl Fn(u32) -> Option<&'a FolioMap>,
    ) -> Option<(u32, Folio)> {
        if self.pages <= self.limit_pages {
            return None;
        }
        let read = self.by_share.iter().take(FORCE_CANDIDATES).find(|(_, place)| {
            folios(place.file).is_none_or(|folios| !folios.any_unread(place.folio.range()))
        });
        let forced = || (self.pages > 2 * self.limit_pages).then(|| self.by_share.first()).flatten();
        let (_, place) = *read.or_else(forced)?;
        self.set(place.file, place.folio, 0);
        Some((place.file, place.folio))
    }

    fn set(&mut self, file: u32, folio: Folio, chosen: u64) {
        let place = Place { file, folio };
        if let Some(before) = self.chosen.remove(&place) {
            self.by_share.remove(&(Reverse(share(before, folio)), place));
            self.pages -= before;
        }
        if chosen > 0 {
            self.chosen.insert(place, chosen);
            self.by_share.insert((Reverse(share(chosen, folio)), place));
            self.pages += chosen;
        }
    }
}

/// Joins folios that lie next to each other, as long as they have at most `limit_pages` pages together.
pub(crate) fn merge(mut folios: Vec<Folio>, limit_pages: u64) -> Vec<Vec<Folio>> {
    folios.sort_unstable();
    folios.dedup();
    let mut runs: Vec<Vec<Folio>> = Vec::new();
    for folio in folios {
        match runs.last_mut() {
            Some(run)
                if run.last().is_some_and(|last| last.range().end == folio.head)
                    && folio.range().end - run[0].head <= limit_pages =>
            {
                run.push(folio);
            }
            _ => runs.push(vec![folio]),
        }
    }
    runs
}

/// Pages of one call to evict: the largest folio, 190 us a MiB.
pub(crate) const CALL_PAGES: u64 = 512;

/// Evictions that wait for room in the queue, in runs of folios; further ones are refused.
pub(crate) const BACKLOG_RUNS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn map(folios: &[(u64, u8)]) -> FolioMap {
        let mut map = FolioMap::default();
        for &(head, order) in folios {
            map.add(head, order);
        }
        map.mark_read(0..1024);
        map
    }

    #[test]
    fn a_folio_goes_when_all_its_blocks_are_chosen() {
        let mut map = map(&[(0, 2), (4, 0), (5, 0)]);
        let mut waiting = Waiting::new(100);
        assert_eq!(waiting.choose(0, &mut map, 0..2), []);
        assert_eq!(waiting.choose(0, &mut map, 2..4), [Folio { head: 0, pages: 4 }]);
        assert!(map.is_issued(0) && waiting.pages == 0);
        assert_eq!(waiting.choose(0, &mut map, 4..6).len(), 2, "two folios of one page each");
    }

    #[test]
    fn a_folio_of_which_a_part_has_gone_does_not_wait_for_that() {
        let mut map = map(&[(0, 2), (4, 2)]);
        let mut waiting = Waiting::new(100);
        map.remove(0..2);
        let folio = Folio { head: 0, pages: 4 };
        assert_eq!(waiting.choose(0, &mut map, 2..4), [folio]);
        assert_eq!(waiting.choose(0, &mut map, 4..6), []);
        map.remove(6..8);
        let folio = Folio { head: 4, pages: 4 };
        assert!(waiting.count(0, &mut map, folio) && map.is_issued(4) && waiting.pages == 0);
        assert!(!waiting.count(0, &mut map, folio), "once");
    }

    #[test]
    fn no_more_than_an_eighth_of_a_small_budget_waits_and_a_small_share_of_a_large_one() {
        let blocks = [32, 256, 512, 1024, 2048, 32_768];
        assert_eq!(blocks.map(|blocks| limit_pages(blocks, 2) / 2), [4, 32, 64, 64, 64, 1024]);
        assert_eq!(limit_pages(1, 2), 0);
    }

    #[test]
    fn a_reference_takes_a_choice_back() {
        let mut map = map(&[(0, 2)]);
        let mut waiting = Waiting::new(100);
        waiting.choose(0, &mut map, 0..2);
        assert!(waiting.cancel(0, &mut map, 0..2));
        assert!(!waiting.cancel(0, &mut map, 0..2), "once");
        assert_eq!(waiting.choose(0, &mut map, 2..4), [], "the first half counts no more");
    }

    #[test]
    fn beyond_the_limit_the_folio_with_the_largest_chosen_share_goes() {
        let mut map = map(&[(0, 2), (8, 3)]);
        let mut waiting = Waiting::new(3);
        waiting.choose(0, &mut map, 0..2);
        waiting.choose(0, &mut map, 8..10);
        assert_eq!(waiting.overflow(|_| Some(&map)), Some((0, Folio { head: 0, pages: 4 })));
        assert_eq!(waiting.overflow(|_| Some(&map)), None, "within the limit again");
    }

    #[test]
    fn what_was_not_read_yet_goes_only_beyond_twice_the_limit() {
        let mut map = FolioMap::default();
        map.add(0, 2);
        map.add(8, 3);
        let mut waiting = Waiting::new(1);
        waiting.choose(0, &mut map, 0..2);
        assert_eq!(waiting.overflow(|_| Some(&map)), None);
        waiting.choose(0, &mut map, 8..10);
        assert_eq!(waiting.overflow(|_| Some(&map)), Some((0, Folio { head: 0, pages: 4 })));
    }

    #[test]
    fn a_file_that_is_forgotten_waits_no_more() {
        let mut map = map(&[(0, 2)]);
        let mut waiting = Waiting::new(0);
        waiting.choose(3, &mut map, 0..2);
        waiting.forget_file(3);
        assert_eq!((waiting.pages, waiting.overflow(|_| Some(&map))), (0, None));
    }

    #[test]
    fn neighbours_are_merged_up_to_the_limit() {
        let page = |head| Folio { head, pages: 1 };
        let runs = merge(vec![page(3), page(1), page(2), page(7), page(2)], 2);
        assert_eq!(runs, [vec![page(1), page(2)], vec![page(3)], vec![page(7)]]);
    }
}
