//! Text searches of cscope: all source files in the same order, once for each of four patterns.
//!
//! The numbers fix the passes (section 3.1 of Kimbrel et al.: four text strings) and the reads a visit:
//! 20206 / (4 x 2462) = 2.05 and 30200 / (4 x 3910) = 1.93, in succession, because the application reads
//! in pieces of half a block. Which files there are is not published. An average of 2.7 blocks a file
//! (18 MB in about 900 files) is that of the kernel sources of the time, and is taken for both trees.

use super::compute::Shape;
use super::model::{file_sizes, repeated};
use super::random::Random;
use super::{Plan, Visit};

const PATTERNS: u32 = 4;

fn text_search(blocks: u32, files: u32, reads: u64, shape: Shape, seed: u64) -> Plan {
    let sizes = file_sizes(blocks, files, &mut Random::new(seed, 2));
    let mut visits: Vec<Visit> = Vec::new();
    for _ in 0..PATTERNS {
        for (file, &size) in (0..).zip(&sizes) {
            visits.extend((0..size).map(|block| (file, block)));
        }
    }
    let named = |(number, size): (usize, u32)| (format!("source/{number:04}.c"), size);
    Plan {
        files: sizes.into_iter().enumerate().map(named).collect(),
        visits: Box::new(repeated(visits, reads).into_iter()),
        shape,
    }
}

/// 2462 blocks of 18 MB of source.
pub(super) fn cscope2(seed: u64) -> Plan {
    text_search(2462, 900, 20_206, Shape::Even, seed)
}

/// 3910 blocks, with compute times in runs.
pub(super) fn cscope3(seed: u64) -> Plan {
    text_search(3910, 1430, 30_200, Shape::Runs, seed)
}
