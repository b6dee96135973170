//! Within a file: what a program reads here and there.
//!
//! Who looks records up by their keys reads a file in no order that could be foretold, and waits for each page alone. But a
//! device gives a file in sequence some hundred times as quickly as page by page. So a file is looked at in *regions* of
//! 16 MiB. Once what a program has waited in a region for pages here and there is as much as it takes to read the
//! rest of the region in one go, that is done: nobody can know how much more is read there, but as much again is the best
//! guess, and then it has paid. If nothing more is read there, no more time of the device was lost than the program
//! had lost by itself. (It is the ski-rental problem: who buys when the rent so far has come to the price never pays more
//! than twice the least; Karlin, Manasse, Rudolph, Sleator 1988.)
//!
//! On a disk with an arm the program waits behind what is read ahead, so there it must have waited longer.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::costs::{self, ARM_NS};
use crate::streams::{PART_PAGES, Piece};
use crate::walks::{PAGE_BYTES, Wanted};

/// Pages of a region: 16 MiB. In it there are 50 waits of a millisecond before it is read at 250 MB/s.
const REGION_PAGES: u32 = 4096;
/// Regions that are looked at, 32 GiB; each takes half a KiB. Of one more the one that was met first is forgotten.
const REGIONS: usize = 2048;
/// Waits in a region before it is read, however small it is.
const LEAST_WAITS: u32 = 8;
/// Seconds of measuring that what a device is taken to give counts for.
const TAKEN_FOR: f64 = 0.25;
/// Times what it takes to read a region that must have been waited for it there. At 4 the program is held up for a tenth
/// of its time at most, should it not come back to the region.
const ARM_MARGIN: f64 = 4.0;
/// Parts that are on their way at a time: as many as keep the readers busy between two pieces.
const ON_THEIR_WAY: u32 = 32;

/// A part of a file.
#[derive(Debug)]
struct Region {
    /// Pages that were read, a bit each.
    read: Vec<u64>,
    /// Those that are left.
    left: u32,
    /// Pieces that were waited for, and for how long, nanoseconds.
    waits: u32,
    waited_ns: u64,
    /// It is being read, or was.
    is_asked: bool,
}

impl Region {
    fn new(pages: u32) -> Region {
        let read = vec![0; pages.div_ceil(u64::BITS) as usize];
        Region { read, left: pages, waits: 0, waited_ns: 0, is_asked: false }
    }

    /// Notes that these of its pages were read; returns how many of them had not been before.
    fn read(&mut self, pages: Range<u32>) -> u32 {
        let mut new = 0;
        for page in pages {
            if let Some(word) = self.read.get_mut((page / u64::BITS) as usize) {
                let bit = 1 << (page % u64::BITS);
                new += u32::from(*word & bit == 0);
                *word |= bit;
            }
        }
        self.left = self.left.saturating_sub(new);
        new
    }
}

/// How good the guesses were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ScatteredGuesses {
    /// Pages that were asked for, and those of them that were read then.
    pub(crate) asked_pages: u64,
    pub(crate) used_pages: u64,
    /// Pieces that were in what had been asked for, and what they still waited, nanoseconds.
    pieces: u64,
    still_waited_ns: u64,
    /// Other pieces that were waited for, and for how long.
    waits: u64,
    waited_ns: u64,
}

impl ScatteredGuesses {
    /// What the program would have waited besides, nanoseconds.
    pub(crate) fn saved_ns(&self) -> u64 {
        let would_ns = u128::from(self.waited_ns) * u128::from(self.pieces);
        let would_ns = would_ns.checked_div(self.waits.into()).unwrap_or(0);
        u64::try_from(would_ns).unwrap_or(u64::MAX).saturating_sub(self.still_waited_ns)
    }
}

/// Follows programs that read here and there.
#[derive(Debug)]
pub(crate) struct Scattered {
    /// By file and number of the region.
    regions: HashMap<(u32, u32), Region>,
    /// In the order in which they were met first.
    met: VecDeque<(u32, u32)>,
    /// What is to be read.
    due: VecDeque<(Arc<Path>, Range<u32>)>,
    /// Parts that were asked for and are not done with.
    on_their_way: u32,
    /// Pages that may still be asked for.
    budget_pages: u64,
    /// Bytes that were read in parts, and what that took, seconds.
    measured: (f64, f64),
    guesses: ScatteredGuesses,
}

impl Scattered {
    /// Nothing is known. At most `budget_bytes` will be asked for.
    pub(crate) fn new(budget_bytes: u64) -> Scattered {
        Scattered {
            regions: HashMap::new(),
            met: VecDeque::new(),
            due: VecDeque::new(),
            on_their_way: 0,
            budget_pages: budget_bytes / PAGE_BYTES,
            measured: (0.0, 0.0),
            guesses: ScatteredGuesses::default(),
        }
    }

    /// How good the guesses were so far.
    pub(crate) fn guesses(&self) -> ScatteredGuesses {
        self.guesses
    }

    /// So many parts are done with, and so many bytes of them came from the device in so many seconds, if all readers are taken
    /// together.
    pub(crate) fn done(&mut self, parts: u32, bytes: f64, seconds: f64) {
        self.on_their_way = self.on_their_way.saturating_sub(parts);
        self.measured = (self.measured.0 + bytes, self.measured.1 + seconds);
    }

    /// A program has read a piece that follows none before.
    pub(crate) fn read(&mut self, piece: &Piece) {
        let number = piece.pages.start / REGION_PAGES;
        let key = (piece.file, number);
        let first = number * REGION_PAGES;
        let pages = (piece.of.saturating_sub(first)).min(REGION_PAGES);
        if pages == 0 {
            return;
        }
        if !self.regions.contains_key(&key) {
            if self.met.len() >= REGIONS
                && let Some(oldest) = self.met.pop_front()
            {
                self.regions.remove(&oldest);
            }
            self.met.push_back(key);
        }
        let region = self.regions.entry(key).or_insert_with(|| Region::new(pages));
        let new = region.read(piece.pages.start - first..(piece.pages.end - first).min(pages));
        if new == 0 {
            return;
        }
        if region.is_asked {
            self.guesses.used_pages += u64::from(new);
            self.guesses.pieces += 1;
            self.guesses.still_waited_ns += piece.waited_ns;
            return;
        }
        if piece.waited_ns == 0 {
            return;
        }
        region.waits += 1;
        region.waited_ns += piece.waited_ns;
        self.guesses.waits += 1;
        self.guesses.waited_ns += piece.waited_ns;
        let (waits, waited_ns, left) = (region.waits, region.waited_ns, u64::from(region.left));
        if waits < LEAST_WAITS || (waited_ns as f64) < self.price_ns(left, waited_ns / u64::from(waits)) {
            return;
        }
        // Who reads the file does so in all of it, most likely: with less memory it would go before it is used.
        let file_pages = u64::from(piece.of);
        if file_pages.saturating_sub(self.asked_of(piece.file)) > self.budget_pages {
            return;
        }
        self.budget_pages = self.budget_pages.saturating_sub(left);
        if let Some(region) = self.regions.get_mut(&key) {
            region.is_asked = true;
        }
        self.guesses.asked_pages += left;
        let end = first + pages;
        let parts =
            (first..end).step_by(PART_PAGES as usize).map(|at| at..end.min(at.saturating_add(PART_PAGES)));
        self.due.extend(parts.map(|pages| (Arc::clone(&piece.path), pages)));
    }

    /// What should be read now.
    pub(crate) fn wanted(&mut self) -> Vec<Wanted> {
        let room = ON_THEIR_WAY.saturating_sub(self.on_their_way) as usize;
        let now = self.due.drain(..room.min(self.due.len()));
        let bytes =
            |pages: Range<u32>| u64::from(pages.start) * PAGE_BYTES..u64::from(pages.end) * PAGE_BYTES;
        let wanted: Vec<Wanted> = now.map(|(path, pages)| Wanted::Part(path, bytes(pages))).collect();
        self.on_their_way += wanted.len() as u32;
        wanted
    }

    /// What must have been waited in a region before its pages that are left are read, nanoseconds.
    fn price_ns(&self, pages: u64, mean_wait_ns: u64) -> f64 {
        let (bytes, seconds) = self.measured;
        let rate = (costs::rate(mean_wait_ns) * TAKEN_FOR + bytes) / (TAKEN_FOR + seconds);
        let margin = if mean_wait_ns >= ARM_NS { ARM_MARGIN } else { 1.0 };
        margin * (pages * PAGE_BYTES) as f64 / rate * 1e9
    }

    /// Pages of a file in regions that were asked for.
    fn asked_of(&self, file: u32) -> u64 {
        let of_file = self.regions.iter().filter(|((of, _), region)| *of == file && region.is_asked);
        of_file.map(|(_, region)| region.read.len() as u64 * u64::from(u64::BITS)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FILE_PAGES: u32 = 8 * REGION_PAGES;

    /// A program that reads pages of a file here and there. What has come is read at once and costs nothing.
    struct Program {
        scattered: Scattered,
        cached: Vec<bool>,
        wait_ns: u64,
        of: u32,
        chance: u64,
        waited_ns: u64,
        read_pages: u64,
    }

    impl Program {
        fn new(of: u32, wait_ns: u64, budget_bytes: u64) -> Program {
            let scattered = Scattered::new(budget_bytes);
            let cached = vec![false; of as usize];
            Program { scattered, cached, wait_ns, of, chance: 1, waited_ns: 0, read_pages: 0 }
        }

        /// One page of the first `within` ones.
        fn read(&mut self, within: u32) {
            self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let page = ((self.chance >> 33) % u64::from(within)) as u32;
            let is_cached = std::mem::replace(&mut self.cached[page as usize], true);
            let waited_ns = if is_cached { 0 } else { self.wait_ns };
            self.waited_ns += waited_ns;
            let path = Path::new("/file").into();
            let piece = Piece { process: 1, file: 1, path, pages: page..page + 1, of: self.of, waited_ns };
            self.scattered.read(&piece);
            let wanted = self.scattered.wanted();
            for part in &wanted {
                let Wanted::Part(_, bytes) = part else { panic!("{part:?}") };
                let pages = bytes.start / PAGE_BYTES..bytes.end / PAGE_BYTES;
                self.read_pages += pages.end - pages.start;
                pages.for_each(|page| self.cached[page as usize] = true);
            }
            self.scattered.done(wanted.len() as u32, 0.0, 0.0);
        }
    }

    #[test]
    fn a_file_that_is_read_here_and_there_is_read_as_a_whole() {
        let mut program = Program::new(FILE_PAGES, MS, u64::MAX);
        (0..20_000).for_each(|_| program.read(FILE_PAGES));
        // Of 15,000 pages it has waited for as many as it takes to read the file twice at 131 MB/s, at most.
        let whole_ns = u64::from(FILE_PAGES) * PAGE_BYTES * 1000 / 131;
        assert!(program.waited_ns < 2 * whole_ns, "{} of {whole_ns}", program.waited_ns);
        let guesses = program.scattered.guesses();
        let saved_ns = guesses.saved_ns();
        assert!(saved_ns > 5 * whole_ns, "{saved_ns}: {guesses:?}");
    }

    #[test]
    fn who_stays_in_a_part_of_it_has_that_part_read() {
        let mut program = Program::new(FILE_PAGES, MS, u64::MAX);
        (0..5000).for_each(|_| program.read(REGION_PAGES));
        assert_eq!(program.read_pages, u64::from(REGION_PAGES));
    }

    #[test]
    fn who_ends_early_costs_nothing() {
        let mut program = Program::new(FILE_PAGES, MS, u64::MAX);
        (0..500).for_each(|_| program.read(FILE_PAGES));
        assert_eq!(program.read_pages, 0);
    }

    #[test]
    fn before_an_arm_four_times_as_long_must_have_been_waited() {
        let waits_before = |wait_ns| {
            let mut program = Program::new(FILE_PAGES, wait_ns, u64::MAX);
            (1..).find(|_| {
                program.read(REGION_PAGES);
                program.read_pages > 0
            })
        };
        let (volume, arm) = (waits_before(MS).unwrap(), waits_before(8 * MS).unwrap());
        // 16 MiB are 128 ms at 131 MB/s, and 168 ms at 100 MB/s.
        assert!((115..=130).contains(&volume), "{volume}");
        assert!((75..=90).contains(&arm), "{arm}");
    }

    #[test]
    fn what_does_not_fit_is_not_read() {
        let mut program = Program::new(FILE_PAGES, MS, u64::from(FILE_PAGES - 1) * PAGE_BYTES);
        (0..20_000).for_each(|_| program.read(FILE_PAGES));
        assert_eq!(program.read_pages, 0);
    }

    #[test]
    fn the_end_of_the_largest_file_is_read_as_well() {
        let mut scattered = Scattered::new(u64::MAX);
        let mut wanted = Vec::new();
        for at in 0..100 {
            let (path, page) = (Path::new("/file").into(), u32::MAX - 20 * (at + 1));
            let (pages, waited_ns) = (page..page + 1, 10 * MS);
            scattered.read(&Piece { process: 1, file: 1, path, pages, of: u32::MAX, waited_ns });
            wanted.extend(scattered.wanted());
            scattered.done(ON_THEIR_WAY, 0.0, 0.0);
        }
        let Some(Wanted::Part(_, bytes)) = wanted.pop() else { panic!("nothing is read") };
        let end = u64::from(u32::MAX) * PAGE_BYTES;
        assert_eq!(bytes, end - u64::from(PART_PAGES - 1) * PAGE_BYTES..end);
    }

    #[test]
    fn no_more_parts_are_on_their_way_than_may_be() {
        let mut scattered = Scattered::new(u64::MAX);
        let path: Arc<Path> = Path::new("/file").into();
        let mut read = |page: u32, done: u32| {
            scattered.done(done, 0.0, 0.0);
            let pages = page..page + 1;
            let path = Arc::clone(&path);
            scattered.read(&Piece { process: 1, file: 1, path, pages, of: FILE_PAGES, waited_ns: 100 * MS });
            scattered.wanted().len()
        };
        let mut on_their_way = 0;
        (0..2000).for_each(|at| on_their_way += read(at * 15, 0));
        assert_eq!(on_their_way, 32, "of 256");
        assert_eq!(read(1, 5), 5, "however they ended");
    }

    #[test]
    fn of_many_regions_the_first_are_forgotten() {
        let mut scattered = Scattered::new(u64::MAX);
        for file in 0..2 * REGIONS as u32 {
            let path = Path::new("/file").into();
            scattered.read(&Piece { process: 1, file, path, pages: 0..1, of: 9, waited_ns: 1 });
        }
        assert_eq!((scattered.regions.len(), scattered.met.len()), (REGIONS, REGIONS));
        assert!(scattered.regions.contains_key(&(2 * REGIONS as u32 - 1, 0)));
    }
}
