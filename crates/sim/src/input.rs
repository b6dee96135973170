//! The references of a run: all processes' traces, read into memory once and shared by all cells.
//!
//! 16 bytes a reference. Offline policies need all of them anyway; online ones do without: a [`Survey`]
//! (one pass over the trace, nothing kept but the lengths of files) and the trace itself, read again for
//! each cell ([`crate::simulate_streamed`]).

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::{Mutex, OnceLock, PoisonError};

use foretell_policy::belady_fetches;
use foretell_trace::{BlockReference, Blocks, TraceError, TraceMeta, TraceReader};

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

/// What is known of the references without keeping them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// What the traces call themselves.
    pub source: String,
    /// The seed that they were generated with.
    pub seed: Option<u64>,
    /// The order of the references is modelled on a description.
    pub model: bool,
    /// Length of each file in blocks: one past the last block referenced, or as the trace says.
    pub file_blocks: Vec<u32>,
    /// What the traces call the files.
    pub file_names: Vec<String>,
    /// Blocks read at least once, if they were counted ([`Survey::counted`]).
    pub distinct_blocks: Option<u64>,
    /// Read references, which are simulated.
    pub references: u64,
    /// Written ones, which are left out as in the paper (section 3).
    pub writes: u64,
    /// Processes that read something.
    pub processes: usize,
}

impl Survey {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// What the reader meets.
    pub fn of(reader: impl TraceReader, block_bytes: NonZeroU32) -> Result<Survey, TraceError> {
        Survey::read(reader, block_bytes, None)
    }

    /// The same, and counts the distinct blocks, in memory that grows with them.
    ///
    /// # Errors
    /// What the reader meets.
    pub fn counted(reader: impl TraceReader, block_bytes: NonZeroU32) -> Result<Survey, TraceError> {
        Survey::read(reader, block_bytes, Some(Distinct::default()))
    }

    fn read(
        reader: impl TraceReader,
        block_bytes: NonZeroU32,
        mut distinct: Option<Distinct>,
    ) -> Result<Survey, TraceError> {
        let mut survey = Survey::default();
        let mut seen: Vec<bool> = Vec::new();
        let mut blocks = Blocks::new(reader, block_bytes);
        for reference in blocks.by_ref() {
            let r = reference?;
            survey.count(&r, 0);
            if let Some(distinct) = distinct.as_mut().filter(|_| !r.write) {
                distinct.see(r.file, r.block);
            }
            let process = r.process as usize;
            if seen.len() <= process {
                seen.resize(process + 1, false);
            }
            seen[process] |= !r.write;
        }
        survey.note(blocks.meta(), 0, block_bytes);
        survey.processes = seen.iter().filter(|s| **s).count();
        survey.distinct_blocks = distinct.map(|d| d.count);
        Ok(survey)
    }

    fn count(&mut self, r: &BlockReference, first_file: u32) {
        let file = (first_file + r.file) as usize;
        if self.file_blocks.len() <= file {
            self.file_blocks.resize(file + 1, 0);
        }
        let length = &mut self.file_blocks[file];
        *length = (*length).max(r.block.saturating_add(1));
        if r.write {
            self.writes += 1;
        } else {
            self.references += 1;
        }
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
            self.file_names.resize(slot.max(self.file_names.len()), String::new());
            match self.file_names.get_mut(slot) {
                Some(name) => name.clone_from(&entry.name),
                None => self.file_names.push(entry.name.clone()),
            }
            let length = &mut self.file_blocks[slot];
            *length = (*length).max(u32::try_from(blocks).unwrap_or(u32::MAX));
        }
    }
}

/// Counts distinct blocks: a bit for every block of a run of blocks in which one was seen.
#[derive(Debug, Default)]
struct Distinct {
    runs: HashMap<(u32, u32), Box<[u64; RUN_BLOCKS as usize / 64]>>,
    count: u64,
}

/// Blocks of a run: 512 bytes of bits, little where blocks are scattered, and few runs where they are not.
const RUN_BLOCKS: u32 = 4096;

impl Distinct {
    fn see(&mut self, file: u32, block: u32) {
        let run = self
            .runs
            .entry((file, block / RUN_BLOCKS))
            .or_insert_with(|| Box::new([0; RUN_BLOCKS as usize / 64]));
        let word = &mut run[(block % RUN_BLOCKS / 64) as usize];
        let bit = 1 << (block % 64);
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

/// The references of one or more processes.
#[derive(Debug, Default)]
pub struct Input {
    /// What they are.
    pub survey: Survey,
    /// A sequence a process.
    pub processes: Vec<Vec<InputReference>>,
    /// Fetches of optimal replacement by blocks of the cache, and the number of distinct blocks, as far as
    /// they were asked for.
    optima: Mutex<BTreeMap<u32, Optimum>>,
    distinct_blocks: OnceLock<u64>,
}

/// What no demand-fetching policy can better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Optimum {
    /// Fetches of optimal replacement.
    pub fetches: u64,
    /// Blocks referenced at least once.
    pub distinct_blocks: u64,
}

impl Input {
    /// Reads a trace; each of its processes becomes one of the input's.
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
        let (first_process, first_file) = (self.processes.len(), self.survey.file_blocks.len() as u32);
        let mut blocks = Blocks::new(reader, block_bytes);
        for reference in blocks.by_ref() {
            let r = reference?;
            self.survey.count(&r, first_file);
            let process = first_process + r.process as usize;
            if self.processes.len() <= process {
                self.processes.resize_with(process + 1, Vec::new);
            }
            if !r.write {
                let (file, block, compute_ns) = (first_file + r.file, r.block, r.compute_ns);
                self.processes[process].push(InputReference { file, block, compute_ns });
            }
        }
        self.survey.note(blocks.meta(), first_file, block_bytes);
        self.processes.retain(|p| !p.is_empty());
        self.survey.processes = self.processes.len();
        Ok(())
    }

    /// References of all processes.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.survey.references
    }

    /// Compute time of all processes, in ns.
    #[must_use]
    pub fn compute_ns(&self) -> u64 {
        self.processes.iter().flatten().map(|r| r.compute_ns).sum()
    }

    /// The references of all processes, one after the other process by turns, as dense block numbers.
    #[must_use]
    pub fn dense(&self) -> Vec<u32> {
        let longest = self.processes.iter().map(Vec::len).max().unwrap_or(0);
        let mut dense = Vec::with_capacity(self.references() as usize);
        let mut numbers = Numbers::new(&self.survey.file_blocks);
        for i in 0..longest {
            for r in self.processes.iter().filter_map(|p| p.get(i)) {
                dense.push(numbers.of(r.file, r.block));
            }
        }
        dense
    }

    /// Blocks referenced at least once; counted once.
    #[must_use]
    pub fn distinct_blocks(&self) -> u64 {
        *self.distinct_blocks.get_or_init(|| {
            let mut distinct = Distinct::default();
            for r in self.processes.iter().flatten() {
                distinct.see(r.file, r.block);
            }
            distinct.count
        })
    }

    /// What optimal replacement would fetch with a cache of `cache_blocks` blocks; computed once.
    #[must_use]
    pub fn optimum(&self, cache_blocks: u32) -> Optimum {
        let mut optima = self.optima.lock().unwrap_or_else(PoisonError::into_inner);
        *optima.entry(cache_blocks).or_insert_with(|| {
            let fetches = belady_fetches(&self.dense(), cache_blocks);
            Optimum { fetches, distinct_blocks: self.distinct_blocks() }
        })
    }
}

/// Numbers blocks in the order in which they are first seen.
pub(crate) struct Numbers {
    /// Where each file's part of the table begins.
    first_of_file: Vec<u64>,
    next: u32,
    numbers: NumberTable,
}

enum NumberTable {
    /// Few enough possible blocks for a table.
    Dense(Vec<u32>),
    /// Sparse.
    Sparse(std::collections::HashMap<u64, u32>),
}

impl Numbers {
    /// Possible blocks up to which a table is used (256 MiB of it).
    const TABLE_BLOCKS: u64 = 1 << 26;

    pub(crate) fn new(file_blocks: &[u32]) -> Numbers {
        let mut possible = 0u64;
        let mut first_of_file = Vec::with_capacity(file_blocks.len());
        for &blocks in file_blocks {
            first_of_file.push(possible);
            possible += u64::from(blocks);
        }
        let numbers = if possible <= Self::TABLE_BLOCKS {
            NumberTable::Dense(vec![u32::MAX; possible as usize])
        } else {
            NumberTable::Sparse(std::collections::HashMap::new())
        };
        Numbers { first_of_file, next: 0, numbers }
    }

    #[inline]
    pub(crate) fn of(&mut self, file: u32, block: u32) -> u32 {
        let at = self.first_of_file[file as usize] + u64::from(block);
        let number = match &mut self.numbers {
            NumberTable::Dense(table) => &mut table[at as usize],
            NumberTable::Sparse(map) => map.entry(at).or_insert(u32::MAX),
        };
        if *number == u32::MAX {
            *number = self.next;
            self.next += 1;
        }
        *number
    }
}
