//! Large folios, which a single fault maps whole.
//!
//! Since Linux 6.18 a fault on a mapped file maps all pages of the folio that are within the mapping, and tells of the one
//! page that was touched, or of the 64 KiB around it. Of a file that is mapped and read in sequence only every second
//! 64 KiB would be recorded. So what comes into the cache in folios larger than that is remembered, and a reference
//! to a part of one is one to all of it.
//!
//! Folios of 2 MiB are mapped without a word (`filemap_map_pmd` of `mm/filemap.c`), but for the first one of each window
//! of readahead, which asks for the next window. Those between two of which something was told have been passed
//! on the way from one to the other.

use foldhash::{HashMap, HashMapExt as _};

use crate::folios::FolioMap;
use crate::observe::FileKey;

/// Folios up to this order lie within what a fault tells: `fault_around_bytes` of `mm/memory.c`, 64 KiB.
const TOLD_ORDER: u8 = 4;
/// Pages of a folio that is mapped without a word, on machines with pages of 4 KiB.
const SILENT_PAGES: u64 = 512;
/// So many of them are passed on the way at most: a window of readahead of 32 MiB.
const SILENT: usize = 16;
/// Folios that are remembered, each in a piece of 0.6 KiB at most: a fault comes soon after its folio. For one more all are
/// forgotten, and a window of readahead may stay unknown.
const FOLIOS: usize = 2048;

/// What lies in large folios.
#[derive(Debug)]
pub(super) struct LargeFolios {
    by_file: HashMap<FileKey, FolioMap>,
    folios: usize,
    /// Faults map them whole.
    whole: bool,
}

impl LargeFolios {
    /// Nothing is known yet; `whole`: this kernel maps them whole.
    pub(super) fn new(whole: bool) -> LargeFolios {
        LargeFolios { by_file: HashMap::new(), folios: 0, whole }
    }

    /// A folio came into the cache.
    pub(super) fn added(&mut self, file: FileKey, first_page: u64, order: u8) {
        if !self.whole || order <= TOLD_ORDER {
            return;
        }
        if self.folios == FOLIOS {
            self.by_file.clear();
            self.folios = 0;
        }
        self.folios += 1;
        self.by_file.entry(file).or_default().add(first_page, order);
    }

    /// What has been mapped when a fault tells of these pages.
    pub(super) fn mapped(&mut self, file: FileKey, first: u64, last: u64) -> (u64, u64) {
        let Some(folios) = self.by_file.get_mut(&file) else { return (first, last) };
        let mut first = folios.folio(first).map_or(first, |folio| folio.head);
        let last = folios.folio(last).map_or(last, |folio| folio.head + folio.pages - 1);
        for _ in 0..SILENT {
            let before = first.checked_sub(1).and_then(|page| folios.folio(page));
            let Some(before) = before.filter(|before| before.pages >= SILENT_PAGES) else { break };
            if !folios.all_unread(before.range()) {
                break;
            }
            first = before.head;
        }
        folios.mark_read(first..last + 1);
        (first, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileKey = FileKey { dev: 1, ino: 1 };
    const B: FileKey = FileKey { dev: 1, ino: 2 };

    #[test]
    fn a_part_of_a_large_folio_stands_for_all_of_it() {
        let mut folios = LargeFolios::new(true);
        folios.added(A, 96, 5);
        folios.added(A, 128, 4);
        assert_eq!(folios.mapped(A, 96, 111), (96, 127));
        assert_eq!(folios.mapped(A, 100, 130), (96, 130), "a small one is told of as it is");
        assert_eq!(folios.mapped(B, 96, 111), (96, 111));
        // A window of four large ones, of which only the first one is told of; then the next window.
        (0..8).for_each(|at| folios.added(B, 1024 + at * 512, 9));
        assert_eq!(folios.mapped(B, 1024, 1024), (1024, 1535));
        assert_eq!(folios.mapped(B, 3072, 3072), (1536, 3583));
        assert_eq!(folios.mapped(B, 3072, 3072), (3072, 3583), "told of before");
        let mut before = LargeFolios::new(false);
        before.added(A, 96, 5);
        assert_eq!(before.mapped(A, 96, 111), (96, 111));
    }

    #[test]
    fn beyond_the_limit_what_was_is_forgotten() {
        let mut folios = LargeFolios::new(true);
        // Of as many files: none of them is remembered for ever.
        let file = |at: usize| FileKey { dev: 1, ino: at as u64 };
        (0..=FOLIOS).for_each(|at| folios.added(file(at), 0, 9));
        assert_eq!(folios.mapped(file(0), 3, 3), (3, 3));
        assert_eq!(folios.mapped(file(FOLIOS), 3, 3), (0, 511));
        assert_eq!((folios.folios, folios.by_file.len()), (1, 1));
    }
}
