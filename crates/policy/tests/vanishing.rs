//! What is fetched ahead, and dropped by the program itself before it reads it.

use foretell_policy::{
    Action, Block, Config, Engine, FileId, Input, Layout, Nanos, Prefetch, ProcessId, Residency,
};

const FILES: u32 = 6000;
const BLOCKS: u32 = 2;
/// A read from the device.
const MISS_NS: u64 = 1_000_000;

struct Job {
    engine: Engine,
    process: ProcessId,
    files: Vec<FileId>,
    now: Nanos,
    cached: std::collections::HashSet<Block>,
    fetched: u32,
}

impl Job {
    /// A list names all blocks of all files, and the cache has room for them.
    fn new() -> Job {
        let limit = FILES * BLOCKS;
        let mut config =
            Config { prefetch: Prefetch::Informed, residency: Residency::Advisory, ..Config::new(limit) };
        config.limits.files = FILES;
        let mut engine = Engine::new(config);
        let files: Vec<FileId> = (0..FILES).filter_map(|_| engine.add_file(Layout::Unknown).ok()).collect();
        let manager = engine.add_manager(true).expect("the first one");
        let process = engine.add_process(manager);
        let blocks: Vec<Block> = all(&files).collect();
        engine.tell(Nanos(0), Input::Disclosed { manager, list: 0, blocks: &blocks });
        Job { engine, process, files, now: Nanos(0), cached: Default::default(), fetched: 0 }
    }

    fn tell(&mut self, input: Input<'_>) {
        self.engine.tell(self.now, input);
        self.fetch();
    }

    fn fetch(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            if let Action::Fetch { block, .. } = action {
                self.fetched += 1;
                self.cached.insert(block);
                self.engine.tell(self.now, Input::Loaded { block, by: None });
            }
        }
    }

    /// The program reads a file, and has the kernel drop it before, or not.
    fn read(&mut self, file: FileId, drops: bool) {
        // It does not wait in between: what is fetched for this comes too late.
        for block in all(&[file]).filter(|_| drops) {
            if self.cached.remove(&block) {
                self.engine.tell(self.now, Input::Gone { block });
            }
        }
        let process = self.process;
        for block in all(&[file]) {
            if self.cached.insert(block) {
                self.now.0 += MISS_NS;
                self.engine.tell(self.now, Input::Loaded { block, by: Some(process) });
            }
            self.now.0 += MISS_NS / 100;
            self.engine.access(self.now, process, block);
            self.engine.tell(self.now, Input::Computed { process, compute: Nanos(MISS_NS / 100) });
        }
        self.fetch();
    }
}

fn all(files: &[FileId]) -> impl Iterator<Item = Block> {
    files.iter().flat_map(|&file| (0..BLOCKS).map(move |index| Block::new(file, index)))
}

#[test]
fn what_goes_before_it_is_read_is_fetched_no_more() {
    for (drops, least, most) in [(false, FILES * BLOCKS / 2, FILES * BLOCKS), (true, 1, FILES * BLOCKS / 4)] {
        let mut job = Job::new();
        for file in job.files.clone() {
            job.read(file, drops);
        }
        assert!((least..=most).contains(&job.fetched), "{drops}: {} of {}", job.fetched, FILES * BLOCKS);
    }
}

#[test]
fn once_it_stays_it_is_fetched_again() {
    let mut job = Job::new();
    for (at, file) in job.files.clone().into_iter().enumerate() {
        if at as u32 == FILES / 4 {
            job.fetched = 0;
        }
        job.read(file, (at as u32) < FILES / 4);
    }
    assert!(job.fetched > FILES * BLOCKS / 4, "{}", job.fetched);
}

#[test]
fn what_somebody_drops_all_at_once_is_fetched_again() {
    let mut job = Job::new();
    let files = job.files.clone();
    let (first, others) = files.split_at(files.len() / 4);
    first.iter().for_each(|&file| job.read(file, false));
    let dropped: Vec<Block> = job.cached.drain().collect();
    assert!(dropped.len() > 64, "{}", dropped.len());
    dropped.into_iter().for_each(|block| job.tell(Input::Gone { block }));
    job.fetched = 0;
    others.iter().for_each(|&file| job.read(file, false));
    // In a second without it the program reads a thousand blocks by itself.
    let blocks = others.len() as u32 * BLOCKS;
    assert!(job.fetched > blocks - 2_000, "{} of {blocks}", job.fetched);
}
