//! Trace files of the Storage Performance Council (format specification 1.0.1, 2002).
//!
//! ```text
//!  application storage unit, address in sectors, size in bytes, r|R|w|W, time in seconds[, more]
//! ```
//!
//! An application storage unit is a file (`asu3`). Compute time is the gap between requests, since the
//! format has no response times.

use super::fields::{self, Gaps};
use super::{LineFormat, Problem, SECTOR_BYTES};
use crate::names::Names;
use crate::reference::Reference;

const EXPECTED: &str = "ASU,LBA,size,r|w,timestamp";
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Spc {
    gaps: Gaps,
    unit: Vec<u8>,
}

struct Request<'a> {
    unit: &'a [u8],
    sector: u64,
    bytes: u64,
    write: bool,
    time_ns: u64,
}

fn parse(line: &[u8]) -> Option<Request<'_>> {
    let mut columns = fields::separated(line, b',');
    Some(Request {
        unit: columns.next().filter(|unit| fields::number(unit).is_some())?,
        sector: fields::number(columns.next()?)?,
        bytes: fields::number(columns.next()?)?,
        write: match columns.next()? {
            b"r" | b"R" => false,
            b"w" | b"W" => true,
            _ => return None,
        },
        time_ns: fields::nanoseconds(columns.next()?, SECOND_NS)?,
    })
}

pub(super) fn looks_like(line: &[u8]) -> bool {
    parse(line).is_some()
}

impl LineFormat for Spc {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        let request = parse(line).ok_or(Problem::Expected(EXPECTED))?;
        self.unit.clear();
        self.unit.extend_from_slice(b"asu");
        self.unit.extend_from_slice(request.unit);
        let process = names.process(b"spc")?;
        Ok(Some(Reference {
            process,
            file: names.file(&self.unit)?,
            offset: request
                .sector
                .checked_mul(SECTOR_BYTES)
                .ok_or(Problem::Expected("an LBA whose byte address fits 64 bits"))?,
            bytes: request.bytes,
            compute_ns: self.gaps.before(process, request.time_ns, request.time_ns),
            timestamp_ns: Some(request.time_ns),
            write: request.write,
        }))
    }
}
