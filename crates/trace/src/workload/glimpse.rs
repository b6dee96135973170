//! A model of glimpse: four searches in an indexed collection of news articles.
//!
//! Known (Kimbrel et al. 1996 section 3.1, Cao, Felten, Li 1994 section 5.1): 40 MB of articles, about
//! 2 MB of index files; every search reads the index files first, always in the same order, then the
//! articles of those partitions that the index names, in the same order too. 27981 reads, 5247 blocks.
//!
//! Assumed: 256 index blocks, which leaves 4991 blocks of articles, all of them searched at least once;
//! a partition is searched by one, two, three or all four of the searches with the shares below, about
//! 1.9 visits of an article block, which gives LRU roughly the block I/Os published for 6.4 and 16 MB
//! caches in 1994; reads in pieces smaller than a block.

use super::compute::Shape;
use super::model::{file_sizes, repeated};
use super::random::Random;
use super::{Plan, Visit};

const READS: u64 = 27_981;
const SEARCHES: u32 = 4;
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
/// Of ten partitions, how many are searched by one, two, three and four of the searches.
const SEARCHED_BY: [u32; 10] = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4];

pub(super) fn glimpse(seed: u64) -> Plan {
    let mut random = Random::new(seed, 2);
    let sizes = file_sizes(ARTICLE_BLOCKS, ARTICLE_FILES, &mut random);
    let mut files: Vec<(String, u32)> =
        INDEX.iter().map(|&(name, blocks)| (name.to_owned(), blocks)).collect();
    let first_article = files.len() as u32;
    files.extend(sizes.iter().enumerate().map(|(number, &size)| (format!("articles/{number:04}"), size)));

    // Bit s of a partition's word: search s looks into it. A random rotation spreads the searches.
    let searched: Vec<u32> = (0..PARTITIONS)
        .map(|partition| {
            let searches = SEARCHED_BY[partition as usize % SEARCHED_BY.len()];
            let start = random.below(SEARCHES);
            (0..searches).fold(0, |bits, nth| bits | 1 << ((start + nth) % SEARCHES))
        })
        .collect();

    let mut visits: Vec<Visit> = Vec::new();
    for search in 0..SEARCHES {
        for (file, &(_, blocks)) in (0..).zip(&INDEX) {
            visits.extend((0..blocks).map(|block| (file, block)));
        }
        for (article, &size) in (0..).zip(&sizes) {
            let partition = article * PARTITIONS / ARTICLE_FILES;
            if searched[partition as usize] >> search & 1 == 1 {
                visits.extend((0..size).map(|block| (first_article + article, block)));
            }
        }
    }
    Plan { files, visits: Box::new(repeated(visits, READS).into_iter()), shape: Shape::Even }
}
