//! How much memory the engine takes for a list: `cargo run --release -p foretell-policy --example list_memory`.
//!
//! Each row is what the process's resident memory grows by, for each reference of the list, when a list is disclosed to
//! an engine that knows nothing yet: all of it at once, the same with each file's blocks in no order, or 8 caches ahead of a
//! reader that goes through it. Rows run in processes of their own, so that none uses what another one has freed.

use std::io::Write;

use foretell_policy::{Action, Block, Config, Engine, Input, Layout, ManagerId, Nanos, Prefetch};

/// Blocks that the list names, and how many times.
const ROWS: [(u32, u32); 5] = [(4_000_000, 1), (1_000_000, 4), (400_000, 10), (100_000, 40), (40_000, 100)];

/// Blocks of a file.
const FILE_BLOCKS: u32 = 1000;

/// In no order, the next block of a file is so many further on.
const SCATTERED: u32 = 387;

/// References that are disclosed at a time.
const PIECE: usize = 1 << 16;

const CACHE_BLOCKS: u32 = 16_384;

fn resident_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok(4096 * pages)
}

struct Scene {
    engine: Engine,
    manager: ManagerId,
    list: Box<dyn Iterator<Item = Block>>,
    /// What is disclosed next; kept, as memory that is freed is used for something else.
    piece: Vec<Block>,
    taken: usize,
}

impl Scene {
    /// Discloses the next piece of the list; false at its end.
    fn disclose(&mut self) -> bool {
        self.piece.clear();
        self.piece.extend(self.list.by_ref().take(PIECE));
        self.taken += self.engine.disclose(Nanos(0), self.manager, &self.piece);
        !self.piece.is_empty()
    }

    /// Completes what is asked for.
    fn perform(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            if let Action::Fetch { block, .. } = action {
                self.engine.tell(Nanos(0), Input::Loaded { block, by: None });
            }
        }
    }
}

/// How a list is disclosed.
const ONCE: &str = "once";
const IN_NO_ORDER: &str = "in-no-order";
const AS_READ: &str = "as-read";

/// Bytes for each reference of a list.
fn measure(blocks: u32, times: u32, how: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let mut config = Config { prefetch: Prefetch::Informed, ..Config::new(CACHE_BLOCKS) };
    config.limits.disclosed_blocks = u32::MAX;
    let mut engine = Engine::new(config);
    let manager = engine.add_manager(true)?;
    let process = engine.add_process(manager);
    let mut files = Vec::new();
    for _ in 0..blocks.div_ceil(FILE_BLOCKS) {
        files.push(engine.add_file(Layout::Unknown)?);
    }
    let numbers = (0..times).flat_map(move |_| 0..blocks);
    let step = if how == IN_NO_ORDER { SCATTERED } else { 1 };
    let list = numbers.map(move |number| {
        Block::new(files[(number / FILE_BLOCKS) as usize], number % FILE_BLOCKS * step % FILE_BLOCKS)
    });
    let references = list.clone();
    let mut scene =
        Scene { engine, manager, list: Box::new(list), piece: Vec::with_capacity(PIECE), taken: 0 };
    let before = resident_bytes()?;
    if how == AS_READ {
        for block in references {
            while scene.engine.disclosed_ahead(manager) < 8 * CACHE_BLOCKS as usize && scene.disclose() {
                scene.perform();
            }
            scene.engine.access(Nanos(0), process, block);
            scene.perform();
        }
    } else {
        while scene.disclose() {
            while scene.engine.poll_action().is_some() {}
        }
    }
    Ok(resident_bytes()?.saturating_sub(before) as f64 / scene.taken as f64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(blocks), Some(times), Some(how)) = (arguments.next(), arguments.next(), arguments.next()) {
        print!(" {:.1} |", measure(blocks.parse()?, times.parse()?, &how)?);
        return Ok(());
    }
    println!(
        "| distinct blocks | each named | bytes a reference, all at once | in no order | 8 caches ahead of a reader |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for (blocks, times) in ROWS {
        print!("| {blocks} | {times} |");
        std::io::stdout().flush()?;
        for how in [ONCE, IN_NO_ORDER, AS_READ] {
            let own = std::env::current_exe()?;
            let arguments = [blocks.to_string(), times.to_string(), how.to_owned()];
            // The C library gives back what is freed, as it does from the start; else tables that have moved count twice.
            let mut command = std::process::Command::new(own);
            command.args(arguments).env("MALLOC_MMAP_THRESHOLD_", "131072").status()?;
        }
        println!();
    }
    Ok(())
}
