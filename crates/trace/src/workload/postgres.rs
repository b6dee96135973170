//! Models of two Postgres queries on the relations of a scaled-up Wisconsin benchmark.
//!
//! Known (Cao, Felten, Li 1994, section 5.1; ACFS, TOCS 1996, section 5.1; Kimbrel et al. 1996): relation
//! `twohundredk`, 200,000 tuples in 32 MB, its index on the random attribute `unique1` 5 MB; relation
//! `twentyk`, 20,000 tuples in 3.2 MB, without an index.
//!
//! - The join scans `twentyk`, looks each tuple's key up in the index and fetches the matching tuple:
//!   index blocks are referenced much more often than data blocks. 8896 reads of 3793 blocks.
//! - The selection walks the index over 2% of the keys and fetches each tuple: 5044 reads of 3085 blocks.
//!
//! Assumed: the sizes in blocks of 8 KiB that follow (391, 3907 and 611); tuples at random places. The
//! reads of data of the join are as many as random draws need to touch 2791 of 3907 blocks, the rest are
//! reads of the index, whose root and inner blocks Postgres keeps in its own buffers.

use super::compute::Shape;
use super::model::covering;
use super::random::Random;
use super::{Plan, Visit};

/// 3.2 MB.
const TWENTYK_BLOCKS: u32 = 391;
/// 32 MB.
const TWOHUNDREDK_BLOCKS: u32 = 3907;
/// 5 MB.
const INDEX_BLOCKS: u32 = 611;

/// 3793 distinct blocks less `twentyk` and the index.
const JOIN_DATA_DISTINCT: u32 = 3793 - TWENTYK_BLOCKS - INDEX_BLOCKS;
/// 3907 ln(3907 / (3907 - 2791)): the draws that are expected to touch that many.
const JOIN_DATA_READS: u32 = 4895;
const JOIN_INDEX_READS: u32 = 8896 - TWENTYK_BLOCKS - JOIN_DATA_READS;

/// Two levels above the leaves, and the leaves that hold 2% of the keys.
const SELECT_INDEX_BLOCKS: u32 = 2 + 13;
const SELECT_DATA_READS: u32 = 5044 - SELECT_INDEX_BLOCKS;
const SELECT_DATA_DISTINCT: u32 = 3085 - SELECT_INDEX_BLOCKS;

fn relations(with_outer: bool) -> Vec<(String, u32)> {
    let mut files = vec![
        ("twohundredk".to_owned(), TWOHUNDREDK_BLOCKS),
        ("twohundredk_unique1".to_owned(), INDEX_BLOCKS),
    ];
    if with_outer {
        files.push(("twentyk".to_owned(), TWENTYK_BLOCKS));
    }
    files
}

const DATA: u32 = 0;
const INDEX: u32 = 1;
const OUTER: u32 = 2;

pub(super) fn join(seed: u64) -> Plan {
    let mut random = Random::new(seed, 2);
    let data = covering(TWOHUNDREDK_BLOCKS, JOIN_DATA_DISTINCT, JOIN_DATA_READS, &mut random);
    let index = covering(INDEX_BLOCKS, INDEX_BLOCKS, JOIN_INDEX_READS, &mut random);
    // The reads of the outer relation and of the index are spread evenly over those of the data.
    let spread =
        |reads: u32, nth: u32| (u64::from(reads) * u64::from(nth) / u64::from(JOIN_DATA_READS)) as u32;
    let (mut visits, mut outer) = (Vec::<Visit>::new(), 0);
    for (nth, tuple) in (0..).zip(data) {
        if spread(TWENTYK_BLOCKS, nth) == outer {
            visits.push((OUTER, outer));
            outer += 1;
        }
        let (before, after) = (spread(JOIN_INDEX_READS, nth), spread(JOIN_INDEX_READS, nth + 1));
        visits.extend(index[before as usize..after as usize].iter().map(|&block| (INDEX, block)));
        visits.push((DATA, tuple));
    }
    Plan { files: relations(true), visits: Box::new(visits.into_iter()), shape: Shape::Even }
}

pub(super) fn select(seed: u64) -> Plan {
    let mut random = Random::new(seed, 2);
    let data = covering(TWOHUNDREDK_BLOCKS, SELECT_DATA_DISTINCT, SELECT_DATA_READS, &mut random);
    // Root and inner block, then each leaf before the tuples that it names.
    let leaves = SELECT_INDEX_BLOCKS - 2;
    let first_leaf = random.below(INDEX_BLOCKS - 2 - leaves) + 2;
    let mut visits: Vec<Visit> = vec![(INDEX, 0), (INDEX, 1)];
    let a_leaf = (SELECT_DATA_READS as usize).div_ceil(leaves as usize);
    for (leaf, tuples) in (first_leaf..).zip(data.chunks(a_leaf)) {
        visits.push((INDEX, leaf));
        visits.extend(tuples.iter().map(|&block| (DATA, block)));
    }
    Plan { files: relations(false), visits: Box::new(visits.into_iter()), shape: Shape::Even }
}
