//! Tests with a page cache that refuses, delays and lies, put between the plane and the kernel.
//!
//! Whatever it does, the program reads on, the books come right, and the plane ends.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foretell_policy::PoolPolicy;

use crate::kernel::{CacheStatus, Linux, PageCache};
use crate::mappings::Names;
use crate::options::{HintChunk, ManagerSpec, Options, Rule, SessionId, SessionSpec};
use crate::plane::Plane;

const BLOCK: u64 = 8192;

/// What is done wrong.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// Evictions do nothing and say that all is well, as for folios in use.
    deaf: bool,
    /// Reads ahead fail.
    no_reads: bool,
    /// What waits for a page waits this long in addition.
    delay: Duration,
}

impl PageCache for Faults {
    fn start_read(&self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        if self.no_reads { Err(io::ErrorKind::Other.into()) } else { Linux.start_read(file, offset, length) }
    }

    fn await_page(&self, file: &File, offset: u64) -> io::Result<bool> {
        std::thread::sleep(self.delay);
        Linux.await_page(file, offset)
    }

    fn drop_range(&self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        if self.deaf { Ok(()) } else { Linux.drop_range(file, offset, length) }
    }

    fn page_out(&self, pid: u32, key: &Names, offset: u64, length: u64) -> io::Result<()> {
        Linux.page_out(pid, key, offset, length)
    }

    fn status(&self, file: &File, offset: u64, length: u64) -> io::Result<CacheStatus> {
        Linux.status(file, offset, length)
    }
}

/// A file of 256 blocks, a plane, and a program that will read the file in blocks.
struct Scene {
    plane: Plane,
    session: SessionId,
    program: Child,
    file: tempfile::NamedTempFile,
}

fn scene(test: &str, faults: Faults, budget_blocks: u64) -> Option<Scene> {
    if let Some(why) = crate::doctor::missing_for_run() {
        println!("skipped: {test}: {why}");
        return None;
    }
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    file.write_all(&vec![1; 256 * BLOCK as usize]).unwrap();
    file.as_file().sync_all().unwrap();
    Linux.drop_range(file.as_file(), 0, 0).unwrap();
    let mut plane = Plane::open_with(Options::new(budget_blocks * BLOCK), Arc::new(faults)).unwrap();
    let program = Command::new("sh")
        .args([
            "-c",
            &format!("read go; exec dd if={} bs=8192 of=/dev/null status=none", file.path().display()),
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let path = std::fs::canonicalize(file.path()).unwrap();
    let rule = Rule { glob: path.display().to_string(), policy: PoolPolicy::Lru, priority: 0 };
    let manager = ManagerSpec { name: "all".to_owned(), rules: vec![rule], process_names: Vec::new() };
    let session = plane.add_session(SessionSpec::new(program.id(), vec![manager])).unwrap();
    Some(Scene { plane, session, program, file })
}

impl Scene {
    fn disclose(&mut self) {
        let hint = HintChunk { path: self.file.path().to_owned(), offset: 0, length: None };
        self.plane.disclose(self.session, 0, &[hint]).unwrap();
    }

    /// Lets the program read its file, and steers until it has ended and a little longer.
    fn play(&mut self) -> crate::Report {
        self.program.stdin.take().unwrap().write_all(b"go\n").unwrap();
        while self.program.try_wait().unwrap().is_none() {
            self.plane.step(&[], Duration::from_millis(1)).unwrap();
        }
        for _ in 0..50 {
            self.plane.step(&[], Duration::from_millis(2)).unwrap();
        }
        assert!(self.program.wait().unwrap().success());
        self.plane.report()
    }
}

fn cached_blocks(path: &Path) -> u64 {
    let status = Linux.status(&File::open(path).unwrap(), 0, 0).unwrap();
    status.cached * crate::kernel::page_bytes() / BLOCK
}

#[test]
fn evictions_that_do_nothing_are_refused_and_the_program_reads_on() {
    let faults = Faults { deaf: true, ..Faults::default() };
    let test = "evictions_that_do_nothing_are_refused_and_the_program_reads_on";
    let Some(mut scene) = scene(test, faults, 64) else { return };
    let counts = scene.play().counts;
    assert_eq!(counts.references, 256);
    assert!(counts.evictions_refused > 0, "{counts:?}");
    assert_eq!(cached_blocks(scene.file.path()), 256, "{counts:?}");
}

#[test]
fn prefetches_that_fail_leave_the_reads_to_the_program() {
    let faults = Faults { no_reads: true, ..Faults::default() };
    let test = "prefetches_that_fail_leave_the_reads_to_the_program";
    let Some(mut scene) = scene(test, faults, 512) else { return };
    scene.disclose();
    let counts = scene.play().counts;
    assert_eq!((counts.references, counts.prefetches, counts.demand_fetches), (256, 0, 256), "{counts:?}");
}

#[test]
fn prefetches_that_are_told_late_are_not_taken_for_late_ones() {
    let faults = Faults { delay: Duration::from_millis(20), ..Faults::default() };
    let test = "prefetches_that_are_told_late_are_not_taken_for_late_ones";
    let Some(mut scene) = scene(test, faults, 64) else { return };
    scene.disclose();
    let counts = scene.play().counts;
    assert_eq!(counts.references, 256);
    // Each block was there or was waited for; what its thread had not told yet was found out by the read.
    assert!(counts.prefetches_useful + counts.prefetches_late > 0, "{counts:?}");
    let start = Instant::now();
    while cached_blocks(scene.file.path()) > 64 + 64 {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", scene.plane.report().counts);
        scene.plane.step(&[], Duration::from_millis(2)).unwrap();
    }
}
