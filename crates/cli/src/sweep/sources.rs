//! Where references come from: workloads by name, traces by file.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use foretell_sim::{Input, Survey};
use foretell_trace::{Format, ReadOptions, TraceError, TraceReader, Workload, open};

/// References up to which a sweep of online policies keeps them in memory (256 MiB).
const KEPT_REFERENCES: u64 = 1 << 24;

/// One source of references.
#[derive(Debug, Clone)]
pub enum Source {
    /// Generated.
    Workload(Workload),
    /// Read from a file.
    Trace(PathBuf),
}

/// The references of a sweep.
#[derive(Debug)]
pub enum References {
    /// All of them in memory.
    Kept(Input),
    /// Read again for every cell.
    Streamed(Survey),
}

impl References {
    /// What is known of them.
    #[must_use]
    pub fn survey(&self) -> &Survey {
        match self {
            References::Kept(input) => &input.survey,
            References::Streamed(survey) => survey,
        }
    }

    /// Blocks read at least once; 0 if they were not counted ([`Reading::count_distinct`]).
    #[must_use]
    pub fn distinct_blocks(&self) -> u64 {
        match self {
            References::Kept(input) => input.distinct_blocks(),
            References::Streamed(survey) => survey.distinct_blocks.unwrap_or(0),
        }
    }
}

/// How sources are read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Bytes of a block.
    pub block_bytes: NonZeroU32,
    /// Format of traces; told from the file if `None`.
    pub format: Option<Format>,
    /// Seed of workloads.
    pub seed: u64,
    /// Count the distinct blocks, for a cache that is a share of them.
    pub count_distinct: bool,
}

impl Source {
    /// The workloads and traces that were asked for, in this order.
    ///
    /// # Errors
    /// A workload that does not exist.
    pub fn all(workloads: &[String], traces: &[PathBuf]) -> Result<Vec<Source>> {
        let mut sources = Vec::new();
        for name in workloads {
            sources.push(Source::Workload(name.parse().map_err(|e| anyhow!("--workload: {e}"))?));
        }
        sources.extend(traces.iter().cloned().map(Source::Trace));
        Ok(sources)
    }

    /// Opens it at its beginning.
    ///
    /// # Errors
    /// The file cannot be opened or is no trace.
    pub fn open(&self, reading: Reading) -> Result<Box<dyn TraceReader>> {
        Ok(match self {
            Source::Workload(workload) => Box::new(workload.open(reading.seed)),
            Source::Trace(path) => {
                let Reading { block_bytes, format, .. } = reading;
                open(path, &ReadOptions { format, block_bytes, ..ReadOptions::default() }).map_err(said)?
            }
        })
    }

    fn is_model(&self) -> bool {
        matches!(self, Source::Workload(workload) if workload.is_model())
    }

    /// The cache that the paper used for it, in blocks.
    #[must_use]
    pub fn published_cache_blocks(&self) -> Option<u32> {
        match self {
            Source::Workload(workload) => workload.published().map(|p| p.cache_blocks),
            Source::Trace(_) => None,
        }
    }
}

/// Reads the sources: all of them as processes of one run. One source that is long, for policies that are
/// all `online`, is only surveyed.
///
/// # Errors
/// What a reader meets; no references at all.
pub fn read(sources: &[Source], reading: Reading, online: bool) -> Result<References> {
    let model = sources.iter().any(Source::is_model);
    let empty = |source: &str| anyhow!("{source}: no read references in it, so there is nothing to simulate");
    if let (true, [source]) = (online, sources)
        && let reader = source.open(reading)?
        && reader.size_hint().1.is_none_or(|most| most as u64 > KEPT_REFERENCES)
    {
        let survey = match reading.count_distinct {
            true => Survey::counted(reader, reading.block_bytes),
            false => Survey::of(reader, reading.block_bytes),
        };
        let mut survey = survey.map_err(said)?;
        survey.model = model;
        if survey.references == 0 {
            return Err(empty(&survey.source));
        }
        if survey.references > KEPT_REFERENCES && survey.processes == 1 {
            return Ok(References::Streamed(survey));
        }
    }
    let mut input = Input::default();
    for source in sources {
        input.add(source.open(reading)?, reading.block_bytes).map_err(said)?;
    }
    input.survey.model = model;
    if input.references() == 0 {
        return Err(empty(&input.survey.source));
    }
    Ok(References::Kept(input))
}

/// An error of a trace. Its text says everything already, the cause as well.
#[must_use]
pub fn said(error: TraceError) -> anyhow::Error {
    anyhow!("{error}")
}

/// A format by name, as `--format` gives it.
///
/// # Errors
/// No format has this name.
pub fn format(name: Option<&str>) -> Result<Option<Format>> {
    name.map(|n| n.parse::<Format>().map_err(|e| anyhow!("--format: {e}"))).transpose()
}
