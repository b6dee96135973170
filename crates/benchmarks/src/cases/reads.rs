//! That nothing more is read from the device than without foretell, by counts: read sizes, ways to read, readers at a time,
//! the kernel's readahead, budgets, each beside the kernel with the same memory and beside arithmetic.
//!
//! The device has no latency, so that it is the loop that is tried: it must not fall behind a reader that reads as fast as
//! memory does, nor chase one that is ahead.

use std::path::PathBuf;

use anyhow::Result;
use foretell_slowdisk::Timing;

use super::{Bench, Case, MIB, Place, budget, files, rule};
use crate::outcome::{Measured, Outcome, Reference, Verdict};
use crate::program::{Job, Steering};
use crate::reader::BLOCK_BYTES;
use crate::ways::Way;

const FILE_MIB: u64 = 160;
const PASSES: u64 = 4;
/// Of the better of arithmetic and kernel so much may be read.
const LIMIT: f64 = 1.02;
const SIDES: [&str; 2] = ["kernel", "foretell"];

/// As nothing that is sold: no latency, and rates of memory.
const NO_LATENCY: Timing = Timing {
    latency_ns: 0,
    seek_ns: 0,
    channels: 8,
    channel_bytes_per_s: 10_000_000_000,
    total_bytes_per_s: None,
};

/// One way to read the file.
#[derive(Debug, Clone, Copy)]
struct Cell {
    read_ahead_kb: u32,
    way: Way,
    read_bytes: u64,
    readers: u64,
    budget_mib: u64,
}

const fn cell(read_ahead_kb: u32, way: Way, read_bytes: u64) -> Cell {
    Cell { read_ahead_kb, way, read_bytes, readers: 1, budget_mib: 48 }
}

/// Every dimension with the others as they usually are.
const CELLS: [Cell; 24] = {
    const KIB: u64 = 1 << 10;
    let usual = cell(128, Way::Read, 64 * KIB);
    let large = cell(8192, Way::Read, 64 * KIB);
    [
        usual,
        cell(0, Way::Read, 64 * KIB),
        cell(1024, Way::Read, 64 * KIB),
        large,
        cell(0, Way::Read, 1024 * KIB),
        cell(128, Way::Read, 4 * KIB),
        cell(128, Way::Read, 1024 * KIB),
        cell(8192, Way::Read, 4 * KIB),
        cell(8192, Way::Read, 1024 * KIB),
        cell(128, Way::Pread, 64 * KIB),
        cell(128, Way::Readv, 64 * KIB),
        cell(128, Way::Splice, 64 * KIB),
        cell(128, Way::Sendfile, 64 * KIB),
        cell(128, Way::Mmap, 64 * KIB),
        cell(8192, Way::Mmap, 64 * KIB),
        Cell { readers: 2, ..usual },
        Cell { readers: 4, ..usual },
        Cell { readers: 2, ..large },
        Cell { readers: 4, ..large },
        Cell { readers: 4, ..cell(128, Way::Read, 4 * KIB) },
        Cell { budget_mib: 24, ..usual },
        Cell { budget_mib: 80, ..usual },
        Cell { budget_mib: 24, ..large },
        Cell { budget_mib: 80, ..large },
    ]
};

impl Cell {
    fn name(self) -> String {
        let Cell { read_ahead_kb, way, read_bytes, readers, budget_mib } = self;
        let (way, kib) = (way.name(), read_bytes >> 10);
        format!("readahead {read_ahead_kb}, {way} of {kib} KiB, {readers} at a time, {budget_mib} MiB")
    }
}

pub(crate) struct Reads<'b> {
    bench: &'b Bench,
    place: Place,
    file: PathBuf,
    blocks: u64,
}

impl<'b> Reads<'b> {
    pub(crate) fn prepare(bench: &'b Bench) -> Result<Self> {
        let blocks = FILE_MIB * MIB / BLOCK_BYTES / bench.shrink;
        let place = bench.slow_device("reads", NO_LATENCY, blocks * BLOCK_BYTES)?;
        let file = place.directory.join("data");
        files::make(&file, blocks)?;
        Ok(Reads { bench, place, file, blocks })
    }

    fn sides(&self) -> &'static [&'static str] {
        if self.bench.kernel_only { &SIDES[..1] } else { &SIDES }
    }

    fn budget_bytes(&self, cell: Cell) -> u64 {
        cell.budget_mib * MIB / self.bench.shrink
    }

    /// What the best replacement reads: in each pass but the first what does not fit.
    fn arithmetic(&self, cell: Cell) -> u64 {
        self.blocks + (PASSES - 1) * self.blocks.saturating_sub(self.budget_bytes(cell) / BLOCK_BYTES)
    }
}

impl Case for Reads<'_> {
    fn title(&self) -> String {
        format!("{} MiB read {PASSES} times in each way, device blocks", self.blocks * BLOCK_BYTES / MIB)
    }

    fn arms(&self) -> Vec<String> {
        let sides = self.sides();
        let names = |cell: &Cell| {
            let name = cell.name();
            sides.iter().map(|side| format!("{name}: {side}")).collect::<Vec<String>>()
        };
        CELLS.iter().flat_map(names).collect()
    }

    fn run(&mut self, arm: usize) -> Result<Measured> {
        let (cell, side) = (CELLS[arm / self.sides().len()], arm % self.sides().len());
        let budget_bytes = self.budget_bytes(cell);
        let steering = match side {
            0 => Steering::Kernel,
            _ => Steering::Foretell(vec![
                "--budget".into(),
                budget(budget_bytes),
                "--rule".into(),
                rule(&self.file, "mru"),
            ]),
        };
        let (passes, readers, bytes) =
            (PASSES.to_string(), cell.readers.to_string(), cell.read_bytes.to_string());
        let arguments = [
            "ways".into(),
            self.file.clone().into_os_string(),
            "--way".into(),
            cell.way.name().into(),
            "--read-bytes".into(),
            bytes.into(),
            "--passes".into(),
            passes.into(),
            "--readers".into(),
            readers.into(),
        ];
        let (command, report) = self.bench.launcher.reader("reads", arguments);
        let job = Job {
            name: "reads".to_owned(),
            command,
            steering,
            limit_bytes: budget_bytes + self.bench.headroom_bytes,
            report: Some(report),
        };
        let paths = std::slice::from_ref(&self.file);
        let mut measured = self.place.run_cold(self.bench, paths, cell.read_ahead_kb, job)?;
        measured.push(("arithmetic", self.arithmetic(cell) as f64));
        Ok(measured)
    }

    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn verdicts(&self, outcome: &Outcome) -> Vec<Verdict> {
        let verdict = |cell: &Cell| {
            let blocks = |side: &str| outcome.median(&format!("{}: {side}", cell.name()), "device_blocks");
            let best = blocks(SIDES[0])?.min(self.arithmetic(*cell) as f64);
            Some(Verdict::at_most(cell.name(), blocks(SIDES[1])? / best, LIMIT))
        };
        CELLS.iter().filter_map(verdict).collect()
    }
}
