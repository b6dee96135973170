//! Tests with a page cache that refuses, delays and lies, put between the plane and the kernel.
//!
//! Whatever it does, the program reads on, the books come right, and the plane ends.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foretell_policy::{Block, Input, PoolPolicy};

use crate::folios::Folio;
use crate::kernel::CacheStatus;
use crate::observe::{FileKey, Observation};
use crate::options::{HintChunk, ManagerSpec, Options, Rule, SessionId, SessionSpec};
use crate::page_cache::{Linux, PageCache};
use crate::plane::Plane;
use crate::shown::Names;
use crate::steering::Steering;
use crate::workers::{Eviction, Outcome, Tried};

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
    /// All folios seem to have so many bytes: nothing goes of one of which not all is to go.
    folio_bytes: Option<u64>,
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
        let (mut first, mut end) = (offset, offset + length);
        if let Some(folio_bytes) = self.folio_bytes {
            (first, end) = (first.next_multiple_of(folio_bytes), end / folio_bytes * folio_bytes);
        }
        if self.deaf || first >= end { Ok(()) } else { Linux.drop_range(file, first, end - first) }
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
    scene_of(test, faults, budget_blocks, |path| {
        format!("exec dd if={path} bs=8192 of=/dev/null status=none")
    })
}

/// The same with another program: what a shell is to do with the path of the file.
fn scene_of(
    test: &str,
    faults: Faults,
    budget_blocks: u64,
    script: impl Fn(&str) -> String,
) -> Option<Scene> {
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
        .args(["-c", &format!("read go; {}", script(&file.path().display().to_string()))])
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

fn added(tgid: u32, file: FileKey, first_page: u64, order: u8) -> Observation {
    let (known, appended) = (true, false);
    Observation::Added { tgid, tid: tgid, file, first_page, order, appended, known, generation: 0 }
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

/// A folio has gone, another one lies in its place and is to go as well. What is said of the first one by then does not
/// count for the second: that would be in nobody's hands.
#[test]
fn what_became_of_a_folio_is_not_held_against_the_one_that_came_after_it() {
    let test = "what_became_of_a_folio_is_not_held_against_the_one_that_came_after_it";
    let Some(mut scene) = scene(test, Faults::default(), 64) else { return };
    scene.play();
    let steering = &mut scene.plane.steering;
    let (id, key) = steering.files.iter().map(|(id, file)| (id, file.key)).next().unwrap();
    for first_page in [0, 2] {
        steering.observe(added(0, key, first_page, 1));
    }
    steering.tell(Input::CacheSize { cache_blocks: 1 });
    let issued = |steering: &Steering| {
        let folios = &steering.files.get(id).unwrap().folios;
        (0..4).filter(|&page| folios.is_issued(page)).collect::<Vec<u64>>()
    };
    assert_eq!(issued(steering), [0, 1]);
    let file = steering.files.descriptor(id).unwrap();
    for folios in [vec![(0, 1), (1, 1)], vec![(0, 4)]] {
        let managed = steering.files.get(id).unwrap();
        let eviction = Eviction {
            serial: managed.serial,
            id,
            names: managed.names(),
            file: Arc::clone(&file),
            folios: folios.into_iter().map(|(head, pages)| Folio { head, pages }).collect(),
            mapped_by: Vec::new(),
            tried: Tried::Once,
            lane: None,
        };
        steering.judge(&mut VecDeque::from([Outcome::Evicted { eviction, unclean: Vec::new() }]));
        assert_eq!(issued(steering), [0, 1]);
    }
}

/// A part of a block was read ahead, and the rest will not be: that part is to be evicted some day.
#[test]
fn what_is_there_of_a_block_whose_prefetch_fails_is_counted() {
    let faults = Faults { no_reads: true, ..Faults::default() };
    let test = "what_is_there_of_a_block_whose_prefetch_fails_is_counted";
    let Some(mut scene) = scene(test, faults, 512) else { return };
    scene.disclose();
    let steering = &mut scene.plane.steering;
    let (id, key) = steering.files.iter().map(|(id, file)| (id, file.key)).next().unwrap();
    assert!(steering.in_flight.contains(&Block::new(id, 0)));
    steering.observe(added(std::process::id(), key, 1, 0));
    let start = Instant::now();
    while scene.plane.steering.in_flight.contains(&Block::new(id, 0)) {
        assert!(start.elapsed() < Duration::from_secs(60), "no answer");
        scene.plane.step(&[], Duration::from_millis(2)).unwrap();
    }
    assert_eq!(scene.plane.steering.uncounted(), Vec::<String>::new());
}

/// A page that is cached and that neither the policy counts nor an eviction waits for stays for ever.
#[test]
fn at_rest_whatever_is_cached_is_counted_or_waits_to_go() {
    let test = "at_rest_whatever_is_cached_is_counted_or_waits_to_go";
    // Readers of all sizes at the same time, with readahead: folios of many sizes come and go at the same places, and
    // windows of readahead begin and end within blocks.
    let script = |path: &str| {
        let sizes = [1, 3, 6, 7, 2, 9, 24, 5, 13, 6];
        let at = |i: usize| (i * 97 + 31) % 400;
        let readers = sizes.iter().enumerate().map(|(i, pages)| {
            let (bs, skip) = (pages * 4096, at(i) / pages);
            format!("dd if={path} bs={bs} skip={skip} count={} of=/dev/null status=none &", 40 + i)
        });
        format!("for pass in 1 2 3 4 5 6 7 8; do {} wait; done", readers.collect::<String>())
    };
    let Some(mut scene) = scene_of(test, Faults::default(), 32, script) else { return };
    scene.play();
    let start = Instant::now();
    while !scene.plane.steering.is_at_rest() {
        assert!(start.elapsed() < Duration::from_secs(60), "evictions wait for ever");
        scene.plane.step(&[], Duration::from_millis(2)).unwrap();
    }
    assert_eq!(scene.plane.steering.uncounted(), Vec::<String>::new());
}

/// What was cached before lies in folios of a size that nobody has seen. They go all the same, and it is not tried without
/// end: guesses grow also where a neighbour is on its way out, and what cannot grow is put off.
#[test]
fn what_lies_in_larger_folios_than_was_guessed_goes() {
    let test = "what_lies_in_larger_folios_than_was_guessed_goes";
    let script = |path: &str| {
        format!(
            "for block in 3 77 130 201 9 250; do dd if={path} bs=8192 skip=$block count=1 of=/dev/null status=none; done"
        )
    };
    for folio_pages in [4, 8, 16, 32, 64, 128, 256] {
        let faults = Faults { folio_bytes: Some(folio_pages * 4096), ..Faults::default() };
        let Some(mut scene) = scene_of(test, faults, 64, script) else { return };
        std::fs::read(scene.file.path()).unwrap();
        scene.play();
        let start = Instant::now();
        while !(scene.plane.steering.is_at_rest() && cached_blocks(scene.file.path()) <= 64 + 16) {
            let counts = scene.plane.report().counts;
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "folios of {folio_pages} pages: {} blocks are cached: {counts:?}",
                cached_blocks(scene.file.path())
            );
            scene.plane.step(&[], Duration::from_millis(2)).unwrap();
        }
        let counts = scene.plane.report().counts;
        assert!(counts.evictions_refused < 20 * 256, "folios of {folio_pages} pages: {counts:?}");
        assert_eq!(scene.plane.steering.uncounted(), Vec::<String>::new());
    }
}

/// What a look at a file after a loss has to find: a part of what was taken for one folio has gone, and so has a block that
/// the policy still counts.
#[test]
fn what_has_gone_unseen_is_found_by_a_look() {
    let test = "what_has_gone_unseen_is_found_by_a_look";
    let Some(mut scene) = scene(test, Faults::default(), 512) else { return };
    // By single pages, before anybody looks.
    let file = File::open(scene.file.path()).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    for page in 0..512 {
        Linux.await_page(&file, page * 4096).unwrap();
    }
    scene.disclose();
    let steering = &mut scene.plane.steering;
    let id = steering.files.iter().map(|(id, _)| id).next().unwrap();
    let managed = steering.files.get_mut(id).unwrap();
    assert_eq!(managed.folios.cached_pages(), 512, "all was found to be cached");
    managed.folios.join(Folio { head: 8, pages: 8 });
    Linux.drop_range(&file, 10 * 4096, 2 * 4096).unwrap();
    managed.folios.remove(20..22);
    Linux.drop_range(&file, 20 * 4096, 2 * 4096).unwrap();
    assert!(steering.engine.is_cached(Block::new(id, 5)) && steering.engine.is_cached(Block::new(id, 10)));
    // Nobody hears of it.
    scene.plane.observer.drain(1 << 20, |_| {});
    scene.plane.steering.resynchronise();
    let start = Instant::now();
    loop {
        scene.plane.step(&[], Duration::from_millis(2)).unwrap();
        let steering = &scene.plane.steering;
        let folios = &steering.files.get(id).unwrap().folios;
        let counted = [5, 10].map(|index| steering.engine.is_cached(Block::new(id, index)));
        if !folios.any_cached(10..12) && folios.is_cached(9) && counted == [false, false] {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "counted {counted:?}, {:?}", folios.folio(10));
    }
}
