//! A table from dense ids to numbers, in pages that exist only where an id was set.
//!
//! Ids are handed out in the order in which blocks are first named, so that a stream's ids lie together and its
//! pages are full.

use super::list::NONE;

/// Ids of one page: small enough that a stream which shares a few blocks with another does not pay for all of them.
const PAGE: usize = 64;

/// `NONE` for every id that was not set.
#[derive(Debug, Default)]
pub(crate) struct Paged {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    filled: usize,
}

impl Paged {
    #[inline]
    pub(crate) fn get(&self, id: u32) -> u32 {
        match self.pages.get(id as usize / PAGE) {
            Some(Some(page)) => page[id as usize % PAGE],
            _ => NONE,
        }
    }

    /// Sets an id's value; the caller bounds the ids.
    pub(crate) fn set(&mut self, id: u32, value: u32) {
        let at = id as usize / PAGE;
        if at >= self.pages.len() {
            self.pages.resize_with(at + 1, || None);
        }
        let filled = &mut self.filled;
        let page = self.pages[at].get_or_insert_with(|| {
            *filled += 1;
            Box::new([NONE; PAGE])
        });
        page[id as usize % PAGE] = value;
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.capacity() * size_of::<usize>() + self.filled * size_of::<[u32; PAGE]>()
    }
}
