//! The comma-separated traces that libCacheSim reads: time in seconds, object, size, and more columns
//! that do not matter here.
//!
//! A first line with names says which column is which (`time`, `timestamp`, `clock_time` or `real_time`;
//! `obj_id`, `object`, `id` or `key`; `op`); without one they are time, object, size. Objects that are not
//! numbers are told apart by a 64-bit hash. Every object counts as one block: objects get blocks in the
//! order in which they appear. Compute times are not in the trace, and gaps between requests of many
//! clients are none: compute time is zero.

use std::num::NonZeroU32;

use super::{LineFormat, Problem, fields};
use crate::limits::Limits;
use crate::names::{Names, Objects};
use crate::reference::Reference;

const EXPECTED: &str = "comma-separated time in seconds, object and size";
const TIME: [&[u8]; 4] = [b"time", b"timestamp", b"clock_time", b"real_time"];
const OBJECT: [&[u8]; 6] = [b"obj_id", b"object", b"object_id", b"obj", b"id", b"key"];
const OPERATION: [&[u8]; 3] = [b"op", b"operation", b"op_type"];
const WRITES: [&[u8]; 6] = [b"write", b"set", b"put", b"add", b"replace", b"w"];
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct LibCacheSimCsv {
    block_bytes: u64,
    objects: Objects,
    columns: Option<Columns>,
}

/// Which column is which.
#[derive(Debug, Clone, Copy)]
struct Columns {
    time: Option<usize>,
    object: usize,
    operation: Option<usize>,
}

impl LibCacheSimCsv {
    pub(super) fn new(block_bytes: NonZeroU32, limits: &Limits) -> LibCacheSimCsv {
        let block_bytes = u64::from(block_bytes.get());
        LibCacheSimCsv { block_bytes, objects: Objects::new(limits), columns: None }
    }
}

/// The columns that a first line names, if it names the object's.
fn header(line: &[u8]) -> Option<Columns> {
    let line = line.trim_ascii().strip_prefix(b"#").unwrap_or(line);
    let names: Vec<Vec<u8>> = fields::separated(line, b',').map(<[u8]>::to_ascii_lowercase).collect();
    let column = |known: &[&[u8]]| names.iter().position(|name| known.contains(&name.as_slice()));
    Some(Columns { time: column(&TIME), object: column(&OBJECT)?, operation: column(&OPERATION) })
}

fn is_data(line: &[u8]) -> bool {
    let mut columns = fields::separated(line, b',');
    columns.next().is_some_and(|time| fields::nanoseconds(time, SECOND_NS).is_some())
        && columns.next().is_some_and(|object| !object.is_empty())
        && columns.next().is_some_and(|size| fields::number(size).is_some())
}

pub(super) fn looks_like(first: &[u8], second: Option<&[u8]>) -> bool {
    is_data(first) || (header(first).is_some() && second.is_none_or(|line| line.contains(&b',')))
}

/// FNV-1a (Fowler, Noll and Vo).
fn hash(name: &[u8]) -> u64 {
    name.iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

impl LineFormat for LibCacheSimCsv {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        let columns = match self.columns {
            Some(columns) => columns,
            None => {
                let named = header(line);
                let columns = named.unwrap_or(Columns { time: Some(0), object: 1, operation: None });
                self.columns = Some(columns);
                if named.is_some() {
                    return Ok(None);
                }
                columns
            }
        };
        if line.starts_with(b"#") {
            return Ok(None);
        }
        let (mut time, mut object, mut write) = (None, None, false);
        for (at, field) in fields::separated(line, b',').enumerate() {
            if Some(at) == columns.time {
                time = Some(fields::nanoseconds(field, SECOND_NS).ok_or(Problem::Expected(EXPECTED))?);
            } else if at == columns.object && !field.is_empty() {
                object = Some(fields::number(field).unwrap_or_else(|| hash(field)));
            } else if Some(at) == columns.operation {
                write = WRITES.iter().any(|name| field.eq_ignore_ascii_case(name));
            }
        }
        let object = object.ok_or(Problem::Expected(EXPECTED))?;
        if columns.time.is_some() && time.is_none() {
            return Err(Problem::Expected(EXPECTED));
        }
        Ok(Some(Reference {
            process: names.process(b"clients")?,
            file: names.file(b"objects")?,
            offset: u64::from(self.objects.number(object)?) * self.block_bytes,
            bytes: self.block_bytes,
            compute_ns: 0,
            timestamp_ns: time,
            write,
        }))
    }
}
