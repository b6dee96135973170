//! What every test needs: files that nothing is cached of, a plane, and a program under its control.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use foretell_pagecache::{
    ManagerSpec, Options, Plane, PoolPolicy, Report, Rule, SessionId, SessionSpec, doctor,
};

use crate::program::Program;

pub(crate) const BLOCK: u64 = 8192;

/// A directory on a disk, for one test at a time.
pub(crate) struct Stage {
    pub(crate) directory: PathBuf,
    _removed_at_end: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// The stage, or `None` with a line that says why, where page caches cannot be observed.
pub(crate) fn stage(test: &str) -> Option<Stage> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(why) = doctor::missing_for_run() {
        println!("skipped: {test}: {why}");
        return None;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = fs::canonicalize(directory.path()).unwrap();
    Some(Stage { directory: path, _removed_at_end: directory, _alone: alone })
}

impl Stage {
    /// A file of so many blocks, written back, with nothing of it cached.
    pub(crate) fn file(&self, name: &str, blocks: u64) -> PathBuf {
        file_at(self.directory.join(name), blocks)
    }

    pub(crate) fn rule(&self, policy: PoolPolicy) -> Vec<Rule> {
        rule_below(&self.directory, policy)
    }
}

/// Microseconds that a program computes after each read in a test that counts to the percent: without them it reads 3
/// GB/s, which no eviction keeps up with. An emulated processor (`kernels/guest`) needs more of them.
pub(crate) fn compute_us() -> u64 {
    std::env::var("FORETELL_TEST_COMPUTE_US").map_or(10, |text| text.parse().unwrap())
}

/// A file of so many blocks at a path, written back, with nothing of it cached.
pub(crate) fn file_at(path: PathBuf, blocks: u64) -> PathBuf {
    let mut file = File::create(&path).unwrap();
    for block in 0..blocks {
        file.write_all(&[block as u8; BLOCK as usize]).unwrap();
    }
    file.sync_all().unwrap();
    chill(&path);
    path
}

/// A rule for all that lies below a directory.
pub(crate) fn rule_below(directory: &Path, policy: PoolPolicy) -> Vec<Rule> {
    vec![Rule { glob: format!("{}/**", directory.display()), policy, priority: 0 }]
}

/// Drops what is cached of a file.
pub(crate) fn chill(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert!(cached_pages(path).is_empty());
}

/// The pages of a file that are cached.
pub(crate) fn cached_pages(path: &Path) -> Vec<u64> {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len() as usize;
    if length == 0 {
        return Vec::new();
    }
    let mut pages = vec![0_u8; length.div_ceil(4096)];
    // SAFETY: a mapping of our own that only `mincore` looks at, and room for one byte a page of it.
    unsafe {
        let address =
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(address, libc::MAP_FAILED);
        assert_eq!(libc::mincore(address, length, pages.as_mut_ptr()), 0);
        libc::munmap(address, length);
    }
    (0..).zip(pages).filter(|(_, bits)| bits & 1 != 0).map(|(page, _)| page).collect()
}

/// The blocks of a file of which something is cached.
pub(crate) fn cached_blocks(path: &Path) -> Vec<u64> {
    let mut blocks: Vec<u64> = cached_pages(path).into_iter().map(|page| page / 2).collect();
    blocks.dedup();
    blocks
}

/// A plane with one program under control.
pub(crate) struct Play {
    pub(crate) plane: Plane,
    pub(crate) program: Program,
    pub(crate) session: SessionId,
}

pub(crate) fn options(budget_blocks: u64) -> Options {
    Options { batch: 16, ..Options::new(budget_blocks * BLOCK) }
}

/// Blocks that may be cached at rest beyond a budget: what waits for the rest of a large folio (docs/limits.md).
pub(crate) fn waiting_blocks(budget_blocks: u64) -> u64 {
    2 * (budget_blocks / 32).max(64.min(budget_blocks / 8))
}

impl Play {
    pub(crate) fn new(options: Options, rules: Vec<Rule>) -> Play {
        let mut plane = Plane::open(options).unwrap();
        let program = Program::start();
        let manager = ManagerSpec { name: "all".to_owned(), rules, process_names: Vec::new() };
        let spec = SessionSpec::new(program.pid(), vec![manager]);
        let session = plane.add_session(spec).unwrap();
        Play { plane, program, session }
    }

    /// Has the program do something, steering meanwhile and until all is quiet.
    pub(crate) fn run(&mut self, line: &str) {
        self.program.tell(line);
        while self.plane.step(&[self.program.answers()], Duration::from_millis(10)).unwrap().is_empty() {}
        assert_eq!(self.program.answer(), "done");
        self.settle();
    }

    /// Steers until what is under way is done: rounds that take no longer than the plane's own naps.
    pub(crate) fn settle(&mut self) {
        for _ in 0..20 {
            self.plane.step(&[], Duration::from_millis(2)).unwrap();
        }
    }

    /// Steers until a number has stayed the same over twenty rounds, and gives it.
    pub(crate) fn settled(&mut self, mut number: impl FnMut() -> u64) -> u64 {
        let mut before = number();
        loop {
            self.settle();
            let now = number();
            if std::mem::replace(&mut before, now) == now {
                return now;
            }
        }
    }

    /// Steers until something is so; three minutes at most, as it may wait for a disk that others write to.
    pub(crate) fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Play) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < Duration::from_secs(180), "never: {what}");
            self.plane.step(&[], Duration::from_millis(10)).unwrap();
        }
    }

    /// The report, unless somebody else has dropped pages meanwhile.
    pub(crate) fn undisturbed_report(&mut self) -> Option<Report> {
        Some(self.plane.report()).filter(|report| report.counts.foreign_evictions == 0)
    }

    pub(crate) fn report(&mut self) -> Report {
        self.plane.report()
    }
}

/// Tries a thing anew as long as somebody else drops our pages (the kernel may, and so may whoever shares the
/// machine); five times at most.
pub(crate) fn undisturbed<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    (0..5).find_map(|_| attempt()).expect("pages vanish all the time here")
}

/// All references were seen; or where the kernel does not let us see all of them, the report says that, and there are no more
/// than there were.
pub(crate) fn assert_references(report: &Report, expected: u64) {
    let (seen, lost) = (report.counts.references, report.lost_events);
    assert!(seen <= expected && seen + lost >= expected, "{seen} of {expected}: {report:?}");
}
