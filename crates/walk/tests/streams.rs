//! Programs that go through a file: which pages were wanted before they came to them, and which for nothing.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use foretell_walk::{Piece, StreamGuesses, Streams, Wanted};
use proptest::{collection, prop_assert, prop_assert_eq, proptest};

const PAGE_BYTES: u64 = 4096;
/// 64 MiB.
const BUDGET_PAGES: u64 = 16 << 10;
const WAIT_NS: u64 = 1_000_000;

/// SplitMix64 (Steele, Lea and Flood 2014).
fn at_random(number: u64, below: u32) -> u32 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) % u64::from(below)) as u32
}

/// What came of following a program.
struct Followed {
    streams: Streams,
    /// Pages that were wanted and that it has not come to.
    wanted: BTreeSet<u32>,
    /// Pages that were wanted, in order.
    all_wanted: Vec<Range<u32>>,
    /// Pages that it came to after they had been wanted, and others.
    foreseen: u32,
    others: u32,
}

impl Followed {
    fn new() -> Followed {
        let streams = Streams::new(BUDGET_PAGES * PAGE_BYTES, 0, |_| false);
        Followed { streams, wanted: BTreeSet::new(), all_wanted: Vec::new(), foreseen: 0, others: 0 }
    }

    /// A program reads, and waits unless all of it had been wanted.
    fn read(&mut self, process: u32, pages: Range<u32>, of: u32) {
        let foreseen = pages.clone().filter(|page| self.wanted.remove(page)).count() as u32;
        let others = pages.len() as u32 - foreseen;
        (self.foreseen, self.others) = (self.foreseen + foreseen, self.others + others);
        let waited_ns = if others > 0 { WAIT_NS } else { 0 };
        self.tell(Piece { process, file: 0, path: Path::new("/data").into(), pages, of, waited_ns });
    }

    fn tell(&mut self, piece: Piece) {
        for wanted in self.streams.read(&piece) {
            let Wanted::Part(path, bytes) = wanted else { panic!("{wanted:?}") };
            assert_eq!(path, piece.path);
            assert!(bytes.start < bytes.end && bytes.end <= u64::from(piece.of) * PAGE_BYTES, "{bytes:?}");
            let page = |byte| u32::try_from(byte / PAGE_BYTES).unwrap();
            let pages = page(bytes.start)..page(bytes.end);
            self.wanted.extend(pages.clone());
            self.all_wanted.push(pages);
        }
    }

    fn guesses(&self) -> StreamGuesses {
        self.streams.guesses()
    }
}

/// Pages have numbers of 32 bits, which do for 16 TiB; a larger file counts as one of as many.
#[test]
fn the_end_of_the_largest_file_is_read_ahead_of() {
    let mut followed = Followed::new();
    for at in (u32::MAX - 4000..u32::MAX - 10).step_by(10) {
        followed.read(1, at..at + 10, u32::MAX);
    }
    assert_eq!(followed.all_wanted.last().map(|pages| pages.end), Some(u32::MAX));
}

#[test]
fn a_sequence_is_read_ahead_of_as_far_as_it_has_come() {
    let mut followed = Followed::new();
    for at in 0..255 {
        followed.read(1, at..at + 1, 4000);
    }
    assert_eq!(followed.all_wanted, [], "less than a MiB");
    followed.read(1, 255..256, 4000);
    assert_eq!(followed.all_wanted, [256..384, 384..512], "another MiB, in parts");
    for at in 256..4000 {
        followed.read(1, at..at + 1, 4000);
        assert!(followed.wanted.last().is_none_or(|&last| last < 2 * at + 2));
    }
    // Once it has been seen for 3 MiB what it waits by itself.
    let alone = 256 + 768;
    assert_eq!((followed.foreseen, followed.others), (4000 - alone, alone));
    let asked: u32 = followed.all_wanted.iter().map(|pages| pages.len() as u32).sum();
    assert_eq!(asked, 4000 - alone, "each page once, and none beyond the end");
    let guesses = followed.guesses();
    let foreseen = u64::from(4000 - alone);
    assert_eq!((guesses.used_pages, guesses.wrong_pages), (foreseen, 0));
    // What had been asked for when it was left alone does not count.
    assert!((foreseen * WAIT_NS * 2 / 3..=foreseen * WAIT_NS).contains(&guesses.saved_ns), "{guesses:?}");
}

#[test]
fn with_little_memory_a_sequence_is_left_to_the_kernel() {
    for (budget_pages, is_left) in [(1023, false), (511, true)] {
        let mut followed =
            Followed { streams: Streams::new(budget_pages * PAGE_BYTES, 0, |_| false), ..Followed::new() };
        (0..4000).for_each(|at| followed.read(1, at..at + 1, 4000));
        assert_eq!(followed.all_wanted.is_empty(), is_left, "{budget_pages}");
    }
}

#[test]
fn what_a_sequence_waits_at_first_tells_nothing() {
    let mut followed = Followed::new();
    // The kernel's first small windows take long.
    for at in 0..4000 {
        let waited_ns = if at < 40 { 100 * WAIT_NS } else { WAIT_NS };
        let path = Path::new("/data").into();
        followed.tell(Piece { process: 1, file: 0, path, pages: at..at + 1, of: 4000, waited_ns });
    }
    let guesses = followed.guesses();
    assert!(
        guesses.used_pages > 1000 && guesses.saved_ns == 0,
        "it waits for each as by itself: {guesses:?}"
    );
}

/// On a disk with an arm what we read is in the way of what the program reads, also once it has overtaken us.
#[test]
fn where_all_takes_longer_for_us_it_ends() {
    let mut followed = Followed::new();
    for file in 0..20 {
        for at in 0..4000 {
            let waited_ns = if followed.all_wanted.is_empty() { WAIT_NS } else { 2 * WAIT_NS };
            let path = Path::new("/data").into();
            followed.tell(Piece { process: 1, file, path, pages: at..at + 1, of: 4000, waited_ns });
        }
    }
    let asked: usize = followed.all_wanted.iter().map(|pages| pages.len()).sum();
    assert!(asked < 8000, "{asked} of 80,000");
    let StreamGuesses { saved_ns, at_full_rate_ns, .. } = followed.guesses();
    assert_eq!(saved_ns, 0);
    assert!(at_full_rate_ns > 140_000 * WAIT_NS, "of 160,000: nothing makes it faster");
}

#[test]
fn what_is_cached_while_it_is_tried_tells_nothing() {
    let mut followed = Followed::new();
    for file in 0..12_u32 {
        // The first one ends as the trial begins, and the two after it are cached.
        let of = if file == 0 { 1300 } else { 4000 };
        for at in 0..of {
            let is_foreseen = followed.wanted.remove(&(file * 10_000 + at));
            let waited_ns = match file {
                1 | 2 => 0,
                _ if is_foreseen => WAIT_NS / 100,
                _ => WAIT_NS,
            };
            let path = Path::new("/data").into();
            let piece = Piece { process: 1, file, path, pages: at..at + 1, of, waited_ns };
            for wanted in followed.streams.read(&piece) {
                let Wanted::Part(_, bytes) = wanted else { panic!("{wanted:?}") };
                let pages = bytes.start / PAGE_BYTES..bytes.end / PAGE_BYTES;
                followed.wanted.extend(pages.map(|page| file * 10_000 + page as u32));
            }
        }
    }
    let guesses = followed.guesses();
    assert!(guesses.used_pages > 20_000, "{guesses:?}");
}

#[test]
fn one_large_read_is_no_sequence() {
    let mut followed = Followed::new();
    let read = |pages| {
        let (path, waited_ns) = (Path::new("/data").into(), 10 * WAIT_NS);
        Piece { process: 1, file: 0, path, pages, of: 9000, waited_ns }
    };
    for pages in [0..1000, 1000..2000, 2000..3000] {
        followed.tell(read(pages));
    }
    assert_eq!(followed.all_wanted, []);
    followed.tell(read(3000..4000));
    assert_eq!(followed.all_wanted[0].start, 4000);
}

#[test]
fn equal_steps_are_known_from_the_fourth_on() {
    let mut followed = Followed::new();
    for step in 0..3 {
        followed.read(1, 70 * step..70 * step + 2, 9000);
    }
    assert_eq!(followed.all_wanted, []);
    for step in 3..128 {
        followed.read(1, 70 * step..70 * step + 2, 9000);
    }
    assert!(followed.foreseen >= 2 * 120, "{}", followed.foreseen);
    assert_eq!((followed.guesses().wrong_pages, followed.guesses().saved_ns), (0, 0), "all may be cached");
    followed.streams.looked_at(10, 5);
    let half_ns = followed.guesses().used_pages / 2 / 2 * WAIT_NS;
    assert!((half_ns..half_ns + 10 * WAIT_NS).contains(&followed.guesses().saved_ns));
    assert!(followed.all_wanted.iter().all(|pages| pages.len() == 2), "nothing of what lies between");
}

/// Records of 100,000 bytes, of which the first ones are read.
#[test]
fn steps_that_are_no_whole_pages_are_foreseen() {
    let mut followed = Followed::new();
    for record in 0..400_u32 {
        let page = record * 100_000 / 4096;
        followed.read(1, page..page + 1, 400 * 25);
    }
    assert!(followed.foreseen >= 390, "{}", followed.foreseen);
    let asked = followed.guesses().asked_pages;
    assert!(asked < 4 * 400, "{asked}");
}

#[test]
fn a_file_that_is_read_from_its_end_is_foreseen() {
    let mut followed = Followed::new();
    for at in (0..2000).rev() {
        followed.read(1, 2 * at..2 * at + 2, 4000);
    }
    assert!(followed.foreseen > 3900, "{}", followed.foreseen);
    let few = followed.all_wanted.len();
    assert!(few < 120, "neighbours are asked for together: {few}");
    assert!(followed.wanted.is_empty());
}

#[test]
fn sequences_beside_each_other_are_told_apart() {
    let mut followed = Followed::new();
    for at in 0..1000 {
        for stream in 0..4 {
            followed.read(1, 10_000 * stream + at..10_000 * stream + at + 1, 40_000);
        }
        followed.read(2, 5000 + at..5001 + at, 40_000);
    }
    // 5,000 less the first MiB of each, and 3 MiB in which it is seen what they wait by themselves.
    assert!(followed.foreseen > 2800, "{}", followed.foreseen);
}

#[test]
fn what_does_not_wait_needs_nothing() {
    let mut followed = Followed::new();
    for at in 0..2000 {
        let path = Path::new("/data").into();
        followed.tell(Piece { process: 1, file: 0, path, pages: at..at + 1, of: 4000, waited_ns: 0 });
    }
    assert_eq!(followed.all_wanted, []);
}

/// 2 us a page: a device of 2 GB/s.
#[test]
fn a_quick_device_is_left_to_the_kernel() {
    let mut followed = Followed::new();
    for at in 0..2000 {
        let (path, waited_ns) = (Path::new("/data").into(), if at % 32 == 0 { 64_000 } else { 0 });
        followed.tell(Piece { process: 1, file: 0, path, pages: at..at + 1, of: 4000, waited_ns });
    }
    assert_eq!(followed.all_wanted, []);
}

/// It waits for us longer than it did by itself.
#[test]
fn who_is_quicker_than_we_are_is_left_alone() {
    let mut followed = Followed::new();
    for at in 0..20_000 {
        let path = Path::new("/data").into();
        let waited_ns = if followed.wanted.remove(&at) { 10_000 } else { 5000 };
        followed.tell(Piece { process: 1, file: 0, path, pages: at..at + 1, of: 20_000, waited_ns });
    }
    let asked = followed.guesses().asked_pages;
    assert!((1024..5000).contains(&asked), "{asked}");
}

#[test]
fn what_is_cached_already_is_left_alone_until_the_program_waits() {
    let mut followed = Followed::new();
    for at in 0..300 {
        followed.read(1, at..at + 1, 1 << 20);
    }
    let before = followed.all_wanted.len();
    assert!(before > 0);
    followed.streams.looked_at(40, 4);
    for at in 300..1000 {
        let path = Path::new("/data").into();
        followed.tell(Piece { process: 1, file: 0, path, pages: at..at + 1, of: 1 << 20, waited_ns: 0 });
    }
    assert_eq!(followed.all_wanted.len(), before);
    for at in 1000..1004 {
        followed.read(1, at..at + 1, 1 << 20);
    }
    assert!(followed.all_wanted.len() > before);
}

/// Records of 300 pages, each read in sequence and then left.
#[test]
fn sequences_that_end_are_not_believed_for_ever() {
    let mut followed = Followed::new();
    for record in 0..60_u64 {
        let from = at_random(record, 1 << 20);
        for at in from..from + 300 {
            followed.read(1, at..at + 1, 1 << 21);
        }
    }
    let asked = followed.guesses().asked_pages;
    // Two may end before that tells against the others; and what was asked for them was as much as they had read.
    assert!(asked <= 16 * 256, "{asked}");
}

#[test]
fn places_at_random_are_no_steps() {
    let mut followed = Followed::new();
    for n in 0_u64..20_000 {
        let at = at_random(n, 50_000);
        followed.read(1, at..at + 2, 50_000);
    }
    let asked = followed.guesses().asked_pages;
    assert!(asked * 100 <= 40_000, "{asked} of 40,000 pages");
}

#[test]
fn no_more_is_ahead_than_was_allowed() {
    let mut streams = Streams::new(1024 * PAGE_BYTES, 0, |_| false);
    let (mut asked, mut read) = (0, 0);
    for at in 0..3000 {
        // Two hundred processes, of which each stops somewhere.
        let process = at / 15;
        let path = Path::new("/data").into();
        let pages = at % 15 * 100..at % 15 * 100 + 100;
        let piece = Piece { process, file: 0, path, pages, of: 1 << 20, waited_ns: WAIT_NS };
        for wanted in streams.read(&piece) {
            let Wanted::Part(_, bytes) = wanted else { panic!("{wanted:?}") };
            asked += (bytes.end - bytes.start) / PAGE_BYTES;
        }
        read += 100;
    }
    let guesses = streams.guesses();
    assert_eq!(guesses.asked_pages, asked);
    assert!(asked <= guesses.used_pages + guesses.wrong_pages + 1024 && asked < read, "{guesses:?}");
}

proptest! {
    /// Whatever comes, what is wanted lies in the file, and the counts add up.
    #[test]
    fn any_pieces_are_survived(
        pieces in collection::vec((0_u32..80, 0_u32..3, 0_u32..400, 1_u32..40, 0_u64..2), 0..600),
        strides in collection::vec(1_u32..9, 3..4),
        budget_pages in 0_u64..600,
    ) {
        let mut streams = Streams::new(budget_pages * PAGE_BYTES, 0, |_| false);
        let mut asked_pages = 0;
        for (process, file, at, pages, waited_ns) in pieces {
            // Few distinct distances, so that steps come about.
            let start = at / 4 * strides[file as usize];
            let of = 500 * (file + 1);
            let pages = start..start + pages;
            let piece = Piece { process: process / 20, file, path: Path::new("/x").into(), pages, of, waited_ns };
            for wanted in streams.read(&piece) {
                let Wanted::Part(_, bytes) = &wanted else { panic!("{wanted:?}") };
                prop_assert!(bytes.start < bytes.end && bytes.end <= u64::from(of) * PAGE_BYTES, "{:?}", bytes);
                asked_pages += 1;
            }
        }
        let StreamGuesses { asked_pages: counted, used_pages, wrong_pages, .. } = streams.guesses();
        prop_assert!(counted >= asked_pages);
        prop_assert!(used_pages + wrong_pages <= counted);
        prop_assert!(counted - used_pages - wrong_pages <= budget_pages);
        if budget_pages == 0 {
            prop_assert_eq!(counted, 0);
        }
    }
}

/// What the kernel reads ahead of a sequence is in sequence as well, and nothing moves the arm away.
#[test]
fn on_a_disk_with_an_arm_sequences_are_read_ahead_of_only_if_they_come_by_turns() {
    const MS: u64 = 1_000_000;
    let (yes, no) = (|_: &Path| true, |_: &Path| false);
    let asked = |files: u32, first_wait_ns: u64, has_arm: fn(&Path) -> bool| {
        let mut streams = Streams::new(BUDGET_PAGES * PAGE_BYTES, 0, has_arm);
        for at in 0..512 {
            for file in 0..files {
                let waited_ns = if at == 0 { first_wait_ns } else { MS };
                let (path, pages) = (Path::new("/data").into(), 32 * at..32 * (at + 1));
                streams.read(&Piece { process: 1, file, path, pages, of: 1 << 20, waited_ns });
            }
        }
        let StreamGuesses { asked_pages, at_full_rate_ns, .. } = streams.guesses();
        assert!(asked_pages > 0 || at_full_rate_ns > 450 * MS, "of 512 ms: the disk gives no more");
        asked_pages > 0
    };
    assert!(!asked(1, 8 * MS, yes), "one after the other");
    assert!(asked(2, 8 * MS, yes), "by turns");
    assert!(asked(1, MS, yes), "it only says so");
    assert!(asked(1, 8 * MS, no));
}
