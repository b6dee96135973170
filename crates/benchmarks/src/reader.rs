//! The program that is measured: reads files in a chosen way and reports how long that took.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use crate::patterned::{self, Patterned};
use crate::random::Random;
use crate::ways::{self, Told};

/// The block of the papers.
pub(crate) const BLOCK_BYTES: u64 = 8192;
/// Most reads whose latencies are kept: 64 MiB of them would be a tenth of the smallest memory limit.
const MAX_LATENCIES: usize = 1 << 20;
/// Hits between two looks at the clock: the look costs a fiftieth of a hit each.
const HITS_PER_LOOK: u64 = 64;

/// What to read, and where to report.
#[derive(Debug, Args)]
pub(crate) struct ReaderArguments {
    #[command(subcommand)]
    mode: Mode,
    /// Where the report goes, as JSON.
    #[arg(long, value_name = "FILE", global = true)]
    report: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// A file from beginning to end, several times.
    Passes {
        file: PathBuf,
        #[arg(long, default_value_t = 1)]
        passes: u64,
    },
    /// The blocks of a list: path, offset, length a line.
    List {
        list: PathBuf,
        /// Processor time used after each block, in microseconds.
        #[arg(long, default_value_t = 0)]
        compute_us: u64,
    },
    /// Random blocks of a file that is read into memory first.
    Hits {
        file: PathBuf,
        #[arg(long)]
        reads: u64,
    },
    /// Random blocks of a file.
    Scattered {
        file: PathBuf,
        #[arg(long)]
        reads: u64,
    },
    /// A workload of the model.
    Patterned(Patterned),
    /// A file from beginning to end in one of the ways that programs have.
    Ways(Told),
    /// ReadN of Cao, Felten and Li 1994, section 6: the first N blocks five times, then the next N.
    ReadN {
        file: PathBuf,
        #[arg(long)]
        group: u64,
        #[arg(long, default_value_t = 5)]
        repeat: u64,
        /// Processor time used after each block, in microseconds.
        #[arg(long, default_value_t = 0)]
        compute_us: u64,
    },
}

/// What a reader reports.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    /// From the first read to the end of the last, in seconds.
    pub(crate) elapsed_s: f64,
    pub(crate) reads: u64,
    /// Latencies of single reads, in microseconds; of the mean of some in a row for hits.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
}

/// Reads as told.
pub(crate) fn run(arguments: &ReaderArguments) -> Result<()> {
    let mut reader = Reader::default();
    match &arguments.mode {
        Mode::Patterned(told) => return write(arguments, &patterned::run(told)?),
        Mode::Ways(told) => {
            reader.begin();
            reader.reads = ways::run(told)?;
        }
        Mode::Passes { file, passes } => {
            let (file, blocks) = open(file)?;
            reader.begin();
            for block in (0..*passes).flat_map(|_| 0..blocks) {
                reader.read(&file, block * BLOCK_BYTES, BLOCK_BYTES)?;
            }
        }
        Mode::List { list, compute_us } => {
            let list = List::load(list)?;
            reader.begin();
            for (file, offset, length) in &list.blocks {
                reader.read(&list.files[*file], *offset, *length)?;
                compute(*compute_us);
            }
        }
        Mode::Hits { file, reads } => {
            let (file, blocks) = open(file)?;
            for block in 0..blocks {
                reader.read(&file, block * BLOCK_BYTES, BLOCK_BYTES)?;
            }
            let mut random = Random::new(3);
            reader.begin();
            for _ in 0..reads.div_ceil(HITS_PER_LOOK) {
                reader.read_some(&file, HITS_PER_LOOK, || random.below(blocks))?;
            }
        }
        Mode::Scattered { file, reads } => {
            let (file, blocks) = open(file)?;
            let mut random = Random::new(4);
            reader.begin();
            for _ in 0..*reads {
                reader.read(&file, random.below(blocks) * BLOCK_BYTES, BLOCK_BYTES)?;
            }
        }
        Mode::ReadN { file, group, repeat, compute_us } => {
            let (file, blocks) = open(file)?;
            reader.begin();
            for first in (0..blocks).step_by(usize::try_from(*group)?.max(1)) {
                for block in (0..*repeat).flat_map(|_| first..blocks.min(first + group)) {
                    reader.read(&file, block * BLOCK_BYTES, BLOCK_BYTES)?;
                    compute(*compute_us);
                }
            }
        }
    }
    write(arguments, &reader.report())
}

/// Reports.
fn write(arguments: &ReaderArguments, report: &Report) -> Result<()> {
    let report = serde_json::to_string(report)?;
    match &arguments.report {
        Some(path) => {
            std::fs::write(path, report).with_context(|| format!("cannot write {}", path.display()))
        }
        None => {
            println!("{report}");
            Ok(())
        }
    }
}

fn open(path: &PathBuf) -> Result<(File, u64)> {
    let open = || -> std::io::Result<(File, u64)> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes / BLOCK_BYTES))
    };
    let (file, blocks) = open().with_context(|| format!("cannot open {}", path.display()))?;
    ensure!(blocks > 0, "{} has no whole block of {BLOCK_BYTES} bytes", path.display());
    Ok((file, blocks))
}

/// Uses the processor for this long. Its own time, not the clock's: what others take away is not computed.
pub(crate) fn compute(us: u64) {
    let now_us = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000
    };
    if us > 0 {
        let end_us = now_us() + us;
        while now_us() < end_us {
            std::hint::spin_loop();
        }
    }
}

/// A list of blocks, with each file opened once.
struct List {
    files: Vec<File>,
    blocks: Vec<(usize, u64, u64)>,
}

impl List {
    fn load(path: &PathBuf) -> Result<Self> {
        let text = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut list = Self { files: Vec::new(), blocks: Vec::new() };
        let mut known: HashMap<String, usize> = HashMap::new();
        for (number, line) in BufReader::new(text).lines().enumerate() {
            let line = line?;
            let bad = || format!("{}:{}: expected `path offset length`", path.display(), number + 1);
            let mut fields = line.rsplitn(3, ' ');
            let (length, offset, name) = (fields.next(), fields.next(), fields.next());
            let name = name.with_context(bad)?;
            let offset = offset.and_then(|field| field.parse().ok()).with_context(bad)?;
            let length = length.and_then(|field| field.parse().ok()).with_context(bad)?;
            let file = match known.get(name) {
                Some(file) => *file,
                None => {
                    list.files.push(File::open(name).with_context(|| format!("cannot open {name}"))?);
                    known.insert(name.to_owned(), list.files.len() - 1);
                    list.files.len() - 1
                }
            };
            list.blocks.push((file, offset, length));
        }
        Ok(list)
    }
}

/// Reads and keeps time.
struct Reader {
    buffer: Vec<u8>,
    began: Instant,
    reads: u64,
    latencies_ns: Vec<u32>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { buffer: Vec::new(), began: Instant::now(), reads: 0, latencies_ns: Vec::new() }
    }
}

impl Reader {
    /// What was read so far was preparation.
    fn begin(&mut self) {
        self.reads = 0;
        self.latencies_ns.clear();
        self.began = Instant::now();
    }

    fn read(&mut self, file: &File, offset: u64, length: u64) -> Result<()> {
        let started = Instant::now();
        self.read_only(file, offset, length)?;
        self.keep(started, 1);
        Ok(())
    }

    fn read_some(&mut self, file: &File, count: u64, mut block: impl FnMut() -> u64) -> Result<()> {
        let started = Instant::now();
        for _ in 0..count {
            self.read_only(file, block() * BLOCK_BYTES, BLOCK_BYTES)?;
        }
        self.keep(started, count);
        Ok(())
    }

    fn read_only(&mut self, file: &File, offset: u64, length: u64) -> Result<()> {
        let length = usize::try_from(length)?;
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        file.read_exact_at(&mut self.buffer[..length], offset).context("cannot read")
    }

    fn keep(&mut self, started: Instant, count: u64) {
        self.reads += count;
        if self.latencies_ns.len() < MAX_LATENCIES {
            let mean_ns = started.elapsed().as_nanos() / u128::from(count.max(1));
            self.latencies_ns.push(u32::try_from(mean_ns).unwrap_or(u32::MAX));
        }
    }

    fn report(&mut self) -> Report {
        let elapsed_s = self.began.elapsed().as_secs_f64();
        self.latencies_ns.sort_unstable();
        let last = self.latencies_ns.len().saturating_sub(1);
        let at = |share: f64| {
            let index = (share * last as f64).round() as usize;
            self.latencies_ns.get(index).map_or(0.0, |ns| f64::from(*ns) / 1000.0)
        };
        Report { elapsed_s, reads: self.reads, p50_us: at(0.5), p99_us: at(0.99), max_us: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_files_with_blanks_and_says_where_it_is_wrong() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("a file");
        std::fs::write(&data, [0; 8192]).unwrap();
        let path = directory.path().join("list");
        std::fs::write(&path, format!("{0} 0 4096\n{0} 4096 4096\n", data.display())).unwrap();
        let list = List::load(&path).unwrap();
        assert_eq!((list.files.len(), list.blocks), (1, vec![(0, 0, 4096), (0, 4096, 4096)]));
        std::fs::write(&path, format!("{0} 0 4096\n{0} x 1\n", data.display())).unwrap();
        assert!(List::load(&path).err().unwrap().to_string().contains("list:2:"));
    }

    #[test]
    fn latencies_are_ranked() {
        let mut reader =
            Reader { latencies_ns: (1..=101).map(|us| us * 1000).collect(), ..Reader::default() };
        let report = reader.report();
        assert!((report.p50_us - 51.0).abs() < 1e-9 && (report.p99_us - 100.0).abs() < 1e-9);
        assert!((report.max_us - 101.0).abs() < 1e-9);
    }
}
