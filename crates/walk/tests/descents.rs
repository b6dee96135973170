//! Programs that go through the directories of made-up trees: what was known to the kernel before they came to it, and what
//! was asked for and not needed.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foretell_walk::{Contents, DescentGuesses, Descents, Look, Place, Wanted};
use proptest::{collection, prop_assert, prop_assert_eq, proptest};

/// SplitMix64 (Steele, Lea and Flood 2014).
fn scrambled(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A name and the number of its inode.
type Name = (OsString, u64);

/// A tree: of each directory those in it as they are listed, with the numbers of their inodes, and how many files it has.
#[derive(Debug, Default)]
struct Made(BTreeMap<PathBuf, (Vec<Name>, usize)>);

impl Made {
    /// `/data/...`: so many directories in each directory, level by level, each with so many files.
    fn of(widths: &[usize], files: usize) -> Made {
        let mut made = Made::default();
        made.add(Path::new("/data"), widths, files);
        made
    }

    fn add(&mut self, path: &Path, widths: &[usize], files: usize) {
        let number = self.0.len() as u64 * 1000;
        let inside = widths.first().copied().unwrap_or(0);
        let mut names: Vec<Name> =
            (0..inside as u64).map(|n| (format!("d{n:03}").into(), scrambled(number + n))).collect();
        names.sort_by_key(|(_, inode)| scrambled(*inode));
        self.0.insert(path.to_owned(), (names.clone(), files));
        for (name, _) in names {
            self.add(&path.join(name), &widths[1..], files);
        }
    }

    fn contents(&self, directory: &Path) -> Contents {
        let (directories, others) = self.0.get(directory).cloned().unwrap_or_default();
        Contents { directory: directory.into(), directories, others }
    }

    /// All directories from the top, what is in one before what is beside it.
    fn depth_first(&self, top: &Path, by: &dyn Fn(&mut [Name])) -> Vec<PathBuf> {
        let mut inside = self.0[top].0.clone();
        by(&mut inside);
        let below = inside.iter().flat_map(|(name, _)| self.depth_first(&top.join(name), by));
        std::iter::once(top.to_owned()).chain(below).collect()
    }

    /// What is beside a directory before what is in it.
    fn breadth_first(&self, top: &Path) -> Vec<PathBuf> {
        let (mut queue, mut order) = (VecDeque::from([top.to_owned()]), Vec::new());
        while let Some(next) = queue.pop_front() {
            queue.extend(self.0[&next].0.iter().map(|(name, _)| next.join(name)));
            order.push(next);
        }
        order
    }

    /// All directories in one come, then what is in the first of them.
    fn by_siblings(&self, top: &Path) -> Vec<PathBuf> {
        let mut order = vec![top.to_owned()];
        let mut groups = vec![vec![top.to_owned()]];
        while let Some(group) = groups.pop() {
            let mut new = Vec::new();
            for directory in group {
                let inside: Vec<_> =
                    self.0[&directory].0.iter().map(|(name, _)| directory.join(name)).collect();
                order.extend(inside.iter().cloned());
                if !inside.is_empty() {
                    new.push(inside);
                }
            }
            groups.extend(new.into_iter().rev());
        }
        order
    }
}

/// Threads that take turns: each goes on with what it has found last, and who has nothing takes what another one found first.
fn by_threads(made: &Made, top: &Path, threads: usize) -> Vec<PathBuf> {
    let mut found = vec![VecDeque::new(); threads];
    found[0].push_back(top.to_owned());
    let mut order = Vec::new();
    for turn in 0.. {
        let at = turn % threads;
        if found.iter().all(VecDeque::is_empty) {
            break;
        }
        let mine = found[at].pop_back();
        let Some(next) = mine.or_else(|| found.iter_mut().find_map(VecDeque::pop_front)) else { continue };
        found[at].extend(made.0[&next].0.iter().map(|(name, _)| next.join(name)));
        order.push(next);
    }
    order
}

/// A program, and what the kernel knows.
struct Run<'a> {
    made: &'a Made,
    /// Of each directory, whether its inodes are known as well.
    known: HashMap<PathBuf, bool>,
    queue: VecDeque<Wanted>,
    descents: Descents,
    /// It asks for the inodes under the names.
    asks: bool,
    /// Of the directories in which it waits it is seen in all but one in so many; 0, in all.
    misses: u64,
    /// What it has waited where it was not seen.
    unseen_ns: u64,
    /// Pieces of the disk that the program has waited for, and that were read ahead.
    waits: usize,
    read_ahead: usize,
}

impl<'a> Run<'a> {
    fn new(made: &'a Made, asks: bool) -> Run<'a> {
        Run {
            made,
            known: HashMap::new(),
            queue: VecDeque::new(),
            descents: Descents::new(16 << 20),
            asks,
            misses: 0,
            unseen_ns: 0,
            waits: 0,
            read_ahead: 0,
        }
    }

    /// Eight pieces are read ahead while the program waits for one.
    fn read_ahead(&mut self, pieces: usize) {
        let mut left = pieces;
        while left > 0 {
            let Some(wanted) = self.queue.pop_front() else { return };
            let Wanted::Contents(path, look) = wanted else { panic!("{wanted:?}") };
            let with_inodes = look == Look::Inodes;
            let known = self.known.insert(path.to_path_buf(), with_inodes);
            let takes = match known {
                None => 1 + usize::from(with_inodes),
                Some(inodes) => usize::from(with_inodes && !inodes),
            };
            *self.known.get_mut(&*path).unwrap() |= known.unwrap_or(false);
            self.read_ahead += takes;
            left = left.saturating_sub(takes);
            let contents = self.made.contents(&path);
            let more = self.descents.listed(&contents);
            self.queue.extend(more);
            self.descents.looked_at(u32::from(look != Look::Come), u32::from(takes > 0));
        }
    }

    /// The program goes through these. Where it waits it is seen, elsewhere one time in ten.
    fn go(&mut self, order: &[PathBuf]) -> DescentGuesses {
        for (number, directory) in order.iter().enumerate() {
            let pieces = match self.known.get(directory) {
                None => 1 + usize::from(self.asks),
                Some(inodes) => usize::from(self.asks && !inodes),
            };
            self.known.insert(directory.clone(), self.asks || self.known.get(directory) == Some(&true));
            self.waits += pieces;
            self.unseen_ns += 1_000_000 * pieces as u64;
            let is_missed = self.misses > 0 && scrambled(number as u64).is_multiple_of(self.misses);
            if !is_missed && (pieces > 0 || number % 10 == 0) {
                let path: Arc<Path> = directory.as_path().into();
                let place =
                    Place { process: 1, directory: path, waited_ns: std::mem::take(&mut self.unseen_ns) };
                let wanted = self.descents.seen(&place);
                self.queue.extend(wanted);
            }
            self.read_ahead(8 * pieces.max(1));
        }
        self.descents.guesses()
    }
}

fn by_name(names: &mut [Name]) {
    names.sort();
}

#[test]
fn whoever_asks_for_all_inodes_waits_for_few() {
    let made = Made::of(&[100, 3, 5], 10);
    let top = Path::new("/data");
    let orders: [(&str, Vec<PathBuf>); 6] = [
        ("listing", made.depth_first(top, &|_| ())),
        ("name", made.depth_first(top, &by_name)),
        ("inode", made.depth_first(top, &|names| names.sort_by_key(|(_, inode)| *inode))),
        ("reverse", made.depth_first(top, &|names| names.reverse())),
        ("breadth", made.breadth_first(top)),
        ("siblings", made.by_siblings(top)),
    ];
    for (what, order) in orders {
        assert_eq!(order.len(), made.0.len());
        let mut run = Run::new(&made, true);
        let guesses = run.go(&order);
        let alone = 2 * order.len();
        // One in sixteen is left to the program, and of another one the inodes are. What is not depth first is taken for it at
        // first.
        let most = if matches!(what, "breadth" | "siblings") { alone / 2 } else { alone * 3 / 10 };
        assert!(run.waits < most, "{what}: {} of {alone} waits, {guesses:?}", run.waits);
        assert!(run.waits + run.read_ahead <= alone + 16, "{what}: {} and {}", run.waits, run.read_ahead);
        assert!(guesses.wrong <= 16, "{what}: {guesses:?}");
        let saved = guesses.saved_ns as usize / 1_000_000;
        assert!((alone / 2..alone * 13 / 10).contains(&saved), "{what}: {saved} of {alone}");
    }
}

#[test]
fn whoever_is_not_seen_everywhere_is_helped_as_well() {
    for (widths, misses) in
        [(&[300, 1][..], 2), (&[100, 3, 5], 2), (&[300, 1], 3), (&[1000], 2), (&[2, 400], 4)]
    {
        let made = Made::of(widths, 3);
        let order = made.depth_first(Path::new("/data"), &|_| ());
        for asks in [true, false] {
            let mut run = Run { misses, ..Run::new(&made, asks) };
            let guesses = run.go(&order);
            let alone = order.len() * if asks { 2 } else { 1 };
            assert!(
                run.waits * 3 < alone,
                "{widths:?} {misses}: {} of {alone} waits, {guesses:?}",
                run.waits
            );
        }
    }
}

#[test]
fn who_is_seen_in_the_innermost_only_is_helped_as_well() {
    let made = Made::of(&[300, 1], 3);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let innermost: Vec<PathBuf> =
        order.iter().filter(|path| path.components().count() == 4).cloned().collect();
    let mut run = Run::new(&made, false);
    let guesses = run.go(&innermost);
    assert!(run.waits * 4 < innermost.len(), "{} of {} waits, {guesses:?}", run.waits, innermost.len());
}

#[test]
fn who_is_seen_everywhere_but_at_the_top_is_helped_as_well() {
    let made = Made::of(&[400, 3], 4);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let mut run = Run::new(&made, true);
    let guesses = run.go(&order[1..]);
    assert!(run.waits * 3 < 2 * order.len(), "{} of {} waits, {guesses:?}", run.waits, 2 * order.len());
}

#[test]
fn threads_that_share_a_tree_are_helped() {
    for (threads, misses) in [(2, 0), (2, 2), (4, 0), (4, 2)] {
        let made = Made::of(&[100, 3, 5], 3);
        let order = by_threads(&made, Path::new("/data"), threads);
        assert_eq!(order.len(), made.0.len());
        let mut run = Run { misses, ..Run::new(&made, false) };
        let guesses = run.go(&order);
        let (waits, alone) = (run.waits, order.len());
        // Those that are seen in half of the places only are hard to tell from those that go through a tree in no order.
        let most = if misses == 0 { alone * 3 / 5 } else { alone * 4 / 5 };
        assert!(waits < most, "{threads} {misses}: {waits} of {alone} waits, {guesses:?}");
    }
}

#[test]
fn inodes_that_nobody_asks_for_are_not_read() {
    let made = Made::of(&[100, 3, 5], 10);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let mut run = Run::new(&made, false);
    run.go(&order);
    assert!(run.waits * 5 < order.len(), "{} of {} waits", run.waits, order.len());
    assert!(run.waits + run.read_ahead <= order.len() + 64, "{} and {}", run.waits, run.read_ahead);
}

#[test]
fn one_tree_after_the_other_and_many_small_ones() {
    let made = Made::of(&[4, 50, 4], 3);
    // From a list: each second of the trees, in no order.
    let mut trees: Vec<&PathBuf> = made.0.keys().filter(|path| path.components().count() == 3).collect();
    trees.sort_by_key(|path| scrambled(path.as_os_str().len() as u64 * 7));
    let order: Vec<PathBuf> = trees.iter().flat_map(|tree| made.depth_first(tree, &|_| ())).collect();
    let mut run = Run::new(&made, true);
    let guesses = run.go(&order);
    assert!(run.waits * 3 < 2 * order.len(), "{} of {} waits, {guesses:?}", run.waits, 2 * order.len());
}

#[test]
fn in_no_order_little_is_asked_for_in_vain() {
    let made = Made::of(&[200, 8], 3);
    let mut order: Vec<PathBuf> = made.0.keys().cloned().collect();
    order.sort_by_key(|path| {
        scrambled(path.to_string_lossy().bytes().fold(7, |sum, byte| scrambled(sum ^ u64::from(byte))))
    });
    let third = &order[..order.len() / 3];
    let mut run = Run::new(&made, true);
    let guesses = run.go(third);
    assert!(run.read_ahead < third.len() / 4, "{} for {}, {guesses:?}", run.read_ahead, third.len());
}

#[test]
fn where_it_does_not_pay_nothing_is_asked_for_long() {
    let made = Made::of(&[300, 5], 10);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let mut run = Run::new(&made, true);
    for directory in &order {
        // A disk with an arm: whatever is asked for, the program waits as long.
        let path: Arc<Path> = directory.as_path().into();
        let wanted = run.descents.seen(&Place { process: 1, directory: path, waited_ns: 8_000_000 });
        run.queue.extend(wanted);
        run.read_ahead(2);
    }
    let guesses = run.descents.guesses();
    assert!((1..400).contains(&guesses.asked), "{guesses:?} of {}", order.len());
    assert!(guesses.saved_ns < 1_000_000_000, "{guesses:?}");
}

#[test]
fn for_who_does_not_wait_nothing_is_done() {
    let made = Made::of(&[50, 5], 3);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let mut run = Run::new(&made, true);
    run.known = made.0.keys().map(|path| (path.clone(), true)).collect();
    let guesses = run.go(&order);
    assert_eq!((run.waits, run.read_ahead, guesses), (0, 0, DescentGuesses::default()));
}

#[test]
fn little_memory_holds_little() {
    let made = Made::of(&[100, 10], 1000);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let mut run = Run::new(&made, true);
    // What fits in it are the names and inodes of four such directories.
    run.descents = Descents::new(4 * 1001 * 1536 + 1_000_000);
    let mut pending = 0;
    for directory in &order {
        let place = Place { process: 1, directory: directory.as_path().into(), waited_ns: 1 };
        let wanted = run.descents.seen(&place);
        run.queue.extend(wanted);
        run.read_ahead(1000);
        let guesses = run.descents.guesses();
        pending = pending.max(guesses.asked - guesses.used);
    }
    assert!((1..=16).contains(&pending), "{pending}");
}

#[test]
fn what_cannot_be_listed_is_asked_for_twice_at_most() {
    let mut descents = Descents::new(1 << 22);
    let mut wishes: HashMap<PathBuf, usize> = HashMap::new();
    for n in 0..1000 {
        let directory: Arc<Path> = Path::new(&format!("/data/large/d{n}")).into();
        for wanted in descents.seen(&Place { process: 1, directory, waited_ns: 1 }) {
            let Wanted::Contents(path, _) = wanted else { panic!("{wanted:?}") };
            *wishes.entry(path.to_path_buf()).or_default() += 1;
        }
    }
    assert!(wishes.contains_key(Path::new("/data/large")));
    assert!(wishes.values().all(|wishes| *wishes <= 2), "{:?}", wishes.iter().max_by_key(|(_, n)| **n));
}

#[test]
fn after_much_that_was_wrong_it_is_guessed_again() {
    let made = Made::of(&[40, 100], 3);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let (known, rest) = order.split_at(400);
    // In order, then in none, then in order.
    let mut jumps: Vec<PathBuf> = rest[..400].to_vec();
    jumps.sort_by_key(|path| {
        path.to_string_lossy().bytes().fold(7, |sum, byte| scrambled(sum ^ u64::from(byte)))
    });
    let mut run = Run::new(&made, true);
    run.go(known);
    run.go(&jumps);
    let before = run.waits;
    run.go(&rest[400..]);
    assert!(run.waits - before < rest.len() - 400, "{} of {}", run.waits - before, 2 * (rest.len() - 400));
}

#[test]
fn a_tree_of_more_directories_than_are_remembered_is_helped_to_its_end() {
    let made = Made::of(&[700, 100], 1);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    assert!(order.len() > 1 << 16);
    let mut run = Run::new(&made, false);
    let (most, last) = order.split_at(1 << 16);
    run.go(most);
    let before = run.waits;
    run.go(last);
    assert!((run.waits - before) * 3 < last.len(), "{} of {}", run.waits - before, last.len());
}

#[test]
fn of_more_processes_than_are_followed_and_directories_that_are_large_all_are_forgotten() {
    let made = Made::of(&[40, 2000], 1);
    let order = made.depth_first(Path::new("/data"), &|_| ());
    let mut run = Run::new(&made, false);
    for process in 0..10_000 {
        let directory: Arc<Path> = order[process as usize % 3].as_path().into();
        run.descents.seen(&Place { process, directory, waited_ns: 0 });
    }
    // What is found ahead in nine of these is more than is held.
    run.go(&order);
    assert!(run.waits * 3 < order.len(), "{} of {}", run.waits, order.len());
}

proptest! {
    /// Whatever is seen, in whatever order answers come: no more is asked for than there is, each directory once, and the books
    /// are right.
    #[test]
    fn any_sequence_is_survived(steps in collection::vec((0_u32..3, 0_usize..400, 0_u64..3, 0_usize..4), 1..600)) {
        let made = Made::of(&[8, 6, 4], 2);
        let paths: Vec<&PathBuf> = made.0.keys().collect();
        let mut descents = Descents::new(1 << 22);
        let mut waiting: Vec<Arc<Path>> = Vec::new();
        for (process, at, waited_ns, answers) in steps {
            let directory: Arc<Path> = paths[at % paths.len()].as_path().into();
            let mut wanted = descents.seen(&Place { process, directory, waited_ns });
            for _ in 0..answers.min(waiting.len()) {
                let path = waiting.swap_remove(at % waiting.len());
                wanted.extend(descents.listed(&made.contents(&path)));
            }
            for wanted in wanted {
                let Wanted::Contents(path, _) = wanted else { panic!("{wanted:?}") };
                prop_assert!(made.0.contains_key(&*path));
                waiting.push(path);
            }
            let DescentGuesses { asked, used, .. } = descents.guesses();
            prop_assert!(used <= asked);
        }
        let asked = descents.guesses().asked;
        prop_assert!(asked <= paths.len() as u64, "{asked} of {}", paths.len());
        prop_assert_eq!(waiting.iter().filter(|path| !made.0.contains_key(&***path)).count(), 0);
    }
}
