//! How much memory the engine takes for a list: `cargo run --release -p foretell-policy --example list_memory`.
//!
//! Each row is what the process's resident memory grows by when a list is disclosed to an engine that knows nothing yet,
//! for each reference of the list. Rows run in processes of their own, so that none uses what another one has freed.

use foretell_policy::{Block, Config, Engine, Layout, ManagerId, Nanos, Prefetch};

/// Blocks that the list names, and how many times.
const ROWS: [(u32, u32); 5] = [(4_000_000, 1), (1_000_000, 4), (400_000, 10), (100_000, 40), (40_000, 100)];

/// References that are disclosed at a time.
const PIECE: usize = 1 << 16;

fn resident_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok(4096 * pages)
}

fn row(blocks: u32, times: u32) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config { prefetch: Prefetch::Informed, ..Config::new(16_384) };
    config.limits.disclosed_blocks = u32::MAX;
    let mut engine = Engine::new(config);
    let manager: ManagerId = engine.add_manager(true)?;
    // Files of 1,000 blocks.
    let mut files = Vec::new();
    for _ in 0..blocks.div_ceil(1000) {
        files.push(engine.add_file(Layout::Unknown)?);
    }
    let before = resident_bytes()?;
    let mut piece = Vec::with_capacity(PIECE);
    let mut taken = 0;
    for number in (0..times).flat_map(|_| 0..blocks) {
        piece.push(Block::new(files[(number / 1000) as usize], number % 1000));
        if piece.len() == PIECE {
            taken += engine.disclose(Nanos(0), manager, &piece);
            while engine.poll_action().is_some() {}
            piece.clear();
        }
    }
    taken += engine.disclose(Nanos(0), manager, &piece);
    let bytes = resident_bytes()?.saturating_sub(before) as f64;
    println!("| {blocks} | {times} | {taken} | {:.1} |", bytes / taken as f64);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(blocks), Some(times)) = (arguments.next(), arguments.next()) {
        return row(blocks.parse()?, times.parse()?);
    }
    println!("| distinct blocks | each named | references taken | bytes a reference |");
    println!("| ---: | ---: | ---: | ---: |");
    for (blocks, times) in ROWS {
        let own = std::env::current_exe()?;
        std::process::Command::new(own).args([blocks.to_string(), times.to_string()]).status()?;
    }
    Ok(())
}
