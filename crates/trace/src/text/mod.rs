//! Traces of other tools: text, one event a line, and libCacheSim's fixed-size records.
//!
//! Every text format is a [`LineFormat`]: it turns one line into at most one reference. [`TextReader`]
//! does the rest for all of them: lines, names, limits, and errors that say file and line.

mod blkparse;
mod disksim;
mod fields;
mod fio;
mod libcachesim_csv;
mod line_format;
mod lirs;
mod msr;
pub(crate) mod oracle_general;
mod spc;
mod strace;

use crate::error::{TraceError, excerpt};
use crate::format::Format;
use crate::input::{Input, Lines};
use crate::limits::LimitReached;
use crate::names::Names;
use crate::options::ReadOptions;
use crate::reference::{Reference, TraceMeta, TraceReader};
use line_format::{LineFormat, Problem, SECTOR_BYTES};

/// Whether a line could be of a format.
type LooksLike = fn(&[u8]) -> bool;

/// Which text format the first telling line (and the one after it) is in.
pub(crate) fn detect(first: &[u8], second: Option<&[u8]>) -> Option<Format> {
    if fio::is_header(first) {
        return Some(Format::FioIolog);
    }
    let looks: [(Format, LooksLike); 6] = [
        (Format::Strace, strace::looks_like),
        (Format::Blkparse, blkparse::looks_like),
        (Format::Msr, msr::looks_like),
        (Format::Spc, spc::looks_like),
        (Format::DiskSim, disksim::looks_like),
        (Format::Lirs, lirs::looks_like),
    ];
    let told = looks.iter().find(|(_, looks_like)| looks_like(first)).map(|(format, _)| *format);
    told.or_else(|| libcachesim_csv::looks_like(first, second).then_some(Format::LibCacheSimCsv))
}

/// A reader for a text format.
pub(crate) fn open(
    format: Format,
    input: Input,
    meta: TraceMeta,
    options: &ReadOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    let names = Names::new(meta, options.limits);
    let limits = &options.limits;
    Ok(match format {
        Format::Lirs => TextReader::boxed(lirs::Lirs::new(options.block_bytes), input, names, options),
        Format::LibCacheSimCsv => TextReader::boxed(
            libcachesim_csv::LibCacheSimCsv::new(options.block_bytes, limits),
            input,
            names,
            options,
        ),
        Format::Msr => TextReader::boxed(msr::Msr::default(), input, names, options),
        Format::Spc => TextReader::boxed(spc::Spc::default(), input, names, options),
        Format::DiskSim => TextReader::boxed(disksim::DiskSim::default(), input, names, options),
        Format::Blkparse => {
            TextReader::boxed(blkparse::Blkparse::new(options.blkparse_action), input, names, options)
        }
        Format::FioIolog => TextReader::boxed(fio::FioIolog::new(&input)?, input, names, options),
        Format::Strace => TextReader::boxed(strace::Strace::new(limits), input, names, options),
        Format::Foretell | Format::Recording | Format::OracleGeneral => {
            return Err(TraceError::NotThisFormat {
                path: input.path,
                format,
                expected: "binary data".into(),
                found: "text".into(),
            });
        }
    })
}

/// Reads any text format.
struct TextReader<F> {
    lines: Lines,
    format: F,
    names: Names,
    over: bool,
}

impl<F: LineFormat + 'static> TextReader<F> {
    fn boxed(format: F, input: Input, names: Names, options: &ReadOptions) -> Box<dyn TraceReader> {
        let lines = Lines::new(input, options.limits.line_bytes);
        Box::new(TextReader { lines, format, names, over: false })
    }

    fn advance(&mut self) -> Result<Option<Reference>, TraceError> {
        loop {
            let Some(line) = self.lines.next()? else { return Ok(None) };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.format.reference(line, &mut self.names) {
                Ok(Some(reference)) => return Ok(Some(reference)),
                Ok(None) => {}
                Err(problem) => return Err(self.error(problem)),
            }
        }
    }

    fn error(&self, problem: Problem) -> TraceError {
        let at = || format!("{}:{}", self.lines.path, self.lines.number).into();
        match problem {
            Problem::Full(LimitReached { limit, what }) => TraceError::Limit { path: at(), limit, what },
            // A last line that neither ends nor parses was cut off.
            Problem::Expected(expected) if !self.lines.ended => TraceError::Truncated {
                path: self.lines.path.clone(),
                within: format!("line {} (expected {expected})", self.lines.number).into(),
            },
            Problem::Expected(expected) => TraceError::Line {
                path: self.lines.path.clone(),
                line: self.lines.number,
                expected,
                found: excerpt(self.lines.current()),
            },
        }
    }
}

impl<F: LineFormat + 'static> Iterator for TextReader<F> {
    type Item = Result<Reference, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.advance().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<F: LineFormat + 'static> TraceReader for TextReader<F> {
    fn meta(&self) -> &TraceMeta {
        &self.names.meta
    }
}
