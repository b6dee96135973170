//! DiskSim's default ASCII trace format (Bucy et al., reference manual 4.0, 2008).
//!
//! ```text
//!  arrival time in ms | device number | block number | size in blocks | flags, hexadecimal, bit 0: read
//! ```
//!
//! Blocks are sectors of 512 bytes. A device is a file (`device0`). Compute time is the gap between
//! requests, since the format has no response times.

use super::fields::{self, Gaps};
use super::{LineFormat, Problem, SECTOR_BYTES};
use crate::names::Names;
use crate::reference::Reference;

const EXPECTED: &str = "time in ms, device, block, size in blocks and flags, separated by blanks";
const MS_NS: u64 = 1_000_000;
/// The flag of a read request.
const READ: u64 = 1;

#[derive(Debug, Default)]
pub(super) struct DiskSim {
    gaps: Gaps,
    device: Vec<u8>,
}

struct Request<'a> {
    time_ns: u64,
    device: &'a [u8],
    block: u64,
    blocks: u64,
    flags: u64,
}

fn parse(line: &[u8]) -> Option<Request<'_>> {
    let mut columns = fields::words(line);
    let request = Request {
        time_ns: fields::nanoseconds(columns.next()?, MS_NS)?,
        device: columns.next().filter(|device| fields::number(device).is_some())?,
        block: fields::number(columns.next()?)?,
        blocks: fields::number(columns.next()?)?,
        flags: fields::hexadecimal(columns.next()?)?,
    };
    columns.next().is_none().then_some(request)
}

pub(super) fn looks_like(line: &[u8]) -> bool {
    parse(line).is_some()
}

impl LineFormat for DiskSim {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        let request = parse(line).ok_or(Problem::Expected(EXPECTED))?;
        self.device.clear();
        self.device.extend_from_slice(b"device");
        self.device.extend_from_slice(request.device);
        let process = names.process(b"disksim")?;
        let in_bytes = |blocks: u64| {
            blocks
                .checked_mul(SECTOR_BYTES)
                .ok_or(Problem::Expected("blocks whose byte address fits 64 bits"))
        };
        Ok(Some(Reference {
            process,
            file: names.file(&self.device)?,
            offset: in_bytes(request.block)?,
            bytes: in_bytes(request.blocks)?,
            compute_ns: self.gaps.before(process, request.time_ns, request.time_ns),
            timestamp_ns: Some(request.time_ns),
            write: request.flags & READ == 0,
        }))
    }
}
