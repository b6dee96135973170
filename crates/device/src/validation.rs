//! How well a device model fits a drive: replay of a measured trace, and the demerit figure.
//!
//! # The trace
//!
//! DiskSim's validation format, one request a line, in the order in which they were sent to the drive, one
//! at a time:
//!
//! ```text
//! R Miss 1423566 16 18235.0 3034.0
//! ```
//!
//! read or write (`R`, `W`); what the drive's buffer did (`Hit`, `Miss`, or `Doub` and `Trip` for a miss
//! with two or three disconnects from the bus); first sector; sectors; measured service time in
//! microseconds; microseconds from the end of this request to the sending of the next.
//!
//! Empty lines and lines that begin with `#` are passed over.
//!
//! Traces from drives that could not be watched so closely say `Hit` on every line; hits are then not
//! compared.
//!
//! The replay keeps the last of these, not the instants: each request is sent as long after the *model's*
//! completion of the one before as it was after the drive's.
//!
//! # The demerit figure
//!
//! Ruemmler and Wilkes (1994) compare the distribution of the model's response times with the measured one
//! and not request by request, because only the distribution matters to a system above. The demerit is the
//! root mean square of the horizontal distance between the two distribution curves; relative to the mean of
//! the measured times it is a percentage (they reach 5.7% for the HP 97560; Kotz et al. 3.9%). With as many
//! times on both sides it is the root mean square difference of the sorted times, rank by rank.

use std::io::{self, BufRead};

use thiserror::Error;

use crate::device::Device;
use crate::request::{Class, DeviceEvent, Request, SubmitError};

/// The most requests in a trace: their times are sorted in memory, 16 bytes a request.
pub const MAX_RECORDS: usize = 1 << 26;

/// The longest line, in bytes; DiskSim's own reader stops at 200.
const MAX_LINE_BYTES: u64 = 4096;

/// What the drive's buffer did with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferAction {
    /// The data were in the buffer.
    Hit,
    /// They were not.
    Miss,
    /// They were not, and the drive left the bus twice.
    DoubleDisconnect,
    /// They were not, and the drive left the bus three times.
    TripleDisconnect,
}

/// One line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Its line, from 1.
    pub line: u64,
    /// Whether it is a write.
    pub write: bool,
    /// What the drive's buffer did.
    pub action: BufferAction,
    /// First sector.
    pub sector: u64,
    /// Sectors, at least 1.
    pub sectors: u32,
    /// Measured service time, in ns.
    pub service_ns: u64,
    /// From this request's end to the next one's start, in ns.
    pub think_ns: u64,
}

/// What is wrong with a trace. The caller adds the file's name.
#[derive(Debug, Error)]
pub enum ValidationError {
    /// A line that is no request.
    #[error("line {line}: {problem}: give R or W, Hit or Miss, sector, sectors, service us, think us")]
    Line {
        /// Line, from 1.
        line: u64,
        /// What is wrong.
        problem: String,
    },
    /// The text could not be read.
    #[error("line {line}: {source}")]
    Read {
        /// The line that could not be read.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The model does not take the request.
    #[error("line {line}: {source}")]
    Refused {
        /// Line, from 1.
        line: u64,
        /// Why.
        source: SubmitError,
    },
    /// No requests at all.
    #[error("the trace has no requests")]
    Empty,
    /// More than [`MAX_RECORDS`].
    #[error("more than {MAX_RECORDS} requests: validate with a part of the trace")]
    TooLong,
}

/// Reads a trace line by line. Empty lines and comments are skipped.
#[derive(Debug)]
pub struct Records<R> {
    reader: R,
    line: u64,
    text: Vec<u8>,
    failed: bool,
}

impl<R: BufRead> Records<R> {
    /// Reads from `reader`.
    pub fn new(reader: R) -> Records<R> {
        Records { reader, line: 0, text: Vec::new(), failed: false }
    }

    fn read_record(&mut self) -> Result<Option<Record>, ValidationError> {
        loop {
            self.line += 1;
            let line = self.line;
            self.text.clear();
            let mut limited = io::Read::take(&mut self.reader, MAX_LINE_BYTES);
            let read = limited.read_until(b'\n', &mut self.text);
            if read.map_err(|source| ValidationError::Read { line, source })? == 0 {
                return Ok(None);
            }
            if self.text.len() as u64 == MAX_LINE_BYTES {
                let problem = format!("longer than {MAX_LINE_BYTES} bytes");
                return Err(ValidationError::Line { line, problem });
            }
            let text = String::from_utf8_lossy(&self.text);
            if !text.trim().is_empty() && !text.starts_with('#') {
                return parse_record(line, &text).map(Some);
            }
        }
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<Record, ValidationError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = self.read_record();
        self.failed = record.is_err();
        record.transpose()
    }
}

fn parse_record(line: u64, text: &str) -> Result<Record, ValidationError> {
    let problem = |problem: String| ValidationError::Line { line, problem };
    let fields: Vec<&str> = text.split_whitespace().collect();
    let &[direction, action, sector, sectors, service_us, think_us] = fields.as_slice() else {
        return Err(problem(format!("{} fields instead of 6", fields.len())));
    };
    let write = match direction {
        "R" => false,
        "W" => true,
        other => return Err(problem(format!("\"{other}\" is neither R nor W"))),
    };
    let action = match action {
        "Hit" => BufferAction::Hit,
        "Miss" => BufferAction::Miss,
        "Doub" => BufferAction::DoubleDisconnect,
        "Trip" => BufferAction::TripleDisconnect,
        other => return Err(problem(format!("\"{other}\" is none of Hit, Miss, Doub, Trip"))),
    };
    let sector = sector.parse().map_err(|_| problem(format!("\"{sector}\" is no sector number")))?;
    let sectors = match sectors.parse() {
        Ok(n) if n > 0 => n,
        _ => return Err(problem(format!("\"{sectors}\" is no number of sectors from 1 on"))),
    };
    let ns = |us: &str| match us.parse::<f64>() {
        // A day: far longer than any request, and far from the end of 64 bits of ns.
        Ok(us) if (0.0..=86_400e6).contains(&us) => Ok((us * 1e3).round() as u64),
        _ => Err(problem(format!("\"{us}\" is no time in microseconds from 0 to a day"))),
    };
    let (service_ns, think_ns) = (ns(service_us)?, ns(think_us)?);
    Ok(Record { line, write, action, sector, sectors, service_ns, think_ns })
}

/// How a model compares with a drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Requests replayed.
    pub requests: u64,
    /// Writes among them.
    pub writes: u64,
    /// Mean measured service time, in ns.
    pub measured_mean_ns: f64,
    /// Mean service time of the model, in ns.
    pub modelled_mean_ns: f64,
    /// The demerit figure, in ns.
    pub demerit_ns: f64,
    /// How the caches agree; `None` if the trace says `Hit` of every request, because it then does not know.
    pub hits: Option<Hits>,
}

/// How often the drive's buffer and the model's cache served a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hits {
    /// Reads that the drive served from its buffer.
    pub measured: u64,
    /// Reads that the model served from its cache.
    pub modelled: u64,
    /// Reads on which the two agree.
    pub agreeing: u64,
}

impl Comparison {
    /// The demerit figure relative to the mean measured service time; 0.05 is 5%.
    #[must_use]
    pub fn demerit(&self) -> f64 {
        self.demerit_ns / self.measured_mean_ns
    }
}

/// Replays a trace at an idle device.
///
/// # Errors
///
/// [`ValidationError`]: the first line that does not parse, or that the device does not take.
pub fn replay(
    device: &mut Device,
    records: impl Iterator<Item = Result<Record, ValidationError>>,
) -> Result<Comparison, ValidationError> {
    let (mut measured_ns, mut modelled_ns) = (Vec::new(), Vec::new());
    let (mut writes, mut hits, mut actions_known) = (0, Hits::default(), false);
    let mut now_ns = 0;
    for record in records {
        let record = record?;
        if measured_ns.len() == MAX_RECORDS {
            return Err(ValidationError::TooLong);
        }
        let Record { line, write, sector, sectors, .. } = record;
        actions_known |= record.action != BufferAction::Hit;
        let request = Request { id: line, sector, sectors, write, class: Class::Demand };
        device.submit(now_ns, request).map_err(|source| ValidationError::Refused { line, source })?;
        while let Some(next_ns) = device.next_event_ns() {
            device.advance(next_ns);
        }
        while let Some(event) = device.poll() {
            let DeviceEvent::Completed(done) = event else { continue };
            measured_ns.push(record.service_ns);
            modelled_ns.push(done.response_ns());
            now_ns = done.finished_ns + record.think_ns;
            if write {
                writes += 1;
            } else {
                let hit = record.action == BufferAction::Hit;
                hits.measured += u64::from(hit);
                hits.modelled += u64::from(done.from_cache);
                hits.agreeing += u64::from(hit == done.from_cache);
            }
        }
    }
    if measured_ns.is_empty() {
        return Err(ValidationError::Empty);
    }
    measured_ns.sort_unstable();
    modelled_ns.sort_unstable();
    Ok(Comparison {
        requests: measured_ns.len() as u64,
        writes,
        measured_mean_ns: mean(&measured_ns),
        modelled_mean_ns: mean(&modelled_ns),
        demerit_ns: demerit_ns(&measured_ns, &modelled_ns),
        hits: actions_known.then_some(hits),
    })
}

fn mean(times_ns: &[u64]) -> f64 {
    times_ns.iter().map(|&t| t as f64).sum::<f64>() / times_ns.len() as f64
}

/// The root mean square of the horizontal distance between two distributions of times, each given in
/// ascending order; their numbers may differ. Not a number if one is empty.
#[must_use]
pub fn demerit_ns(a_ns: &[u64], b_ns: &[u64]) -> f64 {
    // Both curves are stairs: walk up over the heights at which either has a step.
    let (a_steps, b_steps) = (a_ns.len(), b_ns.len());
    let (mut i, mut j) = (0, 0);
    let (mut height, mut sum) = (0.0, 0.0);
    while i < a_steps && j < b_steps {
        let (a_top, b_top) = ((i + 1) as f64 / a_steps as f64, (j + 1) as f64 / b_steps as f64);
        let top = a_top.min(b_top);
        let distance = a_ns[i] as f64 - b_ns[j] as f64;
        sum += distance * distance * (top - height);
        height = top;
        // In whole numbers, so that equal heights are seen as equal.
        let (a_next, b_next) = ((i + 1) * b_steps, (j + 1) * a_steps);
        i += usize::from(a_next <= b_next);
        j += usize::from(b_next <= a_next);
    }
    if height == 0.0 { f64::NAN } else { sum.sqrt() }
}
