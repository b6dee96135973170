//! Programs that read the files of a made-up tree in no order.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use foretell_walk::{Entry, Extent, Kind, Unordered, UnorderedGuesses, Visit, Wanted};

const MS: u64 = 1_000_000;

/// SplitMix64 (Steele, Lea and Flood 2014).
fn scrambled(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `/data/objects/X/N.EXTENSION`, shuffled.
fn objects(directories: u64, files: u64, extension: &str) -> Vec<PathBuf> {
    let mut numbers: Vec<u64> = (0..directories * files).collect();
    numbers.sort_by_key(|&n| scrambled(n));
    let path = |n: u64| format!("/data/objects/{:02}/{n}.{extension}", n % directories).into();
    numbers.into_iter().map(path).collect()
}

/// A program that waits for each file that has not been read before it comes there.
struct Program {
    unordered: Unordered,
    tree: BTreeMap<PathBuf, Vec<Entry>>,
    wait_ns: u64,
    /// Pages of a file.
    pages: u32,
    cached: HashSet<PathBuf>,
    /// Threads that wait beside each other.
    threads: u64,
    waited_ns: u64,
    read: Vec<PathBuf>,
    listed: usize,
    left: Vec<(std::sync::Arc<Path>, Extent)>,
}

impl Program {
    fn new(files: &[PathBuf], wait_ns: u64, budget_bytes: u64) -> Program {
        let mut program = Program {
            unordered: Unordered::new(budget_bytes),
            tree: BTreeMap::new(),
            wait_ns,
            pages: 2,
            cached: HashSet::new(),
            threads: 1,
            waited_ns: 0,
            read: Vec::new(),
            listed: 0,
            left: Vec::new(),
        };
        files.iter().for_each(|file| program.add(file, Kind::File));
        program
    }

    fn add(&mut self, path: &Path, kind: Kind) {
        let (above, name) = (path.parent().unwrap(), path.file_name().unwrap());
        if above.parent().is_some() && !self.tree.contains_key(above) {
            self.add(above, Kind::Directory);
        }
        let entries = self.tree.entry(above.to_owned()).or_default();
        if entries.iter().all(|entry| entry.name != name) {
            entries.push(Entry { name: name.to_owned(), kind, inode: 0 });
        }
    }

    fn visits(&mut self, path: &Path) {
        let is_cached = !self.cached.insert(path.to_owned());
        let waited_ns = if is_cached { 0 } else { self.wait_ns };
        self.waited_ns += waited_ns;
        let left = std::mem::take(&mut self.left);
        self.left.push((path.into(), Extent { read: self.pages, of: self.pages }));
        let visit = Visit { path: path.to_owned(), waited_ns, has_fetched: !is_cached, left };
        if let Some(directory) = self.unordered.visit(&visit, false, self.waited_ns / self.threads) {
            self.listed += 1;
            assert!(self.unordered.listed(&directory, self.tree.get(&directory).map(Vec::as_slice)));
        }
        for wanted in self.unordered.wanted(32) {
            let Wanted::File(path, _) = wanted else { panic!("{wanted:?}") };
            assert!(self.cached.insert(path.clone()), "{path:?} was read already");
            self.read.push(path);
        }
    }

    fn guesses(&self) -> UnorderedGuesses {
        self.unordered.guesses()
    }
}

#[test]
fn a_tree_is_read_once_as_much_has_been_waited() {
    for directories in [1, 60] {
        let files = objects(directories, 3000 / directories, "x");
        let mut program = Program::new(&files, MS, u64::MAX);
        files.iter().for_each(|file| program.visits(file));
        let waits = program.waited_ns / MS;
        // An eighth of what is left, or a ninth of all.
        assert!((300..500).contains(&waits), "{directories}: {waits} of 3000");
        let UnorderedGuesses { asked, used, saved_ns } = program.guesses();
        // The first ones come before they have been read.
        assert!(used == asked && (3000 - waits..3050 - waits).contains(&asked), "{asked}, {used}");
        assert_eq!(saved_ns, (3000 - waits) * MS);
    }
}

#[test]
fn large_files_cost_what_their_bytes_do() {
    let files = objects(10, 100, "x");
    let mut program = Program::new(&files, MS, u64::MAX);
    // A MiB, which takes 8 ms at 131 MB/s.
    program.pages = 256;
    files.iter().for_each(|file| program.visits(file));
    let waits = program.waited_ns / MS;
    assert!((880..900).contains(&waits), "{waits} of 1000");
}

#[test]
fn threads_that_wait_beside_each_other_lose_the_time_once() {
    let files = objects(10, 300, "x");
    let mut program = Program::new(&files, MS, u64::MAX);
    program.threads = 8;
    files.iter().for_each(|file| program.visits(file));
    let waits = program.waited_ns / MS;
    assert!((1400..1700).contains(&waits), "{waits} of 3000");
}

#[test]
fn who_reads_little_of_a_tree_costs_little() {
    let files = objects(200, 40, "x");
    let mut program = Program::new(&files, MS, u64::MAX);
    files[..700].iter().for_each(|file| program.visits(file));
    assert_eq!(program.guesses(), UnorderedGuesses::default(), "700 of 8000");
    assert!(program.listed < 200, "{} directories", program.listed);
}

#[test]
fn only_kinds_that_are_read_are_read() {
    let files = objects(1, 1000, "jpg");
    let mut all = files.clone();
    all.extend(objects(1, 1000, "json"));
    let mut program = Program::new(&all, MS, u64::MAX);
    files.iter().for_each(|file| program.visits(file));
    assert!(program.read.len() > 800 && program.read.iter().all(|path| path.extension().unwrap() == "jpg"));
}

#[test]
fn nothing_is_read_for_an_arm_nor_where_there_is_no_room() {
    let files = objects(4, 500, "x");
    // 2,000 files of 8 KiB.
    for (wait_ns, budget_bytes) in [(8 * MS, u64::MAX), (MS, 8 << 20)] {
        let mut program = Program::new(&files, wait_ns, budget_bytes);
        files.iter().for_each(|file| program.visits(file));
        assert_eq!(program.read.len(), 0);
    }
    let mut program = Program::new(&files, MS, 16 << 20);
    files.iter().for_each(|file| program.visits(file));
    assert!(program.read.len() > 1500);
}

#[test]
fn after_files_that_did_not_come_no_other_tree_is_read() {
    let (first, mut second) = (objects(1, 1000, "x"), objects(1, 1000, "x"));
    second.iter_mut().for_each(|path| *path = Path::new("/more").join(path.strip_prefix("/data").unwrap()));
    let all = [first.clone(), second.clone()].concat();
    for (come, is_read) in [(130, false), (1000, true)] {
        let mut program = Program::new(&all, MS, u64::MAX);
        first[..come].iter().for_each(|file| program.visits(file));
        second.iter().for_each(|file| program.visits(file));
        let read = |top| program.read.iter().filter(|path| path.starts_with(top)).count();
        assert!(read("/data") > 800);
        assert_eq!(read("/more") > 0, is_read, "{come} of 1000 came");
    }
}

#[test]
fn a_tree_that_is_too_large_is_given_up() {
    let files = objects(1, 80_000, "x");
    let mut program = Program::new(&files, MS, u64::MAX);
    files[..20_000].iter().for_each(|file| program.visits(file));
    assert_eq!((program.read.len(), program.listed), (0, 1));
}
