//! The strategies of Cao, Felten and Li 1994, section 5.1, as the C programs under `examples/c` follow them:
//! their data, their command lines, and what each should fetch.

mod expected;
mod sort;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use foretell_policy::PoolPolicy;

use self::expected::Deed;
use crate::cold;
use crate::random::Random;
use crate::reader::BLOCK_BYTES;

/// Data of each program, in blocks: much more than what all programs have as memory beyond the budget.
pub(crate) const DATA_BLOCKS: u32 = 32_768;
/// Passes of the programs that scan.
const QUERIES: usize = 6;
const WORDS: &str = "who,what,when,where";
const SMALL_FILES: u32 = 800;
const SMALL_FILE_BLOCKS: u32 = 40;
/// Partitions of the data of `hot_cold`, as in its source.
const PARTITIONS: u32 = 16;
const HOT_BLOCKS: u32 = DATA_BLOCKS / 8;
const HOT_QUERIES: u32 = 32;
/// Tuples of `index_scan`, and how it discloses them, as in its source.
const TUPLES: u64 = 32_768;
const TUPLE_BYTES: u64 = 256;
const AHEAD: usize = 4096;
const AT_A_TIME: usize = 1024;

/// A program of `examples/c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Strategy {
    SequentialOnce,
    CyclicScan,
    SmallFiles,
    HotCold,
    AccessOnce,
    MergeSort,
    IndexScan,
}

/// A strategy with its data in a directory.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) strategy: Strategy,
    program: PathBuf,
    directory: PathBuf,
    /// Blocks that it has on the device before it runs.
    pub(crate) data_blocks: u32,
}

impl Strategy {
    pub(crate) const ALL: [Strategy; 7] = [
        Self::SequentialOnce,
        Self::CyclicScan,
        Self::SmallFiles,
        Self::HotCold,
        Self::AccessOnce,
        Self::MergeSort,
        Self::IndexScan,
    ];

    /// The name of its source file.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Compiles the program into `scratch` and makes its data in a directory of its own below `place`.
    pub(crate) fn prepare(self, scratch: &Path, place: &Path, shrink: u64) -> Result<Prepared> {
        let (program, directory) = (compile(&self.name(), scratch)?, place.join(self.name()));
        std::fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut prepared = Prepared { strategy: self, program, directory, data_blocks: 0 };
        prepared.data_blocks = prepared.make(u32::try_from(shrink)?)?;
        Ok(prepared)
    }
}

impl Prepared {
    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Makes the data; returns how many blocks.
    fn make(&self, shrink: u32) -> Result<u32> {
        let blocks = DATA_BLOCKS / shrink;
        let data = self.path("data");
        match self.strategy {
            Strategy::SequentialOnce | Strategy::CyclicScan | Strategy::AccessOnce | Strategy::MergeSort => {
                write_random(&data, blocks)?;
                Ok(blocks)
            }
            Strategy::SmallFiles => {
                let each = SMALL_FILE_BLOCKS.div_ceil(shrink);
                for number in 0..SMALL_FILES {
                    write_text(&self.path(&format!("{number:04}")), each, u64::from(number))?;
                }
                Ok(SMALL_FILES * each)
            }
            Strategy::HotCold => {
                write_random(&self.path("index"), HOT_BLOCKS / shrink)?;
                write_random(&data, blocks)?;
                Ok(blocks + HOT_BLOCKS / shrink)
            }
            Strategy::IndexScan => {
                write_random(&data, blocks)?;
                let index: Vec<u8> = tuples(blocks).iter().flat_map(|offset| offset.to_le_bytes()).collect();
                write(&self.path("index"), &index)?;
                Ok(blocks + u32::try_from((index.len() as u64).div_ceil(BLOCK_BYTES))?)
            }
        }
    }

    /// All files that it has now.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(&self.directory)
            .with_context(|| format!("cannot list {}", self.directory.display()))?;
        let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        files.sort();
        Ok(files)
    }

    /// A cold start: nothing of it is in memory, nothing is left of an earlier run.
    pub(crate) fn chill(&self) -> Result<()> {
        match std::fs::remove_file(self.path("output")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.files()?.iter().try_for_each(|file| cold::evict(file))
    }

    /// The command, with control of its own caching or without.
    pub(crate) fn command(&self, control: bool) -> Result<Vec<OsString>> {
        let mut command: Vec<OsString> = vec![self.program.clone().into()];
        if control {
            command.push("--control".into());
        }
        let data = self.path("data").into();
        match self.strategy {
            Strategy::SequentialOnce | Strategy::AccessOnce => command.push(data),
            Strategy::CyclicScan => {
                command.extend([data, "etaoin".get(..QUERIES).unwrap_or_default().into()])
            }
            Strategy::SmallFiles => {
                command.push(WORDS.into());
                command.extend(self.files()?.into_iter().map(OsString::from));
            }
            Strategy::HotCold => {
                command.extend([self.path("index").into(), data, HOT_QUERIES.to_string().into()]);
            }
            Strategy::MergeSort => {
                command.extend([data, self.path("output").into(), self.directory.clone().into()]);
            }
            Strategy::IndexScan => command.extend([self.path("index").into(), data]),
        }
        Ok(command)
    }

    /// Blocks that the strategy fetches with a cache of `cache_blocks`.
    pub(crate) fn expected(&self, cache_blocks: u32) -> Result<u64> {
        let blocks = self.data_blocks;
        let read_all = |file: usize, blocks: u32| (0..blocks).map(move |index| Deed::Read(file, index));
        match self.strategy {
            Strategy::SequentialOnce | Strategy::AccessOnce => Ok(u64::from(blocks)),
            Strategy::CyclicScan => {
                let mut deeds = vec![Deed::Policy(0, PoolPolicy::Mru)];
                deeds.extend((0..QUERIES).flat_map(|_| read_all(0, blocks)));
                expected::fetches(cache_blocks, false, &[blocks], &deeds)
            }
            Strategy::SmallFiles => {
                let each = blocks / SMALL_FILES;
                let files = || 0..SMALL_FILES as usize;
                let list = files().flat_map(|file| (0..each).map(move |index| (file, index))).collect();
                let mut deeds = vec![Deed::Policy(0, PoolPolicy::Mru), Deed::Disclose(list)];
                let passes = WORDS.split(',');
                deeds.extend(passes.flat_map(|_| files().flat_map(|file| read_all(file, each))));
                expected::fetches(cache_blocks, true, &vec![each; SMALL_FILES as usize], &deeds)
            }
            Strategy::HotCold => {
                let cold = blocks - blocks / 9;
                let hot = blocks - cold;
                let part = cold / PARTITIONS;
                let mut deeds = vec![
                    Deed::Priority(0, 1),
                    Deed::Policy(1, PoolPolicy::Mru),
                    Deed::Policy(0, PoolPolicy::Mru),
                ];
                for query in 0..HOT_QUERIES {
                    deeds.extend(read_all(0, hot));
                    // Where the partitions begin does not matter: they follow each other in a circle.
                    let first = query % PARTITIONS * part;
                    deeds.extend((first..first + part).map(|index| Deed::Read(1, index)));
                }
                expected::fetches(cache_blocks, false, &[hot, cold], &deeds)
            }
            Strategy::MergeSort => {
                let (files, deeds) = sort::deeds(&std::fs::read(self.path("data"))?)?;
                expected::fetches(cache_blocks, false, &files, &deeds)
            }
            Strategy::IndexScan => {
                let index_bytes = TUPLES * 8;
                let index = u32::try_from(index_bytes.div_ceil(BLOCK_BYTES))?;
                let table = blocks - index;
                let order: Vec<(usize, u32)> = tuples(table)
                    .iter()
                    .map(|offset| Ok((1, u32::try_from(offset / BLOCK_BYTES)?)))
                    .collect::<Result<_>>()?;
                let mut deeds = vec![Deed::Priority(0, 1)];
                deeds.extend(read_all(0, index));
                let mut disclosed = 0;
                for (at, (file, block)) in order.iter().enumerate() {
                    let until = (at + AHEAD).min(order.len());
                    if at % AT_A_TIME == 0 && disclosed < until {
                        deeds.push(Deed::Disclose(order[disclosed..until].to_vec()));
                        disclosed = until;
                    }
                    deeds.push(Deed::Read(*file, *block));
                }
                expected::fetches(cache_blocks, true, &[index, table], &deeds)
            }
        }
    }
}

/// Where the tuples lie that `index_scan` reads: anywhere.
fn tuples(table_blocks: u32) -> Vec<u64> {
    let mut random = Random::new(7);
    let places = u64::from(table_blocks) * BLOCK_BYTES / TUPLE_BYTES;
    (0..TUPLES).map(|_| random.below(places) * TUPLE_BYTES).collect()
}

fn write_random(path: &Path, blocks: u32) -> Result<()> {
    let mut random = Random::new(u64::from(blocks));
    let words = u64::from(blocks) * BLOCK_BYTES / 8;
    let bytes: Vec<u8> = (0..words).flat_map(|_| random.next().to_le_bytes()).collect();
    write(path, &bytes)
}

fn write_text(path: &Path, blocks: u32, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    let letters = u64::from(blocks) * BLOCK_BYTES;
    let bytes: Vec<u8> =
        (0..letters).map(|_| b"abcdefghijklmnopqrstuvwxyz \n"[random.below(28) as usize]).collect();
    write(path, &bytes)
}

/// Writes a file and leaves nothing of it in memory.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    cold::evict(path)
}

/// Compiles `examples/c/NAME.c` with the library that lies beside this program.
fn compile(name: &str, scratch: &Path) -> Result<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = std::env::current_exe().context("cannot find the running program")?;
    let library = library.with_file_name("libforetell_capi.a");
    ensure!(library.is_file(), "{} is not there: build it first (./x build)", library.display());
    let program = scratch.join(name);
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(repository.join("crates/capi/include"))
        .arg(repository.join("examples/c").join(format!("{name}.c")))
        .arg(&library)
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s"])
        .output()
        .context("cannot run cc; install a C compiler")?;
    ensure!(output.status.success(), "{name}.c: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(program)
}
