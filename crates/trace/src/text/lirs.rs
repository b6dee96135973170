//! The traces of the LIRS paper (Jiang and Zhang, SIGMETRICS 2002): one block number a line. Lines that
//! begin with `*` mark parts of the run. There is no time, no file and no process.

use std::num::NonZeroU32;

use super::{LineFormat, Problem, fields};
use crate::names::Names;
use crate::reference::Reference;

const EXPECTED: &str = "a block number or a line that begins with `*`";

#[derive(Debug)]
pub(super) struct Lirs {
    block_bytes: u64,
}

impl Lirs {
    pub(super) fn new(block_bytes: NonZeroU32) -> Lirs {
        Lirs { block_bytes: u64::from(block_bytes.get()) }
    }
}

pub(super) fn looks_like(line: &[u8]) -> bool {
    fields::number(line.trim_ascii()).is_some()
}

impl LineFormat for Lirs {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        let line = line.trim_ascii();
        if line.starts_with(b"*") {
            return Ok(None);
        }
        let block = fields::number(line).ok_or(Problem::Expected(EXPECTED))?;
        let offset = block
            .checked_mul(self.block_bytes)
            .ok_or(Problem::Expected("a block number whose byte address fits 64 bits"))?;
        Ok(Some(Reference {
            process: names.process(b"lirs")?,
            file: names.file(b"blocks")?,
            offset,
            bytes: self.block_bytes,
            compute_ns: 0,
            timestamp_ns: None,
            write: false,
        }))
    }
}
