//! Runs: what one process references in one go, as it is recorded and told.

use std::ops::Range;

use foretell_recording::{Access, FileNumber, Way};

/// Pages of the longest run: a MiB. A longer one would hide when its parts were read.
pub(super) const RUN_PAGES: u32 = 256;

/// Pages that one process referenced one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// What is recorded of it.
    pub(super) access: Access,
    /// It is of use to whoever guesses what comes next;
    is_told: bool,
    /// of these pages, and this wait, was told.
    told_pages: u32,
    told_ns: u64,
}

impl Run {
    /// A run begins. `is_told`: it will be told to whoever guesses.
    pub(super) fn new(access: Access, is_told: bool) -> Run {
        Run { access, is_told, told_pages: 0, told_ns: 0 }
    }

    /// Adds pages that the process references next, if they continue the run; returns whether they do. A read that goes back
    /// is another read; pages are mapped in pieces that overlap, and a fault is told of again when it is retried.
    pub(super) fn go_on(
        &mut self,
        (file, way): (FileNumber, Way),
        first: u32,
        last: u32,
        waited_ns: u64,
    ) -> bool {
        let Access { first_page, pages, .. } = self.access;
        let end = first_page + pages;
        let from = if way == Way::Read { end - 1 } else { first_page };
        let is_same = self.access.file == file && self.access.way == way;
        if !is_same || !(from..=end).contains(&first) {
            return false;
        }
        let new_pages = (last + 1 - first_page).max(pages);
        if new_pages > RUN_PAGES.max(pages) {
            return false;
        }
        self.access.pages = new_pages;
        self.access.waited_ns += waited_ns;
        true
    }

    /// The pages that were not told of yet, and what was waited for them, nanoseconds.
    pub(super) fn take_untold(&mut self) -> Option<(Range<u32>, u64)> {
        let Access { first_page, pages, waited_ns, .. } = self.access;
        if !self.is_told || self.told_pages == pages {
            return None;
        }
        let untold = first_page + self.told_pages..first_page + pages;
        let more_ns = waited_ns.saturating_sub(self.told_ns);
        (self.told_pages, self.told_ns) = (pages, waited_ns);
        Some((untold, more_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::RoleId;

    fn run(way: Way) -> Run {
        let (role, file) = (RoleId(0), FileNumber(1));
        Run::new(Access { role, file, first_page: 10, pages: 4, at_ns: 0, waited_ns: 5, way }, true)
    }

    #[test]
    fn what_goes_on_is_told_once() {
        let mut read = run(Way::Read);
        assert_eq!(read.take_untold(), Some((10..14, 5)));
        assert_eq!(read.take_untold(), None);
        let on = (FileNumber(1), Way::Read);
        assert!(read.go_on(on, 13, 17, 2) && read.go_on(on, 18, 18, 1));
        assert_eq!(read.take_untold(), Some((14..19, 3)));
        assert!(!read.go_on(on, 12, 12, 0), "it goes back");
        assert!(!read.go_on((FileNumber(2), Way::Read), 19, 19, 0));
        assert!(!read.go_on(on, 19, 10 + RUN_PAGES, 0), "it would be too long");
        let mut mapped = run(Way::Mapped);
        assert!(mapped.go_on((FileNumber(1), Way::Mapped), 10, 11, 1), "the fault is told of again");
        assert_eq!((mapped.access.pages, mapped.access.waited_ns), (4, 6));
    }
}
