//! Programs that go through made-up trees: what was wanted before they came to it, and what was wanted for nothing.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use foretell_walk::{Ahead, Entry, Extent, Kind, Tree, Visit, Walks, Wanted};
use proptest::{collection, prop_assert, proptest};

/// A tree in memory. Names are listed in an order of their own, and inodes are numbered in another.
#[derive(Debug, Clone, Default)]
struct Made {
    directories: BTreeMap<PathBuf, Vec<Entry>>,
    /// How often a directory was listed.
    listed: usize,
    /// What is in directories to which nobody has come is told after the next visit.
    is_late: bool,
}

impl Tree for &mut Made {
    fn list(&mut self, directory: &Path) -> Option<Vec<Entry>> {
        self.listed += 1;
        self.directories.get(directory).cloned()
    }

    fn list_ahead(&mut self, directory: &Path) -> Ahead {
        if self.is_late { Ahead::Later } else { Ahead::Now(self.list(directory)) }
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
fn scrambled(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Made {
    fn add(&mut self, path: &Path, kind: Kind) {
        let (above, name) = (path.parent().unwrap(), path.file_name().unwrap());
        if !above.as_os_str().is_empty() && above != Path::new("/") && !self.directories.contains_key(above) {
            self.add(above, Kind::Directory);
        }
        let entries = self.directories.entry(above.to_owned()).or_default();
        if entries.iter().any(|entry| entry.name == name) {
            return;
        }
        let number = entries.len() as u64 + 1000 * above.as_os_str().len() as u64;
        entries.push(Entry { name: name.to_owned(), kind, inode: scrambled(number) });
        entries.sort_by_key(|entry| scrambled(entry.inode));
        if kind == Kind::Directory {
            self.directories.entry(path.to_owned()).or_default();
        }
    }

    /// `/data/X/Y/file-N.txt`: so many directories in each other, with so many files.
    fn of(widths: [usize; 2], files: usize) -> Made {
        let mut made = Made::default();
        for (x, y, n) in
            (0..widths[0]).flat_map(|x| (0..widths[1]).flat_map(move |y| (0..files).map(move |n| (x, y, n))))
        {
            made.add(Path::new(&format!("/data/x{x:02}/y{y}/file-{n}.txt")), Kind::File);
        }
        for n in 0..50 {
            made.add(Path::new(&format!("/elsewhere/z{n}/other")), Kind::File);
        }
        made
    }

    /// All files below a directory, gone through as asked.
    fn walk(&self, top: &Path, files_first: bool, by: &dyn Fn(&mut [Entry])) -> Vec<PathBuf> {
        let mut entries = self.directories.get(top).cloned().unwrap_or_default();
        by(&mut entries);
        if files_first {
            entries.sort_by_key(|entry| entry.kind == Kind::Directory);
        }
        let below = |entry: &Entry| match entry.kind {
            Kind::File => vec![top.join(&entry.name)],
            Kind::Directory => self.walk(&top.join(&entry.name), files_first, by),
        };
        entries.iter().flat_map(below).collect()
    }
}

/// What came of following a job.
struct Outcome {
    /// Share of the visits that were wanted before.
    foreseen: f64,
    /// Wanted, and never visited.
    wrong: usize,
    listed: usize,
}

/// What is waited for a file on a volume.
const WAIT_NS: u64 = 1_000_000;

const WHOLE: Extent = Extent { read: 10, of: 10 };

fn visit(path: &Path, waited_ns: u64, left: Option<&PathBuf>, extent: Extent) -> Visit {
    let left = left.map(|left| (left.as_path().into(), extent)).into_iter().collect();
    Visit { path: path.to_owned(), waited_ns, has_fetched: waited_ns > 0, left }
}

fn follow(made: &Made, job: &[PathBuf], extent: Extent) -> Outcome {
    let mut tree = Made { listed: 0, ..made.clone() };
    let mut walks = Walks::new(&mut tree, 64 << 20);
    let (mut wanted, mut foreseen, mut left) = (HashSet::new(), 0, None);
    let mut to_list: Vec<PathBuf> = Vec::new();
    for path in job {
        let is_foreseen = wanted.contains(path);
        foreseen += usize::from(is_foreseen);
        let mut found = walks.visit(&visit(path, WAIT_NS * u64::from(!is_foreseen), left, extent));
        left = Some(path);
        for directory in std::mem::take(&mut to_list) {
            found.extend(walks.listed(&directory, made.directories.get(&directory).cloned()));
        }
        for new in found {
            match new {
                Wanted::File(path, bytes) => {
                    assert!(bytes <= 64 << 20);
                    wanted.insert(path);
                }
                Wanted::Listing(directory) => to_list.push(directory),
                _ => {}
            }
        }
        walks.looked_at(1, 1);
    }
    drop(walks);
    let visited: HashSet<_> = job.iter().collect();
    Outcome {
        foreseen: foreseen as f64 / job.len() as f64,
        wrong: wanted.iter().filter(|path| !visited.contains(path)).count(),
        listed: tree.listed,
    }
}

type Sort = fn(&mut [Entry]);
const ORDERS: [(&str, Sort); 6] = [
    ("listing", by_listing),
    ("name", by_name),
    ("inode", by_inode),
    ("reverse", |entries| entries.reverse()),
    ("name, reversed", |entries| entries.sort_by(|a, b| b.name.cmp(&a.name))),
    ("number", by_number),
];

fn by_listing(_: &mut [Entry]) {}

fn by_name(entries: &mut [Entry]) {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
}

fn by_inode(entries: &mut [Entry]) {
    entries.sort_by_key(|entry| entry.inode);
}

/// Here all that differs in two names of a directory are their numbers.
fn by_number(entries: &mut [Entry]) {
    entries.sort_by_key(|entry| {
        let digits: String = entry.name.to_str().unwrap().chars().filter(char::is_ascii_digit).collect();
        digits.parse::<u64>().unwrap_or(0)
    });
}

#[test]
fn whoever_goes_through_a_tree_is_foreseen_in_each_order() {
    for shape in [([60, 7], 8), ([3, 3], 400), ([400, 1], 2), ([1, 1], 1000)] {
        let mut made = Made::of(shape.0, shape.1);
        for files_first in [false, true] {
            for ((name, by), is_late) in ORDERS.into_iter().flat_map(|order| [(order, false), (order, true)])
            {
                made.is_late = is_late;
                let outcome = follow(&made, &made.walk(Path::new("/data"), files_first, &by), WHOLE);
                assert!(outcome.foreseen > 0.93, "{shape:?} by {name}, {is_late}: {}", outcome.foreseen);
                assert_eq!(outcome.wrong, 0, "{shape:?} by {name}");
            }
        }
    }
}

#[test]
fn whoever_reads_here_and_there_is_left_alone() {
    let made = Made::of([60, 7], 8);
    let mut job = made.walk(Path::new("/data"), false, &by_listing);
    job.sort_by_key(|path| {
        scrambled(path.as_os_str().as_encoded_bytes().iter().fold(7, |a, &b| scrambled(a ^ u64::from(b))))
    });
    let outcome = follow(&made, &job, WHOLE);
    assert!(outcome.foreseen < 0.01 && outcome.wrong < job.len() / 100, "{} of {}", outcome.wrong, job.len());
    assert!(outcome.listed < job.len() / 2, "{} directories", outcome.listed);
}

#[test]
fn processes_that_share_a_list_are_foreseen() {
    let mut made = Made::of([60, 7], 8);
    // The root directory has others.
    (0..20).for_each(|n| made.add(Path::new(&format!("/d{n}/x")), Kind::File));
    let job = made.walk(Path::new("/data"), false, &by_listing);
    for (processes, files) in [(4, 1), (2, 8), (4, 4), (4, 8)] {
        let mut mixed = Vec::new();
        for together in job.chunks(processes * files) {
            let each: Vec<&[PathBuf]> = together.chunks(files).collect();
            for at in 0..files {
                mixed.extend(each.iter().filter_map(|files| files.get(at).cloned()));
            }
        }
        let outcome = follow(&made, &mixed, WHOLE);
        assert!(outcome.foreseen > 0.9, "{processes} x {files}: {}", outcome.foreseen);
        assert_eq!(outcome.wrong, 0);
        // Each process begins with what all of them begin with.
        let library = PathBuf::from("/elsewhere/z7/other");
        made.add(&library, Kind::File);
        let mixed: Vec<_> =
            mixed.chunks(files).flat_map(|files| [std::slice::from_ref(&library), files].concat()).collect();
        let outcome = follow(&made, &mixed, WHOLE);
        let most = files as f64 / (files + 1) as f64;
        assert!(outcome.foreseen > 0.9 * most, "{processes} x {files}: {}", outcome.foreseen);
    }
}

#[test]
fn whoever_starts_a_process_for_each_file_is_foreseen() {
    let mut made = Made::of([20, 7], 8);
    let libraries =
        ["/lib/cache", "/lib/x/libc.so", "/bin/cksum", "/usr/locale/all", "/etc/names", "/usr/t/zone"];
    libraries.iter().for_each(|library| made.add(Path::new(library), Kind::File));
    let job = made.walk(Path::new("/data"), false, &by_name);
    let mut tree = made.clone();
    let mut walks = Walks::new(&mut tree, 64 << 20);
    let (mut foreseen, mut wanted, mut left) = (0, HashSet::new(), Vec::new());
    for (at, path) in job.iter().enumerate() {
        for library in libraries.map(Path::new) {
            // They are cached from the second process on, and a part of each is read.
            let (waited_ns, path) = (WAIT_NS * u64::from(at == 0), library.to_owned());
            assert_eq!(
                walks.visit(&Visit { path, waited_ns, has_fetched: false, left: std::mem::take(&mut left) }),
                []
            );
            left.push((library.into(), Extent { read: 3, of: 500 }));
        }
        let is_foreseen = wanted.contains(path);
        foreseen += usize::from(is_foreseen);
        let (waited_ns, left_now) = (WAIT_NS * u64::from(!is_foreseen), std::mem::take(&mut left));
        for new in walks.visit(&Visit { path: path.clone(), waited_ns, has_fetched: false, left: left_now }) {
            let Wanted::File(path, bytes) = new else { continue };
            assert!(bytes > 500 * 4096 || at < 8, "what is read of a library tells nothing of other files");
            wanted.insert(path);
        }
        left.push((path.as_path().into(), WHOLE));
    }
    assert!(foreseen > job.len() * 9 / 10, "{foreseen} of {}", job.len());
    assert_eq!(walks.guesses().wrong, 0);
}

#[test]
fn kinds_of_files_that_are_left_out_are_not_wanted() {
    let mut made = Made::default();
    for (dir, n, kind) in
        (0..40).flat_map(|dir| (0..6).flat_map(move |n| ["c", "h", "o"].map(|kind| (dir, n, kind))))
    {
        made.add(Path::new(&format!("/src/d{dir}/part{n}.{kind}")), Kind::File);
    }
    let mut job = made.walk(Path::new("/src"), false, &by_listing);
    job.retain(|path| path.extension().unwrap() == "c");
    let outcome = follow(&made, &job, WHOLE);
    assert!(outcome.foreseen > 0.8, "{}", outcome.foreseen);
    assert!(outcome.wrong < job.len() / 10, "{}", outcome.wrong);
}

#[test]
fn directories_that_are_left_out_are_passed_by() {
    let mut made = Made::default();
    for (package, n) in (0..150).flat_map(|package| (0..30).map(move |n| (package, n))) {
        if n % 3 == package % 3 {
            made.add(Path::new(&format!("/lib/p{package}/module{n}.py")), Kind::File);
        }
        made.add(Path::new(&format!("/lib/p{package}/cache/module{n}.pyc")), Kind::File);
    }
    let mut job = made.walk(Path::new("/lib"), false, &by_listing);
    job.retain(|path| path.extension().unwrap() == "py");
    let outcome = follow(&made, &job, WHOLE);
    assert!(outcome.foreseen > 0.9, "{}", outcome.foreseen);
    assert!(outcome.wrong < job.len() / 20, "{}", outcome.wrong);
}

#[test]
fn one_file_of_each_directory_is_known_by_its_name() {
    let mut made = Made::default();
    for n in 0..600 {
        for name in ["changelog.gz", "copyright", "README", "NEWS.gz", "TODO"] {
            if name == "copyright" || scrambled(n + name.len() as u64).is_multiple_of(2) {
                made.add(Path::new(&format!("/doc/package{n}/{name}")), Kind::File);
            }
        }
        if n % 3 == 0 {
            (0..5).for_each(|m| made.add(Path::new(&format!("/doc/package{n}/examples/{m}.c")), Kind::File));
        }
    }
    let mut job = made.walk(Path::new("/doc"), false, &by_name);
    job.retain(|path| path.ends_with("copyright"));
    let outcome = follow(&made, &job, WHOLE);
    assert!(outcome.foreseen > 0.9, "{}", outcome.foreseen);
    assert!(outcome.wrong < job.len() / 10, "{}", outcome.wrong);
}

#[test]
fn what_is_cached_or_left_half_way_is_not_fetched() {
    let made = Made::of([60, 7], 8);
    let job = made.walk(Path::new("/data"), false, &by_listing);
    let mut tree = made.clone();
    let mut walks = Walks::new(&mut tree, 64 << 20);
    let visits = |path: &PathBuf, waited| visit(path, WAIT_NS * u64::from(waited), Some(path), WHOLE);
    let wanted: usize = job.iter().map(|path| walks.visit(&visits(path, false)).len()).sum();
    assert_eq!(wanted, 0, "nobody waits");
    // Cold at first, and then all of it is there.
    let mut tree = made.clone();
    let mut walks = Walks::new(&mut tree, 64 << 20);
    let mut asked = 0;
    for (at, path) in job.iter().enumerate() {
        let wanted = walks.visit(&visits(path, at < 20)).len() as u32;
        walks.looked_at(wanted, 0);
        asked += wanted;
    }
    assert!(asked < 200, "{asked}");
    // No more of each file than was read of those before.
    let mut tree = made.clone();
    let mut walks = Walks::new(&mut tree, 64 << 20);
    let mut left = None;
    for path in &job {
        let extent = Extent { read: 2, of: 500 };
        for wanted in walks.visit(&visit(path, WAIT_NS, left.replace(path), extent)) {
            assert!(!matches!(wanted, Wanted::File(_, bytes) if bytes > 2 * 4096));
        }
    }
    assert!(walks.guesses().used > 3000 && walks.guesses().wrong == 0, "{:?}", walks.guesses());
}

#[test]
fn whoever_was_guessed_wrong_at_first_is_foreseen_later() {
    let mut made = Made::of([60, 7], 8);
    // What is loaded first comes in order by chance, and then nothing more of it.
    let mut job = Vec::new();
    for library in 0..6 {
        (0..40).for_each(|n| made.add(Path::new(&format!("/lib{library}/module{n:02}.py")), Kind::File));
        job.extend(made.walk(Path::new(&format!("/lib{library}")), false, &by_name).drain(..6));
    }
    job.extend(made.walk(Path::new("/data"), false, &by_listing));
    let outcome = follow(&made, &job, WHOLE);
    assert!(outcome.foreseen > 0.9, "{}", outcome.foreseen);
    assert!((16..100).contains(&outcome.wrong), "{}", outcome.wrong);
}

#[test]
fn one_long_wait_is_no_measure_of_what_was_saved() {
    let made = Made::of([1, 1], 1000);
    let mut tree = made.clone();
    let mut walks = Walks::new(&mut tree, 64 << 20);
    for (at, path) in made.walk(Path::new("/data"), false, &by_name).iter().enumerate() {
        let waited_ns = if at == 0 { 1_000 * WAIT_NS } else { WAIT_NS };
        walks.visit(&visit(path, waited_ns, None, WHOLE));
    }
    let guesses = walks.guesses();
    assert!(guesses.used > 900, "{guesses:?}");
    assert_eq!(guesses.saved_ns(), guesses.used * WAIT_NS);
}

#[test]
fn files_that_cost_more_to_read_ahead_than_to_wait_for_are_not_wanted() {
    let made = Made::of([1, 1], 1000);
    for (pages, waited_ns, is_wanted) in [(10, 100_000, true), (300, 100_000, false), (300, 400_000, true)] {
        let (mut tree, extent) = (made.clone(), Extent { read: pages, of: pages });
        let mut walks = Walks::new(&mut tree, 64 << 20);
        let mut left = None;
        for path in &made.walk(Path::new("/data"), false, &by_name) {
            walks.visit(&visit(path, waited_ns, left.replace(path), extent));
        }
        assert_eq!(walks.guesses().asked > 900, is_wanted, "{pages} pages in {waited_ns} ns");
    }
}

#[test]
fn wrong_guesses_end_in_longer_and_longer_pauses() {
    // It begins each directory in order, and leaves it after 30 files for the next but five.
    let made = Made::of([1, 100], 300);
    let mut job = Vec::new();
    for y in (0..100).map(|n| n * 37 % 100) {
        let files = made.walk(Path::new(&format!("/data/x00/y{y}")), false, &by_listing);
        job.extend_from_slice(&files[..30]);
    }
    let outcome = follow(&made, &job, WHOLE);
    assert!(outcome.wrong < 700, "{} of {} visits", outcome.wrong, job.len());
}

proptest! {
    /// Whatever a job does: what is wanted is there, is wanted once, and no more of it than came before.
    #[test]
    fn no_more_is_wanted_than_has_come(
        widths in [1_usize..12, 1..4],
        files in 1_usize..30,
        jumps in collection::vec((0_usize..4, 0_usize..4000, 1_usize..60), 1..60),
    ) {
        let made = Made::of(widths, files);
        let mut tree = made.clone();
        let mut walks = Walks::new(&mut tree, 64 << 20);
        let (mut wanted, mut last) = (HashSet::new(), walks.guesses());
        let orders: Vec<Vec<PathBuf>> =
            ORDERS.iter().map(|(_, by)| made.walk(Path::new("/data"), false, by)).collect();
        for (order, from, steps) in jumps {
            for at in from..from + steps {
                // Now and then a file that is not there any more.
                let path = orders[order].get(at).cloned().unwrap_or_else(|| format!("/data/gone/{at}").into());
                for new in walks.visit(&visit(&path, WAIT_NS, None, WHOLE)) {
                    let Wanted::File(path, _) = new else { continue };
                    prop_assert!(orders[0].contains(&path));
                    wanted.insert(path);
                }
                let guesses = walks.guesses();
                prop_assert!(guesses.used + guesses.wrong <= guesses.asked);
                let right = guesses.used + guesses.foreseen;
                prop_assert!(guesses.asked - last.asked <= 16 + right, "{guesses:?}");
                prop_assert!(guesses.asked as usize >= wanted.len());
                last = guesses;
            }
        }
    }
}

#[test]
fn what_goes_before_it_is_used_is_fetched_no_more() {
    let made = Made::of([60, 7], 8);
    let job = made.walk(Path::new("/data"), false, &by_name);
    // Each file is dropped as the program opens it, or only those are that had not come in time.
    for is_dropped in [true, false] {
        let mut tree = made.clone();
        let mut walks = Walks::new(&mut tree, 64 << 20);
        let (mut asked, mut left) = (0, None);
        for path in &job {
            let wanted = walks.visit(&visit(path, WAIT_NS, left.replace(path), WHOLE));
            let files = wanted.iter().filter_map(|wanted| match wanted {
                Wanted::File(path, _) => Some(path),
                _ => None,
            });
            files.inspect(|_| asked += 1).filter(|_| is_dropped).for_each(|path| walks.fetched(path));
            walks.looked_at(wanted.len() as u32, wanted.len() as u32);
        }
        let guesses = walks.guesses();
        assert!(asked > 3000 || is_dropped, "{asked} of {}", job.len());
        assert!(asked < job.len() / 4 && guesses.used < 200 || !is_dropped, "{asked}, {guesses:?}");
    }
}
