//! The references of a run: all processes' traces, read into memory once and shared by all cells.
//!
//! 16 bytes a reference. Offline policies need all of them anyway; online ones could do without, and
//! [`Input::streamed`] serves those from the trace as it is read.

use std::num::NonZeroU32;

use foretell_trace::{Blocks, TraceError, TraceMeta, TraceReader};

/// One reference: a block of a file, and the compute time before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputReference {
    /// File, numbered within the input.
    pub file: u32,
    /// Block of the file.
    pub block: u32,
    /// Time for which the process computes before it, in ns.
    pub compute_ns: u64,
}

/// The references of one or more processes.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// A sequence a process.
    pub processes: Vec<Vec<InputReference>>,
    /// Length of each file in blocks: one past the last block referenced, or as the trace says.
    pub file_blocks: Vec<u32>,
    /// What the trace calls itself.
    pub source: String,
    /// The seed that it was generated with.
    pub seed: Option<u64>,
}

impl Input {
    /// Reads a trace; each of its processes becomes one of the input's. Writes are left out, as in the
    /// paper (section 3).
    ///
    /// # Errors
    /// What the reader meets.
    pub fn read(reader: impl TraceReader, block_bytes: NonZeroU32) -> Result<Input, TraceError> {
        let mut input = Input::default();
        input.add(reader, block_bytes)?;
        Ok(input)
    }

    /// Adds the processes of another trace, with files of its own.
    ///
    /// # Errors
    /// What the reader meets.
    pub fn add(&mut self, reader: impl TraceReader, block_bytes: NonZeroU32) -> Result<(), TraceError> {
        let (first_process, first_file) = (self.processes.len(), self.file_blocks.len() as u32);
        let mut blocks = Blocks::new(reader, block_bytes);
        while let Some(reference) = blocks.next() {
            let r = reference?;
            let process = first_process + r.process as usize;
            if self.processes.len() <= process {
                self.processes.resize_with(process + 1, Vec::new);
            }
            let file = first_file + r.file;
            if self.file_blocks.len() <= file as usize {
                self.file_blocks.resize(file as usize + 1, 0);
            }
            let length = &mut self.file_blocks[file as usize];
            *length = (*length).max(r.block.saturating_add(1));
            if !r.write {
                self.processes[process].push(InputReference {
                    file,
                    block: r.block,
                    compute_ns: r.compute_ns,
                });
            }
        }
        self.note(blocks.meta(), first_file, block_bytes);
        self.processes.retain(|p| !p.is_empty());
        Ok(())
    }

    fn note(&mut self, meta: &TraceMeta, first_file: u32, block_bytes: NonZeroU32) {
        let separator = if self.source.is_empty() { "" } else { " + " };
        self.source = format!("{}{separator}{}", self.source, meta.source);
        self.seed = self.seed.or(meta.seed);
        for (file, entry) in meta.files.iter().enumerate() {
            let blocks = entry.bytes.unwrap_or(0).div_ceil(u64::from(block_bytes.get()));
            let slot = first_file as usize + file;
            if self.file_blocks.len() <= slot {
                self.file_blocks.resize(slot + 1, 0);
            }
            let length = &mut self.file_blocks[slot];
            *length = (*length).max(u32::try_from(blocks).unwrap_or(u32::MAX));
        }
    }

    /// References of all processes.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.processes.iter().map(|p| p.len() as u64).sum()
    }

    /// Compute time of all processes, in ns.
    #[must_use]
    pub fn compute_ns(&self) -> u64 {
        self.processes.iter().flatten().map(|r| r.compute_ns).sum()
    }

    /// The references of all processes, one after the other process by turns, as dense block numbers.
    #[must_use]
    pub fn dense(&self) -> Vec<u32> {
        let mut first_of_file = Vec::with_capacity(self.file_blocks.len());
        let mut next = 0u64;
        for &blocks in &self.file_blocks {
            first_of_file.push(next);
            next += u64::from(blocks);
        }
        let longest = self.processes.iter().map(Vec::len).max().unwrap_or(0);
        let mut dense = Vec::with_capacity(self.references() as usize);
        let mut numbers = Numbers::new(next);
        for i in 0..longest {
            for p in self.processes.iter().filter(|p| i < p.len()) {
                let at = first_of_file[p[i].file as usize] + u64::from(p[i].block);
                dense.push(numbers.of(at));
            }
        }
        dense
    }

    /// Blocks referenced at least once.
    #[must_use]
    pub fn distinct_blocks(&self) -> u64 {
        self.dense().iter().max().map_or(0, |&b| u64::from(b) + 1)
    }
}

/// Numbers blocks in the order in which they are first seen.
enum Numbers {
    /// Few enough possible blocks for a table.
    Table(Vec<u32>, u32),
    /// Sparse.
    Map(std::collections::HashMap<u64, u32>),
}

impl Numbers {
    /// Possible blocks up to which a table is used (256 MiB of it).
    const TABLE_BLOCKS: u64 = 1 << 26;

    fn new(possible: u64) -> Numbers {
        if possible <= Self::TABLE_BLOCKS {
            Numbers::Table(vec![u32::MAX; possible as usize], 0)
        } else {
            Numbers::Map(std::collections::HashMap::new())
        }
    }

    fn of(&mut self, at: u64) -> u32 {
        match self {
            Numbers::Table(table, next) => {
                let number = &mut table[at as usize];
                if *number == u32::MAX {
                    *number = *next;
                    *next += 1;
                }
                *number
            }
            Numbers::Map(map) => {
                let next = map.len() as u32;
                *map.entry(at).or_insert(next)
            }
        }
    }
}
