//! Block traces of Microsoft Research Cambridge (Narayanan, Donnelly, Rowstron, FAST 2008).
//!
//! ```text
//!  Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
//! ```
//!
//! Times are Windows file times, 100 ns since 1601; offset and size are in bytes. A disk of a host is a
//! file (`usr_0`), a host is a process. Compute time is what passed since the host's last request was
//! answered.

use super::fields::{self, Gaps};
use super::{LineFormat, Problem};
use crate::names::Names;
use crate::reference::Reference;

const EXPECTED: &str = "Timestamp,Hostname,DiskNumber,Read|Write,Offset,Size,ResponseTime";
/// Nanoseconds of a tick of Windows file time.
const TICK_NS: u64 = 100;
/// Ticks from 1601, where file times begin, to 1970.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Msr {
    gaps: Gaps,
    disk: Vec<u8>,
}

struct Request<'a> {
    ticks: u64,
    host: &'a [u8],
    disk: &'a [u8],
    write: bool,
    offset: u64,
    bytes: u64,
    response_ticks: u64,
}

fn parse(line: &[u8]) -> Option<Request<'_>> {
    let mut columns = fields::separated(line, b',');
    let request = Request {
        ticks: fields::number(columns.next()?)?,
        host: columns.next()?,
        disk: columns.next()?,
        write: match columns.next()? {
            kind if kind.eq_ignore_ascii_case(b"Read") => false,
            kind if kind.eq_ignore_ascii_case(b"Write") => true,
            _ => return None,
        },
        offset: fields::number(columns.next()?)?,
        bytes: fields::number(columns.next()?)?,
        response_ticks: fields::number(columns.next()?)?,
    };
    columns.next().is_none().then_some(request)
}

pub(super) fn looks_like(line: &[u8]) -> bool {
    parse(line).is_some()
}

impl LineFormat for Msr {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        if line.starts_with(b"Timestamp,") {
            return Ok(None);
        }
        let request = parse(line).ok_or(Problem::Expected(EXPECTED))?;
        self.disk.clear();
        self.disk.extend_from_slice(request.host);
        self.disk.push(b'_');
        self.disk.extend_from_slice(request.disk);
        let process = names.process(request.host)?;
        let start_ns = request.ticks.saturating_sub(UNIX_EPOCH_TICKS).saturating_mul(TICK_NS);
        let end_ns = start_ns.saturating_add(request.response_ticks.saturating_mul(TICK_NS));
        Ok(Some(Reference {
            process,
            file: names.file(&self.disk)?,
            offset: request.offset,
            bytes: request.bytes,
            compute_ns: self.gaps.before(process, start_ns, end_ns),
            timestamp_ns: Some(start_ns),
            write: request.write,
        }))
    }
}
