//! Which pages of a file are cached, and in which folios.
//!
//! The kernel evicts whole folios only, and after sequential reads a folio holds up to 512 pages, so a
//! plane must know which pages go together. One byte says it all about a page; 512 of them make a chunk
//! (2 MiB of file), and chunks without a cached page are not kept. A folio is naturally aligned: from
//! any of its pages, its order gives its head.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Pages described by one chunk: the largest folio of the page cache on 4 KiB pages (order 9).
const CHUNK_PAGES: u64 = 512;

/// Largest order that is tracked; with 16 or 64 KiB pages the kernel has larger ones (order 11), which
/// still fit the four bits kept for it.
const MAX_ORDER: u8 = 14;

/// Largest order that is guessed.
const WIDEST_GUESS: u32 = CHUNK_PAGES.trailing_zeros();

/// Bits 0 to 3: the order of the page's folio plus one; 0 when the page is not cached.
const ORDER: u8 = 0x0f;
/// Cached since the last reference to it: it was read ahead and nobody has asked for it yet.
const UNREAD: u8 = 0x10;
/// The policy wants it gone, and its folio waits for the rest of its pages to be chosen.
const CHOSEN: u8 = 0x20;
/// Its folio has been handed to the thread that evicts.
const ISSUED: u8 = 0x40;
/// Found cached rather than seen to be added: the order is a guess.
const GUESSED: u8 = 0x80;

/// The pages of a folio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Folio {
    /// First page.
    pub(crate) head: u64,
    /// Number of pages, a power of two.
    pub(crate) pages: u64,
}

impl Folio {
    pub(crate) fn range(self) -> Range<u64> {
        self.head..self.head + self.pages
    }

    /// Is a page within its range one of its own? Another folio may lie in its place by now, or in a part of it.
    fn holds(self, state: u8) -> bool {
        u32::from(state & ORDER) == self.pages.trailing_zeros() + 1
    }
}

/// The pages of a folio that are in the books as such. Some may have gone by themselves, where its size was guessed or
/// the kernel has split it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Census {
    pub(crate) present: u64,
    pub(crate) chosen: u64,
    pub(crate) issued: u64,
}

/// The cached pages of one file.
#[derive(Debug, Default)]
pub(crate) struct FolioMap {
    chunks: BTreeMap<u64, Box<Chunk>>,
    cached_pages: u64,
}

#[derive(Debug)]
struct Chunk {
    cached: u16,
    pages: [u8; CHUNK_PAGES as usize],
}

impl FolioMap {
    /// Pages of the file that are cached.
    pub(crate) fn cached_pages(&self) -> u64 {
        self.cached_pages
    }

    /// A folio of 2^`order` pages was added, holding page `page`.
    pub(crate) fn add(&mut self, page: u64, order: u8) {
        let order = order.min(MAX_ORDER);
        let head = page & !((1_u64 << order) - 1);
        self.set(head..head + (1 << order), |_| (order + 1) | UNREAD);
    }

    /// Page `page` was found cached, in a folio of unknown order.
    pub(crate) fn add_guessed(&mut self, page: u64) {
        self.set(page..page + 1, |_| 1 | GUESSED);
    }

    /// The pages are not cached any more.
    pub(crate) fn remove(&mut self, pages: Range<u64>) {
        self.set(pages, |_| 0);
    }

    pub(crate) fn is_cached(&self, page: u64) -> bool {
        self.get(page) & ORDER != 0
    }

    /// Is one of these pages cached?
    pub(crate) fn any_cached(&self, pages: Range<u64>) -> bool {
        pages.into_iter().any(|page| self.is_cached(page))
    }

    /// Is one of these pages cached that nobody wants gone?
    pub(crate) fn any_kept(&self, pages: Range<u64>) -> bool {
        self.count(pages, |state| state & ORDER != 0 && state & CHOSEN == 0) > 0
    }

    /// The first page from `page` on of a piece of 2 MiB of which something is cached.
    pub(crate) fn first_cached(&self, page: u64) -> u64 {
        let next = self.chunks.range(page / CHUNK_PAGES..).next();
        next.map_or(u64::MAX, |(number, _)| (number * CHUNK_PAGES).max(page))
    }

    /// How many of these pages are cached.
    pub(crate) fn cached_in(&self, pages: Range<u64>) -> u64 {
        self.count(pages, |state| state & ORDER != 0)
    }

    /// The first page of `pages` that is not cached, or its end.
    pub(crate) fn first_absent(&self, pages: Range<u64>) -> u64 {
        let end = pages.end;
        pages.into_iter().find(|&page| !self.is_cached(page)).unwrap_or(end)
    }

    /// Are all of these pages cached and none of them referenced since it came?
    pub(crate) fn all_unread(&self, pages: Range<u64>) -> bool {
        pages.into_iter().all(|page| self.get(page) & (ORDER | UNREAD) > UNREAD)
    }

    pub(crate) fn any_unread(&self, pages: Range<u64>) -> bool {
        self.count(pages, |state| state & UNREAD != 0) > 0
    }

    /// The pages have been referenced.
    pub(crate) fn mark_read(&mut self, pages: Range<u64>) {
        self.set(pages, |page| page & !UNREAD);
    }

    /// The folio that holds a cached page.
    pub(crate) fn folio(&self, page: u64) -> Option<Folio> {
        let order = (self.get(page) & ORDER).checked_sub(1)?;
        Some(Folio { head: page & !((1_u64 << order) - 1), pages: 1 << order })
    }

    /// The folios that overlap `pages`, in ascending order.
    pub(crate) fn folios(&self, pages: Range<u64>) -> Vec<Folio> {
        let mut folios = Vec::new();
        let mut page = pages.start;
        while page < pages.end {
            match self.folio(page) {
                Some(folio) => {
                    folios.push(folio);
                    page = folio.head + folio.pages;
                }
                None => page += 1,
            }
        }
        folios
    }

    /// All folios, in ascending order.
    pub(crate) fn all_folios(&self) -> Vec<Folio> {
        let mut folios: Vec<Folio> = self.iter().filter_map(|page| self.folio(page)).collect();
        folios.dedup();
        folios
    }

    /// Marks cached pages as chosen for eviction.
    pub(crate) fn choose(&mut self, pages: Range<u64>) {
        self.set(pages, |page| if page & ORDER == 0 { page } else { page | CHOSEN });
    }

    /// Takes back [`FolioMap::choose`] for pages that were not issued yet; says whether there were any.
    pub(crate) fn unchoose(&mut self, pages: Range<u64>) -> bool {
        let mut any = false;
        self.set(pages, |page| {
            if page & (CHOSEN | ISSUED) == CHOSEN {
                any = true;
                page & !CHOSEN
            } else {
                page
            }
        });
        any
    }

    /// The pages of a folio that are there, and in what state.
    pub(crate) fn census(&self, folio: Folio) -> Census {
        let mut census = Census::default();
        self.each(folio.range(), |state| {
            let own = folio.holds(state);
            census.present += u64::from(own);
            census.chosen += u64::from(own && state & CHOSEN != 0);
            census.issued += u64::from(own && state & ISSUED != 0);
        });
        census
    }

    /// Pages whose state is so.
    fn count(&self, pages: Range<u64>, is_so: impl Fn(u8) -> bool) -> u64 {
        let mut count = 0;
        self.each(pages, |state| count += u64::from(is_so(state)));
        count
    }

    /// Tells the states of pages, but for those of chunks that are not kept. Not page by page from the root of the tree: a
    /// large folio is looked at for each of its blocks.
    fn each(&self, pages: Range<u64>, mut tell: impl FnMut(u8)) {
        if pages.is_empty() {
            return;
        }
        let chunks = self.chunks.range(pages.start / CHUNK_PAGES..=(pages.end - 1) / CHUNK_PAGES);
        for (number, chunk) in chunks {
            let base = number * CHUNK_PAGES;
            let cut = |page: u64| (page.clamp(base, base + CHUNK_PAGES) - base) as usize;
            chunk.pages[cut(pages.start)..cut(pages.end)].iter().for_each(|state| tell(*state));
        }
    }

    /// The folio has been handed to the thread that evicts.
    pub(crate) fn issue(&mut self, folio: Folio) {
        self.set_own(folio, |page| page | CHOSEN | ISSUED);
    }

    /// The folio has come back from the thread that evicts, and is to be handed to it once more later.
    pub(crate) fn put_off(&mut self, folio: Folio) {
        self.set_own(folio, |page| page & !ISSUED);
    }

    /// Is this still a folio, all of it chosen, and not handed to the thread that evicts?
    pub(crate) fn is_put_off(&self, folio: Folio) -> bool {
        let Census { present, chosen, issued } = self.census(folio);
        present > 0 && chosen == present && issued == 0
    }

    /// Was the size of the folio guessed?
    pub(crate) fn is_guessed(&self, folio: Folio) -> bool {
        self.get(folio.head) & GUESSED != 0
    }

    pub(crate) fn is_issued(&self, page: u64) -> bool {
        self.get(page) & ISSUED != 0
    }

    /// The folio could not be evicted.
    pub(crate) fn refuse(&mut self, folio: Folio) {
        self.set_own(folio, |page| page & !(CHOSEN | ISSUED));
    }

    /// What a folio of which the size was guessed is to be taken for when it could not be evicted: eight times as large, or
    /// as far as its neighbours were guessed too. Evicting more than a folio works, evicting less does nothing.
    pub(crate) fn wider(&self, folio: Folio) -> Option<Folio> {
        let order = folio.pages.trailing_zeros();
        let wider = |order: u32| Folio { head: folio.head & !((1_u64 << order) - 1), pages: 1 << order };
        let can_be =
            |wider: &Folio| wider.range().all(|page| self.is_cached(page) && self.get(page) & GUESSED != 0);
        (order + 1..=(order + 3).min(WIDEST_GUESS)).rev().map(wider).find(can_be)
    }

    /// From now on this is one folio, none of which is to go. What becomes of parts of it that are being evicted is not
    /// asked for any more.
    pub(crate) fn join(&mut self, wider: Folio) {
        let order = wider.pages.trailing_zeros() as u8;
        self.set(wider.range(), |page| (page & !(ORDER | CHOSEN | ISSUED)) | (order + 1));
    }

    /// Is one of these pages to go?
    pub(crate) fn any_chosen(&self, pages: Range<u64>) -> bool {
        self.count(pages, |state| state & CHOSEN != 0) > 0
    }

    /// All cached pages, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks.iter().flat_map(|(number, chunk)| {
            let base = number * CHUNK_PAGES;
            chunk.pages.iter().zip(base..).filter(|(state, _)| **state & ORDER != 0).map(|(_, page)| page)
        })
    }

    fn get(&self, page: u64) -> u8 {
        self.chunks.get(&(page / CHUNK_PAGES)).map_or(0, |chunk| chunk.pages[(page % CHUNK_PAGES) as usize])
    }

    /// Changes the pages of a folio, and not those of another one that lies in its place or in a part of it by now.
    fn set_own(&mut self, folio: Folio, change: impl Fn(u8) -> u8) {
        self.set(folio.range(), |page| if folio.holds(page) { change(page) } else { page });
    }

    /// Replaces the state of each page by what `change` makes of it.
    fn set(&mut self, pages: Range<u64>, mut change: impl FnMut(u8) -> u8) {
        let mut page = pages.start;
        while page < pages.end {
            let number = page / CHUNK_PAGES;
            let end = pages.end.min((number + 1) * CHUNK_PAGES);
            // A page that is absent stays so under every change but an addition, which never gives 0.
            let chunk = match self.chunks.entry(number) {
                Entry::Occupied(place) => place.into_mut(),
                Entry::Vacant(_) if change(0) & ORDER == 0 => {
                    page = end;
                    continue;
                }
                Entry::Vacant(place) => {
                    place.insert(Box::new(Chunk { cached: 0, pages: [0; CHUNK_PAGES as usize] }))
                }
            };
            let before = chunk.cached;
            for state in &mut chunk.pages[(page % CHUNK_PAGES) as usize..=((end - 1) % CHUNK_PAGES) as usize]
            {
                let was = *state & ORDER != 0;
                let next = change(*state);
                let is = next & ORDER != 0;
                *state = if is { next } else { 0 };
                chunk.cached = chunk.cached + u16::from(is) - u16::from(was);
            }
            self.cached_pages = self.cached_pages + u64::from(chunk.cached) - u64::from(before);
            if chunk.cached == 0 {
                self.chunks.remove(&number);
            }
            page = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_folio_is_found_from_any_of_its_pages() {
        let mut map = FolioMap::default();
        map.add(8, 2);
        map.add(12, 0);
        assert_eq!(map.folio(10), Some(Folio { head: 8, pages: 4 }));
        assert_eq!(map.folio(7), None);
        let heads: Vec<u64> = map.folios(0..20).iter().map(|f| f.head).collect();
        assert_eq!(heads, [8, 12]);
        assert_eq!(map.cached_pages(), 5);
    }

    #[test]
    fn a_guessed_folio_that_stays_is_taken_to_be_larger() {
        let mut map = FolioMap::default();
        (0..24).for_each(|page| map.add_guessed(page));
        let wider = map.wider(Folio { head: 5, pages: 1 }).unwrap();
        assert_eq!(wider, Folio { head: 0, pages: 8 });
        map.choose(6..7);
        map.issue(Folio { head: 3, pages: 1 });
        map.join(wider);
        assert_eq!(map.folio(5), Some(wider));
        assert!(!map.any_chosen(0..8) && !map.is_issued(3), "the choice is the policy's once more");
        // Not all of its neighbours are there, then one of them was seen to come.
        assert_eq!(map.wider(Folio { head: 16, pages: 4 }), Some(Folio { head: 16, pages: 8 }));
        map.add(22, 0);
        assert_eq!(map.wider(Folio { head: 16, pages: 4 }), None, "it never stays as large as it was");
        (0..512).for_each(|page| map.add_guessed(page));
        assert_eq!(map.wider(Folio { head: 256, pages: 256 }), Some(Folio { head: 0, pages: 512 }));
        assert_eq!(map.wider(Folio { head: 0, pages: 512 }), None);
    }

    #[test]
    fn a_folio_whose_order_was_seen_keeps_it() {
        let mut map = FolioMap::default();
        (0..8).for_each(|page| map.add(page, 0));
        assert_eq!(map.wider(Folio { head: 5, pages: 1 }), None);
    }

    #[test]
    fn what_is_done_to_a_folio_leaves_the_one_that_lies_in_its_place() {
        let (old, new) = (Folio { head: 0, pages: 4 }, Folio { head: 2, pages: 2 });
        let mut map = FolioMap::default();
        map.add(0, 2);
        map.issue(old);
        map.add(2, 1);
        map.issue(new);
        assert_eq!(map.census(old), Census { present: 2, chosen: 2, issued: 2 });
        map.put_off(old);
        assert_eq!(map.census(new), Census { present: 2, chosen: 2, issued: 2 });
        assert!(map.is_put_off(old) && !map.is_put_off(new), "what is left of it is tried again");
        map.refuse(new);
        assert!(map.is_put_off(old) && map.any_kept(0..4) && !map.any_kept(0..2));
        map.remove(0..2);
        assert!(!map.is_put_off(old), "it is gone");
    }

    #[test]
    fn read_and_unread_are_told_apart() {
        let mut map = FolioMap::default();
        map.add(0, 3);
        assert!(map.all_unread(0..8));
        map.mark_read(0..2);
        assert!(!map.all_unread(0..8) && map.any_unread(0..8) && !map.any_unread(0..2));
        assert!(!map.all_unread(6..9), "page 8 is not cached");
    }

    proptest! {
        /// Against a plain set of pages.
        #[test]
        fn cached_pages_are_those_added_and_not_removed(
            operations in proptest::collection::vec((any::<bool>(), 0_u64..2048, 0_u8..6), 1..100)
        ) {
            let mut map = FolioMap::default();
            let mut pages = std::collections::BTreeSet::new();
            for (add, page, order) in operations {
                let head = page & !((1 << order) - 1);
                if add {
                    map.add(head, order);
                    pages.extend(head..head + (1 << order));
                } else {
                    map.remove(head..head + (1 << order));
                    (head..head + (1 << order)).for_each(|p| { pages.remove(&p); });
                }
                prop_assert_eq!(map.cached_pages(), pages.len() as u64);
            }
            prop_assert!(map.iter().eq(pages.iter().copied()));
        }
    }
}
