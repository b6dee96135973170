//! libCacheSim's oracleGeneral format: packed little-endian records of 24 bytes.
//!
//! ```text
//!  u32 time in seconds | u64 object | u32 size in bytes | i64 number of the object's next request
//! ```
//!
//! Every object counts as one block: objects get blocks in the order in which they appear. The next
//! request is not used, it follows from the trace. Compute time is zero, as for libCacheSim's text.

use std::io::Read;

use crate::error::TraceError;
use crate::input::{Input, read_error};
use crate::limits::LimitReached;
use crate::names::{Names, Objects};
use crate::options::ReadOptions;
use crate::reference::{Reference, TraceMeta, TraceReader};

const RECORD_BYTES: usize = 24;
const BUFFER_RECORDS: usize = 8192;
const SECOND_NS: u64 = 1_000_000_000;

/// Reads oracleGeneral records.
pub(crate) struct Reader {
    path: Box<str>,
    bytes: Box<dyn std::io::BufRead + Send>,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    /// Records given so far.
    records: u64,
    /// Records in all, if known.
    len: Option<u64>,
    objects: Objects,
    names: Names,
    block_bytes: u64,
    over: bool,
}

impl Reader {
    pub(crate) fn new(input: Input, meta: TraceMeta, options: &ReadOptions) -> Result<Reader, TraceError> {
        let mut names = Names::new(meta, options.limits);
        let full = |LimitReached { limit, what }| TraceError::Limit { path: input.path.clone(), limit, what };
        names.process(b"clients").map_err(full)?;
        names.file(b"objects").map_err(full)?;
        Ok(Reader {
            path: input.path,
            bytes: input.bytes,
            buffer: vec![0; RECORD_BYTES * BUFFER_RECORDS],
            at: 0,
            filled: 0,
            records: 0,
            len: input.len.map(|bytes| bytes / RECORD_BYTES as u64),
            objects: Objects::new(&options.limits),
            names,
            block_bytes: u64::from(options.block_bytes.get()),
            over: false,
        })
    }

    /// Fills the buffer; `false` at the end of the trace.
    fn fill(&mut self) -> Result<bool, TraceError> {
        (self.at, self.filled) = (0, 0);
        while self.filled < self.buffer.len() {
            match self.bytes.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break,
                Ok(read) => self.filled += read,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(read_error(&self.path, &format!("record {}", self.records), e)),
            }
        }
        Ok(self.filled > 0)
    }

    fn advance(&mut self) -> Result<Option<Reference>, TraceError> {
        if self.at == self.filled && !self.fill()? {
            return Ok(None);
        }
        let Some(record) = self.buffer[self.at..self.filled].first_chunk::<RECORD_BYTES>() else {
            let start = self.records * RECORD_BYTES as u64;
            let within = format!("the record of 24 bytes that begins at byte {start}");
            return Err(TraceError::Truncated { path: self.path.clone(), within: within.into() });
        };
        let (seconds, object) = decode(record);
        self.at += RECORD_BYTES;
        self.records += 1;
        let number = self.objects.number(object).map_err(|LimitReached { limit, what }| {
            TraceError::Limit { path: format!("{}: record {}", self.path, self.records).into(), limit, what }
        })?;
        Ok(Some(Reference {
            process: 0,
            file: 0,
            offset: u64::from(number) * self.block_bytes,
            bytes: self.block_bytes,
            compute_ns: 0,
            timestamp_ns: Some(u64::from(seconds) * SECOND_NS),
            write: false,
        }))
    }
}

fn decode(record: &[u8; RECORD_BYTES]) -> (u32, u64) {
    let [a, b, c, d, object @ .., _, _, _, _, _, _, _, _, _, _, _, _] = record;
    (u32::from_le_bytes([*a, *b, *c, *d]), u64::from_le_bytes(*object))
}

/// The beginning of a file could be records: some byte that no text has, times that do not go back, and
/// next requests that are none (-1) or later.
pub(crate) fn plausible(beginning: &[u8]) -> bool {
    let (records, _) = beginning.as_chunks::<RECORD_BYTES>();
    let mut last_seconds = 0;
    let in_order = records.iter().zip(0i64..).all(|(record, nth)| {
        let (seconds, _) = decode(record);
        let [.., a, b, c, d, e, f, g, h] = record;
        let next = i64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
        let ordered = seconds >= last_seconds;
        last_seconds = seconds;
        ordered && (next < 0 || next >= nth)
    });
    !records.is_empty() && in_order && beginning.contains(&0)
}

impl Iterator for Reader {
    type Item = Result<Reference, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.advance().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.len.and_then(|len| usize::try_from(len.saturating_sub(self.records)).ok());
        (left.unwrap_or(0), left)
    }
}

impl TraceReader for Reader {
    fn meta(&self) -> &TraceMeta {
        &self.names.meta
    }
}
