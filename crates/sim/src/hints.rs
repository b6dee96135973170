//! Hints as users have them: incomplete, wrong, or not reaching far ahead.
//!
//! The paper assumes complete and exact disclosure (Kimbrel et al. 1996, section 1.4 leaves the rest
//! open). Here a share of the disclosed references is left out, replaced by others, or supplemented by
//! references that will not happen, and the reach may be limited.

use foretell_policy::Block;
use serde::Serialize;

use crate::input::{InputReference, Survey};

/// What is done to the disclosed references.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Hints {
    /// Share of references left out, 0 to 1.
    pub drop_share: f64,
    /// Share of references before which one is inserted that does not happen, 0 to 1.
    pub insert_share: f64,
    /// Share of references replaced by another block of the same file, 0 to 1.
    pub perturb_share: f64,
    /// Share of the visits to a file, each with all its references until another file's turn, that come in each other's
    /// places, 0 to 1: at 1 the order of the files is lost.
    pub shuffle_share: f64,
    /// Disclosed references ahead of the cursor at most.
    pub lookahead: Option<u32>,
}

impl Hints {
    /// The disclosed list for one process.
    pub(crate) fn disclosed(&self, survey: &Survey, process: &[InputReference], seed: u64) -> Vec<Block> {
        let block = |file: u32, index: u32| Block::new(foretell_policy::FileId(file), index);
        let shuffled;
        let process = if self.shuffle_share > 0.0 {
            shuffled = self.shuffled(process, seed);
            &shuffled
        } else {
            process
        };
        if self.drop_share == 0.0 && self.insert_share == 0.0 && self.perturb_share == 0.0 {
            return process.iter().map(|r| block(r.file, r.block)).collect();
        }
        let mut random = SplitMix(seed ^ 0x0068_696e_7473);
        let mut list = Vec::with_capacity(process.len());
        for r in process {
            let length = survey.file_blocks[r.file as usize].max(1);
            if random.share() < self.insert_share {
                list.push(block(r.file, random.below(length)));
            }
            if random.share() < self.drop_share {
                continue;
            }
            let index = if random.share() < self.perturb_share { random.below(length) } else { r.block };
            list.push(block(r.file, index));
        }
        list
    }

    /// The references with some of the visits in each other's places.
    fn shuffled(&self, process: &[InputReference], seed: u64) -> Vec<InputReference> {
        let mut random = SplitMix(seed ^ 0x7368_7566_666c);
        let mut visits: Vec<&[InputReference]> = process.chunk_by(|a, b| a.file == b.file).collect();
        let chosen: Vec<usize> = (0..visits.len()).filter(|_| random.share() < self.shuffle_share).collect();
        // Fisher and Yates, among those that were chosen.
        for last in (1..chosen.len()).rev() {
            visits.swap(chosen[last], chosen[random.below(last as u32 + 1) as usize]);
        }
        visits.concat()
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
#[derive(Debug)]
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }
}
