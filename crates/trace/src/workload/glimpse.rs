//! A model of glimpse: four searches in an indexed collection of news articles.
//!
//! Known (Kimbrel et al. 1996 section 3.1, Cao, Felten, Li 1994 section 5.1): 40 MB of articles, about
//! 2 MB of index files; every search reads the index files first, always in the same order, then the
//! articles of those partitions that the index names, in the same order too. 27981 reads, 5247 blocks.
//!
//! Assumed: 256 index blocks, which leaves 4991 blocks of articles. The first two searches look into the
//! same partitions (as "scheduling" and "scheduling and disk" do), the third, for a rare word, into a
//! few others, the fourth, for a common word, into all. The sizes of these sets are chosen so that LRU
//! makes about the block I/Os published in 1994 for caches of 6.4 to 16 MB: the first set and the index
//! fit 16 MB (2048 blocks) but not 12 MB. Articles are read in pieces smaller than a block. Compute times
//! come in runs, fitted so that fixed horizon and aggressive compare as in Table 7 of Kimbrel et al.: on few
//! disks fixed horizon stalls in the short ones.

use super::compute::Shape;
use super::model::{file_sizes, repeated};
use super::random::Random;
use super::{Plan, Visit};

const READS: u64 = 27_981;
const SEARCHES: usize = 4;
const INDEX: [(&str, u32); 4] = [
    (".glimpse_index", 240),
    (".glimpse_partitions", 4),
    (".glimpse_filenames", 10),
    (".glimpse_statistics", 2),
];
const ARTICLE_BLOCKS: u32 = 4991;
const ARTICLE_FILES: u32 = 1250;
/// Glimpse divides its collection into at most 256 partitions, so that a partition number is a byte.
const PARTITIONS: u32 = 256;
/// Blocks that the first and the second search look into.
const TWICE_BLOCKS: u32 = 1780;
/// Blocks that the third search looks into.
const RARE_BLOCKS: u32 = 600;

pub(super) fn glimpse(seed: u64) -> Plan {
    let mut random = Random::new(seed, 2);
    let sizes = file_sizes(ARTICLE_BLOCKS, ARTICLE_FILES, &mut random);
    let mut files: Vec<(String, u32)> =
        INDEX.iter().map(|&(name, blocks)| (name.to_owned(), blocks)).collect();
    let first_article = files.len() as u32;
    files.extend(sizes.iter().enumerate().map(|(number, &size)| (format!("articles/{number:04}"), size)));

    let partition_of = |article: u32| (article * PARTITIONS / ARTICLE_FILES) as usize;
    let mut partition_blocks = vec![0; PARTITIONS as usize];
    for (article, &size) in (0..).zip(&sizes) {
        partition_blocks[partition_of(article)] += size;
    }
    // Partitions in random order go to the first set until it is full, then to the second.
    let mut order: Vec<usize> = (0..PARTITIONS as usize).collect();
    random.shuffle(&mut order);
    let (mut twice, mut rare) = (TWICE_BLOCKS, RARE_BLOCKS);
    let mut searched = [[false; PARTITIONS as usize]; SEARCHES];
    searched[3].fill(true);
    for partition in order {
        let blocks = partition_blocks[partition];
        if blocks <= twice {
            twice -= blocks;
            searched[0][partition] = true;
            searched[1][partition] = true;
        } else if blocks <= rare {
            rare -= blocks;
            searched[2][partition] = true;
        }
    }

    let mut visits: Vec<Visit> = Vec::new();
    for partitions in &searched {
        for (file, &(_, blocks)) in (0..).zip(&INDEX) {
            visits.extend((0..blocks).map(|block| (file, block)));
        }
        for (article, &size) in (0..).zip(&sizes) {
            if partitions[partition_of(article)] {
                visits.extend((0..size).map(|block| (first_article + article, block)));
            }
        }
    }
    Plan {
        files,
        visits: Box::new(repeated(visits, READS).into_iter()),
        shape: Shape::Runs { short: 300.0, long: 100.0, times: 10.0 },
    }
}
