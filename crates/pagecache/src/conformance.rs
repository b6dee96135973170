//! The plane on a page cache with seeded faults: delays, refusals, losses, pages that vanish.
//!
//! Of each seed some programs read and write a file at the same time, some of it disclosed, under a small budget; when they
//! have ended and all is quiet, the books equal the truth. `crates/sim/tests/advisory.rs` asks the same of the simulator,
//! with faults of the same kinds. `FORETELL_TEST_SEEDS=1000` tries so many.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foretell_policy::{Block, PoolPolicy};
use foretell_testkit::perturb::Random;

use crate::kernel::CacheStatus;
use crate::options::{HintChunk, ManagerSpec, Options, Rule, SessionSpec};
use crate::page_cache::{Linux, PageCache};
use crate::plane::Plane;
use crate::shown::Names;

const BLOCK: u64 = 8192;
const PAGE: u64 = 4096;
/// Blocks of the file.
const BLOCKS: usize = 192;
/// Longest time until all is quiet: looks at files begin once a second, and write-back may wait for a busy disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page cache that refuses and delays by chance.
#[derive(Debug)]
struct Weather {
    random: Mutex<Random>,
    /// How often a call is refused, and how often it takes long.
    refuses: f64,
    delays: f64,
    /// It does nothing wrong any more.
    calm: AtomicBool,
    refused: AtomicU64,
    delayed: AtomicU64,
}

impl Weather {
    /// Is this call to be refused? Perhaps after some time.
    fn refuses(&self) -> bool {
        if self.calm.load(Ordering::Relaxed) {
            return false;
        }
        let (delay, refuse) = {
            let mut random = self.random.lock().unwrap();
            (random.chance(self.delays).then(|| random.below(3000)), random.chance(self.refuses))
        };
        if let Some(delay_us) = delay {
            self.delayed.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(delay_us as u64));
        }
        self.refused.fetch_add(u64::from(refuse), Ordering::Relaxed);
        refuse
    }
}

impl PageCache for Weather {
    fn start_read(&self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        if self.refuses() { Err(io::ErrorKind::Other.into()) } else { Linux.start_read(file, offset, length) }
    }

    fn await_page(&self, file: &File, offset: u64) -> io::Result<bool> {
        self.refuses();
        Linux.await_page(file, offset)
    }

    fn drop_range(&self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        // As the kernel does it: nothing happens, and no error.
        if self.refuses() { Ok(()) } else { Linux.drop_range(file, offset, length) }
    }

    fn page_out(&self, pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<()> {
        if self.refuses() {
            Err(io::ErrorKind::Other.into())
        } else {
            Linux.page_out(pid, file, offset, length)
        }
    }

    fn status(&self, file: &File, offset: u64, length: u64) -> io::Result<CacheStatus> {
        Linux.status(file, offset, length)
    }
}

/// What a shell is to do with the file: readers and writers here and there, of all sizes, some at the same time.
fn script(random: &mut Random, path: &str) -> String {
    let mut script = "read go; ".to_owned();
    for _ in 0..2 + random.below(3) {
        for _ in 0..1 + random.below(4) {
            let pages = 1 + random.below(12);
            let skip = random.below(2 * BLOCKS) / pages;
            let (bs, count) = (pages as u64 * PAGE, 1 + random.below(2 * BLOCKS / pages));
            let way = if random.chance(0.1) {
                let count = count.min((2 * BLOCKS / pages).saturating_sub(skip));
                format!("if=/dev/zero of={path} conv=notrunc seek={skip} count={count}")
            } else {
                format!("if={path} of=/dev/null skip={skip} count={count}")
            };
            let _ = write!(script, "dd {way} bs={bs} status=none & ");
        }
        script.push_str("wait; ");
    }
    script
}

/// Where the books on the plane's files and the truth differ.
fn differing(plane: &Plane) -> Vec<String> {
    let steering = &plane.steering;
    let mut differing = steering.uncounted();
    for (id, managed) in steering.files.iter() {
        let file = File::open(&managed.path).unwrap();
        let cached = |page: u64| Linux.status(&file, page * PAGE, PAGE).unwrap().cached > 0;
        for page in 0..file.metadata().unwrap().len().div_ceil(PAGE) {
            let (is, should) = (cached(page), managed.folios.is_cached(page));
            if is != should {
                differing.push(format!("page {page}: cached {is}, in the books {should}"));
            }
        }
        for index in 0..BLOCKS as u32 {
            let pages = u64::from(index) * 2..u64::from(index) * 2 + 2;
            if steering.engine.is_cached(Block::new(id, index)) && !managed.folios.any_cached(pages) {
                differing.push(format!("block {index} is counted and nothing of it is cached"));
            }
        }
    }
    differing
}

/// What happened in all.
#[derive(Debug, Default)]
struct Sum {
    references: u64,
    refused: u64,
    delayed: u64,
    lost: u64,
    vanished: u64,
}

fn play(seed: u64, path: &Path, sum: &mut Sum) {
    let random = &mut Random::new(seed);
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    if random.chance(0.8) {
        Linux.drop_range(&file, 0, 0).unwrap();
    }
    let budget_blocks = 16 + random.below(BLOCKS) as u64;
    // With a page of room events are lost whenever the plane does something else.
    let ring_bytes = if random.chance(0.15) { 1 << 12 } else { 1 << 20 };
    let options = Options { ring_bytes, realtime: false, ..Options::new(budget_blocks * BLOCK) };
    let weather = Arc::new(Weather {
        random: Mutex::new(random.clone()),
        refuses: [0.0, 0.1, 0.5][random.below(3)],
        delays: [0.0, 0.1, 0.3][random.below(3)],
        calm: AtomicBool::new(false),
        refused: AtomicU64::new(0),
        delayed: AtomicU64::new(0),
    });
    let mut plane = Plane::open_with(options, Arc::<Weather>::clone(&weather)).unwrap();
    let shown = path.display().to_string();
    let mut program =
        Command::new("sh").args(["-c", &script(random, &shown)]).stdin(Stdio::piped()).spawn().unwrap();
    let policy = if random.chance(0.5) { PoolPolicy::Lru } else { PoolPolicy::Mru };
    let rule = Rule { glob: shown, policy, priority: 0 };
    let manager = ManagerSpec { name: "all".to_owned(), rules: vec![rule], process_names: Vec::new() };
    let session = plane.add_session(SessionSpec::new(program.id(), vec![manager])).unwrap();
    for _ in 0..random.below(20) {
        let first = random.below(BLOCKS);
        let (offset, blocks) = (first as u64 * BLOCK, 1 + random.below(20.min(BLOCKS - first)));
        let length = Some(blocks as u64 * BLOCK);
        plane.disclose(session, 0, &[HintChunk { path: path.to_owned(), offset, length }]).unwrap();
    }
    program.stdin.take().unwrap().write_all(b"go\n").unwrap();
    while program.try_wait().unwrap().is_none() {
        plane.step(&[], Duration::from_millis(1)).unwrap();
        if random.chance(0.2) {
            let (first, pages) = (random.below(2 * BLOCKS) as u64, random.below(64) as u64);
            let before = Linux.status(&file, 0, 0).unwrap().cached;
            Linux.drop_range(&file, first * PAGE, (1 + pages) * PAGE).unwrap();
            sum.vanished += before.saturating_sub(Linux.status(&file, 0, 0).unwrap().cached);
        }
        if random.chance(0.05) {
            std::thread::sleep(Duration::from_millis(random.below(10) as u64));
        }
    }
    assert!(program.wait().unwrap().success(), "seed {seed}");
    weather.calm.store(true, Ordering::Relaxed);
    let start = Instant::now();
    loop {
        for _ in 0..5 {
            plane.step(&[], Duration::from_millis(2)).unwrap();
        }
        let differing = differing(&plane);
        let is_at_rest = plane.steering.is_at_rest() && plane.steering.in_flight.is_empty();
        if is_at_rest && differing.is_empty() {
            break;
        }
        let counts = plane.report().counts;
        assert!(
            start.elapsed() < PATIENCE,
            "seed {seed}: at rest: {is_at_rest}, wrong: {differing:?}, {counts:?}, {weather:?}"
        );
    }
    let report = plane.report();
    let used = u64::from(plane.steering.engine.used_blocks());
    assert!(used <= budget_blocks, "seed {seed}: {used} blocks are counted, of {budget_blocks}");
    sum.references += report.counts.references;
    sum.lost += report.lost_events;
    sum.refused += weather.refused.load(Ordering::Relaxed);
    sum.delayed += weather.delayed.load(Ordering::Relaxed);
}

#[test]
fn seeds_of_faults_leave_the_books_right() {
    let test = "seeds_of_faults_leave_the_books_right";
    if let Some(why) = crate::doctor::missing_for_run() {
        println!("skipped: {test}: {why}");
        return;
    }
    let seeds = foretell_testkit::seeds(32);
    let enough = seeds.end - seeds.start >= 32;
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    file.write_all(&vec![1; BLOCKS * BLOCK as usize]).unwrap();
    let path = std::fs::canonicalize(file.path()).unwrap();
    let mut sum = Sum::default();
    seeds.for_each(|seed| play(seed, &path, &mut sum));
    println!("{sum:?}");
    let Sum { references, refused, delayed, lost, vanished } = sum;
    for count in [references, refused, delayed, lost, vanished] {
        assert!(count > 30 || !enough, "every fault has happened: {sum:?}");
    }
}
