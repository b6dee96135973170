//! The text that `blkparse` prints from a recording of `blktrace` (its manual page, "default output").
//!
//! ```text
//!  8,0    3        1     0.000000000   697  Q  RA 223490 + 8 [cat]
//!  device cpu sequence time in seconds pid action, kind, sector + sectors [program]
//! ```
//!
//! One action makes a reference, by default `Q`, where a request enters the block layer. The kind has `R`
//! for reads and `W` for writes; discards and flushes without data are left out. A device is a file, a
//! pid is a process. Compute time is the gap between requests of a process, which includes the time that
//! it waited. The summary at the end is left out.

use super::fields::{self, Gaps};
use super::{LineFormat, Problem, SECTOR_BYTES};
use crate::names::Names;
use crate::reference::Reference;

const EXPECTED: &str = "device, cpu, sequence, time, pid, action and kind, as blkparse prints them";
const EXPECTED_RANGE: &str = "`sector + sectors` after the kind";
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Blkparse {
    action: u8,
    gaps: Gaps,
    summary: bool,
}

impl Blkparse {
    /// References are lines with this action.
    pub(super) fn new(action: u8) -> Blkparse {
        Blkparse { action, gaps: Gaps::default(), summary: false }
    }
}

struct Event<'a> {
    device: &'a [u8],
    time_ns: u64,
    pid: &'a [u8],
    action: &'a [u8],
    kind: &'a [u8],
}

/// The columns that every event has, and the words after them.
fn parse(line: &[u8]) -> Option<(Event<'_>, impl Iterator<Item = &[u8]>)> {
    let mut columns = fields::words(line);
    let device = columns.next()?;
    let (major, minor) = device.split_at_checked(device.iter().position(|&byte| byte == b',')?)?;
    fields::number(major).and(fields::number(&minor[1..]))?;
    fields::number(columns.next()?)?;
    fields::number(columns.next()?)?;
    let event = Event {
        device,
        time_ns: fields::nanoseconds(columns.next()?, SECOND_NS)?,
        pid: columns.next().filter(|pid| fields::number(pid).is_some())?,
        action: columns.next()?,
        kind: columns.next()?,
    };
    Some((event, columns))
}

pub(super) fn looks_like(line: &[u8]) -> bool {
    parse(line).is_some()
}

/// The summary begins with a line for the first CPU (`CPU0 (sda):`) or for the device (`Total (sda):`).
fn begins_summary(line: &[u8]) -> bool {
    line.ends_with(b"):") && (line.starts_with(b"CPU") || line.starts_with(b"Total"))
}

impl LineFormat for Blkparse {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        self.summary |= begins_summary(line.trim_ascii());
        if self.summary {
            return Ok(None);
        }
        let (event, mut rest) = parse(line).ok_or(Problem::Expected(EXPECTED))?;
        let write = event.kind.contains(&b'W');
        let data = (write || event.kind.contains(&b'R')) && !event.kind.contains(&b'D');
        if event.action != [self.action] || !data {
            return Ok(None);
        }
        let range = (rest.next().and_then(fields::number), rest.next(), rest.next().and_then(fields::number));
        let (Some(sector), Some(b"+"), Some(sectors)) = range else {
            // A flush carries no data and prints no range.
            return if event.kind.contains(&b'F') {
                Ok(None)
            } else {
                Err(Problem::Expected(EXPECTED_RANGE))
            };
        };
        let in_bytes =
            |sectors: u64| sectors.checked_mul(SECTOR_BYTES).ok_or(Problem::Expected(EXPECTED_RANGE));
        let process = names.process(event.pid)?;
        Ok(Some(Reference {
            process,
            file: names.file(event.device)?,
            offset: in_bytes(sector)?,
            bytes: in_bytes(sectors)?,
            compute_ns: self.gaps.before(process, event.time_ns, event.time_ns),
            timestamp_ns: Some(event.time_ns),
            write,
        }))
    }
}
