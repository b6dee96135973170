//! A summary of a trace, in one pass. Memory grows with distinct blocks, not with references.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::num::NonZeroU32;

use serde::Serialize;

use crate::blocks::Blocks;
use crate::error::TraceError;
use crate::names::MixBits;
use crate::reference::{BlockReference, TraceReader};

/// Distinct blocks that a summary may count: about 2.5 GB of memory.
const DISTINCT_BLOCKS: usize = 1 << 27;

/// A summary of a trace. Printed, it is a list of lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Info {
    /// Where the references come from.
    pub source: String,
    /// The seed of a generated trace.
    pub seed: Option<u64>,
    /// Size of a block in what follows.
    pub block_bytes: u32,
    /// References to blocks: a range that touches three blocks counts three times.
    pub references: u64,
    /// Those of them that write.
    pub writes: u64,
    /// Distinct blocks.
    pub distinct_blocks: u64,
    /// References to a block that was referenced before, as a share of all.
    pub reuse_share: f64,
    /// References to the block after the last one of the same process in the same file, as a share of all.
    pub sequential_share: f64,
    /// References to the same block as the last one of the same process in the same file, as a share of
    /// all.
    pub repeat_share: f64,
    /// Processes.
    pub processes: u64,
    /// Files that are referenced.
    pub files: u64,
    /// The largest block number; `None` if nothing is referenced.
    pub max_block: Option<u32>,
    /// Compute time of all processes in all.
    pub compute_s: f64,
    /// From the first timestamp to the last, if the trace has any.
    pub duration_s: Option<f64>,
}

/// Reads `reader` to its end and summarises it in blocks of `block_bytes`.
///
/// # Errors
/// Those of the reader; more distinct blocks than fit in memory.
pub fn info(reader: &mut dyn TraceReader, block_bytes: NonZeroU32) -> Result<Info, TraceError> {
    summarise(reader, block_bytes, DISTINCT_BLOCKS)
}

fn summarise(
    reader: &mut dyn TraceReader,
    block_bytes: NonZeroU32,
    limit: usize,
) -> Result<Info, TraceError> {
    let mut counts = Counts::default();
    let mut blocks = Blocks::new(reader, block_bytes);
    while let Some(block) = blocks.next() {
        counts.add(&block?);
        if counts.seen.len() > limit || counts.last.len() > limit {
            return Err(TraceError::Limit {
                path: blocks.meta().source.as_str().into(),
                limit: limit as u64,
                what: "distinct blocks",
            });
        }
    }
    let meta = blocks.meta();
    let share = |part: u64| if counts.references == 0 { 0.0 } else { part as f64 / counts.references as f64 };
    let distinct_blocks = counts.seen.len() as u64;
    Ok(Info {
        source: meta.source.clone(),
        seed: meta.seed,
        block_bytes: block_bytes.get(),
        references: counts.references,
        writes: counts.writes,
        distinct_blocks,
        reuse_share: share(counts.references - distinct_blocks),
        sequential_share: share(counts.sequential),
        repeat_share: share(counts.repeats),
        processes: counts.processes.len() as u64,
        files: counts.files.len() as u64,
        max_block: counts.max_block,
        compute_s: counts.compute_ns as f64 / 1e9,
        duration_s: counts.times.map(|(first, last)| last.saturating_sub(first) as f64 / 1e9),
    })
}

#[derive(Default)]
struct Counts {
    references: u64,
    writes: u64,
    sequential: u64,
    repeats: u64,
    compute_ns: u128,
    max_block: Option<u32>,
    times: Option<(u64, u64)>,
    /// File and block.
    seen: HashSet<u64, MixBits>,
    /// The last block by process and file.
    last: HashMap<u64, u32, MixBits>,
    files: HashSet<u32, MixBits>,
    processes: HashSet<u32, MixBits>,
}

impl Counts {
    fn add(&mut self, block: &BlockReference) {
        self.references += 1;
        self.writes += u64::from(block.write);
        self.compute_ns += u128::from(block.compute_ns);
        self.max_block = self.max_block.max(Some(block.block));
        self.seen.insert(u64::from(block.file) << 32 | u64::from(block.block));
        self.files.insert(block.file);
        self.processes.insert(block.process);
        let stream = u64::from(block.process) << 32 | u64::from(block.file);
        if let Some(last) = self.last.insert(stream, block.block) {
            self.sequential += u64::from(last.checked_add(1) == Some(block.block));
            self.repeats += u64::from(last == block.block);
        }
        if let Some(at) = block.timestamp_ns {
            let (first, last) = self.times.unwrap_or((at, at));
            self.times = Some((first.min(at), last.max(at)));
        }
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        writeln!(f, "source           {}", self.source)?;
        if let Some(seed) = self.seed {
            writeln!(f, "seed             {seed}")?;
        }
        writeln!(f, "block size       {} bytes", self.block_bytes)?;
        writeln!(f, "references       {} ({} writes)", self.references, self.writes)?;
        writeln!(f, "distinct blocks  {}", self.distinct_blocks)?;
        writeln!(f, "reuse            {}", percent(self.reuse_share))?;
        writeln!(f, "sequential       {}", percent(self.sequential_share))?;
        writeln!(f, "repeats          {}", percent(self.repeat_share))?;
        writeln!(f, "processes        {}", self.processes)?;
        writeln!(f, "files            {}", self.files)?;
        if let Some(max_block) = self.max_block {
            writeln!(f, "largest block    {max_block}")?;
        }
        writeln!(f, "compute time     {:.3} s", self.compute_s)?;
        if let Some(duration_s) = self.duration_s {
            writeln!(f, "recorded time    {duration_s:.3} s")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::DEFAULT_BLOCK_BYTES;
    use crate::workload::Workload;

    #[test]
    fn a_small_loop_is_summarised_as_by_hand() {
        // 0 1 2 0 1 2: 3 distinct, 3 of 6 again, 4 of 6 follow their predecessor.
        let mut reader = Workload::Loop { blocks: 3, passes: 2 }.open(5);
        let info = info(&mut reader, DEFAULT_BLOCK_BYTES).unwrap();
        assert_eq!((info.references, info.distinct_blocks, info.writes), (6, 3, 0));
        assert_eq!((info.reuse_share, info.sequential_share, info.repeat_share), (0.5, 4.0 / 6.0, 0.0));
        assert_eq!((info.processes, info.files, info.max_block), (1, 1, Some(2)));
        assert_eq!((info.compute_s, info.duration_s, info.seed), (0.006, None, Some(5)));
        assert!(info.to_string().contains("reuse            50.0%"), "{info}");
    }

    #[test]
    fn distinct_blocks_are_limited() {
        let mut reader = Workload::Loop { blocks: 30, passes: 1 }.open(0);
        let error = summarise(&mut reader, DEFAULT_BLOCK_BYTES, 20).unwrap_err().to_string();
        assert!(error.contains("more than 20 distinct blocks"), "{error}");
    }

    #[test]
    fn nothing_is_summarised_as_nothing() {
        let mut reader = Workload::Loop { blocks: 0, passes: 0 }.open(0);
        let info = info(&mut reader, DEFAULT_BLOCK_BYTES).unwrap();
        assert_eq!((info.references, info.max_block, info.reuse_share), (0, None, 0.0));
    }
}
