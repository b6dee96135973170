//! A model of ld: the link editor building a kernel from about 25 MB of object files.
//!
//! Known (Cao, Felten, Li 1994, section 5.1 and Table 6; Kimbrel et al. 1996): 5881 reads of 2882 blocks,
//! lots of small accesses, data almost never accessed twice; LRU still makes about 5390 block I/Os in
//! every cache from 6.4 to 16 MB, where releasing blocks after use makes 3898 in the largest.
//!
//! Assumed, to fit these: two passes over the object files. The first resolves symbols: of each file the
//! header, then the symbol table at its end, then relocation entries in between, 2508 blocks in all. The
//! second copies the contents, all 2882 blocks in order. 491 reads are immediate repeats.

use super::compute::Shape;
use super::model::{file_sizes, repeated};
use super::random::Random;
use super::{Plan, Visit};

const READS: u64 = 5881;
const BLOCKS: u32 = 2882;
const OBJECTS: u32 = 420;
/// Blocks that only the second pass reads: 2 x 2882 less the 5390 block I/Os of LRU.
const CONTENTS_ONLY: u32 = 374;

pub(super) fn ld(seed: u64) -> Plan {
    let sizes = file_sizes(BLOCKS, OBJECTS, &mut Random::new(seed, 2));
    // Blocks that are neither a file's first nor its last may be skipped by the first pass.
    let inner: u32 = sizes.iter().map(|size| size.saturating_sub(2)).sum();
    let mut visits: Vec<Visit> = Vec::new();
    let mut due = 0;
    for (file, &size) in (0..).zip(&sizes) {
        visits.push((file, 0));
        if size > 1 {
            visits.push((file, size - 1));
        }
        for block in 1..size.saturating_sub(1) {
            due += CONTENTS_ONLY;
            if due >= inner {
                due -= inner;
            } else {
                visits.push((file, block));
            }
        }
    }
    for (file, &size) in (0..).zip(&sizes) {
        visits.extend((0..size).map(|block| (file, block)));
    }
    let named = |(number, size): (usize, u32)| (format!("objects/{number:03}.o"), size);
    Plan {
        files: sizes.into_iter().enumerate().map(named).collect(),
        visits: Box::new(repeated(visits, READS).into_iter()),
        shape: Shape::Even,
    }
}
